"""Any label CSV reads as a plain reader of RFC 4180 reads it; any gold set or changed file is read or refused."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from salcli.errors import SalcliError
from salcli.formats.gold_sets import read_similarity
from salcli.formats.label_table import read_labels
from salcli.formats.sniff import compression_of

from ..formats.strategies import file_of
from .forked import Commands
from .readers import read_source, strictly, survive
from .seeds import BINARY, BOM, LABELS, PACKERS, SIMILARITY, TEXT
from .strategies import mutated

Table = list[tuple[str, str | None]]
SWAPPED = str.maketrans("\r\n", "\n\r")


def plain_records(text: str, delimiter: str) -> list[list[str]] | None:  # noqa: C901 (a state machine, plain to read as one)
    """Part text into fields letter by letter; None where a quote stands wrong or some lines end in CR alone."""
    records: list[list[str]] = []
    record, field, state, at = [], "", "start", 0
    while at <= len(text):
        letter = text[at] if at < len(text) else ""
        ends_line = letter in ("\n", "") or text.startswith("\r\n", at) or (letter == "\r" and at == len(text) - 1)
        if state == "quoted":
            if letter == "":
                return None
            if letter == '"':
                state = "quote"
            else:
                field += letter
        elif letter == delimiter or ends_line:
            record.append(field)
            field, state = "", "start"
            if ends_line:
                if letter or record != [""]:
                    records.append(record)
                record = []
                at += letter == "\r"
        elif letter == "\r":
            return None
        elif state == "quote":
            if letter != '"':
                return None
            field, state = field + '"', "quoted"
        elif state == "start" and letter == '"':
            state = "quoted"
        else:
            field, state = field + letter, "plain"
        at += 1
    return records


def lacks_row_names(text: str, header: list[str], delimiter: str) -> bool:
    """Return whether the line below the header has one field more, as R's `write.table` writes it."""
    line = text.removesuffix("\n").split("\n")[1:2]
    if not line or line[0].rstrip("\r").endswith(delimiter):
        return False
    below = plain_records(line[0], delimiter)
    return len((below or [[]])[0]) == len(header) + 1


def without_row_names(records: list[list[str]]) -> list[list[str]]:
    """Drop the first field of each row below the header; one that has another number of fields is left as it is."""
    header, *rows = records
    return [header, *(row[1:] if len(row) == len(header) + 1 else ["", *header] for row in rows)]


def plainly_read(data: bytes) -> Table | None:
    """Read keys and labels of a CSV with the columns `word` and one other; None where it must be refused."""
    text = data.removeprefix(BOM).decode("utf-8", "surrogateescape")
    is_cr = re.match(r"[^\r\n]*\r(?!\n)", text) is not None  # of the first line: then it ends all of them
    text = text.translate(SWAPPED) if is_cr else text
    first = text.partition("\n")[0]
    records = plain_records(text, max(",;\t", key=first.count))
    records = [[cell.translate(SWAPPED) for cell in record] for record in records or ()] if is_cr else records
    if not records:
        return None
    while len(records[0]) > 1 and records[-1] == [""]:
        del records[-1]
    if lacks_row_names(text, records[0], max(",;\t", key=first.count)):
        records = without_row_names(records)
    names = [name.strip() for name in records[0]]
    if len(names) != 2 or len(set(names)) < 2 or "" in names or "word" not in names or len(records) < 2:
        return None
    if any(name.lower() in ("key", "id", "token", "word", "split") for name in names if name != "word"):
        return None
    key, label = names.index("word"), 1 - names.index("word")
    if any(len(record) != 2 or not record[key] for record in records):
        return None
    labels = [record[label].strip() for record in records[1:]]
    if not any(labels) or any("\udc80" <= c <= "\udcff" for cell in labels for c in cell):
        return None
    found: dict[str, str] = {}
    for record, cell in zip(records[1:], labels, strict=True):
        if found.setdefault(record[key], cell) != cell:
            return None
    return [(word, cell or None) for word, cell in found.items()]


PIECES = (
    b"a",
    b"F",
    b"M",
    b",",
    b",",
    b";",
    b"\t",
    b'"',
    b'""',
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\xff",
    "é".encode(),
    b"\0",
)
CELL = st.lists(st.sampled_from(PIECES), max_size=3).map(b"".join)
QUOTED = CELL.map(lambda cell: b'"' + cell.replace(b'"', b'""') + b'"')
PLAIN = st.sampled_from([b"a", b"b", b"c", b"F", b"M", b"F ", b"", b"null", "é".encode(), b"x y"])


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """CSV files, most of them good, with something odd in every few cells."""
    delimiter = draw(st.sampled_from([b",", b",", b";", b"\t"]))
    ends = draw(st.sampled_from([[b"\n"], [b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\n", b"\n\n"], [b"\r"]]))
    cells = draw(st.sampled_from([PLAIN, PLAIN | QUOTED, PLAIN | QUOTED | CELL]))
    header = draw(
        st.sampled_from([b"word%by", b"word%by", b"y%bword", b'"word"%b"y"', b"word %b y", b"word", b"%b", b"word%bid"])
    )
    lines = [header.replace(b"%b", delimiter)]
    for _ in range(draw(st.integers(0, 4))):
        lines.append(delimiter.join(draw(cells) for _ in range(draw(st.sampled_from([2, 2, 2, 2, 2, 1, 3])))))
    data = b"".join(line + draw(st.sampled_from(ends)) for line in lines)
    return draw(st.sampled_from([b"", b"", BOM])) + (data[:-1] if draw(st.integers(0, 4)) == 0 else data)


@pytest.mark.slow
@settings(max_examples=800)
@given(tables())
@example(b'word,y\na,"F\n')
@example(b'word,y\na,F"\n')
@example(b"word,y\n\na,F\n")
def test_any_label_csv_reads_as_the_plain_reader_reads_it_or_is_refused(data: bytes) -> None:
    expected, found = plainly_read(data), None
    with file_of(data, "y.csv") as path, strictly():
        try:
            labels = read_labels(str(path))
        except SalcliError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
        else:
            attribute = labels.attributes[0]
            assert attribute.classes is not None
            values = [attribute.classes[code] if code >= 0 else None for code in attribute.values]
            found = list(zip(labels.keys or (), values, strict=True)) if labels.keys is not None else []
    if expected is not None:
        assert found == expected
    elif found:
        pytest.fail(f"the plain reader refuses what was read: {found}")


def test_the_plain_reader_itself_knows_the_rules() -> None:
    assert plainly_read(b'word;y\r\n"a;""b";F\r\nc;\r\n') == [('a;"b', "F"), ("c", None)]
    assert plainly_read(BOM + b"y\tword\nF\ta\n") == [("a", "F")]
    assert plainly_read(b'word,y\ra,"F\nM"\r') == [("a", "F\nM")]
    for refused in (
        b"word,y\n",
        b"word,y\na\n",
        b'word,y\na,"F"x\n',
        b"word,y\na,F\na,M\n",
        b"word,y\n,F\n",
        b"word,y\na,F\rb,M\n",
    ):
        assert plainly_read(refused) is None
    assert csv.list_dialects()


@settings(max_examples=150)
@given(mutated(LABELS))
def test_a_changed_label_csv_is_refused_or_read(data: bytes) -> None:
    survive("labels", data)


@settings(max_examples=250)
@given(mutated(SIMILARITY))
def test_a_changed_similarity_set_is_refused_or_read_to_its_end(data: bytes) -> None:
    with file_of(data, "s.tsv") as path, strictly():
        try:
            found = read_similarity(str(path))
        except SalcliError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
            return
    assert len(found.pairs) == len(found.scores) > 0
    assert np.isfinite(found.scores).all()
    lines = [line for line in data.split(b"\n") if line.strip() and not line.lstrip(b" ").startswith(b"#")]
    assert len(lines) - 1 <= len(found.pairs) <= len(lines)


PACKED = [pack(TEXT[0]) for pack in PACKERS]


@settings(max_examples=250)
@given(mutated([*TEXT, *BINARY, *PACKED]))
def test_a_changed_text_or_packed_file_is_refused_or_read(data: bytes) -> None:
    survive("text", data)


@settings(max_examples=200)
@given(mutated(PACKED))
def test_a_changed_packed_file_is_refused_or_read_unchanged(data: bytes) -> None:
    if compression_of(data) is None:
        return
    whole = []
    for content in (TEXT[0], data):
        with file_of(content, "x.txt") as path, strictly():
            try:
                whole.append(read_source(str(path)))
            except SalcliError:
                return
    if not data.startswith(b"BZh"):  # bz2 keeps checksums of what was packed, as the others do
        assert whole[0][0] == whole[1][0]
    np.testing.assert_array_equal(whole[0][1], whole[1][1])


def test_the_seeds_are_read() -> None:
    assert all(survive("labels", data) for data in LABELS)
    assert all(survive("similarity", data) for data in SIMILARITY)
    assert [survive("text", data) for data in (TEXT[0], TEXT[1], TEXT[4], *PACKED)] == [True] * 6
    assert [survive("text", data) for data in TEXT[2:4]] == [False] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_changed_file_ends_the_command_in_one_line(commands: Commands, tmp_path: Path, seed: int) -> None:
    rng, n_refused = np.random.default_rng(seed), 0
    (tmp_path / "y.csv").write_bytes(LABELS[0])
    for data in (*TEXT[:2], *BINARY[:2], *PACKED):
        held = bytearray(data)
        for at in rng.integers(0, len(held), 3):
            held[at] = rng.integers(256)
        (tmp_path / "x.txt").write_bytes(held)
        done = commands.run("fit", tmp_path / "x.txt", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
        assert done.code in (0, 3), done
        errors = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
        assert [line[:7] for line in errors] == (["error: "] if done.code else [])
        assert (tmp_path / "e.npz").exists() == (done.code == 0)
        (tmp_path / "e.npz").unlink(missing_ok=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["x.txt", "y.csv"]
        n_refused += done.code == 3
    assert n_refused

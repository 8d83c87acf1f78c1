"""word2vec text and GloVe text: against a slow plain reader, against gensim, and back to the same bytes."""

import gzip
import io
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, RangeError, SalcliWarning
from salcli.formats.registry import create, open_source, output_format
from salcli.formats.word2vec_text import TextWriter

from .strategies import (
    BAD_NUMBERS,
    BOM,
    NONFINITE_NUMBERS,
    SAMPLE_DATA,
    file_of,
    good_numbers,
    read_whole,
    unwarned,
    words,
)

Rows = list[tuple[bytes | None, list[float]]]


def number_in(field: bytes) -> float | None:
    """Python's float, without what it allows beyond plain numbers: digit groups, other scripts, white space."""
    if not field.isascii() or b"_" in field or len(field.split()) != 1 or field != field.strip():
        return None
    try:
        return float(field)
    except ValueError:
        return None


def cut_from_the_right(row: bytes, d: int) -> tuple[bytes, list[bytes]] | None:
    rest, before, fields = row.rstrip(b" \t"), b"", []
    for _ in range(d):
        cut = max(rest.rfind(b" "), rest.rfind(b"\t")) + 1
        if cut == 0:
            return None
        fields.insert(0, rest[cut:])
        before = rest[:cut]
        rest = before.rstrip(b" \t")
    word = rest or before[:-1]
    return (word, fields) if word else None


def fields_of(row: bytes) -> list[bytes]:
    return [part for part in row.replace(b"\t", b" ").split(b" ") if part]


def have_words(rows: list[bytes]) -> bool | None:
    """Whether rows begin with words, by the first field of each; None where nobody can tell."""
    firsts = [(*fields_of(row), b"")[0] for row in rows]
    values = [number_in(first) for first in firsts]
    pointed = [value is not None and b"n" not in first.lower() and any(mark in first.lower() for mark in (b".", b"e"))
               for first, value in zip(firsts, values, strict=True)]  # fmt: skip
    return True if None in values or not any(pointed) else False if all(pointed) else None


def plainly_read(data: bytes, *, drops_nonfinite: bool = False) -> Rows | None:
    """Read a text file by the rules, row by row; None where it must be refused."""
    *rows, last = data.removeprefix(BOM).split(b"\n")
    first = rows[0] if rows else last  # a lone line of two whole numbers announces rows that are not there
    fields = first.removesuffix(b"\r").replace(b"\t", b" ").split(b" ")
    numbers = [field for field in fields if field]
    is_header = len(numbers) == 2 and all(f.isdigit() and len(f) <= 18 for f in numbers)  # more digits count nothing
    header = [int(field) for field in numbers] if is_header else None
    if header and not rows:
        return None
    rows = rows[1:] if header else rows
    if not last.strip(b" \t\r"):
        last = b""
        while rows and not rows[-1].strip(b" \t\r"):
            rows.pop()
    if all(row.endswith(b"\r") for row in rows):  # a last row may lack its line end altogether
        rows, last = [row[:-1] for row in rows], last.removesuffix(b"\r")
    rows += [last] if last else []
    counts = Counter(len(fields_of(row)) for row in rows)
    is_narrow = header and rows and len(fields_of(rows[0])) == header[1] and rows[0][:2].strip(b" \t")
    keyed = have_words(rows) if not header or is_narrow else True
    d = header[1] if header else min(counts, key=lambda count: (-counts[count], count), default=0) - bool(keyed)
    if not rows or d < 1 or (header and header[0] != len(rows)) or keyed is None:
        return None
    found: Rows = []
    for row in rows:
        cut: Any = cut_from_the_right(row, d) if keyed else (None, fields_of(row)) if counts == {d: len(rows)} else None
        values = [number_in(field) for field in cut[1]] if cut else [None]
        if cut is None or None in values:
            return None
        if np.isfinite(values).all():
            found.append((cut[0], values))  # type: ignore[arg-type]
        elif not drops_nonfinite:
            return None
    return found or None


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Text files of vectors: mostly good ones, each with its own kinds of oddities."""
    d, is_bare = draw(st.integers(1, 4)), draw(st.integers(0, 5)) == 0
    firsts = good_numbers.filter(lambda number: b"." in number or draw(st.integers(0, 30)) == 0)
    word = draw(st.sampled_from([words(), words(b" ", b"  ", b"\t", max_pieces=3), words(b" ", min_pieces=0)]))
    spacing = draw(st.sampled_from([[b" "], [b" "], [b"\t"], [b" ", b"  ", b"\t"]]))
    trailing = draw(st.sampled_from([[b""], [b""], [b" "], [b"", b" ", b"\t "]]))
    ends = draw(st.sampled_from([[b"\n"], [b"\n"], [b"\r\n"], [b"\n", b"\r\n"]]))
    odd = draw(st.sampled_from([(), (), (), NONFINITE_NUMBERS, BAD_NUMBERS]))
    widths = draw(st.sampled_from([[d], [d], [d], [d, d, d, d + 1], [d, d, d, d - 1]]))
    rows = []
    for _ in range(draw(st.integers(0, 9))):
        fields = [draw(good_numbers) for _ in range(draw(st.sampled_from(widths)))]
        if odd and fields and draw(st.integers(0, 3)) == 0:
            fields[draw(st.integers(0, len(fields) - 1))] = draw(st.sampled_from(odd))
        parts = [draw(firsts), *fields[1:]] if is_bare else [draw(word), *fields]
        row = b"".join(part + draw(st.sampled_from(spacing)) for part in parts[:-1]) + parts[-1]
        rows.append(row + draw(st.sampled_from(trailing)) + draw(st.sampled_from(ends)))
    n = len(rows)
    header = draw(st.sampled_from([None, None, (n, d), (n, d), (n, d), (n + 1, d), (max(0, n - 1), d), (n, d + 1)]))
    first = b"" if header is None else b"%d %d" % header + draw(st.sampled_from(ends))
    blanks = draw(st.sampled_from([b"", b"", b"\n", b"\r\n", b"\n \t\n\n", b" "]))
    data = draw(st.sampled_from([b"", b"", BOM])) + first + b"".join(rows) + blanks
    return data[:-1] if data.endswith(b"\n") and draw(st.integers(0, 3)) == 0 and rows else data


@pytest.mark.slow
@settings(max_examples=700)
@given(
    files(),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([1, 7, 64, 4 << 20]),
    st.booleans(),
)
@example(b"a b 1 2\n" + BOM + b"c 1 2\nd 1 2\n", None, 4 << 20, False)
@example(b"2 1\nab nan\nc 1\n", None, 4 << 20, True)
@example(b"ab nan\nc 1\n", None, 4 << 20, True)
@example(b"1 0", None, 1, False)
@example(b"0 123456789012345678901234567890", None, 1, False)
@example(b"a 1 2\n\n\n\n", None, 4 << 20, False)
@example(b"a 1 2\nb\nc\n", None, 4 << 20, False)
@example(b"a 1 2 \r\nb 3 4 \r\nc 5 6", 1, 1, False)
def test_any_file_reads_as_the_plain_reader_reads_it_for_any_size_of_batch(
    data: bytes, batch_rows: int | None, span_bytes: int, drops_nonfinite: bool
) -> None:
    expected = plainly_read(data, drops_nonfinite=drops_nonfinite)
    options: dict[str, Any] = {
        "batch_rows": batch_rows,
        "allow_nonfinite": drops_nonfinite,
        "text_dtype": np.dtype(np.float64),
        "survey_bytes": span_bytes,
    }
    with file_of(data) as path, unwarned():
        if expected is None:
            with pytest.raises(FormatError, match=str(path)):
                read_whole(path, **options)
            return
        found = read_whole(path, **options)
    assert found.words == words_of(expected)
    assert found.vectors.tobytes() == np.array([row for _, row in expected]).tobytes()


@settings(max_examples=60)
@given(files())
def test_a_compressed_file_reads_as_the_plain_one(data: bytes) -> None:
    expected = plainly_read(data)
    with file_of(gzip.compress(data), "vectors.txt.gz") as path, unwarned():
        if expected is None:
            with pytest.raises(FormatError, match=str(path)):
                read_whole(path, text_dtype=np.dtype(np.float64), batch_rows=2)
            return
        found = read_whole(path, text_dtype=np.dtype(np.float64), batch_rows=2)
    assert found.words == words_of(expected)
    assert found.vectors.tobytes() == np.array([row for _, row in expected]).tobytes()


def words_of(rows: Rows) -> list[bytes]:
    return [word for word, _ in rows if word is not None]


def test_the_plain_reader_itself_knows_the_rules() -> None:
    assert plainly_read(b"a 1 2\nnew york 3 4\n") == [(b"a", [1, 2]), (b"new york", [3, 4])]
    assert plainly_read(b"2 2\na 1 2\n\t\t3 4") == [(b"a", [1, 2]), (b"\t", [3, 4])]
    assert plainly_read(b"a 1\r\nb 2\r\n") == [(b"a", [1]), (b"b", [2])]
    assert plainly_read(b"a 1\r\nb 2\n") is None
    assert plainly_read(b"a 1\nb nan\n") is None
    assert plainly_read(b"a 1\nb nan\n", drops_nonfinite=True) == [(b"a", [1])]


# --- gensim -------------------------------------------------------------------------------------------------------


def of_gensim(path: Path, **options: Any) -> tuple[list[str], NDArray[np.float32]]:
    vectors = KeyedVectors.load_word2vec_format(str(path), **options)
    return vectors.index_to_key, vectors.vectors


# gensim leaves the file open that it has counted rows in
leaves_open = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

gensim_words = st.lists(
    st.text(st.characters(blacklist_categories=("Cc", "Cs", "Z")), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
    unique=True,
)


@pytest.mark.slow
@leaves_open
@settings(max_examples=150)
@given(gensim_words, st.integers(1, 5), st.data())
def test_the_same_float32_as_gensim_bit_for_bit(keys: list[str], d: int, data: st.DataObject) -> None:
    assume(d > 1 or not keys[0].isdigit())
    lines = [" ".join([key, *(data.draw(good_numbers).decode() for _ in range(d))]) for key in keys]
    body = "".join(f"{line}\n" for line in lines).encode()
    for content, no_header in ((b"%d %d\n" % (len(keys), d) + body, False), (body, True)):
        with file_of(content) as path, unwarned():
            with np.errstate(over="ignore"):
                expected_keys, expected = of_gensim(path, no_header=no_header)
            if not np.isfinite(expected).all():
                with pytest.raises(RangeError, match="does not fit float32"):
                    read_whole(path)
                continue
            found = read_whole(path)
        assert found.format == ("glove" if no_header else "word2vec-text")
        assert list(found.keys or ()) == expected_keys
        assert found.vectors.dtype == np.float32
        assert found.vectors.tobytes() == expected.tobytes()


@leaves_open
@pytest.mark.parametrize("has_header", [True, False])
def test_the_glove_sample_reads_as_gensim_reads_it(tmp_path: Path, has_header: bool) -> None:
    path = SAMPLE_DATA / "glove-sample.txt"
    if not has_header:
        path = tmp_path / "glove.txt"
        path.write_bytes((SAMPLE_DATA / "glove-sample.txt").read_bytes().partition(b"\n")[2])
    keys, vectors = of_gensim(path, no_header=not has_header)
    found = read_whole(path)
    assert (found.n, found.d) == (5000, 100)
    assert list(found.keys or ()) == keys
    assert found.vectors.tobytes() == vectors.tobytes()


def test_what_is_written_reads_in_gensim_to_the_same_bits(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 7)).astype(np.float32)
    keys = tuple(f"wörd{i}" for i in range(50))
    path = tmp_path / "vectors.txt"
    path.write_bytes(written(keys, vectors))
    found_keys, found = of_gensim(path)
    assert found_keys == list(keys)
    assert found.tobytes() == vectors.tobytes()


# --- writing ------------------------------------------------------------------------------------------------------


def written(keys: tuple[str, ...], vectors: NDArray[Any], *, has_header: bool = True, batch_rows: int = 3) -> bytes:
    handle = io.BytesIO()
    n, d = vectors.shape
    writer = TextWriter(handle, n=n, d=d, dtype=vectors.dtype, has_header=has_header, target="out.txt")
    for start in range(0, n, batch_rows):
        stop = start + batch_rows
        writer.write(writer.encode(Embeddings.starting_at(start, vectors[start:stop], keys[start:stop])))
    writer.close()
    return handle.getvalue()


def is_writable(word: bytes) -> bool:
    """Whether some row of text can hold the word: `the last d fields` and `one separator less` leave no other."""
    return bool(word) and b"\n" not in word and (not word.endswith((b" ", b"\t")) or not word.strip(b" \t"))


any_words = st.one_of(words(b" ", b"\t", b"  ", b"\n", min_pieces=0), st.sampled_from([b" ", b"\t \t", b"a ", b"a\t"]))


def matrices(n: int, dtype: type) -> st.SearchStrategy[NDArray[Any]]:
    width = 32 if dtype is np.float32 else 64
    floats = st.floats(allow_nan=False, allow_infinity=False, width=width, allow_subnormal=True)
    special = st.sampled_from(
        [dtype(0), dtype(-0.0), np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max]
    )
    return st.integers(1, 4).flatmap(
        lambda d: st.lists(st.one_of(floats, special), min_size=n * d, max_size=n * d).map(
            lambda values: np.array(values, dtype).reshape(n, d)
        )
    )


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(any_words, min_size=1, max_size=7), st.sampled_from([np.float32, np.float64]), st.data())
def test_what_is_written_with_a_header_reads_back_the_same_and_is_written_again_the_same(
    held: list[bytes], dtype: type, data: st.DataObject
) -> None:
    keys = tuple(word.decode("utf-8", "surrogateescape") for word in held)
    vectors = data.draw(matrices(len(keys), dtype))
    if not all(map(is_writable, held)):
        with pytest.raises(FormatError, match=r"^out\.txt: key .* would not read back the same"):
            written(keys, vectors)
        return
    once = written(keys, vectors)
    with file_of(once) as path, unwarned():
        found = read_whole(path, text_dtype=np.dtype(dtype))
    assert found.keys == keys
    assert found.vectors.dtype == dtype
    assert found.vectors.tobytes() == vectors.tobytes()
    assert written(found.keys, found.vectors, batch_rows=1) == once


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(words().filter(lambda word: not word.startswith(BOM)), min_size=1, max_size=7), st.data())
def test_what_is_written_without_a_header_reads_back_the_same(held: list[bytes], data: st.DataObject) -> None:
    keys = tuple(word.decode("utf-8", "surrogateescape") for word in held)
    vectors = data.draw(matrices(len(keys), np.float32))
    assume(vectors.shape[1] > 1 or not held[0].isdigit())
    if not have_words(held):
        with pytest.raises(FormatError, match=r"^out\.txt: every key begins with a number"):
            written(keys, vectors, has_header=False)
        return
    with file_of(written(keys, vectors, has_header=False)) as path, unwarned():
        found = read_whole(path)
    assert found.format == "glove"
    assert found.keys == keys
    assert found.vectors.tobytes() == vectors.tobytes()


@pytest.mark.parametrize("values", [np.float16([1 / 3, 65504, 6e-8]), np.longdouble([1 / 3, 2, -0.0])])
def test_other_float_types_are_spelled_in_the_nearest_type_that_text_has(values: NDArray[Any]) -> None:
    with file_of(written(("a",), values[None])) as path:
        found = read_whole(path, text_dtype=np.dtype(np.float64))
    np.testing.assert_array_equal(found.vectors.astype(values.dtype), values[None])


@pytest.mark.parametrize("key", ["", "a\nb", "a ", "a\t", "\n", " \n"])
def test_a_key_that_no_row_can_hold_is_refused(key: str) -> None:
    with pytest.raises(FormatError, match=r"^out\.txt: key .* would not read back the same from text"):
        written(("a", key), np.ones((2, 2), np.float32))


@pytest.mark.parametrize("key", ["\x00", "a\x01b", "\x7f\x08"])
def test_a_key_with_control_characters_is_refused_or_reads_back(key: str) -> None:
    try:
        content = written((key, "b"), np.full((2, 2), 0.25, np.float32))
    except FormatError:
        return
    with file_of(content) as path:
        assert read_whole(path).keys == (key, "b")


def test_a_key_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(FormatError):
        written(("\ud800",), np.ones((1, 2), np.float32))


@pytest.mark.parametrize("keys", [("new york", "old york"), ("a 5", "b 5", "c")])
def test_keys_with_spaces_are_refused_without_a_header_or_read_back(keys: tuple[str, ...]) -> None:
    vectors = np.ones((len(keys), 2), np.float32)
    try:
        content = written(keys, vectors, has_header=False)
    except FormatError:
        return
    with file_of(content) as path, unwarned():
        assert read_whole(path).keys == keys


def test_a_first_row_that_would_be_taken_for_a_byte_order_mark_is_refused_without_a_header() -> None:
    vectors = np.ones((2, 1), np.float32)
    with pytest.raises(FormatError, match="in line 1"):
        written(("\ufeffa", "b"), vectors, has_header=False)
    assert written(("b", "\ufeffa"), vectors, has_header=False)
    assert written(("\ufeffa", "b"), vectors)


@pytest.mark.parametrize("name", ["out.txt", "out.vec", "out.TSV.gz"])
def test_text_of_rows_without_keys_is_rows_of_numbers_in_tsv_and_refused_elsewhere(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "x.npy", x := np.float32([[1, -2.5], [1e-30, 0]]))
    target = tmp_path / name
    with open_source(str(tmp_path / "x.npy")) as source:
        format_name = output_format(str(target), source, None)
        with ExitStack() as stack:
            if "tsv" not in name.lower():
                stack.enter_context(
                    pytest.raises(FormatError, match="text needs a key for every row.*`keys_file=FILE`")
                )
            with create(str(target), source, d=2, dtype=x.dtype, format_name=format_name) as writer:
                writer.write(writer.encode(Embeddings.starting_at(0, x)))
    if target.exists():
        assert gzip.decompress(target.read_bytes()) == b"1.0\t-2.5\n1e-30\t0.0\n"
        assert (found := read_whole(target)).keys is None
        assert found.vectors.tobytes() == x.tobytes()


BARE = b"0.5 1 -2\n-1.5e3 0 4\n.25 7 -1\n"


@pytest.mark.parametrize(
    ("data", "keyed", "keys"),
    [
        (BARE, None, None),
        (BARE.replace(b" ", b"\t"), None, None),
        (b"   0.50  1 -2\n-15.00   0 4  \n  0.25  7 -1", None, None),
        (b"3 3\n" + BARE, None, None),
        (b"3 2\n" + BARE, None, ("0.5", "-1.5e3", ".25")),
        (BARE, True, ("0.5", "-1.5e3", ".25")),
        (b"7 1 -2\n8 0 4\n9 7 -1\n", None, ("7", "8", "9")),
        (b"7 1 -2\n8 0 4\n9 7 -1\n", False, None),
        (b"7 1 -2\n8.5 0 4\n", False, None),
        (b"7 1 -2\n8.5 0 4\n", True, ("7", "8.5")),
    ],
)
def test_rows_of_numbers_only_have_no_keys_unless_the_first_are_whole(
    data: bytes, keyed: bool | None, keys: tuple[str, ...] | None
) -> None:
    with file_of(data) as path, unwarned():
        found = read_whole(path, keyed=keyed, text_dtype=np.dtype(np.float64), batch_rows=1)
    assert found.keys == keys
    numbers = [[float(field) for field in line.split()] for line in data.splitlines() if line.split() not in HEADERS]
    np.testing.assert_array_equal(found.vectors, [row[keys is not None :] for row in numbers])


HEADERS = ([b"3", b"3"], [b"3", b"2"])


@pytest.mark.parametrize("first", [b"8", b"nan", b"-inf"])
def test_where_nobody_can_tell_words_from_coordinates_both_options_are_named(first: bytes) -> None:
    with (
        file_of(BARE + first + b" 1 2\n") as path,
        pytest.raises(FormatError, match=r"\(line 1\).*\(line 4\).*`keyed` or `keyed=False`"),
    ):
        read_whole(path)


def test_a_word_after_rows_that_begin_with_numbers_makes_them_words_with_a_warning() -> None:
    with file_of(BARE + b"the 1 2\n0.75 1 2\n") as path, pytest.warns(SalcliWarning, match="line 4 begins with a word"):
        assert read_whole(path).keys == ("0.5", "-1.5e3", ".25", "the", "0.75")


@pytest.mark.parametrize("last", [b"0.5 1\n", b"0.5 1 2 3\n", b"0.5 1 x\n", b"0.5 1 0,5"])
def test_a_row_of_numbers_only_that_is_unlike_the_others_is_named(last: bytes) -> None:
    with file_of(BARE + last) as path, pytest.raises(FormatError, match="line 4: "):
        read_whole(path)


# --- messages -----------------------------------------------------------------------------------------------------

LONG = b"x" * 100


COMMENT = " (a comment, as numpy.savetxt writes its header? Delete that line)"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"2 2\na 1 2\nthe 1 zwei\n", "line 3: word 'the': field 2 of 2 is 'zwei', expected a number"),
        (b"a 1 2\nb 1 2\nthe 1_0 2\n", "line 3: word 'the': field 1 of 2 is '1_0', expected a number"),
        (b"a 1 2\nb 1 2\nthe 1\n", "line 3: word 'the': 1 numbers found, 2 expected"),
        (b"a 1 2\nb 1 2\n\nc 1 2\n", "line 3: an empty row, expected a word and 2 numbers"),
        (b"a 1 2\nb 1 2\n 1 2\n", "line 3: an empty word before 2 numbers"),
        (b"3 2\na 1 2\nb 1 2\n", "line 1 announces 3 rows, 2 were found"),
        (b"1 2\na 1 2\nb 1 2\n", "line 1 announces 1 rows, 2 were found"),
        (b"0 2\n", "no rows to read: the matrix is empty, 0 rows of 2 dimensions"),
        (b"1 0\na\n", "no rows to read: the matrix is empty, 1 rows of 0 dimensions"),
        (b"a\nb\n", "line 1: 'a', expected a word and its numbers, with spaces between them"),
        (
            b"word,g\na,1\n",
            "line 1: 'word,g', expected a word and its numbers, with spaces between them: is this a CSV?",
        ),
        (
            b"# a b c\n1.0 2.0 3.0\n1.5 2.0 3.0\n",
            f"line 1: word '# a': field 1 of 2 is 'b', expected a number{COMMENT}",
        ),
        (b"# x\n1.0 2.0 3.0\n1.5 2.0 3.0\n", f"line 1: word '#': 1 numbers found, 2 expected{COMMENT}"),
        (b"some prose\nmore of it\nand that\n", "line 1: word 'some': field 1 of 1 is 'prose', expected a number"),
        (b"2 2\na 1 2\n" + LONG + b" 1 -\n", f"line 3: word '{'x' * 40}…': field 2 of 2 is '-', expected a number"),
        (b"2 2\na 1 2\n" + LONG + b" 1\n", f"line 3: word '{'x' * 40}…': 1 numbers found, 2 expected"),
        (b"a 1 2\nb 1 " + b"9x" * 99 + b"\n", f"line 2: word 'b': field 2 of 2 is '{'9x' * 20}…', expected a number"),
        (b"a 1 2\r\nb 1 2\n", "line 1: word 'a': field 2 of 2 is '2\\r', expected a number"),
        (b"a 1 2\nb 1 nan\n", "line 2 ('b'): nan, expected finite numbers (`allow_nonfinite` drops such rows)"),
        (b"2 2\na 1 2\nb -inf 1\n", "line 3 ('b'): -inf, expected finite numbers (`allow_nonfinite` drops such rows)"),
    ],
)
@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_message_names_file_line_word_found_and_expected(data: bytes, message: str, batch_rows: int | None) -> None:
    with file_of(data) as path:
        with pytest.raises(FormatError) as caught:
            read_whole(path, batch_rows=batch_rows)
        assert str(caught.value) == f"{path}: {message}"


def test_a_cut_file_with_nothing_but_its_header_is_no_row() -> None:
    with file_of(b"3 4") as path, pytest.raises(FormatError, match="0 rows|0 were found"):
        read_whole(path)


@pytest.mark.parametrize("number", ["1e39", "-3.5e38", "3.4028235677973366e38", "1e308"])
def test_a_number_beyond_float32_is_refused_naming_the_way_out(number: str) -> None:
    with file_of(f"a 1 2\nb 1 {number}\n".encode()) as path:
        with pytest.raises(RangeError, match=rf"^{path}: line 2: .* does not fit float32: .*float64"):
            read_whole(path)
        found = read_whole(path, text_dtype=np.dtype(np.float64))
    assert found.vectors[1, 1] == float(number)


def test_the_greatest_float32_is_read() -> None:
    with file_of(b"a 3.4028235677973362e38 -3.4028234e38\n") as path:
        assert read_whole(path).vectors.tolist() == [
            [float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max)]
        ]


@pytest.mark.parametrize("number", NONFINITE_NUMBERS)
@pytest.mark.parametrize("header", [b"", b"4 2\n"])
def test_rows_with_nan_or_inf_are_dropped_and_counted_when_allowed(number: bytes, header: bytes) -> None:
    with file_of(header + b"a 1 2\nb 1 " + number + b"\nc 3 4\nd " + number + b" 1\n") as path:
        with pytest.raises(FormatError, match=rf"line {3 if header else 2} \('b'\): "):
            read_whole(path)
        line = 3 if header else 2
        with pytest.warns(SalcliWarning, match=f"2 rows with NaN or Inf are dropped, the first at line {line}$"):
            found = read_whole(path, allow_nonfinite=True, batch_rows=2)
    assert found.keys == ("a", "c")
    assert found.rows == [0, 2]
    assert found.vectors.tolist() == [[1, 2], [3, 4]]


def test_a_file_of_nothing_but_nan_is_refused() -> None:
    with (
        file_of(b"a 1 nan\nb 2 nan\n") as path,
        pytest.raises(FormatError, match="every one of 2 rows holds NaN or Inf"),
    ):
        read_whole(path, allow_nonfinite=True)


@pytest.mark.parametrize("data", [b"a 1\n" + b"x" * (21 << 20), b"x 1" * (7 << 20) + b"\n"], ids=["last", "only"])
def test_a_line_of_more_than_16_mib_is_refused_naming_where_it_begins(data: bytes) -> None:
    with file_of(data) as path:
        begins = data.find(b"\n") + 1 if data.startswith(b"a") else 0
        with pytest.raises(FormatError, match=rf"^{path}: a line of more than 16 MiB \(byte {begins}\)"):
            read_whole(path)


def test_a_row_as_long_as_several_reads_is_read_whole() -> None:
    row = b"w " + b" ".join([b"0.125"] * 3000)
    with file_of(row + b"\n" + row + b"\n") as path:
        found = read_whole(path, survey_bytes=100)
    assert (found.n, found.d) == (2, 3000)
    assert (found.vectors == 0.125).all()


# --- warnings -----------------------------------------------------------------------------------------------------


def test_a_word_that_ends_in_a_number_is_warned_of_with_its_line() -> None:
    with file_of(b"3 2\na 1 2\nthe 7 1 2\nnew york 1 2\n") as path:
        with pytest.warns(SalcliWarning) as caught:
            assert read_whole(path).keys == ("a", "the 7", "new york")
        assert [str(w.message) for w in caught] == [
            f"{path}: line 3: word 'the 7': a word that ends in a number: the row may be too long"
        ]


def test_a_row_of_a_tab_separated_file_that_is_too_long_is_warned_of_too() -> None:
    with file_of(b"a\t1\t2\nb\t1\t2\nthe\t7\t1\t2\n") as path:
        with pytest.warns(SalcliWarning, match="line 3: word .*the row may be too long"):
            read_whole(path)


@pytest.mark.parametrize("word", [b"3", b"3 a", b"a b"])
def test_a_word_of_one_part_or_that_ends_otherwise_is_not_warned_of(
    word: bytes, recwarn: pytest.WarningsRecorder
) -> None:
    with file_of(b"3 2\na 1 2\nb 1 2\n" + word + b" 1 2\n") as path:
        assert read_whole(path).words[2] == word
    assert not [w for w in recwarn if issubclass(w.category, SalcliWarning)]


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_bytes_that_are_not_utf8_travel_unchanged_with_one_warning_that_names_the_first_line(
    batch_rows: int | None,
) -> None:
    with file_of("a 1 2\né 1 2\n".encode() + b"caf\xe9 1 2\nb 1 2\n\xff 1 2\n") as path:
        with pytest.warns(SalcliWarning) as caught:
            found = read_whole(path, batch_rows=batch_rows)
        assert [str(w.message) for w in caught] == [
            f"{path}: line 3: word 'caf\\\\xe9': bytes that are not UTF-8, kept as they are (and 1 more such rows)"
        ]
        assert found.words == [b"a", "é".encode(), b"caf\xe9", b"b", b"\xff"]
        assert written(found.keys or (), found.vectors).splitlines()[3].startswith(b"caf\xe9 ")


# --- dimension ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "d", "keys"),
    [
        (b"at name 1 2\na 1 2\nb 1 2\n", 2, ("at name", "a", "b")),
        (b"1 2 3\na 1 2\nb 1 2\n", 2, ("1", "a", "b")),
        (b"a b 1 2\nc 1 2\n", 2, ("a b", "c")),
        (b"5 7 \na 1\n", None, ()),
    ],
)
def test_without_a_header_the_most_frequent_row_decides_never_line_1_alone(
    data: bytes, d: int | None, keys: tuple[str, ...]
) -> None:
    with file_of(data) as path:
        if d is None:
            with pytest.raises(FormatError, match="line 1 announces 5 rows, 1 were found"):
                read_whole(path)
            return
        found = read_whole(path)
    assert (found.d, found.keys) == (d, keys)


def test_a_forced_header_that_is_not_there_is_missed_with_its_line_quoted() -> None:
    with file_of(b"a 1 2\nb 1 2\n") as path, pytest.raises(FormatError, match="line 1: 'a 1 2', expected a header"):
        read_whole(path, format="word2vec-text")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n \t\r\n", b"  ", b"\n" * 5000])
@pytest.mark.parametrize("span_bytes", [1, 7, 4 << 20])
def test_blank_lines_at_the_end_are_no_rows(end: bytes, span_bytes: int) -> None:
    data = b"2 2\na 1 2\nb 3 4\n" + end
    with file_of(data) as path:
        found = read_whole(path, survey_bytes=span_bytes)
    assert found.keys == ("a", "b")


def test_a_blank_line_between_rows_is_still_refused() -> None:
    with file_of(b"a 1 2\n\nb 3 4\n") as path, pytest.raises(FormatError, match="line 2: an empty row"):
        read_whole(path)


def test_blank_lines_without_end_are_refused_in_bounded_memory() -> None:
    with file_of(b"a 1 2\n" + b"\n" * (17 << 20)) as path, pytest.raises(FormatError, match="nothing but blank lines"):
        read_whole(path)


def test_glove_text_gets_the_header_that_readers_of_vec_need(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a 1 2\nb 3 4\n")
    for name, first in (("o.vec", b"2 2\n"), ("o.txt", b"a 1.0 2.0\n"), ("o.vec.gz", b"2 2\n")):
        with open_source(str(tmp_path / "x.txt")) as source:
            format_name = output_format(str(tmp_path / name), source, None)
            with create(str(tmp_path / name), source, d=2, dtype=source.dtype, format_name=format_name) as writer:
                writer.write(writer.encode(next(source.chunks()).read()))
        data = (tmp_path / name).read_bytes()
        assert (gzip.decompress(data) if name.endswith(".gz") else data).startswith(first)


def test_keys_that_npy_cannot_hold_are_said_to_be_left_behind(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a 1 2\nb 3 4\n")
    with (
        open_source(str(tmp_path / "x.txt")) as source,
        pytest.warns(SalcliWarning, match=r"o\.npy: npy holds no keys: those of .*x\.txt are left behind"),
        create(str(tmp_path / "o.npy"), source, d=2, dtype=source.dtype, format_name="npy") as writer,
    ):
        writer.write(writer.encode(next(source.chunks()).read()).astype(source.dtype))

import csv
import io
import string
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data.labels import GuardedLabels
from salcli.errors import FormatError, LabelError, ParameterError, SalcliWarning, UsageError
from salcli.formats.label_table import read_labels, write_labels
from salcli.options import LabelOptions

from .strategies import file_of

CELLS = st.one_of(
    st.sampled_from(
        ["null", "NA", "nan", "true", "007", "1e5", '"', ",", ";", "a\nb", "a\r\nb", " x ", "é", "\t", "'"]
    ),
    st.text(string.ascii_letters, min_size=1, max_size=5),
)


def read(text: str | bytes, **options: object) -> GuardedLabels:
    with file_of(text.encode() if isinstance(text, str) else text, "labels.csv") as path:
        return read_labels(str(path), LabelOptions(**options))  # type: ignore[arg-type]


def classes_of(labels: GuardedLabels) -> list[str | None]:
    attribute = labels.attributes[0]
    assert attribute.classes is not None
    return [attribute.classes[code] if code >= 0 else None for code in attribute.values]


@given(
    st.lists(CELLS, min_size=1, max_size=8, unique=True),
    st.sampled_from(",;\t"),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_any_table_reads_as_pythons_csv_reads_it(
    keys: list[str], delimiter: str, has_bom: bool, quotes_all: bool, data: st.DataObject
) -> None:
    values = [data.draw(st.sampled_from(["F", "M", "non, binary", 'say "x"', "l1\nl2"])) for _ in keys]
    handle = io.StringIO()
    quoting = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
    writer = csv.writer(
        handle, delimiter=delimiter, quoting=quoting, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))
    )
    writer.writerow(["word", "label"])
    writer.writerows(zip(keys, values, strict=True))
    content = (b"\xef\xbb\xbf" if has_bom else b"") + handle.getvalue().encode()
    labels = read(content)
    rows = list(csv.reader(io.StringIO(handle.getvalue(), newline=""), delimiter=delimiter))[1:]
    assert labels.keys == tuple(row[0] for row in rows)
    assert classes_of(labels) == [row[1].strip() for row in rows]


def test_classes_sort_by_code_point() -> None:
    assert read("word,g\na,b\nb,a\nc,Z\nd,é\ne,10\nf,9\n").attributes[0].classes == ("10", "9", "Z", "a", "b", "é")


def test_without_a_key_column_rows_join_by_position_and_a_blank_cell_is_unlabelled() -> None:
    with pytest.warns(SalcliWarning, match=r"1 rows unlabelled in column 'label' .*line 3"):
        labels = read("label\nF\n\nM\n")
    assert labels.keys is None
    assert classes_of(labels) == ["F", None, "M"]


def test_an_empty_cell_is_never_a_class() -> None:
    with pytest.warns(SalcliWarning, match=r"2 rows unlabelled .*line 3, 'b'"):
        assert classes_of(read("word,label\na,F\nb,\nc,M\nd, \n")) == ["F", None, "M", None]


def test_spaces_around_labels_are_trimmed_and_said_so() -> None:
    with pytest.warns(SalcliWarning, match="line 3: spaces around labels in column 'label'"):
        assert read("word,label\na,F\nb,F \nc, M\nd,M\u00a0\n").attributes[0].classes == ("F", "M")


def test_the_split_column_is_found_and_can_be_named_or_left() -> None:
    text = "word,label,split,part\na,F,train,x\nb,M,test,y\n"
    assert read(text, attributes=("label",)).splits == ("train", "test")
    assert read(text, attributes=("label",), split_column="part").splits == ("x", "y")
    assert read(text, attributes=("label",), no_split=True).splits is None


def test_several_attributes_and_numbers_are_read_from_their_columns() -> None:
    labels = read("gender,age,race\nF,20,x\nM,3.5e1,y\n", attributes=("race", "gender"), numeric=("age",))
    assert [attribute.name for attribute in labels.attributes] == ["race", "gender", "age"]
    assert labels.attributes[2].values.tolist() == [20.0, 35.0]


@pytest.mark.parametrize("cell", ["x", "1_0", "nan", "inf", "0,5"])
def test_a_numeric_column_refuses_what_is_no_finite_number_naming_the_line(cell: str) -> None:
    with pytest.raises(LabelError, match=r"line 3: .* in numeric column 'age'"):
        read(f'age;x\n1;a\n"{cell}";b\n', numeric=("age",))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("gender,race\nF,x\n", {}, "which column is the guarded attribute.*gender, race.*`attributes`"),
        ("word,split\na,train\n", {}, "which column is the guarded attribute.*none"),
        ("word,label\na,F\n", {"attributes": ("sex",)}, "no column 'sex' .*word, label"),
        ("word,id,label\na,1,F\n", {}, "several key columns, word, id.*`key`"),
        ("word,label\na,F\n", {"split_column": "part"}, "no column 'part'"),
        ("word,label\na,\nb,\n", {}, "column 'label' is empty on all 2 rows"),
    ],
)
def test_columns_that_cannot_be_chosen_are_listed(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        read(text, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file"),
        ("word,label\n", "no rows below the header"),
        ("word,label\na,F\nb\n", "line 3: 1 fields, the header has 2"),
        ("word,label\na,F\nb,M,x\n", "line 3: 3 fields, the header has 2"),
        ('word,label\n"a\nb",F\nc\n', "line 4: 1 fields"),
        ("word,label\na,F\n\nb,M\n", "line 3: an empty line"),
        ("word,label\n,F\n", "line 2: an empty key"),
        ("word,word\na,F\n", "column 'word' occurs twice"),
        ("word,\na,F\n", "a column has no name"),
        ('word,label\n"a"b,F\n', "line 2: broken CSV"),
        ('word,label\n"a,F\n', "broken CSV"),
        ("word,label\na," + "F" * (3 << 20) + "\n", "line 2: more than 1 MiB"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(text)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_field_reads_the_same_with_and_without_quotes(quote: str) -> None:
    key = "k" * 1_000_000
    assert read(f"word,label\n{quote}{key}{quote},F\nb,M\n").keys == (key, "b")


def test_one_key_with_two_labels_is_refused_with_both_lines() -> None:
    with pytest.raises(LabelError, match="key 'bolta' is 'F' on line 2 and 'M' on line 4"):
        read("word,label\nbolta,F\nkirun,F\nbolta,M\n")
    with pytest.raises(LabelError, match="is in 'train' on line 2 and in 'test' on line 3"):
        read("word,label,split\na,F,train\na,F,test\n")


def test_one_key_with_the_same_label_twice_counts_once() -> None:
    with pytest.warns(SalcliWarning, match="1 keys occur twice"):
        labels = read("word,label\na,F\nb,M\na,F\n")
    assert labels.keys == ("a", "b")
    assert classes_of(labels) == ["F", "M"]


def test_trailing_blank_lines_are_no_rows() -> None:
    assert len(read("word,label\na,F\nb,M\n\n\n")) == 2


def test_bytes_that_are_not_utf8_stay_in_keys() -> None:
    assert read(b"word,label\n\xff,F\nb,M\n").keys == ("\udcff", "b")


def test_labels_do_not_come_from_stdin() -> None:
    with pytest.raises(UsageError, match="cannot come from stdin"):
        read_labels("-")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="nosuch.csv: cannot be read"):
        read_labels(str(tmp_path / "nosuch.csv"))


def test_a_column_is_asked_for_once() -> None:
    with pytest.raises(UsageError, match="column 'g' is requested twice"):
        read("g,h\nF,1\n", attributes=("g",), numeric=("g",))


def test_a_label_that_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match=r"line 3: label .* is not UTF-8"):
        read(b"word,g\na,F\nb,\xe9\n")


@pytest.mark.parametrize("options", [{"by_row": True, "key": "word"}, {"no_split": True, "split_column": "split"}])
def test_options_that_contradict_each_other_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="contradict"):
        LabelOptions(**options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("quoted", [0, 300, 70_000])
def test_more_classes_than_a_byte_holds_come_from_many_blocks_with_their_lines(quoted: int) -> None:
    cells = [f"class {i:05}" for i in range(40_000)] * 2
    lines = [f'"{cell}"' if i == quoted else cell for i, cell in enumerate(cells)]
    assert classes_of(read("g\n" + "\n".join(lines) + "\n")) == cells
    with pytest.warns(SalcliWarning, match=f"line {quoted + 2}: spaces around labels"):
        read("g\n" + "\n".join([*lines[:quoted], " spaced ", *lines[quoted:]]) + "\n")


def test_labels_take_about_a_byte_a_row(tmp_path: Path) -> None:
    n, path = 4_000_000, tmp_path / "l.csv"
    path.write_bytes(b"label\n" + b"M\nF\n" * (n // 2))
    tracemalloc.start()
    labels = read_labels(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(labels) == n
    assert labels.is_complete
    assert labels.attributes[0].values[:3].tolist() == [1, 0, 1]
    assert peak < 1.5 * n + (12 << 20)  # and what a block of lines takes


def test_a_delimiter_in_a_quoted_name_is_part_of_it() -> None:
    labels = read('word,"a;b;c;d",g\nhe,1,x\nshe,2,y\n', attributes=("a;b;c;d",))
    assert (labels.attributes[0].name, classes_of(labels), labels.keys) == ("a;b;c;d", ["1", "2"], ("he", "she"))
    labels = read('word,"a;b;c\nd"\nhe,1\nshe,2\n')
    assert (labels.attributes[0].name, classes_of(labels), labels.keys) == ("a;b;c\nd", ["1", "2"], ("he", "she"))


@pytest.mark.parametrize("text", ["3 2\nhe 1 2\n", "he 0.1 -2 3e-4\nshe 1 2 3\n"])
def test_vectors_are_not_taken_for_labels(text: str) -> None:
    with pytest.raises(FormatError, match=r"line 1: .* expected the column names of a CSV.*wrong order"):
        read(text)


def test_a_column_that_an_eraser_names_is_not_blamed_on_an_option() -> None:
    options = {"attributes": ("g",), "implied_by": "e.npz", "set_by_user": frozenset({"key"}), "key": "word"}
    with pytest.raises(LabelError, match=r"no column 'g' \(e\.npz was fitted with it\)"):
        read("word,h\nhe,1\n", **options)
    with pytest.raises(LabelError, match=r"no column 'word' \(`key`\)"):
        read("id,g\nhe,1\n", **options)


@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.sampled_from(["a", "b c", "d\re"])), min_size=1, unique_by=lambda r: r[0]
    )
)
def test_what_is_written_reads_back(rows: list[tuple[str, str]]) -> None:
    handle = io.StringIO(newline="")
    write_labels(handle, ["word", "g"], iter(rows))
    labels = read(handle.getvalue().encode("utf-8", "surrogatepass"))
    assert labels.keys == tuple(key for key, _ in rows)
    assert classes_of(labels) == [label for _, label in rows]


def test_a_quote_within_a_name_opens_nothing() -> None:
    labels = read('6" size;word\na;w0\nb;w1\na;w2\n', attributes=('6" size',))
    assert (classes_of(labels), labels.keys) == (["a", "b", "a"], ("w0", "w1", "w2"))


def test_a_column_that_is_named_may_be_called_like_vectors() -> None:
    assert classes_of(read("2024 2025\na\nb\n", attributes=("2024 2025",))) == ["a", "b"]
    assert classes_of(read("the 1 2 3,g\na,x\nb,x\n", attributes=("the 1 2 3",))) == ["a", "b"]
    assert classes_of(read("word,the 1 2 3\nw0,a\nw1,b\n")) == ["a", "b"]


PLAIN_TABLE = "word,label\nbolta,F\nkirun,M\nzoë,F\n"


def pair(labels: GuardedLabels) -> tuple[object, list[str | None]]:
    return labels.keys, classes_of(labels)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN_TABLE.replace("\n", "\r").encode(),
        PLAIN_TABLE.replace("\n", "\r").removesuffix("\r").encode(),
        b"\xef\xbb\xbf" + PLAIN_TABLE.replace("\n", "\r").encode(),
        ("sep=,\r\n" + PLAIN_TABLE).encode(),
        ('"sep=;"\n' + PLAIN_TABLE.replace(",", ";")).encode(),
        ("sep=\t\n" + PLAIN_TABLE.replace(",", "\t")).encode(),
        PLAIN_TABLE.encode("utf-16"),
        PLAIN_TABLE.replace(",", "\t").replace("\n", "\r\n").encode("utf-16"),
        PLAIN_TABLE.encode("utf-16-le"),
        PLAIN_TABLE.encode("utf-16-be"),
        b"\xfe\xff" + PLAIN_TABLE.replace("\n", "\r").encode("utf-16-be"),
        PLAIN_TABLE.encode("utf-32"),
    ],
)
def test_what_spreadsheets_write_reads_as_plain_csv(content: bytes) -> None:
    assert pair(read(content)) == pair(read(PLAIN_TABLE))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_known_in_other_scripts_and_in_large_files(encoding: str) -> None:
    text = "слово;метка\n" + "".join(f"слово{i};{'мж'[i % 2]}\n" for i in range(200_000))
    labels = read(text.encode(encoding), key="слово")
    assert (len(labels), labels.attributes[0].classes, (labels.keys or ())[-1]) == (200_000, ("ж", "м"), "слово199999")


def test_utf16_that_is_cut_is_refused() -> None:
    with pytest.raises(FormatError, match="UTF-16-LE text but does not go on so near byte 39"):
        read("word,label\na,F\nb,M\n".encode("utf-16")[:-1])


def test_line_ends_within_quotes_stay_as_they_are_in_a_file_whose_lines_end_in_cr() -> None:
    labels = read(b'"wo\nrd",label\r"a\nb",F\r"c\rd","x\n\ry"\r', key="wo\nrd")
    assert pair(labels) == (("a\nb", "c\rd"), ["F", "x\n\ry"])


def test_a_line_feed_in_a_file_whose_lines_end_in_cr_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match="line 3: broken CSV"):
        read(b"word,label\ra,F\rb,M\nc,F\r")


def test_a_declared_separator_counts_as_a_line() -> None:
    with pytest.raises(FormatError, match="line 4: 1 fields, the header has 2"):
        read("sep=;\nword;label\na;F\nb\n")
    with pytest.raises(FormatError, match=r"line 1: the separator is '\|', expected"):
        read("sep=|\nword|label\na|F\n")
    with pytest.raises(FormatError, match="no header line"):
        read("sep=;\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('word,label\na,F\n"b,M\nc,F\nd,M\n', "line 3: .*opens here and is not closed to the end"),
        ('word,label\na,F\n"b\nc","M\nc,F\nd,M\n', "line 4: .*opens here and is not closed to the end"),
        ('sep=,\nword,label\na,F\n"b,M\nc,F\nd,M\n', "line 4: .*opens here and is not closed to the end"),
        ('word,label\na,"F\nb,F\nc,"M"\nd,M\n', "line 2: .*opens here and closes on line 4 where no cell ends"),
        ('word,label\na,F\nb,"M\n' + "c,F\n" * 600_000, "line 3: .*is not closed within 2 MiB"),
        ('word,label\nx,F\n"b,M\n' + "c,F\n" * 300_000, "line 3: .*is not closed to the end"),
    ],
)
def test_a_quote_that_is_not_closed_is_refused_with_the_line_where_it_opened(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(text)


def test_a_first_column_without_a_name_is_no_label(recwarn: pytest.WarningsRecorder) -> None:
    labels = read(",gender,city\n0,F,x\n1,M,y\n", attributes=("gender",))
    assert (labels.keys, labels.key_column, classes_of(labels)) == (None, None, ["F", "M"])
    assert labels.index is not None
    assert labels.index.tolist() == [0, 1]
    assert classes_of(read('"","gender"\n"1","F"\n"2","M"\n')) == ["F", "M"]
    assert classes_of(read("Unnamed: 0,Unnamed: 0.1,gender\n0,0,F\n1,1,M\n")) == ["F", "M"]
    assert read(",word,g\n7,a,F\n9,b,M\n").keys == ("a", "b")
    assert read(",word,g\n7,a,F\n9,b,M\n").index is None
    assert read(",g\n7,F\n9,M\n", by_row=True).index is None
    assert not recwarn.list


@pytest.mark.parametrize("lines", [('"a","g"', '"1",0.5,"F"', '"2",0.6,"M"'), ("a,g", "1,0.5,F", "2,0.6,M")])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_header_without_a_name_for_the_row_names_is_read_as_r_writes_it(lines: Sequence[str], end: str) -> None:
    labels = read(end.join(lines) + end, attributes=("g",))
    assert classes_of(labels) == ["F", "M"]
    assert labels.index is not None
    assert labels.index.tolist() == [1, 2]


def test_a_delimiter_behind_every_row_moves_no_column() -> None:
    with pytest.raises(FormatError, match="line 2: 3 fields, the header has 2"):
        read("a,g\n1,F,\n2,M,\n")


def test_a_column_without_a_name_joins_as_rows_or_keys() -> None:
    labels = read(",g\n7,F\n009,M\n3.0,M\n", key="")
    assert (labels.keys, labels.key_column) == (("7", "9", "3"), "")
    assert labels.index is not None
    assert labels.index.tolist() == [7, 9, 3]
    labels = read(",g\n7,F\nhe,M\n", key="")
    assert (labels.keys, labels.key_column, labels.index) == (("7", "he"), "", None)
    with pytest.warns(SalcliWarning, match=r"1 keys occur twice .*\('7' on lines 2 and 3\)"):
        assert read(",g\n7,F\n7.0,F\n8,M\n", key="").index.tolist() == [7, 8]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (",g\n0,F\nhe,M\n", {}, "line 3: 'he' in the first column, which has no name.*`key=''`.*`by_row`"),
        (",g\n0,F\n,M\n", {}, "line 3: '' in the first column"),
        ("word,g\na,F\n", {"key": ""}, "`key=''` joins by a first column without a name"),
        (",g\n7,F\n7,M\n", {"key": ""}, "key '7' is 'F' on line 2 and 'M' on line 3"),
        ("word,gender\na,F\n", {"attributes": ("gendr",)}, r"no column 'gendr' .*did you mean gender\?"),
        ("word,gender\na,F\n", {"attributes": ("Gender",)}, r"did you mean gender\?"),
        ("word,a,b\nx,F,M\n", {"attributes": ("a,b",)}, "each is named by itself: repeat the option"),
        ("word,a\nx,F\n", {"key": "wrd"}, r"no column 'wrd' .*did you mean word\?"),
    ],
)
def test_an_index_or_a_name_that_does_not_fit_is_refused(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        read(text, **options)


def test_a_second_column_without_a_name_is_refused() -> None:
    with pytest.raises(FormatError, match="a column has no name"):
        read(",a,\n0,x,y\n")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["F", "nan"], "column 'g': 'nan' is a class like any other"),
        (["F", "NA", "NaN"], "column 'g': 'NA', 'NaN' are classes like any others"),
        (["Male", "male", "F", "f"], "the classes 'F' and 'f' differ only in case, and 1 more such"),
        (["F", "F "], "line 3: spaces around labels in column 'g' are trimmed .'F ' is 'F'."),
    ],
)
def test_classes_that_look_alike_or_like_missing_ones_are_named(cells: list[str], message: str) -> None:
    with pytest.warns(SalcliWarning, match=message) as warned:
        read("g\n" + "\n".join(cells) + "\n")
    assert len(warned) == 1


def test_keys_that_stand_twice_are_named() -> None:
    with pytest.warns(SalcliWarning, match=r"2 keys occur twice .*\('a' on lines 2 and 4 among them\)"):
        read("word,g\na,F\nb,M\na,F\nb,M\n")


def test_groups_are_read_along_and_never_guarded(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("word,y,author\na,x, ann \nb,z,\nc,x,ann\nd,z,Bob\n", "utf-8")
    found = read_labels(str(path), LabelOptions(groups="author"))
    assert [attribute.name for attribute in found.attributes] == ["y"]
    assert found.groups is not None
    assert (found.groups.name, found.groups.classes) == ("author", ("Bob", "ann"))
    assert found.groups.values.tolist() == [1, -1, 1, 0]
    part = found.restricted_to(np.array([1, 3])).groups
    assert part is not None
    assert part.values.tolist() == [-1, 0]
    assert read_labels(str(path), LabelOptions(("y",))).groups is None


@pytest.mark.parametrize(
    ("text", "options", "error", "says"),
    [
        ("word,y,author\na,x,ann\n", {"groups": "auhtor"}, LabelError, "no column 'auhtor' .*did you mean author"),
        ("word,y,author\na,x,\nb,z, \n", {"groups": "author"}, LabelError, "'author' .* is empty on all 2 rows"),
        ("word,y,author\na,x,ann\n", {"groups": "word"}, ParameterError, "that column is the key or the split"),
        ("word,y,author\na,x,ann\na,x,bob\n", {"groups": "author"}, LabelError, "'ann' on line 2 and 'bob' on line 3"),
    ],
)
def test_a_column_that_holds_no_groups_is_refused(
    tmp_path: Path, text: str, options: dict[str, str], error: type[Exception], says: str
) -> None:
    (tmp_path / "l.csv").write_text(text, "utf-8")
    with pytest.raises(error, match=says):
        read_labels(str(tmp_path / "l.csv"), LabelOptions(**options))  # type: ignore[arg-type]

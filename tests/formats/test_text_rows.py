"""The rows of text vectors: one line read slowly, and chunks read fast to the same result."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from salcli.errors import FormatError
from salcli.formats import text_rows
from salcli.formats.text_rows import Lines, ends_in_number, parse_row, shown, split_row

from .strategies import BAD_NUMBERS, BOM, GOOD_NUMBERS, NONFINITE_NUMBERS, good_numbers, words


def place(i: int) -> str:
    return f"vectors.txt: line {i + 1}"


@pytest.mark.parametrize(
    ("line", "d", "word", "fields"),
    [
        (b"a 1 2", 2, b"a", [b"1", b"2"]),
        (b"a 1 2 ", 2, b"a", [b"1", b"2"]),
        (b"a\t1\t2\t \t", 2, b"a", [b"1", b"2"]),
        (b"a   1 \t 2", 2, b"a", [b"1", b"2"]),
        (b"new york 1 2", 2, b"new york", [b"1", b"2"]),
        (b"new  \t york 1 2", 2, b"new  \t york", [b"1", b"2"]),
        (b". . . 1 2", 2, b". . .", [b"1", b"2"]),
        (b"3 4 1 2", 2, b"3 4", [b"1", b"2"]),
        (b"  1 2", 2, b" ", [b"1", b"2"]),
        (b"   1 2", 2, b"  ", [b"1", b"2"]),
        (b"\t 1 2", 2, b"\t", [b"1", b"2"]),
        (b" a 1 2", 2, b" a", [b"1", b"2"]),
        (b"a\xc2\xa0b 1 2", 2, b"a\xc2\xa0b", [b"1", b"2"]),
        (b"\xc2\xa0 1 2", 2, b"\xc2\xa0", [b"1", b"2"]),
        (b"\x85 1 2", 2, b"\x85", [b"1", b"2"]),
        (b"\r 1 2", 2, b"\r", [b"1", b"2"]),
        (b'"a 1 2', 2, b'"a', [b"1", b"2"]),
    ],
)
def test_the_last_d_fields_are_the_vector_and_the_word_is_what_stands_before(
    line: bytes, d: int, word: bytes, fields: list[bytes]
) -> None:
    assert split_row(line, d, "here") == (word, fields)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "here: an empty row, expected a word and 2 numbers"),
        (b" \t ", "here: an empty row, expected a word and 2 numbers"),
        (b" 1 2", "here: an empty word before 2 numbers"),
        (b"1 2", "here: word '1': 1 numbers found, 2 expected"),
        (b"the 1", "here: word 'the': 1 numbers found, 2 expected"),
        (b"the", "here: word 'the': 0 numbers found, 2 expected"),
        (b"the\xc2\xa01 2", "here: word 'the\\xa01': 1 numbers found, 2 expected"),
    ],
)
def test_a_row_without_word_or_numbers_is_refused_saying_what_was_found_and_expected(line: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        split_row(line, 2, "here")
    assert str(caught.value) == message


@pytest.mark.parametrize("number", GOOD_NUMBERS)
def test_every_usual_spelling_of_a_number_is_read_as_python_reads_it(number: bytes) -> None:
    word, values = parse_row(b"w 7 " + number, 2, "here")
    assert word == b"w"
    assert np.array(values).tobytes() == np.array([7.0, float(number)]).tobytes()


@pytest.mark.parametrize("number", BAD_NUMBERS)
@pytest.mark.parametrize("companions", [0, 1, 20])
def test_what_is_not_strictly_a_number_is_refused_by_the_slow_and_by_the_fast_reading(
    number: bytes, companions: int
) -> None:
    message = f"line {companions + 1}: word 'w': field 2 of 2 is {shown(number)}, expected a number"
    with pytest.raises(FormatError) as caught:
        parse_row(b"w 7 " + number, 2, place(companions))
    assert message in str(caught.value)
    data = b"v 1 2\n" * companions + b"w 7 " + number + b"\n"
    with pytest.raises(FormatError) as caught:  # fails for nan(1), nan(): pyarrow reads them, NUMBER does not
        Lines(data, strips_cr=False).rows(2, place)
    assert message in str(caught.value)


@settings(max_examples=400)
@given(st.text("0123456789+-.eEnaifNAIFtyTY_x(), '\u00a0", min_size=1, max_size=8).filter(lambda text: " " not in text))
@example("nan(1)")
@example("nan()")
def test_the_fast_reading_takes_no_number_that_the_slow_one_refuses_nor_reads_it_otherwise(text: str) -> None:
    field = text.encode()
    fast = text_rows._parsed(b"w " + field, 1)
    if fast is not None:
        # fails for nan(1): fast_float takes an "n-char-sequence" behind nan
        assert text_rows.NUMBER.fullmatch(field), field
        assert fast[1].tobytes() == np.array([[float(field)]]).tobytes() or np.isnan(fast[1][0, 0])


@pytest.mark.parametrize("number", NONFINITE_NUMBERS)
def test_nan_and_inf_are_numbers_here_and_left_to_the_finite_check(number: bytes) -> None:
    expected = float(number)
    for data in (b"w " + number, b"v 1\nw " + number, b"v  1\nw " + number):
        _, matrix = Lines(data, strips_cr=False).rows(1, place)
        np.testing.assert_array_equal(matrix[-1], [expected])


@pytest.mark.parametrize(
    ("word", "expected"),
    [(b"the 5", True), (b"a b -1e5", True), (b"a nan", True), (b"5", False), (b"5 a", False), (b"the", False)],
)
def test_a_word_of_several_parts_that_ends_in_a_number_is_noticed(word: bytes, expected: bool) -> None:
    assert ends_in_number(word) is expected


def test_a_long_word_is_shortened_in_messages_and_undecodable_bytes_are_spelled_out() -> None:
    assert shown(b"x" * 1000) == repr("x" * 40 + "…")
    assert shown(b"x" * 40) == repr("x" * 40)
    assert shown("é".encode() * 1000) == repr("é" * 40 + "…")
    assert shown(b"caf\xe9") == repr("caf\\xe9")


@st.composite
def chunks(draw: st.DrawFn) -> tuple[bytes, int]:
    """Lines without their last line feed, and a dimension."""
    d = draw(st.integers(1, 4))
    spaced = words(b" ", b"  ", b"\t") if draw(st.booleans()) else words()
    spacing = st.just(b" ") if draw(st.booleans()) else st.sampled_from([b" ", b"  ", b"\t", b" \t "])
    trailing = st.just(b"") if draw(st.booleans()) else st.sampled_from([b"", b" ", b"  ", b"\t"])
    field = st.one_of(good_numbers, st.sampled_from(BAD_NUMBERS)) if draw(st.integers(0, 5)) == 0 else good_numbers
    width = st.integers(d - 1, d + 2) if draw(st.integers(0, 3)) == 0 else st.just(d)
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        parts = [draw(spaced), *(draw(field) for _ in range(draw(width)))]
        line = b"".join(part + draw(spacing) for part in parts[:-1]) + parts[-1] + draw(trailing)
        lines.append(line)
    return b"\n".join(lines), d


@pytest.mark.slow
@settings(max_examples=600)
@given(chunks())
@example((b"a b 1 2\n" + BOM + b"c 1 2", 2))
@example((b"a b 1\nc d", 1))
def test_a_chunk_reads_like_its_lines_one_by_one(case: tuple[bytes, int]) -> None:
    data, d = case
    try:
        expected = [parse_row(line, d, place(i)) for i, line in enumerate(data.split(b"\n"))]
    except FormatError:
        with pytest.raises(FormatError, match=r"^vectors\.txt: line \d+: "):
            Lines(data, strips_cr=False).rows(d, place)
        return
    chunk = Lines(data + b"\n", strips_cr=False)
    found, matrix = chunk.rows(d, place)
    assert found == [word for word, _ in expected]
    assert matrix.tobytes() == np.array([row for _, row in expected]).tobytes()
    assert chunk.words(d, place) == found


@pytest.mark.slow
@settings(max_examples=200)
@given(chunks())
def test_fields_are_counted_as_runs_between_spaces_and_tabs(case: tuple[bytes, int]) -> None:
    data = case[0]
    expected = [len([part for part in line.replace(b"\t", b" ").split(b" ") if part]) for line in data.split(b"\n")]
    assert list(Lines(data, strips_cr=False).field_counts()) == expected


@pytest.mark.parametrize("spacing", [b" ", b"  ", b"\t"])
@pytest.mark.parametrize("trailing", [b"", b" ", b"\t"])
def test_carriage_returns_go_only_when_told(spacing: bytes, trailing: bytes) -> None:
    lines = [spacing.join([b"a", b"1", b"2"]) + trailing, spacing.join([b"b\rc", b"3", b"4"]) + trailing]
    data = b"\r\n".join(lines) + b"\r\n"
    found, matrix = Lines(data, strips_cr=True).rows(2, place)
    assert found == [b"a", b"b\rc"]
    np.testing.assert_array_equal(matrix, [[1, 2], [3, 4]])
    with pytest.raises(FormatError, match="line 1"):
        Lines(data, strips_cr=False).rows(2, place)


def test_the_fast_reading_is_taken_for_regular_rows_and_for_words_with_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(line: bytes, d: int, where: str) -> tuple[bytes, list[float]]:
        raise AssertionError(f"{where}: {line!r} went the slow way")

    regular = b"a 1 2\nb 3 4\n"
    monkeypatch.setattr(text_rows, "parse_row", refuse)
    assert Lines(regular, strips_cr=False).rows(2, place)[0] == [b"a", b"b"]
    assert Lines(regular.replace(b"\n", b" \n"), strips_cr=False).rows(2, place)[0] == [b"a", b"b"]
    for spaced in (b"new york 5 6\n", b"new  york 5 6\n"):
        is_fast = b"  " not in spaced
        data = regular + spaced + b"x 7 8\n" + b"a b c 9 1"
        if is_fast:
            words, vectors = Lines(data, strips_cr=False).rows(2, place)
            assert words == [b"a", b"b", b"new york", b"x", b"a b c"]
            assert vectors.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1]]
        else:
            with pytest.raises(AssertionError, match="went the slow way"):
                Lines(data, strips_cr=False).rows(2, place)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_errors_in_a_chunk_name_the_line_whichever_way_it_was_read(n: int) -> None:
    lines = [b"w%d 1 2" % i for i in range(n)]
    for bad in range(n):
        for line in (b"x 1 zwei", b"x 1", b"x y 1 zwei", b"x  1 zwei"):
            data = b"\n".join([*lines[:bad], line, *lines[bad + 1 :]])
            with pytest.raises(FormatError, match=rf"^vectors\.txt: line {bad + 1}: word 'x"):
                Lines(data, strips_cr=False).rows(2, place)


def test_words_alone_are_read_without_looking_at_the_numbers() -> None:
    chunk = Lines(b"a x y\nb c x y\n", strips_cr=False)
    assert chunk.words(2, place) == [b"a", b"b c"]
    with pytest.raises(FormatError, match="line 2: word 'b': 1 numbers found, 2 expected"):
        Lines(b"a x y\nb x\n", strips_cr=False).words(2, place)

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.errors import FormatError, SalcliWarning
from salcli.formats.keys import KeyCensus, decoded, encoded, is_utf8, read_key_lines


@given(st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")), max_size=12))
def test_any_bytes_survive_as_text(words: list[bytes]) -> None:
    keys = decoded(words)
    assert encoded(keys) == words
    for word, key in zip(words, keys, strict=True):
        try:
            assert (word.decode() == key) == is_utf8(key)
        except UnicodeDecodeError:
            assert not is_utf8(key)


@given(st.lists(st.sampled_from("abcde"), max_size=25), st.integers(1, 7))
def test_the_census_finds_exactly_the_repeated_rows(keys: list[str], size: int) -> None:
    census = KeyCensus()
    for start in range(0, len(keys), size):
        census.add(tuple(keys[start : start + size]))
    expected = [(row, keys.index(key)) for row, key in enumerate(keys) if keys.index(key) < row]
    assert census.repeated() == expected


def test_the_first_three_duplicates_are_named_with_both_places() -> None:
    keys = ("a", "b", "a", "c", "b", "a", "c")

    def batches() -> Iterator[tuple[str, ...]]:
        yield keys[:3]
        yield keys[3:]

    census = KeyCensus()
    for batch in batches():
        census.add(batch)
    message = (
        r"x: 4 duplicate keys, kept in place; labels join the first: "
        r"'a' \(line 1 and line 3\); 'b' \(line 2 and line 5\); 'a' \(line 1 and line 6\) …"
    )
    with pytest.warns(SalcliWarning, match=message):
        assert census.tell("x", batches, lambda row: f"line {row + 1}") == 4


def test_no_duplicates_are_not_told() -> None:
    census = KeyCensus()
    census.add(("a", "b"))
    assert census.tell("x", lambda: iter([("a", "b")]), str) == 0  # a warning would be an error here


@pytest.mark.parametrize(
    ("content", "keys"),
    [(b"a\nb\n", ("a", "b")), (b"\xef\xbb\xbfa\r\nb\r\n", ("a", "b")), (b"a b\n\xff", ("a b", "\udcff"))],
)
def test_a_key_file_has_one_key_a_line(tmp_path: Path, content: bytes, keys: tuple[str, ...]) -> None:
    (tmp_path / "keys.txt").write_bytes(content)
    assert read_key_lines(str(tmp_path / "keys.txt")) == keys


def test_an_empty_line_in_a_key_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"a\n\nb\n")
    with pytest.raises(FormatError, match=r"keys.txt: line 2: an empty line"):
        read_key_lines(str(tmp_path / "keys.txt"))
    with pytest.raises(FormatError, match="nosuch"):
        read_key_lines(str(tmp_path / "nosuch"))

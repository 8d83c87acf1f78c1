from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.errors import FormatError, SalcliWarning
from salcli.formats.keys import KeyCensus, decoded, encoded, is_utf8, read_key_lines
from salcli.formats.registry import open_source
from salcli.options import ReadOptions


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
        assert census.warn("x", batches, lambda row: f"line {row + 1}") == 4


def test_no_duplicates_are_not_told() -> None:
    census = KeyCensus()
    census.add(("a", "b"))
    assert census.warn("x", lambda: iter([("a", "b")]), str) == 0  # a warning would be an error here


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


LISTS = [
    ({}, None),
    ({"names": 5}, "names"),
    ({"words": 5, "names": 5}, "words"),
    ({"words": 5, "labels": 5}, "words"),
    ({"labels": 5, "names": 5}, "labels"),
    ({"id": 5, "words": 4}, "id"),
    ({"names": 4}, "not taken as keys"),
    ({"names": 5, "others": 5}, "several lists of 5 strings"),
    ({"tokens": 4}, "4 keys in /?tokens, 5 rows in /?x"),
]


@pytest.mark.parametrize("suffix", ["npz", "h5"])
@pytest.mark.parametrize(("lists", "chosen"), LISTS)
def test_keys_are_found_by_one_rule_in_all_formats_of_several_arrays(
    tmp_path: Path, suffix: str, lists: dict[str, int], chosen: str | None
) -> None:
    path = tmp_path / f"x.{suffix}"
    arrays = {"x": np.ones((5, 3)), **{name: np.array([f"{name}{i}" for i in range(n)]) for name, n in lists.items()}}
    if suffix == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array if name == "x" else array.tolist()
    if chosen is None or chosen in lists:
        with open_source(str(path)) as source:
            assert source.has_keys == (chosen is not None)
            assert not chosen or next(source.key_batches())[0] == f"{chosen}0"
    elif chosen == "not taken as keys":
        with pytest.warns(SalcliWarning, match=chosen), open_source(str(path)) as source:
            assert not source.has_keys
    else:
        with pytest.raises(FormatError, match=chosen):
            open_source(str(path))


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_keys_that_are_given_otherwise_need_not_be_found_in_the_file(tmp_path: Path, suffix: str) -> None:
    path, given = str(tmp_path / f"x.{suffix}"), tmp_path / "keys.txt"
    given.write_text("k0\nk1\n")
    arrays = {"x": np.ones((2, 3)), "one": np.array([b"a", b"b"]), "other": np.array([b"c", b"d"])}
    if suffix == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        with h5py.File(path, "w") as file:
            file.update(arrays)
    with pytest.raises(FormatError, match="several lists of 2 strings"):
        open_source(path)
    with open_source(path, ReadOptions(keyed=False)) as source:
        assert not source.has_keys
    for options in (ReadOptions(keys_file=str(given)), ReadOptions(keys_file=str(given), keyed=False)):
        with open_source(path, options) as source:
            assert list(source.key_batches()) == [("k0", "k1")]
    with pytest.raises(FormatError, match="has keys of its own"):
        open_source(path, ReadOptions(keys_file=str(given), keys_dataset="one"))

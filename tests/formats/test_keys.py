import bz2
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.errors import FormatError, SalcliWarning
from salcli.formats.key_file import read_key_file
from salcli.formats.keys import KeyCensus, decoded, encoded, is_utf8
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


def npy_of(values: Any) -> bytes:
    handle = io.BytesIO()
    np.save(handle, np.array(values))
    return handle.getvalue()


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"a\nb\n", ("a", "b")),
        (b"\xef\xbb\xbfa\r\nb\r\n", ("a", "b")),
        (b"a b\n\xff", ("a b", "\udcff")),
        (b"a\nb\n\n\n", ("a", "b")),
        (b"a\r\nb\r\n\r\n", ("a", "b")),
        ("a\nü \n".encode("utf-16"), ("a", "ü ")),
        ("\ufeffa\r\n語".encode("utf-16-be"), ("a", "語")),
        (gzip.compress(b"a\nb\n", mtime=0), ("a", "b")),
        (bz2.compress("a\nü\n".encode("utf-16")), ("a", "ü")),
        (npy_of(["a", "", "ü" * 300]), ("a", "", "ü" * 300)),
        (gzip.compress(npy_of([b"a", b"\xff"]), mtime=0), ("a", "\udcff")),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_a_key_file_has_one_key_a_line_or_is_an_array_of_strings(
    tmp_path: Path, content: bytes, keys: tuple[str, ...], piece: int
) -> None:
    (tmp_path / "keys.txt").write_bytes(content)
    assert read_key_file(str(tmp_path / "keys.txt"), piece_bytes=piece) == keys


def test_an_empty_line_in_a_key_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"a\n\nb\n")
    with pytest.raises(FormatError, match=r"keys.txt: line 2: an empty line"):
        read_key_file(str(tmp_path / "keys.txt"))
    with pytest.raises(FormatError, match="nosuch"):
        read_key_file(str(tmp_path / "nosuch"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy_of([1, 2]), "int64 of shape .*, expected a list of strings"),
        (npy_of([["a"], ["b"]]), "expected a list of strings"),
        (npy_of(["a", "b"])[:-1], "which are not there"),
        (gzip.compress(npy_of(["a", "b"])[:-1], mtime=0), "truncated|not there"),
        (npy_of(np.array(["a", None])), "never unpickled"),
        (b"PK\x03\x04\0\0", "a zip archive or an npz file, expected keys"),
        (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file, expected keys"),
        ("ab".encode("utf-16")[:-1], "begins as UTF-16-LE text"),
        (b"a\n" + b"x" * (1 << 20) + b"y\n", "line 2: more than 1 MiB"),
        (b"", "line 1: an empty line"),
        (b"\n\n", "line 1: an empty line"),
        (gzip.compress(b"a\nb\n", mtime=0)[:-4], "truncated gzip"),
    ],
)
def test_what_is_no_file_of_keys_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(FormatError, match=says):
        read_key_file(str(tmp_path / "keys"))


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

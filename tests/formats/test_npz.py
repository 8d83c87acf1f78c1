import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats.registry import create, open_source
from salcli.options import ReadOptions

X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
KEYS = np.array(["a b", "", "ü", "null", "x", "y", "z"])


def read(path: Path, **options: Any) -> Embeddings:
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        batches = [chunk.read() for chunk in source.chunks()]
        assert tuple(key for keys in source.key_batches() for key in keys) == sum((b.keys or () for b in batches), ())
    keys = None if batches[0].keys is None else sum((batch.keys or () for batch in batches), ())
    return Embeddings.starting_at(0, np.concatenate([batch.vectors for batch in batches]), keys)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("batch_rows", [None, 2])
def test_the_matrix_and_its_keys_are_found(tmp_path: Path, save: Any, order: str, batch_rows: int | None) -> None:
    save(tmp_path / "x.npz", emb=np.asarray(X, order=order), words=KEYS, note=np.array(3))  # type: ignore[call-overload]
    found = read(tmp_path / "x.npz", batch_rows=batch_rows)
    assert_array_equal(found.vectors, X)
    assert found.keys == tuple(KEYS.tolist())


def test_keys_may_be_bytes_and_may_be_named(tmp_path: Path) -> None:
    names = np.array([b"a", b"\xff", b"c", b"d", b"e", b"f", b"g"])
    np.savez(tmp_path / "x.npz", x=X, names=names)
    assert (
        read(tmp_path / "x.npz").keys == read(tmp_path / "x.npz", keys_dataset="names").keys
    )  # the only list that fits
    assert read(tmp_path / "x.npz", keys_dataset="names").keys == ("a", "\udcff", "c", "d", "e", "f", "g")


def test_one_of_several_matrices_is_chosen_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=X, b=X * 2)
    assert_array_equal(read(tmp_path / "x.npz", dataset="b").vectors, X * 2)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"a": X, "b": X}, {}, "several matrices, a, b: choose one with `dataset`"),
        ({"a": X}, {"dataset": "c"}, "no array 'c'; it holds a"),
        ({"a": np.ones(3), "b": np.array("x")}, {}, "no 2-D float array; it holds a, b"),
        ({"a": np.ones((2, 2), int)}, {}, r"x.npz\[a\]: dtype int64, expected floats"),
        ({"a": X, "b": KEYS, "c": KEYS}, {}, "several lists of 7 strings, b, c: choose one with `keys_dataset`"),
        ({"a": X, "keys": KEYS[:4]}, {}, "4 keys in keys, 7 rows in a"),
        ({"a": X, "b": KEYS}, {"keys_dataset": "c"}, "no array 'c'"),
        ({"a": X, "b": np.ones(7)}, {"keys_dataset": "b"}, "expected a list of strings"),
        ({"a": X, "keys": np.array([{}], dtype=object)}, {}, r"\[keys\]: not an array of strings"),
    ],
)
def test_what_cannot_be_chosen_is_listed(tmp_path: Path, arrays: Any, options: Any, message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(FormatError, match=message):
        read(tmp_path / "x.npz", **options)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_keys_are_read_up_to_a_mebibyte_each(tmp_path: Path, save: Any) -> None:
    keys = tuple(letter * 3 for letter in "abcdefg")
    save(tmp_path / "x.npz", x=X, keys=np.array(keys, "S1048576"))
    assert read(tmp_path / "x.npz").keys == keys
    save(tmp_path / "x.npz", x=X, keys=np.array(keys, "S1048577"))
    with pytest.raises(FormatError, match="at most 1048576 bytes a key"):
        read(tmp_path / "x.npz")


def test_a_zip_of_something_else_is_named_with_its_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("glove.txt", "a 1 2\n")
    with pytest.raises(FormatError, match=r"a zip archive \(of glove.txt\), not an npz"):
        read(tmp_path / "x.zip")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_cut_archive_is_refused(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(500, 4)))
    whole = (tmp_path / "x.npz").read_bytes()
    for size in range(1, len(whole), 997):
        (tmp_path / "cut.npz").write_bytes(whole[:size])
        with pytest.raises(FormatError, match="cut.npz"):
            read(tmp_path / "cut.npz", format="npz")


def test_a_member_whose_bytes_were_changed_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((500, 4)))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[5000] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(FormatError, match="damaged zip stream"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_output_keeps_the_other_arrays_and_has_the_same_bytes_each_time(tmp_path: Path, save: Any) -> None:
    other = np.arange(5)
    save(tmp_path / "x.npz", emb=X, words=KEYS, other=other)
    for name in ("one.npz", "two.npz"):
        with (
            closing(open_source(str(tmp_path / "x.npz"))) as source,
            create(str(tmp_path / name), source, d=2, dtype=source.dtype, format_name="npz") as writer,
        ):
            for chunk in source.chunks():
                batch = chunk.read()
                writer.write(writer.encode(batch.with_vectors(batch.vectors[:, :2])))
    with np.load(tmp_path / "one.npz", allow_pickle=False) as held:
        assert sorted(held.files) == ["emb", "other", "words"]
        assert_array_equal(held["emb"], X[:, :2])
        assert_array_equal(held["words"], KEYS)
        assert_array_equal(held["other"], other)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()

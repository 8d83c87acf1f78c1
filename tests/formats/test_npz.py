import itertools
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats import npz_keys
from salcli.formats.registry import create, open_source
from salcli.options import ReadOptions

from .strategies import file_of

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
    with np.load(tmp_path / "one.npz", allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ["emb", "other", "words"]
        assert_array_equal(arrays["emb"], X[:, :2])
        assert_array_equal(arrays["words"], KEYS)
        assert_array_equal(arrays["other"], other)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def rewritten(source_path: Path, target: Path, **options: Any) -> Path:
    with (
        closing(open_source(str(source_path), ReadOptions(**options))) as source,
        create(str(target), source, d=source.d, dtype=source.dtype, format_name="npz") as writer,
    ):
        for chunk in source.chunks():
            writer.write(writer.encode(chunk.read()))
    return target


def test_keys_take_what_their_letters_take_where_one_is_long(tmp_path: Path) -> None:
    keys = [f"w{i}" for i in range(2000)] + ["ü" * 4000]
    (tmp_path / "v.txt").write_text("".join(f"{key} 1.5 2\n" for key in keys), "utf-8")
    rewritten(tmp_path / "v.txt", tmp_path / "x.npz")
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    with np.load(tmp_path / "x.npz", allow_pickle=False) as z:
        text = z["keys_utf8"].tobytes()
        assert [text[a:b].decode() for a, b in itertools.pairwise(z["keys_offsets"])] == keys
        assert sorted(z.files) == ["keys_offsets", "keys_utf8", "vectors"]
    assert list(read(tmp_path / "x.npz").keys or ()) == keys
    again = rewritten(tmp_path / "x.npz", tmp_path / "y.npz")
    assert again.read_bytes() == (tmp_path / "x.npz").read_bytes()


def test_keys_of_ordinary_length_are_the_array_that_numpy_makes_of_them(tmp_path: Path) -> None:
    keys = [f"w{i}" for i in range(50_000)] + ["x" * 60]
    (tmp_path / "v.txt").write_text("".join(f"{key} 1.5 2\n" for key in keys), "utf-8")
    with np.load(rewritten(tmp_path / "v.txt", tmp_path / "x.npz"), allow_pickle=False) as z:
        assert_array_equal(z["keys"], np.array(keys))
        assert z["keys"].dtype == np.array(keys).dtype


letters = st.characters(exclude_categories=()).filter(lambda c: not "\ud800" <= c <= "\udc7f" and c <= "\udcff")


@given(st.lists(st.text(letters, max_size=5), min_size=1, max_size=9), st.sampled_from([1, 3, 1 << 20]))
def test_keys_of_any_letters_come_back_from_the_joined_layout(keys: list[str], piece: int) -> None:
    with file_of(b"", "x.npz") as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(npz_keys, "PADDED_BYTES", -1)
        patch.setattr(npz_keys, "PIECE", piece * 64)
        with zipfile.ZipFile(path, "w") as archive:
            npz_keys.write_keys(lambda name: archive.open(f"{name}.npy", "w"), "words", keys, -1, "x.npz")
            with archive.open("x.npy", "w") as member:
                np.save(member, np.ones((len(keys), 2)))
        expected = [key.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") for key in keys]
        assert list(read(path).keys or ()) == expected
        assert list(read(path, keys_dataset="words").keys or ()) == expected


@pytest.mark.parametrize(
    "offsets", [[0, 2, 9], [1, 2, 6], [0, 7, 6], [0, -1, 6], [-(2**63), 0, 6], [0, 2**62, 6], [0, 0, 5]]
)
def test_offsets_that_do_not_cut_the_text_are_refused(tmp_path: Path, offsets: list[int]) -> None:
    np.savez(tmp_path / "x.npz", x=X[:2], keys_utf8=np.frombuffer(b"abcdef", np.uint8), keys_offsets=np.array(offsets))
    with pytest.raises(FormatError, match=r"x\.npz\[keys_offsets\]: does not cut the 6 bytes of keys_utf8"):
        read(tmp_path / "x.npz")


def test_an_array_of_objects_is_in_nobodys_way_once_the_keys_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", allow_pickle=True, x=X, words=np.array([*KEYS], object), names=KEYS, more=KEYS)
    with pytest.raises(FormatError, match="choose one with `keys_dataset`"):
        read(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", allow_pickle=True, x=X, words=np.array([*KEYS], object), names=KEYS)
    with pytest.raises(FormatError, match=r"y\.npz\[words\].*`keys_dataset`, or give `keys_file=FILE`"):
        read(tmp_path / "y.npz")
    assert read(tmp_path / "y.npz", keys_dataset="names").keys == tuple(KEYS)
    assert read(tmp_path / "y.npz", keyed=False).keys is None
    (tmp_path / "keys.txt").write_text("".join(f"k{i}\n" for i in range(7)))
    assert (read(tmp_path / "x.npz", keys_file=str(tmp_path / "keys.txt")).keys or ())[6] == "k6"
    kept = rewritten(tmp_path / "x.npz", tmp_path / "z.npz", keys_file=str(tmp_path / "keys.txt"))
    assert (read(kept).keys or ())[6] == "k6"
    with np.load(kept, allow_pickle=True) as z:
        assert_array_equal(z["words"], KEYS)

"""HDF5: finding matrix and keys, reading every kind of storage, and a copy that keeps the rest."""

import contextlib
import gzip
import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats import registry
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

from .strategies import read_whole

X = np.random.default_rng(3).standard_normal((25, 6)).astype(np.float32)
KEYS = [f"wörd{i}" for i in range(25)]

Build = Callable[[h5py.File], Any]


def file_with(folder: Path, build: Build, name: str = "v.h5") -> Path:
    path = folder / name
    with h5py.File(path, "w") as file:
        build(file)
    return path


def rewritten(path: Path, target: Path, scale: float = 2.0, d: int | None = None, **options: Any) -> Path:
    """Read a file and write it with other numbers, as `apply` does."""
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        name = registry.output_format(str(target), source, None)
        with registry.create(str(target), source, d=d or source.d, dtype=source.dtype, format_name=name) as writer:
            for chunk in source.chunks():
                batch: Embeddings = chunk.read()
                writer.write(writer.encode(batch.with_vectors((batch.vectors * scale)[:, :d].astype(source.dtype))))
    return target


STORAGE: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 3)},
    "gzip": {"chunks": (4, 6), "compression": "gzip", "compression_opts": 7},
    "gzip and shuffle": {"chunks": (7, 6), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (7, 2), "compression": "lzf", "fletcher32": True},
}


@pytest.mark.parametrize("storage", STORAGE.values(), ids=STORAGE)
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("batch_rows", [None, 1, 6])
def test_every_storage_is_read_to_the_same_bits(
    tmp_path: Path, storage: dict[str, Any], dtype: str, batch_rows: int | None
) -> None:
    x = X.astype(dtype)
    path = file_with(
        tmp_path, lambda f: (f.create_dataset("x", data=x, **storage), f.create_dataset("words", data=KEYS))
    )
    found = read_whole(path, batch_rows=batch_rows)
    assert (found.format, found.n, found.d, found.dtype) == ("h5", 25, 6, np.dtype(dtype))
    assert found.vectors.tobytes() == x.tobytes()
    assert found.keys == tuple(KEYS)


@pytest.mark.parametrize("where", ["x", "a/x", "a/b/c/x"])
def test_the_only_matrix_is_found_in_any_group(tmp_path: Path, where: str) -> None:
    def build(file: h5py.File) -> None:
        file[where] = X
        file["counts"] = np.arange(25)
        file["list"] = np.ones(25)
        file["cube"] = np.ones((2, 2, 2))
        file["ints"] = np.ones((25, 6), int)

    found = read_whole(file_with(tmp_path, build))
    assert found.vectors.tobytes() == X.tobytes()
    assert found.keys is None


def test_several_matrices_are_listed_and_one_is_chosen_by_name(tmp_path: Path) -> None:
    path = file_with(tmp_path, lambda f: (f.create_dataset("a/x", data=X), f.create_dataset("y", data=X * 2)))
    with pytest.raises(FormatError, match=r"several matrices, /a/x, /y: choose one with `dataset`"):
        read_whole(path)
    for name, expected in (("a/x", X), ("/a/x", X), ("y", X * 2)):
        assert read_whole(path, dataset=name).vectors.tobytes() == expected.tobytes()
    with pytest.raises(FormatError, match=r"no dataset 'z'; it holds /a/x, /y"):
        read_whole(path, dataset="z")
    with pytest.raises(FormatError, match="'a' is a group"):
        read_whole(path, dataset="a")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f: f.create_dataset("x", data=np.ones((2, 2), int)), r"no 2-D float dataset among /x int64 \(2, 2\)"),
        (lambda f: f.create_group("x"), "no datasets at all"),
        (lambda f: f.create_dataset("x", shape=(0, 3), dtype="f4"), "0 rows of 3 dimensions"),
        (lambda f: f.create_dataset("x", data=h5py.Empty("f4")), "no 2-D float dataset"),
    ],
)
def test_a_file_without_a_matrix_is_refused_saying_what_it_holds(tmp_path: Path, build: Build, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_whole(file_with(tmp_path, build))


RAW = [b"a", "é".encode(), b"caf\xe9", b"x\xff"]
KEY_TYPES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "variable utf-8": lambda: (RAW, h5py.string_dtype("utf-8")),
    "variable ascii": lambda: (RAW, h5py.string_dtype("ascii")),
    "fixed utf-8": lambda: (np.array(RAW, h5py.string_dtype("utf-8", 4)), None),
    "fixed ascii": lambda: (np.array(RAW, h5py.string_dtype("ascii", 4)), None),
    "fixed bytes": lambda: (np.array(RAW, "S4"), "S4"),
}


@pytest.mark.parametrize("kind", KEY_TYPES)
@pytest.mark.parametrize("is_named", [True, False])
def test_keys_of_every_string_type_are_read_byte_for_byte(tmp_path: Path, kind: str, is_named: bool) -> None:
    data, dtype = KEY_TYPES[kind]()

    def build(file: h5py.File) -> None:
        file["x"] = X[:4]
        file.create_dataset("k/names", data=data, dtype=dtype)

    path = file_with(tmp_path, build)
    assert read_whole(path, keys_dataset="k/names" if is_named else None, batch_rows=3).words == RAW


def test_keys_are_found_by_their_number_then_by_their_name(tmp_path: Path) -> None:
    def build(file: h5py.File) -> None:
        file["x"] = X
        file["comments"] = ["none"] * 25
        file["meta/words"] = KEYS
        file["few"] = ["a", "b"]

    path = file_with(tmp_path, build)
    assert read_whole(path).keys == tuple(KEYS)
    assert read_whole(path, keys_dataset="comments").keys == ("none",) * 25
    with pytest.raises(FormatError, match="2 keys in few, 25 rows in /x"):
        read_whole(path, keys_dataset="few")
    with pytest.raises(FormatError, match="expected a list of strings"):
        read_whole(path, keys_dataset="x")


def test_several_lists_of_strings_without_a_telling_name_are_listed(tmp_path: Path) -> None:
    path = file_with(
        tmp_path,
        lambda f: (f.create_dataset("x", data=X), f.create_dataset("p", data=KEYS), f.create_dataset("q", data=KEYS)),
    )
    with pytest.raises(FormatError, match=r"several lists of 25 strings, /p, /q: choose one with `keys_dataset`"):
        read_whole(path)


def test_keys_of_another_number_than_the_rows_are_refused(tmp_path: Path) -> None:
    path = file_with(tmp_path, lambda f: (f.create_dataset("x", data=X), f.create_dataset("words", data=KEYS[:-1])))
    with pytest.raises(FormatError, match="24 keys in /words, 25 rows in /x"):
        read_whole(path)


def test_links_and_views_to_other_files_are_not_followed(tmp_path: Path) -> None:
    other = file_with(tmp_path, lambda f: f.create_dataset("secret", data=X), "other.h5")
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(str(other), "secret", X.shape)
    raw = tmp_path / "raw.bin"
    raw.write_bytes(X.tobytes())

    linked = file_with(tmp_path, lambda f: f.__setitem__("x", h5py.ExternalLink(str(other), "/secret")), "link.h5")
    with pytest.raises(FormatError, match="no 2-D float dataset"):
        read_whole(linked)
    with pytest.raises(FormatError, match="link to another file .*other.h5.*not followed"):
        read_whole(linked, dataset="x")
    group = file_with(tmp_path, lambda f: f.__setitem__("g", h5py.ExternalLink(str(other), "/")), "group.h5")
    with pytest.raises(FormatError, match="link to another file"):
        read_whole(group, dataset="g/secret")
    virtual = file_with(tmp_path, lambda f: f.create_virtual_dataset("x", layout), "virtual.h5")
    with pytest.raises(FormatError, match="a view of other datasets or files, which are not followed"):
        read_whole(virtual)
    external = file_with(tmp_path, lambda f: f.create_dataset("x", X.shape, "f4", external=str(raw)), "external.h5")
    with pytest.raises(FormatError, match="data in another file, which is not followed"):
        read_whole(external)


def test_a_soft_link_to_a_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    other = file_with(tmp_path, lambda f: f.create_dataset("secret", data=X), "other.h5")

    def build(file: h5py.File) -> None:
        file["y"] = h5py.ExternalLink(str(other), "/secret")
        file["x"] = h5py.SoftLink("/y")

    path = file_with(tmp_path, build)
    with pytest.raises(FormatError):
        read_whole(path, dataset="x")


@pytest.mark.parametrize("kind", ["virtual", "external"])
def test_keys_that_lie_in_another_file_are_not_followed(tmp_path: Path, kind: str) -> None:
    keys = np.array([key.encode() for key in KEYS], "S8")
    other = file_with(tmp_path, lambda f: f.create_dataset("secret", data=keys), "other.h5")
    (tmp_path / "raw.bin").write_bytes(keys.tobytes())

    def build(file: h5py.File) -> None:
        file["x"] = X
        if kind == "external":
            file.create_dataset("words", keys.shape, "S8", external=str(tmp_path / "raw.bin"))
        else:
            layout = h5py.VirtualLayout(keys.shape, keys.dtype)
            layout[:] = h5py.VirtualSource(str(other), "secret", keys.shape)
            file.create_virtual_dataset("words", layout)

    path = file_with(tmp_path, build)
    with pytest.raises(FormatError, match="not followed"):
        read_whole(path)


def test_a_missing_filter_is_named(tmp_path: Path) -> None:
    space, plist = h5py.h5s.create_simple((8, 2)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4, 2))
    plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))  # zstd, which h5py does not bring
    path = file_with(tmp_path, lambda f: h5py.h5d.create(f.id, b"x", h5py.h5t.IEEE_F32LE, space, plist))
    with pytest.raises(
        FormatError, match=r"dataset /x needs HDF5 filter 32015 .*not installed: try `pip install hdf5plugin`"
    ):
        read_whole(path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = file_with(
        tmp_path,
        lambda f: (
            f.create_dataset("x", data=X, chunks=(5, 6), compression="gzip"),
            f.create_dataset("words", data=KEYS),
        ),
    )
    data, cut = whole.read_bytes(), tmp_path / "cut.h5"
    for size in range(8, len(data) - 1, max(1, len(data) // 60)):
        cut.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"cut\.h5"):
            read_whole(cut)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_compressed_file_is_read_and_hashed_as_it_lies_on_disk(tmp_path: Path, pack: Any) -> None:
    whole = file_with(tmp_path, lambda f: (f.create_dataset("x", data=X), f.create_dataset("words", data=KEYS)))
    path = tmp_path / "packed.h5"
    path.write_bytes(pack(whole.read_bytes()))
    found = read_whole(path)
    assert found.vectors.tobytes() == X.tobytes()
    assert found.keys == tuple(KEYS)
    with closing(open_source(str(path))) as source:
        # fails for gzip: the unpacked copy is hashed, and the file itself is left open
        assert source.digest("sha256") == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2"])
def test_a_matrix_in_one_piece_is_read_from_its_place(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file["other"] = np.arange(7)
        file["x"], file["words"] = X.astype(dtype), KEYS
    with closing(open_source(str(path), ReadOptions(dataset="/x", batch_rows=7))) as source:
        assert source.fills_buffers
        batches = [(np.array(batch.vectors), batch.keys) for chunk in source.chunks() for batch in chunk.batches(3)]
    assert max(len(x) for x, _ in batches) == 3
    assert b"".join(x.tobytes() for x, _ in batches) == X.astype(dtype).tobytes()
    assert [key for _, keys in batches for key in keys or ()] == KEYS


def small_float(exponent: int, mantissa: int) -> h5py.h5t.TypeID:
    """A float that numpy has no name for, such as bfloat16; h5py reads it as a wider one."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_precision(1 + exponent + mantissa)
    kind.set_size((1 + exponent + mantissa) // 8)
    kind.set_ebias(2 ** (exponent - 1) - 1)
    return kind


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (4, 3), (5, 2), (8, 15)])
@pytest.mark.parametrize("x", [np.float32([[1, -0.5], [0.25, 2], [0, -1.5]]), np.eye(20, 2, -10, np.float32)])
def test_floats_that_numpy_has_no_name_for_are_read_as_wider_ones_in_any_storage(
    tmp_path: Path, is_chunked: bool, exponent: int, mantissa: int, x: np.ndarray
) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if is_chunked:
            create.set_chunk((2, 2))
        space = h5py.h5s.create_simple(x.shape)
        h5py.Dataset(h5py.h5d.create(file.id, b"x", small_float(exponent, mantissa), space, create))[:] = x
        file["zeros"] = np.zeros(100)  # behind the matrix, where a wider one would end
    assert_array_equal(read_whole(tmp_path / "v.h5").vectors, x)
    with closing(open_source(str(tmp_path / "v.h5"))) as source:
        batches = [np.array(batch.vectors) for chunk in source.chunks() for batch in chunk.batches(3)]
    assert_array_equal(np.concatenate(batches), x)
    assert_array_equal(read_whole(rewritten(tmp_path / "v.h5", tmp_path / "w.h5")).vectors, 2 * x)


# --- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", STORAGE.values(), ids=STORAGE)
def test_a_rewritten_file_keeps_everything_but_the_numbers(tmp_path: Path, storage: dict[str, Any]) -> None:
    def build(file: h5py.File) -> None:
        file.attrs["title"] = "vectors"
        file.create_dataset("g/x", data=X, **storage).attrs["unit"] = [1.5, 2.5]
        file["g"].attrs["note"] = "é"
        file["g/counts"] = np.arange(25)
        file.create_dataset("other/y", data=np.arange(8.0), chunks=(2,), compression="gzip").attrs["a"] = 1
        file["words"] = KEYS
        file["soft"] = h5py.SoftLink("/g/x")
        file["out"] = h5py.ExternalLink("nowhere.h5", "/x")

    target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5", batch_rows=7)
    with h5py.File(target) as file:
        np.testing.assert_array_equal(file["g/x"][:], X * 2)
        assert file["g/x"].dtype == X.dtype
        for name in ("chunks", "compression", "compression_opts", "shuffle", "fletcher32"):
            with h5py.File(tmp_path / "v.h5") as before:
                assert getattr(file["g/x"], name) == getattr(before["g/x"], name), name
        assert file.attrs["title"] == "vectors"
        assert file["g"].attrs["note"] == "é"
        assert file["g/x"].attrs["unit"].tolist() == [1.5, 2.5]
        assert file["g/counts"][:].tolist() == list(range(25))
        assert file["other/y"][:].tolist() == list(range(8))
        assert (file["other/y"].chunks, file["other/y"].compression, file["other/y"].attrs["a"]) == ((2,), "gzip", 1)
        assert [key.decode() for key in file["words"][:]] == KEYS
        assert file.get("soft", getlink=True).path == "/g/x"
        assert file.get("out", getlink=True).filename == "nowhere.h5"


@pytest.mark.parametrize("drops", [False, True], ids=["whole", "dropping"])
def test_under_whatever_other_name_the_old_numbers_do_not_live_on(tmp_path: Path, drops: bool) -> None:
    """Hard links: of the matrix, of the group it lies in, of a group within itself, of something else, of the keys."""
    x = X.copy()
    x[2] = np.nan if drops else x[2]

    def build(file: h5py.File) -> None:
        file.create_dataset("g/x", data=x, chunks=(5, 6), maxshape=(None, 6))
        file["again"], file["h"] = file["g/x"], file["g"]
        file["g/loop"] = file["g"]
        file["counts"] = np.arange(3)
        file["g/counts"] = file["counts"]
        file["words"] = KEYS
        file["tokens"] = file["words"]

    source = file_with(tmp_path, build)
    with pytest.warns(UserWarning, match="dropped") if drops else contextlib.nullcontext():
        target = rewritten(source, tmp_path / "out.h5", allow_nonfinite=drops, dataset="/g/x", keys_dataset="/words")
    kept = [i for i in range(len(x)) if not (drops and i == 2)]
    found: dict[str, h5py.Dataset] = {}
    with h5py.File(target) as file:
        for name in ("g/x", "again", "h/x", "g/loop/x", "h/loop/loop/x"):
            np.testing.assert_array_equal(file[name][:], x[kept] * 2, err_msg=name)
            assert file[name].maxshape == (None, 6)
        for name in ("words", "tokens"):
            assert [key.decode() for key in file[name][:]] == [KEYS[i] for i in kept]
        assert file["g/counts"] == file["counts"]
        file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        assert len(found) == 3  # each object is visited once: matrix, counts, keys


def test_a_narrower_matrix_is_written_in_narrower_chunks(tmp_path: Path) -> None:
    path = file_with(
        tmp_path, lambda f: (f.create_dataset("x", data=X, chunks=(5, 6)), f.create_dataset("words", data=KEYS))
    )
    found = read_whole(rewritten(path, tmp_path / "out.h5", d=4))
    assert found.vectors.tobytes() == (X * 2)[:, :4].tobytes()
    assert found.keys == tuple(KEYS)


def test_dropped_rows_lose_their_keys_too(tmp_path: Path) -> None:
    x = X.copy()
    x[3] = np.nan
    path = file_with(tmp_path, lambda f: (f.create_dataset("x", data=x), f.create_dataset("words", data=KEYS)))
    with pytest.warns(UserWarning, match="1 rows with NaN or Inf are dropped"):
        target = rewritten(path, tmp_path / "out.h5", allow_nonfinite=True, batch_rows=2)
    found = read_whole(target)
    assert found.keys == (*KEYS[:3], *KEYS[4:])
    assert found.vectors.tobytes() == np.delete(X * 2, 3, axis=0).tobytes()


def test_a_second_writing_gives_the_same_bytes(tmp_path: Path) -> None:
    path = file_with(
        tmp_path, lambda f: (f.create_dataset("x", data=X, **STORAGE["gzip"]), f.create_dataset("words", data=KEYS))
    )
    one, two = (rewritten(path, tmp_path / name) for name in ("one.h5", "two.h5"))
    assert one.read_bytes() == two.read_bytes()


def test_no_packed_chunk_is_read_twice(tmp_path: Path) -> None:
    """Reads that do not begin where a chunk does unpack it again and again."""
    n, step = 700, 7

    def build(file: h5py.File) -> None:
        file.create_dataset("x", data=np.ones((n, 6)), chunks=(step, 6), compression="gzip")

    small = ReadOptions(partition_elements=64 * 6)
    with closing(open_source(str(file_with(tmp_path, build)), small)) as source:
        starts = [chunk.start for chunk in source.chunks()]
        assert len(starts) > 5
        assert source.partition % step == 0
        assert all(start % step == 0 for start in starts)

"""`salcli apply` and what stands beside the matrix: copied with a warning, erased too, or left out."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from .helpers import erased, planted, refuse, save_npy, succeed, words, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 90, 5
X, LABELS = planted(N, D)
ARRAYS: dict[str, Any] = {
    "vectors": X,
    "words": np.array([word.encode() for word in words(N)]),
    "vectors_norm": (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float64),
    "X_pca": X[:, :2],
    "gender": np.array([int(label == "c0") for label in LABELS]),
    "about": np.arange(3),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beside")
    save_npy(folder / "x.npy", X)
    write_csv(folder / "y.csv", ["y"], [[label] for label in LABELS])
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    np.savez_compressed(folder / "x.npz", **ARRAYS)
    with h5py.File(folder / "x.h5", "w") as file:
        for name, array in ARRAYS.items():
            file[place(name)] = array
        file["obsm/X_pca"].attrs["unit"] = "none"
        file["again"] = file["obsm/X_pca"]
        file["vectors_norm"].attrs["unit"] = "length"
        file.attrs["main"] = file["vectors_norm"].ref
    return folder


def place(name: str) -> str:
    """Where an array lies in the HDF5 file."""
    return {"X_pca": "/obsm/X_pca", "gender": "/obs/gender"}.get(name, f"/{name}")


def held_in(path: Path) -> dict[str, Any]:
    """Read all arrays of a file, by the names they have in `ARRAYS`."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return {name.rpartition("/")[2]: array for name, array in found.items()}


def applied(folder: Path, target: Path, *args: object) -> tuple[dict[str, Any], str]:
    source = folder / f"x{target.suffix}"
    done = succeed("apply", folder / "e.npz", source, "--dataset", "vectors", "-o", target, *args)
    return held_in(target), done.err


def assert_kept(found: dict[str, Any], *names: str) -> None:
    for name in names:
        assert_array_equal(found[name], ARRAYS[name])


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_arrays_of_the_same_rows_are_copied_with_a_warning_that_names_them(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    found, err = applied(folder, tmp_path / f"o.{suffix}")
    assert_kept(found, "words", "vectors_norm", "gender", "about")
    (line,) = [line for line in err.splitlines() if "--erase-also, --drop or --only" in line]
    assert all(name in line for name in ("vectors_norm", "gender"))
    assert not any(name in line for name in ("about", "words"))
    assert "X_pca" in line or "again" in line  # two names of one dataset


@pytest.mark.parametrize("suffix", ["npz", "h5"])
@pytest.mark.parametrize("extra", [(), ("--reduce",), ("--dtype", "float32")])
def test_a_matrix_of_the_same_rows_is_erased_too(
    folder: Path, tmp_path: Path, suffix: str, extra: tuple[str, ...]
) -> None:
    args = ["--erase-also", "vectors_norm", *(("--drop", "obs/gender") if suffix == "h5" else ("--drop", "gender"))]
    found, err = applied(folder, tmp_path / f"o.{suffix}", *args, *extra)
    assert_kept(found, "words", "about")
    assert "gender" not in found
    assert not any(name in err for name in ("vectors_norm", "gender"))
    alone = tmp_path / "alone.npy"
    for name in ("vectors", "vectors_norm"):
        succeed("apply", folder / "e.npz", save_npy(tmp_path / "one.npy", ARRAYS[name]), "-o", alone, *extra)
        expected = np.load(alone)
        assert found[name].dtype == expected.dtype
        assert_allclose(found[name], expected, atol=1e-6)
        if not extra:
            assert_allclose(found[name], erased(ARRAYS[name], folder / "e.npz"), atol=1e-5)


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_only_the_matrix_its_keys_and_what_is_erased_too_are_written(folder: Path, tmp_path: Path, suffix: str) -> None:
    found, err = applied(folder, tmp_path / f"o.{suffix}", "--only")
    assert set(found) == {"vectors", "words"}
    assert "--only" not in err
    assert [*map(bytes, found["words"])] == ARRAYS["words"].tolist()
    found, _ = applied(folder, tmp_path / f"o.{suffix}", "--only", "--erase-also", "vectors_norm")
    assert set(found) == {"vectors", "words", "vectors_norm"}
    assert_allclose(found["vectors_norm"], erased(ARRAYS["vectors_norm"], folder / "e.npz"), atol=1e-6)
    target = tmp_path / "o.npy"
    source = folder / f"x.{suffix}"
    done = succeed("apply", folder / "e.npz", source, "--dataset", "vectors", "--only", "-o", target)
    assert "this format holds" not in done.err


def test_what_is_dropped_from_hdf5_is_gone_under_every_name_and_references_still_lead(
    folder: Path, tmp_path: Path
) -> None:
    args = ["--drop", "obs", "--drop", "again", "--erase-also", "/vectors_norm"]
    target = tmp_path / "o.h5"
    applied(folder, target, *args)
    with h5py.File(target) as file:
        assert sorted(file) == ["about", "obsm", "vectors", "vectors_norm", "words"]
        assert "X_pca" not in file["obsm"]
        assert file[file.attrs["main"]].name == "/vectors_norm"
        assert file["vectors_norm"].attrs["unit"] == "length"


@pytest.mark.parametrize(
    ("code", "args", "says"),
    [
        (2, ("--erase-also", "vector_norm"), "did you mean vectors_norm?"),
        (2, ("--drop", "zzz"), "it holds vectors_norm"),
        (2, ("--drop", "x_pca"), "did you mean X_pca?"),
        (2, ("--drop", "vectors"), "beside the matrix"),
        (2, ("--erase-also", "X_pca"), "--erase-also X_pca: 90 rows of 2 dimensions, but the matrix has 90 of 5"),
        (2, ("--erase-also", "gender"), "expected floats"),
        (2, ("--only", "--drop", "gender"), "leave --drop out"),
        (2, ("--kernel-matrix", "--only"), "--kernel-matrix"),
    ],
)
def test_what_cannot_be_erased_or_dropped_is_refused(
    folder: Path, tmp_path: Path, code: int, args: tuple[str, ...], says: str
) -> None:
    output = tmp_path / ("o.h5" if "--kernel-matrix" in args else "o.npz")
    refuse(code, "apply", folder / "e.npz", folder / "x.npz", "--dataset", "vectors", *args, "-o", output, says=says)
    assert not output.exists()


def test_other_formats_hold_nothing_else(folder: Path, tmp_path: Path) -> None:
    args = ["--dataset", "vectors", "--erase-also", "vectors_norm", "-o", tmp_path / "o.npy"]
    refuse(2, "apply", folder / "e.npz", folder / "x.npz", *args, says="only an output of the input's format, npz")
    args = ["--drop", "vectors", "-o", tmp_path / "o.npy"]
    refuse(2, "apply", folder / "e.npz", folder / "x.npy", *args, says="holds nothing beside the matrix")
    assert not (tmp_path / "o.npy").exists()

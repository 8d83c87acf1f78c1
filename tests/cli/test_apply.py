"""`salcli apply` in a process of its own: the numbers, the formats and the rows of its output."""

import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest

from .helpers import (
    SAMPLE,
    binary_of,
    erased,
    load_eraser,
    planted,
    projector,
    read_embeddings,
    read_text,
    refuse,
    save_npy,
    succeed,
    text_of,
    write_csv,
    write_embeddings,
)

pytestmark = pytest.mark.slow  # each test starts processes

N, D, K = 200, 8, 2
PLAIN = [b"w%d" % i for i in range(N)]
HOSTILE = ["naïve", "日本", '"', "a,b", "007", "1e5", "NaN", "[x]", "[/red]", "-", "\u00a0x", "it's", "<|endoftext|>"]
KEYS = [*(word.encode() for word in HOSTILE), *PLAIN[len(HOSTILE) :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An eraser of two directions, and the rows it was fitted on."""
    folder = tmp_path_factory.mktemp("apply")
    x, labels = planted(N, D, n_classes=3, seed=1)
    save_npy(folder / "x.npy", x)
    write_csv(folder / "y.csv", ["y"], [[label] for label in labels])
    write_embeddings(folder / "x.txt", x, KEYS)
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    return folder


def rows_of(folder: Path) -> np.ndarray:
    return np.load(folder / "x.npy")


def assert_rounded(found: np.ndarray, exact: np.ndarray) -> None:
    """Hold float32 numbers against float64 ones that were rounded once (one step of slack where sums differ)."""
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=2**-23, atol=1e-12)


def test_rows_lose_their_removed_directions_and_keep_the_rest(folder: Path, tmp_path: Path) -> None:
    x = rows_of(folder)
    done = succeed("apply", folder / "e.npz", folder / "x.npy", "-o", tmp_path / "o.npy", "--json")
    found = np.load(tmp_path / "o.npy")
    assert_rounded(found, erased(x, folder / "e.npz"))
    u, mean = load_eraser(folder / "e.npz")["left"], load_eraser(folder / "e.npz")["mean"]
    np.testing.assert_allclose((found - mean) @ u, 0, atol=1e-5)
    assert np.abs((x - mean) @ u).max() > 1
    fields = {"d": D, "dtype": "float32", "format": "npy", "n": N, "output": str(tmp_path / "o.npy")}
    assert done.json() == {"schema": "salcli.apply/1", **fields}


@pytest.mark.parametrize(
    "name", ["o.npy", "o.npz", "o.h5", "o.txt", "o.glove.txt", "o.bin", "o.txt.gz", "o.glove.txt.gz", "o.bin.gz"]
)
def test_every_format_goes_out_as_it_came_in(folder: Path, tmp_path: Path, name: str) -> None:
    source = write_embeddings(tmp_path / f"in-{name}", rows_of(folder), KEYS)
    succeed("apply", folder / "e.npz", source, "-o", tmp_path / name, "--quiet")
    keys, found = read_embeddings(tmp_path / name, D)
    assert keys == (None if name == "o.npy" else KEYS)
    assert_rounded(found, erased(rows_of(folder), folder / "e.npz"))


@pytest.mark.parametrize("name", ["o.npz", "o.h5", "o.bin", "o.vec", "o.txt.gz"])
def test_the_suffix_of_the_output_converts_text(folder: Path, tmp_path: Path, name: str) -> None:
    succeed("apply", folder / "e.npz", folder / "x.txt", "-o", tmp_path / name, "--quiet")
    keys, found = read_embeddings(tmp_path / name, D)
    assert keys == KEYS
    assert_rounded(found, erased(rows_of(folder), folder / "e.npz"))


def test_output_format_stands_above_the_suffix(folder: Path, tmp_path: Path) -> None:
    source = write_embeddings(tmp_path / "x.h5", rows_of(folder), KEYS)
    for name, has_header in (("word2vec-text", True), ("glove", False)):
        options = ["-o", tmp_path / "o.npy", "--output-format", name, "--json"]
        assert succeed("apply", folder / "e.npz", source, *options).json()["format"] == name
        keys, found = read_text((tmp_path / "o.npy").read_bytes(), D, has_header=has_header)
        assert keys == KEYS
        assert_rounded(found.astype(np.float32), erased(rows_of(folder), folder / "e.npz"))


def test_keys_from_a_file_travel_into_the_output(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"\n".join(KEYS) + b"\n")
    options = ["--keys", tmp_path / "keys.txt", "-o", tmp_path / "o.txt"]
    succeed("apply", folder / "e.npz", folder / "x.npy", *options)
    assert read_embeddings(tmp_path / "o.txt", D)[0] == KEYS


@pytest.mark.parametrize("name", ["o.txt", "o.bin"])
def test_rows_without_keys_cannot_become_words(folder: Path, tmp_path: Path, name: str) -> None:
    refuse(3, "apply", folder / "e.npz", folder / "x.npy", "-o", tmp_path / name, says="give --keys FILE")
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_not_utf8_and_inner_spaces_travel_unchanged(folder: Path, tmp_path: Path) -> None:
    keys = [b"caf\xe9", b"new york", b"at name@domain.com", b"\xff\xfe", *PLAIN[4:]]
    (tmp_path / "x.txt").write_bytes(text_of(keys, rows_of(folder), has_header=False))
    done = succeed("apply", folder / "e.npz", tmp_path / "x.txt", "-o", tmp_path / "o.txt", "--quiet")
    found, _ = read_text((tmp_path / "o.txt").read_bytes(), D, has_header=False)
    assert found == keys
    warning, *more = done.err.splitlines()
    assert "line 1" in warning
    assert "not UTF-8" in warning
    assert more == []


def test_duplicate_keys_stay_in_place_and_are_told(folder: Path, tmp_path: Path) -> None:
    keys = [*PLAIN[:-1], PLAIN[0]]
    (tmp_path / "x.bin").write_bytes(binary_of(keys, rows_of(folder)))
    done = succeed("apply", folder / "e.npz", tmp_path / "x.bin", "-o", tmp_path / "o.bin")
    assert read_embeddings(tmp_path / "o.bin", D)[0] == keys
    assert "1 duplicate key" in done.err
    assert "w0" in done.err


def test_an_hdf5_file_keeps_what_else_it_holds(folder: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("deep/matrix", data=rows_of(folder), chunks=(16, 4), compression="gzip", shuffle=True)
        file["deep/matrix"].attrs["unit"] = "none"
        file["other"] = np.arange(5)
    succeed("apply", folder / "e.npz", tmp_path / "x.h5", "-o", tmp_path / "o.h5")
    with h5py.File(tmp_path / "o.h5") as file:
        assert_rounded(file["deep/matrix"][:], erased(rows_of(folder), folder / "e.npz"))
        assert (file["deep/matrix"].chunks, file["deep/matrix"].compression) == ((16, 4), "gzip")
        assert file["deep/matrix"].attrs["unit"] == "none"
        assert file["other"][:].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("strength", [0, 0.25, 1])
def test_strength_goes_that_share_of_the_way(folder: Path, tmp_path: Path, strength: float) -> None:
    options = ["-o", tmp_path / "o.npy", "--strength", strength]
    succeed("apply", folder / "e.npz", folder / "x.npy", *options)
    assert_rounded(np.load(tmp_path / "o.npy"), erased(rows_of(folder), folder / "e.npz", strength))


def test_reduced_rows_have_fewer_coordinates_and_the_same_inner_products(folder: Path, tmp_path: Path) -> None:
    options = ["-o", tmp_path / "o.npy", "--reduce", "--dtype", "float64", "--json"]
    assert succeed("apply", folder / "e.npz", folder / "x.npy", *options).json()["d"] == D - K
    found = np.load(tmp_path / "o.npy")
    assert found.shape == (N, D - K)
    assert found.dtype == np.float64
    centred = rows_of(folder) - load_eraser(folder / "e.npz")["mean"]
    gram = centred @ (np.eye(D) - projector(folder / "e.npz")) @ centred.T
    np.testing.assert_allclose(found @ found.T, gram, atol=1e-10)


@pytest.mark.parametrize("options", [["--reduce", "--strength", "0.5"], ["--strength", "1.5"], ["--dtype", "int8"]])
def test_options_that_make_no_sense_are_usage_errors(folder: Path, tmp_path: Path, options: list[str]) -> None:
    refuse(2, "apply", folder / "e.npz", folder / "x.npy", "-o", tmp_path / "o.npy", *options, says=options[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtype_chooses_the_numbers_of_the_output(folder: Path, tmp_path: Path, dtype: str) -> None:
    succeed("apply", folder / "e.npz", folder / "x.npy", "-o", tmp_path / "o.npy", "--dtype", dtype)
    found, exact = np.load(tmp_path / "o.npy"), erased(rows_of(folder), folder / "e.npz")
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=np.finfo(dtype).eps, atol=1e-6 if dtype == "float16" else 1e-13)


def test_float64_from_text_keeps_every_digit(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "x.txt").read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].rsplit(" ", 1)[0] + " 1.23456789012345"
    (tmp_path / "x.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["-o", tmp_path / "o.npy", "--dtype", "float64"]
    succeed("apply", folder / "e.npz", tmp_path / "x.txt", *options)
    x = np.array([[float(v) for v in line.rsplit(" ", D)[1:]] for line in lines[1:]])
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), erased(x, folder / "e.npz"), atol=1e-13)


def test_a_value_that_float16_cannot_hold_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    u = load_eraser(folder / "e.npz")["left"]
    x = rows_of(folder).astype(np.float64)
    x[7] = np.linalg.svd(u, full_matrices=True)[0][:, -1] * 1e6  # survives erasure whole
    exact = erased(x, folder / "e.npz")[7]
    save_npy(tmp_path / "x.npy", x)
    (tmp_path / "o.npy").write_bytes(b"old")
    done = refuse(
        3, "apply", folder / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", "--dtype", "float16", says="float16"
    )
    assert any(f"{value:.6g}" in done.err for value in exact[np.abs(exact) > 65_504])
    assert (tmp_path / "o.npy").read_bytes() == b"old"


def test_a_coarse_dtype_that_would_bring_the_attribute_back_is_widened_with_a_warning(tmp_path: Path) -> None:
    x, labels = planted(400, 6, seed=2, shift=1.0)
    save_npy(tmp_path / "x.npy", (x + 3000).astype(np.float16))
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    done = succeed("apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", "--quiet")
    assert np.load(tmp_path / "o.npy").dtype == np.float32
    assert "float16 is too coarse" in done.err
    insist = ["-o", tmp_path / "o.npy", "--dtype", "float16", "--quiet"]
    assert succeed("apply", tmp_path / "e.npz", tmp_path / "x.npy", *insist).stderr == b""
    assert np.load(tmp_path / "o.npy").dtype == np.float16


def test_text_flows_from_stdin_to_stdout(folder: Path) -> None:
    data = (folder / "x.txt").read_bytes()
    for given in (data, gzip.compress(data)):
        done = succeed("apply", folder / "e.npz", "-", "-o", "-", stdin=given)
        keys, found = read_text(done.stdout, D, has_header=True)
        assert keys == KEYS
        assert_rounded(found.astype(np.float32), erased(rows_of(folder), folder / "e.npz"))


def test_stdout_takes_text_only(folder: Path) -> None:
    refuse(2, "apply", folder / "e.npz", folder / "x.txt", "-o", "-", "--output-format", "npy", says="only text")


def test_another_width_is_refused_with_both_numbers_and_the_versions(folder: Path, tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.ones((5, D + 1)))
    done = refuse(3, "apply", folder / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", says="has 9 dimensions")
    assert "erases 8" in done.err
    assert "salcli 0." in done.err
    assert not (tmp_path / "o.npy").exists()


def test_erasing_twice_is_erasing_once(folder: Path, tmp_path: Path) -> None:
    for source, target in ((folder / "x.npy", "one.npy"), (tmp_path / "one.npy", "two.npy")):
        succeed("apply", folder / "e.npz", source, "-o", tmp_path / target, "--dtype", "float64")
    np.testing.assert_allclose(np.load(tmp_path / "two.npy"), np.load(tmp_path / "one.npy"), atol=1e-13)


def test_the_batch_size_changes_no_byte_of_the_output(folder: Path, tmp_path: Path) -> None:
    succeed("apply", folder / "e.npz", folder / "x.txt", "-o", tmp_path / "a.txt")
    succeed("apply", folder / "e.npz", folder / "x.txt", "-o", tmp_path / "b.txt", "--batch-rows", 3)
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()


def test_the_sample_words_come_out_in_their_order_in_every_file(tmp_path: Path) -> None:
    rows = [["he", "m"], ["him", "m"], ["she", "f"], ["her", "f"]]
    write_csv(tmp_path / "y.csv", ["word", "y"], rows)
    succeed("fit", SAMPLE / "glove-sample.txt", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    exact = erased(np.load(SAMPLE / "glove-sample.npy"), tmp_path / "e.npz")
    keys = (SAMPLE / "glove-sample.keys.txt").read_bytes().removesuffix(b"\n").split(b"\n")
    for source in ("glove-sample.txt", "glove-sample.h5"):
        succeed("apply", tmp_path / "e.npz", SAMPLE / source, "-o", tmp_path / "o.txt")
        found_keys, found = read_embeddings(tmp_path / "o.txt", 100)
        assert found_keys == keys
        assert_rounded(found, exact)


def test_what_another_format_cannot_take_along_is_told(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy")
    np.savez(tmp_path / "x.npz", vectors=x, ids=np.arange(len(x)))
    done = succeed("apply", folder / "e.npz", tmp_path / "x.npz", "-o", tmp_path / "o.npy")
    assert "left behind: ids" in done.err
    x[3, 0] = np.nan
    np.savez(tmp_path / "x.npz", vectors=x, ids=np.arange(len(x)))
    done = succeed("apply", folder / "e.npz", tmp_path / "x.npz", "-o", tmp_path / "o.npz", "--allow-nonfinite")
    assert "1 rows are dropped from the matrix, but not from what is copied beside it: ids" in done.err

"""`salcli fit`: which rows are fitted (split, sample, hold-out), and that nothing else changes a byte."""

import hashlib
import os
from pathlib import Path

import blake3
import numpy as np
import pytest

from .helpers import (
    header_of,
    load_eraser,
    one_hot,
    planted,
    projector,
    refuse,
    run,
    save_npy,
    succeed,
    text_of,
    words,
    write_csv,
)

pytestmark = pytest.mark.slow  # each test starts processes

N = 60
LABELS = ["rare" if i % 4 == 0 else "often" for i in range(N)]
PARTS = [("train", "dev", "test", "train")[i % 4] if i < 52 else "more" for i in range(N)]


def write_identity(folder: Path, order: np.ndarray) -> tuple[Path, Path]:
    """Write unit vectors: row `w7` is 1 in place 7, so that the artifact's mean tells which words were fitted."""
    keys = [b"w%d" % i for i in order]
    x = folder / "unit.txt"
    x.write_bytes(text_of(keys, np.eye(N, dtype=np.float32)[order], has_header=True))
    rows = [[f"w{i}", LABELS[i], PARTS[i]] for i in order[::-1]]
    return x, write_csv(folder / "unit.csv", ["word", "y", "split"], rows)


def fitted(path: Path) -> list[int]:
    """Name the fitted words by their number."""
    mean = load_eraser(path)["mean"]
    chosen = np.flatnonzero(mean)
    np.testing.assert_allclose(mean[chosen], 1 / len(chosen), rtol=1e-12)
    assert header_of(path)["rows"]["n_fitted"] == len(chosen)
    return chosen.tolist()


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_identity(tmp_path_factory.mktemp("unit"), np.arange(N))


def fit_rows(unit: tuple[Path, Path], tmp_path: Path, *options: object) -> list[int]:
    succeed("fit", *unit, "-o", tmp_path / "e.npz", "--attribute", "y", "--keep-mean", *options)
    return fitted(tmp_path / "e.npz")


def in_part(*names: str) -> list[int]:
    return [i for i in range(N) if PARTS[i] in names]


def test_a_split_column_leaves_only_the_train_rows(unit: tuple[Path, Path], tmp_path: Path) -> None:
    assert fit_rows(unit, tmp_path) == in_part("train")


def test_fit_split_names_another_part(unit: tuple[Path, Path], tmp_path: Path) -> None:
    assert fit_rows(unit, tmp_path, "--fit-split", "more") == in_part("more")


def test_no_split_fits_every_labelled_row(unit: tuple[Path, Path], tmp_path: Path) -> None:
    assert fit_rows(unit, tmp_path, "--no-split") == list(range(N))


def test_another_column_can_be_the_split(unit: tuple[Path, Path], tmp_path: Path) -> None:
    write_csv(tmp_path / "y.csv", ["word", "y", "fold"], [[f"w{i}", LABELS[i], f"f{i % 3}"] for i in range(N)])
    options = ("--split-column", "fold", "--fit-split", "f2")
    assert fit_rows((unit[0], tmp_path / "y.csv"), tmp_path, *options) == list(range(2, N, 3))


def test_a_part_without_rows_is_an_error_that_lists_the_parts(unit: tuple[Path, Path], tmp_path: Path) -> None:
    options = ["--attribute", "y", "--fit-split", "none"]
    done = refuse(3, "fit", *unit, "-o", tmp_path / "e.npz", *options, says="marked 'none'")
    assert "dev, more, test, train" in done.err


def test_holdout_beside_a_split_column_is_refused(unit: tuple[Path, Path], tmp_path: Path) -> None:
    options = ["--attribute", "y", "--holdout", "0.3"]
    refuse(2, "fit", *unit, "-o", tmp_path / "e.npz", *options, says="--no-split")


def test_a_sample_is_stratified_and_seeded(unit: tuple[Path, Path], tmp_path: Path) -> None:
    chosen = fit_rows(unit, tmp_path, "--no-split", "--sample", 20)
    assert [sum(LABELS[i] == name for i in chosen) for name in ("rare", "often")] == [5, 15]
    assert fit_rows(unit, tmp_path, "--no-split", "--sample", 20) == chosen
    other = fit_rows(unit, tmp_path, "--no-split", "--sample", 20, "--seed", 1)
    assert other != chosen
    assert [sum(LABELS[i] == name for i in other) for name in ("rare", "often")] == [5, 15]


def test_a_sample_is_drawn_from_the_rows_of_the_split(unit: tuple[Path, Path], tmp_path: Path) -> None:
    chosen = fit_rows(unit, tmp_path, "--sample", 10)
    assert len(chosen) == 10
    assert set(chosen) < set(in_part("train"))


def test_a_sample_above_the_rows_takes_all_and_says_so(unit: tuple[Path, Path], tmp_path: Path) -> None:
    options = ["--attribute", "y", "--no-split", "--sample", "1000", "--quiet"]
    done = succeed("fit", *unit, "-o", tmp_path / "e.npz", "--keep-mean", *options)
    assert fitted(tmp_path / "e.npz") == list(range(N))
    assert "only 60 labelled rows" in done.err


def test_a_holdout_keeps_the_same_words_out_whatever_the_row_order(unit: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--no-split", "--holdout", 0.4)
    chosen = fit_rows(unit, tmp_path, *options)
    assert 20 <= len(chosen) <= 50
    shuffled = write_identity(tmp_path, np.random.default_rng(8).permutation(N))
    assert fit_rows(shuffled, tmp_path, *options) == chosen
    assert fit_rows(unit, tmp_path, *options, "--seed", 1) != chosen
    wider = fit_rows(unit, tmp_path, "--no-split", "--holdout", 0.6)
    assert set(wider) < set(chosen)


def test_a_holdout_of_one_seed_keeps_the_same_words_out_for_ever(unit: tuple[Path, Path], tmp_path: Path) -> None:
    """An artifact states the rule, not the rows: were the hash to change, older artifacts could not be evaluated."""
    chosen = fit_rows(unit, tmp_path, "--no-split", "--holdout", 0.2)
    assert sorted(set(range(N)) - set(chosen)) == HELD_OUT


def test_a_holdout_without_keys_goes_by_row_number(unit: tuple[Path, Path], tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.eye(N))
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in LABELS])
    chosen = fit_rows((tmp_path / "x.npy", tmp_path / "y.csv"), tmp_path, "--holdout", 0.4)
    rng = np.random.default_rng(4)
    relabelled = write_csv(tmp_path / "z.csv", ["y"], [[rng.choice(["a", "b"])] for _ in range(N)])
    assert fit_rows((tmp_path / "x.npy", relabelled), tmp_path, "--holdout", 0.4) == chosen
    assert chosen != fit_rows(unit, tmp_path, "--no-split", "--holdout", 0.4)


# Bytes


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough rows for several blocks, keys and three classes."""
    folder = tmp_path_factory.mktemp("many")
    x, labels = planted(5_000, 24, n_classes=3, seed=3)
    save_npy(folder / "x.npy", x)
    (folder / "keys.txt").write_text("\n".join(words(5_000)), encoding="utf-8")
    write_csv(folder / "y.csv", ["word", "y"], zip(words(5_000), labels, strict=True))
    succeed("fit", *many_inputs(folder), "-o", folder / "e.npz")
    return folder


def many_inputs(folder: Path) -> list[object]:
    return [folder / "x.npy", folder / "y.csv", "--keys", folder / "keys.txt", "--holdout", 0.25, "--sample", 3000]


@pytest.mark.parametrize(
    "env",
    [
        {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "1"},
        {"OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "77"},
        {"OPENBLAS_NUM_THREADS": "4", "LC_ALL": "C", "TZ": "Asia/Tokyo"},
    ],
    ids=str,
)
def test_a_second_run_writes_the_same_bytes_whatever_the_environment(
    many: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    succeed("fit", *many_inputs(many), "-o", tmp_path / "again.npz", env=env)
    assert (tmp_path / "again.npz").read_bytes() == (many / "e.npz").read_bytes()


def test_a_run_from_another_folder_with_relative_names_writes_the_same_bytes(many: Path, tmp_path: Path) -> None:
    relative = [os.path.relpath(a, tmp_path) if isinstance(a, Path) else a for a in many_inputs(many)]
    assert str(relative[0]).startswith("..")
    succeed("fit", *relative, "-o", "again.npz", cwd=tmp_path)
    assert (tmp_path / "again.npz").read_bytes() == (many / "e.npz").read_bytes()


def test_the_artifact_tells_its_inputs_by_hash_and_no_place_or_time(many: Path) -> None:
    header = header_of(many / "e.npz")
    for name, file in (("embeddings", "x.npy"), ("labels", "y.csv")):
        data, about = (many / file).read_bytes(), header["inputs"][name]
        if name == "labels":
            assert about["sha256"] == hashlib.sha256(data).hexdigest()
        else:
            assert about["hash"] == {"algorithm": "blake3", "digest": blake3.blake3(data).hexdigest()}
        assert header["inputs"][name]["name"] == file
    assert str(many) not in str(header)
    assert header["rows"]["rule"] == {"fit_split": None, "holdout": 0.25, "sample": 3000, "seed": 0}


@pytest.mark.parametrize("rows", [7, 4096])
def test_the_batch_size_changes_the_directions_by_no_more_than_rounding(many: Path, tmp_path: Path, rows: int) -> None:
    succeed("fit", *many_inputs(many), "-o", tmp_path / "e.npz", "--batch-rows", rows)
    np.testing.assert_allclose(projector(tmp_path / "e.npz"), projector(many / "e.npz"), atol=1e-12)


def test_a_large_common_mean_does_not_blur_the_directions(tmp_path: Path) -> None:
    x, labels = planted(400, 6, seed=9)
    x = x.astype(np.float64) + 1e6
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    z = one_hot(labels)
    u = np.linalg.svd((x - x.mean(axis=0)).T @ (z - z.mean(axis=0)), full_matrices=False)[0][:, :1]
    np.testing.assert_allclose(projector(tmp_path / "e.npz"), u @ u.T, atol=1e-9)  # 1e6 leaves ten digits


def test_an_artifact_that_is_there_stays_when_the_fit_fails(many: Path, tmp_path: Path) -> None:
    (tmp_path / "e.npz").write_bytes(b"what was here")
    done = run("fit", *many_inputs(many), "-o", tmp_path / "e.npz", "-k", 9)
    assert done.code == 3
    assert (tmp_path / "e.npz").read_bytes() == b"what was here"
    assert [path.name for path in tmp_path.iterdir()] == ["e.npz"]


HELD_OUT = [11, 13, 16, 17, 23, 29, 30, 33, 35, 44, 45, 46, 49, 51]


def test_a_row_that_is_dropped_is_neither_fitted_nor_counted(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    labels = ["a" if i < 2 else "bc"[i % 2] for i in range(60)]
    x[:2, 1] = np.nan  # all that class `a` has
    x[7] = np.nan
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    files = ["fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--allow-nonfinite", "--json"]
    record = succeed(*files).json()
    (attribute,) = record["attributes"]
    assert attribute["classes"] == ["b", "c"]
    assert sum(attribute["counts"]) == record["rows"]["n_fitted"] == 57


def test_a_sample_is_evaluated_by_labels_in_any_order(tmp_path: Path) -> None:
    x, labels = planted(90, 4)
    (tmp_path / "x.txt").write_bytes(text_of([word.encode() for word in words(90)], x, has_header=True))
    rows = list(zip(words(90), labels, ("train", "train", "test") * 30, strict=True))
    for name, listed in (("y.csv", rows), ("z.csv", rows[::-1])):
        write_csv(tmp_path / name, ["word", "y", "split"], listed)
        fitted = ["fit", tmp_path / "x.txt", tmp_path / name, "--sample", "20"]
        succeed(*fitted, "-o", tmp_path / f"{name}.npz")
    one, other = (np.load(tmp_path / f"{name}.npz") for name in ("y.csv", "z.csv"))
    np.testing.assert_array_equal(one["left"], other["left"])
    args = ["evaluate", tmp_path / "x.txt", tmp_path / "z.csv", "--eraser", tmp_path / "y.csv.npz"]
    succeed(*args, "--probes", "linear")


def test_a_split_without_test_rows_is_told_as_that(tmp_path: Path) -> None:
    x, labels = planted(60, 4)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y", "split"], zip(labels, ("train", "train", "dev") * 20, strict=True))
    args = ["evaluate", tmp_path / "x.npy", tmp_path / "y.csv", "--probes", "linear"]
    assert "no row is marked test: there are only in-sample figures" in succeed(*args).err
    assert "so there is no fresh attacker" in succeed(*args, "--adversary", "fresh").err

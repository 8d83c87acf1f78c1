"""`salcli kfit` and what the other commands do with its erasers, in processes of their own."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from .helpers import (
    MODULE,
    Array,
    header_of,
    leftovers,
    one_hot,
    planted,
    refuse,
    run,
    save_npy,
    succeed,
    words,
    write_csv,
)

pytestmark = pytest.mark.slow  # each test starts processes

N, D, GAMMA = 240, 6, 0.05
ROUTES = ("all", "2048", "60")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose classes lie on two shells, so that only a kernel reads them, with a split and new rows."""
    folder = tmp_path_factory.mktemp("kfit")
    rng = np.random.default_rng(0)
    labels = ["far" if i % 3 else "near" for i in range(N)]
    x = rng.normal(size=(N, D)).astype(np.float32)
    x *= np.where(np.array(labels) == "far", 1.6, 0.7)[:, None] / np.linalg.norm(x, axis=1, keepdims=True) * 3
    save_npy(folder / "x.npy", x)
    save_npy(folder / "new.npy", rng.normal(size=(50, D)).astype(np.float32))
    parts = ["train" if i < 120 else "dev" if i < 180 else "test" for i in range(N)]
    write_csv(folder / "labels.csv", ["shell", "split"], zip(labels, parts, strict=True))
    write_csv(folder / "whole.csv", ["shell"], [[label] for label in labels])
    for route in ROUTES:
        kfit(folder, folder / f"{route}.npz", "--landmarks", route)
    return folder


def kfit(folder: Path, output: Path, *options: object, labels: str = "whole.csv", **how: Any) -> Any:
    files = (folder / "x.npy", folder / labels, "-o", output)
    return succeed("kfit", *files, "--gamma", GAMMA, *options, **how)


def gram(x: Array, y: Array) -> Array:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return np.exp(-GAMMA * ((x[:, None] - y[None]) ** 2).sum(axis=2))


def dense_oracle(x: Array, z: Array, y: Array, *, keeps_mean: bool) -> Array:
    """Erase y's inner products by the rank-1 removal of the centred fit on x, written out with n × n matrices."""
    n = len(x)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(z.T @ centring @ gram(x, x) @ centring @ z)
    dual = centring @ z @ vectors[:, -1:] / np.sqrt(values[-1])
    at_y, mean = gram(y, x) @ dual, gram(x, x).mean(axis=0) @ dual
    return gram(y, y) - at_y @ at_y.T + keeps_mean * (mean @ mean)


@pytest.mark.parametrize("route", ["all", "2048"])
@pytest.mark.parametrize("name", ["x.npy", "new.npy"])
@pytest.mark.parametrize("options", [(), ("--keep-mean",)], ids=str)
def test_written_vectors_and_the_written_kernel_matrix_are_those_of_the_dense_formula(
    folder: Path, tmp_path: Path, route: str, name: str, options: tuple[str, ...]
) -> None:
    x, y = np.load(folder / "x.npy"), np.load(folder / name)
    labels = [line.strip() for line in (folder / "whole.csv").read_text(encoding="utf-8").splitlines()[1:]]
    expected = dense_oracle(x, one_hot(labels), y, keeps_mean=bool(options))
    kfit(folder, tmp_path / "e.npz", "--landmarks", route, *options)
    written = (tmp_path / "e.npz", folder / name)
    succeed("apply", *written, "-o", tmp_path / "k.h5", "--kernel-matrix", "--dtype", "float64")
    with h5py.File(tmp_path / "k.h5") as file:
        found = file["kernel_matrix"][...]
        assert file["kernel_matrix"].chunks is not None
    assert_allclose(found, expected, atol=1e-9)
    assert_array_equal(found, found.T)
    succeed("apply", *written, "-o", tmp_path / "f.npy", "--dtype", "float64")
    features = np.load(tmp_path / "f.npy")
    if name == "x.npy":  # of other rows, the features hold what lies in the fitted rows' span
        assert_allclose(features @ features.T, expected, atol=1e-8)
    else:
        assert np.all(np.sum(features**2, axis=1) <= np.diag(expected) + 1e-8)


def test_a_few_landmarks_give_features_of_their_number_at_any_batch_size(folder: Path, tmp_path: Path) -> None:
    written = (folder / "60.npz", folder / "new.npy")
    succeed("apply", *written, "-o", tmp_path / "one.npy")
    succeed("apply", *written, "-o", tmp_path / "other.npy", "--batch-rows", 7)
    one, other = np.load(tmp_path / "one.npy"), np.load(tmp_path / "other.npy")
    assert one.shape == (50, 60)
    assert one.dtype == np.float32
    assert_allclose(one, other, atol=1e-6)
    succeed("apply", *written, "-o", tmp_path / "less.npy", "--reduce")
    assert np.load(tmp_path / "less.npy").shape == (50, 59)
    succeed("apply", *written, "-o", tmp_path / "none.npy", "--strength", 0, "--dtype", "float64")
    succeed("apply", *written, "-o", tmp_path / "half.npy", "--strength", 0.5, "--dtype", "float64")
    succeed("apply", *written, "-o", tmp_path / "whole.npy", "--dtype", "float64")
    none, half, whole = (np.load(tmp_path / f"{name}.npy") for name in ("none", "half", "whole"))
    assert_allclose(half, (none + whole) / 2, atol=1e-12)


def test_keys_and_the_format_travel_along(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("\n".join(words(50)) + "\n", encoding="utf-8")
    written = ("apply", folder / "60.npz", folder / "new.npy", "--keys", keys)
    succeed(*written, "-o", tmp_path / "f.txt", "--output-format", "glove")
    lines = (tmp_path / "f.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ")[0] for line in lines] == words(50)
    assert {len(line.split(" ")) for line in lines} == {61}
    succeed(*written, "-o", tmp_path / "k.h5", "--kernel-matrix")
    with h5py.File(tmp_path / "k.h5") as file:
        assert [key.decode() for key in file["keys"][...]] == words(50)
        assert file["kernel_matrix"].dtype == np.float32
        assert file["kernel_matrix"].attrs["name"] == "rbf"


@pytest.mark.parametrize("route", ROUTES)
def test_the_artifact_is_the_same_bytes_again_and_holds_landmarks_in_the_inputs_precision(
    folder: Path, tmp_path: Path, route: str
) -> None:
    kfit(folder, tmp_path / "again.npz", "--landmarks", route, env={"OPENBLAS_NUM_THREADS": "1"})
    assert (tmp_path / "again.npz").read_bytes() == (folder / f"{route}.npz").read_bytes()
    with np.load(folder / f"{route}.npz", allow_pickle=False) as arrays:
        assert arrays["landmarks"].dtype == np.float32
        x = np.load(folder / "x.npy")
        at = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in arrays["landmarks"]]
    assert at == sorted(set(at))
    assert len(at) == (60 if route == "60" else N)
    if route == "60":  # a stratified sample
        assert sum(i % 3 == 0 for i in at) == 20
    header = header_of(folder / f"{route}.npz")
    assert header["kernel"] == {"name": "rbf", "gamma": GAMMA}
    assert header["landmarks"]["n"] == len(at)


def test_half_precision_stays_half_precision_and_features_are_single(folder: Path, tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.load(folder / "x.npy").astype(np.float16))
    kfit(tmp_path, tmp_path / "e.npz", labels=str(folder / "whole.csv"))
    with np.load(tmp_path / "e.npz", allow_pickle=False) as arrays:
        assert arrays["landmarks"].dtype == np.float16
    succeed("apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "f.npy")
    assert np.load(tmp_path / "f.npy").dtype == np.float32


@pytest.mark.parametrize("route", ["all", "60"])
def test_attackers_read_the_shells_by_the_kernel_and_not_on_the_fitted_rows_afterwards(
    folder: Path, tmp_path: Path, route: str
) -> None:
    files = (folder / "x.npy", folder / "labels.csv")
    kfit(folder, tmp_path / "e.npz", "--landmarks", route, labels="labels.csv")
    probes = ("--probes", "linear,same-kernel", "--as", "raw", "--no-learning-curve")
    report = succeed("evaluate", *files, "--eraser", tmp_path / "e.npz", "--json", "--quiet", *probes).json()
    plain = [p for p in report["probes"] if not p["probe"].endswith("-weighted")]
    read = {(p["probe"], p["adversary"], p["stage"]): p["accuracy"] for p in plain}
    majority = report["probes"][0]["majority"]
    assert len(read) == 8
    for probe in ("linear", "same-kernel"):
        assert read[probe, "in-sample", "before"] > majority + 0.2
        assert read[probe, "in-sample", "after"] == pytest.approx(majority, abs=0.02)
    assert report["deviation"]["n"] == 60
    assert 0 < report["deviation"]["value"] < 3
    assert report["eraser"]["kernel"]["name"] == "rbf"
    gate = ("evaluate", *files, "--eraser", tmp_path / "e.npz", "--json", "--quiet", "--adversary", "in-sample")
    gate = (*gate, "--judge", "point")
    assert succeed(*gate, *probes, "--max-accuracy", "same-kernel=0.7").json()["verdict"] == "pass"
    failed = run(*gate, "--probes", "linear", "--max-accuracy", "same-kernel=0.7")
    assert failed.code == 1
    assert "same-kernel probe was not requested" in failed.json()["gates"][0]["reason"]


def test_deviation_is_the_mean_change_in_standard_deviations_of_the_kernel(folder: Path, tmp_path: Path) -> None:
    files = (folder / "x.npy", folder / "labels.csv")
    kfit(folder, tmp_path / "e.npz", "--landmarks", "all", labels="labels.csv")
    report = succeed(
        "evaluate", *files, "--eraser", tmp_path / "e.npz", "--json", "--probes", "same-kernel", "--quiet"
    ).json()
    test = np.load(folder / "x.npy")[180:]
    save_npy(tmp_path / "test.npy", test)
    succeed(
        "apply", tmp_path / "e.npz", tmp_path / "test.npy", "-o", tmp_path / "k.h5", "--kernel-matrix", "--dtype",
        "float64",
    )  # fmt: skip
    with h5py.File(tmp_path / "k.h5") as file:
        change = np.abs(file["kernel_matrix"][...] - gram(test, test)).mean()
    assert report["deviation"]["value"] == pytest.approx(change / gram(test, test).std(), rel=1e-9)


def test_inspect_tells_what_the_eraser_holds(folder: Path) -> None:
    found = succeed("inspect", folder / "60.npz", "--json").json()
    assert found["landmarks"] == {"n": 60, "rule": "stratified", "n_features": 60}
    rest = succeed("inspect", folder / "2048.npz", "--json").json()["landmarks"]
    assert (rest["n"], rest["rule"]) == (N, "every fitted row")
    assert found["kernel"] == {"name": "rbf", "gamma": GAMMA}
    assert found["n_bytes"] == 60 * D * 4 + 60 * 60 * 8 + 3 * 60 * 8 + 2 * 8
    shown = succeed("inspect", folder / "all.npz").out
    assert "training vectors included" in shown
    refuse(2, "inspect", folder / "all.npz", "--projection", folder / "p.npy", says="no d×d matrix")


def test_what_does_not_go_together_is_refused_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "out.h5", folder / "new.npy"
    succeed("fit", folder / "x.npy", folder / "labels.csv", "-o", tmp_path / "linear.npz")
    refuse(2, "apply", tmp_path / "linear.npz", rows, "-o", out, "--kernel-matrix", says="linear eraser")
    refuse(2, "apply", folder / "60.npz", rows, "--in-place", says="changes the width of rows")
    kernel = ("apply", folder / "60.npz", rows, "--kernel-matrix")
    refuse(2, *kernel, "-o", tmp_path / "out.npy", says="ends in .h5")
    refuse(2, *kernel, "-o", out, "--reduce", says="--reduce")
    refuse(2, *kernel, "-o", out, "--output-format", "npy", says="writes HDF5")
    files = ("kfit", folder / "x.npy", folder / "whole.csv", "-o", out)
    refuse(2, *files, "--kernel", "sigmoid", says="rbf, poly, linear")
    refuse(2, *files, "--gamma", "0", says="positive")
    refuse(2, *files, "--landmarks", "1", says="at least 2, or all")
    refuse(2, *files, "--landmarks", "many", says="a number of rows, or all")
    refuse(
        2,
        *files,
        "--method",
        "leave",
        says="--method leave: expected one of sal, leace, splince, inlp, ksal, transport, auto",
    )
    refuse(3, *files, "-k", 2, says="rank 1")
    refuse(2, "evaluate", folder / "x.npy", folder / "labels.csv", "--probes", "same-kernel", says="has a kernel")
    save_npy(tmp_path / "wide.npy", np.ones((3, D + 1), np.float32))
    refuse(3, "apply", folder / "60.npz", tmp_path / "wide.npy", "-o", out, says="erases 6")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linear.npz", "wide.npy"]


def limited(limit: str, *args: object) -> tuple[int, str]:
    shell = ("bash", "-c", f'ulimit {limit}; exec "$@"', "bash")
    done = run(*args, command=(*shell, *MODULE))
    assert b"Traceback" not in done.stderr, done
    assert done.stdout == b""
    return done.code, done.err.splitlines()[-1]


def test_work_that_memory_or_disk_cannot_hold_is_refused_before_it_starts(folder: Path, tmp_path: Path) -> None:
    x, labels = planted(20_000, 3)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "l.csv", ["g"], [[label] for label in labels])
    files = (tmp_path / "x.npy", tmp_path / "l.csv", "-o", tmp_path / "e.npz")
    succeed("kfit", *files, "--landmarks", "all", "--gamma", 0.01)  # by inner products it takes little
    done = limited("-v 4000000", "apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "f.npy")
    assert done[0] == 3
    assert "20,000 rows takes 5.96 GiB" in done[1]
    code, line = limited("-v 4000000", "kfit", *files[:3], tmp_path / "m.npz", "--landmarks", "19000")
    assert code == 3
    assert "19,000 landmarks takes 13.4 GiB" in line
    small = ("apply", folder / "60.npz", folder / "x.npy", "-o", tmp_path / "k.h5", "--kernel-matrix")
    code, line = limited("-f 20", *small)
    assert code == 4
    assert "the kernel matrix of 240 rows takes" in line
    assert leftovers(tmp_path) == []
    assert not {"f.npy", "m.npz", "k.h5"} & {path.name for path in tmp_path.iterdir()}


def test_a_deviation_of_few_rows_is_of_rows_of_every_class(tmp_path: Path) -> None:
    """The first hundred test rows are all of one class, and one point: their kernel values do not vary at all."""
    x, codes = np.zeros((400, 3)), np.repeat([0, 1], 200)
    x[200:] = 1 + np.random.default_rng(0).normal(size=(200, 3))
    parts = [("train", "test")[i % 2] for i in range(400)]
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y", "split"], zip(codes, parts, strict=True))
    succeed("kfit", tmp_path / "x.npy", tmp_path / "y.csv", "--landmarks", "30", "-o", tmp_path / "k.npz")
    args = ["evaluate", tmp_path / "x.npy", tmp_path / "y.csv", "--eraser", tmp_path / "k.npz", "--probes", "linear"]
    found = succeed(*args, "--probe-rows", "20", "--json").json()["deviation"]
    assert found["n"] == 20
    assert found["value"] is not None


def test_a_number_of_landmarks_is_plain_digits(folder: Path, tmp_path: Path) -> None:
    for text in ("1_0", "-3", "ten", "١٠"):
        args = ["kfit", folder / "x.npy", folder / "y.csv", "--landmarks", text, "-o", tmp_path / "k.npz"]
        refuse(2, *args, says="expected a number of rows, or all")


@pytest.mark.parametrize(
    ("kernel", "option", "value"),
    [("linear", "--gamma", "5"), ("linear", "--degree", "3"), ("rbf", "--degree", "3"), ("rbf", "--coef0", "0")],
)
def test_a_parameter_that_the_kernel_lacks_is_refused(
    folder: Path, tmp_path: Path, kernel: str, option: str, value: str
) -> None:
    args = ["kfit", folder / "x.npy", folder / "y.csv", "--kernel", kernel, option, value, "-o", tmp_path / "k.npz"]
    refuse(2, *args, says=f"the {kernel} kernel has no such parameter")


@pytest.mark.parametrize("route", ["all", "2048"])
@pytest.mark.parametrize(("size", "found"), [(1e3, 2), (1e9, 1)])
def test_what_is_lost_beside_larger_columns_is_told(tmp_path: Path, route: str, size: float, found: int) -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(90) % 3
    x = rng.normal(size=(90, 4)) + 3 * np.eye(3, 4)[codes]
    save_npy(tmp_path / "x.npy", x * [1, 1, size, 1])
    write_csv(tmp_path / "labels.csv", ["tone"], [["abc"[code]] for code in codes])
    files = (tmp_path / "x.npy", tmp_path / "labels.csv", "-o", tmp_path / "e.npz")
    done = succeed("kfit", *files, "--kernel", "linear", "--landmarks", route)
    assert header_of(tmp_path / "e.npz")["rank"] == found
    assert ("the labels span 2 directions" in done.err) == (found < 2)

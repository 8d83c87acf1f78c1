"""`kfit` and `evaluate`: whole commands held against limits of time and memory, and machines against other solvers."""

import csv
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import files
from benchmarks.speed.bench import MISSING, Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, python, salcli
from salcli.evaluation.attackers import ATTACKERS

KERNEL_ROWS, KERNEL_D = 15_000, 768
EVALUATED_ROWS, EVALUATED_D = 15_000, 300  # 7,350 of them train
SPLIT = (("train", 0.49), ("dev", 0.21), ("test", 0.30))
SECONDS, MEGABYTES = 60.0, 1500.0
INTELEX, USUAL = "scikit-learn-intelex", "scikit-learn"


def rows(bench: Bench) -> Iterator[Row]:
    """Measure both, and single machines."""
    yield from _kernels(bench)
    yield from _evaluate(bench)
    yield from _machines(bench)


def _kernels(bench: Bench) -> Iterator[Row]:
    n, d = bench.sized(KERNEL_ROWS, 500, power=0.5), KERNEL_D
    path, labels = _labelled(bench.folder, n, d)
    for name, landmarks, limits in (
        ("kfit exact", "all", (SECONDS, MEGABYTES)),
        ("kfit, 2048 landmarks", str(min(2048, n)), (SECONDS, MEGABYTES)),
    ):
        used = bench.used(
            "kfit", str(path), str(labels), "-o", str(bench.folder / "kernel.npz"),
            "--gamma", "0.001", "--landmarks", landmarks, "--no-split", "--attribute", "label", "--quiet",
        )  # fmt: skip
        size, bounds = files.size_of(n, d), ("float64 matrix product", "exp of float64")
        yield Row.within(f"{name}: time", [u.seconds for u in used], limits[0], "s",
                         section="kernels", size=size, bounds=bounds)  # fmt: skip
        yield Row.within(f"{name}: peak memory", [u.peak_mb for u in used], limits[1], "MB",
                         section="kernels", size=size)  # fmt: skip


def _evaluate(bench: Bench) -> Iterator[Row]:
    n, d = bench.sized(EVALUATED_ROWS, 600, power=0.5), EVALUATED_D
    path, labels = _labelled(bench.folder, n, d)
    eraser = bench.folder / "eraser.npz"
    salcli("fit", str(path), str(labels), "-o", str(eraser), "--quiet")
    default = ("evaluate", str(path), str(labels), "--eraser", str(eraser), "--quiet")
    command = (*default, "--probes", "linear,poly,rbf", "--no-learning-curve")
    name, patched = (
        "evaluate: 3 probes × before/after × 2 adversaries",
        f"the same under python -m sklearnex ({INTELEX})",
    )
    whole = "evaluate, the default command"
    works: dict[str, Work] = {name: partial(salcli, *command), whole: partial(salcli, *default)}
    if find_spec("sklearnex") is not None:
        works[patched] = partial(python, "-m", "sklearnex", "-m", "salcli", *command)
    seconds = bench.timed(works)
    size = f"{n:,} × {d} float32, {round(0.49 * n):,} train"
    yield Row.within(
        name, seconds[name], SECONDS, "s", section="kernels", size=size,
        note="limit without scikit-learn-intelex: 6 min", bounds=("one support vector machine",),
    )  # fmt: skip
    yield Row.within(whole, seconds[whole], SECONDS, "s", section="kernels", size=size)
    yield Row.times(
        name, patched, seconds[name], seconds.get(patched), section="kernels", size=size,
        note="it leaves machines on Gram matrices to scikit-learn" if patched in seconds else MISSING,
    )  # fmt: skip


def _machines(bench: Bench) -> Iterator[Row]:
    """Measure one attacker, training and answers, against the machines that evaluate the kernel themselves."""
    from sklearn.svm import SVC

    n = bench.sized(EVALUATED_ROWS, 600, power=0.5)
    x, codes = _rows(n, EVALUATED_D)
    x = x.astype(np.float64)
    n_train = round(0.49 * n)
    settings = {"C": 1.0, "gamma": 1 / EVALUATED_D}
    kinds: dict[str, Any] = {USUAL: SVC}
    if find_spec("sklearnex") is not None:
        from sklearnex.svm import SVC as IntelexSVC  # type: ignore[import-untyped]  # noqa: N811

        kinds[INTELEX] = IntelexSVC

    def ours() -> NDArray[Any]:
        return ATTACKERS["rbf"].fit(x[:n_train], codes[:n_train], settings, 0).predict(x[n_train:])

    def peer(kind: Any) -> NDArray[Any]:
        answers: NDArray[Any] = kind(**settings).fit(x[:n_train], codes[:n_train]).predict(x[n_train:])
        return answers

    works: dict[str, Work] = {"ours": ours, **{name: partial(peer, kind) for name, kind in kinds.items()}}
    seconds, answers = bench.timed(works), ours()
    for name in (USUAL, INTELEX):
        remark = MISSING
        if name in kinds:
            remark = f"{int(np.sum(peer(kinds[name]) != answers))} of {len(answers):,} answers differ"
        yield Row.times(
            "RBF machine of evaluate: train, and answer", f"{name}, SVC", seconds["ours"], seconds.get(name),
            section="kernels", size=f"{n_train:,} × {EVALUATED_D} float64", note=remark,
        )  # fmt: skip


def _rows(n: int, d: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Make rows of two classes that differ a little in their means and more in their scatter, and their codes."""
    rng, codes = np.random.default_rng(2), np.arange(n) % 2
    x = rng.normal(size=(n, d)) * np.where(codes, 1.0, 1.1)[:, None] + 0.1 * codes[:, None] * rng.normal(size=d)
    return x.astype(np.float32), codes


def _labelled(folder: Path, n: int, d: int) -> tuple[Path, Path]:
    """Write such rows, and a label CSV with a split."""
    x, codes = _rows(n, d)
    parts = np.random.default_rng(3).permutation(n) / n
    path, labels = folder / "labelled.npy", folder / "labelled.csv"
    np.save(path, x)
    (train, first), (dev, second), (test, _) = SPLIT
    with labels.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["label", "split"])
        for code, part in zip(codes, parts, strict=True):
            writer.writerow(["fm"[code], train if part < first else dev if part < first + second else test])
    return path, labels

"""`kfit` and `evaluate`: whole commands held against limits of time and memory."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import salcli

KERNEL_ROWS, KERNEL_D = 15_000, 768
EVALUATED_ROWS, EVALUATED_D = 15_000, 300  # 7,350 of them train
SPLIT = (("train", 0.49), ("dev", 0.21), ("test", 0.30))
SECONDS, MEGABYTES = 60.0, 1500.0


def rows(bench: Bench) -> Iterator[Row]:
    """Measure both."""
    yield from _kernels(bench)
    yield from _evaluate(bench)


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
    used = bench.used("evaluate", str(path), str(labels), "--eraser", str(eraser), "--quiet")
    yield Row.within(
        "evaluate: 3 probes × before/after × 2 adversaries", [u.seconds for u in used], SECONDS, "s",
        section="kernels", size=f"{n:,} × {d} float32, {round(0.49 * n):,} train",
        note="limit without scikit-learn-intelex: 6 min", bounds=("one support vector machine",),
    )  # fmt: skip


def _labelled(folder: Path, n: int, d: int) -> tuple[Path, Path]:
    """Write rows of two classes that differ a little in their means and more in their scatter, and a label CSV."""
    rng = np.random.default_rng(2)
    codes, parts = np.arange(n) % 2, rng.permutation(n) / n
    x = rng.normal(size=(n, d)) * np.where(codes, 1.0, 1.1)[:, None] + 0.1 * codes[:, None] * rng.normal(size=d)
    path, labels = folder / "labelled.npy", folder / "labelled.csv"
    np.save(path, x.astype(np.float32))
    (train, first), (dev, second), (test, _) = SPLIT
    with labels.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["label", "split"])
        for code, part in zip(codes, parts, strict=True):
            writer.writerow(["fm"[code], train if part < first else dev if part < first + second else test])
    return path, labels

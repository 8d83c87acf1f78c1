"""Many files against one with the same rows: the pass of `fit`, and `apply` into a folder, which hashes both sides."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.ours import FitPass, apply
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Measure, Usage, Work, salcli

FILE_BYTES, LEAST_BYTES, D = 1e9, 16 << 20, 300
SHARDS, MANY, TARGET, GROWTH_TARGET = 8, (1, 8, 64), 0.9, 0.8
FIT_ROWS = 20_000
ONE = "one file of the same rows"


def rows(bench: Bench) -> Iterator[Row]:
    """Measure 8 shards against one file, then how time grows with the number of shards."""
    n, folder = bench.sized(FILE_BYTES, LEAST_BYTES) // (4 * D), bench.folder
    path = files.write_npy(folder / "x.npy", n, D)
    cut = {number: _write_shards(folder / f"shards{number}", n, number) for number in MANY}
    eraser = _eraser(folder)
    size, n_bytes = files.size_of(n, D), 4.0 * n * D
    passes: dict[int, Work] = {number: FitPass(each, n, 2) for number, each in cut.items()}
    whole: Work = FitPass(path, n, 2)
    yield from _against_one("fit pass", bench.timed({ONE: whole, "ours": passes[SHARDS]}), n_bytes, size)
    yield _growth("fit pass", bench.timed({str(number): each for number, each in passes.items()}), size)
    written: dict[int, Work] = {
        number: partial(_apply_anew, eraser, each, folder / "out") for number, each in cut.items()
    }
    single: Work = partial(_apply_anew, eraser, path, folder / "out.npy")
    works = {ONE: single, "ours": written[SHARDS]}
    yield from _against_one("apply", bench.timed(works, touches=n_bytes), n_bytes, size)
    yield _growth("apply", bench.timed({str(number): each for number, each in written.items()}, touches=n_bytes), size)
    for left in (*cut.values(), folder / "out"):
        shutil.rmtree(left)


def _write_shards(folder: Path, n: int, number: int) -> Path:
    """Write as many rows as one file has, and in the same way: reading depends on how a file came to be cached."""
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(n), number)):
        files.write_npy(folder / f"x_{i}.npy", len(part), D)
    return folder


def _eraser(folder: Path) -> Path:
    path, artifact = files.write_npy(folder / "fitted.npy", FIT_ROWS, D), folder / "eraser.npz"
    labels = files.write_labels(folder / "fitted.csv", FIT_ROWS, 2)
    salcli("fit", str(path), str(labels), "-o", str(artifact), "-k", "1", "--quiet")
    return artifact


def _apply_anew(eraser: Path, source: Path, target: Path) -> Usage:
    """Apply to a target that is not there; removing the one of the last time is not timed."""
    if target.is_file():
        target.unlink()
    shutil.rmtree(target, ignore_errors=True)
    start = time.perf_counter()
    apply(eraser, source, target)
    return Usage(time.perf_counter() - start, 0.0)


def _against_one(work: str, seconds: dict[str, list[float]], n_bytes: float, size: str) -> Iterator[Row]:
    yield Row.rates(f"{work}, {SHARDS} shards", ONE, seconds["ours"], seconds[ONE], n_bytes, section="shards",
                    size=size, target=TARGET)  # fmt: skip


def _growth(work: str, seconds: dict[str, list[float]], size: str) -> Row:
    """Compare the times of the fewest and of the most shards, at most 1."""
    measures = {number: Measure.of(each, "s") for number, each in seconds.items()}
    (fewest, first), *_, (most, last) = measures.items()
    points = ", ".join(f"{number}: {each.median:.3g} s ± {each.spread:.0%}" for number, each in measures.items())
    return Row("shards", f"{work}, {fewest} to {most} shards", "time of the fewest", size, last, first,
               min(1.0, first.median / last.median), GROWTH_TARGET, note=points)  # fmt: skip

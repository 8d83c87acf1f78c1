"""Methods that take more than one pass: time and memory of `fit`, and transport's `apply` beside its products."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, salcli
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.streaming.engine import one_blas_thread

ROWS, D, CLASSES = 200_000, 768, 2
APPLIED, WIDTHS, MOST_OVER_PRODUCTS = 50_000, (100, 300, 768), 1.5
FIT_SECONDS = 60.0
MEGABYTES = 150 + 40 * D * D * CLASSES / 1e6
"""150 MB, and 40 d² bytes a class."""
COMMANDS = {
    "fit --method transport": ("--method", "transport"),
    "fit --method inlp": ("--method", "inlp"),
    "fit -k auto": ("-k", "auto"),
}


def rows(bench: Bench) -> Iterator[Row]:
    """Measure commands, then the eraser alone."""
    n = bench.sized(ROWS, 2_000)
    path, labels = _labelled(bench.folder, n)
    idle, size = salcli("--help").peak_mb, files.size_of(n, D)
    for name, options in COMMANDS.items():
        used = bench.used("fit", str(path), str(labels), "-o", str(bench.folder / "e.npz"), "--quiet", *options)
        if "transport" in name:
            yield Row.within(f"{name}: time", [u.seconds for u in used], FIT_SECONDS, "s", section="methods", size=size)
        yield Row.within(
            f"{name}: peak memory over idle", [u.peak_mb - idle for u in used], MEGABYTES, "MB",
            section="methods", size=size, note="idle: salcli --help",
            bounds=("scipy.linalg and pyarrow are imported",),
        )  # fmt: skip
    path.unlink()
    for d in WIDTHS:
        yield _applied(bench, d)


def _applied(bench: Bench, d: int) -> Row:
    """Compare transported rows with the products alone: posterior, mean step, and a matrix for each class."""
    x = np.random.default_rng(0).standard_normal((bench.sized(APPLIED, 5_000), d), dtype=np.float32)
    eraser = transport_of(d)
    out = np.empty_like(x)
    ours, products = "transport of rows in memory", "its dense products alone, float64"
    works: dict[str, Work] = {ours: partial(eraser, x, out=out), products: products_of(eraser, x)}
    eraser(x[:1])  # loads the library whose threads are limited
    with one_blas_thread():
        seconds = bench.timed(works)
    return Row.smaller(
        f"{ours}, d = {d}", products, seconds[ours], seconds[products], "s",
        section="methods", size=files.size_of(len(x), d), target=1 / MOST_OVER_PRODUCTS, bounds=BOUNDS,
        note="one thread; both in blocks of the same size",
    )  # fmt: skip


BLOCK_ELEMENTS = 1 << 18  # as many as the eraser widens at once
BOUNDS = ("float64 matrix product", "float32 → float64 in a cached block")


def transport_of(d: int) -> TransportEraser:
    """Return a transport of two classes in `d` dimensions, of random numbers."""
    rng = np.random.default_rng(1)
    v = np.linalg.qr(rng.normal(size=(d, 1)))[0]
    maps = np.stack([np.eye(d) + 0.01 * (m + m.T) for m in rng.normal(size=(CLASSES, d, d))])
    return TransportEraser(
        np.zeros(d), v, np.zeros(d), maps, Posterior(rng.normal(size=(d, CLASSES)), np.zeros(2), 1.0)
    )


def products_of(eraser: TransportEraser, x: "np.ndarray") -> Callable[[], None]:
    """Return the work of all matrix products that the eraser needs for rows `x` `[n, d]`, block by block."""
    n = max(1, BLOCK_ELEMENTS // eraser.d)
    blocks = [x[start : start + n].astype(np.float64) for start in range(0, min(len(x), 4 * n), n)]
    thin = np.hstack([eraser.posterior.weights, eraser.directions])
    left_t, n_blocks = np.ascontiguousarray(eraser.directions.T), -(-len(x) // n)
    out = np.empty((n, eraser.d))

    def multiplied() -> None:
        for i in range(n_blocks):
            block = blocks[i % len(blocks)]
            small = block @ thin
            np.matmul(small[:, -1:], left_t, out=out[: len(block)])
            for matrix in eraser.maps:
                np.matmul(block, matrix, out=out[: len(block)])

    return multiplied


def _labelled(folder: Path, n: int) -> tuple[Path, Path]:
    """Write rows of two classes that differ in mean and scatter, and their labels."""
    path, rng = folder / "methods.npy", np.random.default_rng(2)
    x = np.lib.format.open_memmap(path, "w+", np.float32, (n, D))
    shift, codes = 0.1 * rng.normal(size=D), files.codes_of(n, CLASSES)
    for start in range(0, n, 10_000):
        second = codes[start : start + 10_000, None]
        x[start : start + 10_000] = rng.normal(size=(len(second), D)) * np.where(second, 1, 1.1) + second * shift
    x.flush()
    return path, files.write_labels(folder / "methods.csv", n, CLASSES)

"""What the machine allows: the rates of single steps, each alone, that stand beside missed targets."""

import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.fitting import DIMENSIONS
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Measure, Work, interleaved, python
from salcli.data.digests import labels_digest, rows_digest
from salcli.data.hashes import HASH_ALGORITHMS, hasher
from salcli.erasers.linear import LinearEraser
from salcli.formats.hash_in_step import HASHED_BYTES
from salcli.formats.label_table import read_labels
from salcli.linalg.blas import add_products
from salcli.linalg.class_sums import GroupedSums, Grouping, RowSums
from salcli.linalg.label_matrix import LabelMatrix
from salcli.options import LabelOptions
from salcli.streaming.engine import N_THREADS, one_blas_thread, ordered_map

BLOCK, FILE_BYTES, FRESH_BYTES, LEAST_BYTES = (512, 300), 2.5e8, 2.5e8, 8 << 20
MEMORY_BYTES, ROWS_ERASED = 1e9, 2304
TEXT_ROWS, EXPONENTS, SVM_ROWS, LABELS = 5_000, 1_000_000, 2_000, 1_000_000
AGAINST = "bare read"
ERASING, PRODUCT = "our eraser on cached rows, k = 30", "float64 matrix products, one a thread"


def rows(bench: Bench) -> Iterator[Row]:
    """Measure every step as often as anything else."""
    n = bench.sized(FILE_BYTES, LEAST_BYTES) // 1200
    path = files.write_npy(bench.folder / "x.npy", n, 300)
    steps = {**_in_cache(), **_over_memory(bench), **_text()}
    sizes = {AGAINST: path.stat().st_size, **{name: n_bytes for name, (_, n_bytes) in steps.items()}}
    works: dict[str, Work] = {AGAINST: partial(files.bare_read, path)}
    with one_blas_thread():
        seconds = interleaved(works | {name: work for name, (work, _) in steps.items()}, max(3, bench.repeats))
    rates = {name: Measure.of(seconds[name], "s").rate(sizes[name] / 1e9, "GB/s") for name in sizes}
    read = rates.pop(AGAINST)
    yield Row.alone(AGAINST, read)
    for name, rate in rates.items():
        yield Row("bounds", name, AGAINST, "", rate, read, rate.median / read.median)
    path.unlink()
    yield from _on_all_threads(bench)
    yield from _counted(bench)
    yield from _labels(bench)
    yield from _starts(bench)


def _on_all_threads(bench: Bench) -> Iterator[Row]:
    """Measure what threads reach together: they share the memory, and on some machines a core."""
    numbers = np.ones(bench.sized(MEMORY_BYTES, LEAST_BYTES) // 4, np.float32)
    rng, x64, y64 = np.random.default_rng(0), np.ones((512, 768)), np.ones((768, 512))
    cached = [rng.standard_normal((ROWS_ERASED, BLOCK[1]), dtype=np.float32) for _ in range(N_THREADS)]
    u = np.linalg.qr(rng.standard_normal((BLOCK[1], 30)))[0]
    eraser, times = LinearEraser(np.zeros(BLOCK[1]), u, u), 20

    def erased(rows: NDArray[Any]) -> None:
        for _ in range(times):
            eraser(rows, out=rows)

    def multiplied(_: int) -> None:
        for _ in range(times):
            x64 @ y64

    def everywhere(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
        for _ in ordered_map(work, parts):
            pass

    rows_of = {d: numbers[: len(numbers) // d * d].reshape(-1, d) for d in DIMENSIONS}
    works: dict[str, Work] = {
        f"class sums, d = {d}, {c} classes": partial(everywhere, *_class_sums(x, c))
        for d, x in rows_of.items()
        for c in (2, 30)
    }
    works |= {
        ERASING: partial(everywhere, erased, cached),
        PRODUCT: partial(everywhere, multiplied, range(N_THREADS)),
    }
    amounts = dict.fromkeys(works, numbers.nbytes / 1e9)
    amounts |= {
        ERASING: N_THREADS * times * cached[0].nbytes / 1e9,
        PRODUCT: N_THREADS * times * x64.size * y64.shape[1] / 1e9,
    }
    for name, seconds in interleaved(works, max(5, bench.repeats)).items():
        unit = "G/s" if name == PRODUCT else "GB/s"
        rate = Measure.of(seconds, "s").rate(amounts[name], unit)
        yield Row.alone(name, rate, note=f"{N_THREADS} threads", is_on_all_threads=True)


def _class_sums(x: NDArray[Any], n_classes: int) -> tuple[Callable[[int], None], range]:
    """Give the work on each block of rows, and where blocks begin: scipy's kernel alone, by groups as in `fit`."""
    n_rows, per_group, of_thread = 1 << 14, 1 << (48 * n_classes).bit_length() - 1, threading.local()
    place = np.arange(n_rows, dtype=np.int32)
    place = place // per_group * n_classes + files.codes_of(n_rows, n_classes)
    starts, ones = np.arange(n_rows + 1, dtype=np.int32), np.ones(n_rows, np.float32)

    def summed(start: int) -> None:
        if not hasattr(of_thread, "sums"):
            of_thread.sums = np.zeros((int(place.max()) + 1, x.shape[1]), np.float32)
        rows = x[start : start + n_rows]
        add_products(of_thread.sums, starts[: len(rows) + 1], place[: len(rows)], ones[: len(rows)], rows)

    return summed, range(0, len(x), n_rows)


def _in_cache() -> dict[str, tuple[Work, float]]:
    """Give steps on one block that stays in a core's own cache, again and again: (work, bytes of float32)."""
    block = np.random.default_rng(0).standard_normal(BLOCK, dtype=np.float32)
    wide, design, times = np.empty(BLOCK), np.eye(2, dtype=np.float32)[np.arange(len(block)) % 2], 200
    z = design.T.astype(np.float64)

    def widened() -> None:
        for _ in range(times):
            np.copyto(wide, block)

    def summed() -> None:
        for _ in range(times):
            design.T @ block

    def multiplied() -> None:
        for _ in range(times):
            z @ wide

    exact, by_groups = RowSums(BLOCK[1], 2, n_one_hot=2), GroupedSums(BLOCK[1], 2, Grouping())
    more = np.tile(block, (Grouping().block_rows(BLOCK[1]) // len(block), 1))

    def added(sums: RowSums, rows: NDArray[Any]) -> None:
        one_hot = LabelMatrix((np.arange(len(rows)) % 2).astype(np.int32)[:, None], None, 2, 2)
        for _ in range(times):
            sums.add(rows, one_hot)

    n_bytes = float(times * block.nbytes)
    return {
        "our class sums of a block": (partial(added, by_groups, more), float(times * more.nbytes)),
        "our float64 class sums of a cached block": (partial(added, exact, block), n_bytes),
        "float32 → float64 in a cached block": (widened, n_bytes),
        "float32 sums of a cached block": (summed, n_bytes),
        "float64 sums of a cached block": (multiplied, 2 * n_bytes),
    }


def _over_memory(bench: Bench) -> dict[str, tuple[Work, float]]:
    """Give steps over more bytes than any cache holds."""
    size = bench.sized(FRESH_BYTES, LEAST_BYTES, power=0.5)
    given, piece = np.ones(size // 4, np.float32), memoryview(bytes(1 << 20))
    target, hashed_piece = bench.folder / "written", bytes(HASHED_BYTES)

    def hashed(algorithm: str) -> None:
        digest = hasher(algorithm)
        for _ in range(size // HASHED_BYTES):
            digest.update(hashed_piece)

    def written() -> None:
        with target.open("wb", buffering=0) as out:
            for _ in range(size >> 20):
                out.write(piece)
            os.fsync(out.fileno())
        target.unlink()

    return {
        **{name: (partial(hashed, name), float(size // HASHED_BYTES * HASHED_BYTES)) for name in HASH_ALGORITHMS},
        "copy into a fresh array (page faults)": (given.copy, float(given.nbytes)),
        "write and fsync": (written, float(size >> 20 << 20)),
    }


def _text() -> dict[str, tuple[Work, float]]:
    """Give the parser and the speller alone, counted in bytes of text."""
    from pyarrow import csv

    vectors = np.random.default_rng(0).standard_normal((TEXT_ROWS, BLOCK[1]), dtype=np.float32)
    text = orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].replace(b"],[", b"\n").replace(b",", b" ")

    def parsed() -> None:
        read = csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
        csv.read_csv(io.BytesIO(text), read, csv.ParseOptions(delimiter=" "))

    def spelled() -> None:
        orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY)

    return {"parse text": (parsed, float(len(text))), "spell float32 as text": (spelled, float(len(text)))}


def _counted(bench: Bench) -> Iterator[Row]:
    """Measure what is counted in operations, and a support vector machine."""
    x, y, z = np.ones((512, 768)), np.ones((768, 4096)), np.linspace(-1, 0, EXPONENTS)
    out = np.empty_like(z)
    works: dict[str, Work] = {
        "float64 matrix product": partial(np.matmul, x, y),
        "exp of float64": partial(np.exp, z, out=out),
    }
    counts = {"float64 matrix product": x.shape[0] * y.size, "exp of float64": EXPONENTS}
    with one_blas_thread():
        seconds = interleaved(works, max(3, bench.repeats))
    for name in works:
        yield Row.alone(name, Measure.of(seconds[name], "s").rate(counts[name] / 1e9, "G/s"))
    x_hard, codes = _hard_rows()
    alone = Measure.of(interleaved({"svm": partial(_machine, x_hard, codes)}, 3)["svm"], "s")
    size, note = files.size_of(SVM_ROWS, BLOCK[1], "float64"), "RBF, C = 1, rows without a trace of the classes"
    yield Row.alone("one support vector machine", alone, size, note)


def _labels(bench: Bench) -> Iterator[Row]:
    """Measure what a whole command does with labels, row by row."""
    path = files.write_labels(bench.folder / "many.csv", LABELS, 2)
    labels, index = read_labels(str(path), LabelOptions()), range(LABELS)
    works: dict[str, Work] = {
        "our reader of label CSVs": partial(read_labels, str(path), LabelOptions()),
        "our digest of the rows": partial(rows_digest, labels, index),
        "our digest of the labels": partial(labels_digest, labels, labels.attributes[0], index),
    }
    for name, seconds in interleaved(works, max(3, bench.repeats)).items():
        yield Row.alone(name, Measure.of(seconds, "s").rate(LABELS / 1e6, "M rows/s"), f"{LABELS:,} rows")


def _hard_rows() -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(SVM_ROWS, 300)), np.arange(SVM_ROWS) % 2


def _machine(x: NDArray[Any], codes: NDArray[Any]) -> None:
    from sklearn.svm import SVC

    SVC(C=1.0, gamma=1 / x.shape[1]).fit(x, codes)


def _starts(bench: Bench) -> Iterator[Row]:
    """Measure what imports cost, in time at start-up and in memory."""
    light, heavy = "import numpy, typer, rich.console, rich.table", ", scipy.linalg, pyarrow.csv"
    works: dict[str, Work] = {
        "python starts": partial(python, "-c", "pass"),
        "numpy, typer and rich are imported": partial(python, "-c", light),
    }
    seconds = interleaved(works, max(5, bench.repeats))
    for name in works:
        yield Row.alone(name, Measure.of(seconds[name], "s"))
    more = [python("-c", light + heavy).peak_mb - python("-c", light).peak_mb for _ in range(3)]
    yield Row.alone("scipy.linalg and pyarrow are imported", Measure.of(more, "MB"))

"""`fit`: its pass over a file and the whole command against a bare read, and its memory."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.ours import FitPass, write_text
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, salcli
from salcli.data.hashes import HASH_ALGORITHMS

FILE_BYTES, FORMAT_BYTES, GZIP_BYTES, TEXT_BYTES = 4e9, 5e8, 5e7, 1e8  # at scale 1
DIMENSIONS, LEAST_BYTES = (300, 768), 4 << 20
LEAST_GZIP_BYTES = 25 << 20  # a smaller file is read out of a cache, and as fast as chance will have it
PASS_TARGET, MEMORY_LIMIT, FLAT_TARGET = 1.0, 150.0, 0.8
COMMAND_TARGETS = {"blake3": 0.2, "sha256": None, "none": 0.4}
DEFAULT = HASH_ALGORITHMS[0]
AGAINST = "bare read"
COMMAND_BOUNDS = ("our reader of label CSVs", "our digest of the rows", "our digest of the labels")
START = "numpy, typer and rich are imported"
PASS_BOUNDS = ("our class sums of a block", "float32 sums of a cached block")


def rows(bench: Bench) -> Iterator[Row]:
    """Measure passes, commands, other formats and memory."""
    for d in DIMENSIONS:
        yield from _passes(bench, d)
    yield from _formats(bench)
    yield from _memory(bench)


def _passes(bench: Bench, d: int) -> Iterator[Row]:
    n = bench.sized(FILE_BYTES, LEAST_BYTES) // (4 * d)
    path = files.write_npy(bench.folder / "x.npy", n, d)
    labels = files.write_labels(bench.folder / "labels.csv", n, 2)
    command = ("fit", str(path), str(labels), "-o", str(bench.folder / "eraser.npz"), "--quiet")
    classes = {f"fit pass, d = {d}, {c} classes": c for c in (2, 30)}
    names = {name: FitPass(path, n, c) for name, c in classes.items()}
    commands = {f"salcli fit --hash {name}, d = {d}, whole command": name for name in COMMAND_TARGETS}
    works: dict[str, Work] = {AGAINST: partial(files.bare_read, path), **names}
    works |= {name: partial(salcli, *command, "--hash", algorithm) for name, algorithm in commands.items()}
    seconds = bench.timed(works)
    size, n_bytes = files.size_of(n, d), 4.0 * n * d
    for name in names:
        yield Row.rates(
            name, AGAINST, seconds[name], seconds[AGAINST], n_bytes,
            section="fit", size=size, target=PASS_TARGET,
            bounds=(*PASS_BOUNDS, f"class sums, d = {d}, {classes[name]} classes"),
        )  # fmt: skip
    for name, algorithm in commands.items():
        yield Row.rates(
            name, AGAINST, seconds[name], seconds[AGAINST], n_bytes,
            section="fit", size=size, target=COMMAND_TARGETS[algorithm],
            bounds=(*(() if algorithm == "none" else (algorithm,)), *COMMAND_BOUNDS, START),
            note=f"start-up, label CSV and the artifact included{'; the default' if algorithm == DEFAULT else ''}",
        )  # fmt: skip
    path.unlink()


def _formats(bench: Bench) -> Iterator[Row]:
    d, n = 300, bench.sized(FORMAT_BYTES, LEAST_BYTES) // 1200
    n_packed = bench.sized(GZIP_BYTES, LEAST_GZIP_BYTES) // 1200
    folder = bench.folder
    made: dict[str, Callable[[], tuple[Path, int]]] = {
        "float16 .npy": lambda: (files.write_npy(folder / "half.npy", n, d, np.float16), n),
        ".h5, contiguous": lambda: (files.write_h5(folder / "contiguous.h5", n, d), n),
        ".h5, chunked": lambda: (files.write_h5(folder / "chunked.h5", n, d, chunks=(1024, d)), n),
        ".h5, chunked, gzip": lambda: (
            files.write_h5(folder / "gzip.h5", n_packed, d, chunks=(1024, d), compression="gzip"),
            n_packed,
        ),
        "word2vec binary": lambda: (files.write_binary(folder / "x.bin", n, d), n),
    }
    for name, make in made.items():
        path, rows_made = make()
        works: dict[str, Work] = {AGAINST: partial(files.bare_read, path), "ours": FitPass(path, rows_made, 2)}
        seconds = bench.timed(works)
        yield Row.rates(
            f"fit pass, {name}", "bare read of the same file", seconds["ours"], seconds[AGAINST], path.stat().st_size,
            section="fit", size=files.size_of(rows_made, d, "float16" if "16" in name else "float32"),
        )  # fmt: skip
        path.unlink()


def _memory(bench: Bench) -> Iterator[Row]:
    d = 300
    for kind, whole in (("npy", FILE_BYTES), ("text", TEXT_BYTES)):
        used: list[list[float]] = []
        for share in (4, 1):
            n = bench.sized(whole, LEAST_BYTES) // (4 * d * share)
            path = _text(bench.folder, n, d) if kind == "text" else files.write_npy(bench.folder / "m.npy", n, d)
            used.append(_over_idle(bench, path, files.write_labels(bench.folder / "m.csv", n, 2)))
            path.unlink()
            yield Row.within(
                f"fit, {kind}: peak memory over idle, {'a quarter of the file' if share > 1 else 'the file'}",
                used[-1], MEMORY_LIMIT, "MB",
                section="fit", size=files.size_of(n, d), bounds=("scipy.linalg and pyarrow are imported",),
                note="idle: salcli --help",
            )  # fmt: skip
        small, large = used
        yield Row.smaller(f"fit, {kind}: memory does not grow with the file", "a quarter of the file", large, small,
                          "MB", section="fit", size=files.size_of(n, d), target=FLAT_TARGET)  # fmt: skip


def _text(folder: Path, n: int, d: int) -> Path:
    binary, text = files.write_binary(folder / "m.bin", n, d), folder / "m.txt"
    write_text(binary, text)
    binary.unlink()
    return text


def _over_idle(bench: Bench, path: Path, labels: Path) -> list[float]:
    command = ("fit", str(path), str(labels), "-o", str(bench.folder / "eraser.npz"), "--quiet")
    idle = salcli("--help").peak_mb
    return [used.peak_mb - idle for used in bench.used(*command)]

"""Parquet: the pass of `fit` against pyarrow's decode of that column on as many threads, and memory of the commands."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.ours import FitPass
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, salcli
from salcli.streaming.engine import N_THREADS

FILE_BYTES, MEMORY_BYTES, LEAST_BYTES = 4e8, 4e8, 1 << 20  # at scale 1
D, GROUP_ROWS, WIDE_D = 256, 10_000, 768
TARGET, MEMORY_LIMIT = 0.9, 150.0
VECTORS, BOUNDED_BYTES = "embedding", 1 << 20
PLAIN, BOUNDED = "pyarrow's decode, by row groups", "pyarrow's decode, in bounded memory"
WHAT = "of the vectors, without the digest"
AS_OURS = "read with our buffers, in our batches, and thrown away: the rest is what checks and sums cost"
SPLIT = {f"{VECTORS}.list.element": "BYTE_STREAM_SPLIT"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "not compressed": {"compression": "none", "use_dictionary": False},
    "zstd": {"compression": "zstd", "use_dictionary": False},
    "zstd, split by bytes": {"compression": "zstd", "use_dictionary": False, "column_encoding": SPLIT},
    "pyarrow's defaults": {},
    "zstd, small row groups": {"compression": "zstd", "use_dictionary": False, "row_group_size": 1000},
}


def rows(bench: Bench) -> Iterator[Row]:
    """Measure the pass over files of several layouts, then peaks."""
    n = bench.sized(FILE_BYTES, LEAST_BYTES) // (4 * D)
    for name, how in LAYOUTS.items():
        path = _write(bench.folder / "x.parquet", n, D, **how)
        works: dict[str, Work] = {
            PLAIN: partial(_on_threads, path, is_bounded=False),
            BOUNDED: partial(_on_threads, path, is_bounded=True),
            "ours": FitPass(path, n, 2),
        }
        seconds = bench.timed(works)
        for against, target, note in ((PLAIN, TARGET, WHAT), (BOUNDED, None, f"{WHAT}; {AS_OURS}")):
            yield Row.rates(
                f"fit pass, {name}", against, seconds["ours"], seconds[against], 4.0 * n * D,
                section="tables", size=files.size_of(n, D), target=target, note=note,
            )  # fmt: skip
        path.unlink()
    yield from _memory(bench)


def _write(path: Path, n: int, d: int, *, row_group_size: int = GROUP_ROWS, n_texts: int = 0, **how: Any) -> Path:
    """Write a table of lists and, with `n_texts`, of keys and so many characters of text beside each."""
    fields = [pa.field("id", pa.string()), pa.field("text", pa.string())] if n_texts else []
    schema = pa.schema([*fields, pa.field(VECTORS, pa.list_(pa.float32()))])
    with pq.ParquetWriter(path, schema, **how) as writer:
        row, group = 0, list[pa.Table]()
        for block in files.blocks(n, d):
            offsets = pa.array(np.arange(len(block) + 1) * d, pa.int32())
            lists = pa.ListArray.from_arrays(offsets, pa.array(block.reshape(-1)))
            numbers = range(row, row + len(block))
            beside = [[f"k{i}" for i in numbers], [f"{i:{n_texts}}" for i in numbers]] if n_texts else []
            group.append(pa.Table.from_arrays([*map(pa.array, beside), lists], schema=schema))
            row += len(block)
            if sum(map(len, group)) >= row_group_size or row == n:
                whole = pa.concat_tables(group)
                n_whole = len(whole) if row == n else len(whole) // row_group_size * row_group_size
                writer.write_table(whole.slice(0, n_whole), row_group_size=row_group_size)
                group = [whole.slice(n_whole)]
    return files.settle(path)


def _on_threads(path: Path, *, is_bounded: bool) -> None:
    """Decode the column of vectors: each thread one row group after the other, whole or in pieces that fit a cache."""
    metadata = pq.read_metadata(path)
    left = list(range(metadata.num_row_groups))
    how: dict[str, Any] = {"pre_buffer": False, "buffer_size": BOUNDED_BYTES} if is_bounded else {}

    def decode() -> None:
        file = pq.ParquetFile(path, metadata=metadata, **how)
        while left:
            try:
                group = left.pop()
            except IndexError:
                return
            if not is_bounded:
                file.read_row_group(group, [VECTORS], use_threads=False)
                continue
            for _ in file.iter_batches(BOUNDED_BYTES // (4 * D), [group], [VECTORS], use_threads=False):
                pass

    threads = [threading.Thread(target=decode) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _memory(bench: Bench) -> Iterator[Row]:
    """Measure peaks over files of one row group, of small ones, and with wide columns beside the vectors."""
    n, folder = bench.sized(MEMORY_BYTES, LEAST_BYTES) // (4 * WIDE_D), bench.folder
    labels, eraser = files.write_labels(folder / "m.csv", n, 2), folder / "eraser.npz"
    for name, how in {
        "one row group": {"row_group_size": n},
        "row groups of 1,000": {"row_group_size": 1000},
        "keys and 1 kB of text, one row group": {"row_group_size": n, "n_texts": 1000},
    }.items():
        path = _write(folder / "m.parquet", n, WIDE_D, compression="zstd", use_dictionary=False, **how)
        fit = ("fit", str(path), str(labels), "-o", str(eraser), "--by-row", "--quiet")
        apply = ("apply", str(eraser), str(path), "-o", str(folder / "o.parquet"), "--quiet")
        for command in (fit, apply):
            idle, used = salcli("--help").peak_mb, bench.used(*command)
            yield Row.within(
                f"{command[0]}, {name}: peak memory over idle", [each.peak_mb - idle for each in used], MEMORY_LIMIT,
                "MB", section="tables", size=files.size_of(n, WIDE_D), note="idle: salcli --help",
                bounds=("scipy.linalg and pyarrow are imported",),
            )  # fmt: skip
        path.unlink()

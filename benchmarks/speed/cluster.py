"""`--workers`: what a local cluster of two processes costs beside threads, for a run and for a task, and its memory."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Measure
from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.options import ApplyOptions, FitOptions
from salcli.streaming.cluster.client import cluster
from salcli.streaming.cluster.engine import Cluster
from salcli.streaming.engine import Engine, Threads, running_on

SHARD_BYTES, LEAST_BYTES, N_SHARDS, D = 2.5e8, 1 << 20, 8, 768  # at scale 1
N_WORKERS, N_TASKS, LEAST_TASKS = 2, 2000, 50
MEMORY_LIMIT = 400.0
METHODS = ("sal", "leace")


def rows(bench: Bench) -> Iterator[Row]:
    """Measure start, tasks, fit, apply and memory; nothing where Dask is not installed."""
    if find_spec("distributed") is None:
        return
    n = bench.sized(SHARD_BYTES, LEAST_BYTES) // (4 * D)
    folder, labels = bench.folder / "shards", bench.folder / "labels.csv"
    folder.mkdir()
    first = files.write_npy(folder / "0.npy", n, D)
    for i in range(1, N_SHARDS):
        files.settle(Path(shutil.copyfile(first, folder / f"{i}.npy")))
    files.write_labels(labels, N_SHARDS * n, 2)
    began = time.perf_counter()
    with cluster(None, N_WORKERS) as engine:
        started = time.perf_counter() - began
        yield _alone(f"start of {N_WORKERS} workers", [started], "s", "and of the client, with versions compared")
        yield from _tasks(bench, engine)
        yield from _commands(bench, engine, folder, labels, N_SHARDS * n)
        peaks = [peak / 1e6 for peak in engine.on_workers(_peak_bytes).values()]
        yield Row.within(
            "peak memory of a worker", peaks, MEMORY_LIMIT, "MB", section="cluster", size="",
            note="of fit and apply above; Dask's own idle worker included",
        )  # fmt: skip
    shutil.rmtree(folder)


def _tasks(bench: Bench, engine: Cluster) -> Iterator[Row]:
    n, began = bench.sized(N_TASKS, LEAST_TASKS), time.process_time()
    seconds = bench.timed({"tasks": lambda: sum(1 for _ in engine.map(_same, range(n)))})["tasks"]
    of_client = 1000 * (time.process_time() - began) / n / len(seconds)
    note = f"{n:,} of them, {N_WORKERS} workers"
    yield _alone("an empty task", [1000 * taken / n for taken in seconds], "ms", note)
    yield _alone("an empty task, processor time", [of_client], "ms", "of client and scheduler, which are one process")


def _commands(bench: Bench, engine: Cluster, folder: Path, labels: Path, n: int) -> Iterator[Row]:
    engines: dict[str, Engine] = {"threads": Threads(N_WORKERS), "workers": engine}
    for method in METHODS:
        options = FitOptions(method=method, hash_algorithm="none")
        erasers = {name: str(bench.folder / f"{name}.npz") for name in engines}
        works = {
            name: partial(_on, each, fit, str(folder), str(labels), erasers[name], options)
            for name, each in engines.items()
        }
        yield _compared(f"fit --method {method} --hash none", bench.timed(works), n)
        first, other = (Path(path).read_bytes() for path in erasers.values())
        assert first == other
    one = folder / "0.npy"
    works = {
        name: partial(_on, each, apply, erasers[name], str(one), str(bench.folder / f"{name}.npy"), ApplyOptions())
        for name, each in engines.items()
    }
    yield _compared("apply, one file, LEACE", bench.timed(works), n // N_SHARDS)


def _on(engine: Engine, command: object, *arguments: object) -> None:
    with running_on(engine):
        command(*arguments)  # type: ignore[operator]


def _compared(name: str, seconds: dict[str, list[float]], n: int) -> Row:
    return Row.rates(
        name, f"{N_WORKERS} threads", seconds["workers"], seconds["threads"], 4.0 * n * D,
        section="cluster", size=files.size_of(n, D), note="the cluster runs already",
    )  # fmt: skip


def _alone(name: str, values: list[float], unit: str, note: str) -> Row:
    return Row("cluster", name, "", "", Measure.of(values, unit), None, None, note=note)


def _same(item: int) -> int:
    return item


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

"""Start-up: what every command costs before it does anything."""

from collections.abc import Iterator

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import interleaved, python, salcli

LIMIT, LEAST_REPEATS = 0.3, 5


def rows(bench: Bench) -> Iterator[Row]:
    """Time `--help`, and `inspect` of a small file."""
    path = files.write_npy(bench.folder / "small.npy", 1000, 64)
    works = {
        "salcli --help": lambda: salcli("--help"),
        "salcli inspect": lambda: salcli("inspect", str(path)),
        "python -c pass": lambda: python("-c", "pass"),
    }
    seconds = interleaved(works, max(LEAST_REPEATS, bench.repeats))
    for name, size in (("salcli --help", ""), ("salcli inspect", files.size_of(1000, 64))):
        bounds = ("python starts", "numpy, typer and rich are imported")
        yield Row.within(name, seconds[name], LIMIT, "s", section="start-up", size=size, bounds=bounds)

"""Start-up: what every command costs before it does anything."""

from collections.abc import Iterator

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.results import Row
from benchmarks.speed.timing import interleaved, python, salcli

LIMIT, LEAST_REPEATS = 0.3, 5
BARE = "python, import numpy"


def rows(bench: Bench) -> Iterator[Row]:
    """Time `--help`, and `inspect` of a small file, against a limit, and beside a start that only imports numpy."""
    path = files.write_npy(bench.folder / "small.npy", 1000, 64)
    works = {
        "salcli --help": lambda: salcli("--help"),
        "salcli inspect": lambda: salcli("inspect", str(path)),
        BARE: lambda: python("-c", "import numpy"),
    }
    seconds = interleaved(works, max(LEAST_REPEATS, bench.repeats), bench.budget)
    for name, size in (("salcli --help", ""), ("salcli inspect", files.size_of(1000, 64))):
        bounds = ("python starts", "numpy, typer and rich are imported")
        yield Row.within(name, seconds[name], LIMIT, "s", section="start-up", size=size, bounds=bounds)
        yield Row.times(name, BARE, seconds[name], seconds[BARE], section="start-up", size=size)

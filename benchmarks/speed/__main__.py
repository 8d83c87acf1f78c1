"""Measure how fast salcli is, as ratios within one run.

    python -m benchmarks.speed [--scale S] [--repeats R] [--only SECTION …] [--check]

Works of one comparison take turns (A B A B …); what is reported is the median of the repeats, with half the range
between their quartiles; works that differ much from turn to turn are repeated more often, within a budget.
Where a host takes back what is free, memory is made to be at hand before works that touch much of it.
Results go into benchmarks/results.json, which keeps one run for each scale, the largest into docs/benchmarks.md, and
three lines of it into the README. With --check nothing is written: ratios are held against those of the same scale, and
the exit status is 1 if one has lost more than a quarter twice. At scale 1 the folder wants room for 6 GB.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.speed import (
    applying,
    bounds,
    cluster,
    commands,
    files,
    fitting,
    methods,
    ours,
    peers,
    scaling,
    sharded,
    startup,
    table,
    tables,
    words,
)
from benchmarks.speed.bench import Bench
from benchmarks.speed.machine import available_bytes, machine, versions
from benchmarks.speed.memory import AtHand, is_taken_back
from benchmarks.speed.results import Row, Run, changes, read_runs, write_runs

HERE = Path(__file__).parent.parent
RESULTS = HERE / "results.json"
SECTIONS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "start-up": startup.rows,
    "fit": fitting.rows,
    "apply": applying.rows,
    "words": words.rows,
    "scaling": scaling.rows,
    "tables": tables.rows,
    "shards": sharded.rows,
    "kernels": commands.rows,
    "methods": methods.rows,
    "cluster": cluster.rows,
    "bounds": bounds.rows,
    "peers": peers.rows,  # last: it loads libraries that keep threads of their own
}
BUSY = 0.5  # load of an idle machine stays below
QUICK = 0.2  # scales up to this are for a look, not for the record
MEMORY = Path("/dev/shm")
TAKES_BACK = "takes back free memory (made to be at hand before works that touch much)"
DISK_BYTES, CACHED_BYTES, MEMORY_BYTES = 6e9, 5e9, 3e9  # at scale 1


@contextlib.contextmanager
def scratch(given: argparse.Namespace) -> Iterator[Bench]:
    """Make folders to work in, on disk and (if there is room) in memory."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="salcli-bench-", dir=given.folder)))
        free, memory = shutil.disk_usage(folder).free, available_bytes()
        if free < DISK_BYTES * given.scale or memory < CACHED_BYTES * given.scale:
            sys.exit(
                f"scale {given.scale:g} wants {DISK_BYTES * given.scale / 1e9:.2g} GB of disk and "
                f"{CACHED_BYTES * given.scale / 1e9:.2g} GB of memory for the page cache; there are {free / 1e9:.2g} "
                f"and {memory / 1e9:.2g}: choose a smaller SCALE"
            )
        has_room = MEMORY.is_dir() and min(shutil.disk_usage(MEMORY).free, memory / 2) > MEMORY_BYTES * given.scale
        in_memory = None
        if has_room:
            in_memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="salcli-bench-", dir=MEMORY)))
        at_hand = AtHand(is_taken_back())
        yield Bench(folder, in_memory, given.scale, given.repeats, given.budget, at_hand)


def measure(bench: Bench, sections: Sequence[str]) -> Run:
    """Measure sections, telling of each row as it comes."""
    n, about = 1000, {**machine(), **({"host": TAKES_BACK} if bench.at_hand.is_needed else {})}
    if float(about["load"]) > BUSY:
        print(f"the machine is busy (load {about['load']}): ratios of threads to one thread suffer", file=sys.stderr)
    ours.warm_up(files.write_npy(bench.folder / "warm.npy", n, 8), n)
    began, rows = time.perf_counter(), []
    for name in sections:
        for row in SECTIONS[name](bench):
            rows.append(row)
            print(f"{time.perf_counter() - began:6.0f} s  {table.line(row)}", file=sys.stderr, flush=True)
    seconds = round(time.perf_counter() - began, 1)
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    return Run(bench.scale, now, seconds, about, versions(), tuple(rows))


def check(bench: Bench, before: Run, sections: Sequence[str]) -> bool:
    """Print what became of an earlier run's ratios; what seems lost is measured once more, for noise is not a loss."""
    before = replace(before, rows=tuple(row for row in before.rows if row.section in sections))
    now = measure(bench, [name for name in sections if name != "bounds"])
    suspect = {change.before.section for change in changes(before, now) if change.is_lost}
    if suspect:
        print(f"measured once more: {', '.join(sorted(suspect))}", file=sys.stderr)
        again = {row.key: row for row in measure(bench, sorted(suspect)).rows}
        better = (max(row, again.get(row.key, row), key=lambda row: row.ratio or 0) for row in now.rows)
        now = replace(now, rows=tuple(better))
    found = changes(before, now)
    print(table.comparison(found))
    n_lost = sum(change.is_lost for change in found)
    print(f"{n_lost} of {len(found)} ratios lost more than a quarter", file=sys.stderr)
    return n_lost == 0


def main() -> None:
    """Measure, then write or compare."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; 1: a whole run, 0.1: a quick one")
    parser.add_argument("--repeats", type=int, default=None, help="of each comparison; default: 5, in a quick run 3")
    parser.add_argument(
        "--budget", type=float, default=None, help="seconds for one comparison; default: 20 x scale, at least 2"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=None, help="sections; nothing is written")
    parser.add_argument("--check", action="store_true", help="compare with results.json instead of writing it")
    parser.add_argument("--folder", default=None, help="scratch folder, on the disk that is to be measured")
    given = parser.parse_args()
    given.budget = given.budget or max(2.0, 20 * given.scale)
    given.repeats = given.repeats or (5 if given.scale > QUICK else 3)
    warnings.simplefilter("ignore")  # generated data warn of what real ones should not have
    sections = given.only or list(SECTIONS)
    runs = read_runs(RESULTS)
    if given.check and given.scale not in runs:
        sys.exit(f"{RESULTS.name} has no run at scale {given.scale:g}: it has {', '.join(f'{s:g}' for s in runs)}")
    with scratch(given) as bench:
        if given.check:
            sys.exit(0 if check(bench, runs[given.scale], sections) else 1)
        run = measure(bench, sections)
    print(table.markdown(run))
    if given.only is None:
        runs[run.scale] = run
        write_runs(RESULTS, runs.values())
        table.publish(runs.values(), HERE.parent)


if __name__ == "__main__":
    main()

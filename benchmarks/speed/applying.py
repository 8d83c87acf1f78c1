"""`apply`: into a new file and in place, against a bare copy under the same policy of syncing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.bounds import ERASING, PRODUCT
from benchmarks.speed.ours import apply, write_text
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, salcli

FILE_BYTES, TEXT_BYTES, LEAST_BYTES = 1e9, 1e8, 4 << 20
MEMORY_BYTES = 5e8  # so few that what one work leaves free is at hand for the next
FIT_ROWS, D = 20_000, 300
TARGETS = {1: 0.9, 2: 0.9, 30: 0.7}
SYNCED, UNSYNCED, IN_MEMORY = "bare copy, fsync", "bare copy, no fsync", "bare copy in a memory file system"
BOUNDS = ("write and fsync", "copy into a fresh array (page faults)", "float32 → float64 in a cached block")
POLICY = "both sides write a new file and fsync it; apply also renames it"


def rows(bench: Bench) -> Iterator[Row]:
    """Measure .npy on disk and in memory, then the keyed formats."""
    erasers = {k: _eraser(bench.folder, k) for k in TARGETS}
    n = bench.sized(FILE_BYTES, LEAST_BYTES) // (4 * D)
    yield from _on_disk(bench, erasers, n)
    if bench.memory_folder is not None:
        yield from _in_memory(bench, bench.memory_folder, erasers)
    yield from _keyed(bench, erasers[1])


def _eraser(folder: Path, k: int) -> Path:
    path, artifact = files.write_npy(folder / "fitted.npy", FIT_ROWS, D), folder / f"eraser{k}.npz"
    labels = files.write_labels(folder / "fitted.csv", FIT_ROWS, k + 1)
    salcli("fit", str(path), str(labels), "-o", str(artifact), "-k", str(k), "--quiet")
    return artifact


def _on_disk(bench: Bench, erasers: dict[int, Path], n: int) -> Iterator[Row]:
    folder = bench.folder
    path, target, own = files.write_npy(folder / "x.npy", n, D), folder / "out.npy", folder / "own.npy"
    files.bare_copy(path, own, syncs=True)
    size, n_bytes = files.size_of(n, D), 4.0 * n * D
    bare = partial(files.bare_copy, path, target, syncs=True)
    # By twos, A B A B …: what one leaves to the disk, the other must not pay for.
    for k, least in TARGETS.items():
        name = f"apply .npy → .npy, k = {k}"
        seconds = bench.timed({SYNCED: bare, name: partial(apply, erasers[k], path, target)}, touches=n_bytes)
        yield Row.rates(name, SYNCED, seconds[name], seconds[SYNCED], n_bytes, section="apply", size=size,
                        target=least, note=POLICY, bounds=BOUNDS)  # fmt: skip
    name, unsynced = "apply .npy → .npy, k = 1", partial(files.bare_copy, path, target, syncs=False)
    in_place, beside = "apply --in-place, k = 1", partial(apply, erasers[1], path, target)
    within = partial(apply, erasers[1], own, None)
    seconds = bench.timed({SYNCED: bare, in_place: within, name: beside}, touches=n_bytes)
    yield Row.rates(in_place, SYNCED, seconds[in_place], seconds[SYNCED], n_bytes, section="apply", size=size,
                    note=POLICY)  # fmt: skip
    yield Row.rates(in_place, name, seconds[in_place], seconds[name], n_bytes, section="apply", size=size,
                    target=1.0, note="in place: the new file is renamed over the old one")  # fmt: skip
    seconds = bench.timed({UNSYNCED: unsynced, name: beside}, touches=n_bytes)
    yield Row.rates(name, UNSYNCED, seconds[name], seconds[UNSYNCED], n_bytes, section="apply", size=size,
                    note="apply syncs its file, this copy does not")  # fmt: skip
    for left in (path, target, own):
        left.unlink()


def _in_memory(bench: Bench, folder: Path, erasers: dict[int, Path]) -> Iterator[Row]:
    n = bench.sized(MEMORY_BYTES, LEAST_BYTES) // (4 * D)
    path, target = files.write_npy(folder / "x.npy", n, D), folder / "out.npy"
    works: dict[str, Work] = {IN_MEMORY: partial(files.bare_copy, path, target, syncs=True)}
    works |= {f"{k}": partial(apply, artifact, path, target) for k, artifact in erasers.items()}
    seconds = bench.timed(works, touches=4.0 * n * D)
    for k, least in TARGETS.items():
        yield Row.rates(f"apply .npy → .npy, k = {k}", IN_MEMORY, seconds[f"{k}"], seconds[IN_MEMORY], 4.0 * n * D,
                        section="apply", size=files.size_of(n, D), target=least,
                        bounds=(*BOUNDS[1:], *([ERASING, PRODUCT] if k == 30 else [])),
                        note="no disk: what the work itself costs")  # fmt: skip
    for left in (path, target):
        left.unlink()


def _keyed(bench: Bench, eraser: Path) -> Iterator[Row]:
    n = bench.sized(TEXT_BYTES, LEAST_BYTES) // (4 * D)
    binary, text = files.write_binary(bench.folder / "x.bin", n, D), bench.folder / "x.txt"
    write_text(binary, text)
    for name, path in (("binary → binary", binary), ("text → text", files.settle(text))):
        target = bench.folder / f"out{path.suffix}"
        works: dict[str, Work] = {
            SYNCED: partial(files.bare_copy, path, target, syncs=True),
            "ours": partial(apply, eraser, path, target),
        }
        seconds = bench.timed(works, touches=path.stat().st_size)
        yield Row.rates(f"apply {name}, k = 1", SYNCED, seconds["ours"], seconds[SYNCED], path.stat().st_size,
                        section="apply", size=files.size_of(n, D), note=POLICY)  # fmt: skip
        for left in (path, target):
            left.unlink()

"""Measure speed as ratios within one run: against a bare read, a bare copy, and gensim.

    python benchmarks/speed.py [--rows N] [--dimensions D] [--repeats R] [--folder DIR]

Medians of R repeats; the machine's noise is in the spread that stands beside each. The folder wants room for about four
times the file (rows x dimensions x 4 bytes).
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors

from salcli.data.labelled import LabelledRows
from salcli.data.labels import Attribute, GuardedLabels
from salcli.engine.local import ordered_map
from salcli.engine.progress import Silent
from salcli.formats.registry import create, open_source
from salcli.options import ReadOptions
from salcli.passes import fold_moments, stream_through
from salcli.spectral.kernels import Kernel
from salcli.spectral.ksal import fit_ksal
from salcli.spectral.sal import fit_sal

PIECE = 2 << 20


def measured(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Time `work`: median seconds, and (max − min) / median."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    middle = statistics.median(seconds)
    return middle, (max(seconds) - min(seconds)) / middle


def line(name: str, against: str, ours: tuple[float, float], theirs: tuple[float, float], n_bytes: int) -> None:
    """Print one row of the table."""
    print(
        f"| {name} | {against} | {theirs[0] / ours[0]:.2f} | {n_bytes / ours[0] / 1e9:.2f} GB/s "
        f"| ±{50 * ours[1]:.0f}%, ±{50 * theirs[1]:.0f}% |",
        flush=True,
    )


def bare_read(path: Path) -> None:
    """Read a file into one reused buffer."""
    buffer = bytearray(PIECE)
    with path.open("rb", buffering=0) as handle:
        while handle.readinto(buffer):
            pass


def bare_copy(path: Path, target: Path) -> None:
    """Copy through one reused buffer into a new file."""
    target.unlink(missing_ok=True)
    buffer = bytearray(PIECE)
    with path.open("rb", buffering=0) as handle, target.open("wb", buffering=0) as out:
        while n := handle.readinto(buffer):
            out.write(memoryview(buffer)[:n])


def labels_of(n: int, n_classes: int) -> GuardedLabels:
    """Make labels that take turns."""
    codes = (np.arange(n) % n_classes).astype(np.int32)
    return GuardedLabels("generated", (Attribute("g", codes, tuple(f"{i:04}" for i in range(n_classes))),), None)


def fold(path: Path, labels: GuardedLabels) -> object:
    """Pass over a file as `fit` does."""
    with closing(open_source(str(path))) as source:
        return fold_moments(source, labels, LabelledRows.of(np.arange(len(labels))), Silent())


def read_all(path: Path, options: ReadOptions | None = None) -> None:
    """Read every row, as any command does."""
    with closing(open_source(str(path), options)) as source:
        for _ in ordered_map(lambda slab: slab.read(), source.slabs()):
            pass


def write_all(path: Path, target: Path) -> None:
    """Write every row of a keyed file as text."""
    with (
        closing(open_source(str(path))) as source,
        create(str(target), source, d=source.d, dtype=source.dtype, format_name="word2vec-text") as writer,
    ):
        stream_through(source, writer, lambda x: x, Silent())


def measured_command(*arguments: str) -> tuple[float, float]:
    """Run salcli: seconds, and peak memory in MB."""
    # A process starts with the peak of the one it was forked from: a small one in between keeps ours out of it.
    between = (
        "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:]); w = os.wait4(p.pid, 0); sys.exit(w[1])"
        " if w[1] else print(w[2].ru_maxrss)"
    )
    start = time.perf_counter()
    command = [sys.executable, "-c", between, sys.executable, "-m", "salcli", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(done.stdout) * 1024 / 1e6


def gemm_rate() -> float:
    """Measure multiply-adds a second of float64 matrix products on all threads, each with one BLAS thread."""
    x, y = np.ones((512, 768)), np.ones((768, 15_000))
    seconds, _ = measured(lambda: [*ordered_map(lambda _: (x @ y)[0, 0], range(8))], 3)
    return 8 * x.shape[0] * y.size / seconds


def bench_kernels(folder: Path, n: int, d: int) -> None:
    """Print what `kfit` takes, and the share of the machine's rate of matrix products that the kernel pass reaches."""
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    x = (rng.normal(size=(n, d)) + codes[:, None] * rng.normal(size=d)).astype(np.float32)
    path, labels = folder / "kernel.npy", folder / "kernel.csv"
    np.save(path, x)
    labels.write_text("label\n" + "".join(f"{code}\n" for code in codes), encoding="utf-8")
    print(f"\nkfit on {n:,} x {d} float32, rbf, whole command\n\n| landmarks | seconds | peak memory |\n|---|---|---|")
    for landmarks in ("all", "2048"):
        arguments = [str(path), str(labels), "-o", str(folder / "kernel.npz"), "--gamma", "0.001", "--quiet"]
        seconds, peak = measured_command("kfit", *arguments, "--landmarks", landmarks)
        print(f"| {landmarks} | {seconds:.1f} | {peak:.0f} MB |", flush=True)
    z = np.eye(2)[codes]
    rate = gemm_rate()
    seconds, _ = measured(lambda: fit_ksal(x, z, Kernel("rbf", 0.001), spread=ordered_map), 1)
    print(f"\nkernel pass: {n * n * d / seconds / rate:.2f} of the rate of bare matrix products ({rate / 1e9:.0f} G/s)")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--dimensions", type=int, default=300)
    parser.add_argument("--kernel-rows", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    n, d, repeats = given.rows, given.dimensions, given.repeats
    n_text = n // 10
    print(f"{n:,} x {d} float32 (text and binary: {n_text:,} rows), median of {repeats}\n")
    print("| work | against | ratio (higher is faster) | ours | spread: ours, theirs |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = Path(scratch)
        path, copy = folder / "x.npy", folder / "copy.npy"
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(n, d)).astype(np.float32)
        np.save(path, vectors)
        read = measured(lambda: bare_read(path), repeats)
        for n_classes in (2, 30):
            labels = labels_of(n, n_classes)
            ours = measured(lambda labels=labels: fold(path, labels), repeats)
            line(f"fit pass, {n_classes} classes", "bare read", ours, read, vectors.nbytes)
        copied = measured(lambda: bare_copy(path, copy), repeats)
        for k in (1, 30):
            eraser = fit_sal(fold(path, labels_of(n, k + 1)), k).eraser

            def erase(eraser: object = eraser) -> None:
                with (
                    closing(open_source(str(path))) as source,
                    create(str(copy), source, d=d, dtype=source.dtype, format_name="npy") as writer,
                ):
                    stream_through(source, writer, eraser, Silent())

            line(f"apply npy → npy, k = {k}", "bare copy", measured(erase, repeats), copied, vectors.nbytes)
        keyed = KeyedVectors(d)
        keyed.add_vectors([f"word{i}" for i in range(n_text)], vectors[:n_text])
        text, spaced, binary, out = (folder / name for name in ("x.txt", "spaced.txt", "x.bin", "out.txt"))
        written = measured(lambda: keyed.save_word2vec_format(str(text)), 1)
        keyed.save_word2vec_format(str(binary), binary=True)
        _, _, rows = text.read_bytes().partition(b"\n")
        spaced.write_bytes(b"a phrase of words " + rows)
        theirs = measured(lambda: KeyedVectors.load_word2vec_format(str(text)), 1)
        size = text.stat().st_size
        line("read text", "gensim", measured(lambda: read_all(text), repeats), theirs, size)
        line(
            "read text, no header, a key with spaces",
            "gensim, plain file",
            measured(lambda: read_all(spaced), repeats),
            theirs,
            size,
        )
        line("write text", "gensim", measured(lambda: write_all(binary, out), repeats), written, size)
        theirs = measured(lambda: KeyedVectors.load_word2vec_format(str(binary), binary=True), repeats)
        line("read binary", "gensim", measured(lambda: read_all(binary), repeats), theirs, binary.stat().st_size)
        bench_kernels(folder, given.kernel_rows, 768)
    start = measured(
        lambda: subprocess.run([sys.executable, "-m", "salcli", "--help"], capture_output=True, check=True), 5
    )
    print(f"\nsalcli --help: {start[0]:.2f} s")


if __name__ == "__main__":
    main()

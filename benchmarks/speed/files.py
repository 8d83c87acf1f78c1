"""Generated embedding files and labels, on disk for good and in the page cache before anything is timed."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

PIECE = 2 << 20
BLOCK_ROWS = 1 << 13


def bare_read(path: Path) -> None:
    """Read a file on one thread into one reused buffer of 2 MB."""
    buffer = _buffer()
    with path.open("rb", buffering=0) as handle:
        while handle.readinto(buffer):
            pass


def bare_copy(path: Path, target: Path, *, syncs: bool) -> None:
    """Copy through one reused buffer into a new file."""
    target.unlink(missing_ok=True)
    buffer = memoryview(_buffer())
    with path.open("rb", buffering=0) as handle, target.open("wb", buffering=0) as out:
        while n := handle.readinto(buffer):
            out.write(buffer[:n])
        if syncs:
            os.fsync(out.fileno())


def _buffer() -> mmap.mmap:
    """Give a buffer that begins with a page: some processors copy far slower to where malloc would place it."""
    return mmap.mmap(-1, PIECE)


def settle(path: Path) -> Path:
    """Write a file back to disk, so that nobody pays for it later, and read it into the page cache."""
    sync(path)
    bare_read(path)
    return path


def sync(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def blocks(n: int, d: int, dtype: DTypeLike = np.float32) -> Iterator[NDArray[Any]]:
    """Give n rows: the same block of normal numbers again and again, for time does not depend on them."""
    block = np.random.default_rng(0).standard_normal((min(n, BLOCK_ROWS), d), dtype=np.float32).astype(dtype)
    for start in range(0, n, BLOCK_ROWS):
        yield block[: n - start]


def write_npy(path: Path, n: int, d: int, dtype: DTypeLike = np.float32) -> Path:
    """Write an .npy file."""
    with path.open("wb") as handle:
        fields = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(handle, fields)
        for block in blocks(n, d, dtype):
            handle.write(block.data)
    return settle(path)


def write_h5(path: Path, n: int, d: int, **layout: Any) -> Path:
    """Write an HDF5 file with one dataset."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (n, d), np.float32, **layout)
        start = 0
        for block in blocks(n, d):
            dataset[start : start + len(block)] = block
            start += len(block)
    return settle(path)


def write_binary(path: Path, n: int, d: int) -> Path:
    """Write a word2vec binary file."""
    with path.open("wb") as handle:
        handle.write(b"%d %d\n" % (n, d))
        row = 0
        for block in blocks(n, d):
            for vector in block:
                handle.write(b"word%d " % row + vector.tobytes())
                row += 1
    return settle(path)


def codes_of(n: int, n_classes: int) -> NDArray[np.int32]:
    """Draw a class for each row. Taking turns would not do: rows are repeated, and their classes would cancel out."""
    return np.random.default_rng(2).integers(n_classes, size=n, dtype=np.int32)


def write_labels(path: Path, n: int, n_classes: int, *, has_words: bool = False) -> Path:
    """Write a label CSV with the classes of `codes_of`, joined by row or by the words of `write_binary`."""
    codes = codes_of(n, n_classes)
    if has_words:
        lines = ["word,label", *(f"word{i},c{code:04}" for i, code in enumerate(codes))]
    else:
        lines = ["label", *(f"c{code:04}" for code in codes)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def separated(n: int, d: int, n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Make rows whose classes differ in their means, and their codes."""
    rng = np.random.default_rng(1)
    codes = codes_of(n, n_classes)
    means = rng.standard_normal((n_classes, d), dtype=np.float32)
    return rng.standard_normal((n, d), dtype=np.float32) + means[codes], codes


def size_of(n: int, d: int, dtype: str = "float32") -> str:
    """Name a size."""
    return f"{n:,} × {d} {dtype}"

"""K̂ in HDF5: an `[n, n]` dataset of inner products, written tile by tile."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.errors import UsageError
from salcli.formats import atomic
from salcli.formats.registry import named

if TYPE_CHECKING:  # importing h5py is slow, and few commands need it
    from salcli.formats.hdf5_writer import Hdf5Sink

DATASET, KEYS = "kernel_matrix", "keys"
CHUNK = 256


class KernelMatrixWriter:
    """Writes tiles, which may come in any order."""

    def __init__(self, sink: "Hdf5Sink", n: int, dtype: np.dtype[Any]) -> None:
        chunks = (min(n, CHUNK), min(n, CHUNK))
        self._sink, self._matrix = sink, sink.root.create_dataset(DATASET, (n, n), dtype, chunks=chunks)

    def write(self, rows: slice, columns: slice, tile: NDArray[np.float64]) -> None:
        """Write a tile of inner products.

        Parameters
        ----------
        rows, columns : its place in the matrix
        tile : `[rows, columns]`

        Raises
        ------
        OSError : the disk is full, or fails
        """
        self._matrix[rows, columns] = tile
        self._sink.require()


def require_place(path: str, n: int, dtype: np.dtype[Any]) -> None:
    """Check, before work starts, the suffix of an output and the free space of the disk.

    Parameters
    ----------
    path : of the output
    n : rows of the matrix
    dtype : of its numbers

    Raises
    ------
    UsageError : the name does not end in .h5 or .hdf5
    OutputError : the disk is too full
    """
    suffixes = named("h5").suffixes
    if not path.endswith(suffixes):
        raise UsageError(f"{path}: `writes_kernel` writes HDF5: give a name that ends in {' or '.join(suffixes)}")
    atomic.require_disk_space(path, n * n * dtype.itemsize, f"the kernel matrix of {n:,} rows")


@contextmanager
def create_kernel_matrix(
    path: str, source: Source, dtype: np.dtype[Any], about: dict[str, Any]
) -> Iterator[KernelMatrixWriter]:
    """Open a writer whose file appears at `path`, whole, when the block ends without an error.

    Parameters
    ----------
    path : of the output
    source : the n rows, whose keys the file keeps
    dtype : of the inner products
    about : plain values that describe the matrix, stored as its attributes

    Raises
    ------
    OutputError : it cannot be written
    FormatError : a key that would not read back the same
    """
    import h5py

    from salcli.formats.hdf5_writer import Hdf5Sink, utf8_strings

    with atomic.replacing(path) as temporary, closing(Hdf5Sink(temporary)) as sink:
        writer, file = KernelMatrixWriter(sink, source.n, dtype), sink.root
        for name, value in about.items():
            file[DATASET].attrs[name] = value
        if source.has_keys:
            dataset = file.create_dataset(KEYS, (source.n,), h5py.string_dtype())
            dataset[...] = utf8_strings(path, source.kept_keys())
        yield writer

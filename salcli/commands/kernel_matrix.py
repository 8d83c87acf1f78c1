"""`apply --kernel-matrix`: the inner products of all erased rows of a file."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel import KernelEraser
from salcli.formats.kernel_matrix import KernelMatrixWriter, create_kernel_matrix, require_place
from salcli.formats.registry import opened_source
from salcli.options import ApplyOptions
from salcli.streaming import memory
from salcli.streaming.engine import map_in_threads
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
TILE = 1024


def write_kernel_matrix(
    source: Source, eraser: KernelEraser, writer: KernelMatrixWriter, strength: float, progress: Progress
) -> None:
    """Write K̂ `[n, n]` of all rows of a file, tile by tile.

    Each tile above the diagonal is written below it too, so that K̂ is exactly symmetric.

    Parameters
    ----------
    source : the n rows
    eraser : by inner products
    writer : takes the tiles
    strength : λ ∈ [0, 1], the share of the way
    progress : shows the stages

    Raises
    ------
    NotEnoughMemory : the rows themselves do not fit into memory
    """
    n_bytes = source.n * (source.d * source.dtype.itemsize + 16 * eraser.k)
    memory.require_memory(n_bytes, f"{source.n:,} rows of {source.d} dimensions", "give a smaller file")
    x, _ = gather_rows(source, source.kept_rows(), progress)
    parts = [slice(start, start + TILE) for start in range(0, len(x), TILE)]
    at = np.concatenate([*map_in_threads(lambda rows: eraser.coordinates(x[rows]), parts)])

    def tile(pair: tuple[slice, slice]) -> tuple[slice, slice, Array]:
        rows, columns = pair
        erased = eraser.erase_gram(eraser.kernel.gram(x[rows], x[columns]), at[rows], at[columns], strength=strength)
        return rows, columns, (erased + erased.T) / 2 if rows == columns else erased

    pairs = ((rows, columns) for i, rows in enumerate(parts) for columns in parts[i:])
    with progress.stage("kernel matrix", len(x)) as advance:
        for rows, columns, values in map_in_threads(tile, pairs):
            writer.write(rows, columns, values)
            if rows != columns:
                writer.write(columns, rows, values.T)
            elif rows != parts[0]:
                advance(TILE)
        advance(len(x[parts[-1]]))


def write_kernel(
    eraser: str, artifact: Artifact, embeddings: str, target: str, options: ApplyOptions, progress: Progress
) -> tuple[int, np.dtype[Any]]:
    """Write K̂ of an embedding file, as HDF5.

    Parameters
    ----------
    eraser : path of the artifact
    artifact : whose eraser works by inner products
    embeddings, target : paths of the input and the output
    options : of the command
    progress : shows the stages

    Returns
    -------
    rows, and the dtype of K̂
    """
    change = artifact.eraser.by_inner_products()
    with opened_source(embeddings, options.read) as source:
        artifact.require_width(eraser, source)
        dtype = options.output_dtype or np.dtype(np.float64 if source.dtype.itemsize > 4 else np.float32)
        require_place(target, source.n, dtype)
        about = {"method": artifact.header["method"], "strength": options.strength, "eraser_sha256": artifact.sha256}
        with create_kernel_matrix(target, source, dtype, {**about, **change.kernel.to_dict()}) as writer:
            write_kernel_matrix(source, change, writer, options.strength, progress)
            source.require_unchanged()
    return source.n, dtype

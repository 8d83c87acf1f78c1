"""The pass of `apply`: every row through an eraser, into a writer."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.engine.local import ordered_map
from salcli.engine.progress import Progress
from salcli.errors import RangeError, RowRangeError
from salcli.formats.finite import FiniteSource
from salcli.formats.keys import KeyCensus
from salcli.formats.source import Slab
from salcli.formats.writer import EmbeddingWriter
from salcli.options import block_rows
from salcli.spectral.eraser import LinearEraser
from salcli.spectral.kernel_eraser import FeatureEraser

Change = Callable[[NDArray[Any], NDArray[Any] | None], NDArray[Any]]
SAMPLE_ROWS = 1 << 12
COARSE = 5e-3  # rounding that brings back more than this share of the strongest removed direction is too coarse


def erased_dtype(
    eraser: LinearEraser | FeatureEraser, singular_values: NDArray[np.float64], source: FiniteSource
) -> np.dtype[Any]:
    """Choose the numbers' type of an erased file: the input's, or a finer one where rounding would undo the work.

    The first rows tell: what rounding leaves in the removed directions is held against the strongest of them.
    Features are at least float32: a kernel's values fill the range of 16 bits.
    """
    least = np.dtype(np.float32) if isinstance(eraser, FeatureEraser) else source.dtype
    dtype = np.promote_types(source.dtype, least) if least.itemsize > source.dtype.itemsize else source.dtype
    if dtype.itemsize >= 8:
        return dtype
    blocks = itertools.chain.from_iterable(slab.blocks(SAMPLE_ROWS) for slab in source.slabs())
    first = next(block.vectors for block in blocks if len(block))
    allowed = COARSE * float(singular_values[0])
    finer = [dtype, *(np.dtype(t) for t in (np.float32, np.float64) if np.dtype(t).itemsize > dtype.itemsize)]
    return next((dtype for dtype in finer[:-1] if _residue(eraser, first, dtype) <= allowed), finer[-1])


def _residue(eraser: LinearEraser | FeatureEraser, x: NDArray[Any], dtype: np.dtype[Any]) -> float:
    """Measure what rounding brings back; numbers that `dtype` cannot hold bring back everything."""
    try:
        return eraser.residue(x, dtype)
    except RowRangeError:
        return float("inf")


def stream_through(
    source: FiniteSource,
    writer: EmbeddingWriter,
    change: Change,
    progress: Progress,
    *,
    at_once: int | None = None,
    is_replaced: bool = False,
) -> int:
    """Send every slab through `change` into `writer`, in file order; tell of duplicate keys.

    Parameters
    ----------
    change : takes rows, and memory that it may use for the result (or None): the rows' own, if nobody else wants them
    at_once : rows that `change` would take at once, where they can be read so; it then refuses NaN and Inf itself
    is_replaced : the source will be gone: what it has in the system's cache makes room for what is written

    Returns
    -------
    rows written
    """
    census, n_rows, rows = KeyCensus(), 0, at_once or block_rows(source.d)

    def changed(slab: Slab) -> tuple[Any, tuple[str, ...] | None, int]:
        batch = slab.read()
        try:
            vectors = change(batch.vectors, None)
        except RowRangeError as error:
            raise _named(error, source, int(batch.rows[error.row])) from None
        return writer.encode(batch.with_vectors(vectors)), batch.keys, len(batch)

    def placed(slab: Slab) -> tuple[None, None, int]:
        row = slab.start
        try:
            for x in slab.vectors(rows):
                writer.place(row, change(x, x if x.flags.writeable else None))
                row += len(x)
        except RowRangeError as error:
            source.check(slab.read())  # NaN and Inf in the file are another fault
            raise _named(error, source, row + error.row) from None
        if is_replaced and slab.forget is not None:
            slab.forget()
        return None, None, slab.n_rows

    is_placed = writer.takes_places and not source.has_keys and not source.n_dropped
    slabs = source.slabs() if at_once is None or not is_placed else source.unchecked_slabs()
    work = placed if is_placed else changed
    with progress.stage("apply", source.n) as advance:
        for piece, keys, n in ordered_map(work, slabs):
            if piece is not None:
                writer.write(piece)
            census.add(keys or ())
            n_rows += n
            advance(n)
    census.tell(source.path, source.key_batches, source.place)
    return n_rows


def _named(error: RowRangeError, source: FiniteSource, row: int) -> RangeError:
    return RangeError(f"{source.path}: {source.place(row)}, {error.told}")

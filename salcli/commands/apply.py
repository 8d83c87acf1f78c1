"""`apply`: every row of an embedding file through an eraser, into a new file."""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings, empty_aligned
from salcli.data.source import Chunk, Source
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.base import Eraser
from salcli.erasers.kernel import KernelEraser
from salcli.erasers.precision import erased_dtype
from salcli.errors import RangeError, RowRangeError, UsageError, warn
from salcli.formats import atomic
from salcli.formats.base import Writer
from salcli.formats.beside import Beside, resolve
from salcli.formats.kernel_matrix import KernelMatrixWriter, create_kernel_matrix, require_place
from salcli.formats.keys import KeyCensus
from salcli.formats.registry import create, open_beside, open_source, output_format
from salcli.formats.secret import read_secret
from salcli.formats.urls import is_url
from salcli.options import BLOCK_ELEMENTS, ApplyOptions, block_rows
from salcli.streaming import memory
from salcli.streaming.engine import current_engine, map_in_threads, one_blas_thread, ordered_map
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress, Silent

UNIT = 1e-3  # of a length of 1: rows that were rounded to float16, or to few decimals, count as well
APPLIED_CHUNK_BYTES = 2 << 20  # small: several wait in memory, and no thread waits long for the last one


Array = NDArray[np.float64]
Change = Callable[[NDArray[Any], NDArray[Any] | None], NDArray[Any]]


@dataclass(frozen=True)
class Applied:
    """The format, shape and dtype of the file that `apply` wrote."""

    output: str
    format: str
    n: int
    d: int
    dtype: str


def apply(
    eraser: str, embeddings: str, output: str | None, options: ApplyOptions, progress: Progress | None = None
) -> Applied:
    """Write an embedding file with every row erased, chunk by chunk.

    Parameters
    ----------
    eraser : path of the artifact
    embeddings : path of the input
    output : path of the output; None with `in_place`
    options : how rows are erased and written
    progress : shows the pass; default: it is not shown

    Returns
    -------
    the format, shape and dtype of what was written

    Raises
    ------
    UsageError : options that contradict each other, or do not suit the eraser
    FormatError : an input is damaged
    AlignmentError : the rows have another width than the eraser takes
    RangeError : an erased number that the dtype cannot hold
    NotEnoughMemory : the kernel matrix of the landmarks does not fit into memory
    OutputError : the output cannot be written
    """
    target = _target(embeddings, output, options)
    replaced = embeddings if options.in_place else None
    atomic.check_output(target, [eraser, options.read.keys_file, options.noise_key], may_replace=replaced)
    atomic.check_output(target, [embeddings], may_replace=replaced, remedy="name another output, or use `in_place`")
    if options.noise_key is not None and os.path.realpath(options.noise_key) == os.path.realpath(target):
        raise UsageError(f"`noise_key={options.noise_key}`: is the output too: name another file for the secret")
    artifact = read_artifact(eraser)
    _require_suited(eraser, artifact, options)
    if options.strength < 1:
        warn(
            f"`strength={options.strength:g}` can be inverted, and linear attackers are as accurate as before erasure: "
            "do not publish such rows"
        )
    if options.writes_kernel:
        return _write_kernel(eraser, artifact, embeddings, target, options, progress or Silent())
    change = artifact.eraser.to_features()
    requested = options.output_dtype
    widened = 0 if change.keeps_space else 8 * change.d_out
    read = replace(options.read, widened_bytes=widened, streamed_bytes=APPLIED_CHUNK_BYTES)
    read = replace(read, text_dtype=np.dtype(np.float64)) if requested == np.float64 else read
    with closing(open_source(embeddings, read)) as source, one_blas_thread():
        artifact.require_width(eraser, source)
        if options.in_place and len(source.shards) > 1:
            raise UsageError(f"`in_place`: {embeddings} names several files: give `output=OUT`")
        if options.noise_key is not None:  # a new secret is made only where the inputs can be read
            change = change.keyed(read_secret(options.noise_key))
        name = output_format(target, source, source.format if options.in_place else options.output_format)
        d = change.d_out - (change.k if options.reduces else 0)
        others = {each: open_beside(source, each, read) for each in resolve(source, options.erase_also, "erase_also")}
        dtypes = [requested or _kept_dtype(change, artifact, each, options) for each in (source, *others.values())]
        dtype, beside = (
            dtypes[0],
            Beside(
                dict(zip(others, dtypes[1:], strict=True)), tuple(resolve(source, options.drop, "drop")), options.only
            ),
        )

        steps = {one: _Step(change, one, options.strength, options.reduces) for one in dtypes}
        with create(target, source, d=d, dtype=dtype, format_name=name, beside=beside) as writer:
            done = stream_through(source, writer, steps[dtype], progress or Silent(), at_once=change.rows_at_once)
            for other, rows in others.items():
                writer.begin(other)
                stream_through(rows, writer, steps[beside.erased[other]], progress or Silent())
        if done.were_unit and not done.are_unit:
            warn(
                f"{embeddings}: its rows are all of length 1, the erased ones are not: dividing them by their length "
                "again may bring the attribute back, so judge the file that is used by salcli evaluate `against=FILE`"
            )
    return Applied(target, name, done.n, d, str(dtype))


@dataclass(frozen=True)
class _Step:
    """The change of a batch of rows; it can be pickled."""

    eraser: Eraser
    dtype: np.dtype[Any]
    strength: float
    reduces: bool

    def __call__(self, x: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
        if self.reduces:
            return self.eraser.reduce(x, dtype=self.dtype, out=out)
        return self.eraser(x, strength=self.strength, dtype=self.dtype, out=out)


@dataclass(frozen=True)
class Streamed:
    """The number of rows that were changed, and whether they had and have length 1."""

    n: int
    were_unit: bool = True
    """Whether all had length 1 before."""
    are_unit: bool = True
    """Whether all have length 1 after, where all had before."""

    def __add__(self, other: "Streamed") -> "Streamed":
        return Streamed(self.n + other.n, self.were_unit and other.were_unit, self.are_unit and other.are_unit)


def _changed(change: Change, x: NDArray[Any], out: NDArray[Any] | None) -> tuple[NDArray[Any], Streamed]:
    were_unit = _are_unit(x[:1]) and _are_unit(x)  # before `out` overwrites them
    y = change(x, out)
    return y, Streamed(len(x), were_unit, were_unit and _are_unit(y))


def _are_unit(x: NDArray[Any]) -> bool:
    exact = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", exact, exact)
    return bool(np.all(np.abs(squares - 1) <= 2 * UNIT))


def _require_suited(eraser: str, artifact: Artifact, options: ApplyOptions) -> None:
    if options.writes_kernel and artifact.eraser.by_inner_products() is None:
        raise UsageError(f"`writes_kernel`: {eraser} is a linear eraser (salcli kfit makes the others)")
    if (options.noise_key is not None) != artifact.eraser.needs_secret:
        how = "adds noise by a secret: give" if artifact.eraser.needs_secret else "adds no noise: leave out"
        raise UsageError(f"{eraser} {how} `noise_key=FILE`")
    if options.in_place and not artifact.eraser.keeps_space:
        raise UsageError(f"`in_place`: {eraser} changes the width of rows: give `output=OUT`")


def _write_kernel(
    eraser: str, artifact: Artifact, embeddings: str, target: str, options: ApplyOptions, progress: Progress
) -> Applied:
    change = artifact.eraser.by_inner_products()
    with closing(open_source(embeddings, options.read)) as source:
        artifact.require_width(eraser, source)
        dtype = options.output_dtype or np.dtype(np.float64 if source.dtype.itemsize > 4 else np.float32)
        require_place(target, source.n, dtype)
        about = {"method": artifact.header["method"], "strength": options.strength, "eraser_sha256": artifact.sha256}
        with create_kernel_matrix(target, source, dtype, {**about, **change.kernel.to_dict()}) as writer:
            write_kernel_matrix(source, change, writer, options.strength, progress)
    return Applied(target, "h5", source.n, source.n, str(dtype))


def _target(embeddings: str, output: str | None, options: ApplyOptions) -> str:
    if options.in_place:
        if output is not None and not _is_same(output, embeddings):
            raise UsageError("`in_place` overwrites the input: leave `output` out, or leave `in_place` out")
        if is_url(embeddings):
            raise UsageError("`in_place` needs a local file: objects at URLs are not replaced; give `output=OUT`")
        if embeddings == atomic.STDOUT:
            raise UsageError("`in_place` needs a file, not stdin")
        return embeddings
    if output is None:
        raise UsageError("missing `output=OUT` (or `in_place`)")
    return output


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)  # another hard link would keep the old content


def _kept_dtype(change: Eraser, artifact: Artifact, source: Source, options: ApplyOptions) -> np.dtype[Any]:
    """Return the input's dtype, or a finer one where its rounding would bring the attribute back."""
    if change.keeps_space and (options.strength < 1 or options.reduces):
        return source.dtype
    dtype = erased_dtype(change, artifact.singular_values, source)
    if change.keeps_space and dtype != source.dtype:
        warn(
            f"{source.path}: {source.dtype} is too coarse for values this large: rounding would bring the attribute "
            f"back; writing {dtype} (force it with `dtype={source.dtype}`)"
        )
    return dtype


def stream_through(
    source: Source,
    writer: Writer,
    change: Change,
    progress: Progress,
    *,
    at_once: int | None = None,
    block_elements: int = BLOCK_ELEMENTS,
) -> Streamed:
    """Write all rows, changed, in file order; warn of duplicate keys.

    Parameters
    ----------
    source : the rows
    writer : takes the changed rows
    change : takes rows, and memory that it may use for the result (or None), which may be that of the rows
    progress : shows the pass
    at_once : rows that `change` takes at once, if the writer takes them in any order; it must raise on NaN and Inf
    block_elements : numbers that `change` takes at once otherwise

    Returns
    -------
    how many rows were written, and whether they had and have length 1

    Raises
    ------
    RangeError : a changed number that the dtype cannot hold; the message names the row
    FormatError : the file is damaged, or a row is not finite
    """
    census, done, rows = KeyCensus(), Streamed(0), at_once or block_rows(source.d, block_elements)

    def changed(chunk: Chunk) -> tuple[Embeddings, Streamed]:
        batch = chunk.read()
        try:
            vectors, part = _changed(change, batch.vectors, None)
        except RowRangeError as error:
            raise _named(error, source, int(batch.rows[error.row])) from None
        return batch.with_vectors(vectors), part

    def encoded(chunk: Chunk) -> tuple[Any, tuple[str, ...] | None, Streamed]:
        batch, part = changed(chunk)
        return writer.encode(batch), batch.keys, part

    def placed(chunk: Chunk) -> tuple[None, None, Streamed]:
        row, memory = chunk.start, empty_aligned(min(rows, chunk.n_rows), source.d, source.dtype)
        total = Streamed(0)
        try:
            for batch in chunk.batches(len(memory), out=memory, is_checked=at_once is None):
                vectors, part = _changed(change, batch.vectors, memory[: len(batch)])
                writer.place(row, vectors)
                row, total = row + len(batch), total + part
        except RowRangeError as error:
            chunk.read()  # NaN and Inf in the file are another fault
            raise _named(error, source, row + error.row) from None
        return None, None, total

    is_placed = writer.takes_places and not source.has_keys and not source.n_dropped
    if current_engine().shares_memory:
        pieces = ordered_map(placed if is_placed else encoded, source.chunks())
    else:
        pieces = ((writer.encode(batch), batch.keys, part) for batch, part in ordered_map(changed, source.chunks()))
    with progress.stage("apply", source.n) as advance:
        for piece, keys, part in pieces:
            if piece is not None:
                writer.write(piece)
            census.add(keys or ())
            done += part
            advance(part.n)
    census.warn(source.path, source.key_batches, source.place)
    return done


def _named(error: RowRangeError, source: Source, row: int) -> RangeError:
    return RangeError(f"{source.path}: {source.place(row)}, {error.why}")


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

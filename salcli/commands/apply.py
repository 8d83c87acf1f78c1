"""`apply`: every row of an embedding file through an eraser, into a new file."""

import hashlib
import os
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.commands.apply_folder import erase_folder, goes_to_folder, output_names
from salcli.commands.erased_rows import Streamed, stream_through
from salcli.commands.kernel_matrix import write_kernel
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.base import Eraser
from salcli.erasers.precision import erased_dtype
from salcli.errors import ParameterError, UsageError, warn
from salcli.formats import atomic
from salcli.formats.beside import Beside, resolve
from salcli.formats.keys import KeyCensus
from salcli.formats.local_urls import takes_paths
from salcli.formats.registry import (
    TABLES,
    create,
    input_files,
    may_be_table,
    named,
    open_beside,
    open_files,
    open_source,
    output_format,
)
from salcli.formats.secret import read_secret
from salcli.formats.shard_folder import ALGORITHM, ShardFolder, file_digest
from salcli.formats.shards import is_several
from salcli.formats.url_folder import UrlFolder
from salcli.formats.urls import check_store, is_url
from salcli.options import ApplyOptions, ReadOptions, options_of
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.progress import Progress, Silent

WITHOUT_EFFECT = ("batch_rows",)  # options of reading that change no byte
APPLIED_CHUNK_BYTES = 16 << 20  # of many small pieces, so that no thread waits long for the last one
TABLE_CHUNK_BYTES = 2 << 20  # of tables, whose rows wait in memory beside a row group


@dataclass(frozen=True)
class Applied:
    """The format, shape and dtype of the file that `apply` wrote."""

    output: str
    format: str
    n: int
    d: int
    dtype: str
    n_shards: int | None = None
    """Files, if the output is a folder."""
    n_kept: int = 0
    """Of them, those that an earlier run wrote."""


@takes_paths
@runs_on_cluster
def apply(
    eraser: str, embeddings: str, output: str | None, options: ApplyOptions, progress: Progress | None = None
) -> Applied:
    """Write an embedding file with every row erased, chunk by chunk; of a folder or glob, a folder of such files.

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
    progress = progress or Silent()
    target = _target(embeddings, output, options)
    is_folder = not options.in_place and not options.writes_kernel and goes_to_folder(embeddings, target)
    _check_target(eraser, embeddings, target, options, is_folder=is_folder)
    artifact = read_artifact(eraser)
    _require_suited(eraser, artifact, options)
    if options.strength < 1:
        strength = str(options.strength).removesuffix(".0")  # all digits: 0.9999999 is not 1
        warn(
            f"`strength={strength}` can be inverted, and linear attackers are as accurate as before erasure: "
            "do not publish such rows"
        )
    if options.writes_kernel:
        n, dtype = write_kernel(eraser, artifact, embeddings, target, options, progress)
        return Applied(target, "h5", n, n, str(dtype))
    change = artifact.eraser.to_features()
    widened = 0 if change.keeps_space else 8 * change.d_out
    is_table = any(map(may_be_table, (target, embeddings, *input_files(embeddings, options.read)[:1])))
    chunk_bytes = TABLE_CHUNK_BYTES if is_table or options.output_format in TABLES else APPLIED_CHUNK_BYTES
    read = replace(options.read, widened_bytes=widened, streamed_bytes=chunk_bytes)
    read = replace(read, text_dtype=np.dtype(np.float64)) if options.output_dtype == np.float64 else read
    if is_folder:
        folder = target if target.endswith("://") else target.rstrip(os.sep)
        return _apply_to_folder(eraser, artifact, change, embeddings, folder, read, options, progress)
    with closing(open_source(embeddings, read)) as source, one_blas_thread():
        artifact.require_width(eraser, source)
        if options.in_place and len(source.shards) > 1:
            raise UsageError(f"`in_place`: {embeddings} names several files: give `output=OUT`")
        name = output_format(target, source, source.format if options.in_place else options.output_format)
        plan = _Plan.of(change, artifact, source, name, read, options)
        census = KeyCensus()
        done = plan.write(source, target, progress, census)
        census.warn(source.path, source.key_batches, source.place)
    plan.warn_of_lengths(embeddings, done)
    return Applied(target, name, done.n, plan.d, str(plan.dtype))


def _apply_to_folder(
    eraser: str,
    artifact: Artifact,
    change: Eraser,
    embeddings: str,
    folder: str,
    read: ReadOptions,
    options: ApplyOptions,
    progress: Progress,
) -> Applied:
    files = {file.path: file for file in open_files(embeddings, read)}
    try:
        first = next(file for file in files.values() if file.n).source(read)
        artifact.require_width(eraser, first)
        name = first.format if options.output_format is None else output_format(folder, first, options.output_format)
        empty = next((file.path for file in files.values() if not file.n), None)
        if empty is not None and named(name).needs_rows:
            raise ParameterError("output_format", name, f"{empty} has no rows, and {name} has no files without any")
        names = output_names([*files], first.format, name)
        with one_blas_thread():
            plan = _Plan.of(change, artifact, first, name, read, options, ALGORITHM)
            about = {"eraser": {"sha256": artifact.sha256}, **plan.about()}
            place = (UrlFolder if is_url(folder) else ShardFolder)(folder, about, names)
            place.check_place(embeddings)

            done, n_kept = erase_folder(files, place, plan.write, embeddings, read, progress)
    finally:
        for file in files.values():
            file.file.close()
    plan.warn_of_lengths(embeddings, done)
    return Applied(folder, name, place.n_rows, plan.d, str(plan.dtype), len(names), n_kept)


@dataclass(frozen=True)
class _Plan:
    """How the rows of a file, or of each shard, are written."""

    change: Eraser
    format: str
    d: int
    """Width of the output."""
    dtypes: dict[str, np.dtype[Any]]
    """Of the matrix, called "", and of those beside it that are erased too."""
    dropped: tuple[str, ...]
    read: ReadOptions
    options: ApplyOptions
    secret: str | None
    """Hash of the secret of noise."""
    algorithm: str | None
    """Of the hash of outputs."""

    @classmethod
    def of(
        cls,
        change: Eraser,
        artifact: Artifact,
        source: Source,
        name: str,
        read: ReadOptions,
        options: ApplyOptions,
        algorithm: str | None = None,
    ) -> "_Plan":
        """Return the plan for a source, or for shards of which it is the first.

        Parameters
        ----------
        change : the eraser, as rows need it
        artifact : the eraser, as it was fitted
        source : the rows
        name : of the output's format
        read, options : of the command
        algorithm : of the hash of outputs, or none
        """
        secret = None
        if options.noise_key is not None:  # a new secret is made only where the inputs can be read
            found = read_secret(options.noise_key)
            change, secret = change.keyed(found), hashlib.sha256(found).hexdigest()
        names = resolve(source, options.erase_also, "erase_also")
        matrices = {"": source, **{each: open_beside(source, each, read) for each in names}}
        return cls(
            change,
            name,
            change.d_out - (change.k if options.reduces else 0),
            {
                each: options.output_dtype or _kept_dtype(change, artifact, matrix, options)
                for each, matrix in matrices.items()
            },
            tuple(resolve(source, options.drop, "drop")),
            read,
            options,
            secret,
            algorithm,
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Numbers of the output's matrix."""
        return self.dtypes[""]

    def about(self) -> dict[str, Any]:
        """Return what the bytes of the output depend on, beside the eraser and the input, as plain values."""
        read = {name: getattr(self.read, name) for name in options_of(ReadOptions) if name not in WITHOUT_EFFECT}
        if self.read.keys_file is not None:
            read["keys_file"] = file_digest(self.read.keys_file)
        options = {"strength": self.options.strength, "reduces": self.options.reduces, "only": self.options.only}
        beside = {"erase_also": {name: str(dtype) for name, dtype in self.dtypes.items() if name}, "drop": self.dropped}
        return {
            "format": self.format,
            "d": self.d,
            "dtype": str(self.dtype),
            "options": options | beside | read | {"noise_key_sha256": self.secret},
        }

    def write(self, source: Source, target: str, progress: Progress, census: KeyCensus) -> Streamed:
        """Write the rows of a source to the path `target`, whole or not at all (see `stream_through`)."""
        others = {each: open_beside(source, each, self.read) for each in self.dtypes if each}
        beside = Beside({each: self.dtypes[each] for each in others}, self.dropped, self.options.only)
        steps = {
            one: _Step(self.change, one, self.options.strength, self.options.reduces) for one in self.dtypes.values()
        }
        with create(
            target,
            source,
            d=self.d,
            dtype=self.dtype,
            format_name=self.format,
            beside=beside,
            algorithm=self.algorithm,
        ) as writer:
            done = stream_through(
                source, writer, steps[self.dtype], progress, at_once=self.change.rows_at_once, census=census
            )
            for other, rows in others.items():
                writer.begin(other)
                stream_through(rows, writer, steps[beside.erased[other]], progress)
            source.require_unchanged()
        return replace(done, digest=writer.digest)

    def warn_of_lengths(self, embeddings: str, done: Streamed) -> None:
        """Warn if all rows had length 1, and the erased ones have not."""
        if done.n and done.were_unit and not done.are_unit:
            warn(
                f"{embeddings}: its rows are all of length 1, the erased ones are not: dividing them by their length "
                "again may bring the attribute back, so judge the file that is used by salcli evaluate `against=FILE`"
            )


def _check_target(eraser: str, embeddings: str, target: str, options: ApplyOptions, *, is_folder: bool) -> None:
    """Check, before any work starts, that the output is no input and that its place can be written."""
    others = [eraser, options.read.keys_file, options.noise_key]
    if options.noise_key is not None and os.path.realpath(options.noise_key) == os.path.realpath(target):
        raise UsageError(f"`noise_key={options.noise_key}`: is the output too: name another file for the secret")
    if is_folder:
        if not is_url(target):
            atomic.check_folder(target)
        return
    replaced = embeddings if options.in_place else None
    atomic.check_output(target, others, may_replace=replaced)
    files = input_files(embeddings, options.read)
    atomic.check_output(target, files, may_replace=replaced, remedy="name another output, or use `in_place`")


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


def _require_suited(eraser: str, artifact: Artifact, options: ApplyOptions) -> None:
    if options.writes_kernel and artifact.eraser.by_inner_products() is None:
        raise UsageError(f"`writes_kernel`: {eraser} is a linear eraser (salcli kfit makes the others)")
    if (options.noise_key is not None) != artifact.eraser.needs_secret:
        how = "adds noise by a secret: give" if artifact.eraser.needs_secret else "adds no noise: leave out"
        raise UsageError(f"{eraser} {how} `noise_key=FILE`")
    if options.in_place and not artifact.eraser.keeps_space:
        raise UsageError(f"`in_place`: {eraser} changes the width of rows: give `output=OUT`")


def _target(embeddings: str, output: str | None, options: ApplyOptions) -> str:
    if options.in_place:
        if output is not None and not _is_same(output, embeddings):
            raise UsageError("`in_place` overwrites the input: leave `output` out, or leave `in_place` out")
        if is_url(embeddings):
            raise UsageError("`in_place` needs a local file: objects at URLs are not replaced; give `output=OUT`")
        if embeddings == atomic.STDOUT:
            raise UsageError("`in_place` needs a file, not stdin")
        if is_several(embeddings):
            raise UsageError(f"`in_place`: {embeddings} names several files: give `output=OUT`")
        return embeddings
    if output is None:
        raise UsageError("missing `output=OUT` (or `in_place`)")
    if is_url(output):
        check_store(output)
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

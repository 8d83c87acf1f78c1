"""From a name to a reader or a writer: what the content says decides, then the suffix."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from salcli.errors import FormatError, ParameterError, UsageError, warn
from salcli.formats import atomic
from salcli.formats import sniff as signature
from salcli.formats.files import ByteFile
from salcli.formats.finite import FiniteSource
from salcli.formats.keyed import KeyedSource
from salcli.formats.npy import NpySource, NpyWriter
from salcli.formats.npz import NpzSource, NpzWriter
from salcli.formats.source import EmbeddingSource
from salcli.formats.word2vec_binary import Word2vecBinarySource, Word2vecBinaryWriter
from salcli.formats.word2vec_text import TextSource, TextWriter
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions

FORMATS = ("npy", "npz", "h5", "word2vec-text", "glove", "word2vec-bin")
TEXT_FORMATS = frozenset({"word2vec-text", "glove"})
SUFFIXES = {".npy": "npy", ".npz": "npz", ".h5": "h5", ".hdf5": "h5", ".bin": "word2vec-bin"}
TEXT_SUFFIXES = frozenset({".txt", ".vec"})
COMPRESSED_SUFFIX = ".gz"
FOREIGN_SUFFIXES = frozenset(  # whoever reads these expects what they promise
    {".parquet", ".kv", ".csv", ".tsv", ".json", ".jsonl", ".pkl", ".pickle", ".pt", ".pth", ".safetensors", ".mat"}
    | {".arrow", ".feather", ".ftz", ".model", ".zip", ".h5ad"}
)
READ_ONLY_SUFFIXES = frozenset({".bz2", ".xz"})


def open_source(path: str, options: ReadOptions | None = None) -> FiniteSource:
    """Open an embedding file, checking what can be checked before rows are read.

    Parameters
    ----------
    path : a file, or `-` for text on stdin
    options : how to read it; default: find out

    Raises
    ------
    FormatError : it is not an embedding file; the message says what it is
    """
    options = options or ReadOptions()
    if options.format is not None and options.format not in FORMATS:
        raise ParameterError("format", options.format, f"expected one of {', '.join(FORMATS)}")
    file = ByteFile.open(path)
    try:
        source = _reader(file, options)
        keyed = source if options.keys_file is None else KeyedSource(source, options.keys_file)
        return FiniteSource(keyed, allow_nonfinite=options.allow_nonfinite)
    except BaseException:
        file.close()
        raise


def _reader(file: ByteFile, options: ReadOptions) -> EmbeddingSource:
    head = file.head()
    found = signature.format_of(head)
    wanted = options.format or found
    binary = {"npy", "npz", "h5"}
    if wanted != found and (wanted in binary or found in binary):
        raise FormatError(f"{file.name}: not {_called(wanted)}: its content is {_called(found)}")
    if found == "glove" and (suffix := Path(file.name).suffix) in (".npy", ".npz", ".h5", ".hdf5"):
        raise FormatError(f"{file.name}: not {_called(SUFFIXES[suffix])}, whatever its name says")
    if wanted not in ("npz", "h5") and (options.dataset or options.keys_dataset):
        name, given = ("dataset", options.dataset) if options.dataset else ("keys_dataset", options.keys_dataset)
        raise ParameterError(name, given, f"{file.name} is {_called(wanted)}; only HDF5 and npz hold several arrays")
    if wanted == "npy":
        return NpySource(file, options)
    if wanted == "npz":
        return NpzSource(file, options)
    if wanted == "h5":
        from salcli.formats.hdf5 import Hdf5Source

        return Hdf5Source(file, options)
    if wanted == "word2vec-bin":
        return Word2vecBinarySource(file, options)
    return TextSource(file, options, has_header=wanted == "word2vec-text")


def output_format(target: str, source: EmbeddingSource, forced: str | None) -> str:
    """Choose the output's format: what was asked for, else what the suffix says, else the input's."""
    if Path(target).suffix in READ_ONLY_SUFFIXES:
        raise UsageError(f"{target}: {Path(target).suffix} is read but not written: use .gz")
    if forced is not None:
        if forced not in FORMATS:
            raise ParameterError("output_format", forced, f"expected one of {', '.join(FORMATS)}")
        return forced
    name = Path(target.removesuffix(COMPRESSED_SUFFIX))
    suffix = name.suffix.lower()
    if suffix in FOREIGN_SUFFIXES:
        known = ", ".join(sorted({*SUFFIXES, *TEXT_SUFFIXES}))
        raise UsageError(f"{target}: {name.suffix} is not written: expected {known}, or `output_format`")
    if suffix in TEXT_SUFFIXES or target == atomic.STDOUT:
        return source.format if source.format in TEXT_FORMATS else "word2vec-text"
    return SUFFIXES.get(suffix, source.format)


@contextmanager
def create(
    target: str, source: EmbeddingSource, *, d: int, dtype: np.dtype[Any], format_name: str
) -> Iterator[EmbeddingWriter]:
    """Open a writer whose file appears at `target`, whole, when the block ends well.

    Parameters
    ----------
    target : a file's name, or `-` for text on stdout
    source : the input, whose rows, order and companions the output keeps
    d : width of the output
    dtype : its numbers
    format_name : as `output_format` chose

    Raises
    ------
    OutputError : it cannot be written
    """
    if target == atomic.STDOUT and format_name not in TEXT_FORMATS:
        raise UsageError(f"`output=-`: only text vectors go to stdout, not {format_name}")
    with atomic.replacing(target, compresses=target.endswith(COMPRESSED_SUFFIX)) as temporary:
        handle = None if format_name == "h5" else open(temporary, "wb")  # noqa: SIM115 (closed below)
        _tell_of_companions(target, source, format_name)
        try:
            writer = _writer(format_name, handle, temporary, target, source, d, dtype)
            try:
                yield writer
                writer.close()
            except BaseException:
                with suppress(OSError, ValueError):
                    writer.discard()
                raise
        finally:
            if handle is not None:
                handle.close()


def _tell_of_companions(target: str, source: EmbeddingSource, format_name: str) -> None:
    """Warn of arrays beside the matrix that another format cannot take along, or that keep rows which are dropped."""
    inner = _innermost(source)
    companions = inner.companions() if source.format in ("npz", "h5") else []
    named = ", ".join(companions[:4]) + (" …" if len(companions) > 4 else "")
    if companions and format_name != source.format:
        warn(f"{target}: {format_name} holds the matrix and its keys only; left behind: {named}")
    elif companions and inner.n != source.n:
        n_dropped = inner.n - source.n
        warn(f"{target}: {n_dropped} rows are dropped from the matrix, but not from what is copied beside it: {named}")


def _innermost(source: EmbeddingSource) -> Any:
    inner: Any = source
    while isinstance(inner, (FiniteSource, KeyedSource)):
        inner = inner.inner
    return inner


def _writer(
    name: str, handle: Any, temporary: str, target: str, source: EmbeddingSource, d: int, dtype: np.dtype[Any]
) -> EmbeddingWriter:
    inner = _innermost(source)
    if name == "npy":
        return NpyWriter(handle, n=source.n, d=d, dtype=dtype, is_fortran=getattr(inner, "is_fortran", False))
    if name == "npz":
        like = inner if isinstance(inner, NpzSource) else None
        return NpzWriter(handle, n=source.n, d=d, dtype=dtype, like=like, has_keys=source.has_keys, target=target)
    if name == "h5":
        from salcli.formats.hdf5 import Hdf5Source
        from salcli.formats.hdf5_writer import Hdf5Writer

        same = inner if isinstance(inner, Hdf5Source) else None
        return Hdf5Writer(temporary, n=source.n, d=d, dtype=dtype, like=same, has_keys=source.has_keys, target=target)
    if name == "word2vec-bin":
        return Word2vecBinaryWriter(handle, n=source.n, d=d, dtype=dtype, target=target)
    return TextWriter(handle, n=source.n, d=d, dtype=dtype, has_header=name == "word2vec-text", target=target)


def _called(name: str) -> str:
    return {"h5": "an HDF5 file", "npy": "an npy file", "npz": "an npz file"}.get(
        name, "text" if name == "glove" else name
    )

"""The formats, and the choice of a reader or writer: by the content, then by the suffix."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from salcli.data.source import Reader, Source, model_of, require_alike, require_rows
from salcli.errors import FormatError, ParameterError, UsageError, warn
from salcli.formats import atomic, shards, sniff
from salcli.formats.base import FileReader, Format, Output, Writer, lazy
from salcli.formats.beside import Beside, require_same_format, warn_of_rest
from salcli.formats.files import ByteFile
from salcli.formats.key_file import KeyedReader
from salcli.formats.urls import is_url, name_in
from salcli.options import ReadOptions

FORMATS = [
    Format(
        "npy",
        (".npy",),
        lambda head: head.startswith(sniff.NPY_MAGIC),
        lazy("npy_int8", "read_npy"),
        lazy("npy", "NpyWriter.create"),
        title="an npy file",
        has_magic=True,
        may_hold_int8=True,
        holds_keys=False,
    ),
    Format(
        "npz",
        (".npz",),
        lambda head: head.startswith(sniff.ZIP_MAGIC),
        lazy("npz", "NpzReader"),
        lazy("npz_writer", "NpzWriter"),
        title="an npz file",
        has_magic=True,
        holds_several_arrays=True,
    ),
    Format(
        "h5",
        (".h5", ".hdf5"),
        lambda head: head.startswith(sniff.HDF5_MAGIC),
        lazy("hdf5", "Hdf5Reader"),
        lazy("hdf5_writer", "Hdf5Writer"),
        title="an HDF5 file",
        has_magic=True,
        may_hold_int8=True,
        holds_several_arrays=True,
    ),
    Format(
        "parquet",
        (".parquet", ".pq"),
        lambda head: head.startswith(sniff.PARQUET_MAGIC),
        lazy("parquet", "ParquetReader"),
        lazy("parquet_writer", "ParquetWriter"),
        title="a Parquet file",
        is_table=True,
        has_magic=True,
        may_hold_int8=True,
        holds_several_arrays=True,
    ),
    Format(
        "arrow",
        (".arrow", ".feather"),
        sniff.is_arrow,
        lazy("arrow_ipc", "ArrowReader"),
        lazy("arrow_ipc", "ArrowWriter"),
        title="an Arrow file",
        is_table=True,
        has_magic=True,
        may_hold_int8=True,
        holds_several_arrays=True,
    ),
    Format(
        "safetensors",
        (".safetensors",),
        sniff.is_safetensors,
        lazy("safetensors", "SafetensorsReader"),
        lazy("safetensors", "SafetensorsWriter"),
        title="a safetensors file",
        has_magic=True,
        may_hold_int8=True,
        holds_keys=False,
        holds_several_arrays=True,
    ),
    Format(
        "fasttext",
        (),
        lambda head: head.startswith(sniff.FASTTEXT_MAGIC),
        lazy("gensim_models", "FasttextReader"),
        lazy("gensim_models", "refuse_model"),
        title="a fastText model",
        has_magic=True,
    ),
    Format(
        "gensim",
        (),
        sniff.is_pickle,
        lazy("gensim_models", "PickleReader"),
        lazy("gensim_models", "refuse_model"),
        title="a model of gensim",
        has_magic=True,
    ),
    Format(
        "word2vec-text",
        (".txt", ".vec"),
        sniff.is_word2vec_text,
        lazy("word2vec_text", "read_word2vec"),
        lazy("word2vec_text", "write_word2vec"),
        is_text=True,
    ),
    Format(
        "word2vec-bin",
        (".bin",),
        sniff.is_word2vec_binary,
        lazy("word2vec_binary", "Word2vecBinaryReader"),
        lazy("word2vec_binary", "Word2vecBinaryWriter.create"),
    ),
    Format(
        "fbin",
        (".fbin",),
        lambda _: False,
        lazy("fbin", "read_fbin"),
        lazy("fbin", "write_fbin"),
        title="an fbin file",
        is_by_suffix=True,
        holds_keys=False,
    ),
    Format(
        "f16bin",
        (".f16bin",),
        lambda _: False,
        lazy("fbin", "read_f16bin"),
        lazy("fbin", "write_f16bin"),
        title="an f16bin file",
        is_by_suffix=True,
        holds_keys=False,
    ),
    Format(
        "fvecs",
        (".fvecs",),
        lambda _: False,
        lazy("fbin", "FvecsReader"),
        lazy("fbin", "FvecsWriter"),
        title="an fvecs file",
        is_by_suffix=True,
        holds_keys=False,
        needs_rows=True,
    ),
    Format(
        "glove",
        (".txt", ".tsv"),
        lambda _: True,
        lazy("word2vec_text", "read_glove"),
        lazy("word2vec_text", "write_glove"),
        title="text",
        is_text=True,
        needs_rows=True,
    ),
]
"""All formats, in the order in which a file's content is compared with them; the last one takes what is left."""

OPENED_AT_ONCE = 16  # objects of a store
COMPRESSED_SUFFIX = ".gz"
COPIED = Beside()
READ_ONLY_SUFFIXES = frozenset({".bz2", ".xz"})
FOREIGN_SUFFIXES = frozenset(  # other programs expect what these promise
    {".kv", ".csv", ".json", ".jsonl", ".pkl", ".pickle", ".pt", ".pth", ".mat"} | {".ftz", ".model", ".zip", ".h5ad"}
)


def names(separator: str = ", ", last: str = ", ") -> str:
    """Return the names of all formats as text, for messages and help.

    Parameters
    ----------
    separator : between two names
    last : before the last one
    """
    found = [one.name for one in FORMATS]
    return last.join([separator.join(found[:-1]), found[-1]])


def recognised(head: bytes) -> Format:
    """Return the format of (decompressed) content, of which `head` is the first 64 KiB."""
    return next(one for one in FORMATS if one.sniff(head))


def named(name: str) -> Format:
    """Return the format called `name`, which is known to be one."""
    return next(one for one in FORMATS if one.name == name)


def _requested_format(name: str, option: str) -> Format:
    if name not in (one.name for one in FORMATS):
        raise ParameterError(option, name, f"expected one of {names()}")
    return named(name)


def _with_suffix(suffix: str) -> list[Format]:
    return [one for one in FORMATS if suffix in one.suffixes]


@dataclass(frozen=True)
class OpenFile:
    """One of the files that EMBEDDINGS names."""

    file: ByteFile
    readers: list[Reader]
    """At least one, in order."""

    @property
    def path(self) -> str:
        """Its path, `<stdin>` for `-`."""
        return self.file.name

    @property
    def n(self) -> int:
        """Its rows."""
        return sum(reader.n for reader in self.readers)

    def source(self, options: ReadOptions) -> Source:
        """Return the file as a source of its own; `options` are those that it was opened with."""
        return Source(self.readers, allow_nonfinite=options.allow_nonfinite, path=self.path)


def open_source(path: str, options: ReadOptions | None = None, *, may_be_empty: bool = False) -> Source:
    """Open an embedding file, or several as one, checking what can be checked before rows are read.

    Parameters
    ----------
    path : a file, a folder or a glob of files of one format (see `shards.shard_files`), or `-` for text on stdin
    options : how to read it; default: by its content
    may_be_empty : whether it may have no rows, as a shard of others

    Raises
    ------
    FormatError : it is not an embedding file; the message names what it is. Or several differ, or none has rows
    """
    options = options or ReadOptions()
    opened = open_files(path, options, may_be_empty=may_be_empty)
    readers = [reader for one in opened for reader in one.readers]
    name = shards.plain_name(path) if shards.is_several(path) else opened[0].path
    with _closed_on_error([one.file for one in opened]):
        return Source(readers, allow_nonfinite=options.allow_nonfinite, path=name)


@contextmanager
def opened_source(path: str, options: ReadOptions | None = None, *, may_be_empty: bool = False) -> Iterator[Source]:
    """Open embeddings (see `open_source`) for the time of the block.

    Raises
    ------
    FormatError : as `open_source`; and after the block, if a file has changed meanwhile
    """
    with closing(open_source(path, options, may_be_empty=may_be_empty)) as source:
        yield source
        source.require_unchanged()


def input_files(path: str, options: ReadOptions) -> list[str]:
    """Return the paths of the embedding files that `path` names: itself, or those of a folder or glob, in order.

    Parameters
    ----------
    path : see `open_source`
    options : whose format chooses among files of several in a folder

    Raises
    ------
    FormatError : there are none, several formats, or the folder is not whole
    """
    if not shards.is_several(path):
        return [path]
    forced = None if options.format is None else _requested_format(options.format, "format")
    return shards.shard_files(path, _ranks(forced), "embedding files")


def open_files(path: str, options: ReadOptions, *, may_be_empty: bool = False) -> list[OpenFile]:
    """Open the files that `path` names, and check that they are alike (see `open_source`).

    What files without rows do not say of themselves they take over from the first that has rows.
    """
    forced = None if options.format is None else _requested_format(options.format, "format")
    names = input_files(path, options)
    shards.require_recorded(path, names)
    shards.allow_open_files(len(names))
    files, opened = list[ByteFile](), list[OpenFile]()

    def open_one(name: str) -> OpenFile:
        return _open_file(name, forced, options)

    with _closed_on_error(files), _opening(names) as each:
        for name, one in zip(names, each(open_one, names), strict=True):
            files.append(one.file)
            opened.append(one)
            found, first = (named(one.readers[0].format) for one in (opened[-1], opened[0]))
            if found != first:
                raise FormatError(f"{name}: {found}, but {opened[0].path} is {first}: shards must be alike")
        readers = [reader for one in opened for reader in one.readers]
        model = model_of(readers)
        if not may_be_empty and len(readers) > 1 and not model.n:
            raise FormatError(f"{path}: no rows to read: all {len(readers)} shards are empty")
        if not may_be_empty:
            require_rows(model.path, model.n, model.d)
        if options.keys_file is not None:
            if len(readers) > 1:
                raise ParameterError("keys_file", options.keys_file, f"{path} is {len(readers)} files")
            return [OpenFile(files[0], [KeyedReader(readers[0], options.keys_file)])]
        for reader in readers:
            if not reader.n:
                reader.adopt(model)
            require_alike(model, reader)
    return opened


def _open_file(name: str, forced: Format | None, options: ReadOptions) -> OpenFile:
    file = ByteFile.open(name, allows_pickle=options.allow_pickle)
    with _closed_on_error([file]):
        return OpenFile(file, _readers(file, forced, options))


@contextmanager
def _opening(names: Sequence[str]) -> Iterator[Callable[..., Iterator[OpenFile]]]:
    """Yield a function that opens files in order: those at URLs several at a time, as each waits for its store."""
    if len(names) == 1 or not is_url(names[0]):
        yield map
        return
    pool = ThreadPoolExecutor(OPENED_AT_ONCE)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _closed_on_error(files: Sequence[ByteFile]) -> Iterator[None]:
    """Close files if the block raises, without the warnings that their readers have collected."""
    try:
        yield
    except BaseException:
        for file in files:
            file.close()
        raise


def _ranks(forced: Format | None) -> list[shards.Kinds]:
    """Return the formats by suffix: text and tables may lie beside the shards of another format."""
    formats = FORMATS if forced is None else [forced]
    ranks: list[dict[str, str]] = [{}, {}, {}]
    for one in formats:
        rank = ranks[2 if one.is_text else 1 if one.is_table else 0]
        for suffix in one.suffixes:
            rank.setdefault(suffix, one.name)
    return [*ranks]


def _readers(file: ByteFile, forced: Format | None, options: ReadOptions) -> list[Reader]:
    """Return the readers of one file.

    Raises
    ------
    UsageError : `keyed` contradicts the format
    """
    kind = _kind(file, forced, options)
    opened = kind.reader(file, options)
    readers = [opened] if isinstance(opened, Reader) else list(opened)
    if options.keyed is not None and readers[0].has_keys != options.keyed:
        option, fault = ("`keyed`", "has no") if options.keyed else ("`keyed=False`", "always has")
        raise UsageError(f"{option}: {file.name} is {kind}, which {fault} keys")
    return readers


def _kind(file: ByteFile, forced: Format | None, options: ReadOptions) -> Format:
    head = file.head()
    found = recognised(head)
    if not found.has_magic:
        suffix = Path(name_in(file.name).lower().removesuffix(COMPRESSED_SUFFIX)).suffix
        is_open = sniff.is_word2vec_without_rows(head)
        named_so = (one for one in _with_suffix(suffix) if one.is_by_suffix or (is_open and one.sniff(head)))
        found = next(named_so, found)
    kind = forced or found
    if kind is not found and (kind.has_magic or found.has_magic):
        raise FormatError(f"{file.name}: not {kind}: its content is {found}")
    promised = [one for one in _with_suffix(Path(name_in(file.name)).suffix) if one.has_magic]
    if found is FORMATS[-1] and promised:
        raise FormatError(f"{file.name}: not {promised[0]}, whatever its name says")
    if not kind.holds_several_arrays and (options.dataset or options.keys_dataset):
        name, value = ("dataset", options.dataset) if options.dataset else ("keys_dataset", options.keys_dataset)
        several = ", ".join(one.name for one in FORMATS if one.holds_several_arrays)
        raise ParameterError(name, value, f"{file.name} is {kind}; only files of {several} hold several arrays")
    if options.dequantize is not None and not kind.may_hold_int8:
        fitting = ", ".join(one.name for one in FORMATS if one.may_hold_int8)
        raise ParameterError("dequantize", options.dequantize, f"{file.name} is {kind}; int8 is read from {fitting}")
    return kind


def open_beside(source: Source, name: str, options: ReadOptions) -> Source:
    """Return another matrix of a source's file, of the same rows and width.

    Parameters
    ----------
    source : of one file
    name : of the matrix
    options : the source was opened with

    Raises
    ------
    ParameterError : it is no such matrix
    FormatError : it is damaged
    """
    main = source.shards[0].reader.innermost
    assert isinstance(main, FileReader)
    alone = replace(options, dataset=name, keys_dataset=None, keys_file=None, keyed=False, dequantize=None)
    try:
        reader = named(source.format).reader(main.container, alone)
        assert isinstance(reader, Reader)
    except FormatError as error:
        raise ParameterError("erase_also", name, str(error)) from error
    reader.path = f"{source.path}[{name}]"
    if (reader.n, reader.d) != (source.n_all, source.d):
        fault = f"{reader.n:,} rows of {reader.d} dimensions, but the matrix has {source.n_all:,} of {source.d}"
        raise ParameterError("erase_also", name, fault)
    if source.n_dropped:
        raise ParameterError("erase_also", name, f"rows with NaN or Inf are dropped from {source.path}, not from it")
    return Source([reader])


TABLES = tuple(each.name for each in FORMATS if each.is_table)


def may_be_table(path: str) -> bool:
    """Return whether the suffix of `path` is that of a table (Parquet, Arrow)."""
    return any(each.is_table for each in _with_suffix(Path(name_in(path)).suffix.lower()))


def output_format(target: str, source: Source, forced: str | None) -> str:
    """Return the name of the output's format: the requested one, else that of the suffix, else the input's.

    Parameters
    ----------
    target : a file's name, or `-` for stdout
    source : the input
    forced : the requested format, or None

    Raises
    ------
    UsageError : the suffix is one that is not written
    ParameterError : there is no format of the requested name
    """
    if Path(target).suffix in READ_ONLY_SUFFIXES:
        raise UsageError(f"{target}: {Path(target).suffix} is read but not written: use .gz")
    if forced is not None:
        return _requested_format(forced, "output_format").name
    name = Path(target.removesuffix(COMPRESSED_SUFFIX))
    fitting = [one for one in FORMATS if one.is_text] if target == atomic.STDOUT else _with_suffix(name.suffix.lower())
    if not fitting and name.suffix.lower() in FOREIGN_SUFFIXES:
        known = ", ".join(sorted({suffix for one in FORMATS for suffix in one.suffixes}))
        raise UsageError(f"{target}: {name.suffix} is not written: expected {known}, or `output_format`")
    if not fitting or source.format in (one.name for one in fitting):
        return source.format
    return fitting[0].name


@contextmanager
def create(
    target: str,
    source: Source,
    *,
    d: int,
    dtype: np.dtype[Any],
    format_name: str,
    beside: Beside = COPIED,
    algorithm: str | None = None,
) -> Iterator[Writer]:
    """Open a writer whose file appears at `target`, whole, when the block ends well.

    Parameters
    ----------
    target : a file's name, or `-` for text on stdout
    source : the input, whose rows, order and companions the output keeps
    d : width of the output
    dtype : its numbers
    format_name : as `output_format` chose
    beside : what becomes of the arrays beside the matrix
    algorithm : of the hash of the file, if the writer can compute it (see `Writer.hash_in_step`)

    Raises
    ------
    UsageError : the format has no place for what is to be written
    OutputError : it cannot be written
    """
    kind = named(format_name)
    if target == atomic.STDOUT and not kind.is_text:
        raise UsageError(f"`output=-`: only text vectors go to stdout, not {format_name}")
    require_same_format(beside, source, format_name)
    is_compressed = target.endswith(COMPRESSED_SUFFIX)
    with atomic.replacing(target, compresses=is_compressed) as temporary, ExitStack() as opened:
        if source.has_keys and not kind.holds_keys:
            warn(f"{target}: {kind.name} holds no keys: those of {source.path} are left behind")
        output = Output(temporary, target, source, d, dtype, beside, opened)
        warn_of_rest(target, source, beside, is_same_format=format_name == source.format)
        writer = kind.writer(output)
        try:
            if algorithm is not None and not is_compressed:
                writer.hash_in_step(algorithm)
            yield writer
            writer.close()
        except BaseException:
            with suppress(OSError, ValueError):
                writer.discard()
            raise

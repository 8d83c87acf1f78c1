"""`.npz`: a zip of `.npy` arrays, of which one is the matrix and another may hold the keys."""

import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import row_ranges
from salcli.errors import FormatError, first_line
from salcli.formats.base import Output, Writer
from salcli.formats.files import ByteFile, Stream
from salcli.formats.keys import MAX_KEY, choose_keys, has_key_name, listed, shortened
from salcli.formats.npy import NpyReader, npy_header, read_header, read_layout, strings
from salcli.options import ReadOptions

KNOWN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
ENCRYPTED = 0x1
PATH_MARKS = re.compile(r"[/\\]")
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


class Archive:
    """A zip whose every fault is a one-line error that names the file."""

    def __init__(self, file: ByteFile) -> None:
        self.path, self.file = file.name, file
        self._zip: zipfile.ZipFile | None = None
        self.names = self.zip.namelist()
        twice = next((name for name, count in Counter(self.names).items() if count > 1), None)
        if twice is not None:
            raise FormatError(f"{self.path}: several members called {shortened(twice)}: which one is meant?")
        outside = next((name for name in self.names if name.startswith("/") or ".." in PATH_MARKS.split(name)), None)
        if outside is not None:
            raise FormatError(f"{self.path}: a member called {shortened(outside)}, a path out of the archive")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_zip": None}

    @property
    def zip(self) -> zipfile.ZipFile:
        """The zip, opened when needed."""
        if self._zip is None:
            try:
                self._zip = zipfile.ZipFile(self.file.handle)
            except FAULTS as error:
                raise FormatError(f"{self.path}: truncated or damaged npz: {first_line(error)}") from error
        return self._zip

    def size(self, member: str) -> int:
        """Tell how many bytes a member unpacks to: no more are read, whatever it holds."""
        return self.zip.getinfo(member).file_size

    def growth(self, member: str) -> float:
        """Tell how many times larger a member is unpacked."""
        info = self.zip.getinfo(member)
        return info.file_size / max(1, info.compress_size)

    def stream(self, member: str, name: str) -> Stream:
        """Read a member from its first byte.

        Raises
        ------
        FormatError : it is encrypted, compressed in an unknown way, or damaged
        """
        info = self.zip.getinfo(member)
        if info.flag_bits & ENCRYPTED:
            raise FormatError(f"{name}: is encrypted: extract it and save it without a password")
        if info.compress_type not in KNOWN:
            raise FormatError(f"{name}: compressed by method {info.compress_type}, expected none, deflate or bzip2")
        try:
            return Stream(self.zip.open(info), name, "zip")
        except FAULTS as error:
            raise FormatError(f"{name}: damaged zip member: {first_line(error)}") from error

    def close(self) -> None:
        """Let go of the directory; the file is its owner's."""
        if self._zip is not None:
            self._zip.close()


def is_artifact(path: str) -> bool:
    """Tell an artifact from an `.npz` of embeddings, by its member names."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"header.npy", "singular_values.npy"} <= set(archive.namelist())
    except FAULTS:
        return False


EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal content makes equal bytes
COPY_PIECE = 1 << 20
KEYS_MEMBER = "keys.npy"
MAX_GROWTH, ANY_GROWTH_BYTES = 500, 64 << 20  # numpy pads strings, so that long lists of keys do shrink a hundredfold


class Member(ByteFile):
    """One array of a zip, which is read forward like a compressed file."""

    compression = "zip"

    def __init__(self, archive: Archive, member: str) -> None:
        super().__init__(f"{archive.path}[{shortened(member.removesuffix('.npy'))}]")
        self.archive, self._member = archive, member
        self.closed_with(archive.file)

    @property
    def size(self) -> int:
        """Bytes of the content, as the zip announces them: no more are read."""
        return self.archive.size(self._member)

    @property
    def most_bytes(self) -> int:
        """More bytes than this the content cannot have."""
        return self.size

    def stream(self) -> Stream:
        """Read the content from its first byte."""
        return self.archive.stream(self._member, self.name)

    def close(self) -> None:
        """Close the file that the zip is."""
        super().close()
        self.archive.close()
        self.archive.file.close()


class NpzReader(NpyReader):
    """The one 2-D float array of an `.npz`, or the one that `dataset` names."""

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Find the matrix and its keys.

        Raises
        ------
        FormatError : it is no npz, or what is meant is not clear
        """
        self.archive = Archive(file.plain())
        names = self.archive.names
        if not names or not all(name.endswith(".npy") for name in names):
            inside = ", ".join(map(shortened, names[:4])) + (" …" if len(names) > 4 else "")
            raise FormatError(
                f"{file.name}: a zip archive (of {inside or 'nothing'}), not an npz: extract the vectors first"
            )
        self.member = self._matrix_member(file.name, names, options.dataset)
        super().__init__(Member(self.archive, self.member), options, format_name="npz")
        self.path = file.name
        self.keys_member = self._find_keys(names, options.keys_dataset)
        self.has_keys = self.keys_member is not None
        self._held_keys: tuple[str, ...] | None = None
        self._keys_at(0, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held_keys": None}  # keys are not sent along with every chunk

    def _matrix_member(self, path: str, names: list[str], dataset: str | None) -> str:
        if dataset is not None:
            if f"{dataset}.npy" not in names:
                raise FormatError(f"{path}: no array {dataset!r}; it holds {_arrays(names)}")
            return f"{dataset}.npy"
        fitting, reasons, faults = [], [], []
        for name in names:
            try:
                head = Member(self.archive, name).head()
            except FormatError as error:
                faults.append(str(error))
                continue
            try:
                read_layout(head, f"{path}[{shortened(name[:-4])}]")
                fitting.append(name)
            except FormatError as error:
                reasons.append(str(error))
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise FormatError(
                (faults + reasons)[0]
                if faults or len(names) == 1
                else f"{path}: no 2-D float array; it holds {_arrays(names)}"
            )
        raise FormatError(f"{path}: several matrices, {_arrays(fitting)}: choose one with `dataset`")

    def _find_keys(self, names: list[str], keys_dataset: str | None) -> str | None:
        if keys_dataset is not None:
            if f"{keys_dataset}.npy" not in names:
                raise FormatError(f"{self.path}: no array {keys_dataset!r}; it holds {_arrays(names)}")
            return f"{keys_dataset}.npy"
        lists = {name[:-4]: length for name in names if (length := self._list_length(name)) is not None}
        chosen = choose_keys(self.path, lists, self.n, self.member[:-4])
        return None if chosen is None else f"{chosen}.npy"

    def _list_length(self, name: str) -> int | None:
        """Return by its header alone the length of a list of strings, None if the array is none."""
        member, is_named = Member(self.archive, name), has_key_name(name[:-4])
        try:
            header = read_header(member.head(), member.name)
        except FormatError:
            if is_named:
                raise
            return None
        if header.dtype.hasobject and is_named:
            raise FormatError(f"{member.name}: not an array of strings: objects are never unpickled")
        return header.shape[0] if len(header.shape) == 1 and header.dtype.kind in "US" else None

    def _strings(self, name: str) -> tuple[str, ...]:
        member = Member(self.archive, name)
        header = read_header(member.head(), member.name)
        if len(header.shape) != 1 or header.dtype.kind not in "US":
            raise FormatError(
                f"{member.name}: {header.dtype} of shape {header.shape}, not an array of strings: "
                "expected a list of strings"
            )
        if header.shape[0] != self.n:
            raise FormatError(
                f"{self.path}: {header.shape[0]} keys in {name[:-4]}, {self.n} rows in {self.member[:-4]}"
            )
        width = header.dtype.itemsize
        if header.offset + header.n_bytes != member.size or not 0 < width <= MAX_KEY:
            raise FormatError(
                f"{member.name}: {self.n} strings of {width} bytes do not take the {member.size} bytes it has "
                f"(at most {MAX_KEY} bytes a key are read)"
            )
        if member.size > ANY_GROWTH_BYTES and member.archive.growth(name) > MAX_GROWTH:
            raise FormatError(f"{member.name}: would unpack to {member.size} bytes, over {MAX_GROWTH} times its size")
        stream, rows = member.stream(), max(1, COPY_PIECE // width)
        stream.read(header.offset)
        sizes = (stop - start for start, stop in row_ranges(self.n, rows))
        pieces = (strings(stream.read(size * width), header.dtype, member.name) for size in sizes)
        return tuple(key for piece in pieces for key in piece)

    def companions(self) -> list[str]:
        """Return the names of the arrays beside the matrix and its keys."""
        return [shortened(name[:-4]) for name in self.archive.names if name not in (self.member, self.keys_member)]

    def read(self, start: int, stop: int) -> Embeddings:
        """Read rows into memory of their own."""
        batch = super().read(start, stop)
        return Embeddings(batch.vectors, batch.rows, self._keys_at(start, stop))

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Read rows, at most `rows` at a time, into memory that they share."""
        for batch in super().batches(start, stop, rows, out):
            first = int(batch.rows[0])
            yield Embeddings(batch.vectors, batch.rows, self._keys_at(first, first + len(batch)))

    def _keys_at(self, start: int, stop: int) -> tuple[str, ...] | None:
        if self.keys_member is None:
            return None
        if self._held_keys is None:
            self._held_keys = self._strings(self.keys_member)
        return self._held_keys[start:stop]

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        if self.has_keys:
            yield from (self._keys_at(start, stop) or () for start, stop in self.ranges())

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the SHA-256 of the file as it is on disk; stop early when `is_wanted` returns False."""
        return self.archive.file.digest(algorithm, is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.archive.close()
        self.archive.file.close()
        super().close()


class NpzWriter(Writer):
    """Writes the matrix beside whatever else the input's `.npz` held, or beside the keys."""

    def __init__(
        self,
        handle: BinaryIO,
        *,
        n: int,
        d: int,
        dtype: np.dtype[Any],
        like: NpzReader | None,
        has_keys: bool,
        target: str,
    ) -> None:
        self._target = target
        self._archive = zipfile.ZipFile(handle, "w", allowZip64=True)
        self._dtype, self._like = dtype, like
        is_told = has_keys and (like is None or n != like.n or not like.has_keys)
        self._keys: list[str] | None = [] if is_told else None
        if is_told and like is not None and not like.has_keys and KEYS_MEMBER in like.archive.names:
            raise FormatError(f"{target}: keys have no place: {like.path} has an array keys of its own")
        name = like.member if like else "vectors.npy"
        self._compression = like.archive.zip.getinfo(like.member).compress_type if like else zipfile.ZIP_STORED
        self._member = self._open(name)
        self._member.write(npy_header(n, d, dtype, is_fortran=False))

    @classmethod
    def create(cls, output: Output) -> "NpzWriter":
        """Begin an output."""
        return cls(
            output.open(),
            n=output.n,
            d=output.d,
            dtype=output.dtype,
            like=output.model if isinstance(output.model, NpzReader) else None,
            has_keys=output.has_keys,
            target=output.target,
        )

    def _open(self, name: str) -> Any:
        info = zipfile.ZipInfo(name, EPOCH)
        info.compress_type = self._compression
        return self._archive.open(info, "w", force_zip64=True)

    def encode(self, batch: Embeddings) -> Embeddings:
        """Lay rows out as they will be written; safe on any thread."""
        return batch.with_vectors(np.ascontiguousarray(batch.vectors, dtype=self._dtype))

    def write(self, piece: Embeddings) -> None:
        """Append rows."""
        vectors: Floats = piece.vectors
        self._member.write(vectors.tobytes())
        if self._keys is not None:
            for key in piece.keys or ():
                if key.endswith("\0"):
                    raise FormatError(f"{self._target}: key {key[:40]!r} would not read back the same from npz")
                self._keys.append(key)

    def close(self) -> None:
        """Copy the other arrays, or write the keys, and finish the archive."""
        self._member.close()
        skipped = {self._like.member} if self._like else set()
        if self._keys is not None:
            keys_name = (self._like.keys_member if self._like else None) or KEYS_MEMBER
            skipped.add(keys_name)
            with self._open(keys_name) as member:
                np.lib.format.write_array(member, np.array(self._keys, dtype=np.str_), allow_pickle=False)
        for name in self._like.archive.names if self._like else ():
            if name not in skipped:
                self._copy(name)
        self._archive.close()

    def _copy(self, name: str) -> None:
        assert self._like is not None
        source = self._like.archive.stream(name, f"{self._like.path}[{shortened(name.removesuffix('.npy'))}]")
        with self._open(name) as target:
            while piece := source.read(COPY_PIECE):
                target.write(piece)

    def discard(self) -> None:
        """Close, so that nothing is written when this is collected."""
        self._member.close()
        self._archive.close()


def _arrays(names: list[str]) -> str:
    return listed([name.removesuffix(".npy") for name in names])

"""`.npz`: a zip of `.npy` arrays, of which one is the matrix and another may hold the keys."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError, first_line
from salcli.formats.bytefile import ByteFile, Stream
from salcli.formats.npy import NpySource, npy_header, read_layout
from salcli.formats.signature import HEAD_BYTES
from salcli.formats.source import Slab, row_ranges
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions

KEY_NAMES = ("keys", "words", "vocab", "tokens", "ids", "labels", "index")
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal content makes equal bytes
COPY_PIECE = 1 << 20


class _Member(ByteFile):
    """One array of a zip, read forward like a compressed file."""

    def __init__(self, outer: ByteFile, archive: zipfile.ZipFile, member: str) -> None:
        super().__init__(f"{outer.name}[{member.removesuffix('.npy')}]", outer.handle, compression="zip")
        self.outer, self.archive, self.member = outer, archive, member

    def stream(self) -> Stream:
        return Stream(self.archive.open(self.member), self.name, "zip")


class NpzSource(NpySource):
    """The one 2-D float array of an `.npz`, or the one that `dataset` names."""

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        self._outer = file.plain()
        try:
            self.archive = zipfile.ZipFile(self._outer.handle)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise FormatError(f"{file.name}: truncated or damaged npz: {error}") from error
        names = self.archive.namelist()
        if not names or not all(name.endswith(".npy") for name in names):
            inside = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
            raise FormatError(
                f"{file.name}: a zip archive (of {inside or 'nothing'}), not an npz: extract the vectors first"
            )
        self.member = self._matrix_member(file.name, names, options.dataset)
        super().__init__(_Member(self._outer, self.archive, self.member), options, format_name="npz")
        self.path = file.name
        self.keys_member, self._all_keys = self._find_keys(names, options.keys_dataset)
        self.has_keys = self._all_keys is not None

    def _matrix_member(self, path: str, names: list[str], dataset: str | None) -> str:
        if dataset is not None:
            if f"{dataset}.npy" not in names:
                raise FormatError(f"{path}: no array {dataset!r}; it holds {_listed(names)}")
            return f"{dataset}.npy"
        fitting, reasons = [], []
        for name in names:
            try:
                read_layout(_Member(self._outer, self.archive, name).stream().read(HEAD_BYTES), f"{path}[{name[:-4]}]")
                fitting.append(name)
            except FormatError as error:
                reasons.append(str(error))
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise FormatError(
                reasons[0] if len(names) == 1 else f"{path}: no 2-D float array; it holds {_listed(names)}"
            )
        raise FormatError(f"{path}: several matrices, {_listed(fitting)}: choose one with --dataset")

    def _find_keys(self, names: list[str], keys_dataset: str | None) -> tuple[str | None, tuple[str, ...] | None]:
        if keys_dataset is not None:
            name = f"{keys_dataset}.npy"
            if name not in names:
                raise FormatError(f"{self.path}: no array {keys_dataset!r}; it holds {_listed(names)}")
            return name, self._strings(name)
        lists = [name for name in names if self._is_list_of_strings(name)]
        known = [name for name in lists if name[:-4].lower() in KEY_NAMES]
        fitting = [name for name in lists if len(self._strings(name, any_length=True)) == self.n]
        for candidates in (fitting, [name for name in fitting if name in known], [] if fitting else known):
            if len(candidates) == 1:
                return candidates[0], self._strings(candidates[0])
        if fitting:
            raise FormatError(
                f"{self.path}: several lists of {self.n} strings, {_listed(fitting)}: choose one with --keys-dataset"
            )
        return None, None

    def _is_list_of_strings(self, name: str) -> bool:
        """Tell by its header alone; what claims a key's name must be one."""
        with self.archive.open(name) as member:
            head = io.BytesIO(member.read(HEAD_BYTES))
        try:
            read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
            shape, _, dtype = read[np.lib.format.read_magic(head)[0]](head)
        except (ValueError, KeyError):
            return False
        if dtype.hasobject and name[:-4].lower() in KEY_NAMES:
            raise FormatError(f"{self.path}[{name[:-4]}]: not an array of strings: objects are never unpickled")
        return len(shape) == 1 and dtype.kind in "US"

    def _strings(self, name: str, *, any_length: bool = False) -> tuple[str, ...]:
        try:
            with self.archive.open(name) as member:
                keys = np.lib.format.read_array(member, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise FormatError(f"{self.path}[{name[:-4]}]: not an array of strings: {first_line(error)}") from error
        if keys.ndim != 1 or keys.dtype.kind not in "US":
            raise FormatError(
                f"{self.path}[{name[:-4]}]: {keys.dtype} of shape {keys.shape}, expected a list of strings"
            )
        if len(keys) != self.n and not any_length:
            raise FormatError(f"{self.path}: {len(keys)} keys in {name[:-4]!r}, {self.n} rows in {self.member[:-4]!r}")
        if keys.dtype.kind == "U":
            return tuple(keys.tolist())
        return tuple(key.decode("utf-8", "surrogateescape") for key in keys.tolist())

    def companions(self) -> list[str]:
        """Name the arrays beside the matrix and its keys."""
        return [name[:-4] for name in self.archive.namelist() if name not in (self.member, self.keys_member)]

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order."""
        for slab in super().slabs():
            yield slab if self._all_keys is None else slab.then(self._keyed)

    def _keyed(self, batch: Embeddings) -> Embeddings:
        start = int(batch.rows[0])
        return Embeddings(batch.vectors, batch.rows, (self._all_keys or ())[start : start + len(batch)])

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order."""
        if self._all_keys is not None:
            yield from (self._all_keys[start:stop] for start, stop in row_ranges(self.n, self._rows, self.unit))

    def sha256(self) -> str:
        """Hash the file as it lies on disk."""
        return self._outer.sha256()

    def close(self) -> None:
        """Close the file."""
        self.archive.close()
        super().close()


class NpzWriter(EmbeddingWriter):
    """Writes the matrix beside whatever else the input's `.npz` held, or beside the keys."""

    def __init__(
        self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], like: NpzSource | None, has_keys: bool
    ) -> None:
        self._archive = zipfile.ZipFile(handle, "w", allowZip64=True)
        self._dtype, self._like = dtype, like
        self._keys: list[str] | None = [] if has_keys and (like is None or n != like.n) else None
        name = like.member if like else "vectors.npy"
        self._compression = like.archive.getinfo(like.member).compress_type if like else zipfile.ZIP_STORED
        self._member = self._open(name)
        self._member.write(npy_header(n, d, dtype, is_fortran=False))

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
            self._keys.extend(piece.keys or ())

    def close(self) -> None:
        """Copy the other arrays, or write the keys, and finish the archive."""
        self._member.close()
        skipped = {self._like.member} if self._like else set()
        if self._keys is not None:
            keys_name = (self._like.keys_member if self._like else None) or "keys.npy"
            skipped.add(keys_name)
            with self._open(keys_name) as member:
                np.lib.format.write_array(member, np.array(self._keys, dtype=np.str_), allow_pickle=False)
        for info in self._like.archive.infolist() if self._like else ():
            if info.filename not in skipped:
                with self._like.archive.open(info) as source, self._open(info.filename) as target:  # type: ignore[union-attr]
                    while piece := source.read(COPY_PIECE):
                        target.write(piece)
        self._archive.close()

    def discard(self) -> None:
        """Close, so that nothing is written when this is collected."""
        self._member.close()
        self._archive.close()


def _listed(names: list[str]) -> str:
    return ", ".join(name.removesuffix(".npy") for name in names[:8]) + (" …" if len(names) > 8 else "")

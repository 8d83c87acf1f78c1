"""HDF5: find the matrix and its keys, read by chunks, write a copy with another matrix in its place."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import h5py
import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError, first_line, warn
from salcli.formats.files import ByteFile
from salcli.formats.hdf5_storage import FAULTS, damage, describe, is_packed, require_inside, require_readable
from salcli.formats.npy import numbered, read_blocks, require_float_matrix
from salcli.formats.sniff import HDF5_MAGIC
from salcli.formats.source import Slab, require_shape, row_ranges
from salcli.options import ReadOptions, unit_rows

KEYS_BYTES = 4 << 20  # of fixed-length keys that are read at once
LIBRARIES = {0: "earliest", 1: "earliest", 2: "v108", 3: "v110"}  # by the version of the superblock
MAX_LINKS = 16  # soft links in a row; more is a circle
KEY_NAMES = frozenset({"keys", "words", "vocab", "vocabulary", "tokens", "ids", "key", "word", "token", "id", "index"})


class Hdf5Source:
    """The only 2-D float dataset of an HDF5 file, or the one that `dataset` names."""

    format = "h5"

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        self.path, self._file = file.name, file.plain()
        self.root = self._opened()
        superblock = self._file.head()[len(HDF5_MAGIC)]
        self.libver = LIBRARIES.get(superblock, "latest")
        """The oldest library that reads the file: some of what younger ones write has no place in older files."""
        try:
            with damage(self.path):
                self._find(options)
        except BaseException:
            with suppress(*FAULTS):
                self.root.close()
            raise

    def _opened(self) -> h5py.File:
        try:
            return h5py.File(self._file.handle, "r")
        except FAULTS as error:
            is_cut = "truncated" in str(error) or self._is_stub()
            fault = "truncated or incomplete HDF5 file" if is_cut else "damaged HDF5 file"
            raise FormatError(f"{self.path}: {fault} ({first_line(error)})") from error

    def _find(self, options: ReadOptions) -> None:
        self._matrix = self._find_matrix(options.dataset)
        self.dataset = str(self._matrix.name)
        self._require_readable(self._matrix)
        self.n, self.d = self._matrix.shape
        self.dtype = self._matrix.dtype
        require_shape(f"{self.path}: dataset {self.dataset}", self.n, self.d)
        self._keys = self._find_keys(options.keys_dataset)
        if self._keys is not None:
            self._require_readable(self._keys)
        self.keys_name = None if self._keys is None else str(self._keys.name)
        self.has_keys = self._keys is not None
        chunk_rows = self._matrix.chunks[0] if is_packed(self._matrix) else 1
        self.unit = -(-unit_rows(self.d) // chunk_rows) * chunk_rows  # a packed chunk is not to be read twice
        self._offset = self._offset_of_matrix()
        self._rows = options.rows_per_slab(
            self.d * self.dtype.itemsize, self.unit, multiple_of=chunk_rows, is_bare=self._offset is not None
        )

    def _is_stub(self) -> bool:
        return (self._file.size or 0) < 2048

    def _datasets(self) -> dict[str, h5py.Dataset]:
        found: dict[str, h5py.Dataset] = {}

        def visit(name: str, item: Any) -> None:  # visititems follows neither soft nor external links
            if isinstance(item, h5py.Dataset):
                found["/" + name] = item

        with damage(self.path):
            self.root.visititems(visit)
        return found

    def _find_matrix(self, dataset: str | None) -> h5py.Dataset:
        if dataset is not None:
            matrix = self._named(dataset)
            require_inside(f"{self.path}: dataset {dataset}", matrix)
            require_float_matrix(f"{self.path}: dataset {dataset}", matrix.shape or (), matrix.dtype)
            return matrix
        datasets = self._datasets()
        matrices = {name: item for name, item in datasets.items() if _is_matrix(item)}
        if not matrices and (views := [item for item in datasets.values() if item.is_virtual]):
            self._require_readable(views[0])
        if len(matrices) == 1:
            return next(iter(matrices.values()))
        if matrices:
            raise FormatError(f"{self.path}: several matrices, {_listed(list(matrices))}: choose one with `dataset`")
        shapes = [describe(name, item) for name, item in datasets.items()]
        raise FormatError(f"{self.path}: no 2-D float dataset among {_listed(shapes) or 'no datasets at all'}")

    def _named(self, name: str, depth: int = 0) -> h5py.Dataset:
        """Find a dataset by its path; links within the file are followed, links out of it are not."""
        found: Any = self.root
        parts = [part for part in name.split("/") if part]
        for i, part in enumerate(parts):
            link = _link(found, part)
            if isinstance(link, h5py.ExternalLink):
                raise FormatError(
                    f"{self.path}: {name} is a link to another file ({link.filename}), which is not followed"
                )
            if isinstance(link, h5py.SoftLink) and depth < MAX_LINKS:
                target = link.path if link.path.startswith("/") else f"{found.name}/{link.path}"
                return self._named("/".join([target, *parts[i + 1 :]]), depth + 1)
            if not isinstance(link, h5py.HardLink):
                raise FormatError(f"{self.path}: no dataset {name!r}; it holds {_listed(list(self._datasets()))}")
            found = found[part]
        if not isinstance(found, h5py.Dataset):
            raise FormatError(f"{self.path}: {name!r} is a group; it holds {_listed(list(self._datasets()))}")
        return found

    def _require_readable(self, dataset: h5py.Dataset) -> None:
        require_readable(f"{self.path}: dataset {dataset.name}", dataset, self._file.size or 0)

    def _named_keys(self, keys_dataset: str) -> h5py.Dataset:
        keys = self._named(keys_dataset)
        require_inside(f"{self.path}: dataset {keys_dataset}", keys)
        if not _holds_strings(keys):
            raise FormatError(
                f"{self.path}: {keys_dataset} is {keys.dtype} of shape {keys.shape}, expected a list of strings"
            )
        if len(keys) != self.n:
            raise FormatError(f"{self.path}: {len(keys)} keys in {keys_dataset}, {self.n} rows in {self.dataset}")
        return keys

    def _find_keys(self, keys_dataset: str | None) -> h5py.Dataset | None:
        if keys_dataset is not None:
            return self._named_keys(keys_dataset)
        datasets = self._datasets()
        strings = {name: item for name, item in datasets.items() if _holds_strings(item)}
        fitting = {name: item for name, item in strings.items() if len(item) == self.n}
        named = {name: item for name, item in fitting.items() if name.rpartition("/")[2].lower() in KEY_NAMES}
        for candidates in (fitting, named):
            if len(candidates) == 1:
                return next(iter(candidates.values()))
        if fitting:
            raise FormatError(
                f"{self.path}: several lists of {self.n} strings, {_listed(list(fitting))}: "
                "choose one with `keys_dataset`"
            )
        for name, item in datasets.items():
            if item.is_virtual and name.rpartition("/")[2].lower() in KEY_NAMES:
                self._require_readable(item)
        for name, item in strings.items():
            if name.rpartition("/")[2].lower() in KEY_NAMES:
                raise FormatError(f"{self.path}: {len(item)} keys in {name}, {self.n} rows in {self.dataset}")
        if strings:
            warn(
                f"{self.path}: {_listed(list(strings))} does not have one string for each of {self.n} rows: "
                "not taken as keys"
            )
        return None

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order, each of whole chunks."""
        for start, stop in row_ranges(self.n, self._rows, self.unit):
            read = partial(self._read, start, stop)
            if self._offset is None:
                yield Slab(start, stop - start, read)
            else:
                bare = partial(self._vectors, start, stop, self._offset)
                seen = partial(bare, may_map=True)
                yield Slab(start, stop - start, read, partial(self._blocks, start, bare), bare, seen)

    def _vectors(self, start: int, stop: int, offset: int, rows: int, *, may_map: bool = False) -> Iterator[Floats]:
        blocks = range(start, stop, rows)
        return read_blocks(self._file, offset, self.dtype, self.d, blocks, stop, may_map=may_map)

    def _blocks(self, start: int, bare: Callable[[int], Iterator[Floats]], rows: int) -> Iterator[Embeddings]:
        for block in numbered(start, bare, rows):
            first = int(block.rows[0])
            yield Embeddings(block.vectors, block.rows, self._keys_at(first, first + len(block)))

    def _offset_of_matrix(self) -> int | None:
        """Find where the numbers lie, if they lie there in one piece as numpy would write them; None if not."""
        offset = None if self._matrix.chunks is not None else self._matrix.id.get_offset()
        if offset is None:
            return None
        for row in (0, self.n - 1):
            found = np.empty((1, self.d), self.dtype)
            try:
                self._file.read_into(found.reshape(-1).view(np.uint8).data, offset + row * found.nbytes)
            except FormatError:
                return None
            if found.tobytes() != self._read(row, row + 1).vectors.tobytes():
                return None
        return int(offset)

    def _read(self, start: int, stop: int) -> Embeddings:
        try:
            vectors = self._matrix[start:stop]
        except FAULTS as error:
            raise FormatError(
                f"{self.path}: dataset {self.dataset}, rows {start} to {stop - 1}: damaged ({first_line(error)})"
            ) from error
        return Embeddings.starting_at(start, vectors, self._keys_at(start, stop))

    def _keys_at(self, start: int, stop: int) -> tuple[str, ...] | None:
        if self._keys is None:
            return None
        step = max(1, KEYS_BYTES // self._keys.dtype.itemsize)
        try:
            cuts = ((begin, min(begin + step, stop)) for begin in range(start, stop, step))
            return tuple(_text(key) for begin, end in cuts for key in self._keys[begin:end])
        except FAULTS as error:
            raise FormatError(f"{self.path}: dataset {self.keys_name}: damaged ({first_line(error)})") from error

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order."""
        for start, stop in row_ranges(self.n, self._rows, self.unit):
            yield self._keys_at(start, stop) or ()

    def companions(self) -> list[str]:
        """Name the datasets beside the matrix and its keys."""
        return [name for name in self._datasets() if name not in (self.dataset, self.keys_name)]

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return f"row {row}"

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self._file.sha256(is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.root.close()
        self._file.close()


def _link(group: Any, name: str) -> Any:
    """Give a member's link without following it; None if there is no such member."""
    try:
        return group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
    except FAULTS:
        return None


def _is_matrix(item: h5py.Dataset) -> bool:
    try:  # HDF5 opens the files of a view when asked for its shape; through a file object, following one can crash
        return not item.is_virtual and item.dtype.kind == "f" and len(item.shape or ()) == 2
    except FAULTS:  # a type that numpy does not have
        return False


def _holds_strings(item: h5py.Dataset) -> bool:
    try:
        is_text = h5py.check_string_dtype(item.dtype) is not None or item.dtype.kind == "S"
        return is_text and not item.is_virtual and len(item.shape or ()) == 1 and item.dtype.itemsize <= KEYS_BYTES
    except FAULTS:
        return False


def _text(key: Any) -> str:
    return key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else str(key)


def _listed(names: list[str]) -> str:
    return ", ".join(name[:120] for name in names[:8]) + (" …" if len(names) > 8 else "")

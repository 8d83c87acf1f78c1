"""Reading HDF5: the matrix and its keys, after checking that they are complete and fit into bounded memory."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import partition_rows, require_shape, row_ranges
from salcli.errors import FormatError, first_line
from salcli.formats.base import FileReader
from salcli.formats.files import ByteFile
from salcli.formats.hdf5_checks import FAULTS, address_of, damage, describe, is_packed, require_inside, require_readable
from salcli.formats.keys import choose_keys, has_key_name, listed
from salcli.formats.npy import read_batches, require_float_matrix
from salcli.formats.quantized import FLOAT16, dequantized, require_int8, scale_of, widened
from salcli.formats.sniff import HDF5_MAGIC
from salcli.options import ReadOptions

KEYS_BYTES = 4 << 20  # of fixed-length keys that are read at once
LIBRARIES = {0: "earliest", 1: "earliest", 2: "v108", 3: "v110"}  # by the version of the superblock
BFLOAT16 = np.dtype("V2")  # as h5py writes arrays of ml_dtypes: opaque values of two bytes
MAX_LINKS = 16  # soft links in a row; more is a circle


class Hdf5Reader(FileReader):
    """The only 2-D float dataset of an HDF5 file, or the one that `dataset` names."""

    format = "h5"

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Find the matrix and its keys.

        Parameters
        ----------
        file : of the matrix
        options : which datasets are read, and how

        Raises
        ------
        FormatError : the file is damaged, or the choice of a dataset is ambiguous
        """
        self.path, self.file = file.name, file.plain()
        self._root: h5py.File | None = None
        self.root  # noqa: B018 (opened before its first bytes are looked at, which may be all there are)
        superblock = self.file.head()[len(HDF5_MAGIC)]
        self.libver = LIBRARIES.get(superblock, "latest")
        """The oldest HDF5 library that reads the file, for an output that it reads too."""
        try:
            with damage(self.path):
                self._find(options)
        except BaseException:
            with suppress(*FAULTS):
                self.root.close()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_root": None}

    @property
    def root(self) -> h5py.File:
        """The file in h5py, opened when needed."""
        if self._root is None:
            try:
                self._root = h5py.File(self.file.handle, "r")
            except FAULTS as error:
                is_cut = "truncated" in str(error) or self._is_stub()
                fault = "truncated or incomplete HDF5 file" if is_cut else "damaged HDF5 file"
                raise FormatError(f"{self.path}: {fault} ({first_line(error)})") from error
        return self._root

    def _find(self, options: ReadOptions) -> None:
        self.scale = scale_of(options.dequantize, self.path, has_names=False)
        matrix = self._find_matrix(options.dataset)
        self.dataset = str(matrix.name)
        self._require_readable(matrix)
        self.n, self.d = matrix.shape
        self.is_bfloat16 = matrix.dtype == BFLOAT16
        self.dtype = np.dtype(np.float32) if self.is_bfloat16 else FLOAT16 if self.scale is not None else matrix.dtype
        require_shape(f"{self.path}: dataset {self.dataset}", self.n, self.d)
        keys = self._find_keys(options)
        if keys is not None:
            self._require_readable(keys)
        self.keys_name = None if keys is None else str(keys.name)
        self.has_keys = keys is not None
        chunk_rows = matrix.chunks[0] if is_packed(matrix) else 1
        self.partition = (
            -(-partition_rows(self.d, options.partition_elements) // chunk_rows) * chunk_rows
        )  # no packed chunk is read twice
        self._offset = self._offset_of(matrix)
        self.fills_buffers = self._offset is not None
        self._rows = options.rows_per_chunk(
            self.d * self.dtype.itemsize, self.partition, multiple_of=chunk_rows, fills_buffers=self.fills_buffers
        )

    def _is_stub(self) -> bool:
        return (self.file.size or 0) < 2048

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
            where = f"{self.path}: dataset {dataset}"
            if self.scale is not None:
                require_int8(where, matrix.dtype, is_int8=matrix.dtype == np.int8 and len(matrix.shape or ()) == 2)
            elif not _is_matrix(matrix, "f"):
                require_float_matrix(where, matrix.shape or (), matrix.dtype)
            return matrix
        datasets, kind = self._datasets(), "f" if self.scale is None else "i"
        matrices = {name: item for name, item in datasets.items() if _is_matrix(item, kind)}
        if not matrices and (views := [item for item in datasets.values() if item.is_virtual]):
            self._require_readable(views[0])
        if len(matrices) == 1:
            return next(iter(matrices.values()))
        if matrices:
            raise FormatError(f"{self.path}: several matrices, {listed(list(matrices))}: choose one with `dataset`")
        shapes = [describe(name, item) for name, item in datasets.items()]
        name = "float" if self.scale is None else "int8"
        raise FormatError(f"{self.path}: no 2-D {name} dataset among {listed(shapes) or 'no datasets at all'}")

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
                raise FormatError(f"{self.path}: no dataset {name!r}; it holds {listed(list(self._datasets()))}")
            found = found[part]
        if not isinstance(found, h5py.Dataset):
            raise FormatError(f"{self.path}: {name!r} is a group; it holds {listed(list(self._datasets()))}")
        return found

    def _require_readable(self, dataset: h5py.Dataset) -> None:
        require_readable(f"{self.path}: dataset {dataset.name}", dataset, self.file.size or 0)

    def _named_keys(self, keys_dataset: str) -> h5py.Dataset:
        keys = self._named(keys_dataset)
        require_inside(f"{self.path}: dataset {keys_dataset}", keys)
        if not _holds_strings(keys):
            raise FormatError(
                f"{self.path}: {keys_dataset} is {keys.dtype} of shape {keys.shape}, expected a list of strings"
            )
        if len(keys) != self.n:
            raise FormatError(f"{self.path}: {len(keys):,} keys in {keys_dataset}, {self.n:,} rows in {self.dataset}")
        return keys

    def _find_keys(self, options: ReadOptions) -> h5py.Dataset | None:
        if options.keyed is False:
            return None
        if options.keys_dataset is not None:
            return self._named_keys(options.keys_dataset)
        datasets = self._datasets()
        strings = {name: item for name, item in datasets.items() if _holds_strings(item)}
        may_lack = options.keys_file is not None
        if not may_lack and all(len(item) != self.n for item in strings.values()):
            for name, item in datasets.items():
                if item.is_virtual and has_key_name(name):
                    self._require_readable(item)
        lengths = {name: len(item) for name, item in strings.items()}
        chosen = choose_keys(self.path, lengths, self.n, self.dataset, may_lack=may_lack)
        return None if chosen is None else strings[chosen]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order: whole chunks of the dataset, if those are compressed."""
        return row_ranges(self.n, self._rows, self.partition)

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        if self._offset is None:
            yield from super().batches(start, stop, rows, out)
            return
        memory = empty_aligned(min(rows, stop - start), self.d, self.dtype) if out is None else out[:rows]
        for batch in read_batches(self.file, self._offset, start, stop, memory):
            first = int(batch.rows[0])
            yield Embeddings(batch.vectors, batch.rows, self._keys_at(first, first + len(batch)))

    def _offset_of(self, matrix: h5py.Dataset) -> int | None:
        """Return the offset of the numbers, if they are contiguous as numpy writes them; None if not."""
        is_plain = (
            self.dtype == matrix.dtype
            and matrix.chunks is None
            and h5py.h5t.py_create(self.dtype) == matrix.id.get_type()
        )
        offset = matrix.id.get_offset() if is_plain else None
        if offset is None:
            return None
        for row in (0, self.n - 1):
            found = np.empty((1, self.d), self.dtype)
            try:
                self.file.read_into(found.reshape(-1).view(np.uint8).data, offset + row * found.nbytes)
            except FormatError:
                return None
            if found.tobytes() != self._vectors(row, row + 1).tobytes():
                return None
        return int(offset)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        return Embeddings.starting_at(start, self._vectors(start, stop), self._keys_at(start, stop))

    def _vectors(self, start: int, stop: int) -> Floats:
        try:
            stored = self.root[self.dataset][start:stop]
        except FAULTS as error:
            raise FormatError(
                f"{self.path}: dataset {self.dataset}, rows {start} to {stop - 1}: damaged ({first_line(error)})"
            ) from error
        if self.is_bfloat16:
            return widened(stored.view("<u2"))
        if self.scale is not None:
            return dequantized(stored, self.scale, start, self.path)
        vectors: Floats = stored
        return vectors

    def _keys_at(self, start: int, stop: int) -> tuple[str, ...] | None:
        if self.keys_name is None:
            return None
        try:
            keys = self.root[self.keys_name]
            step = max(1, KEYS_BYTES // keys.dtype.itemsize)
            cuts = ((begin, min(begin + step, stop)) for begin in range(start, stop, step))
            return tuple(_text(key) for begin, end in cuts for key in keys[begin:end])
        except FAULTS as error:
            raise FormatError(f"{self.path}: dataset {self.keys_name}: damaged ({first_line(error)})") from error

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        if self.has_keys:
            yield from (self._keys_at(start, stop) or () for start, stop in self.ranges())

    def companions(self) -> dict[str, tuple[int, ...]]:
        """Return the datasets beside the matrix and its keys, with their shapes."""
        taken = [address_of(self.root[name]) for name in (self.dataset, self.keys_name) if name is not None]
        with damage(self.path):
            rest = {name: item for name, item in self._datasets().items() if address_of(item) not in taken}
        return {name: _shape(item, otherwise=(self.n,)) for name, item in rest.items()}

    def close(self) -> None:
        """Close the file."""
        if self._root is not None:
            self._root.close()
        self.file.close()


def _link(group: Any, name: str) -> Any:
    """Return a member's link without following it; None if there is no such member."""
    try:
        return group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
    except FAULTS:
        return None


def _shape(item: h5py.Dataset, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    try:  # HDF5 opens the files of a view when its shape is read
        return otherwise if item.is_virtual else (item.shape or ())
    except FAULTS:
        return otherwise


def _is_matrix(item: h5py.Dataset, kind: str) -> bool:
    """Return whether a dataset is a matrix of floats (`kind` f) or int8 (i)."""
    try:  # HDF5 opens the files of a view when its shape is read; through a file object, following one can crash
        is_kind = item.dtype == np.int8 if kind == "i" else item.dtype.kind == "f" or item.dtype == BFLOAT16
        return not item.is_virtual and is_kind and len(item.shape or ()) == 2
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

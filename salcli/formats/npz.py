"""`.npz`: a zip of `.npy` arrays, of which one is the matrix and others may hold the keys."""

from collections.abc import Callable, Iterator
from typing import Any

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.formats.files import ByteFile
from salcli.formats.keys import choose_keys, has_key_name, listed, shortened
from salcli.formats.npy import NpyReader, read_header, read_layout
from salcli.formats.npz_archive import Archive, Member, describe_zip
from salcli.formats.npz_keys import OFFSETS, KeyList, find_list, find_lists
from salcli.options import ReadOptions


class NpzReader(NpyReader):
    """The one 2-D float array of an `.npz`, or the one that `dataset` names."""

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Find the matrix and its keys.

        Parameters
        ----------
        file : the archive
        options : which arrays are read, and how

        Raises
        ------
        FormatError : it is no npz, or the choice of an array is ambiguous
        """
        self.archive = Archive(file.plain())
        names = self.archive.names
        if not names or not all(name.endswith(".npy") for name in names):
            raise FormatError(f"{file.name}: {describe_zip(names)}")
        self.matrix = self._find_matrix(file.name, options.dataset)
        """The name of the array that holds the rows."""
        super().__init__(Member(self.archive, self.matrix), options, format_name="npz")
        self.path = file.name
        self.keys = self._find_keys(options)
        self.has_keys = self.keys is not None
        self._loaded_keys: tuple[str, ...] | None = None
        self._keys_at(0, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded_keys": None}  # keys are not pickled with every chunk

    def _find_matrix(self, path: str, dataset: str | None) -> str:
        names = self.archive.arrays
        if dataset is not None:
            if dataset not in names:
                raise FormatError(f"{path}: no array {dataset!r}; it holds {listed(names)}")
            return dataset
        fitting, reasons, faults = [], [], []
        for name in names:
            try:
                head = Member(self.archive, name).head()
            except FormatError as error:
                faults.append(str(error))
                continue
            try:
                read_layout(head, f"{path}[{shortened(name)}]")
                fitting.append(name)
            except FormatError as error:
                reasons.append(str(error))
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise FormatError(
                (faults + reasons)[0]
                if faults or len(names) == 1
                else f"{path}: no 2-D float array; it holds {listed(names)}"
            )
        raise FormatError(f"{path}: several matrices, {listed(fitting)}: choose one with `dataset`")

    def _find_keys(self, options: ReadOptions) -> KeyList | None:
        if options.keyed is False:
            return None
        if options.keys_dataset is not None:
            return self._named_keys(options.keys_dataset)
        lists, faults = find_lists(self.archive)
        lengths = {name: found.length for name, found in lists.items()}
        chosen = choose_keys(self.path, lengths, self.n, self.matrix, may_lack=options.keys_file is not None)
        if faults and options.keys_file is None and not (chosen is not None and has_key_name(chosen)):
            raise faults[0]
        return None if chosen is None else lists[chosen]

    def _named_keys(self, name: str) -> KeyList:
        arrays = self.archive.arrays
        if name not in arrays and name + OFFSETS not in arrays:
            raise FormatError(f"{self.path}: no array {name!r}; it holds {listed(arrays)}")
        found = find_list(self.archive, name if name in arrays else name + OFFSETS)
        if found is None:
            raise FormatError(f"{self.path}[{shortened(name)}]: not an array of strings: expected a list of strings")
        if found.length != self.n:
            raise FormatError(f"{self.path}: {found.length:,} keys in {name}, {self.n:,} rows in {self.matrix}")
        return found

    @property
    def container(self) -> ByteFile:
        """The archive, from which another reader can read another array."""
        return self.archive.file

    def companions(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays beside the matrix and its keys, with their shapes."""
        taken = {self.matrix, *(self.keys.arrays if self.keys is not None else ())}
        return {name: self._shape(name) for name in self.archive.arrays if name not in taken}

    def _shape(self, name: str) -> tuple[int, ...]:
        member = Member(self.archive, name)
        try:
            return read_header(member.head(), member.name).shape
        except FormatError:
            return (self.n,)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        batch = super().read(start, stop)
        return Embeddings(batch.vectors, batch.rows, self._keys_at(start, stop))

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        for batch in super().batches(start, stop, rows, out):
            first = int(batch.rows[0])
            yield Embeddings(batch.vectors, batch.rows, self._keys_at(first, first + len(batch)))

    def _keys_at(self, start: int, stop: int) -> tuple[str, ...] | None:
        if self.keys is None:
            return None
        if self._loaded_keys is None:
            self._loaded_keys = self.keys.read()
        return self._loaded_keys[start:stop]

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        if self.has_keys:
            yield from (self._keys_at(start, stop) or () for start, stop in self.ranges())

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the archive as it is on disk (see `Reader.digest`)."""
        return self.archive.file.digest(algorithm, is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.archive.close()
        self.archive.file.close()
        super().close()

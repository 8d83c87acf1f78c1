"""Keys in a file of their own: text with one key a line, or a `.npy` array of strings; plain or compressed."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import Reader, row_ranges
from salcli.errors import FormatError
from salcli.formats import sniff, text_rows
from salcli.formats.compression import PIECE
from salcli.formats.encodings import as_utf8, wide_encoding
from salcli.formats.files import ByteFile, absolute
from salcli.formats.keys import MAX_KEY, decoded
from salcli.formats.npy import read_header, read_strings

KEYS_AT_ONCE = 65_536
KINDS = {
    sniff.ZIP_MAGIC: "a zip archive or an npz file",
    sniff.HDF5_MAGIC: "an HDF5 file",
    sniff.PARQUET_MAGIC: "a Parquet file",
    sniff.ARROW_MAGIC: "an Arrow file",
}


def read_key_file(path: str, *, piece_bytes: int = PIECE) -> tuple[str, ...]:
    """Return the keys of a file: text (UTF-8 or UTF-16) with one key a line, or a `.npy` array of strings.

    Blank lines at the end are no keys.

    Parameters
    ----------
    path : of the file; may be compressed
    piece_bytes : bytes of text that are read at once

    Raises
    ------
    FormatError : it is something else, cannot be read, or a line is empty
    """
    file = ByteFile.open(path, is_refused=False)
    try:
        head = file.head()
        if head.startswith(sniff.NPY_MAGIC):
            return _array(path, file)
        encoding = wide_encoding(head)
        kind = next((kind for magic, kind in KINDS.items() if head.startswith(magic)), None)
        kind = "a safetensors file" if sniff.is_safetensors(head) else kind
        if b"\0" in head and not encoding and (kind := kind or sniff.refusal(head)):
            raise FormatError(f"{path}: {kind}, expected keys: text with one a line, or a .npy array of strings")
        stream = file.stream()
        pieces = iter(lambda: stream.read(piece_bytes), b"")
        return _utf8_lines(path, as_utf8(path, pieces, encoding) if encoding else pieces)
    finally:
        file.close()


def _array(path: str, file: ByteFile) -> tuple[str, ...]:
    header = read_header(file.head(), path)
    if len(header.shape) != 1 or header.dtype.kind not in "US" or not 0 < header.dtype.itemsize <= MAX_KEY:
        raise FormatError(
            f"{path}: {header.dtype} of shape {header.shape}, expected a list of strings: save it with .astype(str) "
            "(objects are never unpickled)"
        )
    end = header.offset + header.n_bytes
    size = file.plain(n_bytes=end).size if end <= file.most_bytes else None
    if size != end:
        raise FormatError(f"{path}: its header announces {header.n_bytes} bytes of strings, which are not there")
    return read_strings(file, header, path)


def _utf8_lines(path: str, pieces: Iterator[bytes]) -> tuple[str, ...]:
    lines, first_blank = list[bytes](), 0
    for number, line in enumerate(_cut(path, pieces), 1):
        if not line.strip(b"\r"):
            first_blank = first_blank or number
        elif first_blank:
            break
        else:
            lines.append(line)
    else:
        first_blank = 0 if lines else 1
    if first_blank:
        raise FormatError(f"{path}: line {first_blank}: an empty line, expected a key")
    lines[0] = lines[0].removeprefix(text_rows.BOM)
    if all(line.endswith(b"\r") for line in lines[:-1] or lines):  # the last one may lack its line end altogether
        lines = [line.removesuffix(b"\r") for line in lines]
    return decoded(lines)


def _cut(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines of bounded length; where the last one is complete, a blank one follows."""
    ahead, number = b"", 0
    for piece in itertools.chain(pieces, [b"\n"]):
        *lines, ahead = (ahead + piece).split(b"\n")
        for i, line in enumerate([*lines, ahead], number + 1):
            if len(line) > MAX_KEY:
                raise FormatError(f"{path}: line {i}: more than {MAX_KEY >> 20} MiB without a line feed: not keys")
        yield from lines
        number += len(lines)


class KeyedReader(Reader):
    """Adds the keys of another file to the rows of a reader that has none."""

    has_keys = True

    def __init__(self, inner: Reader, keys_path: str) -> None:
        """Read the keys of another reader's rows.

        Parameters
        ----------
        inner : reader of the rows
        keys_path : file of the keys

        Raises
        ------
        FormatError : there is not one key for each row, or the rows have keys already
        """
        self._inner, self._keys_path = inner, keys_path
        self._loaded: tuple[str, ...] | None = None
        self.path, self.format, self.n, self.d, self.dtype = inner.path, inner.format, inner.n, inner.d, inner.dtype
        self.partition, self.fills_buffers = inner.partition, inner.fills_buffers
        self.decoded_rows = inner.decoded_rows
        if inner.has_keys:
            raise FormatError(
                f"{self.path}: has keys of its own; `keys_file` is for files without, or beside `keyed=False`"
            )
        if len(self._keys) != self.n:
            raise FormatError(f"{keys_path}: {len(self._keys):,} keys, but {self.path} has {self.n:,} rows")

    def __getstate__(self) -> dict[str, Any]:
        # Keys are read again instead of pickled with every chunk.
        return {**self.__dict__, "_keys_path": absolute(self._keys_path), "_loaded": None}

    @property
    def _keys(self) -> tuple[str, ...]:
        if self._loaded is None:
            self._loaded = read_key_file(self._keys_path)
        return self._loaded

    @property
    def innermost(self) -> Reader:
        """The reader of the file itself."""
        return self._inner.innermost

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        return self._inner.ranges()

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        return self._keyed(self._inner.read(start, stop))

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        return map(self._keyed, self._inner.batches(start, stop, rows, out))

    def _keyed(self, batch: Embeddings) -> Embeddings:
        first = int(batch.rows[0])
        return Embeddings(batch.vectors, batch.rows, self._keys[first : first + len(batch)])

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        return (self._keys[start:stop] for start, stop in row_ranges(self.n, KEYS_AT_ONCE))

    def place(self, row: int) -> str:
        """Return where a row is (see `Reader.place`)."""
        return self._inner.place(row)

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the vectors' file (see `Reader.digest`)."""
        return self._inner.digest(algorithm, is_wanted)

    def hash_as_read(self, algorithm: str) -> bool:
        """Return whether the vectors' file is hashed as it is read (see `Reader.hash_as_read`)."""
        return self._inner.hash_as_read(algorithm)

    def close(self) -> None:
        """Close the file."""
        self._inner.close()

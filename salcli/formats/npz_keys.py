"""Lists of strings in an `.npz`, in two layouts.

`NAME`, an array of strings, is what numpy makes of a list. It pads every string to the longest, at four bytes a letter:
one of 4,000 letters among 20,000 makes 320 MB. Where that is out of proportion there are two arrays instead, as large
as the strings themselves:

    NAME_utf8      uint8 [b]      all strings in UTF-8, one behind the other
    NAME_offsets   int64 [n + 1]  string i is NAME_utf8[NAME_offsets[i]:NAME_offsets[i + 1]]

numpy reads them back by `text = z["keys_utf8"].tobytes()` and
`[text[a:b].decode() for a, b in itertools.pairwise(z["keys_offsets"])]`.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from salcli.data.source import row_ranges
from salcli.errors import FormatError
from salcli.formats.keys import MAX_KEY, encoded, has_key_name
from salcli.formats.npy import NpyHeader, npy_header, read_header, read_strings
from salcli.formats.npz_archive import Archive, Member

UTF8, OFFSETS = "_utf8", "_offsets"
PIECE = 1 << 20
PADDED_BYTES = 16 << 20  # of an array of strings that is written in any case
MAX_GROWTH, ANY_GROWTH_BYTES = 500, 64 << 20  # numpy pads strings, so that long lists of keys do shrink a hundredfold


class KeyList(ABC):
    """A list of strings in an archive, found by the headers of its arrays."""

    def __init__(self, archive: Archive, name: str, length: int) -> None:
        self.archive, self.name, self.length = archive, name, length

    @property
    @abstractmethod
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays that hold it."""

    @abstractmethod
    def read(self) -> tuple[str, ...]:
        """Read all strings.

        Raises
        ------
        FormatError : damaged, or larger than keys may be
        """


class PaddedKeys(KeyList):
    """An array of strings, or of bytes, of fixed width."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays that hold it."""
        return (self.name,)

    def read(self) -> tuple[str, ...]:
        """Read all strings."""
        member = Member(self.archive, self.name)
        header = read_header(member.head(), member.name)
        require_size(self.archive, member, self.name, header)
        width = header.dtype.itemsize
        if not 0 < width <= MAX_KEY:
            raise FormatError(
                f"{member.name}: {self.length} strings of {width} bytes: at most {MAX_KEY} bytes a key are read"
            )
        return read_strings(member, header, member.name)


class JoinedKeys(KeyList):
    """Two arrays: the concatenated strings, and the offset of each."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays that hold it."""
        return self.name + UTF8, self.name + OFFSETS

    def read(self) -> tuple[str, ...]:
        """Read all strings."""
        text, offsets = self._array(self.name + UTF8), self._array(self.name + OFFSETS)
        lengths = np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != len(text) or (lengths < 0).any() or (lengths > MAX_KEY).any():
            raise FormatError(
                f"{self.archive.path}[{self.name}{OFFSETS}]: does not cut the {len(text)} bytes of {self.name}{UTF8} "
                f"into {self.length} strings (of at most {MAX_KEY} bytes)"
            )
        whole = text.tobytes()
        return tuple(whole[a:b].decode("utf-8", "surrogateescape") for a, b in itertools.pairwise(offsets.tolist()))

    def _array(self, name: str) -> Any:
        member = Member(self.archive, name)
        header = read_header(member.head(), member.name)
        require_size(self.archive, member, name, header)
        stream = member.stream()
        stream.read(header.offset)
        return np.frombuffer(stream.read(header.n_bytes), header.dtype)


def require_size(archive: Archive, member: Member, name: str, header: NpyHeader) -> None:
    """Check that an array has the size in its header, and that its compression ratio is plausible.

    Parameters
    ----------
    archive : that holds it
    member : the array
    name : of it, without suffix
    header : of it

    Raises
    ------
    FormatError : it is not so
    """
    if header.offset + header.n_bytes != member.size:
        raise FormatError(
            f"{member.name}: {header.n_items} items of {header.dtype.itemsize} bytes do not take the {member.size} "
            "bytes it has"
        )
    if member.size > ANY_GROWTH_BYTES and archive.growth(f"{name}.npy") > MAX_GROWTH:
        raise FormatError(f"{member.name}: would unpack to {member.size} bytes, over {MAX_GROWTH} times its size")


def find_lists(archive: Archive) -> tuple[dict[str, KeyList], list[FormatError]]:
    """Return all lists of strings in `archive`, found by the headers alone.

    Returns
    -------
    the lists by their names, and what is wrong with arrays that are named as keys are and are no such list
    """
    lists, faults = dict[str, KeyList](), list[FormatError]()
    for name in archive.arrays:
        try:
            found = find_list(archive, name)
        except FormatError as error:
            faults.extend([error] if has_key_name(name) else [])
            continue
        if found is not None:
            lists[found.name] = found
    return lists, faults


def find_list(archive: Archive, name: str) -> KeyList | None:
    """Return the list of strings that an array is, or that it holds the offsets of; None for other arrays.

    Parameters
    ----------
    archive : that holds it
    name : of the array, without suffix

    Raises
    ------
    FormatError : its header is damaged, or it is an array of objects
    """
    member = Member(archive, name)
    header = read_header(member.head(), member.name)
    if header.dtype.hasobject:
        raise FormatError(
            f"{member.name}: not an array of strings: objects are never unpickled; name the keys by `keys_dataset`, "
            "or give `keys_file=FILE`"
        )
    if len(header.shape) != 1:
        return None
    if header.dtype.kind in "US":
        return PaddedKeys(archive, name, header.shape[0])
    base = name.removesuffix(OFFSETS)
    if base != name and header.dtype == np.int64 and header.shape[0] and base + UTF8 in archive.arrays:
        text = read_header(Member(archive, base + UTF8).head(), f"{archive.path}[{base}{UTF8}]")
        if text.dtype == np.uint8 and len(text.shape) == 1:
            return JoinedKeys(archive, base, header.shape[0] - 1)
    return None


def write_keys(begin: Callable[[str], Any], name: str, keys: Sequence[str], matrix_bytes: int, target: str) -> None:
    """Write keys as an array of strings, unless padding makes that larger than the matrix and 16 MiB.

    Parameters
    ----------
    begin : opens the array of a name for writing, as a context
    name : of the list
    keys : of all rows
    matrix_bytes : size of the matrix beside it
    target : the file, for messages

    Raises
    ------
    FormatError : a key that would not read back the same
    """
    width = max(1, max(map(len, keys), default=0))
    if 4 * width * len(keys) > max(PADDED_BYTES, matrix_bytes):
        words = encoded(keys)
        offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
        with begin(name + UTF8) as member:
            member.write(npy_header((int(offsets[-1]),), np.dtype(np.uint8)))
            for start, stop in row_ranges(len(words), PIECE // 64):
                member.write(b"".join(words[start:stop]))
        with begin(name + OFFSETS) as member:
            member.write(npy_header(offsets.shape, offsets.dtype) + offsets.tobytes())
        return
    ending = next((key for key in keys if key.endswith("\0")), None)
    if ending is not None:
        raise FormatError(f"{target}: key {ending[:40]!r} would not read back the same from npz")
    with begin(name) as member:
        member.write(npy_header((len(keys),), np.dtype(f"<U{width}")))
        for start, stop in row_ranges(len(keys), max(1, PIECE // (4 * width))):
            member.write(np.array(keys[start:stop], f"<U{width}").tobytes())

"""The header of a `.npy`: read strictly, so that hostile ones are refused in one line and nothing is allocated."""

import ast
import re
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from salcli.errors import FormatError, first_line

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
MAX_HEADER = 10_000  # as numpy does: longer ones can only be there to exhaust a parser
FIELDS = {"descr", "fortran_order", "shape"}
PLAIN_DTYPE = re.compile(r"[<>=|]?(?:[?bBhHiIlLqQefdgFDG]|[biufcSUVOmM][0-9]{0,10}(?:\[[0-9A-Za-z]{1,8}\])?)")
PYTHON_2_LONG = re.compile(r"(?<=\d)L(?=[,)\s])")


@dataclass(frozen=True)
class NpyHeader:
    """What stands before the numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    offset: int
    """Where the numbers begin."""

    @property
    def n_items(self) -> int:
        """How many numbers (or strings) the shape announces."""
        items = 1
        for size in self.shape:
            items *= size
        return items

    @property
    def n_bytes(self) -> int:
        """Bytes they take."""
        return self.n_items * self.dtype.itemsize


def read_header(head: bytes, name: str) -> NpyHeader:
    """Read a header of format version 1, 2 or 3.

    Parameters
    ----------
    head : the first bytes of the array, at least `MAX_HEADER` + 12 if there are so many
    name : for messages

    Raises
    ------
    FormatError : it is no such header
    """
    if not head.startswith(MAGIC):
        raise FormatError(f"{name}: damaged npy header: it begins with {head[:6]!r}, expected {MAGIC!r}")
    version = tuple(head[6:8])
    if version not in LENGTH_BYTES:
        told = ".".join(map(str, version)) or "missing"
        raise FormatError(f"{name}: npy format version {told}, expected 1.0, 2.0 or 3.0")
    start = 8 + LENGTH_BYTES[version]
    length = int.from_bytes(head[8:start], "little")
    if length > MAX_HEADER:
        raise FormatError(f"{name}: damaged npy header: it announces {length} bytes, at most {MAX_HEADER} are read")
    if len(head) < start + length:
        raise FormatError(f"{name}: truncated npy header: {length} bytes announced, {max(0, len(head) - start)} follow")
    fields = _fields(head[start : start + length], "utf-8" if version == (3, 0) else "latin-1", name)
    shape, order = fields["shape"], fields["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(size) is int and abs(size) < 1 << 63 for size in shape):
        raise FormatError(f"{name}: damaged npy header: its shape is no tuple of whole numbers below 2⁶³")
    if any(size < 0 for size in shape):
        raise FormatError(f"{name}: damaged npy header: negative shape {shape!r:.60}")
    if not isinstance(order, bool):
        raise FormatError(f"{name}: damaged npy header: fortran_order is neither True nor False")
    return NpyHeader(shape, _dtype(fields["descr"], name), order, start + length)


def strings(data: bytes, dtype: np.dtype[Any], name: str) -> list[str]:
    """Read strings of fixed width as they lie in an array; bytes that are not UTF-8 travel as surrogates.

    Raises
    ------
    FormatError : a character that does not exist, or half of a surrogate pair
    """
    if dtype.kind == "S":
        return [key.decode("utf-8", "surrogateescape") for key in np.frombuffer(data, dtype).tolist()]
    codes = np.frombuffer(data, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
    is_half = (codes >= 0xD800) & (codes <= 0xDFFF) & ~((codes >= 0xDC80) & (codes <= 0xDCFF))
    if len(bad := np.flatnonzero(is_half | (codes > sys.maxunicode))):
        kind = "half of a surrogate pair" if codes[bad[0]] <= sys.maxunicode else "a character that does not exist"
        raise FormatError(f"{name}: a string with {kind} ({codes[bad[0]]:#x})")
    found: list[str] = np.frombuffer(data, dtype).tolist()
    return found


def _fields(text: bytes, encoding: str, name: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about a text that is no program
            fields = ast.literal_eval(PYTHON_2_LONG.sub("", text.decode(encoding).strip()))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise FormatError(f"{name}: damaged npy header: {first_line(error)}") from error
    if not isinstance(fields, dict) or set(fields) != FIELDS:
        told = "other fields" if isinstance(fields, dict) else f"a {type(fields).__name__}"
        raise FormatError(f"{name}: damaged npy header: {told}, expected {', '.join(sorted(FIELDS))}")
    return fields


def _dtype(descr: object, name: str) -> np.dtype[Any]:
    if isinstance(descr, (list, tuple)):
        named = [field[0] for field in descr if isinstance(field, tuple) and field and isinstance(field[0], str)]
        raise FormatError(
            f"{name}: a structured dtype with the fields {', '.join(named)[:120]}, expected one float dtype"
        )
    if not isinstance(descr, str) or not PLAIN_DTYPE.fullmatch(descr):
        told = repr(descr[:60]) if isinstance(descr, str) else f"a {type(descr).__name__}"
        raise FormatError(f"{name}: damaged npy header: dtype {told} is not understood")
    try:
        return np.dtype(descr)
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{name}: damaged npy header: dtype {descr!r:.60} is not understood") from error

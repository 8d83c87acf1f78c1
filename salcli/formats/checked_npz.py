"""An `.npz` without pickle that is an array or more and a JSON header, whose sizes and fields are checked when read."""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from salcli.errors import FormatError, first_line
from salcli.formats import atomic
from salcli.formats.npy import read_header, strings
from salcli.formats.npz_archive import Archive
from salcli.formats.sniff import HEAD_BYTES

FLOATS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))
TITLES = {"artifact": "eraser", "moments": "moments file"}
MAX_UNCHECKED, MAX_GROWTH = 64 << 20, 100


def write_npz(path: str, text: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays and a header, whole or not at all; equal content makes equal bytes.

    Parameters
    ----------
    path : of the output
    text : the header, JSON
    arrays : by name

    Raises
    ------
    OutputError : it cannot be written
    """
    members = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, allow_pickle=False, **members, header=np.array(text))


def read_array(
    path: str, archive: Archive, name: str, kind: str = "artifact", dtypes: tuple[np.dtype[Any], ...] = FLOATS
) -> NDArray[Any]:
    """Return one array, after checking that its size is that of its header.

    Parameters
    ----------
    path : of the file, for messages
    archive : its members
    name : of the array; `header` is one string
    kind : of the file, as messages name it
    dtypes : that arrays may have

    Raises
    ------
    FormatError : it is no such array, or damaged
    """
    member = f"{name}.npy"
    fault = f"{path}: not a salcli {TITLES[kind]}, or damaged"
    if member not in archive.names:
        raise FormatError(f"{fault}: {name} is no .npy")
    stream, size = archive.stream(member, f"{fault}: {name}"), archive.size(member)
    header = read_header(stream.read(min(size, HEAD_BYTES)), f"{fault}: {name}")
    is_text = header.dtype.kind == "U" and header.shape == ()
    is_known = is_text if name == "header" else header.dtype in dtypes
    if header.dtype.hasobject:
        raise FormatError(f"{fault}: {name} is an object array (a Python pickle inside), which is never opened")
    if not is_known:
        expected = "one string" if name == "header" else ("floats" if dtypes is FLOATS else "float64")
        raise FormatError(f"{path}: damaged {kind}: {name} is {header.dtype}, expected {expected}")
    if header.offset + header.n_bytes != size:
        raise FormatError(
            f"{path}: damaged {kind}: {name} is {header.n_items} numbers, which do not take the {size} bytes it has"
        )
    if size > MAX_UNCHECKED and archive.growth(member) > MAX_GROWTH:
        raise FormatError(f"{path}: damaged {kind}: {name} would unpack to {size} bytes")
    stream.close()
    data = archive.stream(member, f"{fault}: {name}").read(size + 1)
    if len(data) != size:
        raise FormatError(f"{fault}: {name} ends {size - len(data)} bytes early")
    if name == "header":
        strings(data[header.offset :], header.dtype, f"{fault}: {name}")
    shape = (header.shape[::-1], header.shape)[not header.is_fortran]
    array = np.frombuffer(data, header.dtype, offset=header.offset).reshape(shape)
    return array.T if header.is_fortran else array


MAX_DEPTH = 8
Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Return whether a value of JSON is text."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """Return whether a value of JSON is true or false."""
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Return whether a value of JSON is a whole number of at least 0."""
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number."""
    return type(value) in (int, float)


def is_record(value: Any) -> bool:
    """Return whether a value of JSON is an object."""
    return isinstance(value, dict)


def is_list(of: Check) -> Check:
    """Return a check that a value is a list whose values pass the check `of`."""
    return lambda value: isinstance(value, list) and all(map(of, value))


def or_none(check: Check) -> Check:
    """Return a check that a value is null or passes `check`."""
    return lambda value: value is None or check(value)


def is_number_or_text(value: Any) -> bool:
    """Return whether a value of JSON is a number or text."""
    return is_number(value) or is_text(value)


def is_number_or_flag(value: Any) -> bool:
    """Return whether a value of JSON is a number, true or false."""
    return is_number(value) or is_flag(value)


def parsed_header(path: str, text: str, kind: str = "artifact") -> dict[str, Any]:
    """Return a header from JSON; its numbers can be used in arithmetic, and written again.

    Parameters
    ----------
    path : of the file, for messages
    text : the JSON
    kind : of the file, as messages name it

    Raises
    ------
    FormatError : it is no JSON object
    """
    try:
        header = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged {kind}: its header is no JSON ({first_line(error)})") from error
    if not isinstance(header, dict):
        raise FormatError(f"{path}: damaged {kind}: its header is no JSON object")
    return header


def require_plain(path: str, header: dict[str, Any], kind: str = "artifact") -> None:
    """Check that the numbers of a header can be used in arithmetic and written as JSON (see `parsed_header`).

    Raises
    ------
    FormatError : one is out of range, or values are nested too deeply
    """
    if not _is_plain(header):
        raise FormatError(f"{path}: damaged {kind}: its header holds a number out of range, or is nested too deeply")


def require_fields(
    path: str, what: str, values: dict[str, Any], checks: dict[str, Check], kind: str = "artifact"
) -> None:
    """Check the fields of a header, or of a record in it.

    Parameters
    ----------
    path : of the file, for messages
    what : the record, for messages
    values : the record
    checks : by the names that it must have
    kind : of the file, as messages name it

    Raises
    ------
    FormatError : a field is missing, or of another type
    """
    for name, check in checks.items():
        if name not in values:
            raise FormatError(f"{path}: damaged {kind}: its {what} lacks {name!r}")
        if not check(values[name]):
            raise FormatError(f"{path}: damaged {kind}: its {what} has {shown(values[name])} for {name!r}")


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value can be used in arithmetic and written as JSON."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, (dict, list)):
        return all(_is_plain(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value))
    return abs(value) < 1 << 53 if type(value) is int else not isinstance(value, float) or math.isfinite(value)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def shown(value: Any) -> str:
    """Return a value of a header as messages show it."""
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "a record"
    if type(value) is int and abs(value) >= 1 << 53:
        return "a number out of range"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 64 else f"{text[:60]}…"

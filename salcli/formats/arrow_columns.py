"""Columns of Arrow tables as vectors and as keys: which ones, and their values as arrays and text."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from salcli.data.embeddings import Floats
from salcli.errors import FormatError, ParameterError, SalcliError, first_line
from salcli.formats.keys import listed

VECTOR_NAMES = ("emb", "embedding", "embeddings", "vector")
KEY_NAMES = ("id", "_id", "docid", "doc_id", "key", "word")
"""Names of columns that are taken as the vectors, and as the keys, the first that is there."""
FAULTS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError, AttributeError)
"""What pyarrow raises for a damaged file."""


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Raise errors of pyarrow in the block as one-line errors that begin with `where`.

    Raises
    ------
    FormatError : the file is damaged
    """
    try:
        yield
    except SalcliError:
        raise
    except FAULTS as error:
        raise FormatError(f"{where}: damaged, or of a kind that pyarrow cannot read ({first_line(error)})") from error


def stored(kind: pa.DataType) -> pa.DataType:
    """Return the type that the Arrow type `kind` is stored as: itself, unless it is an extension type."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def is_list(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is a list, of any length."""
    kind = stored(kind)
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return is_view(kind) or any(test(kind) for test in kinds)


def is_view(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is a list view, whose lists may lie anywhere among the numbers."""
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def number_dtype(kind: pa.DataType, *, is_int8: bool = False) -> np.dtype[Any] | None:
    """Return the dtype of the numbers in vectors; None if they are no floats.

    Parameters
    ----------
    kind : the Arrow type of the column
    is_int8 : whether int8 is read, instead of floats
    """
    if not is_list(kind) or not (pa.types.is_int8 if is_int8 else pa.types.is_floating)(stored(kind).value_type):
        return None
    if isinstance(kind, pa.FixedShapeTensorType) and len(kind.shape) != 1:
        return None
    found: np.dtype[Any] = np.dtype(stored(kind).value_type.to_pandas_dtype())
    return found


def find_vectors(path: str, schema: pa.Schema, requested: str | None, *, is_int8: bool = False) -> str:
    """Return the name of the column of vectors.

    Parameters
    ----------
    path : for messages
    schema : of the table
    requested : a name, or None: one of `VECTOR_NAMES`, else the only list of floats
    is_int8 : whether int8 is read, instead of floats

    Raises
    ------
    FormatError : there is no such column, it holds no vectors, or several could be meant
    """
    if requested is not None:
        kind = _type_of(path, schema, requested)
        if number_dtype(kind, is_int8=is_int8) is None:
            hint = " (`dequantize` reads int8)" if number_dtype(kind, is_int8=True) is not None else ""
            expected = f"one list of {'int8' if is_int8 else 'floats'} a row{hint}"
            raise FormatError(f"{path}: column {requested!r} is {str(kind)[:80]}, expected {expected}")
        return requested
    fitting = [each.name for each in schema if number_dtype(each.type, is_int8=is_int8) is not None]
    named = [name for name in VECTOR_NAMES if name in fitting]
    if not fitting:
        shown = listed([f"{each.name} {str(each.type)[:40]}" for each in schema])
        hint = " (`dequantize` reads int8)" if not is_int8 and ": int8>" in str([*map(str, schema.types)]) else ""
        raise FormatError(
            f"{path}: no column of {'int8' if is_int8 else 'float'} vectors among {shown or 'no columns at all'}{hint}"
        )
    if not named and len(fitting) > 1:
        raise FormatError(f"{path}: several columns of vectors, {listed(fitting)}: choose one with `dataset`")
    name = (named or fitting)[0]
    _type_of(path, schema, name)
    return name


def find_keys(path: str, schema: pa.Schema, requested: str | None) -> str | None:
    """Return the name of the column of keys; None if no column is named as keys are.

    Parameters
    ----------
    path : for messages
    schema : of the table
    requested : a name, or None: the first of `KEY_NAMES` that is text or whole numbers

    Raises
    ------
    FormatError : there is no such column, or it holds no keys
    """
    if requested is not None:
        kind = _type_of(path, schema, requested)
        if not holds_keys(kind):
            raise FormatError(f"{path}: column {requested!r} is {str(kind)[:80]}, expected text or whole numbers")
        return requested
    fitting = {each.name for each in schema if holds_keys(each.type)}
    name = next((name for name in KEY_NAMES if name in fitting), None)
    if name is not None:
        _type_of(path, schema, name)
    return name


def _type_of(path: str, schema: pa.Schema, name: str) -> pa.DataType:
    places = schema.get_all_field_indices(name)
    if not places:
        raise FormatError(f"{path}: no column {name!r}; it holds {listed(schema.names)}")
    if len(places) > 1:
        raise FormatError(f"{path}: {len(places)} columns are called {name!r}, expected one")
    return schema.field(places[0]).type


def is_text(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is text, or bytes that are read as text."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in (*kinds, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def holds_keys(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is one that keys have: text or whole numbers."""
    values = kind.value_type if pa.types.is_dictionary(kind) else stored(kind)
    return is_text(values) or bool(pa.types.is_integer(values))


def vectors(column: pa.Array, d: int, first: int, where: str) -> Floats:
    """Return a column of lists as a matrix `[n, d]`, without a copy where Arrow allows it.

    Parameters
    ----------
    column : n lists
    d : numbers in each
    first : number of its first row in the file, for messages
    where : names file and column

    Raises
    ------
    FormatError : a list is null, of another length, or holds a null
    """
    lists = column.storage if isinstance(column, pa.ExtensionArray) else column
    if lists.null_count:
        raise _fault(where, first + _first_null(lists), "the vector is null", d)
    n = len(lists)
    if is_view(lists.type):
        lists = _in_order(lists, d, first, where)
    start = lists.offset * d if pa.types.is_fixed_size_list(lists.type) else _first_number(lists, d, first, where)
    # `values` begins with rows before the slice. `flatten` does not, but imports pyarrow's functions, for 0.1 seconds.
    flat = lists.values
    if flat.null_count and (part := flat.slice(start, n * d)).null_count:
        row, column_number = divmod(_first_null(part), d)
        raise _fault(where, first + row, f"number {column_number} of the vector is null", d)
    return _numbers(flat, start, n * d).reshape(n, d)


def _first_number(lists: pa.Array, d: int, first: int, where: str) -> int:
    """Return where the numbers of `lists` of any length begin, all of which must have `d` (see `vectors`)."""
    offsets = lists.offsets
    if offsets.equals(_multiples(offsets.type, len(offsets), d)):  # as they are decoded
        return 0
    places = _numbers(offsets)
    is_other = places[1:] - places[:-1] != d
    if is_other.any():
        row = int(np.argmax(is_other))
        raise _fault(where, first + row, f"a vector of {places[row + 1] - places[row]:,} numbers", d)
    return int(places[0])


def _in_order(views: pa.Array, d: int, first: int, where: str) -> pa.Array:
    """Return list views of any order as lists that follow one another (pyarrow's own cast forgets the last offset).

    Numbers are copied only where they lie in another order (see `vectors` for the arguments).
    """
    sizes, starts = _numbers(views.sizes), _numbers(views.offsets).astype(np.int64)
    if (sizes != d).any():
        row = int(np.argmax(sizes != d))
        raise _fault(where, first + row, f"a vector of {sizes[row]:,} numbers", d)
    flat, n = views.values, len(views)
    if (starts != starts[0] + np.arange(n) * d).any():
        parts = [flat.slice(start, d) for start in starts.tolist()] if flat.null_count else []
        for i, part in enumerate(parts):
            if part.null_count:
                raise _fault(where, first + i, f"number {_first_null(part)} of the vector is null", d)
        values = _numbers(flat)[starts[:, None] + np.arange(d)].reshape(-1)
        starts, flat = np.arange(n) * d, pa.Array.from_buffers(flat.type, n * d, [None, pa.py_buffer(values)])
    offsets = np.append(starts, starts[-1] + d)
    return pa.LargeListArray.from_arrays(pa.Array.from_buffers(pa.int64(), n + 1, [None, pa.py_buffer(offsets)]), flat)


@functools.lru_cache(maxsize=4)
def _multiples(kind: pa.DataType, n: int, d: int) -> pa.Array:
    """Return 0, d, 2 d … as an array of n integers."""
    values = (np.arange(n) * d).astype(kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(values)])


def _numbers(array: pa.Array, start: int = 0, n: int | None = None) -> NDArray[Any]:
    """Return n numbers (None: all) without nulls as a view; `to_numpy` would import pandas where it is installed."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    n = len(array) if n is None else n
    return np.frombuffer(array.buffers()[1], dtype, n, (array.offset + start) * dtype.itemsize)


def require_scales(path: str, schema: pa.Schema, name: str) -> None:
    """Check that a column holds one float for each row.

    Parameters
    ----------
    path : for messages
    schema : of the table
    name : of the column

    Raises
    ------
    ParameterError : it does not
    """
    if schema.names.count(name) != 1 or not pa.types.is_floating(schema.field(name).type):
        found = f"is {str(schema.field(name).type)[:40]}" if schema.names.count(name) == 1 else "is not there once"
        raise ParameterError("dequantize", name, f"{path}: the column {found}, expected floats, or a number")


def numbers(column: pa.Array, first: int, where: str) -> NDArray[Any]:
    """Return a column of floats as an array.

    Parameters
    ----------
    column : of n floats
    first : number of its first row in the file, for messages
    where : names file and column

    Raises
    ------
    FormatError : one is null
    """
    if column.null_count:
        raise FormatError(f"{where}: row {first + _first_null(column)}: null, expected a number; rows count from 0")
    return _numbers(column)


def _first_null(array: pa.Array) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def _fault(where: str, row: int, found: str, d: int) -> FormatError:
    return FormatError(f"{where}: row {row}: {found}, expected {d}; rows count from 0")


def texts(column: pa.Array, missing: Callable[[int], str]) -> Sequence[str]:
    """Return the cells of a column as text: numbers in decimals, True and False, undecodable bytes as surrogates.

    UUIDs are in their usual form, as their 16 bytes are no text.

    Parameters
    ----------
    column : of text, numbers, truth values or what Arrow can write as text
    missing : returns the text of a null cell from its position, or raises
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    cells = column.to_pylist() if _is_plain(kind) else column.cast(pa.string()).to_pylist()
    if cells and isinstance(next((cell for cell in cells if cell is not None), ""), bytes):
        cells = [cell if cell is None else cell.decode("utf-8", "surrogateescape") for cell in cells]
    elif not is_text(kind):
        cells = [cell if cell is None else str(cell) for cell in cells]
    if column.null_count:
        cells = [missing(i) if cell is None else cell for i, cell in enumerate(cells)]
    found: list[str] = cells
    return found


def _is_plain(kind: pa.DataType) -> bool:
    return (
        getattr(kind, "extension_name", "") == "arrow.uuid"
        or is_text(kind)
        or any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))
    )

"""Tables for tests, made with pyarrow."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

KINDS = ("list", "large_list", "fixed", "tensor", "view", "large_view", "scattered_view")


def lists(x: NDArray[Any], kind: str = "list") -> pa.Array:
    """Give rows as a column of lists of one of `KINDS`."""
    (n, d), flat = x.shape, pa.array(x.reshape(-1))
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * d, pa.int32()), flat)
    if kind == "large_list":
        return pa.LargeListArray.from_arrays(pa.array(np.arange(n + 1) * d), flat)
    if kind.endswith("view"):
        order = np.arange(n)[:: -1 if kind == "scattered_view" else 1]
        flat = pa.array(x[order].reshape(-1))
        build, places = (pa.LargeListViewArray, pa.int64()) if kind == "large_view" else (pa.ListViewArray, pa.int32())
        return build.from_arrays(pa.array(order * d, places), pa.array(np.full(n, d), places), flat)
    column = pa.FixedSizeListArray.from_arrays(flat, d)
    return column if kind == "fixed" else pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, (d,)), column)


def matrix(column: pa.ChunkedArray) -> NDArray[Any]:
    """Give a column of lists as rows, by way of Python's lists."""
    plain = [one.storage if isinstance(one, pa.ExtensionArray) else one for one in column.chunks]
    dtype = (plain[0].type.value_type).to_pandas_dtype()
    return np.array([row for chunk in plain for row in chunk.to_pylist()], dtype)


def parquet(table: pa.Table, **how: Any) -> bytes:
    """Give a table as the bytes of a Parquet file."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, **how)
    return bytes(buffer.getvalue())

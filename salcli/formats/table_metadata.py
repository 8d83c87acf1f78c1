"""Metadata of tables beside Arrow's types: the features of `datasets`, and the columns of pandas."""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from salcli.formats.arrow_columns import stored

FEATURES, PANDAS = b"huggingface", b"pandas"
PANDAS_NAMES = {"float16": "float16", "float32": "float", "float64": "double"}


def vector_type(like: pa.DataType, d: int, dtype: np.dtype[Any]) -> pa.DataType:
    """Return the type of a column of vectors after a change of its numbers: the same kind of list.

    Parameters
    ----------
    like : the type before
    d, dtype : width and numbers after
    """
    inner = stored(like).value_field.with_type(pa.from_numpy_dtype(dtype))
    if isinstance(like, pa.FixedShapeTensorType):
        return pa.fixed_shape_tensor(inner.type, (d,), dim_names=like.dim_names, permutation=like.permutation)
    if pa.types.is_fixed_size_list(like):
        return pa.list_(inner, d)
    kinds = {pa.types.is_large_list: pa.large_list, pa.types.is_list_view: pa.list_view}
    kinds |= {pa.types.is_large_list_view: pa.large_list_view}
    return next((kind for test, kind in kinds.items() if test(like)), pa.list_)(inner)


def changed_schema(schema: pa.Schema, column: str, d: int, dtype: np.dtype[Any]) -> pa.Schema:
    """Return a schema after a change of its column of vectors, with the metadata that describes it in step.

    Parameters
    ----------
    schema : of the table
    column : of the vectors
    d, dtype : width and numbers after
    """
    at = schema.get_field_index(column)
    kind = vector_type(schema.field(at).type, d, dtype)
    changed = schema.set(at, schema.field(at).with_type(kind))
    metadata = dict(schema.metadata or {})
    for key, change in ((FEATURES, _changed_features), (PANDAS, _changed_pandas)):
        if key in metadata:
            metadata[key] = _edited(metadata[key], change, column, d, dtype)
    return changed.with_metadata(metadata or None)


def _edited(text: bytes, change: Any, column: str, d: int, dtype: np.dtype[Any]) -> bytes:
    """Return JSON after a change; as it is where it is not of the form that is expected."""
    try:
        found = json.loads(text)
        change(found, column, d, dtype)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return text
    return json.dumps(found).encode()


def _changed_features(found: Any, column: str, d: int, dtype: np.dtype[Any]) -> None:
    feature = found["info"]["features"][column]
    numbers = feature[0] if isinstance(feature, list) else feature.get("feature", feature)
    numbers["dtype"] = str(dtype)
    if isinstance(feature, dict) and feature.get("length", -1) != -1:
        feature["length"] = d
    if isinstance(feature, dict) and "shape" in feature:
        feature["shape"] = [d]


def _changed_pandas(found: Any, column: str, d: int, dtype: np.dtype[Any]) -> None:  # noqa: ARG001 (as above)
    for each in found["columns"]:
        if each.get("field_name", each.get("name")) == column and str(each.get("pandas_type", "")).startswith("list["):
            each["pandas_type"] = f"list[{PANDAS_NAMES[str(dtype)]}]"


def without_columns(schema: pa.Schema, left: set[str]) -> pa.Schema:
    """Return a schema without some columns, also in the metadata that describes them.

    Parameters
    ----------
    schema : of the table
    left : names of the columns that are left out
    """
    if not left:
        return schema
    metadata = dict(schema.metadata or {})

    def features(found: Any, *_: Any) -> None:
        for name in left:
            found["info"]["features"].pop(name, None)

    def pandas(found: Any, *_: Any) -> None:
        found["columns"] = [c for c in found["columns"] if c.get("field_name", c.get("name")) not in left]
        found["index_columns"] = [each for each in found["index_columns"] if each not in left]

    for key, change in ((FEATURES, features), (PANDAS, pandas)):
        if key in metadata:
            metadata[key] = _edited(metadata[key], change, "", 0, np.dtype(np.float32))
    return pa.schema([each for each in schema if each.name not in left], metadata or None)


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the classes of each column of class numbers, as `datasets` (`ClassLabel`) wrote them.

    Parameters
    ----------
    schema : of the table
    """
    try:
        features = json.loads((schema.metadata or {})[FEATURES])["info"]["features"]
        found = {name: one["names"] for name, one in features.items() if one.get("_type") == "ClassLabel"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return {
        name: names
        for name, names in found.items()
        if isinstance(names, list) and all(isinstance(n, str) for n in names)
    }

"""Records as JSON: field names are the keys, and metadata of a field where it differs."""

import dataclasses
from collections.abc import Mapping
from typing import Any

INLINE = {"inline": True}
"""Of a field whose keys become keys of the record that has it."""
OPTIONAL = {"optional": True}
"""Of a field that is left out where it is None or empty."""
UNWRITTEN = {"unwritten": True}
"""Of a field that is no part of the JSON."""


def named(key: str) -> dict[str, str]:
    """Return the metadata of a dataclass field that is called `key` in the JSON."""
    return {"key": key}


def to_json(value: object) -> Any:
    """Return `value` as plain dicts, lists, strings and numbers: field names are the keys, tuples become lists.

    Raises
    ------
    TypeError : a value is neither a dataclass nor a mapping, list, tuple, string, number, bool or None
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        raise TypeError(f"no JSON for a {type(value).__name__}")
    found: dict[str, Any] = {}
    for each in dataclasses.fields(value):
        item, how = getattr(value, each.name), each.metadata
        if how.get("inline"):
            found |= to_json(item)
        elif not (how.get("unwritten") or (how.get("optional") and item in (None, "", ()))):
            found[how.get("key", each.name)] = to_json(item)
    return found

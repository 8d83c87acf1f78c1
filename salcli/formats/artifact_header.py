"""The artifact's header: JSON text in, a record whose fields are there and of their types out."""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from salcli.data.splits import SplitRule
from salcli.errors import FormatError, SalcliError, first_line
from salcli.linalg.kernels import PARAMETERS

SCHEMA = "salcli.eraser/1"
MAX_DEPTH = 8
Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(of: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_rule_of_k(value: Any) -> bool:
    return (
        isinstance(value, dict) and all(map(_is_number_or_flag, value.values())) and _is_number(value.get("alpha", 0))
    )


def _is_number_or_flag(value: Any) -> bool:
    return _is_number(value) or _is_flag(value)


def _are_inputs(value: Any) -> bool:
    if not isinstance(value, dict) or not all(_is_record(value.get(name)) for name in ("embeddings", "labels")):
        return False
    return _or_none(_is_text)(value["embeddings"].get("sha256")) and _is_text(value["labels"].get("sha256"))


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


FIELDS: dict[str, Check] = {
    "method": _is_text,
    "d": _is_count,
    "k": _is_count,
    "rank": _is_count,
    "is_centred": _is_flag,
    "k_rule": _is_rule_of_k,
    "attributes": _is_list(_is_record),
    "rows": _is_record,
    "inputs": _are_inputs,
    "versions": _are_versions,
}
ROWS: dict[str, Check] = {
    "rule": _is_record,
    "joined_by": lambda value: value in ("key", "row"),
    "key_column": _or_none(_is_text),
    "split_column": _or_none(_is_text),
    "n_fitted": _is_count,
    "sha256": _is_text,
}
RULE: dict[str, Check] = {
    "fit_split": _or_none(_is_text),
    "holdout": _is_number,
    "sample": _or_none(_is_count),
    "seed": _is_count,
}
ATTRIBUTE: dict[str, Check] = {
    "name": _is_text,
    "classes": _or_none(_is_list(_is_text)),
    "counts": _or_none(_is_list(_is_count)),
    "sha256": _is_text,
}
KERNEL: dict[str, Check] = {"name": lambda value: isinstance(value, str) and len(value) <= 40}
KERNEL_VALUES: dict[str, Check] = {"gamma": _is_number, "degree": _is_count, "coef0": _is_number}
LANDMARKS: dict[str, Check] = {"n": _is_count, "rule": _is_text}


def checked_header(path: str, text: str) -> dict[str, Any]:
    """Read a header, and require every field that is taken from it.

    Raises
    ------
    FormatError : it is no JSON object, of another schema, or a field is missing or of another type
    """
    try:
        header = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged artifact: its header is no JSON ({first_line(error)})") from error
    if not isinstance(header, dict):
        raise FormatError(f"{path}: damaged artifact: its header is no JSON object")
    if header.get("schema") != SCHEMA:
        versions = header.get("versions")
        made_by = versions.get("salcli", "unknown") if isinstance(versions, dict) else "unknown"
        raise FormatError(
            f"{path}: schema {_shown(header.get('schema'))} (written by salcli {_shown(made_by).strip(chr(39))}), "
            f"this salcli reads {SCHEMA!r}"
        )
    if not _is_plain(header):
        raise FormatError(f"{path}: damaged artifact: its header holds a number out of range, or is nested too deeply")
    _require(path, "header", header, FIELDS)
    _require(path, "record of fitted rows", header["rows"], ROWS)
    _require_rule(path, header["rows"]["rule"])
    _require_attributes(path, header["attributes"])
    if "kernel" in header:
        if not _is_record(header["kernel"]) or not _is_record(header.get("landmarks")):
            raise FormatError(f"{path}: damaged artifact: its kernel is not understood")
        _require(path, "record of landmarks", header["landmarks"], LANDMARKS)
        _require(path, "kernel", header["kernel"], KERNEL)
        used = PARAMETERS.get(header["kernel"]["name"], ())
        _require(path, "kernel", header["kernel"], {name: KERNEL_VALUES[name] for name in used})
    return header


def _require_rule(path: str, rule: dict[str, Any]) -> None:
    try:
        _require(path, "rule of fitted rows", rule, RULE)
        SplitRule.from_dict(rule)
    except (TypeError, SalcliError) as error:
        raise FormatError(f"{path}: damaged artifact: its rule of fitted rows is not understood") from error


def _require_attributes(path: str, attributes: list[dict[str, Any]]) -> None:
    names = [attribute.get("name") for attribute in attributes]
    for attribute in attributes:
        _require(path, "list of attributes", attribute, ATTRIBUTE)
        classes, counts = attribute["classes"], attribute["counts"]
        if (classes is None) != (counts is None) or len(set(classes or ())) != len(counts or ()):
            raise FormatError(f"{path}: damaged artifact: its list of attributes does not count each class once")
    if not names or len(set(names)) != len(names):
        raise FormatError(f"{path}: damaged artifact: its list of attributes names none, or one twice")


def _require(path: str, what: str, held: dict[str, Any], checks: dict[str, Check]) -> None:
    for name, check in checks.items():
        if name not in held:
            raise FormatError(f"{path}: damaged artifact: its {what} lacks {name!r}")
        if not check(held[name]):
            raise FormatError(f"{path}: damaged artifact: its {what} has {_shown(held[name])} for {name!r}")


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Tell whether a value can be calculated with, and written as JSON again."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, (dict, list)):
        return all(_is_plain(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value))
    return abs(value) < 1 << 53 if type(value) is int else not isinstance(value, float) or math.isfinite(value)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "a record"
    if type(value) is int and abs(value) >= 1 << 53:
        return "a number out of range"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 64 else f"{text[:60]}…"

"""The artifact as a file: a checked header and arrays in an `.npz` without pickle, byte-identical for equal content.

What the arrays mean is known to the erasers (`salcli.erasers.artifact`).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from salcli.data.hashes import is_hash
from salcli.data.splits import SplitRule
from salcli.errors import FormatError, SalcliError, UsageError, first_line
from salcli.formats import atomic, sniff
from salcli.formats.files import ByteFile
from salcli.formats.npy import read_header, strings
from salcli.formats.npz_archive import Archive
from salcli.formats.sniff import HEAD_BYTES
from salcli.linalg.kernels import PARAMETERS

FORMAT = "salcli eraser"
SCHEMA, SCHEMA_1 = "salcli.eraser/2", "salcli.eraser/1"
FLOATS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))
MAX_UNCHECKED, MAX_GROWTH = 64 << 20, 100
MOST_ARRAYS = 32
KINDS_1 = {
    "linear": {"mean", "left", "right"},
    "features": {"landmarks", "whitener", "feature_mean", "left", "right"},
    "inner products": {"landmarks", "dual", "offset"},
}
"""Erasers by their arrays, for files of the first schema, which do not name them."""


@dataclass(frozen=True, eq=False)
class ArtifactFile:
    """The content of an artifact."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    """All but the header, `singular_values` among them."""
    sha256: str


def write_file(path: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write an artifact, whole or not at all.

    Parameters
    ----------
    path : of the output
    header : plain values; `schema` is set
    arrays : by name, `singular_values` among them

    Raises
    ------
    OutputError : it cannot be written
    UsageError : an option has a value that the header cannot hold
    """
    try:
        text = json.dumps({**header, "schema": SCHEMA}, sort_keys=True, allow_nan=False)
        checked_header(path, text)
    except (ValueError, FormatError) as error:
        raise UsageError(f"{path}: an option has a value that cannot be read back from an eraser: {error}") from error
    members = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, allow_pickle=False, **members, header=np.array(text))


def read_file(path: str) -> ArtifactFile:
    """Read an artifact, of this schema or an earlier one.

    Parameters
    ----------
    path : of the artifact

    Raises
    ------
    FormatError : not an artifact, of another schema, or damaged
    """
    file = ByteFile.open(path)
    try:
        arrays, digest = _arrays(path, file), file.digest("sha256")
        header = checked_header(path, str(arrays.pop("header")))
    finally:
        file.close()
    if "eraser" not in header:
        header = upgraded(path, header, set(arrays))
    if not np.all(np.isfinite(arrays["singular_values"])) or arrays["singular_values"].ndim != 1:
        raise FormatError(f"{path}: damaged artifact: singular values must be a finite list")
    return ArtifactFile(header, arrays, digest)


def upgraded(path: str, header: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return the header of schema 1 with the fields of schema 2: the kind of eraser, and the method's parameters.

    Parameters
    ----------
    path : of the artifact, for messages
    header : of schema 1
    names : of the arrays, by which the kind is known

    Raises
    ------
    FormatError : the arrays are those of no eraser
    """
    kind = next((kind for kind, parts in KINDS_1.items() if parts <= names), None)
    if kind is None:
        raise FormatError(f"{path}: not a salcli eraser: expected the arrays mean, left, right and a header")
    rule = header["k_rule"]
    parameters = {"k": rule.get("given"), "alpha": rule.get("alpha")}
    parameters |= {"center": header["is_centred"], "keep_mean": header["is_centred"]}
    if "kernel" in header:
        kernel, landmarks = header["kernel"], header["landmarks"]
        parameters |= {"kernel": kernel["name"], **{name: kernel[name] for name in PARAMETERS.get(kernel["name"], ())}}
        parameters["landmarks"] = "all" if landmarks["rule"] == "all" else landmarks["n"]
    return {**header, "eraser": kind, "is_orthogonal": True, "parameters": parameters}


def _arrays(path: str, file: ByteFile) -> dict[str, NDArray[Any]]:
    if not file.head().startswith(sniff.ZIP_MAGIC):
        raise FormatError(f"{path}: not a salcli eraser: expected the .npz that `salcli fit` writes")
    archive = Archive(file)
    names = [name.removesuffix(".npy") for name in archive.names]
    if not {"singular_values", "header"} <= set(names) or not 3 <= len(names) <= MOST_ARRAYS:
        raise FormatError(f"{path}: not a salcli eraser: expected the arrays mean, left, right and a header")
    arrays = {name: _array(path, archive, name) for name in names}
    archive.close()
    return arrays


def _array(path: str, archive: Archive, name: str) -> NDArray[Any]:
    """Return one array, after checking that its size is that of its header."""
    member = f"{name}.npy"
    fault = f"{path}: not a salcli eraser, or damaged"
    if member not in archive.names:
        raise FormatError(f"{fault}: {name} is no .npy")
    stream, size = archive.stream(member, f"{fault}: {name}"), archive.size(member)
    header = read_header(stream.read(min(size, HEAD_BYTES)), f"{fault}: {name}")
    is_text = header.dtype.kind == "U" and header.shape == ()
    is_known = is_text if name == "header" else header.dtype in FLOATS
    if header.dtype.hasobject:
        raise FormatError(f"{fault}: {name} is an object array (a Python pickle inside), which is never opened")
    if not is_known:
        expected = "one string" if name == "header" else "floats"
        raise FormatError(f"{path}: damaged artifact: {name} is {header.dtype}, expected {expected}")
    if header.offset + header.n_bytes != size:
        raise FormatError(
            f"{path}: damaged artifact: {name} is {header.n_items} numbers, which do not take the {size} bytes it has"
        )
    if size > MAX_UNCHECKED and archive.growth(member) > MAX_GROWTH:
        raise FormatError(f"{path}: damaged artifact: {name} would unpack to {size} bytes")
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


def _agrees(values: dict[str, Any], checks: dict[str, Check]) -> bool:
    return all(name in values and check(values[name]) for name, check in checks.items())


def _is_list(of: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_rule_of_k(value: Any) -> bool:
    return (
        isinstance(value, dict) and all(map(_is_number_or_flag, value.values())) and _is_number(value.get("alpha", 0))
    )


def _is_number_or_text(value: Any) -> bool:
    return _is_number(value) or _is_text(value)


def _is_number_or_flag(value: Any) -> bool:
    return _is_number(value) or _is_flag(value)


def _are_inputs(value: Any) -> bool:
    if not isinstance(value, dict) or not all(_is_record(value.get(name)) for name in ("embeddings", "labels")):
        return False
    embeddings, labels = value["embeddings"], value["labels"]
    is_known = _or_none(_is_text)(embeddings.get("sha256")) and _or_none(is_hash)(embeddings.get("hash"))
    has_hash = "hash" not in labels or labels["hash"] is not None  # labels in memory have none
    return is_known and (_is_text(labels.get("sha256")) if has_hash else True)


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
FIELDS_2: dict[str, Check] = {"eraser": _is_text, "is_orthogonal": _is_flag, "parameters": _is_record}
ROWS: dict[str, Check] = {
    "rule": _is_record,
    "joined_by": lambda value: value in ("key", "row"),
    "key_column": _or_none(_is_text),
    "split_column": _or_none(_is_text),
    "n_fitted": _is_count,
    "sha256": _is_text,
}
GROUPS: dict[str, Check] = {"group_column": _is_text}
"""Of the record of fitted rows, where groups of rows lie in one part."""
STEP: dict[str, Check] = {
    "shrinkage": _is_number,
    **dict.fromkeys(("n_classes", "n_held_out"), _is_count),
    "towards": _is_text,
    "tried": _is_list(lambda trial: isinstance(trial, dict) and all(map(_is_number_or_text, trial.values()))),
}
"""Of one transport."""
FOUND: dict[str, dict[str, Check]] = {
    "kept_task": {"name": _is_text, "classes": _is_list(_is_text), "rank": _is_count},
    "unit": {"n_rounds": _is_count, "gaps": _is_list(_is_number), "is_equal": _is_flag},
    "auto_k": {
        "ks": _is_list(_is_count),
        "accuracies": _is_list(_is_list(_is_number)),
        "chance": _is_list(_is_number),
        "is_at_chance": _is_flag,
        **dict.fromkeys(("n_trial", "n_train", "n_held_out"), _is_count),
    },
    "inlp": {
        **dict.fromkeys(("n_rounds", "n_train", "n_held_out"), _is_count),
        "accuracies": _is_list(_is_list(_is_number)),
        "chance": _is_list(_is_number),
        "is_at_chance": _is_flag,
    },
    "transport": {**STEP, "noise": _is_number},
    "transports": {"steps": _is_list(lambda step: _is_record(step) and _agrees(step, {**STEP, "attribute": _is_text}))},
    "scored": {"column": _is_text, "n_unlabelled": _is_count, "effective_rows": _is_list(_is_number)},
    "projection": dict.fromkeys(("norm", "condition", "angle", "shrinkage"), _is_number),
}
"""Records that some methods add to the header."""
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
    """Return a header from JSON, after checking every field that is used.

    Parameters
    ----------
    path : of the artifact, for messages
    text : the JSON

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
    if header.get("schema") not in (SCHEMA, SCHEMA_1):
        versions = header.get("versions")
        made_by = versions.get("salcli", "unknown") if isinstance(versions, dict) else "unknown"
        raise FormatError(
            f"{path}: schema {_shown(header.get('schema'))} (written by salcli {_shown(made_by).strip(chr(39))}), "
            f"this salcli reads {SCHEMA!r} and {SCHEMA_1!r}"
        )
    if not _is_plain(header):
        raise FormatError(f"{path}: damaged artifact: its header holds a number out of range, or is nested too deeply")
    _require(path, "header", header, FIELDS)
    if header["schema"] == SCHEMA or "eraser" in header:
        _require(path, "header", header, FIELDS_2)
    _require(path, "record of fitted rows", header["rows"], ROWS | (GROUPS if "group_column" in header["rows"] else {}))
    _require_rule(path, header["rows"]["rule"])
    _require_attributes(path, header["attributes"])
    _require_found(path, header)
    if "kernel" in header:
        if not _is_record(header["kernel"]) or not _is_record(header.get("landmarks")):
            raise FormatError(f"{path}: damaged artifact: its kernel is not understood")
        _require(path, "record of landmarks", header["landmarks"], LANDMARKS)
        _require(path, "kernel", header["kernel"], KERNEL)
        used = PARAMETERS.get(header["kernel"]["name"], ())
        _require(path, "kernel", header["kernel"], {name: KERNEL_VALUES[name] for name in used})
    return header


def _require_found(path: str, header: dict[str, Any]) -> None:
    for name in (name for name in FOUND if name in header):
        if not _is_record(header[name]):
            raise FormatError(f"{path}: damaged artifact: its {name} is not understood")
        _require(path, name, header[name], FOUND[name])


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


def _require(path: str, what: str, values: dict[str, Any], checks: dict[str, Check]) -> None:
    for name, check in checks.items():
        if name not in values:
            raise FormatError(f"{path}: damaged artifact: its {what} lacks {name!r}")
        if not check(values[name]):
            raise FormatError(f"{path}: damaged artifact: its {what} has {_shown(values[name])} for {name!r}")


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value can be used in arithmetic and written as JSON."""
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

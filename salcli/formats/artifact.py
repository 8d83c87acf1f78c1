"""The artifact as a file: a checked header and arrays in an `.npz` without pickle, byte-identical for equal content.

What the arrays mean is known to the erasers (`salcli.erasers.artifact`).
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.hashes import is_hash
from salcli.data.splits import SplitRule
from salcli.errors import FormatError, SalcliError, UsageError
from salcli.formats import sniff
from salcli.formats.checked_npz import (
    Check,
    is_count,
    is_flag,
    is_list,
    is_number,
    is_number_or_flag,
    is_number_or_text,
    is_record,
    is_text,
    or_none,
    parsed_header,
    read_array,
    require_fields,
    require_plain,
    shown,
    write_npz,
)
from salcli.formats.files import ByteFile
from salcli.formats.npz_archive import Archive
from salcli.linalg.kernels import PARAMETERS

FORMAT = "salcli eraser"
SCHEMA, SCHEMA_1 = "salcli.eraser/2", "salcli.eraser/1"
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
    UsageError : an option has a value that has no place in the header
    """
    try:
        text = json.dumps({**header, "schema": SCHEMA}, sort_keys=True, allow_nan=False)
        checked_header(path, text)
    except (ValueError, FormatError) as error:
        raise UsageError(f"{path}: an option has a value that cannot be read back from an eraser: {error}") from error
    write_npz(path, text, arrays)


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
    arrays = {name: read_array(path, archive, name) for name in names}
    archive.close()
    return arrays


def _agrees(values: dict[str, Any], checks: dict[str, Check]) -> bool:
    return all(name in values and check(values[name]) for name, check in checks.items())


def _is_rule_of_k(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number_or_flag, value.values())) and is_number(value.get("alpha", 0))


def _are_inputs(value: Any) -> bool:
    if not isinstance(value, dict) or not all(is_record(value.get(name)) for name in ("embeddings", "labels")):
        return False
    embeddings, labels = value["embeddings"], value["labels"]
    is_known = or_none(is_text)(embeddings.get("sha256")) and or_none(is_hash)(embeddings.get("hash"))
    has_hash = "hash" not in labels or labels["hash"] is not None  # labels in memory have none
    return is_known and (is_text(labels.get("sha256")) if has_hash else True)


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_text, value.values()))


FIELDS: dict[str, Check] = {
    "method": is_text,
    "d": is_count,
    "k": is_count,
    "rank": is_count,
    "is_centred": is_flag,
    "k_rule": _is_rule_of_k,
    "attributes": is_list(is_record),
    "rows": is_record,
    "inputs": _are_inputs,
    "versions": _are_versions,
}
FIELDS_2: dict[str, Check] = {"eraser": is_text, "is_orthogonal": is_flag, "parameters": is_record}
ROWS: dict[str, Check] = {
    "rule": is_record,
    "joined_by": lambda value: value in ("key", "row"),
    "key_column": or_none(is_text),
    "split_column": or_none(is_text),
    "n_fitted": is_count,
    "sha256": is_text,
}
SOMETIMES: dict[str, Check] = {"group_column": is_text, "shards": is_list(is_count)}
"""Of the record of fitted rows, where groups of rows lie in one part, and of several shards."""
STEP: dict[str, Check] = {
    "shrinkage": is_number,
    **dict.fromkeys(("n_classes", "n_held_out"), is_count),
    "towards": is_text,
    "tried": is_list(lambda trial: isinstance(trial, dict) and all(map(is_number_or_text, trial.values()))),
}
"""Of one transport."""
FOUND: dict[str, dict[str, Check]] = {
    "kept_task": {"name": is_text, "classes": is_list(is_text), "rank": is_count},
    "unit": {"n_rounds": is_count, "gaps": is_list(is_number), "is_equal": is_flag},
    "auto_k": {
        "ks": is_list(is_count),
        "accuracies": is_list(is_list(is_number)),
        "chance": is_list(is_number),
        "is_at_chance": is_flag,
        **dict.fromkeys(("n_trial", "n_train", "n_held_out"), is_count),
    },
    "inlp": {
        **dict.fromkeys(("n_rounds", "n_train", "n_held_out"), is_count),
        "accuracies": is_list(is_list(is_number)),
        "chance": is_list(is_number),
        "is_at_chance": is_flag,
    },
    "transport": {**STEP, "noise": is_number},
    "transports": {"steps": is_list(lambda step: is_record(step) and _agrees(step, {**STEP, "attribute": is_text}))},
    "scored": {"column": is_text, "n_unlabelled": is_count, "effective_rows": is_list(is_number)},
    "projection": dict.fromkeys(("norm", "condition", "angle", "shrinkage"), is_number),
}
"""Records that some methods add to the header."""
RULE: dict[str, Check] = {
    "fit_split": or_none(is_text),
    "holdout": is_number,
    "sample": or_none(is_count),
    "seed": is_count,
}
ATTRIBUTE: dict[str, Check] = {
    "name": is_text,
    "classes": or_none(is_list(is_text)),
    "counts": or_none(is_list(is_count)),
    "sha256": is_text,
}
KERNEL: dict[str, Check] = {"name": lambda value: isinstance(value, str) and len(value) <= 40}
KERNEL_VALUES: dict[str, Check] = {"gamma": is_number, "degree": is_count, "coef0": is_number}
LANDMARKS: dict[str, Check] = {"n": is_count, "rule": is_text}


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
    header = parsed_header(path, text)
    if header.get("schema") not in (SCHEMA, SCHEMA_1):
        versions = header.get("versions")
        made_by = versions.get("salcli", "unknown") if isinstance(versions, dict) else "unknown"
        raise FormatError(
            f"{path}: schema {shown(header.get('schema'))} (written by salcli {shown(made_by).strip(chr(39))}), "
            f"this salcli reads {SCHEMA!r} and {SCHEMA_1!r}"
        )
    require_plain(path, header)
    require_fields(path, "header", header, FIELDS)
    if header["schema"] == SCHEMA or "eraser" in header:
        require_fields(path, "header", header, FIELDS_2)
    optional = {name: check for name, check in SOMETIMES.items() if name in header["rows"]}
    require_fields(path, "record of fitted rows", header["rows"], ROWS | optional)
    _require_rule(path, header["rows"]["rule"])
    _require_attributes(path, header["attributes"])
    _require_found(path, header)
    if "kernel" in header:
        if not is_record(header["kernel"]) or not is_record(header.get("landmarks")):
            raise FormatError(f"{path}: damaged artifact: its kernel is not understood")
        require_fields(path, "record of landmarks", header["landmarks"], LANDMARKS)
        require_fields(path, "kernel", header["kernel"], KERNEL)
        used = PARAMETERS.get(header["kernel"]["name"], ())
        require_fields(path, "kernel", header["kernel"], {name: KERNEL_VALUES[name] for name in used})
    return header


def _require_found(path: str, header: dict[str, Any]) -> None:
    for name in (name for name in FOUND if name in header):
        if not is_record(header[name]):
            raise FormatError(f"{path}: damaged artifact: its {name} is not understood")
        require_fields(path, name, header[name], FOUND[name])


def _require_rule(path: str, rule: dict[str, Any]) -> None:
    try:
        require_fields(path, "rule of fitted rows", rule, RULE)
        SplitRule.from_dict(rule)
    except (TypeError, SalcliError) as error:
        raise FormatError(f"{path}: damaged artifact: its rule of fitted rows is not understood") from error


def _require_attributes(path: str, attributes: list[dict[str, Any]]) -> None:
    names = [attribute.get("name") for attribute in attributes]
    for attribute in attributes:
        require_fields(path, "list of attributes", attribute, ATTRIBUTE)
        classes, counts = attribute["classes"], attribute["counts"]
        if (classes is None) != (counts is None) or len(set(classes or ())) != len(counts or ()):
            raise FormatError(f"{path}: damaged artifact: its list of attributes does not count each class once")
    if not names or len(set(names)) != len(names):
        raise FormatError(f"{path}: damaged artifact: its list of attributes names none, or one twice")

"""Moments of one shard as a file: a checked header and the arrays of a `Statistics` in an `.npz` without pickle.

docs/reference/moments.md describes it; what the sums mean is known to `salcli.linalg.moments`.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.blocks import Block
from salcli.data.hashes import is_hash
from salcli.data.key_numbers import MOST_LISTED, Numbers
from salcli.data.splits import SplitRule
from salcli.errors import FormatError, SalcliError
from salcli.formats import sniff
from salcli.formats.artifact import RULE, SOMETIMES
from salcli.formats.checked_npz import (
    Check,
    is_count,
    is_flag,
    is_list,
    is_number,
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
from salcli.linalg.moments import packed

FORMAT, SCHEMA, KIND = "salcli moments", "salcli.moments/1", "moments"
SHAPES = {"mean_x": "d", "mean_z": "c", "comoment": "dc", "scatter": "dd"}
"""Axes of the arrays: d dimensions, c columns of Z. Others are single numbers."""
NUMBERS = ("n", "root_x", "root_z", "most_grouped")
KEYS = "keys"
"""The array of the keys' numbers, where rows have keys."""
DTYPES = (np.dtype(np.float64), np.dtype(np.int64))
HEX = re.compile(r"[0-9a-f]{64}([0-9a-f]{64})?")


def is_digest(value: Any) -> bool:
    """Return whether a value of JSON is what `part_digest` returns."""
    return isinstance(value, str) and HEX.fullmatch(value) is not None


FIELDS: dict[str, Check] = {
    "method": is_text,
    "d": is_count,
    "dtype": is_text,
    "is_centred": is_flag,
    "is_exact": is_flag,
    "rounding": is_number,
    "attributes": is_list(is_record),
    "task": or_none(is_record),
    "rows": is_record,
    "inputs": is_record,
    "versions": is_record,
}
BLOCK: dict[str, Check] = {
    "name": is_text,
    "classes": or_none(is_list(is_text)),
    "counts": is_list(is_count),
    "n": is_count,
    **dict.fromkeys(("mean", "spread", "least", "most"), is_number),
}
DIGESTS: dict[str, Check] = {"sha256": is_digest, "part": is_digest}
ROWS: dict[str, Check] = {
    "rule": is_record,
    "joined_by": lambda value: value in ("key", "row"),
    "key_column": or_none(is_text),
    "split_column": or_none(is_text),
    "n_shard": is_count,
    "n_fitted": is_count,
    **DIGESTS,
}
EMBEDDINGS: dict[str, Check] = {
    **dict.fromkeys(("name", "format", "dtype"), is_text),
    **dict.fromkeys(("n", "d"), is_count),
    "size": or_none(is_count),
    "hash": or_none(lambda value: is_hash(value) and is_digest(value["digest"])),
}
LABELS: dict[str, Check] = {"name": is_text, "n": is_count, "sha256": is_digest}


def write_moments(path: str, header: dict[str, Any], sums: bytes, keys: Numbers | None) -> None:
    """Write moments, whole or not at all.

    Parameters
    ----------
    path : of the output
    header : plain values; `schema` is set
    sums : `Statistics.to_bytes`
    keys : numbers of the keys of the rows that were added up (see `key_numbers`); None: they have none

    Raises
    ------
    OutputError : it cannot be written
    """
    with np.load(io.BytesIO(sums), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    arrays |= {} if keys is None else {KEYS: keys}
    write_npz(path, json.dumps({**header, "schema": SCHEMA}, sort_keys=True, allow_nan=False), arrays)


def read_header(path: str) -> dict[str, Any]:
    """Return the header of moments, without their sums.

    Parameters
    ----------
    path : of the file

    Raises
    ------
    FormatError : no moments, of another schema, or damaged
    """
    with _opened(path) as archive:
        text = str(read_array(path, archive, "header", KIND))
    return checked_header(path, text)


def read_sums(path: str, header: dict[str, Any]) -> bytes:
    """Return the sums of moments, for `Statistics.from_bytes`.

    Parameters
    ----------
    path : of the file
    header : of the file, which the sums must agree with

    Raises
    ------
    FormatError : they are damaged
    """
    with _opened(path) as archive:
        names = [name for name in archive.arrays if name not in ("header", KEYS)]
        arrays = {name: read_array(path, archive, name, KIND, DTYPES) for name in names}
    blocks = blocks_of(header)
    sizes = {"d": header["d"], "c": sum(block.width for block in blocks)}
    for name, array in arrays.items():
        shape = tuple(sizes[axis] for axis in SHAPES.get(name, ""))
        if array.shape != shape:
            raise FormatError(f"{path}: damaged moments: {name} has shape {array.shape}, expected {shape}")
        if not np.isfinite(array).all() or (name in NUMBERS and array < 0):
            raise FormatError(f"{path}: damaged moments: {name} is not finite, or below 0")
    if arrays["n"] != header["rows"]["n_fitted"]:
        raise FormatError(f"{path}: damaged moments: sums of {int(arrays['n'])} rows, expected those of the header")
    _require_counts(path, arrays, blocks)
    return packed(arrays)


def read_keys(path: str) -> Numbers:
    """Return the numbers of the keys of the rows that were added up (see `key_numbers`).

    Parameters
    ----------
    path : of moments that join by key

    Raises
    ------
    FormatError : they are missing or damaged
    """
    with _opened(path) as archive:
        if KEYS not in archive.arrays:
            raise FormatError(f"{path}: damaged moments: the array {KEYS} is missing, which rows with keys have")
        found = read_array(path, archive, KEYS, KIND, DTYPES)
    is_list = found.dtype == np.int64 and found.ndim == 1 and len(found) <= MOST_LISTED
    if not is_list or (len(found) and (found[0] < 0 or np.any(found[1:] <= found[:-1]))):
        raise FormatError(f"{path}: damaged moments: {KEYS} is no ascending list of whole numbers")
    return found


def _require_counts(path: str, arrays: dict[str, NDArray[Any]], blocks: tuple[Block, ...]) -> None:
    """Check that the means of the columns of classes are the counts of the header."""
    first = 0
    for block in blocks:
        found = arrays["mean_z"][first : first + block.width] * float(arrays["n"])
        if block.classes is not None and np.any(np.abs(found - np.array(block.counts)) > 0.5):  # 0.5: a row
            raise FormatError(f"{path}: damaged moments: {block.name!r} has other counts than the header says")
        first += block.width


@contextmanager
def _opened(path: str) -> Iterator[Archive]:
    with closing(ByteFile.open(path)) as file:
        if not file.head().startswith(sniff.ZIP_MAGIC):
            raise FormatError(f"{path}: not a salcli moments file: expected the .npz that `salcli moments` writes")
        archive = Archive(file)
        missing = {*NUMBERS, *SHAPES, "header"} - set(archive.arrays) - {"scatter"}
        if missing or not set(archive.arrays) <= {*NUMBERS, *SHAPES, KEYS, "header"}:
            raise FormatError(
                f"{path}: not a salcli moments file: expected the arrays {', '.join(SHAPES)} and a header"
            )
        yield archive
        archive.close()


def checked_header(path: str, text: str) -> dict[str, Any]:
    """Return a header from JSON, after checking every field.

    Parameters
    ----------
    path : of the file, for messages
    text : the JSON

    Raises
    ------
    FormatError : it is no JSON object, of another schema, or a field is missing or of another type
    """
    header = parsed_header(path, text, KIND)
    if header.get("schema") != SCHEMA:
        raise FormatError(f"{path}: schema {shown(header.get('schema'))}, this salcli reads {SCHEMA!r}")
    require_plain(path, header, KIND)
    require_fields(path, "header", header, FIELDS, KIND)
    rows, inputs = header["rows"], header["inputs"]
    optional = {name: check for name, check in SOMETIMES.items() if name in rows}
    require_fields(path, "record of fitted rows", rows, ROWS | optional, KIND)
    require_fields(path, "rule of fitted rows", rows["rule"], RULE, KIND)
    for name, checks in (("embeddings", EMBEDDINGS), ("labels", LABELS)):
        if not is_record(inputs.get(name)):
            raise FormatError(f"{path}: damaged moments: its inputs lack {name!r}")
        require_fields(path, f"record of {name}", inputs[name], checks, KIND)
    for attribute in header["attributes"]:
        require_fields(path, "list of attributes", attribute, BLOCK | DIGESTS, KIND)
    if header["task"] is not None:
        require_fields(path, "task", header["task"], BLOCK, KIND)
    try:
        SplitRule.from_dict(rows["rule"])
    except (TypeError, SalcliError) as error:
        raise FormatError(f"{path}: damaged moments: its rule of fitted rows is not understood") from error
    names = [block.name for block in blocks_of(header)]
    if not header["attributes"] or len(set(names)) != len(names):
        raise FormatError(f"{path}: damaged moments: its list of attributes names none, or one twice")
    for block in blocks_of(header):
        _require_block(path, block, rows["n_fitted"])
    return header


def _require_block(path: str, block: Block, n: int) -> None:
    names = list(block.classes or ())
    is_sorted = names == sorted(set(names), key=lambda name: (name == "", name))
    is_whole = (
        block.n == n and len(block.counts) == len(names) and sum(block.counts) == (0 if block.classes is None else n)
    )
    if not is_sorted or not is_whole or block.spread < 0 or not block.least <= block.most:
        raise FormatError(f"{path}: damaged moments: column {block.name!r} does not have one label for each row")


def blocks_of(header: dict[str, Any]) -> tuple[Block, ...]:
    """Return the columns of Z of a moments file: the guarded attributes, and the task if one is kept."""
    records = [*header["attributes"], *([] if header["task"] is None else [header["task"]])]
    return tuple(_block({name: record[name] for name in BLOCK}) for record in records)


def _block(fields: dict[str, Any]) -> Block:
    classes = fields["classes"]
    return Block(
        **{**fields, "classes": None if classes is None else tuple(classes), "counts": tuple(fields["counts"])}
    )


def block_fields(block: Block) -> dict[str, Any]:
    """Return a block as the header has it (the inverse of `blocks_of`)."""
    fields = asdict(block)
    return {**fields, "classes": None if block.classes is None else list(block.classes), "counts": list(block.counts)}

"""The artifact: an eraser and where it came from, as an `.npz` without pickle, byte-identical for equal input."""

import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.selection import RowRule
from salcli.errors import FormatError, SalcliError, first_line
from salcli.formats import atomic, signature
from salcli.formats.bytefile import ByteFile
from salcli.options import LabelOptions
from salcli.spectral.eraser import LinearEraser
from salcli.spectral.kernel_eraser import AnyEraser, FeatureEraser, KernelEraser
from salcli.spectral.kernels import Kernel, NystromMap

SCHEMA = "salcli.eraser/1"
FORMAT = "salcli eraser"
LINEAR = ("mean", "left", "right")
FEATURES = ("landmarks", "whitener", "feature_mean", "left", "right")
INNER_PRODUCTS = ("landmarks", "dual", "offset")
KINDS = (LINEAR, FEATURES, INNER_PRODUCTS)
FLOATS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))
MAX_HEADER = 64 << 20


@dataclass(frozen=True, eq=False)
class Artifact:
    """An eraser as it lies in a file."""

    eraser: AnyEraser
    """What erases."""
    singular_values: NDArray[np.float64]
    """`[min(d, c)]` of Ω, falling."""
    header: dict[str, Any]
    """Schema, method, options, classes, rank, the rule of the fitted rows, hashes and versions."""
    sha256: str = ""
    """Of the file it was read from; empty before it is written."""

    @property
    def n_bytes(self) -> int:
        """Bytes of its arrays."""
        return self.singular_values.nbytes + sum(array.nbytes for array in _parts(self.eraser).values())

    @property
    def rule(self) -> RowRule:
        """Which rows were fitted."""
        return RowRule.from_dict(self.header["rows"]["rule"])

    def summary(self) -> dict[str, Any]:
        """Say what it is in a few plain values."""
        names = ("method", "d", "k", "rank", "is_centred", "k_rule", "kernel", "landmarks")
        return {name: self.header[name] for name in names if name in self.header} | {
            "attributes": [a["name"] for a in self.header["attributes"]]
        }

    def label_options(self, given: LabelOptions) -> LabelOptions:
        """Read labels as the fit did, except where `given` says otherwise."""
        rows, attributes = self.header["rows"], self.header["attributes"]
        is_chosen = bool(given.attributes or given.numeric)
        return LabelOptions(
            given.attributes if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is not None),
            given.numeric if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is None),
            given.key or rows["key_column"],
            given.by_row or rows["joined_by"] == "row",
            given.split_column or rows["split_column"],
            given.no_split or rows["split_column"] is None,
            given.task,
        )


def write_artifact(path: str, artifact: Artifact) -> None:
    """Write an artifact, whole or not at all.

    Raises
    ------
    OutputError : it cannot be written
    """
    header = json.dumps({"schema": SCHEMA, **artifact.header}, sort_keys=True)
    arrays = {**_parts(artifact.eraser), "singular_values": artifact.singular_values, "header": np.array(header)}
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, allow_pickle=False, **{name: np.asarray(array, order="C") for name, array in arrays.items()})


def _parts(eraser: AnyEraser) -> dict[str, NDArray[Any]]:
    if isinstance(eraser, LinearEraser):
        return {"mean": eraser.mean, "left": eraser.left, "right": eraser.right}
    if isinstance(eraser, KernelEraser):
        return {"landmarks": eraser.landmarks, "dual": eraser.dual, "offset": eraser.offset}
    features, linear = eraser.features, eraser.linear
    return {
        "landmarks": features.landmarks,
        "whitener": features.whitener,
        "feature_mean": linear.mean,
        "left": linear.left,
        "right": linear.right,
    }


def _assembled(path: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> AnyEraser:
    if set(LINEAR) <= set(arrays):
        return LinearEraser(*(arrays[name] for name in LINEAR))
    try:
        kernel = Kernel(**header["kernel"])
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError(f"{path}: damaged artifact: its kernel is not understood") from error
    if set(INNER_PRODUCTS) <= set(arrays):
        return KernelEraser(kernel, *(arrays[name] for name in INNER_PRODUCTS))
    landmarks, whitener, mean, left, right = (arrays[name] for name in FEATURES)
    return FeatureEraser(NystromMap(kernel, landmarks, whitener), LinearEraser(mean, left, right))


def is_artifact(path: str) -> bool:
    """Tell an artifact from an `.npz` of embeddings, by its member names."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"header.npy", "singular_values.npy"} <= set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def read_artifact(path: str) -> Artifact:
    """Read and check an artifact.

    Raises
    ------
    FormatError : not an artifact, of another schema, or damaged
    """
    file = ByteFile.open(path)
    try:
        arrays, digest = _arrays(path, file), file.sha256()
        header = _header(path, arrays["header"])
        eraser = _assembled(path, header, arrays)
        _require_consistent(path, header, eraser, arrays["singular_values"])
    except FormatError:
        raise
    except SalcliError as error:
        raise FormatError(f"{path}: damaged artifact: {error}") from error
    finally:
        file.close()
    return Artifact(eraser, arrays["singular_values"], header, digest)


def _arrays(path: str, file: ByteFile) -> dict[str, NDArray[Any]]:
    if not file.head().startswith(signature.ZIP_MAGIC):
        raise FormatError(f"{path}: not a salcli eraser: expected the .npz that `salcli fit` writes")
    try:
        with np.load(file.handle, allow_pickle=False) as held:
            names = set(held.files) if isinstance(held, np.lib.npyio.NpzFile) else set()
            kind = next((kind for kind in KINDS if {*kind, "singular_values", "header"} <= names), None)
            if kind is None:
                raise FormatError(f"{path}: not a salcli eraser: expected the arrays {', '.join(LINEAR)} and a header")
            for info in held.zip.infolist() if held.zip else ():
                if info.file_size > MAX_HEADER and info.compress_size * 100 < info.file_size:
                    raise FormatError(
                        f"{path}: damaged artifact: {info.filename} would unpack to {info.file_size} bytes"
                    )
            arrays = {name: held[name] for name in (*kind, "singular_values", "header")}
    except FormatError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, SyntaxError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: not a salcli eraser, or damaged: {first_line(error)}") from error
    for name, array in arrays.items():
        if name != "header" and array.dtype not in (FLOATS if name == "landmarks" else FLOATS[:1]):
            raise FormatError(f"{path}: damaged artifact: {name} is {array.dtype}, expected float64")
    return arrays


def _header(path: str, held: NDArray[Any]) -> dict[str, Any]:
    try:
        header = json.loads(str(held)) if held.dtype.kind == "U" and held.ndim == 0 else None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged artifact: its header is no JSON ({error})") from error
    if not isinstance(header, dict):
        raise FormatError(f"{path}: damaged artifact: its header is no JSON object")
    if header.get("schema") != SCHEMA:
        made_by = (
            (header.get("versions") or {}).get("salcli", "unknown")
            if isinstance(header.get("versions"), dict)
            else "unknown"
        )
        raise FormatError(
            f"{path}: schema {header.get('schema')!r} (written by salcli {made_by}), this salcli reads {SCHEMA!r}"
        )
    return header


def _require_consistent(
    path: str, header: dict[str, Any], eraser: AnyEraser, singular_values: NDArray[np.float64]
) -> None:
    stated = {"d": eraser.d, "k": eraser.k}
    for name, value in stated.items():
        if header.get(name) != value:
            raise FormatError(
                f"{path}: damaged artifact: its header says {name} = {header.get(name)}, its arrays {value}"
            )
    if not np.isfinite(singular_values).all() or singular_values.ndim != 1:
        raise FormatError(f"{path}: damaged artifact: singular values must be a finite list")
    for name in ("rows", "attributes", "inputs", "method", "rank", "is_centred", "k_rule"):
        if name not in header:
            raise FormatError(f"{path}: damaged artifact: its header lacks {name!r}")
    try:
        RowRule.from_dict(header["rows"]["rule"])
    except (TypeError, KeyError, SalcliError) as error:
        raise FormatError(f"{path}: damaged artifact: its rule of fitted rows is not understood") from error
    attributes = header["attributes"]
    known = {"name", "classes", "counts", "sha256"}
    if not isinstance(attributes, list) or not all(isinstance(a, dict) and known <= set(a) for a in attributes):
        raise FormatError(f"{path}: damaged artifact: its list of attributes is not understood")

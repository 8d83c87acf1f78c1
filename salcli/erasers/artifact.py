"""The artifact: an eraser and where it came from, as an `.npz` without pickle, byte-identical for equal input."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels
from salcli.data.source import Source
from salcli.data.splits import RowRule
from salcli.erasers.kernel import AnyEraser, FeatureEraser, KernelEraser
from salcli.erasers.linear import LinearEraser
from salcli.errors import AlignmentError, FormatError, SalcliError
from salcli.formats import atomic
from salcli.formats import sniff as signature
from salcli.formats.artifact_header import SCHEMA, checked_header
from salcli.formats.files import ByteFile
from salcli.formats.npy import read_header, strings
from salcli.formats.npz import Archive
from salcli.formats.sniff import HEAD_BYTES
from salcli.linalg.blas import blas_product
from salcli.linalg.kernels import Kernel, NystromMap, blocks
from salcli.options import LabelOptions

FORMAT = "salcli eraser"
LINEAR = ("mean", "left", "right")
FEATURES = ("landmarks", "whitener", "feature_mean", "left", "right")
INNER_PRODUCTS = ("landmarks", "dual", "offset")
KINDS = (LINEAR, FEATURES, INNER_PRODUCTS)
FLOATS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))
MAX_UNCHECKED, MAX_GROWTH = 64 << 20, 100
WHITENED, LEAST_WHITE = 16, 1e-3
"""So many features are looked at when an artifact is read, and so near must they be to orthonormal."""
MOST_PRODUCTS = 1 << 33  # of numbers; a look at the features of more landmarks takes seconds


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

    def require_width(self, path: str, source: Source) -> None:
        """Refuse rows of another width than the eraser takes; `path`: of the artifact, for the message.

        Raises
        ------
        AlignmentError : the widths differ
        """
        if source.d != self.eraser.d:
            made = self.header.get("versions", {})
            by = ", ".join(f"{name} {number}" for name, number in sorted(made.items()))
            raise AlignmentError(
                f"{source.path} has {source.d} dimensions, but {path} erases {self.eraser.d} (written by {by})"
            )

    def guards(self, labels: GuardedLabels) -> bool:
        """Whether these are the attributes that were guarded, in their order."""
        return [a["name"] for a in self.header["attributes"]] == [a.name for a in labels.attributes]

    def label_options(self, given: LabelOptions, path: str) -> LabelOptions:
        """Read labels as the fit did, except where `given` says otherwise; `path`: of the artifact, for messages."""
        rows, attributes = self.header["rows"], self.header["attributes"]
        is_chosen = bool(given.attributes or given.numeric)
        return LabelOptions(
            given.attributes if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is not None),
            given.numeric if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is None),
            given.key or (None if given.by_row else rows["key_column"]),
            given.by_row or (given.key is None and rows["joined_by"] == "row"),
            given.split_column or (None if given.no_split else rows["split_column"]),
            given.no_split or (given.split_column is None and rows["split_column"] is None),
            given.task,
            path,
            frozenset(
                option
                for option, value in (
                    ("--attribute", given.attributes),
                    ("--numeric", given.numeric),
                    ("--key", given.key),
                    ("--split-column", given.split_column),
                    ("--task", given.task),
                )
                if value
            ),
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
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise FormatError(f"{path}: damaged artifact: its kernel is not understood") from error
    if set(INNER_PRODUCTS) <= set(arrays):
        return KernelEraser(kernel, *(arrays[name] for name in INNER_PRODUCTS))
    landmarks, whitener, mean, left, right = (arrays[name] for name in FEATURES)
    return FeatureEraser(NystromMap(kernel, landmarks, whitener), LinearEraser(mean, left, right))


def read_artifact(path: str) -> Artifact:
    """Read and check an artifact.

    Raises
    ------
    FormatError : not an artifact, of another schema, or damaged
    """
    file = ByteFile.open(path)
    try:
        arrays, digest = _arrays(path, file), file.sha256()
        header = checked_header(path, str(arrays["header"]))
        eraser = _assembled(path, header, arrays)
        _require_consistent(path, header, eraser, arrays["singular_values"])
        blas_product()  # it will be wanted, and then on threads
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
    archive = Archive(file)
    names = {name.removesuffix(".npy") for name in archive.names}
    kind = next((kind for kind in KINDS if {*kind, "singular_values", "header"} <= names), None)
    if kind is None:
        raise FormatError(f"{path}: not a salcli eraser: expected the arrays {', '.join(LINEAR)} and a header")
    arrays = {name: _array(path, archive, name) for name in (*kind, "singular_values", "header")}
    archive.close()
    return arrays


def _array(path: str, archive: Archive, name: str) -> NDArray[Any]:
    """Read one array, after its header was found to announce what is there."""
    member = f"{name}.npy"
    fault = f"{path}: not a salcli eraser, or damaged"
    if member not in archive.names:
        raise FormatError(f"{fault}: {name} is no .npy")
    stream, size = archive.stream(member, f"{fault}: {name}"), archive.size(member)
    header = read_header(stream.read(min(size, HEAD_BYTES)), f"{fault}: {name}")
    if name == "header":
        is_known = header.dtype.kind == "U" and header.shape == ()
    else:
        is_known = header.dtype in (FLOATS if name == "landmarks" else FLOATS[:1])
    if header.dtype.hasobject:
        raise FormatError(f"{fault}: {name} is an object array (a Python pickle inside), which is never opened")
    if not is_known:
        wanted = "one string" if name == "header" else "float64"
        raise FormatError(f"{path}: damaged artifact: {name} is {header.dtype}, expected {wanted}")
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


def _require_consistent(
    path: str, header: dict[str, Any], eraser: AnyEraser, singular_values: NDArray[np.float64]
) -> None:
    of_arrays = {"d": eraser.d, "k": eraser.k}
    if not isinstance(eraser, LinearEraser):
        m = eraser.landmarks if isinstance(eraser, KernelEraser) else eraser.features.landmarks
        of_arrays["landmarks"] = len(m)
    for name, value in of_arrays.items():
        said = header["landmarks"]["n"] if name == "landmarks" else header[name]
        if said != value:
            raise FormatError(f"{path}: damaged artifact: its header says {name} = {said}, its arrays {value}")
    if singular_values.ndim != 1 or not np.isfinite(singular_values).all():
        raise FormatError(f"{path}: damaged artifact: singular values must be a finite list")
    if not np.all(singular_values >= 0) or np.any(np.diff(singular_values) > 0):
        raise FormatError(f"{path}: damaged artifact: singular values must be positive and fall")
    if not header["k"] <= header["rank"] <= len(singular_values):
        raise FormatError(
            f"{path}: damaged artifact: its header says rank = {header['rank']}, "
            f"of {len(singular_values)} singular values, and k = {header['k']}"
        )
    linear = eraser.linear if isinstance(eraser, FeatureEraser) else eraser
    if isinstance(linear, LinearEraser) and not linear.is_orthogonal:
        raise FormatError(f"{path}: damaged artifact: its directions are not orthonormal")
    centre = linear.mean if isinstance(linear, LinearEraser) else linear.offset
    if not header["is_centred"] and centre.any():
        raise FormatError(f"{path}: damaged artifact: its header says that it is not centred, its arrays have a mean")
    if isinstance(eraser, FeatureEraser):
        _require_whitened(path, eraser.features)


def _require_whitened(path: str, features: NystromMap) -> None:
    """Look at a few features: rows of other landmarks, or of another kernel, would not be orthonormal in its space."""
    landmarks, some = features.landmarks, features.whitener[:, :WHITENED]
    if landmarks.size * len(landmarks) > MOST_PRODUCTS:
        return
    row = features.kernel.against(landmarks)
    products = np.concatenate([row(landmarks[part]) @ some for part in blocks(len(landmarks), len(landmarks))])
    error = float(np.max(np.abs(some.T @ products - np.eye(some.shape[1]))))
    if not error < LEAST_WHITE:
        raise FormatError(f"{path}: damaged artifact: its features are not those of its landmarks ({error:.2g} off)")

"""`export`: artifact → dense matrix, or another map of rows → a file that embeddings are served with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import salcli
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.kernel import FeatureEraser
from salcli.erasers.linear import LinearEraser
from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.unit import UnitEraser
from salcli.errors import UsageError
from salcli.formats import atomic
from salcli.formats.artifact import SCHEMA
from salcli.formats.exports import ClassMaps, DenseMap, KernelMap, Map, find_target
from salcli.formats.local_urls import takes_paths
from salcli.options import ExportOptions

Array = NDArray[np.float64]
NO_MATRIX = {
    ClassMaps: "moves each row by the class that it probably has, which no matrix does",
    KernelMap: "writes kernel features, which need its landmarks, and no matrix of the embeddings",
}
"""What keeps an eraser from targets that hold a matrix."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    eraser: str
    output: str
    target: str
    d: int
    d_out: int
    is_double: bool
    files: tuple[str, ...]
    """All that were written or replaced."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as the JSON has them."""
        return {
            "eraser": self.eraser,
            "output": self.output,
            "to": self.target,
            "d": self.d,
            "d_out": self.d_out,
            "dtype": "float64" if self.is_double else "float32",
            "files": list(self.files),
        }


@takes_paths
def export(eraser: str, output: str, options: ExportOptions) -> Exported:
    """Write an eraser as what other programs map embeddings with: a dense matrix wherever it is one.

    The d × d matrix is rounded once, so that its float32 leaves less behind than the product of its rounded factors.

    Parameters
    ----------
    eraser : path of the artifact
    output : path of the file, or of the folder of a model
    options : the target

    Raises
    ------
    ParameterError : there is no such target
    UsageError : the target cannot hold the eraser, or nothing but `apply` can compute it
    FormatError : the artifact is damaged, or the folder is no model of its width
    OutputError : the output cannot be written
    """
    target = find_target(options.to, output)
    if options.double and not target.has_double:
        raise UsageError(f"`double`: modules of {target.name} are float32")
    if not target.is_folder:
        if atomic.is_stdout(output):
            raise UsageError("`output=-`: an exported eraser is binary and goes into a file: give its name")
        atomic.check_output(output, [eraser])
    artifact = read_artifact(eraser)
    found = map_of(artifact, eraser)
    if not isinstance(found, target.holds):
        raise UsageError(f"{eraser}: this eraser {NO_MATRIX[type(found)]}: write it as `.onnx`, or use `apply`")
    files = target.write(output, found, options.double)
    is_double = options.double or target.name == "npz" or isinstance(found, KernelMap)
    return Exported(eraser, output, target.name, found.d, found.d_out, is_double, tuple(files))


def map_of(artifact: Artifact, path: str) -> Map:
    """Return the map of rows that an artifact's eraser is.

    Parameters
    ----------
    artifact : of any method
    path : of the artifact, for messages

    Raises
    ------
    UsageError : it adds noise by a secret
    NotEnoughMemory, RangeError : its feature vectors cannot be computed (see `KernelEraser.to_features`)
    """
    eraser = artifact.eraser.to_features()
    metadata = {
        "salcli_schema": SCHEMA,
        "salcli_version": salcli.__version__,
        "salcli_eraser_sha256": artifact.sha256,
        "salcli_method": str(artifact.header["method"]),
    }
    if eraser.needs_secret:
        raise UsageError(
            f"{path}: this eraser adds noise that a secret and a hash of each row seed, which no such file computes: "
            "use `apply` with `noise_key=FILE`"
        )
    if isinstance(eraser, TransportEraser):
        return _class_maps(eraser, metadata)
    if isinstance(eraser, FeatureEraser):
        weight, bias = _affine(eraser.linear)
        row = eraser.features.kernel.against(eraser.features.landmarks)
        return KernelMap(row, eraser.features.whitener @ weight, bias, metadata)
    assert isinstance(eraser, LinearEraser)
    weight, bias = _affine(eraser)
    return DenseMap(np.ascontiguousarray(weight.T), bias, isinstance(eraser, UnitEraser), metadata)


def _affine(eraser: LinearEraser) -> tuple[Array, Array]:
    """Return P `[d, d]` and b `[d]` with x' = x P + b."""
    weight = np.zeros((eraser.d, eraser.d)) if eraser.k == eraser.d else eraser.projection()
    return weight, (eraser.mean @ eraser.right) @ eraser.left.T if eraser.mean.any() else np.zeros(eraser.d)


def _class_maps(eraser: TransportEraser, metadata: dict[str, str]) -> ClassMaps:
    """Return a transport as one step a class, (A_z − I − V Vᵀ)(x − centre), with the centre's coordinates along V.

    They are those of the mean, and A_z − I is 0 along V.
    """
    posterior, along = eraser.posterior, eraser.directions @ eraser.directions.T
    centre = eraser.centre - (eraser.centre - eraser.mean) @ along
    steps = eraser.maps - np.eye(eraser.d) - along
    return ClassMaps(posterior.weights, posterior.bias, posterior.certain, centre, steps, metadata)

"""`export`: artifact → dense matrix → a file that embeddings are served with."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import salcli
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.linear import LinearEraser
from salcli.erasers.unit import UnitEraser
from salcli.errors import UsageError
from salcli.formats import atomic
from salcli.formats.artifact import SCHEMA
from salcli.formats.exports import DenseMap, find_target
from salcli.options import ExportOptions


@dataclass(frozen=True)
class Exported:
    """What was written."""

    eraser: str
    output: str
    target: str
    d: int
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
            "dtype": "float64" if self.is_double else "float32",
            "files": list(self.files),
        }


def export(eraser: str, output: str, options: ExportOptions) -> Exported:
    """Write an eraser as the dense matrix that other programs multiply embeddings with.

    The d × d matrix is rounded once, so that its float32 leaves less behind than the product of its rounded factors.

    Parameters
    ----------
    eraser : path of the artifact
    output : path of the file, or of the folder of a model
    options : the target

    Raises
    ------
    ParameterError : there is no such target
    UsageError : the eraser is no matrix, or the target cannot hold it
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
    dense = dense_map(artifact, eraser)
    files = target.write(output, dense, options.double)
    return Exported(eraser, output, target.name, dense.d, options.double or target.name == "npz", tuple(files))


def dense_map(artifact: Artifact, path: str) -> DenseMap:
    """Return the matrix and the constant of an artifact's eraser.

    Parameters
    ----------
    artifact : of a linear method
    path : of the artifact, for messages

    Raises
    ------
    UsageError : its eraser is no affine map of rows
    """
    eraser = artifact.eraser
    if not isinstance(eraser, LinearEraser):
        why = (
            "moves each row by the class that it probably has, which no matrix does: use `apply`"
            if eraser.keeps_space
            else "writes kernel features, which need its landmarks, and no matrix of the embeddings: use `apply`"
        )
        raise UsageError(f"{path}: this eraser {why}")
    weight = np.zeros((eraser.d, eraser.d)) if eraser.k == eraser.d else eraser.projection().T
    bias = (eraser.mean @ eraser.right) @ eraser.left.T if eraser.mean.any() else np.zeros(eraser.d)
    metadata = {
        "salcli_schema": SCHEMA,
        "salcli_version": salcli.__version__,
        "salcli_eraser_sha256": artifact.sha256,
        "salcli_method": str(artifact.header["method"]),
    }
    return DenseMap(np.ascontiguousarray(weight), bias, isinstance(eraser, UnitEraser), metadata)

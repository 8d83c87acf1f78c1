"""An eraser as other programs load it: one dense affine map, or another map of rows, and the files it is written to.

A target is one module with a `Target`, and an entry in `TARGETS`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ParameterError, UsageError
from salcli.linalg.kernels import KernelRow


@dataclass(frozen=True, eq=False)
class DenseMap:
    """x' = x weightᵀ + bias, for rows x as column-major frameworks write them: y = W x + b."""

    weight: NDArray[np.float64]
    """`[d, d]`, out × in."""
    bias: NDArray[np.float64]
    """`[d]`"""
    normalizes: bool = False
    """Whether x is divided by its length before, and x' after; rows of zeros stay zero."""
    metadata: dict[str, str] = field(default_factory=dict)
    """What the file records of the eraser."""

    @property
    def d(self) -> int:
        """Dimensions that it takes."""
        return len(self.bias)

    d_out = d


@dataclass(frozen=True, eq=False)
class ClassMaps:
    """x' = x + Σ_z w_z (x − centre) steps_z, w the posterior of the class times a gate (see `Posterior`)."""

    weights: NDArray[np.float64]
    """`[d, c]`"""
    bias: NDArray[np.float64]
    """`[c]`: log p(z | x) = xᵀ weights + bias, up to a constant."""
    certain: float
    """The lead of the likeliest class, in log odds, from which on the gate is open; 0: always."""
    centre: NDArray[np.float64]
    """`[d]`"""
    steps: NDArray[np.float64]
    """`[c, d, d]`"""
    metadata: dict[str, str] = field(default_factory=dict)
    """What the file records of the eraser."""

    @property
    def d(self) -> int:
        """Dimensions that it takes."""
        return len(self.centre)

    d_out = d


@dataclass(frozen=True, eq=False)
class KernelMap:
    """x' = κ(x) weight + bias, κ(x) the kernel of x with landmarks."""

    row: KernelRow
    """κ"""
    weight: NDArray[np.float64]
    """`[m, r]`"""
    bias: NDArray[np.float64]
    """`[r]`"""
    metadata: dict[str, str] = field(default_factory=dict)
    """What the file records of the eraser."""

    @property
    def d(self) -> int:
        """Dimensions that it takes."""
        return int(self.row.y.shape[1])

    @property
    def d_out(self) -> int:
        """Dimensions that it returns."""
        return len(self.bias)


Map = DenseMap | ClassMaps | KernelMap


@dataclass(frozen=True)
class Target:
    """A kind of file, or folder, that an eraser can be exported to."""

    name: str
    suffixes: tuple[str, ...]
    """Of outputs that are of this kind unless another one is requested."""
    write: Callable[[str, Any, bool], list[str]]
    """Writes a map to a path, whole or not at all, in double precision or not; returns the files it wrote."""
    is_folder: bool = False
    """Whether the output is a folder that exists."""
    has_double: bool = False
    """Whether it can be written in double precision."""
    holds: tuple[type, ...] = (DenseMap,)
    """The maps that `write` takes."""


TARGETS = ("onnx", "safetensors", "npz", "sentence-transformers")
"""Each is the name of a module here, with `_` for `-`, that has a `TARGET`."""


def find_target(name: str | None, output: str) -> Target:
    """Return the target called `name`, or without one that of the suffix of `output`.

    Raises
    ------
    ParameterError : there is no such target
    UsageError : no target has that suffix
    """
    if name is not None:
        if name not in TARGETS:
            raise ParameterError("to", name, f"expected {', '.join(TARGETS)}")
        return _target(name)
    suffix = os.path.splitext(output)[1].lower()
    for target in map(_target, TARGETS):
        if suffix in target.suffixes:
            return target
    raise UsageError(f"{output}: no target has the suffix {suffix!r}: give `to`, one of {', '.join(TARGETS)}")


def _target(name: str) -> Target:
    found: Target = import_module(f"{__name__}.{name.replace('-', '_')}").TARGET
    return found

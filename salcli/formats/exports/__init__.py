"""An eraser as other programs load it: one dense affine map, and the files it is written to.

A target is one module with a `Target`, and an entry in `TARGETS`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ParameterError, UsageError


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
        """Dimensions."""
        return len(self.bias)


@dataclass(frozen=True)
class Target:
    """A kind of file, or folder, that an eraser can be exported to."""

    name: str
    suffixes: tuple[str, ...]
    """Of outputs that are of this kind unless another one is requested."""
    write: Callable[[str, DenseMap, bool], list[str]]
    """Writes a map to a path, whole or not at all, in double precision or not; returns the files it wrote."""
    is_folder: bool = False
    """Whether the output is a folder that exists."""
    has_double: bool = False
    """Whether it can be written in double precision."""


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

"""`TransportEraser`: rows of each class are mapped to one Gaussian, as far as a posterior of the class is sure.

With q_z(x) the posterior of the class of the row as it is, g(x) a gate in [0, 1] and w_z = g q_z:

    x₁ = x − g V Vᵀ(x − mean)                    V spans the differences of class means (SAL)
    x' = x₁ + Σ_z w_z (A_z − I)(x₁ − centre)     A_z is the optimal map of class z to the barycentre of all classes

The classes' means after the first step are one, the centre; A_z leaves the directions V alone.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.blocks import BlockEraser, Change, require_float64
from salcli.erasers.linear import ORTHONORMAL
from salcli.errors import RangeError, ShapeError
from salcli.linalg.blas import subtract_product
from salcli.linalg.decompositions import orthonormality_error, tiled_product

Array = NDArray[np.float64]
_local = threading.local()


@dataclass(frozen=True, eq=False)
class Posterior:
    """Which class a row belongs to, by linear functions of it, and how far it is moved for that."""

    weights: Array
    """`[d, c]`"""
    bias: Array
    """`[c]`: log p(z | x) = xᵀ weights + bias, up to a constant."""
    certain: float
    """The lead of the likeliest class over the next, in log odds, from which on rows are moved the whole way; with less
    they are moved in proportion. 0: all rows are."""

    def __call__(self, x: Array) -> Array:
        """Return w `[n, c]` of rows `x` `[n, d]`: the posterior times the gate."""
        logits = tiled_product(x, self.weights)
        logits += self.bias
        logits -= logits.max(axis=1, keepdims=True)
        w: Array = np.exp(logits)
        w /= w.sum(axis=1, keepdims=True)
        if self.certain:
            second = np.partition(logits, -2, axis=1)[:, -2]  # the first is 0
            w *= np.minimum(second / -self.certain, 1)[:, None]
        return w


@dataclass(frozen=True, eq=False)
class TransportEraser(BlockEraser):
    """Removes the differences of class means, and of class covariances as far as the posterior of the class is sure."""

    kind: ClassVar[str] = "transport"
    names: ClassVar[tuple[str, ...]] = (
        "mean",
        "directions",
        "centre",
        "maps",
        "posterior_weights",
        "posterior_bias",
        "certain",
    )

    mean: Array
    """`[d]` zeros, or the mean of the fitted rows, whose coordinates along the directions rows then keep."""
    directions: Array
    """V `[d, k]`, orthonormal."""
    centre: Array
    """`[d]` mean of every class after the first step."""
    maps: Array
    """A `[c, d, d]`, symmetric."""
    posterior: Posterior

    def __post_init__(self) -> None:
        (c, d), k = self.maps.shape[:2], self.directions.shape[-1]
        found = (self.mean, self.directions, self.centre, self.maps, self.posterior.weights, self.posterior.bias)
        shapes = ((d,), (d, k), (d,), (c, d, d), (d, c), (c,))
        if tuple(part.shape for part in found) != shapes or not 1 <= k <= d or c < 2:
            raise ShapeError(
                f"shapes {', '.join(str(part.shape) for part in found)} are not those of a transport of "
                f"{c} classes in {d} dimensions"
            )
        if not all(np.isfinite(part).all() for part in (*found, self.posterior.certain)) or self.posterior.certain < 0:
            raise RangeError("an eraser's numbers must be finite, and its gate at least 0")
        if orthonormality_error(self.directions) > ORTHONORMAL:
            raise ShapeError("its directions are not orthonormal")
        if not np.array_equal(self.maps, self.maps.transpose(0, 2, 1)):
            raise ShapeError("its maps are not symmetric")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return len(self.mean)

    @property
    def k(self) -> int:
        """Directions that are removed: those of the class means."""
        return int(self.directions.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes c."""
        return len(self.maps)

    def _changed(self, x: NDArray[Any], strength: float, dtype: np.dtype[Any]) -> Change:  # noqa: ARG002 (others use them)
        return lambda block, spare: self.moved(block, spare, strength)

    def moved(self, x: Array, moved: Array, strength: float = 1.0) -> Array:
        """Return rows moved λ of the way, in the memory of `moved` `[n, d]`; that of `x` `[n, d]` is overwritten."""
        right, left_t, shifts = self._factors
        w = self.posterior(x)
        along = tiled_product(x - self.mean if self.mean.any() else x, right)
        along *= w.sum(axis=1, keepdims=True)
        np.copyto(moved, x)
        subtract_product(moved, along, left_t, times=strength)
        x -= self.centre  # not x₁ − centre: A_z − I is 0 along V
        part = _scratch(x)
        for z, shift in enumerate(shifts):
            np.multiply(x, w[:, z : z + 1], out=part)
            subtract_product(moved, part, shift, times=-strength)
        return moved

    def preimages(self, y: NDArray[Any], *, strength: float = 1.0) -> Array:
        """Return what erased rows may have been, once for each class, and how far each of these is believed.

        Where the posterior is sure of class z and the gate is open, a row is moved by

            y − centre = ((1 − λ) I + λ (A_z − V Vᵀ)) (x − centre)

        which is inverted for every z; of full strength, up to the coordinates along V, which are lost. The right class
        gives the row after the mean step alone, to which the other classes' preimages are compared by the posterior.

        Parameters
        ----------
        y : `[n, d]` erased rows
        strength : λ, at which they were erased

        Returns
        -------
        `[n, c d + c]`: c preimages, and the posterior of each class at its own one, in units of a column of y
        """
        (c, d), v = self.maps.shape[:2], self.directions
        away = y - self.centre
        found = np.empty((len(y), c * d + c))
        lost = 1.0 if strength == 1 else 0.0  # without it the matrix has no inverse
        for z, part in enumerate(np.split(found[:, : c * d], c, axis=1)):
            matrix = (1 - strength) * np.eye(d) + strength * self.maps[z] + (lost - strength) * (v @ v.T)
            np.matmul(away, np.linalg.inv(matrix), out=part)
            part += self.centre
            found[:, c * d + z] = self.posterior(part)[:, z]
        found[:, c * d :] *= float(np.sqrt(np.mean(away**2))) if len(away) else 1.0
        return found

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array]:
        shifts = self.maps.copy()
        np.einsum("cii->ci", shifts)[:] -= 1
        return np.ascontiguousarray(self.directions), self.directions.T.copy(), shifts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact."""
        posterior = (self.posterior.weights, self.posterior.bias, np.array(self.posterior.certain))
        return dict(
            zip(TransportEraser.names, (self.mean, self.directions, self.centre, self.maps, *posterior), strict=True)
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:  # noqa: ARG003 (others use it)
        """Return the eraser of an artifact (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        found = [require_float64(arrays, name) for name in TransportEraser.names]
        if (axes := [part.ndim for part in found]) != [1, 2, 1, 3, 2, 1, 0]:
            raise ShapeError(f"its arrays have {axes} axes, not those of a transport")
        mean, directions, centre, maps, weights, bias, certain = found
        return cls(mean, directions, centre, maps, Posterior(weights, bias, float(certain)))


def _scratch(like: Array) -> Array:
    """Return this thread's block of the shape of `like`, which is reused."""
    found: Array | None = getattr(_local, "block", None)
    if found is None or found.size < like.size:
        found = _local.block = np.empty(like.size)
    return found[: like.size].reshape(like.shape)

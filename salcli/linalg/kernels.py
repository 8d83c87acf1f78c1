"""Kernels, their Gram matrices in blocks, and the explicit features of landmarks (Nyström)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ParameterError, RankError, RowRangeError, ShapeError, UsageError
from salcli.linalg.decompositions import whole_tiles

Array = NDArray[np.float64]
PARAMETERS: dict[str, tuple[str, ...]] = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "linear": ()}
MAX_BLOCK_ROWS = 384
BLOCK_BYTES = 32 << 20
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Kernel:
    """rbf exp(−γ‖x−x'‖²), poly (γ xᵀx' + c₀)ᵖ, or linear xᵀx'; the defaults are the paper's."""

    name: str = "rbf"
    """rbf, poly or linear."""
    gamma: float | None = None
    """γ > 0; default: 0.1 for rbf, 1 for poly."""
    degree: int = 2
    """p ≥ 1 of poly."""
    coef0: float = 1.0
    """c₀ ≥ 0 of poly."""

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            raise ParameterError("kernel", self.name, f"expected one of {', '.join(PARAMETERS)}")
        if self.gamma is None:
            object.__setattr__(self, "gamma", 0.1 if self.name == "rbf" else 1.0)
        if not 0 < float(self.gamma or 0) < np.inf:
            raise ParameterError("gamma", self.gamma, "expected a positive number")
        if self.degree < 1 or not 0 <= self.coef0 < np.inf:
            raise UsageError(f"`degree={self.degree}` and `coef0={self.coef0}`: expected p ≥ 1 and c₀ ≥ 0")

    def against(self, y: NDArray[Any]) -> "KernelRow":
        """Return the function of rows x that computes K(x, y) with `y` `[m, d]`, of which it keeps a float64 copy."""
        y = y.astype(np.float64)
        if self.name != "rbf":
            return KernelRow(self, y, np.zeros(y.shape[1]), np.zeros(len(y)))
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected in the values of K
            centre = y.mean(axis=0)  # distances are invariant to a shift, and cancel less about a common centre
            y -= centre
        return KernelRow(self, y, centre, _squares(y))

    def gram(self, x: NDArray[Any], y: NDArray[Any]) -> Array:
        """Return the kernel of all pairs of rows of `x` `[n, d]` and `y` `[m, d]`: `[n, m]`.

        Raises
        ------
        ShapeError : the widths differ
        RowRangeError : kernel values that float64 cannot hold, in a row of x
        """
        return self.against(y)(x)

    def diagonal(self, x: NDArray[Any]) -> Array:
        """Return K(x, x) of every row of `x` `[n, d]`: `[n]`."""
        if self.name == "rbf":
            return np.ones(len(x))
        squares = _squares(x.astype(np.float64))
        return squares if self.name == "linear" else (float(self.gamma or 0) * squares + self.coef0) ** self.degree

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel's name and the parameters that it uses."""
        return {"name": self.name, **{name: getattr(self, name) for name in PARAMETERS[self.name]}}


@dataclass(frozen=True, eq=False)
class KernelRow:
    """κ(x) = (K(x, y₁) … K(x, yₘ)), in float64: differences of squares cancel."""

    kernel: Kernel
    y: Array
    """`[m, d]`, about `centre` for rbf."""
    centre: Array
    """`[d]`"""
    squares: Array
    """`[m]` ‖y‖², for rbf."""

    def __call__(self, x: NDArray[Any]) -> Array:
        """Return the kernel of rows `x` `[n, d]` with the m rows.

        Returns
        -------
        `[n, m]`

        Raises
        ------
        ShapeError : rows of another width
        RowRangeError : kernel values that float64 cannot hold, in a row of x
        """
        if x.ndim != 2 or x.shape[1] != self.y.shape[1]:
            raise ShapeError(f"the kernel compares rows of {self.y.shape[1]} dimensions, not {x.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._values(x.astype(np.float64, copy=False))
            if not np.isfinite(values.sum()) and not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values).all(axis=1)))
                raise RowRangeError(
                    row,
                    f"values of the {self.kernel.name} kernel pass the range of float64: "
                    "scale the embeddings, or `gamma`, down",
                )
        return values

    def _values(self, x: Array) -> Array:
        kernel, gamma = self.kernel, float(self.kernel.gamma or 0)
        if kernel.name == "rbf":
            x = x - self.centre
            products: Array = x @ self.y.T
            products *= 2 * gamma
            products -= gamma * _squares(x)[:, None]
            products -= gamma * self.squares
            return np.exp(np.minimum(products, 0, out=products), out=products)
        products = x @ self.y.T
        if kernel.name == "poly":
            products *= gamma
            products += kernel.coef0
            np.power(products, kernel.degree, out=products)
        return products


def _squares(x: Array) -> Array:
    squares: Array = np.einsum("ij,ij->i", x, x)
    return squares


def block_rows(n_columns: int) -> int:
    """Return how many rows of a Gram matrix with `n_columns` columns are computed at once: about 32 MiB, at most."""
    return whole_tiles(min(MAX_BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, n_columns))))


def blocks(n: int, n_columns: int) -> Iterator[slice]:
    """Return slices of `block_rows(n_columns)` rows that cover the `n` rows of a Gram matrix of `n_columns` columns."""
    size = block_rows(n_columns)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


@contextmanager
def counted_from(start: int) -> Iterator[None]:
    """Count the row in a `RowRangeError` of the block from the whole batch, whose row `start` is the block's first."""
    try:
        yield
    except RowRangeError as error:
        raise RowRangeError(start + error.row, error.why) from error


@dataclass(frozen=True, eq=False)
class NystromMap:
    """φ̃(x) = whitenerᵀ κ̃(x): explicit features whose inner products are the kernel's, on the landmarks' span.

    Rows whose kernel function lies in the span of the landmarks' (the landmarks themselves, or all rows of a fit whose
    rows are the landmarks) keep their kernel values exactly (Williams & Seeger 2001).
    """

    is_by_row: ClassVar[bool] = False  # products of other shapes round differently
    kernel: Kernel
    landmarks: NDArray[Any]
    """`[m, d]`"""
    whitener: Array
    """`[m, r]` W with Wᵀ K̃ W = I on the landmarks' Gram matrix K̃, without eigenvalues that are zero to rounding."""

    @classmethod
    def of(cls, kernel: Kernel, landmarks: NDArray[Any]) -> "NystromMap":
        """Return the map whose features whiten the landmarks' Gram matrix (Williams & Seeger 2001).

        Parameters
        ----------
        kernel : of the features
        landmarks : `[m, d]`

        Raises
        ------
        RankError : the Gram matrix is zero to rounding
        """
        values, vectors = np.linalg.eigh(kernel.gram(landmarks, landmarks))
        kept = np.flatnonzero(values > max(values[-1], 0) * len(values) * EPS * 10)[::-1]
        if not len(kept):
            raise RankError("the landmarks' kernel matrix is zero: there are no features to erase from")
        vectors = vectors[:, kept]
        largest = np.argmax(np.abs(vectors), axis=0)
        vectors *= np.where(vectors[largest, np.arange(len(kept))] < 0, -1.0, 1.0)
        return cls(kernel, landmarks, vectors / np.sqrt(values[kept]))

    @classmethod
    def spanning(cls, kernel: Kernel, rows: NDArray[Any]) -> "NystromMap":
        """Return a map whose landmarks are a subset of the rows that spans all their kernel functions to rounding.

        A pivoted Cholesky factorization of the `[n, n]` Gram matrix finds it in n³/3 operations, in place; the features
        are those of `of` with all rows as landmarks, rotated.

        Parameters
        ----------
        kernel : of the features
        rows : `[n, d]`

        Raises
        ------
        RankError : the Gram matrix is zero to rounding
        """
        from scipy.linalg.lapack import dpstrf, dtrtri

        gram = np.empty((len(rows), len(rows)), order="F")
        row = kernel.against(rows)
        for block in blocks(len(rows), len(rows)):
            gram[:, block] = row(rows[block]).T
        floor = float(gram.diagonal().max(initial=0.0)) * len(rows) * EPS * 10
        factor, order, rank, _ = dpstrf(gram, lower=1, tol=floor, overwrite_a=1)
        if not rank or not floor:
            raise RankError("the rows' kernel matrix is zero: there are no features to erase from")
        inverse, _ = dtrtri(factor[:rank, :rank], lower=1, overwrite_c=1)
        return cls(kernel, rows[order[:rank] - 1], np.triu(inverse.T))

    @property
    def width(self) -> int:
        """Features r."""
        return int(self.whitener.shape[1])

    def __call__(self, x: NDArray[Any]) -> Array:
        """Return the features `[n, r]` of rows `x` `[n, d]`.

        Rows are mapped in blocks of one size, so that no row's digits depend on its batch.
        """
        features = np.empty((len(x), self.width))
        rows = block_rows(len(self.landmarks))
        for start in range(0, len(x), rows):
            part = x[start : start + rows]
            n = len(part)
            if n < rows:
                part = np.concatenate([part, np.zeros((rows - n, x.shape[1]), x.dtype)])
            with counted_from(start):
                features[start : start + n] = (self._row(part) @ self.whitener)[:n]
        return features

    @cached_property
    def _row(self) -> KernelRow:
        return self.kernel.against(self.landmarks)

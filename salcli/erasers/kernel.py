"""Erasers of a kernel's feature space: by its inner products (`KernelEraser`), or with explicit features."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.base import Eraser
from salcli.erasers.blocks import require_float64
from salcli.erasers.linear import LinearEraser
from salcli.errors import RangeError, ShapeError
from salcli.linalg.kernels import Kernel, KernelRow, NystromMap, blocks, counted_from
from salcli.streaming import memory

Array = NDArray[np.float64]
FLOATS = (np.float64, np.float32, np.float16)
WHITENED, LEAST_WHITE = 16, 1e-3
"""Number of features that are checked when an artifact is read, and their largest deviation from orthonormal."""
MOST_PRODUCTS = 1 << 33  # of numbers; a check of the features of more landmarks takes seconds
ORTHONORMAL = 1e-5  # for directions computed from a dual: an ill-conditioned Gram matrix costs digits


@dataclass(frozen=True, eq=False)
class KernelEraser(Eraser):
    """Removes directions u = Σ wⱼ φ(x̃ⱼ) of feature space, known by inner products alone."""

    kind: ClassVar[str] = "inner products"
    names: ClassVar[tuple[str, ...]] = ("landmarks", "dual", "offset")
    keeps_space: ClassVar[bool] = False

    kernel: Kernel
    landmarks: NDArray[Any]
    """`[m, d]` x̃; of the exact route: all fitted rows."""
    dual: Array
    """`[m, k]` W, orthonormal under the landmarks' Gram matrix: WᵀK̃W = I."""
    offset: Array
    """`[k]` the coordinates that erased rows have in the removed directions: zeros, or Uᵀμ of the fitted rows."""

    def __post_init__(self) -> None:
        m, k = self.dual.shape if self.dual.ndim == 2 else (0, 0)
        if self.landmarks.ndim != 2 or len(self.landmarks) != m or self.offset.shape != (k,) or not 1 <= k <= m:
            raise ShapeError(
                f"landmarks {self.landmarks.shape}, dual {self.dual.shape} and offset {self.offset.shape} "
                "are not [m, d], [m, k] and [k]"
            )
        if not all(np.isfinite(part).all() for part in (self.landmarks, self.dual, self.offset)):
            raise RangeError("an eraser's landmarks and coefficients must be finite")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return int(self.landmarks.shape[1])

    @property
    def k(self) -> int:
        """Directions it removes."""
        return int(self.dual.shape[1])

    @property
    def is_orthogonal(self) -> bool:
        """True: directions are orthonormal under the kernel."""
        return True

    @property
    def d_out(self) -> int:
        """Width of the vectors that it would write: at most one feature a landmark."""
        return len(self.landmarks)

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return erased feature vectors of rows `x` `[n, d]`: `[n, r]` (see `to_features`, `FeatureEraser`)."""
        return self.to_features()(x, strength=strength, dtype=dtype, out=out)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact."""
        return {"landmarks": self.landmarks, "dual": self.dual, "offset": self.offset}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        """Return the eraser of an artifact (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        found = cls(
            kernel_of(header), arrays["landmarks"], require_float64(arrays, "dual"), require_float64(arrays, "offset")
        )
        require_landmarks(header, found.landmarks)
        if not header["is_centred"] and found.offset.any():
            raise ShapeError("`is_centred` is false in its header, but its offset is not zero")
        return found

    def truncated(self, k: int) -> "KernelEraser":
        """Return the eraser that removes the first `k` of its directions only."""
        return KernelEraser(self.kernel, self.landmarks, self.dual[:, :k], self.offset[:k])

    def by_inner_products(self) -> "KernelEraser":
        """Return the eraser itself."""
        return self

    def to_features(self, remedy: str = "fit with `landmarks=M`") -> "FeatureEraser":
        """Return an eraser that writes vectors, if the kernel matrix of the landmarks fits into memory.

        Parameters
        ----------
        remedy : what needs less memory, as the message ends

        Raises
        ------
        NotEnoughMemory : it does not
        RangeError : see `explicit`
        """
        purpose = f"to write feature vectors, the kernel matrix of the eraser's {len(self.landmarks):,} rows"
        memory.require_memory(self.explicit_bytes, purpose, remedy)
        return self.explicit()

    @property
    def explicit_bytes(self) -> int:
        """Bytes that `explicit` takes: the landmarks' Gram matrix, and as much again while it is factored."""
        return 2 * 8 * len(self.landmarks) ** 2

    @cached_property
    def _row(self) -> KernelRow:
        return self.kernel.against(self.landmarks)

    def coordinates(self, x: NDArray[Any]) -> Array:
        """Return Uᵀφ(x) = Wᵀκ(x) (paper, eq. kernel-proj) of rows `x` `[n, d]`: `[n, k]`.

        Raises
        ------
        ShapeError : rows of another width
        RowRangeError : kernel values that float64 cannot hold
        """
        found = np.empty((len(x), self.k))
        for rows in blocks(len(x), len(self.landmarks)):
            with counted_from(rows.start):
                found[rows] = self._row(x[rows]) @ self.dual
        return found

    def erased_gram(self, x: NDArray[Any], y: NDArray[Any], *, strength: float = 1.0) -> Array:
        """Return K̂, the inner products of erased rows.

        Parameters
        ----------
        x : `[a, d]`
        y : `[b, d]`
        strength : λ ∈ [0, 1], the share of the way

        Returns
        -------
        `[a, b]`; not centred: K(x, y) − (Wᵀκ(x))ᵀ (Wᵀκ(y)), as in the paper

        Raises
        ------
        ShapeError : rows of another width
        RowRangeError : kernel values that float64 cannot hold
        """
        return self.erase_gram(self.kernel.gram(x, y), self.coordinates(x), self.coordinates(y), strength=strength)

    def erase_gram(self, gram: Array, at_x: Array, at_y: Array, *, strength: float = 1.0) -> Array:
        """Return K̂ `[a, b]`, computed from K in its memory.

        An erased row is f − λ U c with c = Uᵀf − offset; K̂ is the product of two of them.

        Parameters
        ----------
        gram : K `[a, b]`, overwritten
        at_x : `[a, k]` coordinates of its rows (see `coordinates`)
        at_y : `[b, k]` coordinates of its columns
        strength : λ ∈ [0, 1], the share of the way
        """
        c_x, c_y = at_x - self.offset, at_y - self.offset
        left = np.concatenate([at_x, c_x], axis=1) * -strength
        right = np.concatenate([c_y, at_y - strength * c_y], axis=1)
        gram += left @ right.T
        return gram

    def explicit(self) -> "FeatureEraser":
        """Return an eraser with features for the landmarks' whole span, which writes any row as an erased vector.

        Raises
        ------
        RankError : the landmarks' Gram matrix is zero to rounding
        RangeError : it is too ill-conditioned for the directions to be rebuilt
        """
        features = NystromMap.spanning(self.kernel, self.landmarks)
        directions = features.whitener.T @ self.coordinates(features.landmarks)
        values, vectors = np.linalg.eigh(directions.T @ directions)
        if np.max(np.abs(values - 1)) > ORTHONORMAL:
            raise RangeError(
                f"the kernel matrix of {len(self.landmarks)} landmarks is too ill-conditioned to write features "
                "(its directions come back with length "
                f"{np.sqrt(max(values[0], 0)):.6g}): fit with `landmarks=M`"
            )
        directions = directions @ (vectors / np.sqrt(values)) @ vectors.T
        return FeatureEraser(features, LinearEraser(directions @ self.offset, directions, directions))


@dataclass(frozen=True, eq=False)
class FeatureEraser(Eraser):
    """A feature map followed by a linear eraser: takes rows, returns erased feature vectors."""

    kind: ClassVar[str] = "features"
    names: ClassVar[tuple[str, ...]] = ("landmarks", "whitener", "feature_mean", "left", "right")
    keeps_space: ClassVar[bool] = False
    least_dtype: ClassVar[type[np.floating[Any]]] = np.float32  # a kernel's values fill the range of 16 bits

    features: NystromMap
    linear: LinearEraser
    """In the r dimensions of the features."""

    def __post_init__(self) -> None:
        m, r = self.features.whitener.shape if self.features.whitener.ndim == 2 else (0, 0)
        if self.features.landmarks.ndim != 2 or len(self.features.landmarks) != m or self.linear.d != r:
            raise ShapeError(
                f"landmarks {self.features.landmarks.shape}, whitener {self.features.whitener.shape} and directions "
                f"{self.linear.left.shape} are not [m, d], [m, r] and [r, k]"
            )
        if not all(np.isfinite(part).all() for part in (self.features.landmarks, self.features.whitener)):
            raise RangeError("an eraser's landmarks and whitener must be finite")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return int(self.features.landmarks.shape[1])

    @property
    def k(self) -> int:
        """Directions it removes."""
        return self.linear.k

    @property
    def is_orthogonal(self) -> bool:
        """Whether it is an orthogonal projection of features."""
        return self.linear.is_orthogonal

    @property
    def d_out(self) -> int:
        """Width r of the vectors it returns."""
        return self.linear.d

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,  # noqa: ARG002 (a linear eraser makes use of it)
    ) -> NDArray[Any]:
        """Return the erased features `[n, r]` of rows `x` `[n, d]` (see `Eraser.__call__`)."""
        erased = np.empty((len(x), self.d_out), dtype or np.float64)
        for rows in blocks(len(x), self.d_out):
            with counted_from(rows.start):
                erased[rows] = self.linear(self.features(x[rows]), strength=strength, dtype=dtype)
        return erased

    def reduce(
        self,
        x: NDArray[Any],
        *,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,  # noqa: ARG002 (a linear eraser makes use of it)
    ) -> NDArray[Any]:
        """Return the r − k coordinates of features that remain of rows `x` `[n, d]` (see `LinearEraser.reduce`)."""
        erased = np.empty((len(x), self.d_out - self.k), dtype or np.float64)
        for rows in blocks(len(x), self.d_out):
            with counted_from(rows.start):
                erased[rows] = self.linear.reduce(self.features(x[rows]), dtype=dtype)
        return erased

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:
        """Return what rounding to `dtype` brings back (see `LinearEraser.residue`)."""
        return self.linear.residue(self.features(x), dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact."""
        features, linear = self.features, self.linear
        mapped = {"landmarks": features.landmarks, "whitener": features.whitener}
        return {**mapped, "feature_mean": linear.mean, "left": linear.left, "right": linear.right}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        """Return the eraser of an artifact (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        features = NystromMap(kernel_of(header), arrays["landmarks"], require_float64(arrays, "whitener"))
        linear = {"mean": arrays["feature_mean"], "left": arrays["left"], "right": arrays["right"]}
        found = cls(features, LinearEraser.from_arrays(linear, header))
        require_landmarks(header, features.landmarks)
        require_whitened(features)
        return found

    def truncated(self, k: int) -> "FeatureEraser":
        """Return the eraser that removes the first `k` of its directions only."""
        return FeatureEraser(self.features, self.linear.truncated(k))

    def by_inner_products(self) -> KernelEraser:
        """Return the same directions as combinations of the landmarks: U = Φ̃ (whitener right)."""
        whitener, linear = self.features.whitener, self.linear
        return KernelEraser(
            self.features.kernel, self.features.landmarks, whitener @ linear.right, linear.mean @ linear.right
        )


def kernel_of(header: dict[str, Any]) -> Kernel:
    """Return the kernel that the `header` of an artifact names.

    Raises
    ------
    ShapeError : it is not understood
    UsageError : a parameter is out of range
    """
    try:
        return Kernel(**header["kernel"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise ShapeError("its kernel is not understood") from error


def require_landmarks(header: dict[str, Any], landmarks: NDArray[Any]) -> None:
    """Check the landmarks of an artifact.

    Parameters
    ----------
    header : of the artifact
    landmarks : `[m, d]`

    Raises
    ------
    ShapeError : they are no floats, or not as many as in the header
    """
    if landmarks.dtype not in FLOATS:
        raise ShapeError(f"landmarks is {landmarks.dtype}, expected floats of 16, 32 or 64 bits")
    n = header.get("landmarks", {}).get("n")
    if n != len(landmarks):
        raise ShapeError(f"its header has landmarks = {n}, its arrays {len(landmarks)}")


def require_whitened(features: NystromMap) -> None:
    """Check that the first of `features` are orthonormal under the kernel: those of other landmarks would not be.

    Raises
    ------
    ShapeError : they are not
    """
    landmarks, some = features.landmarks, features.whitener[:, :WHITENED]
    if landmarks.size * len(landmarks) > MOST_PRODUCTS:
        return
    row = features.kernel.against(landmarks)
    products = np.concatenate([row(landmarks[part]) @ some for part in blocks(len(landmarks), len(landmarks))])
    error = float(np.max(np.abs(some.T @ products - np.eye(some.shape[1]))))
    if not error < LEAST_WHITE:
        raise ShapeError(f"its features are not those of its landmarks ({error:.2g} off)")

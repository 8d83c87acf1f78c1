"""The decompositions that erasers need, with fixed signs and one definition of rank."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
LEAST_SHARE = 1e-9  # of a column's size, or of its square: less does not count for the rank of columns
SMALL_PRODUCT = 1_000_000  # multiplications up to which OpenBLAS has kernels that do not copy their operands first
TILE = 96  # a multiple of the rows of BLAS's kernels, which round the remaining rows differently
LEAST_POWER = 1e-280  # squares that underflow are lost beside such a sum, but not in a smaller one


class ThinSVD(NamedTuple):
    """`u` `[d, m]`, `s` `[m]` descending, `vt` `[m, c]` with m = min(d, c): the matrix is `u * s @ vt`."""

    u: Array
    s: Array
    vt: Array


def thin_svd(matrix: Array) -> ThinSVD:
    """Return the thin SVD of `matrix` `[d, c]`; the largest entry of each column of `u`, in size, is positive.

    The matrix is scaled by a power of two first, so that its entries may have any size.
    """
    exponent = int(np.frexp(np.max(np.abs(matrix), initial=0.0))[1])
    u, s, vt = np.linalg.svd(np.ldexp(matrix, -exponent), full_matrices=False)
    s = np.ldexp(s, exponent)
    largest = np.argmax(np.abs(u), axis=0)
    signs = np.where(u[largest, np.arange(u.shape[1])] < 0, -1.0, 1.0)
    return ThinSVD(u * signs, s, vt * signs[:, None])


def singular_values(matrix: Array) -> Array:
    """Return the singular values of `matrix` `[d, c]` alone, descending: several times faster than `thin_svd`."""
    exponent = int(np.frexp(np.max(np.abs(matrix), initial=0.0))[1])
    return np.ldexp(np.linalg.svd(np.ldexp(matrix, -exponent), compute_uv=False), exponent)


def numerical_rank(singular_values: Array, shape: tuple[int, ...], floor: float = 0.0) -> int:
    """Return how many singular values are above σ₁·max(shape)·eps·10, and above `floor`.

    Parameters
    ----------
    singular_values : `[m]`, descending
    shape : of the matrix
    floor : absolute bound on rounding noise
    """
    if not len(singular_values):
        return 0
    return int(np.sum(singular_values > max(singular_values[0] * max(shape) * EPS * 10, floor)))


def column_rank(columns: Array, *, is_centred: bool) -> int:
    """Return the number of linearly independent columns, each measured by its own size.

    Parameters
    ----------
    columns : `[n, c]`
    is_centred : subtract the mean of each column first
    """
    sizes = np.linalg.norm(columns, axis=0)
    if is_centred:
        columns = columns - columns.mean(axis=0)
    lengths = np.linalg.norm(columns, axis=0)
    varies = lengths > LEAST_SHARE * sizes  # the rest is rounding
    units = columns[:, varies] / lengths[varies]
    return int(np.linalg.matrix_rank(units.T @ units, tol=LEAST_SHARE, hermitian=True))


def orthonormality_error(columns: NDArray[Any]) -> float:
    """Return max |UᵀU − I| of `columns` U `[d, k]`: 0 if they are orthonormal."""
    return float(np.max(np.abs(columns.T @ columns - np.eye(columns.shape[1])), initial=0.0))


class Reflections(NamedTuple):
    """Q = I − v t vᵀ, the orthogonal matrix whose first k columns span U, kept as a rank-k change.

    `v` `[d, k]` unit lower trapezoidal, `t` `[k, k]` upper triangular (compact WY form; Schreiber & Van Loan 1989).
    """

    v: Array
    t: Array


def completing_reflections(u: Array) -> Reflections:
    """Return an orthogonal matrix, never formed, whose first k columns span the orthonormal columns of `u` `[d, k]`."""
    h, tau = np.linalg.qr(u, mode="raw")
    k = u.shape[1]
    v = np.tril(h.T, -1)
    v[np.arange(k), np.arange(k)] = 1.0
    # tau = 0 marks a reflection that does nothing; dropping it keeps t⁻¹ finite.
    v = v[:, tau != 0]
    gram = v.T @ v
    inverse_t = np.triu(gram, 1) + np.diag(np.diag(gram) / 2)
    return Reflections(v, np.linalg.inv(inverse_t))


def all_finite(x: NDArray[Any]) -> bool:
    """Return whether all elements of `x`, of any shape, are finite; the sum is checked first: NaN and Inf propagate."""
    with np.errstate(over="ignore", invalid="ignore"):
        if x.flags.c_contiguous and x.dtype in (np.float32, np.float64):
            total = x.reshape(-1) @ x.reshape(-1)
        else:
            total = x.sum(dtype=np.float32 if x.itemsize < 4 else None)
    return bool(np.isfinite(total)) or bool(np.isfinite(x).all())


def power_of_two(n: int) -> int:
    """Return the largest power of two up to `n` (at least 1)."""
    return 1 << (max(1, n).bit_length() - 1)


def whole_tiles(n: int) -> int:
    """Return the largest of 1, 2, 4 … times `TILE` that is at most `n` (at least one `TILE`), as rows of a block.

    Partitions are powers of two of rows, which such blocks divide better than other multiples do.
    """
    return power_of_two(n // TILE) * TILE


def tiled_product(x: Array, matrix: Array) -> Array:
    """Return rows `x` `[n, d]` times `matrix` `[d, k]`: `[n, k]`; in tiles, where BLAS is faster on small products."""
    n, (d, k) = len(x), matrix.shape
    rows = next((rows for rows in (TILE, TILE // 2, TILE // 4) if rows * d * k <= SMALL_PRODUCT), n)
    if rows >= n or n % rows:
        return x @ matrix
    product: Array = (x.reshape(-1, rows, d) @ matrix).reshape(n, k)
    return product


def norm(x: NDArray[Any]) -> float:
    """Return √Σ x² of `x` of any shape, also where squares underflow float64; infinite where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        flat = x.reshape(-1)
        power = float(flat @ flat)
        if power >= LEAST_POWER or (largest := float(np.max(np.abs(flat), initial=0.0))) == 0:
            return math.sqrt(power)
        raised = np.ldexp(flat, -math.frexp(largest)[1])
        return math.ldexp(math.sqrt(float(raised @ raised)), math.frexp(largest)[1])


def symmetric_eigen(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues `[d]`, descending, and eigenvectors `[d, d]`, as columns, of a symmetric `matrix` `[d, d]`.

    The matrix is scaled by a power of two first, so that its entries may have any size.
    """
    exponent = int(np.frexp(np.max(np.abs(matrix), initial=0.0))[1])
    scaled = np.ldexp(matrix, -exponent)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    return np.ldexp(values[::-1], exponent), np.ascontiguousarray(vectors[:, ::-1])

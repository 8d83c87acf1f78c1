"""kSAL: removal in a kernel's feature space (Shao, Ziser & Cohen 2023, "Kernel SAL"), without an n×n eigenproblem.

The paper takes the top eigenvectors of Γ. As printed, Γ = K_φ K_ψ; its own proof uses Γ = K_ψ K_φ, and only that makes
Φw a left singular vector of Ω. With K_ψ = ZZᵀ every such eigenvector is w = Zv, where (Zᵀ K_φ Z) v = λ v is c×c.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RankError
from salcli.spectral.kernels import BLOCK_ROWS, EPS, Kernel
from salcli.spectral.sal import choose_k

Array = NDArray[np.float64]
Map = Callable[[Callable[[slice], Array], Iterable[slice]], Iterable[Array]]


@dataclass(frozen=True, eq=False)
class DualEraser:
    """Directions of feature space as combinations of the fitted rows: u = Σ wⱼ φ(xⱼ)."""

    kernel: Kernel
    rows: NDArray[Any]
    """`[n, d]` the fitted rows."""
    dual: Array
    """`[n, k]` W, orthonormal under the (centred) kernel matrix: WᵀKW = I."""
    offset: Array
    """`[k]` Wᵀ K 1/n, what centring takes off; zero where the fit was not centred."""
    mean: float | None
    """(1/n²) Σ K over the fitted rows; None where the fit was not centred."""
    singular_values: Array
    """`[c]` of Ω in feature space, falling."""
    rank: int
    """How many of them are more than rounding."""
    k_rule: dict[str, Any]
    """How k was chosen."""

    def coordinates(self, x: NDArray[Any]) -> Array:
        """Give Uᵀφ(x) = Wᵀκ(x) (paper, eq. kernel-proj), centred as the fit was: `[b, k]`."""
        return self._against_rows(x)[0]

    def _against_rows(self, x: NDArray[Any]) -> tuple[Array, Array]:
        """Give Wᵀκ(x), centred, and the mean of κ(x)."""
        coordinates, means = np.empty((len(x), self.dual.shape[1])), np.empty(len(x))
        for rows in _blocks(len(x)):
            values = self.kernel.gram(x[rows], self.rows)
            coordinates[rows], means[rows] = values @ self.dual - self.offset, values.mean(axis=1)
        return coordinates, means

    def erased_gram(self, x: NDArray[Any], y: NDArray[Any]) -> Array:
        """Give K̂(x, y) = K(x, y) − (Wᵀκ(x))ᵀ (Wᵀκ(y)), `[a, b]`; K is centred about the fitted rows if the fit was."""
        (at_x, mean_x), (at_y, mean_y) = self._against_rows(x), self._against_rows(y)
        erased = self.kernel.gram(x, y) - at_x @ at_y.T
        if self.mean is not None:
            erased += self.mean - mean_x[:, None] - mean_y
        return erased


def fit_ksal(
    x: NDArray[Any],
    z: Array,
    kernel: Kernel,
    k: int | None = None,
    *,
    alpha: float | None = None,
    is_centred: bool = True,
    spread: Map = map,
) -> DualEraser:
    """Erase the k directions of feature space that covary most with Z; exact, in memory O(block · n).

    Parameters
    ----------
    x : `[n, d]`
    z : `[n, c]` one-hot or numbers
    kernel : of x; that of z is linear
    k, alpha, is_centred : as for `fit_sal`
    spread : maps a function over row blocks, perhaps on threads, keeping their order

    Returns
    -------
    DualEraser

    Raises
    ------
    RankError : Ω is zero to rounding, or k is above its rank
    """
    n = len(x)
    design = z - z.mean(axis=0) if is_centred else np.asarray(z, dtype=np.float64)
    with_ones = np.column_stack([design, np.full(n, 1 / n)])  # K 1/n rides along: centring needs it
    products = np.concatenate([*spread(lambda rows: kernel.gram(x[rows], x) @ with_ones, _blocks(n))])
    small = design.T @ products[:, :-1]  # M = Zᵀ K Z
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    power = float(np.sum(design**2)) / n * float(np.abs(products[:, -1]).max(initial=0.0))
    floor = max(max(values[0], 0.0) * 10 * max(z.shape[1], np.sqrt(n)), n * power) * EPS
    rank = int(np.sum(values > floor))
    singular_values = np.sqrt(np.maximum(values, 0)) / n
    if rank == 0:
        raise RankError(
            f"zero covariance (rank 0): the kernel's features do not vary with the labels on these {n} rows; "
            "there is nothing to remove"
        )
    chosen, rule = choose_k(singular_values, rank, k, alpha)
    dual = design @ (vectors[:, :chosen] / np.sqrt(values[:chosen]))
    largest = np.argmax(np.abs(dual), axis=0)
    dual *= np.where(dual[largest, np.arange(chosen)] < 0, -1.0, 1.0)
    offset = dual.T @ products[:, -1] if is_centred else np.zeros(chosen)
    mean = float(products[:, -1].mean()) if is_centred else None
    return DualEraser(kernel, x, dual, offset, mean, singular_values, rank, rule)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK_ROWS, n)) for start in range(0, n, BLOCK_ROWS))

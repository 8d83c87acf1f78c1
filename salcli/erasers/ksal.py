"""kSAL: removal in a kernel's feature space (Shao, Ziser & Cohen 2023, "Kernel SAL"), without an n×n eigenproblem.

The paper takes the top eigenvectors of Γ. As printed, Γ = K_φ K_ψ; its own proof uses Γ = K_ψ K_φ, and only that makes
Φw a left singular vector of Ω. With K_ψ = ZZᵀ every such eigenvector is w = Zv, where (Zᵀ K_φ Z) v = λ v is c×c.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.kernel import KernelEraser
from salcli.erasers.sal import SpectralFit, choose_k
from salcli.errors import RankError
from salcli.linalg.kernels import EPS, Kernel, block_rows, blocks

Array = NDArray[np.float64]
Spread = Callable[[Callable[[slice], Array], Iterable[slice]], Iterable[Array]]


def fit_ksal(
    x: NDArray[Any],
    z: Array,
    kernel: Kernel,
    k: int | None = None,
    *,
    alpha: float | None = None,
    is_centred: bool = True,
    spread: Spread = map,
) -> SpectralFit[KernelEraser]:
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
    SpectralFit, whose eraser's coefficients W [n, k] are orthonormal under K: WᵀKW = I

    Raises
    ------
    RankError : Ω is zero to rounding, or k is above its rank
    """
    n = len(x)
    design = z - z.mean(axis=0) if is_centred else np.asarray(z, dtype=np.float64)
    with_ones = np.column_stack([design, np.full(n, 1 / n)])  # K 1/n rides along: centring needs it
    row = kernel.against(x)
    products = np.concatenate([*spread(lambda rows: row(x[rows]) @ with_ones, blocks(n, n))])
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
    return SpectralFit(KernelEraser(kernel, x, dual, offset), singular_values, rank, rule, is_centred)


def exact_bytes(n: int, d: int, itemsize: int, n_columns: int, n_threads: int) -> int:
    """Bound the memory of `fit_ksal`: rows [n, d] and a float64 copy, a few of T [n, c], a block for each thread."""
    a_block = 8 * block_rows(n) * (n + 2 * d)
    return n * d * (itemsize + 8) + 4 * 8 * n * (n_columns + 2) + n_threads * a_block

"""Optimal transport between Gaussians, and their barycentre in the Bures (2-Wasserstein) metric; arrays in, arrays out.

Of centred Gaussians N(0, C) and N(0, B) the optimal map is the symmetric positive definite A with A C A = B (Knott &
Smith 1984); it is computed from C = L Lᵀ as A = L⁻ᵀ (Lᵀ B L)^½ L⁻¹, which is C^-½ (C^½ B C^½)^½ C^-½.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_ROUNDS, CLOSE = 100, 1e-12


def optimal_map(source: Array, target: Array) -> Array:
    """Return the symmetric positive definite A `[d, d]` with A C A = B.

    Parameters
    ----------
    source : C `[d, d]`, symmetric positive definite
    target : B `[d, d]`, the same

    Raises
    ------
    LinAlgError : C is not positive definite
    """
    from scipy.linalg import cholesky, solve_triangular

    lower = cholesky(source, lower=True, check_finite=False)
    found = _root(lower.T @ target @ lower)
    for _ in range(2):  # L⁻ᵀ on the left, and then L⁻¹ on the right
        found = solve_triangular(lower, found.T, lower=True, trans="T", overwrite_b=True, check_finite=False)
    return _symmetric(found)


def maps_to_barycentre(covariances: Array, weights: Array) -> Array:
    """Return the maps of Gaussians to their barycentre B.

    Of two Gaussians the barycentre lies on the geodesic between them, in closed form: with T the map from the first to
    the second, A₁ = w₁ I + w₂ T and A₂ = w₂ I + w₁ T⁻¹ (McCann 1997). Of more it is the fixed point of
    B ← M B M with M = Σ w_z T_z, T_z the map from B to C_z (Álvarez-Esteban et al. 2016, Theorem 4.2).

    Parameters
    ----------
    covariances : C_z `[c, d, d]`, symmetric positive definite, of sizes near 1
    weights : `[c]`, positive, with sum 1

    Returns
    -------
    A_z `[c, d, d]`, symmetric positive definite: A_z C_z A_z = B

    Raises
    ------
    LinAlgError : a covariance is not positive definite
    """
    d = covariances.shape[1]
    if len(covariances) == 2:
        maps = np.empty_like(covariances)
        maps[0] = optimal_map(*covariances)
        maps[1] = _symmetric(np.asarray(np.linalg.inv(maps[0]), np.float64))
        for matrix, own, other in zip(maps, weights, weights[::-1], strict=True):
            matrix *= other
            matrix.flat[:: d + 1] += own
        return maps
    middle = np.tensordot(weights, covariances, 1)
    for _ in range(MOST_ROUNDS):
        step: Array = np.tensordot(weights, np.stack([optimal_map(middle, c) for c in covariances]), 1)
        middle = _symmetric(step @ middle @ step)
        if np.max(np.abs(step - np.eye(d))) < CLOSE * d:
            break
    return np.stack([optimal_map(c, middle) for c in covariances])


def _root(matrix: Array) -> Array:
    """Return the root of a symmetric `matrix` `[d, d]` in C order, which is overwritten."""
    from scipy.linalg import eigh

    values, vectors = eigh(matrix.T, overwrite_a=True, check_finite=False, driver="evr")  # the one of least memory
    vectors *= np.maximum(values, 0) ** 0.25
    root: Array = vectors @ vectors.T
    return root


def _symmetric(matrix: Array) -> Array:
    half: Array = matrix + matrix.T
    half /= 2
    return half

"""Optimal transport between Gaussians, and their barycentre in the Bures (2-Wasserstein) metric; arrays in, arrays out.

Of centred Gaussians N(0, C) and N(0, B) the optimal map is the symmetric positive definite A with A C A = B (Knott &
Smith 1984); it is computed from C = L Lᵀ as A = L⁻ᵀ (Lᵀ B L)^½ L⁻¹, which is C^-½ (C^½ B C^½)^½ C^-½.
"""

import numpy as np
from numpy.typing import NDArray

from salcli.linalg.decompositions import symmetric_eigen

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
    lower = np.linalg.cholesky(source)
    inverse = np.linalg.inv(lower)
    return _symmetric(inverse.T @ _root(lower.T @ target @ lower) @ inverse)


def maps_to_barycentre(covariances: Array, weights: Array) -> tuple[Array, Array]:
    """Return the maps of Gaussians to their barycentre, and its covariance.

    Of two Gaussians the barycentre lies on the geodesic between them, in closed form: with T the map from the first to
    the second, A₁ = w₁ I + w₂ T and A₂ = w₂ I + w₁ T⁻¹ (McCann 1997). Of more it is the fixed point of
    B ← M B M with M = Σ w_z T_z, T_z the map from B to C_z (Álvarez-Esteban et al. 2016, Theorem 4.2).

    Parameters
    ----------
    covariances : C_z `[c, d, d]`, symmetric positive definite, of sizes near 1
    weights : `[c]`, positive, with sum 1

    Returns
    -------
    A_z `[c, d, d]`, symmetric positive definite, and B `[d, d]`: A_z C_z A_z = B

    Raises
    ------
    LinAlgError : a covariance is not positive definite
    """
    d = covariances.shape[1]
    if len(covariances) == 2:
        first, second = covariances
        there, eye = optimal_map(first, second), np.eye(d)
        back = _symmetric(np.asarray(np.linalg.inv(there), np.float64))
        maps: Array = np.stack([weights[0] * eye + weights[1] * there, weights[1] * eye + weights[0] * back])
        middle: Array = maps[0] @ first @ maps[0]
        return maps, _symmetric(middle)
    middle = np.tensordot(weights, covariances, 1)
    for _ in range(MOST_ROUNDS):
        step: Array = np.tensordot(weights, np.stack([optimal_map(middle, c) for c in covariances]), 1)
        middle = _symmetric(step @ middle @ step)
        if np.max(np.abs(step - np.eye(d))) < CLOSE * d:
            break
    return np.stack([optimal_map(c, middle) for c in covariances]), middle


def _root(matrix: Array) -> Array:
    values, vectors = symmetric_eigen(matrix)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def _symmetric(matrix: Array) -> Array:
    half: Array = (matrix + matrix.T) / 2
    return half

"""Whether a kernel's γ fits the rows: if it is too large, K is near the identity; if too small, near a constant."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, RankError
from salcli.linalg.kernels import PARAMETERS, Kernel, blocks

Array = NDArray[np.float64]
Rows = NDArray[np.floating]
SAMPLE_ROWS = 1 << 10
DISSIMILAR = 0.01  # squares of the similarities to all other rows, added up: below, a matrix is near the identity
CONSTANT = 0.01  # standard deviation of similarities over their mean: below, a matrix is near a constant


def sampled(x: Rows, seed: int) -> Rows:
    """Return the rows, or a random sample of `SAMPLE_ROWS` of them, in their order.

    Parameters
    ----------
    x : `[n, d]`
    seed : of the sample
    """
    if len(x) <= SAMPLE_ROWS:
        return x
    return x[np.sort(np.random.default_rng(seed).choice(len(x), SAMPLE_ROWS, replace=False))]


def fitting_gamma(x: Rows) -> float:
    """Return 1 / median squared distance between rows `x` `[n, d]`, those that are repeated taken once.

    Raises
    ------
    RankError : all rows are the same
    RangeError : float64 cannot hold it
    """
    exact = np.unique(x, axis=0).astype(np.float64)
    if len(exact) < 2:
        raise RankError("all rows are the same, so no `gamma` fits")
    with np.errstate(over="ignore", invalid="ignore"):
        exact -= exact.mean(axis=0)
        squares = np.einsum("ij,ij->i", exact, exact)
        distances = (squares[:, None] + squares - 2 * (exact @ exact.T))[np.triu_indices(len(exact), 1)]
        median = float(np.median(distances))
    if not 0 < median < np.inf or not 0 < 1 / median < np.inf:
        raise RangeError(f"the median squared distance of rows is {median:g}, so `gamma` cannot be chosen by it")
    return 1 / median


def closeness(kernel: Kernel, x: Rows, landmarks: Rows) -> Array:
    """Return the similarity of rows to landmarks, `[n]`: Σⱼ K(x, x̃ⱼ)² / (K(x, x) K(x̃ⱼ, x̃ⱼ)).

    Parameters
    ----------
    kernel : K
    x : `[n, d]`
    landmarks : `[m, d]`
    """
    found, row = np.empty(len(x)), kernel.against(landmarks)
    own, other = np.sqrt(kernel.diagonal(x)), np.sqrt(kernel.diagonal(landmarks))
    for part in blocks(len(x), len(landmarks)):
        scale = np.outer(own[part], other)
        cosines = np.divide(row(x[part]), scale, out=np.zeros_like(scale), where=scale > 0)
        found[part] = np.einsum("ij,ij->i", cosines, cosines)
    return found


def scale_doubts(kernel: Kernel, x: Rows, seed: int) -> tuple[str, ...]:
    """Return why γ does not suit some rows, and a γ that does; empty if γ suits them or no other is better.

    Parameters
    ----------
    kernel : with the γ in doubt
    x : `[n, d]` rows whose kernel matrix is judged, by a sample of them
    seed : of the sample
    """
    sample = sampled(x, seed)
    fault = _fault(kernel, sample, len(x))
    if not fault:
        return ()
    try:
        gamma = fitting_gamma(sample)
    except (RankError, RangeError):
        return ()
    if _fault(Kernel(kernel.name, gamma, kernel.degree, kernel.coef0), sample, len(x)):
        return ()
    advice = f"`gamma={gamma:.3g}` fits (1 / median squared distance; `gamma=scale` chooses it)"
    return (f"`gamma={kernel.gamma:g}` is too {fault}: {advice}",)


def _fault(kernel: Kernel, sample: Rows, n: int) -> str:
    if "gamma" not in PARAMETERS[kernel.name] or len(sample) < 2:
        return ""
    others = closeness(kernel, sample, sample) - 1
    if float(np.median(others)) * (n - 1) / (len(sample) - 1) < DISSIMILAR:
        return "large, the kernel matrix is near the identity and every row dissimilar to all others"
    values = kernel.gram(sample, sample)
    values /= max(float(np.max(np.abs(values))), np.finfo(np.float64).tiny)  # whose squares float64 may not hold
    if float(np.std(values)) < CONSTANT * abs(float(np.mean(values))):
        return "small, the kernel matrix is near a constant and all rows are nearly the same"
    return ""


def dissimilarity_doubt(kernel: Kernel, x: Rows, landmarks: Rows) -> str:
    """Return why features of rows cannot be evaluated, if most rows are dissimilar to all landmarks; else "".

    Parameters
    ----------
    kernel : of the features
    x : `[n, d]`
    landmarks : `[m, d]`
    """
    if "gamma" not in PARAMETERS[kernel.name] or not len(x):
        return ""
    share = float(np.mean(closeness(kernel, sampled(x, 0), landmarks) < DISSIMILAR))
    if share <= 0.5:
        return ""
    return (
        f"{share:.0%} of the test rows are dissimilar to all rows of the fit in the eraser's kernel "
        f"({kernel.name}, `gamma={kernel.gamma:g}`): their features are nearly 0, so figures on them mean nothing"
    )


@contextmanager
def explained_by(doubts: tuple[str, ...]) -> Iterator[None]:
    """Add `doubts` about the kernel to the message of a `RankError` in the block.

    Raises
    ------
    RankError : the message ends with the doubts
    """
    try:
        yield
    except RankError as error:
        raise RankError("; ".join((str(error), *doubts))) from error

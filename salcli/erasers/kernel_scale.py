"""Whether a kernel's γ fits the rows: too large, and all rows are strangers; too small, and all are the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, RankError
from salcli.linalg.kernels import PARAMETERS, Kernel, blocks

Array = NDArray[np.float64]
Rows = NDArray[np.floating]
SAMPLE_ROWS = 1 << 10
STRANGE = 0.01  # squares of the similarities to all other rows, added up: below, a matrix is near the identity
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
    """Return how near rows are to landmarks, `[n]`: Σⱼ K(x, x̃ⱼ)² / (K(x, x) K(x̃ⱼ, x̃ⱼ)).

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
    """Return what is wrong with γ for some rows, and the γ that fits; nothing if no other is better.

    Parameters
    ----------
    kernel : with the γ in doubt
    x : `[n, d]` rows whose kernel matrix is judged, by a sample of them
    seed : of the sample
    """
    some = sampled(x, seed)
    fault = _fault(kernel, some, len(x))
    if not fault:
        return ()
    try:
        gamma = fitting_gamma(some)
    except (RankError, RangeError):
        return ()
    if _fault(Kernel(kernel.name, gamma, kernel.degree, kernel.coef0), some, len(x)):
        return ()
    advice = f"`gamma={gamma:.3g}` fits (1 / median squared distance; `gamma=scale` chooses it)"
    return (f"`gamma={kernel.gamma:g}` is too {fault}: {advice}",)


def _fault(kernel: Kernel, some: Rows, n: int) -> str:
    if "gamma" not in PARAMETERS[kernel.name] or len(some) < 2:
        return ""
    others = closeness(kernel, some, some) - 1
    if float(np.median(others)) * (n - 1) / (len(some) - 1) < STRANGE:
        return "large, the kernel matrix is near the identity and every row a stranger to all others"
    values = kernel.gram(some, some)
    values /= max(float(np.max(np.abs(values))), np.finfo(np.float64).tiny)  # whose squares float64 may not hold
    if float(np.std(values)) < CONSTANT * abs(float(np.mean(values))):
        return "small, the kernel matrix is near a constant and all rows are nearly the same"
    return ""


def stranger_doubt(kernel: Kernel, x: Rows, landmarks: Rows) -> str:
    """Return why nothing can be measured on features of some rows: most are strangers to the landmarks; else "".

    Parameters
    ----------
    kernel : of the features
    x : `[n, d]`
    landmarks : `[m, d]`
    """
    if "gamma" not in PARAMETERS[kernel.name] or not len(x):
        return ""
    share = float(np.mean(closeness(kernel, sampled(x, 0), landmarks) < STRANGE))
    if share <= 0.5:
        return ""
    return (
        f"{share:.0%} of the test rows are strangers to the rows of the fit in the eraser's kernel "
        f"({kernel.name}, `gamma={kernel.gamma:g}`): features of such rows are nearly 0, so nothing is measured on them"
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

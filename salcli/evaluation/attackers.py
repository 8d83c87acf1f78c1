"""Attackers on vectors: linear, polynomial and RBF machines, tuned so that none of them is a straw man.

Polynomial and RBF machines work on Gram matrices made by BLAS, so that the solver need not evaluate the kernel pair by
pair; the decisions are the same.
"""

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.selection import stratified_parts
from salcli.evaluation.kernel_probe import KernelProbe
from salcli.evaluation.probes import LinearProbe

Array = NDArray[np.float64]
Settings = dict[str, float]
VECTOR_PROBES = ("linear", "poly", "rbf")
PENALTIES = (1.0, 0.1, 10.0)  # C; the first of equals is taken
WIDTHS = (1.0, 0.25, 4.0)  # γ, in units of 1/d: rows are scaled to a mean squared norm of d
DEGREE, COEF0 = 2, 1.0
TUNING_ROWS, VALIDATION = 2_000, 0.25
BLOCK_ROWS = 2_048


@dataclass(frozen=True, eq=False)
class Attacker:
    """A machine trained on vectors."""

    name: str
    settings: Settings
    """C, and γ where it has one."""
    machine: LinearProbe | KernelProbe
    rows: Array | None
    """`[n, d]` training rows, of a kernel machine."""

    @property
    def converged(self) -> bool:
        """Whether the solver met its tolerance."""
        return self.machine.converged

    @classmethod
    def train(cls, name: str, x: Array, y: NDArray[Any], settings: Settings, *, seed: int) -> "Attacker":
        """Train on rows `[n, d]`, scaled, of classes `[n]`."""
        if name == "linear":
            return cls(name, settings, LinearProbe.train(x, y, c=settings["C"], seed=seed), None)
        return cls(name, settings, KernelProbe.train(_gram(name, x, x, settings), y, c=settings["C"]), x)

    def predict(self, x: Array) -> NDArray[Any]:
        """Answer for rows `[m, d]`, block by block."""
        parts = (x[start : start + BLOCK_ROWS] for start in range(0, len(x), BLOCK_ROWS))
        return np.concatenate([self._answers(part) for part in parts])

    def _answers(self, x: Array) -> NDArray[Any]:
        if isinstance(self.machine, LinearProbe):
            return self.machine.predict(x)
        assert self.rows is not None
        return self.machine.predict(_gram(self.name, x, self.rows, self.settings))


def kernel_bytes(n_train: int, d: int) -> int:
    """Bound the memory that a kernel machine takes: its Gram matrix, a second of it on the way, blocks, rows."""
    return 8 * n_train * (2 * n_train + 2 * BLOCK_ROWS + 2 * d)


def grid(name: str, d: int) -> list[Settings]:
    """Give the settings that are tried, the usual ones first."""
    if name == "linear":
        return [{"C": c} for c in PENALTIES]
    widths = WIDTHS if name == "rbf" else WIDTHS[:1]
    return [{"C": c, "gamma": width / d} for width, c in itertools.product(widths, PENALTIES)]


def tuned(name: str, x: Array, y: NDArray[Any], *, seed: int) -> Settings:
    """Choose settings on a validation part of the training rows: at most 2,000 of them, a quarter held back.

    Returns
    -------
    the best of `grid`, or the first of it, the usual settings, unless the best beats them by a standard error: among
    attackers that read next to nothing, the luckiest is not the strongest
    """
    choices = grid(name, x.shape[1])
    strata = np.unique(y, return_inverse=True)[1].astype(np.int64)
    n_used = min(TUNING_ROWS, len(y))
    n_held = int(n_used * VALIDATION)
    shares = [(n_used - n_held) / len(y), n_held / len(y)]
    train, held = stratified_parts(strata, shares, seed, sizes=[n_used - n_held, n_held])
    if not len(held) or len(np.unique(y[train])) < 2:
        return choices[0]
    shares = []
    for settings in choices:
        attacker = Attacker.train(name, x[train], y[train], settings, seed=seed)
        shares.append(float(np.mean(attacker.predict(x[held]) == y[held])))
    usual, best = shares[0], int(np.argmax(shares))
    return choices[best if shares[best] > usual + np.sqrt(usual * (1 - usual) / len(held)) else 0]


@contextmanager
def untold() -> Iterator[None]:
    """Keep solvers from warning, once a fit, that they did not converge: every result says so itself."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _gram(name: str, x: Array, y: Array, settings: Settings) -> Array:
    from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

    if name == "rbf":
        return np.asarray(rbf_kernel(x, y, gamma=settings["gamma"]))
    return np.asarray(polynomial_kernel(x, y, degree=DEGREE, gamma=settings["gamma"], coef0=COEF0))

"""`kernel-ridge` and, of a kernel's eraser, `same-kernel`: ridge regression of numeric attributes on inner products."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Settings
from salcli.evaluation.attackers.kernel_svm import KernelSVM

PENALTIES = Axis((1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3), 1.0, grows=True)
"""α; an inner product of a usual row with itself is 1."""
RBF = KernelSVM("rbf", (1 / 16, 1 / 4, 1.0, 4.0, 16.0))
"""Whose kernel `kernel-ridge` has."""


@dataclass(frozen=True, eq=False)
class GramRegression:
    """A trained `GramRidge`."""

    intercept: float
    weights: Array
    """`[n]` of the training rows."""
    converged: bool = True

    def decision(self, gram: Array) -> Array:
        """Return the predicted numbers `[m]` of rows, given inner products `gram` `[m, n]` with the training rows."""
        found: Array = self.intercept + gram @ self.weights
        return found

    def predict(self, gram: Array) -> Array:
        """Return the same as `decision`, of inner products `gram` `[m, n]`."""
        return self.decision(gram)


@dataclass(frozen=True)
class GramRidge(Attacker):
    """(K + αI)⁻¹ (y − ȳ), on the inner products of the kernel that the eraser works in."""

    reads = "kernel"
    predicts = "numbers"

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (the kernel is the eraser's)
        """Return the values of α; the same for any width `d`."""
        return {"alpha": PENALTIES}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> GramRegression:  # noqa: ARG002
        """Train on inner products `[n, n]` (see `Attacker.fit`); nothing is random."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        penalized = x.copy()
        penalized.flat[:: len(x) + 1] += settings["alpha"]
        try:
            factor = cho_factor(penalized, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # too small a penalty for products that are singular to rounding
            return GramRegression(float(y.mean()), np.zeros(len(y)), converged=False)
        return GramRegression(float(y.mean()), cho_solve(factor, y - y.mean(), check_finite=False))

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (d is the kernel's affair)
        """Return a bound in bytes of the factor for `n_train` rows; `n_test` and the width `d` add nothing."""
        return 8 * n_train * n_train


@dataclass(frozen=True, eq=False)
class KernelRegression:
    """A trained `KernelRidge`, with the rows that it was trained on."""

    regression: GramRegression
    rows: Array
    """`[n, d]` training rows."""
    settings: Settings

    @property
    def converged(self) -> bool:
        """Whether the equations could be solved."""
        return self.regression.converged

    def decision(self, x: Array) -> Array:
        """Return the predicted numbers `[m]` of rows `x` `[m, d]`, block by block."""
        return np.concatenate([np.zeros(0), *map(self.regression.decision, RBF.blocks(x, self.rows, self.settings))])

    def predict(self, x: Array) -> Array:
        """Return the same as `decision`, of rows `x` `[m, d]`."""
        return self.decision(x)


@dataclass(frozen=True)
class KernelRidge(Attacker):
    """Ridge regression with the kernel exp(−γ‖x − y‖²)."""

    solver: GramRidge = GramRidge()
    predicts = "numbers"

    def axes(self, d: int) -> dict[str, Axis]:
        """Return the values of γ, over the width `d`, and of α."""
        return {"gamma": RBF.axes(d)["gamma"], "alpha": PENALTIES}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> KernelRegression:
        """Train on scaled rows (see `Attacker.fit`)."""
        return KernelRegression(self.solver.fit(RBF.gram(x, x, settings), y, settings, seed), x, settings)

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Yield the predictions of other rows (see `Attacker.decisions`)."""
        for settings, among, across in RBF.grams(x, new, choices):
            yield from self.solver.decisions(among, y, across, [settings], seed)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (blocks of test rows)
        """Return a bound in bytes of Gram matrix, factor, blocks and rows: `n_train` and `n_test` of width `d`."""
        return 8 * n_train * (2 * n_train + 2 * RBF.block_rows + 2 * d)

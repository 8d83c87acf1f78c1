"""Attackers: classifiers that try to read a guarded attribute, each a file here and an entry of `ATTACKERS`.

A new attacker is one object that is an `Attacker`, registered as `ATTACKERS[name] = attacker`, or in `REGRESSORS` if it
reads numbers.
"""

from salcli.evaluation.attackers.base import Attacker, Reads
from salcli.evaluation.attackers.boosting import Boosting, BoostingRegression
from salcli.evaluation.attackers.kernel_ridge import GramRidge, KernelRidge
from salcli.evaluation.attackers.kernel_svm import GramSVM, KernelSVM
from salcli.evaluation.attackers.knn import NearestNeighbours
from salcli.evaluation.attackers.linear import LinearSVM
from salcli.evaluation.attackers.mlp import Perceptron
from salcli.evaluation.attackers.quadratic import Quadratic
from salcli.evaluation.attackers.ridge import Ridge

ATTACKERS: dict[str, Attacker] = {
    "linear": LinearSVM(),
    "poly": KernelSVM("poly", (1 / 16, 1 / 4, 1.0, 4.0, 16.0)),
    "rbf": KernelSVM("rbf", (1 / 16, 1 / 4, 1.0, 4.0, 16.0)),
    "quadratic": Quadratic(),
    "knn": NearestNeighbours(),
    "mlp": Perceptron(),
    "boosting": Boosting(),
    "same-kernel": GramSVM(),
}
"""By the name in `--probes`. By default, all with `is_default` that suit the eraser are trained."""
REGRESSORS: dict[str, Attacker] = {
    "ridge": Ridge(),
    "kernel-ridge": KernelRidge(),
    "boosting": BoostingRegression(),
    "same-kernel": GramRidge(),
}
"""The same of numeric attributes. By default, all that suit the eraser are trained."""
WEIGHTED = "-weighted"
"""Suffix of the name of an attacker's twin with balanced class weights."""


def names_of(reads: Reads, *, every: bool = True) -> tuple[str, ...]:
    """Return the names of the attackers that read vectors, or of those that read a kernel.

    Parameters
    ----------
    reads : vectors or kernel
    every : False: the default ones only
    """
    return tuple(
        name for name, attacker in ATTACKERS.items() if attacker.reads == reads and (every or attacker.is_default)
    )


def attacker_of(name: str) -> Attacker:
    """Return the attacker of the `name` in a report, for a name that ends in `WEIGHTED` the twin."""
    if name in ATTACKERS:
        return ATTACKERS[name]
    twin = ATTACKERS[base_name(name)].twin()
    assert twin is not None, f"no attacker is called {name}"
    return twin


def base_name(name: str) -> str:
    """Return the `name` of an attacker in a report as `--probes` has it, without `WEIGHTED`."""
    return name.removesuffix(WEIGHTED)

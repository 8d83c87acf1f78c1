"""`leak_scorer`: what an attacker reads of transformed rows, as a scorer of scikit-learn's searches."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED

from salcli.api.arrays import to_numpy
from salcli.api.constructor import Y
from salcli.api.labels import label_table
from salcli.data.labels import GuardedLabels
from salcli.data.sampling import stratified_sample
from salcli.data.splits import FRESH, EvaluationSplit
from salcli.errors import ParameterError, UsageError, warn
from salcli.evaluation.attack import attack
from salcli.evaluation.attack_numbers import attack_numbers, chosen_regressors
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.requested import require_attackers
from salcli.evaluation.stages import Stages
from salcli.options import RAW, EvaluateOptions
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.progress import Silent

NO_GUARDED = (
    "leak_scorer needs the guarded labels of the rows: enable metadata routing "
    "(sklearn.set_config(enable_metadata_routing=True)) and give search.fit guarded=labels, or cross_validate "
    "params={'guarded': labels}"
)


class LeakScorer(BaseEstimator):  # type: ignore[misc]
    """Returns minus the leak of the rows that an estimator transforms (see `leak_scorer`)."""

    __metadata_request__score = {"guarded": True, "estimator": UNUSED}  # noqa: RUF012 (read by scikit-learn)

    def __init__(
        self,
        attacker: str = "rbf",
        adversary: str = FRESH,
        numeric: bool | Collection[str] = False,
        seed: int = 0,
    ) -> None:
        self.attacker = attacker
        self.adversary = adversary
        self.numeric = numeric
        self.seed = seed

    def score(self, estimator: Any, X: Any, y: Any = None, *, guarded: Any = None) -> float:
        """Return minus the largest leak of any guarded attribute; NaN where nothing could be attacked.

        Parameters
        ----------
        estimator : a fitted transformer, or a pipeline, of which the step before the model is read
        X : `[n, d]` rows that took no part in the fit
        y : `[n]` of the main task; the guarded labels of an estimator with guards="y"
        guarded : the guarded labels
        """
        if guarded is None and getattr(estimator, "guards", None) == Y:
            guarded = y
        if guarded is None:
            raise UsageError(NO_GUARDED)
        rows = np.ascontiguousarray(to_numpy(_transformed(estimator, X))[0])
        labels = label_table(guarded, len(rows), "guarded", self.numeric)
        return -leak_of(rows, labels, self.attacker, self.seed)

    __call__ = score

    def _accept_sample_weight(self) -> bool:
        return False


def leak_scorer(
    attacker: str = "rbf",
    adversary: str = FRESH,
    *,
    numeric: bool | Collection[str] = False,
    seed: int = 0,
) -> LeakScorer:
    """Return a scorer for cross-validation and searches: the less is read of transformed rows, the higher.

    Half of the rows of a fold, which took no part in the fit, trains the attacker; the other half tests it. A search
    that scores the main task alone would choose to erase nothing.

    Parameters
    ----------
    attacker : linear, poly, rbf, quadratic, knn, mlp or boosting; of numbers ridge, kernel-ridge or boosting
    adversary : fresh: the attacker is trained on rows that the eraser was not fitted on; a scorer has no others
    numeric : whether labels are numbers instead of classes, or the names of columns that are
    seed : of the halves and of the attacker

    Returns
    -------
    a scorer, which requests `guarded` by metadata routing: minus the leak, from 0 (nothing is read) to −1 (all);
    of numbers, minus R²

    Raises
    ------
    ParameterError : there is no such attacker or adversary

    Examples
    --------
    >>> import numpy as np
    >>> import salcli
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 100)
    >>> X = rng.normal(size=(200, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> score = salcli.leak_scorer("linear")
    >>> score(salcli.SAL(strength=0.0).fit(X, guarded=gender), X, guarded=gender) < -0.8
    True
    >>> score(salcli.SAL().fit(X, guarded=gender), X, guarded=gender) > -0.3
    True
    """
    require_attackers(EvaluateOptions(probes=(attacker,)))
    if adversary != FRESH:
        raise ParameterError(
            "adversary", adversary, "expected fresh: a scorer sees rows that took no part in the fit, and no others"
        )
    return LeakScorer(attacker, adversary, numeric, seed)


def leak_of(x: NDArray[Any], labels: GuardedLabels, attacker: str, seed: int) -> float:
    """Return the largest leak of rows: what an attacker trained on half of them reads of the other half.

    Parameters
    ----------
    x : `[n, d]`
    labels : n labels
    attacker : its name
    seed : of the halves and of the attacker

    Returns
    -------
    leak of classes or R² of numbers, at least 0; NaN where nothing could be attacked, which is warned of
    """
    matched = np.flatnonzero(labels.has_any)
    train = np.sort(stratified_sample(labels, matched, len(matched) // 2, seed))
    split = EvaluationSplit.of(train, {FRESH: train}, np.setdiff1d(matched, train), has_held_out=True)
    stages = Stages(np.arange(len(x)), x, x, None)
    options = EvaluateOptions(probes=(attacker,), forms=(RAW,), intersections=False, seed=seed)
    found, notes = list[float](), list[str]()
    with one_blas_thread():
        if attacker in ATTACKERS and any(attribute.classes is not None for attribute in labels.attributes):
            results, doubts = attack(stages, labels, split, (attacker,), options, Silent())
            found += [result.leak for result in results]
            notes += doubts
        if regressors := chosen_regressors(None, labels, options):
            numbers, doubts = attack_numbers(stages, labels, split, regressors, options, Silent())
            found += [max(0.0, result.r2) for result in numbers]
            notes += doubts
    for note in notes:
        warn(note)
    return max(found, default=float("nan"))


def _transformed(estimator: Any, X: Any) -> Any:
    if isinstance(estimator, Pipeline) and not hasattr(estimator, "transform"):
        return estimator[:-1].transform(X)
    return estimator.transform(X)

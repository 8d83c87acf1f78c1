"""Attackers made with scikit-learn, to compare with those of `evaluate` on the same rows.

Each has rows in a form (as they are, of length 1, columns of one variance, whitened, or their principal components), a
classifier, and a grid, searched by cross-validation in three folds on at most `TRIAL_ROWS` of its training rows for
balanced accuracy. Two more put the best of each kind together.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from salcli.streaming.engine import ordered_map

Array = NDArray[Any]
Settings = dict[str, float]
Scores = Callable[[Array, Array, Array, Settings], Array]
"""Training rows, their classes, new rows, settings → scores of the new rows, `[m, c]`."""
TRIAL_ROWS = 1_500
FOLDS = 3
LEVEL = 1e-3
"""Spread of class means, as a share of that expected by chance, below which erasure has made them equal."""
FORMS = ("raw", "unit", "standardized", "whitened", "25 components", "100 components")
MIXED = "mixed"


@dataclass(frozen=True)
class Own:
    """One attacker."""

    kind: str
    """The column of the table that it belongs to."""
    name: str
    form: str
    scores: Scores
    grid: tuple[Settings, ...] = ({},)

    @property
    def title(self) -> str:
        """What it is called in the table."""
        return self.name if self.form == "raw" else f"{self.name}, {self.form}"


@dataclass(frozen=True)
class Found:
    """What an attacker reads of the test rows."""

    attacker: Own
    settings: Settings
    trial: float
    """Its score in cross-validation."""
    scores: Array
    accuracy: float


def in_form(form: str, x: Array, new: Array) -> tuple[Array, Array]:
    """Return training and new rows in a form that is taken from the training rows, scaled by one factor.

    Parameters
    ----------
    form : one of `FORMS`
    x, new : `[n, d]`, `[m, d]` rows
    """
    if form == "unit":
        x, new = (each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-300) for each in (x, new))
    elif form == "standardized":
        scaler = StandardScaler().fit(x)
        x, new = scaler.transform(x), scaler.transform(new)
    elif form != "raw":
        n_most = int(form.split()[0]) if form.endswith("components") else len(x) - 1
        pca = PCA(min(n_most, *x.shape), random_state=0).fit(x)
        scale = np.ones(pca.n_components_)
        if form == "whitened":
            is_kept = pca.explained_variance_ > 1e-10 * pca.explained_variance_[0]
            scale = np.where(is_kept, 1 / np.sqrt(np.where(is_kept, pca.explained_variance_, 1)), 0)
        x, new = pca.transform(x) * scale, pca.transform(new) * scale
    middle = x.mean(axis=0)
    spread = np.sqrt(np.mean((x - middle) ** 2))
    return (x - middle) / spread, (new - middle) / spread


def _machine(kernel: str, x: Array, y: Array, new: Array, settings: Settings) -> Array:
    """Return the scores of a support vector machine, on a Gram matrix; γ is in units of 1/d."""
    gamma = settings["gamma"] / x.shape[1]

    def gram(a: Array) -> Array:
        if kernel == "cubic":
            return ((gamma * a @ x.T + 1) / (gamma * x.shape[1] + 1)) ** 3
        squares = euclidean_distances(a, x, squared=True)
        return np.exp(-gamma * squares) if kernel == "gauss" else np.exp(-np.sqrt(gamma * squares))

    return _of_classes(SVC(kernel="precomputed", C=settings["C"], cache_size=50).fit(gram(x), y), gram(new))


def _classifier(make: Callable[..., Any], x: Array, y: Array, new: Array, settings: Settings) -> Array:
    return _of_classes(make(**settings).fit(x, y), new)


def _of_classes(classifier: Any, new: Array) -> Array:
    if hasattr(classifier, "decision_function"):
        scores = np.asarray(classifier.decision_function(new))
    else:
        scores = np.log(np.maximum(classifier.predict_proba(new), 1e-12))
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


def _gaussians(x: Array, y: Array, new: Array, settings: Settings) -> Array:
    """Return log densities of Gaussians of the classes, whose covariances are shrunk to the identity."""
    share, found = settings["shrinkage"], []
    for value in np.unique(y):
        of = x[y == value]
        covariance = (1 - share) * np.cov(of.T, bias=True)
        covariance.flat[:: x.shape[1] + 1] += share * np.mean(of.var(axis=0))
        root = cholesky(covariance, lower=True)
        away = solve_triangular(root, (new - of.mean(axis=0)).T, lower=True)
        size = np.log(len(of) / len(x)) - np.sum(np.log(np.diag(root)))
        found.append(size - np.sum(away**2, axis=0) / 2)
    return np.stack(found, axis=1)


def _products(x: Array, y: Array, new: Array, settings: Settings) -> Array:
    """Return the scores of a logistic regression on all products of two columns, of the first 60."""
    pairs = np.triu_indices(min(60, x.shape[1]))
    of, to = (np.hstack([each, each[:, pairs[0]] * each[:, pairs[1]]]) for each in (x, new))
    scaler = StandardScaler().fit(of)
    model = LogisticRegression(max_iter=300, tol=1e-3, C=settings["C"])
    return _of_classes(model.fit(scaler.transform(of), y), scaler.transform(to))


def _grid(**values: Sequence[float]) -> tuple[Settings, ...]:
    return tuple(dict(zip(values, each, strict=True)) for each in itertools.product(*values.values()))


def attackers() -> list[Own]:
    """Return all but those that put others together."""
    wide = _grid(gamma=(1 / 16, 0.25, 1.0, 2.0, 4.0), C=(1.0, 10.0, 100.0))
    shares = _grid(shrinkage=(1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9))
    layers = partial(MLPClassifier, (256, 64), early_stopping=True, random_state=0)
    wide_layer = partial(MLPClassifier, (1024,), early_stopping=True, random_state=0)
    forest = partial(ExtraTreesClassifier, 300, min_samples_leaf=2, random_state=0)
    trees = partial(HistGradientBoostingClassifier, max_iter=200, max_bins=64, random_state=0)
    found = [Own("rbf", "rbf", form, partial(_machine, "gauss"), wide) for form in FORMS]
    found += [Own("kernels", "exponential kernel", form, partial(_machine, "exp"), wide) for form in ("raw", "unit")]
    cubic = _grid(gamma=(0.25, 1.0, 4.0, 16.0), C=(0.1, 1.0, 10.0))
    found += [Own("kernels", "cubic kernel", form, partial(_machine, "cubic"), cubic) for form in ("raw", "unit")]
    found += [Own("QDA", "shrunk QDA", form, _gaussians, shares) for form in FORMS if form != "whitened"]
    found += [
        Own("QDA", "regression on products", form, _products, _grid(C=(1e-5, 1e-4, 1e-3)))
        for form in ("raw", "100 components")
    ]
    found += [Own("MLP", "MLP of two layers", form, partial(_classifier, layers)) for form in ("raw", "unit")]
    found += [Own("MLP", "wide MLP", "raw", partial(_classifier, wide_layer), _grid(alpha=(0.1, 10.0)))]
    found += [Own("trees", "boosting", form, partial(_classifier, trees)) for form in ("raw", "100 components")]
    found += [Own("trees", "extra trees", "raw", partial(_classifier, forest))]
    found += [Own("kNN", "kNN", form, _votes, _grid(n_neighbors=(1, 5, 15, 40))) for form in ("unit", "whitened")]
    return found


def _votes(x: Array, y: Array, new: Array, settings: Settings) -> Array:
    n_neighbors = min(int(settings["n_neighbors"]), len(x))
    return _of_classes(KNeighborsClassifier(n_neighbors, weights="distance").fit(x, y), new)


class Block:
    """Training rows `x` `[n, d]` of classes `y` `[n]`, test rows `new` `[m, d]`, and the `true` classes of those."""

    def __init__(self, x: Array, y: Array, new: Array, true: Array) -> None:
        self.y, self.true, self.classes = y, true, np.unique(y)
        self.rows = {form: in_form(form, x, new) for form in FORMS}
        self.few = np.sort(np.random.default_rng(0).permutation(len(y))[:TRIAL_ROWS])
        self.is_level = self._is_level(x)

    def found(self, attacker: Own) -> Found:
        """Return what an attacker reads, with the settings of its grid that read most in cross-validation."""
        x, new = self.rows[attacker.form]
        trials = [self._trial(attacker, settings) for settings in attacker.grid]
        best = int(np.argmax(trials))
        scores = attacker.scores(x, self.y, new, attacker.grid[best])
        return self._found(attacker, attacker.grid[best], trials[best], scores)

    def together(self, found: Sequence[Found]) -> list[Found]:
        """Return the mean of the scores of the best of each kind, and a logistic regression on scores of folds."""
        kinds = dict.fromkeys(each.attacker.kind for each in found)
        best = [max((f for f in found if f.attacker.kind == kind), key=lambda f: f.trial) for kind in kinds]
        best = sorted(best, key=lambda f: -f.trial)[:4]
        out = np.zeros((len(best), len(self.y), len(self.classes)))
        parts = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(self.y, self.y)
        jobs = [(i, train, held) for train, held in parts for i in range(len(best))]

        def scores(job: tuple[int, Array, Array]) -> Array:
            i, train, held = job
            among, across = self._fold(best[i].attacker.form, train, held)
            return best[i].attacker.scores(among, self.y[train], across, best[i].settings)

        for (i, _, held), value in zip(jobs, ordered_map(scores, jobs), strict=True):
            out[i, held] = value
        spread = out.std(axis=1).mean(axis=1)[:, None, None]
        of, to = np.hstack([*(out / spread)]), np.hstack([*(np.stack([f.scores for f in best]) / spread)])
        stack = LogisticRegression(max_iter=1_000).fit(of, self.y)
        names = " + ".join(f.attacker.name for f in best)
        mean = np.sum(np.stack([f.scores for f in best]) / spread, axis=0)
        together = {f"mean of {names}": mean, f"stack of {names}": _of_classes(stack, to)}
        return [self._found(Own(MIXED, name, "raw", _products), {}, 0.0, value) for name, value in together.items()]

    def _found(self, attacker: Own, settings: Settings, trial: float, scores: Array) -> Found:
        right = float(np.mean(self.classes[np.argmax(scores, axis=1)] == self.true))
        return Found(attacker, settings, trial, scores, right)

    def _trial(self, attacker: Own, settings: Settings) -> float:
        if len(attacker.grid) == 1 and attacker.kind in ("trees", "MLP"):
            return 0.0  # nothing to choose
        found = []
        for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(self.few, self.y[self.few]):
            among, across = self._fold(attacker.form, self.few[train], self.few[held])
            scores = attacker.scores(among, self.y[self.few[train]], across, settings)
            right = self.classes[np.argmax(scores, axis=1)]
            found.append(balanced_accuracy_score(self.y[self.few[held]], right))
        return float(np.mean(found))

    def _fold(self, form: str, train: Array, held: Array) -> tuple[Array, Array]:
        """Return the rows of a fold; without differences of class means where the fitted rows have none."""
        x = self.rows[form][0]
        among, across = x[train], x[held]
        if self.is_level:
            v = np.linalg.qr(_differences(among, self.y[train]).T)[0]
            among, across = among - among @ v @ v.T, across - across @ v @ v.T
        return among, across

    def _is_level(self, x: Array) -> bool:
        by_chance = np.sum(x.var(axis=0)) * len(self.classes) ** 2 / len(x)
        return bool(np.sum(_differences(x, self.y) ** 2) < LEVEL * by_chance)


def _differences(x: Array, y: Array) -> Array:
    """Return the means of the classes less that of the first `[c − 1, d]`."""
    means = np.stack([x[y == value].mean(axis=0) for value in np.unique(y)])
    return means[1:] - means[0]

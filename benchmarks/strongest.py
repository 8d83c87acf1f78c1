"""Does anybody read more than `evaluate` says? Attackers made with scikit-learn, on the same rows.

    python -m benchmarks.strongest --data NAME EMBEDDINGS LABELS ATTRIBUTE [KEYS] [--data …] [--rows N]

fits SAL of full rank to each data set (to the rows marked train, else to half of them), and prints one row for each
adversary: the attacker of `evaluate` that reads most after erasure, and what the attackers below read on the same test
rows, from the same training rows, at most N of them; each is tuned by its own cross-validation on its own rows. Their
best is chosen on the test rows, as no attacker can. What each of them reads goes to stderr. KEYS is a file of row
names, for labels with a column of names.
"""

import argparse
import csv
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, StackingClassifier
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC

from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.data.join import settle_index
from salcli.data.labels import as_index
from salcli.erasers.artifact import read_artifact
from salcli.evaluation.duplicates import without_copies
from salcli.evaluation.plan import split_rows
from salcli.evaluation.stages import Erasure, stage_rows
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, ReadOptions
from salcli.streaming.passes import join_labels, read_table
from salcli.streaming.progress import Silent

Array = NDArray[Any]
KINDS = {
    "rbf": ("rbf",),
    "QDA": ("shrunk QDA",),
    "MLP": ("MLP",),
    "trees": ("boosting", "extra trees"),
    "kNN": ("kNN",),
}
"""Columns of the table, and how the names of the attackers begin that belong there."""


def attackers(d: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Return attackers, each with its own grid."""

    def grid(of: Any, **values: list[Any]) -> Any:
        return _Chosen(of, values)

    wide = {"C": [1.0, 10.0, 100.0], "gamma": [g / d for g in (1 / 16, 0.25, 1.0, 2.0, 4.0)]}
    yield "rbf, full grid", grid(SVC(), **wide)
    lengths = {f"svc__{name}": values for name, values in wide.items()}
    yield "rbf on unit rows", grid(make_pipeline(Normalizer(), _Spread(), SVC()), **lengths)
    yield "rbf on standardized rows", grid(make_pipeline(StandardScaler(), SVC()), **lengths)
    for n in (25, 100):
        if n < d:
            yield f"rbf on {n} components", grid(make_pipeline(PCA(n, random_state=seed), _Spread(), SVC()), **lengths)
    yield (
        "poly of degree 3",
        grid(SVC(kernel="poly", degree=3, coef0=1.0), C=[0.01, 0.1, 1, 10], gamma=[0.25 / d, 1 / d]),
    )
    yield "shrunk QDA", grid(_qda(), shrinkage=[1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9])
    qda = {"quadraticdiscriminantanalysis__shrinkage": [1e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9]}
    yield (
        "shrunk QDA of unit rows",
        grid(make_pipeline(Normalizer(), _Spread(), _qda()), **qda),
    )
    yield "MLP, two layers", grid(MLPClassifier((256, 64), early_stopping=True, random_state=seed), alpha=[1e-3, 1, 10])
    yield "MLP, wide", grid(MLPClassifier((1024,), early_stopping=True, random_state=seed), alpha=[0.1, 10])
    yield "boosting", HistGradientBoostingClassifier(max_iter=500, learning_rate=0.05, random_state=seed)
    yield "extra trees", ExtraTreesClassifier(500, min_samples_leaf=2, n_jobs=1, random_state=seed)
    yield "kNN, cosine", grid(KNeighborsClassifier(metric="cosine", weights="distance"), n_neighbors=[1, 5, 15, 40])
    sketch = make_pipeline(
        PolynomialCountSketch(degree=2, n_components=3000, random_state=seed),
        _Spread(),
        LogisticRegression(max_iter=500),
    )
    yield "logistic regression on products", grid(sketch, logisticregression__C=[1e-5, 1e-4, 1e-3, 1e-2])
    best = {"rbf": SVC(C=10, gamma=1 / d), "qda": _qda(0.3)}
    best |= {"rbf4": SVC(C=10, gamma=4 / d), "poly": SVC(kernel="poly", degree=2, coef0=1, C=0.1, gamma=4 / d)}
    best |= {"mlp": MLPClassifier((256,), alpha=1, early_stopping=True, random_state=seed)}
    yield "stack of rbf, poly, QDA and MLP", StackingClassifier(list(best.items()), LogisticRegression(), cv=3)


def _qda(shrinkage: float | None = None) -> Any:
    return QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage)  # for fewer rows than columns, too


@dataclass
class _Chosen:
    """Settings chosen by cross-validation on at most 3,000 rows, for all rows."""

    of: Any
    values: dict[str, list[Any]]
    best_params_: Any = None

    def fit(self, x: Array, y: Array) -> Any:
        few = np.random.default_rng(0).permutation(len(x))[:3_000]
        found = GridSearchCV(self.of, self.values, cv=3, scoring="balanced_accuracy").fit(x[few], y[few])
        self.best_params_ = found.best_params_
        return found.best_estimator_.fit(x, y)


class _Spread(StandardScaler):  # type: ignore[misc]
    """One factor for all columns."""

    def fit(self, x: Array, y: Array | None = None, sample_weight: Array | None = None) -> "_Spread":
        super().fit(x, y, sample_weight)
        self.scale_ = np.full(x.shape[1], np.sqrt(np.mean((x - x.mean(axis=0)) ** 2)))
        return self


def rows_of(embeddings: str, labels: str, eraser: str, read: ReadOptions, options: EvaluateOptions) -> Any:
    """Yield adversary, training rows and test rows after erasure, with their classes, as `evaluate` divides them."""
    artifact = read_artifact(eraser)
    with closing(open_source(embeddings, read)) as source:
        columns = artifact.label_options(options.labels, eraser)
        table = settle_index(read_table(labels, columns, Silent()), source)
        join = join_labels(source, table, Silent())
        places = as_index(join.row_of_label)
        plan = split_rows(table, as_index(join.matched(table)), artifact, options)
        plan, _ = without_copies(source, table, places, plan, Silent())
        stages = stage_rows(source, Erasure.of(artifact, source), places, plan.needed, Silent())
        attribute = table.attributes[0]
        for adversary, index in plan.trainers.items():
            train, test = stages.at(index), stages.at(plan.test)
            x, y = stages.named()["after"].astype(np.float64), attribute.codes(stages.labels)
            yield adversary, x[train], y[train], x[test], y[test]


def own_figures(x: Array, y: Array, new: Array, true: Array) -> dict[str, float]:
    """Return the accuracy of each own attacker, by its name."""
    middle = x.mean(axis=0)
    spread = np.sqrt(np.mean((x - middle) ** 2))
    x, new = (x - middle) / spread, (new - middle) / spread
    found = {}
    for name, attacker in attackers(x.shape[1], 0):
        predicted = attacker.fit(x, y).predict(new)
        found[name] = float(np.mean(predicted == true))
        print(f"  {name}: {found[name]:.3f} {getattr(attacker, 'best_params_', '')}", file=sys.stderr, flush=True)
    return found


def table_rows(given: list[str], n_rows: int) -> Iterator[str]:
    """Yield the rows of the table, as Markdown, of one data set."""
    name, embeddings, labels, attribute, *keys = given
    with open(labels, encoding="utf-8", newline="") as handle:
        has_split = "split" in next(csv.reader(handle))
    columns = LabelOptions(attributes=(attribute,), by_row=not keys)
    read = ReadOptions(keys_file=keys[0] if keys else None)
    options = EvaluateOptions(read=read, labels=columns, attacker_rows=n_rows, learning_curve=False, kept=False)
    with tempfile.TemporaryDirectory() as scratch:
        eraser = str(Path(scratch) / "eraser.npz")
        fit(embeddings, labels, eraser, FitOptions(labels=columns, read=read, holdout=0.0 if has_split else 0.5))
        report = evaluate(embeddings, labels, eraser, options)
        for adversary, x, y, new, true in rows_of(embeddings, labels, eraser, read, options):
            print(f"{name}, {adversary}, {len(y):,} rows", file=sys.stderr, flush=True)
            after = [probe for probe in report.probes if (probe.adversary, probe.stage) == (adversary, "after")]
            worst = max(after, key=lambda probe: probe.accuracy)
            own = own_figures(x, y, new, true)
            best = max(own, key=lambda each: own[each])
            of_kinds = [max(own[each] for each in own if each.startswith(starts)) for starts in KINDS.values()]
            shown = " | ".join(f"{value:.3f}".removeprefix("0") for value in (*of_kinds, own[best]))
            form = "" if worst.form == "raw" else f" ({worst.form})"
            read_most = f"`{worst.probe}`{form} {worst.accuracy:.3f}".replace(" 0.", " .")
            yield f"| {name}, {adversary} ({len(y):,}) | {read_most} | {shown}, {best} |"


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usage = "NAME EMBEDDINGS LABELS ATTRIBUTE [KEYS]"
    parser.add_argument("--data", nargs="+", action="append", required=True, help=usage)
    parser.add_argument("--rows", type=int, default=10_000, help="training rows of an attacker, at most")
    given = parser.parse_args()
    if any(len(each) not in (4, 5) for each in given.data):
        parser.error(f"--data takes {usage}")
    warnings.simplefilter("ignore")
    print(f"| rows (training rows) | worst of `evaluate` | own {' | own '.join(KINDS)} | best of all own |", flush=True)
    print("|---" * (len(KINDS) + 3) + "|", flush=True)
    for each in given.data:
        for row in table_rows(each, given.rows):
            print(row, flush=True)


if __name__ == "__main__":
    main()

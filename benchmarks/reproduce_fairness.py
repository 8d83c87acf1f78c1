"""Reproduce fair classification: what SAL does to the gap between groups when the training set ties task to group.

Elazar & Goldberg's protocol (EMNLP 2018), as in Shao, Ziser & Cohen (EACL 2023). The task is sentiment; dialect is
guarded. Training sets are resampled so that dialect and sentiment agree (aae with positive, sae with negative) in a
given share of the rows, both balanced; the test rows stay as they are. SAL is fitted on each training set (uncentred,
k = 2, as the authors do; centred with k = 1 differs little), and the same kind of classifier (a logistic
regression, C chosen) is trained before and after. What is read of dialect is read by one with C = 1, trained on the
same rows. Figures are means over draws.

    python -m benchmarks.reproduce_fairness FOLDER [--draws N]     FOLDER/vectors.npy, FOLDER/labels.csv

labels.csv has the columns dialect, sentiment and split. The tables: agreement of task and group; few labels; inputs
perturbed along λ; kernels; and, on sample_data/bios-sample, professions and the clusters of gender. "Authors" are the
figures in the notebooks that the authors of the paper published (github.com/jasonshaoshun/SAL), on other embeddings.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.reproduce_words import shown
from benchmarks.running import run
from salcli.erasers.base import Eraser
from salcli.erasers.sal import fit_sal
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.geometry import clusters
from salcli.evaluation.group_rates import Guarded
from salcli.evaluation.main_task import Task, Trained, main_task
from salcli.linalg.kernels import Kernel, NystromMap
from salcli.linalg.moments import CrossMoments

SHARES = (0.5, 0.6, 0.7, 0.8)
LABELS = (50, 200, 1_000, 4_000)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LANDMARKS = 256
# agree: accuracy of sentiment, RMS TPR gap and accuracy of dialect, each before and after two uncentred directions
AUTHORS = {
    0.5: ((0.765, 0.767), (0.146, 0.110), (0.871, 0.497)),
    0.6: ((0.753, 0.753), (0.226, 0.090), (0.841, 0.471)),
    0.7: ((0.741, 0.736), (0.319, 0.116), (0.820, 0.464)),
    0.8: ((0.720, 0.719), (0.404, 0.186), (0.838, 0.472)),
}
AUTHORS_KERNELS = {
    "linear": ((0.762, 0.764), (0.150, 0.109), (0.870, 0.486)),
    "rbf": ((0.762, 0.765), (0.150, 0.121), (0.845, 0.500)),
    "poly": ((0.762, 0.750), (0.150, 0.130), (0.865, 0.444)),
}
# Accuracy and RMS TPR gap of 28 professions, real biographies as sums of fastText vectors: the notebook
# notebook_fair-profession_bert_SAL, whose name says BERT
AUTHORS_PROFESSIONS = ((0.755, 0.756), (0.201, 0.119))
SAMPLE = Path(__file__).parent.parent / "sample_data"
Index = NDArray[np.int64]
Array = NDArray[Any]


def resampled(train: Index, dialect: Index, agrees: NDArray[np.bool_], share: float, seed: int) -> Index:
    """Draw rows of which `share` agree, as many of either dialect as the scarcest cell allows."""
    rng = np.random.default_rng(seed)
    cells = {(g, a): train[(dialect[train] == g) & (agrees[train] == a)] for g in (0, 1) for a in (True, False)}
    size = min(int(len(cell) / (share if agree else 1 - share)) for (_, agree), cell in cells.items())
    drawn = [rng.permutation(cell)[: int(size * (share if agree else 1 - share))] for (_, agree), cell in cells.items()]
    return np.sort(np.concatenate(drawn))


class Tweets:
    """Sentence embeddings with dialect and sentiment."""

    def __init__(self, folder: Path) -> None:
        self.x = np.load(folder / "vectors.npy").astype(np.float32)
        with (folder / "labels.csv").open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
        self.dialect = np.array([int(row["dialect"] == "aae") for row in rows])
        self.sentiment = np.array([int(row["sentiment"]) for row in rows])
        self.train, self.test = (np.flatnonzero([row["split"] == part for row in rows]) for part in ("train", "test"))

    def resampled(self, share: float, seed: int) -> Index:
        """Return training rows of which `share` agree."""
        return resampled(self.train, self.dialect, self.dialect == self.sentiment, share, seed)

    def eraser(self, x: Array, chosen: Index) -> Eraser:
        """Return SAL fitted on the rows `chosen` of `x` `[n, d]`."""
        return sal(x[chosen], self.dialect[chosen])

    def task(self, before: Array, after: Array, chosen: Index, seed: int, trained: Trained | None = None) -> Task:
        """Return the figures of the sentiment task, trained on the rows `chosen`."""
        found = main_task(
            before,
            after,
            self.sentiment,
            [Guarded("dialect", self.dialect, ("sae", "aae"))],
            chosen,
            self.test,
            column="sentiment",
            class_names=("negative", "positive"),
            seed=seed,
            trained=trained,
        )
        assert found is not None
        return found

    def dialect_read(self, x: Array, chosen: Index) -> float:
        """Return the accuracy of a logistic regression of dialect, trained on the rows `chosen`, on the test rows."""
        return read(x, self.dialect, chosen, self.test)


def sal(x: Array, y: Index) -> Eraser:
    """Return SAL as the authors fit it: two directions, uncentred."""
    return fit_sal(CrossMoments.of(x, np.eye(2)[y]), 2, is_centred=False).eraser


def read(x: Array, y: Index, train: Index, test: Index) -> float:
    """Return the accuracy of a logistic regression on rows `test` that is trained on rows `train`."""
    scaling = Scaling.of(x[train])
    return float(LogisticRegression(max_iter=1_000).fit(scaling(x[train]), y[train]).score(scaling(x[test]), y[test]))


def gap(task: Task, stage: str) -> float:
    """Return the RMS TPR gap, NaN where it is undefined."""
    value = None if task.first.tpr_gap_rms is None else task.first.tpr_gap_rms.at(stage)
    return float("nan") if value is None else value


def agreement_table(data: Tweets, n_draws: int) -> Iterator[str]:
    """Yield accuracy, gap and what is read of dialect, by the agreement of dialect and sentiment."""
    yield "| agree | rows | figure | before | after | authors, before | after |\n|---|---|---|---|---|---|---|"
    for share in SHARES:
        figures, n_rows = [], 0
        for seed in range(n_draws):
            chosen = data.resampled(share, seed)
            n_rows = len(chosen)
            erased = data.eraser(data.x, chosen)(data.x)
            task = data.task(data.x, erased, chosen, seed)
            figures.append(
                [
                    [task.accuracy.before, task.accuracy.after],
                    [gap(task, "before"), gap(task, "after")],
                    [data.dialect_read(each, chosen) for each in (data.x, erased)],
                ]
            )
        mean = np.mean(np.array(figures, dtype=float), axis=0)
        for name, of, authors in zip(("accuracy", "RMS TPR gap", "dialect read"), mean, AUTHORS[share], strict=True):
            yield f"| {shown(share, digits=1)} | {n_rows:,} | {name} | {shown(*of)} | {shown(*authors)} |"


def scarce_table(data: Tweets, n_draws: int) -> Iterator[str]:
    """Yield what SAL does that is fitted on few labels, where dialect and sentiment agree in 8 of 10 rows."""
    yield "| labels of the fit | accuracy after | RMS TPR gap after | dialect read after |\n|---|---|---|---|"
    draws = [(seed, data.resampled(0.8, seed)) for seed in range(n_draws)]
    before = {seed: Trained.of(data.x[chosen], data.sentiment[chosen], seed) for seed, chosen in draws}
    n_all = min(len(chosen) for _, chosen in draws)
    for n in (*(size for size in LABELS if size < n_all), n_all):
        found = []
        for seed, chosen in draws:
            few = np.sort(np.random.default_rng(seed).permutation(chosen)[:n])
            after = data.eraser(data.x, few)(data.x)
            task = data.task(data.x, after, chosen, seed, before[seed])
            found.append([task.accuracy.after, gap(task, "after"), data.dialect_read(after, chosen)])
        values = np.array(found, dtype=float)
        pairs = zip(values.mean(axis=0), values.std(axis=0), strict=True)
        yield f"| {n:,} | {' | '.join(f'{shown(mean)} ± {shown(std)}' for mean, std in pairs)} |"


def perturbed_table(data: Tweets) -> Iterator[str]:
    """Yield what classifiers that are not retrained predict of inputs on the way to the erased ones."""
    yield "| λ | sentiment | dialect |\n|---|---|---|"
    x, scaling = data.x, Scaling.of(data.x[data.train])
    of_task, of_dialect = (
        LogisticRegression(max_iter=1_000).fit(scaling(x[data.train]), y[data.train])
        for y in (data.sentiment, data.dialect)
    )
    eraser = data.eraser(x, data.train)
    for strength in STRENGTHS:
        rows = scaling(eraser(x[data.test], strength=strength))
        right = of_task.score(rows, data.sentiment[data.test]), of_dialect.score(rows, data.dialect[data.test])
        yield f"| {strength:g} | {shown(*right)} |"


def kernel_table(data: Tweets) -> Iterator[str]:
    """Yield accuracy, gap and what is read of dialect in the features of three kernels, at an agreement of one half."""
    yield "| kernel | figure | before | after | authors, before | after |\n|---|---|---|---|---|---|"
    chosen = data.resampled(0.5, 0)
    landmarks = np.sort(np.random.default_rng(0).permutation(chosen)[:LANDMARKS])
    for name, authors in AUTHORS_KERNELS.items():
        features = NystromMap.of(Kernel(name), data.x[landmarks])
        before = features(data.x)
        after = data.eraser(before, chosen)(before)
        task = data.task(before, after, chosen, 0)
        assert task.accuracy.after is not None
        figures = {
            "accuracy": (task.accuracy.before, task.accuracy.after),
            "RMS TPR gap": (gap(task, "before"), gap(task, "after")),
            "dialect read": (data.dialect_read(before, chosen), data.dialect_read(after, chosen)),
        }
        for (figure, of), theirs in zip(figures.items(), authors, strict=True):
            yield f"| {name} | {figure} | {shown(*of)} | {shown(*theirs)} |"


def profession_tables() -> Iterator[str]:
    """Yield the gap between genders over professions, and the clusters of gender in each (the paper's figure 1)."""
    x = np.load(SAMPLE / "bios-sample.npy").astype(np.float32)
    with (SAMPLE / "bios-sample.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    genders, jobs = (tuple(sorted({row[column] for row in rows})) for column in ("gender", "profession"))
    gender = np.array([genders.index(row["gender"]) for row in rows])
    job = np.array([jobs.index(row["profession"]) for row in rows])
    train, test = (np.flatnonzero([row["split"] == part for row in rows]) for part in ("train", "test"))
    erased = sal(x[train], gender[train])(x)
    guarded = [Guarded("gender", gender, genders)]
    task = main_task(x, erased, job, guarded, train, test, column="profession", class_names=jobs, seed=0)
    assert task is not None
    assert task.accuracy.after is not None
    yield "| figure | before | after | authors, before | after |\n|---|---|---|---|---|"
    accuracy = shown(task.accuracy.before, task.accuracy.after)
    yield f"| accuracy of {len(jobs)} professions | {accuracy} | {shown(*AUTHORS_PROFESSIONS[0])} |"
    yield f"| RMS TPR gap | {shown(gap(task, 'before'), gap(task, 'after'))} | {shown(*AUTHORS_PROFESSIONS[1])} |"
    yield f"| gender read | {shown(*(read(each, gender, train, test) for each in (x, erased)))} | – | – |\n"
    pairs = [f"{one} × {other}" for one, other in ((genders[0],) * 2, genders, (genders[1],) * 2)]
    yield f"| profession | {' | '.join(f'{pair}, before | after' for pair in pairs)} |\n|---|---|---|---|---|---|---|"
    for of in clusters(x, erased, gender, "gender", genders, job, jobs):
        rhos = [rho for pair in of.pairs for rho in (pair.before, pair.after)]
        yield f"| {of.task_class or 'all'} | {shown(*rhos)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with vectors.npy and labels.csv")
    parser.add_argument("--draws", type=int, default=2, help="training sets of each agreement")
    given = parser.parse_args()
    data = Tweets(given.folder)
    for title, lines in (
        ("Agreement", agreement_table(data, given.draws)),
        ("Few labels", scarce_table(data, given.draws)),
        ("Perturbed inputs", perturbed_table(data)),
        ("Kernels", kernel_table(data)),
        ("Professions", profession_tables()),
    ):
        print(f"\n{title}\n", flush=True)
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    run(main)

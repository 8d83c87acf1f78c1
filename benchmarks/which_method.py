"""All methods on one sample: what attackers read of each, what it changes, keeps and costs, as a Markdown table.

    python -m benchmarks.which_method [bios | glove] [--probes linear,quadratic,…]

bios is sample_data/bios-sample (gender is guarded, the main task is the profession), glove is sample_data/glove-sample
(its he and she words). Each method is fitted by `salcli fit` with its default options and judged by `salcli compare`.
The first columns are the leak (0: nothing is read, 1: all) to fresh attackers, on raw rows that took no part in the
fit. *Changed* is the mean squared change of test rows, as a share of their variance, a common shift left out.
*Neighbours* is the share of the ten nearest rows that stay, *task* the accuracy of a classifier that is trained after
erasure. *Fit* is the least time of three fits, as a multiple of that of sal.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks.running import run
from salcli.commands.compare import compare
from salcli.commands.fit import fit
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import METHODS
from salcli.errors import SalcliWarning
from salcli.evaluation.choose import mean_change
from salcli.evaluation.comparison import Candidate, readings
from salcli.evaluation.stages import Erasure
from salcli.evaluation.task import TASK
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import CompareOptions, EvaluateOptions, FitOptions, LabelOptions
from salcli.streaming.engine import one_blas_thread

SAMPLES = Path(__file__).parent.parent / "sample_data"
DATA = {
    "bios": ("bios-sample.npy", "bios-sample.csv", "gender", "profession"),
    "glove": ("glove-sample.txt", "glove-sample-labels.csv", "label", None),
}
PROBES = ("linear", "rbf", "quadratic", "knn", "boosting")
RUNS = 3


def fitted(kind: str, folder: Path) -> dict[str, tuple[str, float]]:
    """Return the path of each method's artifact in `folder`, and the seconds that its fit took."""
    embeddings, labels, attribute, task = DATA[kind]
    ways = {}
    for name, method in METHODS.items():
        parameters = method.Parameters()
        if hasattr(parameters, "task"):
            if task is None:
                continue
            parameters = replace(parameters, task=task)
        if name != "auto":
            ways[name] = FitOptions(LabelOptions(attributes=(attribute,)), method=name, parameters=parameters)
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(RUNS):
        for name, options in ways.items():
            start = perf_counter()
            fit(str(SAMPLES / embeddings), str(SAMPLES / labels), str(folder / f"{name}.npz"), options)
            seconds[name] = min(seconds[name], perf_counter() - start)
    return {name: (str(folder / f"{name}.npz"), seconds[name]) for name in ways}


def changes(kind: str, artifacts: dict[str, tuple[str, float]]) -> dict[str, float | None]:
    """Return by method how much it changes test rows; None where it writes features."""
    embeddings, labels, attribute, _ = DATA[kind]
    table = read_labels(str(SAMPLES / labels), LabelOptions(attributes=(attribute,)))
    is_test = np.array(table.splits) == "test"
    with open_source(str(SAMPLES / embeddings)) as source, one_blas_thread():
        batches = [chunk.read() for chunk in source.chunks()]
        x = np.concatenate([batch.vectors for batch in batches])
        if table.keys is not None:
            row_of = {key: row for row, key in enumerate(key for batch in batches for key in batch.keys or ())}
            rows = [row_of[table.keys[i]] for i in np.flatnonzero(is_test).tolist()]
        else:
            rows = np.flatnonzero(is_test).tolist()
        found = dict[str, float | None]()
        for name, (path, _) in artifacts.items():
            after = Erasure.of(read_artifact(path), source).erased(x[rows])
            is_changed = after is not None and after.shape == x[rows].shape and name != "ksal"
            found[name] = mean_change(x[rows], after) if is_changed and after is not None else None
    return found


def cells(candidate: Candidate, probes: tuple[str, ...]) -> Iterator[str]:
    """Yield the leak to each fresh attacker, the neighbours that stay, and the task's accuracy."""
    leaks = {
        each.probe: each.leak
        for each in readings(candidate.report, "after")
        if (each.adversary, each.form) == ("fresh", "raw")
    }
    yield from (f"{leaks[probe]:.2f}" for probe in probes)
    neighbours, task = candidate.kept["neighbors"], candidate.report.of(TASK)
    yield "–" if neighbours is None else f"{neighbours:.2f}"
    yield "–" if task is None or task.accuracy.after is None else f"{task.accuracy.after:.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=tuple(DATA), default="bios")
    parser.add_argument("--probes", default=",".join(PROBES))
    given = parser.parse_args()
    probes = tuple(given.probes.split(","))
    embeddings, labels, _, task = DATA[given.kind]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        artifacts = fitted(given.kind, Path(folder))
        changed = changes(given.kind, artifacts)
        evaluation = EvaluateOptions(probes=probes, forms=("raw",), task=task, learning_curve=False)
        erasers = tuple(path for path, _ in artifacts.values())
        options = CompareOptions(erasers=erasers, evaluation=evaluation)
        found = compare(str(SAMPLES / embeddings), str(SAMPLES / labels), options).candidates
        sizes = {name: os.path.getsize(path) for name, (path, _) in artifacts.items()}
    before = {each.probe: each.leak for each in readings(found[0].report, "before") if each.adversary == "fresh"}
    first = found[0].report.of(TASK)
    accuracy = "–" if first is None else f"{first.accuracy.before:.3f}"
    names = ["kNN" if probe == "knn" else "MLP" if probe == "mlp" else probe for probe in probes]
    print(f"| {' | '.join([given.kind, *names, 'changed', 'neighbours', 'task', 'fit', 'artifact'])} |")
    print("|---|" + "---:|" * (len(names) + 5))
    print(f"| before | {' | '.join(f'{before[probe]:.2f}' for probe in probes)} | 0 | 1 | {accuracy} | – | – |")
    unit = artifacts["sal"][1]
    for (name, (_, seconds)), candidate in zip(artifacts.items(), found, strict=True):
        *left, neighbours, after = cells(candidate, probes)
        change = changed[name]
        moved = "–" if change is None else f"{change:.3f}"
        costs = f"{seconds / unit:.3g} | {sizes[name] / 1000:,.0f} kB"
        print(f"| {candidate.name} | {' | '.join(left)} | {moved} | {neighbours} | {after} | {costs} |")


if __name__ == "__main__":
    run(main)

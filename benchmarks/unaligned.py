"""How many rows `salcli label --counts` assigns right, and what an eraser that is fitted to its labels leaves.

    python -m benchmarks.unaligned sample_data/bios-sample.npy sample_data/bios-sample.csv gender [--seeds 0,40,100]

The labels of a column are hidden but for their counts and some seed labels, drawn at random (mean over three draws).
*Right* is the share of the other rows; without seed labels up to the names of the classes, by the best matching.
*Read* is the balanced accuracy of a linear attacker on the true labels of rows that took no part in the fit, after SAL
that was fitted to half of the rows with the assigned labels, to the seed labels alone, and to that half with true ones.
"""

import argparse
import csv
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import salcli
from benchmarks.running import run
from salcli.commands.label import label
from salcli.commands.label_counts import Assigned
from salcli.errors import SalcliWarning
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.scores import balanced_accuracy, silence_convergence_warnings
from salcli.options import LabelCommandOptions

DRAWS = 3


def column(path: Path, name: str) -> list[str]:
    """Return a column of a CSV."""
    with path.open(encoding="utf-8", newline="") as handle:
        return [row[name] for row in csv.DictReader(handle)]


def assigned(embeddings: str, truth: list[str], n_seeds: int, seed: int) -> tuple[NDArray[np.str_], Assigned, set[int]]:
    """Return the classes by `label --counts`, what it says of them, and the rows of the seed labels."""
    names, counts = np.unique(truth, return_counts=True)
    known = set(np.random.default_rng(seed).choice(len(truth), n_seeds, replace=False).tolist())
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        seeds, output = Path(folder, "seeds.csv"), Path(folder, "labels.csv")
        with seeds.open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle).writerows([["label"], *([one if i in known else ""] for i, one in enumerate(truth))])
        pairs = tuple(zip(names.tolist(), counts.tolist(), strict=True))
        how = LabelCommandOptions(counts=pairs, seed_labels=str(seeds) if n_seeds else None, split=(), seed=seed)
        done = label(embeddings, str(output), how)
        assert isinstance(done, Assigned)
        return np.array(column(output, "label")), done, known


def right(found: NDArray[np.str_], truth: NDArray[np.str_], known: set[int]) -> float:
    """Return the share of rows, seed labels left out, that are right: without seed labels up to names."""
    rest = np.setdiff1d(np.arange(len(truth)), list(known))
    if known:
        return float(np.mean(found[rest] == truth[rest]))
    names = np.unique(truth)
    table = np.array([[np.sum((found == one) & (truth == other)) for other in names] for one in names])
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(truth))


def read_after(
    x: NDArray[np.floating],
    labels: NDArray[np.str_],
    truth: NDArray[np.str_],
    known: set[int],
    seed: int,
    *,
    alone: bool,
) -> float:
    """Return what a linear attacker reads of the true labels after SAL that was fitted to `labels` of other rows.

    These rows are those of the seed labels and, unless they are to be `alone`, others up to a half of all.
    """
    seeds = np.array(sorted(known), np.int64)
    order = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(x)), seeds))
    fit, train, test = np.split(np.concatenate([seeds, order]), [len(x) // 2, 3 * len(x) // 4])
    fit = seeds if alone else fit
    z = salcli.fit(x[fit], labels[fit]).eraser(x.astype(np.float64))
    scale, codes = Scaling.of(z[train]), np.unique(truth, return_inverse=True)[1]
    attacker = ATTACKERS["linear"]
    with silence_convergence_warnings():
        model = attacker.fit(scale(z[train]), codes[train], attacker.usual(x.shape[1]), seed)
    return balanced_accuracy(model.predict(scale(z[test])), codes[test])


def main() -> None:
    """Print a Markdown table: means over the draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("column")
    parser.add_argument("--seeds", default="0,40,100")
    given = parser.parse_args()
    truth = column(given.labels, given.column)
    x, y = np.load(given.embeddings), np.array(truth)
    shares = np.unique(y, return_counts=True)[1] / len(y)
    print(f"{given.column}: {len(y):,} rows, {len(shares)} classes; at random {shares @ shares:.3f} would be right\n")
    print("| seed labels | right | held-out seed labels right | read after | by seed labels alone | by true labels |")
    print("|---:|---:|---:|---:|---:|---:|")
    for n_seeds in map(int, given.seeds.split(",")):
        figures = []
        for draw in range(DRAWS):
            found, done, known = assigned(str(given.embeddings), truth, n_seeds, draw)
            right_of_seeds = np.nan if done.seeds is None else done.seeds.right
            of_found, of_truth = (read_after(x, labels, y, known, draw, alone=False) for labels in (found, y))
            of_seeds = read_after(x, y, y, known, draw, alone=True) if known else np.nan
            figures.append((right(found, y, known), right_of_seeds, of_found, of_seeds, of_truth))
        cells = ("–" if np.isnan(mean) else f"{mean:.3f}" for mean in np.mean(figures, axis=0))
        print(f"| {n_seeds} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    run(main)

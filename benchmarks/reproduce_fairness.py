"""Reproduce fair classification: what SAL does to the gap between groups when the training set ties task to group.

Elazar & Goldberg's protocol (EMNLP 2018), as in Shao, Ziser & Cohen (EACL 2023). The task is sentiment; dialect is
guarded. Training sets are resampled so that dialect and sentiment agree (aae with positive, sae with negative) in a
given share of the rows, both balanced; the test rows stay as they are. SAL (centred, k = 1) is fitted on each training
set, and the same linear classifier is trained before and after. Means over three draws.

    python -m benchmarks.reproduce_fairness FOLDER     FOLDER/vectors.npy, FOLDER/labels.csv (dialect, sentiment, split)
"""

import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.sal import fit_sal
from salcli.evaluation.main_task import Guarded, main_task
from salcli.evaluation.report import to_json
from salcli.linalg.moments import CrossMoments

SHARES, DRAWS = (0.5, 0.6, 0.7, 0.8), 3
REFERENCE = {0.5: (0.07, 0.08), 0.6: (0.20, 0.09), 0.7: (0.37, 0.14), 0.8: (0.51, 0.18)}
Index = NDArray[np.int64]


def resampled(train: Index, dialect: Index, agrees: NDArray[np.bool_], share: float, seed: int) -> Index:
    """Draw rows of which `share` agree, as many of either dialect as the scarcest cell allows."""
    rng = np.random.default_rng(seed)
    cells = {(g, a): train[(dialect[train] == g) & (agrees[train] == a)] for g in (0, 1) for a in (True, False)}
    size = min(int(len(cell) / (share if agree else 1 - share)) for (_, agree), cell in cells.items())
    drawn = [rng.permutation(cell)[: int(size * (share if agree else 1 - share))] for (_, agree), cell in cells.items()]
    return np.sort(np.concatenate(drawn))


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        sys.exit("usage: reproduce_fairness.py FOLDER  (make reproduce-fairness DATA=FOLDER)")
    folder = Path(sys.argv[1])
    x = np.load(folder / "vectors.npy").astype(np.float32)
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    dialect, sentiment = (np.array([int(row[c] in ("aae", "1")) for row in rows]) for c in ("dialect", "sentiment"))
    train, test = (np.flatnonzero([row["split"] == part for row in rows]) for part in ("train", "test"))
    print("| agree | rows | accuracy before | after | TPR gap before | after | RMS gap before | after | reference |")
    print("|---|---|---|---|---|---|---|---|---|")
    for share in SHARES:
        figures, n_rows = [], 0
        for seed in range(DRAWS):
            chosen = resampled(train, dialect, dialect == sentiment, share, seed)
            n_rows = len(chosen)
            erased = fit_sal(CrossMoments.of(x[chosen], np.eye(2)[dialect[chosen]])).eraser(x)
            result = main_task(
                x,
                erased,
                sentiment,
                [Guarded("dialect", dialect, ("sae", "aae"))],
                chosen,
                test,
                column="sentiment",
                class_names=("negative", "positive"),
                seed=seed,
            )
            assert result is not None
            told = to_json(result)
            figures.append(
                [told[name][stage] for name in ("accuracy", "tpr_gap", "tpr_gap_rms") for stage in ("before", "after")]
            )
        mean = " | ".join(f"{value:.3f}" for value in np.mean(figures, axis=0))
        print(f"| {share} | {n_rows} | {mean} | {REFERENCE[share][0]:.2f} → {REFERENCE[share][1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""How often does a gate on `--max-leak` pass, fail or stay undecided? Simulated attackers whose true leak is known.

    python -m benchmarks.gate_rates [--runs N] [--limit X] [--attackers N]

Two classes of equal size. Every attacker scores the test rows with normal noise, half of it common to all attackers,
and the means of the classes lie so far apart that its true AUC is (1 + leak) / 2: the largest of the three measures
that a leak is. The figures and their bounds are those that `evaluate` computes. Prints a Markdown table.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from salcli.evaluation.attackers.scores import areas, balanced_accuracy, errors, majority_rate, wilson
from salcli.evaluation.gates import Expected, Judge, leak_gate
from salcli.evaluation.probe_result import ProbeResult

SIZES = (250, 1_000, 4_000)


def result(name: str, scores: NDArray[np.float64], true: NDArray[np.int64]) -> ProbeResult:
    """Return what `evaluate` would record of an attacker with these scores of the second class."""
    predicted = (scores > 0).astype(np.int64)
    n_right, (error, balanced_error) = int(np.sum(predicted == true)), errors(predicted, true)
    return ProbeResult(
        attribute="label",
        probe=name,
        adversary="fresh",
        stage="after",
        accuracy=n_right / len(true),
        ci95=wilson(n_right, len(true)),
        balanced_accuracy=balanced_accuracy(predicted, true),
        majority=majority_rate(true),
        n_train=len(true),
        n_test=len(true),
        converged=True,
        capped=False,
        n_classes=2,
        accuracy_error=error,
        balanced_error=balanced_error,
        areas=areas(scores, true, np.array([0, 1])),
    )


def rates(leak: float, n_rows: int, n_attackers: int, limit: float, n_runs: int) -> dict[str, float]:
    """Return the share of runs in which the gate has each status.

    Parameters
    ----------
    leak : the true one, of every attacker
    n_rows : test rows
    n_attackers : that the gate judges
    limit : of the gate
    n_runs : that are simulated
    """
    rng, found = np.random.default_rng([n_rows, round(1_000 * leak)]), Counter[str]()
    true = np.arange(n_rows) % 2
    apart = sqrt(2) * ndtri((1 + leak) / 2)
    names = [f"attacker {i}" for i in range(n_attackers)]
    expected = Expected(tuple(("label", "fresh", name) for name in names))
    for _ in range(n_runs):
        common = rng.standard_normal(n_rows)
        scores = [
            apart * (true - 0.5) + sqrt(0.5) * (common + own) for own in rng.standard_normal((n_attackers, n_rows))
        ]
        read = tuple(result(name, each, true) for name, each in zip(names, scores, strict=True))
        found[leak_gate(limit, None, expected, read, "after", Judge()).status] += 1
    return {status: found[status] / n_runs for status in ("passed", "failed", "undecided")}


def table(limit: float, n_attackers: int, n_runs: int) -> Iterator[str]:
    """Yield the rows of the table."""
    yield "| true leak | test rows | passed | failed | undecided |"
    yield "|---|---|---|---|---|"
    for leak in (0.0, limit, 2 * limit):
        for n_rows in SIZES:
            shares = rates(leak, n_rows, n_attackers, limit, n_runs)
            shown = " | ".join(f"{share:.3f}".removeprefix("0") for share in shares.values())
            yield f"| {leak:g} | {n_rows:,} | {shown} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000, help="simulated evaluations of each row")
    parser.add_argument("--limit", type=float, default=0.1, help="of --max-leak")
    parser.add_argument("--attackers", type=int, default=8, help="that the gate judges: four, in-sample and fresh")
    given = parser.parse_args()
    for line in table(given.limit, given.attackers, given.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()

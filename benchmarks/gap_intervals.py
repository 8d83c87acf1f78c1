"""Simulated coverage of the 95 % intervals of gaps between two groups.

    python -m benchmarks.gap_intervals [--draws N]

draws rates of classes whose two groups differ by the same true gap (of true positive rates around .5, of false positive
rates around .03, or, of a ratio of two classes, by the same factor), and prints a Markdown table.
"""

import argparse

import numpy as np

from salcli.evaluation.gaps import GapTest, difference, mean, root_mean_square, shortfall

CASES = (
    *(("TPR gap, mean", 2, 150, 0.5, gap) for gap in (0.0, 0.05, 0.1)),
    *(("TPR gap, RMS", 18, 60, 0.5, gap) for gap in (0.0, 0.05, 0.1)),
    *(("FPR gap, RMS", 18, 1_020, 0.03, gap) for gap in (0.0, 0.02)),
    ("TPR ratio", 2, 150, 0.5, 0.1),
)
"""Figure, classes, rows of each class and group, rate of the higher group, and the gap, or what a ratio lacks of 1."""


def coverage(figure: str, n_classes: int, n_rows: int, rate: float, gap: float, n_draws: int) -> tuple[float, float]:
    """Return the share of draws whose interval holds the true gap, and the mean width of the intervals.

    Parameters
    ----------
    figure, n_classes, n_rows, rate, gap : see `CASES`
    n_draws : samples
    """
    is_ratio = figure.endswith("ratio")
    statistic = root_mean_square if figure.endswith("RMS") else mean
    lower = rate * (1 - gap) if is_ratio else rate - gap
    truth = np.tile([rate, lower], (n_classes, 1))
    truth[1::2] = truth[1::2, ::-1]
    n = np.full(truth.shape, n_rows)
    rng, covered, widths = np.random.default_rng(0), [], []
    for seed in range(n_draws):
        test = GapTest(rng.binomial(n, truth), n, statistic, seed, shortfall if is_ratio else difference)
        low, high = test.lower(0.025), test.upper(0.025)
        covered.append(low - 1e-9 <= gap <= high + 1e-9)
        widths.append(high - low)
    return float(np.mean(covered)), float(np.mean(widths))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="samples of each row")
    n_draws = parser.parse_args().draws
    print("| figure | classes | rows of a class and group | highest rate | true gap, or 1 − ratio | holds it | width |")
    print("|---|---|---|---|---|---|---|")
    for figure, n_classes, n_rows, rate, gap in CASES:
        share, width = coverage(figure, n_classes, n_rows, rate, gap, n_draws)
        print(f"| {figure} | {n_classes} | {n_rows:,} | {rate:g} | {gap:g} | {share:.3f} | {width:.3f} |", flush=True)


if __name__ == "__main__":
    main()

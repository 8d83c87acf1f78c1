"""What nonlinear attackers read after each method, on rows that took no part in any choice, and what is kept.

    python -m benchmarks.robust KIND FOLDER [--seeds N] [--methods sal,transport,white-box] [--fit-rows N]
        [--attackers linear,rbf]

KIND is glove (vectors.npy, vocab.txt: the 7,500 most `he` and most `she` words), dialect or eec (vectors.npy and
labels.csv). 40 % of the labelled rows fit the eraser (--fit-rows: at most so many), 30 % train the attackers, 30 % are
the test, of either at most 1,200; no choice looks at the test. `sal+` removes, beside the direction of SAL, those in
which the variances of the classes differ most: as many as leave fitted rows the neighbours that transport leaves them.
`white-box` is transport as whoever holds the eraser reads it. `scored` is `fit --method transport --score`, with the
next 40,000 words at each end, by their cosine with he − she. Attackers are those of `evaluate`, each with a few
settings, chosen on a part of its own rows. Kept is the mean share of the ten nearest rows by cosine that stay, of 500
random rows and of 500 labelled ones, and SimLex-999 or the accuracy of a logistic regression on the main task, trained
on the attackers' rows.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import salcli
from benchmarks.running import run
from salcli.commands.fit import fit as fit_file
from salcli.erasers.base import Eraser, find_method
from salcli.erasers.linear import LinearEraser
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.evaluation.word_pairs import similarity_score, spellings
from salcli.formats.gold_sets import read_similarity
from salcli.options import FitOptions, LabelOptions
from salcli.streaming.engine import map_in_threads, one_blas_thread

TOP, SHOWN, MOST, UNLABELLED = 7500, 500, 1200, 40_000
METHODS: dict[str, dict[str, Any]] = {
    "before": {},
    "sal": {},
    "sal+": {},
    "leace": {},
    "ksal": {"landmarks": 500, "gamma": "scale"},
    "inlp": {},
    "transport": {},
    "white-box": {},
    "scored": {},
}
TRANSPORTS: dict[int, Eraser] = {}
DIRECTIONS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)
WIDTHS = (0.25, 1.0, 4.0)
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "linear": {"C": (1.0,)},
    "poly": {"gamma": (0.25, 1.0), "C": (1.0,)},
    "rbf": {"gamma": WIDTHS, "C": (10.0,)},
    "quadratic": {"pooled": (0.0, 0.5), "identity": (0.03, 0.1, 0.3)},
    "knn": {"k": (1.0, 7.0, 31.0)},
    "boosting": {},
    "mlp": {},
}
Array = NDArray[Any]


@dataclass
class Data:
    """Labelled rows of a file."""

    x: Array
    """All rows."""
    rows: Array
    """Those that are labelled."""
    y: Array
    task: Array | None = None
    words: list[str] | None = None
    path: Path | None = None
    """Of the file of all rows."""
    scores: Array | None = None
    """`[n]` of all rows, where classes are cut from them."""


def read(kind: str, folder: Path) -> Data:
    """Read one of the data sets."""
    path = folder / "vectors.npy"
    x = np.load(path).astype(np.float32)
    if kind == "glove":
        words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[: len(x)]
        direction = x[words.index("he")] - x[words.index("she")]
        scores = x @ direction / np.linalg.norm(x, axis=1)
        order = np.argsort(scores)
        rows = np.concatenate([order[:TOP], order[-TOP:]])
        return Data(x, rows, np.repeat([1, 0], TOP), words=words, path=path, scores=scores)
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as handle:
        table = list(csv.DictReader(handle))
    guarded, task = ("dialect", "sentiment") if kind == "dialect" else ("gender", "emotion")
    y, main = (np.unique([row[name] for row in table], return_inverse=True)[1] for name in (guarded, task))
    return Data(x, np.arange(len(x)), y, main)


def attacked(name: str, x: Array, y: Array, new: Array, true: Array, seed: int) -> float:
    """Return the balanced accuracy of an attacker, whose settings are chosen on a part of its rows."""
    attacker, grid = ATTACKERS[name], GRIDS[name]
    if name in ("poly", "rbf"):
        grid = {**grid, "gamma": tuple(value / x.shape[1] for value in grid["gamma"])}
    choices = [
        {**attacker.usual(x.shape[1]), **dict(zip(grid, values, strict=True))} for values in product(*grid.values())
    ]
    part = np.random.default_rng(seed).permutation(len(x))
    train, dev = part[: int(0.7 * len(x))], part[int(0.7 * len(x)) :]

    def score(settings: dict[str, float], at: Array, x_new: Array, y_new: Array) -> float:
        predicted = attacker.fit(x[at], y[at], settings, seed).predict(x_new)
        return float(np.mean([np.mean(predicted[y_new == value] == value) for value in np.unique(y_new)]))

    best = choices[0]
    if len(choices) > 1:
        best = max(choices, key=lambda settings: score(settings, train, x[dev], y[dev]))
    return score(best, part, new, true)


def overlap(x: Array, z: Array, at: Array) -> float:
    """Return the mean share of the ten nearest rows by cosine that stay."""
    nearest = []
    for rows in (x, z):
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        cosines = units[at] @ units.T
        cosines[np.arange(len(at)), at] = -2
        nearest.append(np.argpartition(-cosines, 10, axis=1)[:, :10])
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest, strict=True)]))


def kept(data: Data, z: Array, train: Array, test: Array, seed: int) -> Iterator[float]:
    """Yield what is kept: of random rows, of labelled rows, of word similarity or the main task."""
    rng = np.random.default_rng(seed)
    for rows in (np.arange(len(data.x)), data.rows):
        yield overlap(data.x, z, rng.choice(rows, SHOWN, replace=False))
    if data.words is not None:
        gold = read_similarity("simlex999")
        wanted = spellings(gold.pairs)
        vectors = {word: z[i] for i, word in reversed(list(enumerate(data.words))) if word in wanted}
        yield float(similarity_score(gold.name, gold.pairs, gold.scores, vectors).spearman or 0)
    elif data.task is not None:
        middle, spread = z[train].mean(axis=0), z[train].std()
        model = LogisticRegression(max_iter=500).fit((z[train] - middle) / spread, data.task[train])
        yield float(model.score((z[test] - middle) / spread, data.task[test]))


def fitted(x: Array, y: Array, method: str, seed: int) -> Eraser:
    """Return the eraser of a method, and print what it chose."""
    if method == "sal+":
        return more_directions(x, y, seed)
    if method in ("transport", "white-box"):
        return transported(x, y, seed)
    eraser = salcli.fit(x, y, method=method, seed=seed, **METHODS[method]).eraser
    print(f"  {method}, seed {seed}: k {eraser.k}", flush=True)
    return eraser


def transported(x: Array, y: Array, seed: int) -> Eraser:
    """Return the transport of a seed, which several methods need."""
    if seed not in TRANSPORTS:
        found = salcli.fit(x, y, method="transport", seed=seed)
        about = found.header["transport"]
        print(f"  transport, seed {seed}: shrinkage {about['shrinkage']}, {about['towards']}", flush=True)
        TRANSPORTS[seed] = found.eraser
    return TRANSPORTS[seed]


def scored(data: Data, fit: Array, seed: int) -> Eraser:
    """Return the transport of `salcli fit --score` to the labelled rows at `fit`, and rows that no label is of."""
    assert data.path is not None
    assert data.scores is not None
    order = np.argsort(data.scores)
    free = np.concatenate([order[TOP:][:UNLABELLED], order[:-TOP][-UNLABELLED:]])
    free = np.setdiff1d(free, data.rows)
    names = dict(zip(data.rows[fit].tolist(), data.y[fit].tolist(), strict=True))
    rows = sorted({*names, *free.tolist()})
    with TemporaryDirectory() as folder:
        labels, out = Path(folder) / "labels.csv", Path(folder) / "eraser.npz"
        cells = (f"{row},{names.get(row, '')},{float(data.scores[row])!r}\n" for row in rows)
        labels.write_text(",label,score\n" + "".join(cells))
        parameters = find_method("transport").Parameters(score="score")
        options = FitOptions(LabelOptions(("label",)), method="transport", parameters=parameters, seed=seed)
        about = fit_file(str(data.path), str(labels), str(out), options).header
        print(f"  scored, seed {seed}: {about['transport']['shrinkage']}, rows {about['scored']['effective_rows']}")
        return salcli.load_eraser(str(out))


def more_directions(x: Array, y: Array, seed: int) -> LinearEraser:
    """Return SAL with further directions: as many as leave fitted rows the neighbours that transport leaves them."""
    shown = np.random.default_rng(seed).choice(len(x), SHOWN, replace=False)
    least = overlap(x, transported(x, y, seed)(x), shown)
    u = salcli.fit(x, y, method="sal").eraser.left
    z = x - (x @ u) @ u.T
    values, vectors = np.linalg.eigh(np.cov(z[y == 0].T) - np.cov(z[y == 1].T))
    vectors = vectors[:, np.argsort(-np.abs(values))]
    best = LinearEraser(np.zeros(x.shape[1]), u, u)
    for n in DIRECTIONS:
        basis = np.linalg.qr(np.hstack([u, vectors[:, :n]]))[0][:, : min(n + 1, x.shape[1] - 1)]
        eraser = LinearEraser(np.zeros(x.shape[1]), basis, basis)
        if overlap(x, eraser(x), shown) < least:
            break
        best = eraser
    print(f"  sal+, seed {seed}: k {best.k}, for neighbours {least:.3f}", flush=True)
    return best


def figures(
    data: Data, method: str, seed: int, most: int | None = None, attackers: Sequence[str] = tuple(GRIDS)
) -> list[float]:
    """Return what each of the `attackers` reads, and what is kept, by an eraser of at most `most` rows."""
    order = np.random.default_rng(seed).permutation(len(data.rows))
    fit, train, test = np.split(order, [int(0.4 * len(order)), int(0.7 * len(order))])
    fit, train, test = fit[:most], train[:MOST], test[:MOST]
    at_train, at_test = data.rows[train], data.rows[test]
    z, parts = data.x, (data.x[at_train], data.x[at_test])
    if method != "before":
        if method == "scored":
            eraser = scored(data, fit, seed)
        else:
            eraser = fitted(data.x[data.rows[fit]], data.y[fit], method, seed)
        with one_blas_thread():
            z = eraser(data.x, dtype=np.float32)
            parts = z[at_train], z[at_test]
            if method == "white-box":
                parts = tuple(np.hstack([part, eraser.preimages(part)]) for part in parts)
    scale = Scaling.of(data.x[at_train] if parts[0].shape[1] == data.x.shape[1] else parts[0])
    x, new = map(scale, parts)
    with silence_convergence_warnings():
        read_ = list(map_in_threads(lambda name: attacked(name, x, data.y[train], new, data.y[test], seed), attackers))
    return [*read_, max(read_), *kept(data, z, at_train, at_test, seed)]


def main() -> None:
    """Print a Markdown table: mean ± standard deviation over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("glove", "dialect", "eec"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fit-rows", type=int, default=None)
    parser.add_argument("--attackers", default=",".join(GRIDS))
    parser.add_argument("--methods", default=",".join(METHODS))
    given = parser.parse_args()
    data, attackers = read(given.kind, given.folder), given.attackers.split(",")
    last = "SimLex-999" if data.words is not None else "task"
    lines = [f"| {given.kind} | {' | '.join(attackers)} | worst | neighbours | of labelled rows | {last} |"]
    lines.append("|---" * (len(attackers) + 5) + "|")
    for method in given.methods.split(","):
        found = np.array([figures(data, method, seed, given.fit_rows, attackers) for seed in range(given.seeds)])
        spread = found.std(axis=0, ddof=1) if given.seeds > 1 else 0 * found[0]
        cells = [
            f"{m:.3f} ± {s:.3f}" if given.seeds > 1 else f"{m:.3f}"
            for m, s in zip(found.mean(axis=0), spread, strict=True)
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    run(main)

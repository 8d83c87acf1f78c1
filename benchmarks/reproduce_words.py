"""Reproduce the word-embedding figures of the paper's protocol on GloVe 6B 100d, and what a fresh attacker reads.

Shao, Ziser & Cohen (EACL 2023) take the 7,500 most `he` and the 7,500 most `she` words of the first 150,000, split them
70/30 and the training part 70/30 again, and train an SVM on the rows that the eraser was fitted on. Beside that stands
an attacker with labelled rows of its own: the eraser is fitted on one half of the training rows, the other half
trains the attacker. Nonlinear attackers and word similarity follow, the latter on all gold sets in WORDSIM.
Everything goes through the command line.

    python -m benchmarks.reproduce_words GLOVE [WORDSIM] [--top N]

GLOVE is glove.6B.100d.txt as it is downloaded, or a folder with its first 150,000 rows as vectors.npy and vocab.txt;
WORDSIM is a folder of gold sets, `*.txt` (default: SimLex-999 and WordSim-353).
"""

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.running import run
from salcli.erasers.sal import fit_sal
from salcli.formats.registry import open_source
from salcli.linalg.moments import CrossMoments

N_WORDS, TOP = 150_000, 7500
PROBES = ("linear", "poly", "rbf", "quadratic")
ERASERS = {
    "uncentred, k = 1": ["--no-center", "-k", "1"],
    "uncentred, k = 2": ["--no-center", "-k", "2"],
    "centred, k = 1": ["-k", "1"],
}
PAPER = {"uncentred, k = 1": "as before", "uncentred, k = 2": ".502", "centred, k = 1": "–"}
AUTHORS = {  # Spearman correlation before and after, uncentred, k = 2, GloVe 42B 300d: the authors' notebook simlex_SAL
    "SIMLEX-999": (0.374, 0.391),
    "WS-353-SIM": (0.695, 0.700),
    "WS-353-REL": (0.600, 0.605),
    "MTurk-771": (0.684, 0.698),
}


def salcli(*arguments: str) -> str:
    """Run a command of the installed salcli and give what it printed."""
    done = subprocess.run([sys.executable, "-m", "salcli", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"salcli {' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def shown(*values: float | None, digits: int = 3) -> str:
    """Return numbers as cells of a table, without the 0 before the point; a dash for None."""
    cells = ("–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}" for value in values)
    return " | ".join(re.sub(r"^(-?)0\.", r"\1.", cell) for cell in cells)


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of `glove` and `top`; `about`: the text of --help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glove", type=Path, help="text file, or folder with vectors.npy and vocab.txt")
    parser.add_argument("--top", type=int, default=TOP, help=f"words of either side (default: {TOP}, as in the paper)")
    return parser


def as_folder(glove: Path, scratch: Path) -> Path:
    """Return a folder with vectors.npy and vocab.txt: the one given, or one made of a text file's first rows."""
    if glove.is_dir():
        return glove
    vectors, words = [], []
    with open_source(str(glove)) as source:
        for chunk in source.chunks():
            batch = chunk.read()
            vectors.append(batch.vectors)
            words += batch.keys or ()
            if len(words) >= N_WORDS:
                break
    np.save(scratch / "vectors.npy", np.concatenate(vectors)[:N_WORDS])
    (scratch / "vocab.txt").write_text("\n".join(words[:N_WORDS]), encoding="utf-8", errors="surrogateescape")
    return scratch


def halved(labels: Path, target: Path) -> None:
    """Write labels whose training rows are halved at random: one half stays train, the other becomes dev."""
    rows = list(csv.DictReader(labels.open(encoding="utf-8")))
    of_train = [i for i, row in enumerate(rows) if row["split"] == "train"]
    fresh = set(np.random.default_rng(0).permutation(of_train)[: len(of_train) // 2].tolist())
    names = {"train": "train", "dev": "unused", "test": "test"}
    with target.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["word", "label", "split"])
        for i, row in enumerate(rows):
            writer.writerow([row["word"], row["label"], "dev" if i in fresh else names[row["split"]]])


def accuracies(report: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Give accuracy by adversary and stage."""
    return {(probe["adversary"], probe["stage"]): probe["accuracy"] for probe in report["probes"]}


def fit_seconds(folder: Path, labels: Path) -> float:
    """Time moments and SVD alone, on the training rows in memory (median of 7)."""
    row_of = {word: i for i, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n"))}
    train = [row for row in csv.DictReader(labels.open(encoding="utf-8")) if row["split"] == "train"]
    x = np.load(folder / "vectors.npy")[[row_of[row["word"]] for row in train]]
    z = np.eye(2)[[int(row["label"] == "she") for row in train]]
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        fit_sal(CrossMoments.of(x, z))
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def kept_tables(vectors: str, labels: Path, keys: list[str], eraser: Path, sets: list[str]) -> None:
    """Print what nonlinear attackers read after SAL, and what word similarity is left."""
    gold_sets = [option for name in sets for option in ("--similarity", name)]
    reports = {}
    for name in ("uncentred, k = 2", "centred, k = 1"):
        salcli("fit", vectors, str(labels), *keys, *ERASERS[name], "-o", str(eraser), "--quiet")
        command = ["evaluate", vectors, str(labels), *keys, "--eraser", str(eraser), *gold_sets]
        command += [
            "--probes",
            ",".join(PROBES),
            "--as",
            "raw",
            "--no-learning-curve",
            "--no-kept",
            "--json",
            "--quiet",
        ]
        reports[name] = json.loads(salcli(*command))
    print("\n| eraser | attacker | before | after, in-sample | after, fresh |\n|---|---|---|---|---|")
    for name, report in reports.items():
        for probe in PROBES:
            read = accuracies({"probes": [p for p in report["probes"] if p["probe"] == probe]})
            figures = (read["in-sample", "before"], read["in-sample", "after"], read["fresh", "after"])
            print(f"| SAL {name} | {probe} | {shown(*figures)} |")
    columns = "before | uncentred, k = 2 | centred, k = 1 | two random directions | authors, before | after"
    print(f"\n| set | pairs | {columns} |\n|---|---|---|---|---|---|---|---|")
    for one, other in zip(*(report["similarity"] for report in reports.values()), strict=True):
        figures = (one["before"], one["after"], other["after"], one["random_control"])
        authors = next((theirs for end, theirs in AUTHORS.items() if Path(one["set"]).stem.endswith(end)), None)
        pairs = f"{one['pairs_used']:,} of {one['pairs_total']:,}"
        print(f"| {Path(one['set']).stem} | {pairs} | {shown(*figures, *(authors or (None, None)))} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("wordsim", nargs="?", type=Path, help="folder of gold sets")
    given = parser.parse_args()
    sets = ["simlex999", "wordsim353"] if given.wordsim is None else sorted(map(str, given.wordsim.glob("*.txt")))
    with tempfile.TemporaryDirectory() as scratch:
        folder = as_folder(given.glove, Path(scratch))
        vectors, keys = str(folder / "vectors.npy"), ["--keys", str(folder / "vocab.txt")]
        labels, halves, eraser = (Path(scratch) / name for name in ("labels.csv", "halves.csv", "eraser.npz"))
        summary = salcli(
            "label", vectors, *keys, "--direction", "he:she", "--top", str(given.top), "-o", str(labels), "--json"
        )
        print(f"words: {json.loads(summary)['n_scored']:,}; split {json.loads(summary)['splits']}\n")
        halved(labels, halves)
        print("| eraser | before | after, in-sample | paper | after, fresh | majority |")
        print("|---|---|---|---|---|---|")
        for name, options in ERASERS.items():
            row = {}
            for kind, table in (("in-sample", labels), ("fresh", halves)):
                salcli("fit", vectors, str(table), *keys, *options, "-o", str(eraser), "--quiet")
                command = [
                    "evaluate",
                    vectors,
                    str(table),
                    *keys,
                    "--eraser",
                    str(eraser),
                    "--adversary",
                    kind,
                    "--probes",
                    "linear",
                    "--quick",
                    "--no-kept",
                ]
                report = json.loads(salcli(*command, "--json", "--quiet"))
                row |= accuracies(report)
            majority = report["probes"][0]["majority"]
            print(
                f"| SAL {name} | {shown(row['in-sample', 'before'], row['in-sample', 'after'])} "
                f"| {PAPER[name]} | {shown(row['fresh', 'after'], majority)} |"
            )
        kept_tables(vectors, labels, keys, eraser, sets)
        seconds = fit_seconds(folder, labels)
        print(f"\nSAL itself, moments and SVD: {1000 * seconds:.1f} ms (paper: 30 ms; INLP 50 s)")


if __name__ == "__main__":
    run(main)

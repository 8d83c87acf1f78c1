"""Reproduce kSAL's figures on GloVe 6B 100d, and find how many landmarks hold a fresh attacker at chance.

The set-up is that of reproduce_words.py (Shao, Ziser & Cohen, EACL 2023): 7,500 most `he` and 7,500 most `she` words.
The first table runs exact kSAL through the command line and asks a support vector machine with the same kernel, C = 1
(`--quick`). The second writes features from M landmarks and asks fresh attackers (a linear and an RBF machine, the
better of C = 1 and 10) what they read before and after, and what the features are still worth: the Spearman correlation
of their cosines with SimLex-999, and the reach, the share of the kernel's trace that the features hold.

    python -m benchmarks.reproduce_kernels GLOVE [--top N]

GLOVE is glove.6B.100d.txt as it is downloaded, or a folder with its first 150,000 rows as vectors.npy and vocab.txt.
"""

import csv
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from benchmarks.reproduce_words import arguments, as_folder, halved, salcli, shown
from benchmarks.running import run
from salcli.data.sampling import stratified_parts
from salcli.erasers.kernel import FeatureEraser
from salcli.erasers.sal import fit_sal
from salcli.evaluation.word_pairs import similarity_score, spellings
from salcli.formats.gold_sets import read_similarity
from salcli.linalg.kernels import Kernel, NystromMap
from salcli.linalg.moments import CrossMoments

HOW = {"uncentred, k = 2": ["--no-center", "-k", "2"], "centred, k = 1": ["-k", "1"]}
COUNTS = (64, 256, 1024)
Array = NDArray[np.float64]


def exact_table(vectors: str, keys: list[str], labels: Path, halves: Path, eraser: Path) -> None:
    """Print what the same kernel reads before and after exact kSAL."""
    print("| kernel | eraser | before | after, in-sample | after, fresh | γ/ρ |\n|---|---|---|---|---|---|")
    for kernel in ("linear", "poly", "rbf"):
        for name, options in HOW.items():
            read, moved = {}, 0.0
            for adversary, table in (("in-sample", labels), ("fresh", halves)):
                fitted = ["--kernel", kernel, *options, "--landmarks", "all"]
                salcli("kfit", vectors, str(table), *keys, *fitted, "-o", str(eraser), "--quiet")
                judged = ["--eraser", str(eraser), "--adversary", adversary, "--probes", "same-kernel", "--quick"]
                judged += ["--no-kept"]
                report = json.loads(salcli("evaluate", vectors, str(table), *keys, *judged, "--json", "--quiet"))
                read |= {(p["adversary"], p["stage"]): p["accuracy"] for p in report["probes"]}
                moved = moved or report["deviation"]["value"]
            figures = (read["in-sample", "before"], read["in-sample", "after"], read["fresh", "after"])
            print(f"| {kernel} | {name} | {shown(*figures)} | {shown(moved, digits=2)} |", flush=True)


def fit_time(vectors: str, keys: list[str], labels: Path, eraser: Path) -> None:
    """Print how long exact kSAL takes on all labelled words."""
    start = time.perf_counter()
    fitted = ["--no-split", "--attribute", "label", "--kernel", "rbf", "--landmarks", "all"]
    salcli("kfit", vectors, str(labels), *keys, *fitted, "-o", str(eraser), "--quiet")
    seconds, n = time.perf_counter() - start, sum(1 for _ in labels.open(encoding="utf-8")) - 1
    print(f"\nExact `kfit` on {n:,} words, files included: {seconds:.1f} s (paper, 15,000 words: five hours)")


def attacked(train: Array, y: Array, test: Array, y_test: Array) -> str:
    """Give the accuracy of a linear and of an RBF machine, each the better of two C."""
    scale = 1 / np.sqrt(np.mean((train - train.mean(0)) ** 2))
    train, test = (train - train.mean(0)) * scale, (test - train.mean(0)) * scale
    linear = max(LinearSVC(C=c, dual=False).fit(train, y).score(test, y_test) for c in (1, 10))
    rbf = max(SVC(C=c).fit(train, y).score(test, y_test) for c in (1, 10))
    return shown(linear, rbf)


def landmark_table(folder: Path, halves: Path) -> None:
    """Print what fresh attackers read of features from M landmarks."""
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    row_of = {word: i for i, word in enumerate(words)}
    every = np.load(folder / "vectors.npy", mmap_mode="r")
    rows = list(csv.DictReader(halves.open(encoding="utf-8")))
    x, y = {}, {}
    for part in ("train", "dev", "test"):
        chosen = [row for row in rows if row["split"] == part]
        x[part] = np.asarray(every[[row_of[row["word"]] for row in chosen]])
        y[part] = np.array([int(row["label"] == "she") for row in chosen])
    gold = read_similarity("simlex999")
    words = [word for word in spellings(gold.pairs) if word in row_of]
    similar = np.asarray(every[[row_of[word] for word in words]])

    def worth(features: Array) -> float:
        scored = similarity_score("", gold.pairs, gold.scores, dict(zip(words, features, strict=True)))
        return float(scored.spearman or 0)

    print(f"\nSimLex-999 of the vectors themselves: {shown(worth(similar))}\n")
    columns = ("linear before", "RBF before", "linear after", "RBF after", "SimLex before", "SimLex after")
    print(f"| kernel | M | k | reach | {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kernel in (Kernel("rbf"), Kernel("poly")):
        for m in (count for count in COUNTS if count <= len(y["train"])):
            (sample,) = stratified_parts(y["train"], [m / len(y["train"])], 0, sizes=[m])
            features = NystromMap.of(kernel, x["train"][np.sort(sample)])
            of_train = features(x["train"])
            moments = CrossMoments.of(of_train, np.eye(2)[y["train"]])
            before = {part: features(x[part]) for part in ("dev", "test")}
            reach = np.sum(before["test"] ** 2) / np.sum(kernel.diagonal(x["test"]))
            read = attacked(before["dev"], y["dev"], before["test"], y["test"])
            for k, is_centred in ((1, True), (2, False)):
                eraser = FeatureEraser(features, fit_sal(moments, k, is_centred=is_centred).eraser)
                after = {part: eraser(x[part]) for part in ("dev", "test")}
                fresh = attacked(after["dev"], y["dev"], after["test"], y["test"])
                kept = shown(worth(features(similar)), worth(eraser(similar)))
                how = f"{k}{'' if is_centred else ', uncentred'}"
                share = shown(float(reach), digits=2)
                print(f"| {kernel.name} | {m} | {how} | {share} | {read} | {fresh} | {kept} |", flush=True)


def main() -> None:
    """Print both tables."""
    given = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = as_folder(given.glove, Path(scratch))
        vectors, keys = str(folder / "vectors.npy"), ["--keys", str(folder / "vocab.txt")]
        labels, halves, eraser = (Path(scratch) / name for name in ("labels.csv", "halves.csv", "eraser.npz"))
        salcli("label", vectors, *keys, "--direction", "he:she", "--top", str(given.top), "-o", str(labels), "--quiet")
        halved(labels, halves)
        exact_table(vectors, keys, labels, halves, eraser)
        fit_time(vectors, keys, labels, eraser)
        landmark_table(folder, halves)


if __name__ == "__main__":
    run(main)

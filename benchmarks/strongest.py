"""Does anybody read more than `evaluate` says? Other attackers, on the same rows.

    python -m benchmarks.strongest FOLDER [--rows N]
    python -m benchmarks.strongest --data NAME EMBEDDINGS LABELS ATTRIBUTE [KEYS] [--data …] [--rows N]

fits SAL of full rank to each data set (to the rows marked train, else to half of them), and prints one row for each
adversary: the attacker of `evaluate` that reads most after erasure, over its default attackers and forms (raw and unit
rows), and what the attackers of own_attackers.py read of the same test rows, from the same training rows, at most N of
them. The best of these is chosen on the test rows, as no attacker can. What each of them reads goes to stderr. FOLDER
has glove-6b-100d (vectors.npy, vocab.txt), dialect-sentiment and eec (vectors.npy, labels.csv); sample_data/bios-sample
comes last. KEYS is a file of row names, for labels with a column of names.
"""

import argparse
import csv
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.own_attackers import MIXED, Block, Found, attackers
from benchmarks.reproduce_words import TOP, salcli
from benchmarks.running import run
from salcli.commands.fit import fit
from salcli.data.join import settle_index
from salcli.data.labels import as_index
from salcli.erasers.artifact import read_artifact
from salcli.evaluation.attack import attack
from salcli.evaluation.duplicates import without_copies
from salcli.evaluation.plan import split_rows
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.requested import chosen_probes
from salcli.evaluation.stages import Erasure, stage_rows
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, ReadOptions
from salcli.streaming.engine import map_in_threads
from salcli.streaming.passes import join_labels, read_table
from salcli.streaming.progress import Silent

ROWS = 4_000
COLUMNS = ("rbf", "kernels", "QDA", "MLP", "trees", "kNN", MIXED)
"""Kinds of own attackers."""
SAMPLE = Path(__file__).parent.parent / "sample_data"


@dataclass(frozen=True)
class Data:
    """A data set."""

    name: str
    embeddings: str
    labels: str
    attribute: str
    keys: str | None = None

    @property
    def is_split(self) -> bool:
        """Whether the label file says which rows train."""
        with open(self.labels, encoding="utf-8", newline="") as handle:
            return "split" in next(csv.reader(handle))


def public_data(folder: Path, scratch: Path, top: int) -> Iterator[Data]:
    """Yield the four data sets.

    Parameters
    ----------
    folder : see the head of this file
    scratch : folder for the labels of words
    top : words of either side
    """
    glove, labels = folder / "glove-6b-100d", str(scratch / "words.csv")
    vectors, keys = str(glove / "vectors.npy"), str(glove / "vocab.txt")
    salcli("label", vectors, "--keys", keys, "--direction", "he:she", "--top", str(top), "-o", labels, "--quiet")
    yield Data("GloVe 6B 100d, he/she", vectors, labels, "label", keys)
    for name, of, attribute in (
        ("dialect of tweets, 384-d", "dialect-sentiment", "dialect"),
        ("Equity Evaluation Corpus, gender, 384-d", "eec", "gender"),
    ):
        yield Data(name, str(folder / of / "vectors.npy"), str(folder / of / "labels.csv"), attribute)
    bios = SAMPLE / "bios-sample"
    yield Data("biographies (sample), gender, 384-d", f"{bios}.npy", f"{bios}.csv", "gender")


def rows_of(data: Data, eraser: str, n_rows: int) -> Iterator[tuple[str, tuple[ProbeResult, ...], Block]]:
    """Yield adversary, what `evaluate` reads after erasure, and the rows after erasure, divided as it divides them.

    Parameters
    ----------
    data : the data set
    eraser : path of the artifact
    n_rows : training rows of an attacker, at most
    """
    artifact = read_artifact(eraser)
    read = ReadOptions(keys_file=data.keys)
    labels = LabelOptions(attributes=(data.attribute,), by_row=data.keys is None)
    options = EvaluateOptions(read=read, labels=labels, attacker_rows=n_rows)
    with closing(open_source(data.embeddings, read)) as source:
        table = settle_index(read_table(data.labels, artifact.label_options(options.labels, eraser), Silent()), source)
        join = join_labels(source, table, Silent())
        places = as_index(join.row_of_label)
        plan = split_rows(table, as_index(join.matched(table)), artifact, options)
        plan, _ = without_copies(source, table, places, plan, Silent())
        stages = stage_rows(source, Erasure.of(artifact, source), places, plan.needed, Silent())
        probes = chosen_probes(artifact, options)
        attribute = table.attributes[0]
        for adversary in plan.trainers:
            results, _ = attack(stages, table, plan.only([adversary]), probes, options, Silent(), "after")
            train, test = (stages.at(plan.having(attribute, name, table)) for name in (adversary, "test"))
            x, y = stages.named()["after"].astype(np.float64), attribute.codes(stages.labels)
            yield adversary, results, Block(x[train], y[train], x[test], y[test])


def own_results(block: Block) -> list[Found]:
    """Return what each of the own attackers reads, two of them made of the others."""
    found = list(map_in_threads(block.found, attackers()))
    return [*found, *block.together(found)]


def table_rows(data: Data, n_rows: int) -> Iterator[str]:
    """Yield the rows of the table, as Markdown, of one data set (see `rows_of`)."""
    labels = LabelOptions(attributes=(data.attribute,), by_row=data.keys is None)
    with tempfile.TemporaryDirectory() as scratch:
        eraser = str(Path(scratch) / "eraser.npz")
        holdout = 0.0 if data.is_split else 0.5
        fit(
            data.embeddings,
            data.labels,
            eraser,
            FitOptions(labels=labels, read=ReadOptions(keys_file=data.keys), holdout=holdout),
        )
        for adversary, results, block in rows_of(data, eraser, n_rows):
            print(f"{data.name}, {adversary}, {len(block.y):,} rows", file=sys.stderr, flush=True)
            worst = max(results, key=lambda result: result.accuracy)
            own = own_results(block)
            for each in own:
                print(f"  {each.attacker.title}: {each.accuracy:.3f} {each.settings}", file=sys.stderr, flush=True)
            kinds = [max(each.accuracy for each in own if each.attacker.kind == kind) for kind in COLUMNS]
            best = max(own, key=lambda each: each.accuracy)
            form = "" if worst.form == "raw" else f" ({worst.form})"
            shown = [f"`{worst.probe}`{form} {_shown(worst.accuracy)}", *map(_shown, kinds)]
            more = f"{best.accuracy - worst.accuracy:+.3f}".replace("0.", ".", 1)
            rows = f"{len(block.y):,} / {len(block.true):,}"
            yield f"| {data.name}, {adversary} ({rows}) | {' | '.join(shown)} | {more}, {best.attacker.title} |"


def _shown(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usage = "NAME EMBEDDINGS LABELS ATTRIBUTE [KEYS]"
    parser.add_argument("folder", type=Path, nargs="?", help="with the public data sets")
    parser.add_argument("--data", nargs="+", action="append", default=[], help=usage)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"training rows of an attacker, at most ({ROWS})")
    parser.add_argument("--top", type=int, default=TOP, help=f"words of either side ({TOP})")
    given = parser.parse_args()
    if any(len(each) not in (4, 5) for each in given.data) or not (given.data or given.folder):
        parser.error(f"expected a folder, or --data {usage}")
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    print(f"| rows (training / test) | worst of `evaluate` | own {' | own '.join(COLUMNS)} | most, less `evaluate` |")
    print("|---" * (len(COLUMNS) + 3) + "|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        of_folder = public_data(given.folder, Path(scratch), given.top) if given.folder else ()
        for data in (*of_folder, *(Data(*each) for each in given.data)):
            for row in table_rows(data, given.rows):
                print(row, flush=True)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes", file=sys.stderr)


if __name__ == "__main__":
    run(main)

"""`COMMAND --help`: options in groups, those that are used most first, and two examples at the end."""

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperOption

from salcli.options import ClusterOptions, LabelOptions, ReadOptions, options_of

Group = tuple[str, tuple[str, ...]]
HELP_FLAGS = {"help_option_names": ["-h", "--help"]}

MAIN, LABELS, READING, CLUSTER, GENERAL = "Options", "Labels", "Reading the embeddings", "On a cluster", "General"
_FIT = (
    (MAIN, ("output", "moments", "attributes", "method", "holdout", "sample")),
    (
        "Options of the method",
        (
            *("task", "k", "alpha", "rounds", "training_rows", "shrinkage", "score"),
            *("max_leak", "attackers", "attacker_rows"),
            *("kernel", "gamma", "degree", "coef0", "landmarks", "center", "keep_mean", "unit", "unit_rounds"),
        ),
    ),
)
GROUPS: dict[str, tuple[Group, ...]] = {
    "label": (
        (MAIN, ("output", "directions", "top", "split", "groups", "bands", "by", "limit", "name")),
        ("Scores", ("with_scores", "unlabelled")),
        ("By class counts", ("counts", "seed_labels", "starts", "sample")),
    ),
    "fit": _FIT,
    "kfit": _FIT,
    "moments": ((MAIN, ("output", "attributes", "method", "exact", "center", "task", "holdout")),),
    "apply": (
        (MAIN, ("output", "in_place", "strength", "dtype", "output_format", "reduces", "writes_kernel")),
        ("What stands beside the matrix", ("erase_also", "drop", "only")),
    ),
    "evaluate": (
        (MAIN, ("eraser", "against", "attributes", "reports", "report_format")),
        (
            "Attackers",
            ("probes", "adversaries", "forms", "bands", "attacker_rows", "intersections", "learning_curve", "quick"),
        ),
        ("What is kept", ("task", "similarity", "bias", "neighbors", "kept")),
        ("Gates", ("max_accuracy", "max_gain", "max_leak", "max_r2", "max_leak_increase", "baseline", "max_tpr_gap")),
        ("Again and again", ("sweep", "repeats", "sample", "folds")),
    ),
    "compare": (
        (MAIN, ("erasers", "against", "methods", "require", "attributes", "reports", "report_format")),
        ("Attackers", ("probes", "adversaries", "forms", "attacker_rows", "intersections", "learning_curve", "quick")),
        ("What is kept", ("task", "similarity", "bias", "neighbors", "kept")),
        ("Gates", ("max_accuracy", "max_gain", "max_leak", "max_r2", "max_leak_increase", "baseline", "max_tpr_gap")),
    ),
    "export": ((MAIN, ("output", "to", "double")),),
    "inspect": ((MAIN, ("labels", "similarity", "head", "projection")),),
}
"""Names of parameters by command and group; those that are in none stand by their record, or in the last group."""
RECORDS = {LABELS: LabelOptions, READING: ReadOptions, CLUSTER: ClusterOptions}
OF_LABELS = ("fit_split", "holdout")
"""Options by which labelled rows are chosen."""
OF_GATES = ("max_", "min_")
"""How the names of gates begin."""
OF_JUDGES = ("judge", "confidence", "allow_undecided")

EXAMPLES = {
    "label": (
        "salcli label vectors.txt --direction he:she -o labels.csv",
        "salcli label vectors.npy --counts female:0.4,male:0.6 -o labels.csv",
    ),
    "fit": (
        "salcli fit vectors.npy labels.csv --attribute gender -o eraser.npz",
        "salcli fit vectors.npy labels.csv --method leace --holdout 0.3 -o e.npz",
    ),
    "kfit": (
        "salcli kfit vectors.npy labels.csv -o eraser.npz",
        "salcli kfit vectors.npy labels.csv --attribute gender --holdout 0.3 -o e.npz",
    ),
    "moments": (
        "salcli moments part-7.npy labels-7.csv -o m-7.npz",
        "salcli fit --moments 'm-*.npz' -o eraser.npz",
    ),
    "methods": ("salcli methods", "salcli fit --method leace --help"),
    "apply": (
        "salcli apply eraser.npz vectors.npy -o erased.npy",
        "salcli apply eraser.npz all.h5 --dataset vectors --only -o erased.h5",
    ),
    "evaluate": (
        "salcli evaluate vectors.npy labels.csv --eraser e.npz --report report.html",
        "salcli evaluate vectors.npy labels.csv --eraser e.npz --max-gain 0.05",
    ),
    "compare": (
        "salcli compare vectors.npy labels.csv --eraser sal.npz --eraser leace.npz",
        "salcli compare vectors.npy labels.csv --method sal --method leace",
    ),
    "export": (
        "salcli export eraser.npz -o eraser.onnx",
        "salcli export eraser.npz --to sentence-transformers -o model/",
    ),
    "inspect": (
        "salcli inspect vectors.npy --labels labels.csv",
        "salcli inspect eraser.npz --json",
    ),
}
"""Two of each command."""


def grouped(command: str, names: list[str]) -> Iterator[Group]:
    """Yield the non-empty groups of a command's parameters, each parameter once.

    Parameters
    ----------
    command : its name
    names : of its parameters
    """
    left = dict.fromkeys(names)
    of_record = {title: [*options_of(record)] for title, record in RECORDS.items()}
    of_record[LABELS] += OF_LABELS
    listed = {title: list(found) for title, found in GROUPS.get(command, ())}
    placed = {name for found in listed.values() for name in found}
    if "Gates" in listed:
        listed["Gates"] += [name for name in names if name.startswith(OF_GATES) and name not in placed]
        listed["Gates"] += OF_JUDGES
    for title, found in (*listed.items(), *of_record.items(), (GENERAL, list(left))):
        if shown := tuple(name for name in found if name in left):
            yield title, shown
            for name in shown:
                del left[name]


def _with_separators(record: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return a parameter's line of help with commas in its default and bounds, as everywhere else."""
    return record and (record[0], re.sub(r"(?<![\d.])\d{4,}(?=])", lambda found: f"{int(found[0]):,}", record[1]))


class GroupedCommand(TyperCommand):
    """A command whose help has its options in groups, and examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the groups of options, of the command of `ctx` to `formatter`."""
        params = {str(param.name): param for param in self.get_params(ctx)}
        records = {name: _with_separators(param.get_help_record(ctx)) for name, param in params.items()}
        options = [name for name in params if isinstance(params[name], TyperOption) and records[name] is not None]
        arguments = [record for name, record in records.items() if name not in options and record is not None]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        for title, names in grouped(ctx.info_name, options):
            with formatter.section(title):
                formatter.write_dl([records[name] for name in names])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples of the command of `ctx` to `formatter`, unwrapped."""
        if examples := EXAMPLES.get(ctx.info_name):
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{example}\n" for example in examples))

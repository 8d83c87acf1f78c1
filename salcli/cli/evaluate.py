"""`salcli evaluate`."""

from typing import Annotated

import typer

from salcli.cli import options as o

GATE_FAILED = 1


def evaluate(
    embeddings: o.EmbeddingsArg,
    labels: o.LabelsArg,
    eraser: Annotated[
        str | None,
        typer.Option(
            "--eraser",
            metavar="ERASER",
            help="Evaluate before and after this eraser; default: the file as it is.",
            show_default=False,
        ),
    ] = None,
    adversary: Annotated[
        str,
        typer.Option(
            "--adversary", metavar="A,…", help="in-sample (trained on the fitted rows) and fresh (on rows of its own)."
        ),
    ] = "in-sample,fresh",
    probes: Annotated[
        str | None,
        typer.Option(
            "--probes",
            metavar="P,…",
            help="linear and, of a kernel's eraser, same-kernel; default: all of them.",
            show_default=False,
        ),
    ] = None,
    max_accuracy: Annotated[
        list[str] | None,
        typer.Option(
            "--max-accuracy",
            metavar="[PROBE=]X",
            help="Gate: exit 1 if any attacker reads more than this share right (repeatable).",
            show_default=False,
        ),
    ] = None,
    probe_rows: Annotated[
        int, typer.Option("--probe-rows", metavar="N", help="Most rows that train a probe; stated when it bites.")
    ] = 10_000,
    attribute: o.Attribute = None,
    numeric: o.Numeric = None,
    key: o.Key = None,
    by_row: o.ByRow = False,
    split_column: o.SplitColumn = None,
    no_split: o.NoSplit = False,
    fit_split: Annotated[
        str | None,
        typer.Option(
            "--fit-split",
            metavar="NAME",
            help="Without an eraser: the part that trains the in-sample attacker; default: train.",
            show_default=False,
        ),
    ] = None,
    holdout: Annotated[
        float,
        typer.Option(
            "--holdout", metavar="F", help="Without an eraser or split: share of rows kept for fresh attacker and test."
        ),
    ] = 0.0,
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    batch_rows: o.BatchRows = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train attackers before and after erasure, and gate on what they read."""
    from salcli import workflow
    from salcli.cli import console
    from salcli.options import AccuracyLimit, EvaluateOptions, LabelOptions, ReadOptions

    options = EvaluateOptions(
        ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite),
        LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
        _listed(adversary), None if probes is None else _listed(probes), fit_split, holdout, probe_rows, seed,
        tuple(map(AccuracyLimit.parse, max_accuracy or ())),
    )  # fmt: skip
    report = workflow.evaluate(embeddings, labels, eraser, options, console.ConsoleProgress(is_quiet=quiet))
    if json:
        console.print_json(report.to_dict())
    else:
        console.print_report(report.to_dict())
    if report.verdict == "fail":
        raise typer.Exit(GATE_FAILED)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())

"""`salcli evaluate`."""

from typing import Annotated

import typer

from salcli.cli import options as o

GATE_FAILED = 1


def evaluate(
    embeddings: o.EmbeddingsArg,
    labels: Annotated[
        str | None,
        typer.Argument(
            metavar="[LABELS]",
            help="Label CSV; --similarity and --neighbors do without.",
            show_default=False,
        ),
    ] = None,
    eraser: Annotated[
        str | None,
        typer.Option(
            "--eraser",
            metavar="ERASER",
            help="Evaluate before and after this eraser; default: the file as it is.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="OUT",
            help="Evaluate before and after as another tool erased it: a file with the same rows.",
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
            help="linear, poly, rbf and, of a kernel's eraser, same-kernel; default: all of them.",
            show_default=False,
        ),
    ] = None,
    probe_rows: Annotated[
        int, typer.Option("--probe-rows", metavar="N", help="Most rows that train a probe; stated when it bites.")
    ] = 10_000,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="COL",
            help="Column of the main task: accuracy and TPR gaps.",
            show_default=False,
            callback=o.in_utf8,
        ),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            "--similarity",
            metavar="SET",
            help="simlex999, wordsim353 or a file of word1, word2, score (repeatable).",
            show_default=False,
        ),
    ] = None,
    neighbors: Annotated[
        str | None,
        typer.Option(
            "--neighbors",
            metavar="W,…",
            help="Words whose neighbours are shown before and after.",
            show_default=False,
            callback=o.in_utf8,
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep",
            metavar="P=A:B[:S]",
            help="Measure along k=FROM:TO or strength=FROM:TO:STEP.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", metavar="N", help="Fit N times on few labels; mean and spread.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="M", help="Of --repeats: rows of each fit, stratified.", show_default=False),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write the report as .json, .md, .html or .xml (JUnit); repeatable.",
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
    max_gain: Annotated[
        list[str] | None,
        typer.Option(
            "--max-gain",
            metavar="[PROBE=]X",
            help="Gate: exit 1 if any attacker reads more than this over the majority rate (repeatable).",
            show_default=False,
        ),
    ] = None,
    max_tpr_gap: Annotated[
        float | None,
        typer.Option("--max-tpr-gap", metavar="X", help="Gate on the main task's TPR gap.", show_default=False),
    ] = None,
    min_similarity_kept: Annotated[
        float | None,
        typer.Option(
            "--min-similarity-kept",
            metavar="X",
            help="Gate: least share of Spearman's correlation that is kept, of every set.",
            show_default=False,
        ),
    ] = None,
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
            callback=o.in_utf8,
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
    quiet: o.NoProgress = False,
) -> None:
    """Train attackers before and after erasure, and gate on what they read."""
    from salcli.cli import console
    from salcli.commands import evaluate as command
    from salcli.evaluation.report import to_json
    from salcli.options import EvaluateOptions, LabelOptions, Limit, ReadOptions, Sweep

    options = EvaluateOptions(
        read=ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite),
        labels=LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
        against=against,
        adversaries=_listed(adversary),
        probes=None if probes is None else _listed(probes),
        fit_split=fit_split,
        holdout=holdout,
        probe_rows=probe_rows,
        seed=seed,
        task=task,
        similarity=tuple(dict.fromkeys(similarity or ())),
        neighbors=_listed(neighbors or ""),
        sweep=None if sweep is None else Sweep.parse(sweep),
        repeats=repeats,
        sample=sample,
        max_accuracy=tuple(map(Limit.parse, max_accuracy or ())),
        max_gain=tuple(Limit.parse(text, "--max-gain") for text in max_gain or ()),
        max_tpr_gap=max_tpr_gap,
        min_similarity_kept=min_similarity_kept,
        reports=tuple(dict.fromkeys(report or ())),
    )
    made = command.evaluate(embeddings, labels, eraser, options, console.ConsoleProgress(is_quiet=quiet))
    if json:
        console.print_json(to_json(made))
    else:
        from salcli.render.terminal import terminal

        print(terminal(made, console.results()), end="")
    if made.verdict == "fail":
        raise typer.Exit(GATE_FAILED)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

"""`salcli kfit`."""

from typing import Annotated

import typer

from salcli.cli import options as o
from salcli.errors import UsageError


def kfit(
    embeddings: o.EmbeddingsArg,
    labels: o.LabelsArg,
    output: o.Output,
    attribute: o.Attribute = None,
    numeric: o.Numeric = None,
    key: o.Key = None,
    by_row: o.ByRow = False,
    split_column: o.SplitColumn = None,
    no_split: o.NoSplit = False,
    fit_split: o.FitSplit = None,
    k: o.K = None,
    alpha: o.Alpha = None,
    center: o.Center = True,
    sample: o.Sample = None,
    holdout: o.Holdout = 0.0,
    kernel: Annotated[str, typer.Option("--kernel", metavar="K", help="rbf, poly or linear.")] = "rbf",
    gamma: Annotated[
        float | None,
        typer.Option("--gamma", metavar="γ", help="Of rbf (default 0.1) and poly (default 1).", show_default=False),
    ] = None,
    degree: Annotated[
        int | None,
        typer.Option("--degree", metavar="P", help="Of poly (default 2): (γ xᵀx' + c₀)ᵖ.", show_default=False),
    ] = None,
    coef0: Annotated[
        float | None, typer.Option("--coef0", metavar="C", help="c₀ of poly (default 1).", show_default=False)
    ] = None,
    landmarks: Annotated[
        str,
        typer.Option(
            "--landmarks",
            metavar="M|all",
            help="Rows (all fitted ones, or a stratified sample) whose span the eraser works in; all: exact kSAL.",
        ),
    ] = "2048",
    method: Annotated[str, typer.Option("--method", metavar="M", help="ksal.")] = "ksal",
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    batch_rows: o.BatchRows = None,
    sha256: o.Sha256 = True,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn an eraser in a kernel's feature space (kSAL), for what linear removal leaves."""
    from salcli.cli import console
    from salcli.commands import fit as command
    from salcli.erasers.ksal import KSALParameters, parse_landmarks
    from salcli.options import FitOptions, LabelOptions, ReadOptions

    if method != "ksal":
        raise UsageError(f"--method {method}: expected ksal")
    given = KSALParameters(k, alpha, center, kernel, gamma, degree, coef0, parse_landmarks(landmarks))
    options = FitOptions(
        ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite),
        LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
        fit_split, holdout, sample, seed, method, given, sha256,
    )  # fmt: skip
    made = command.fit(embeddings, labels, output, options, console.ConsoleProgress(is_quiet=quiet))
    console.show_fit(output, made.header, made.singular_values.tolist(), made.n_bytes, is_json=json, is_quiet=quiet)

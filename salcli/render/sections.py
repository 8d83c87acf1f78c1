"""The report as sections, in the order in which they are read; each output format writes them in its own way."""

from collections.abc import Iterator, Mapping, Sequence

from salcli.data.hashes import FileHash
from salcli.evaluation.measures import recorded
from salcli.evaluation.provenance import Run
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile, Report
from salcli.evaluation.section import Section, Table, filled, merged, names, numbers
from salcli.evaluation.text import count, decimal, general, listed, visible
from salcli.render.attackers import attackers_section
from salcli.render.sweep import sweep_section
from salcli.render.verdict import gates_section

HASH_DIGITS = 12


def sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of `report` that are not empty, in the order in which they are read."""

    def found() -> Iterator[Section | None]:
        yield gates_section(report)
        yield attackers_section(report)
        for measure, record in recorded(report):
            yield measure.section(record)
        yield sweep_section(report)
        yield repeats_section(report)
        yield notes_section(report.notes)
        yield inputs_section(report)
        yield run_section(report.run)

    return merged(section for section in found() if section is not None)


def repeats_section(report: Report) -> Section | None:
    """Return the section on how the figures of `report` vary over samples; None without repeats."""
    repeats = report.repeats
    if repeats is None:
        return None
    lead = f"The evaluation was repeated {count(repeats.n)} times on samples of {count(repeats.sample)} rows."
    if any(figure.std is None for figure in repeats.figures):
        lead += " Of a figure that was measured once there is no standard deviation."
    rows = tuple(
        (visible(figure.name), *map(decimal, (figure.mean, figure.std, min(figure.values), max(figure.values))))
        for figure in repeats.figures
    )
    columns = (*names("figure"), *numbers("mean", "standard deviation"), *numbers("lowest", "highest", are_spare=True))
    return Section("repeats", "Repeats", (lead,), filled([Table("Figures over the repeats", columns, rows)]))


def notes_section(notes: Sequence[str]) -> Section | None:
    """Return the section of the `notes`, which limit the meaning of a report's figures; None without any."""
    return Section("notes", "Notes", points=tuple(map(visible, notes))) if notes else None


def inputs_section(report: Report) -> Section | None:
    """Return the section on the input files and the eraser of `report`; None without any."""
    eraser = report.eraser
    name = "erased elsewhere" if isinstance(eraser, ErasedFile) else "eraser"
    table = files_table(report.inputs, {} if eraser is None else {name: eraser})
    found = Section("inputs", "Inputs", () if eraser is None else (eraser_sentence(eraser),), filled([table]))
    return found if table.rows else None


def files_table(inputs: Mapping[str, InputFile], erasers: Mapping[str, EraserSummary | ErasedFile]) -> Table:
    """Return a table of files, one a row.

    Parameters
    ----------
    inputs : embeddings and labels, by name
    erasers : artifacts, and files that were erased elsewhere, by name
    """
    rows = [_file(visible(name), file) for name, file in inputs.items()]
    for name, eraser in erasers.items():
        if isinstance(eraser, ErasedFile):
            rows.append(_file(visible(name), eraser))
        else:
            hashed = _hash(FileHash("sha256", eraser.sha256))
            rows.append((visible(name), visible(eraser.path), hashed, count(None), count(eraser.d)))
    columns = (*names("input", "path", "hash"), *numbers("n", "d"))
    return Table(f"Files (the first {HASH_DIGITS} digits of their hash)", columns, tuple(rows))


def run_section(run: Run | None) -> Section | None:
    """Return the section on how a report came to be: version, command, seed, options, libraries and rows of `run`."""
    if run is None:
        return None
    rows = [("salcli", run.version), *([("command", visible(run.command))] if run.command else [])]
    rows += [("seed", str(run.seed))]
    options = "; ".join(f"{name} = {_value(value)}" for name, value in run.options.items() if name != "seed")
    rows += [("options", visible(options)), ("libraries", ", ".join(f"{n} {v}" for n, v in run.libraries.items()))]
    if run.fitted_rows:
        fitted = (f"{visible(name)} {_value(value)}" for name, value in run.fitted_rows.items() if value is not None)
        rows.append(("rows of the fit", ", ".join(fitted)))
    table = Table("How this report came to be", names("what", "value"), tuple(rows))
    return Section("run", "Run", (), (table,))


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_value, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    return general(value) if isinstance(value, float) else visible(str(value))


def _file(name: str, file: InputFile | ErasedFile) -> tuple[str, ...]:
    return name, visible(file.path), _hash(file.hash), count(file.n), count(file.d)


def _hash(digest: FileHash) -> str:
    return f"{digest.algorithm} {visible(digest.digest)[:HASH_DIGITS]}"


def _space(eraser: EraserSummary) -> str:
    """Return the name of the space that directions are removed from: the input's, or a kernel's feature space."""
    if not eraser.kernel:
        return f"{count(eraser.d)} dimensions"
    n_features = (eraser.landmarks or {}).get("n_features")
    return f"the kernel's {n_features:,} dimensions" if isinstance(n_features, int) else "the kernel's dimensions"


def eraser_sentence(eraser: EraserSummary | ErasedFile) -> str:
    """Return in words what an `eraser` removes."""
    if isinstance(eraser, ErasedFile):
        return "The rows after erasure come from a file of another tool, whose method is not known."
    centring = "centred" if eraser.is_centred else "not centred"
    chosen = "; ".join(
        f"{visible(name)}{'' if isinstance(value, bool) else f' {_parameter(value)}'}"
        for name, value in eraser.k_rule.items()
        if name != "rank"
    )
    return (
        f"The eraser ({visible(eraser.method)}, {centring}) removes {count(eraser.k)} "
        f"of {_space(eraser)} (rank {count(eraser.rank)}{'; ' + chosen if chosen else ''})"
        f"{' and writes rows of length 1' if eraser.unit_rows else ''}. "
        f"Guarded: {listed(eraser.attributes)}."
        f"{'' if eraser.kept_task is None else f' Task whose covariance is kept: {visible(eraser.kept_task)}.'}"
    )


def _parameter(value: str | float | None) -> str:
    return general(value) if isinstance(value, (int, float)) else visible(str(value))

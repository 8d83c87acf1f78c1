"""Runs as Markdown, and the blocks of the documentation that a run rewrites."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from benchmarks.speed.results import ALLOWED_LOSS, Change, Row, Run
from benchmarks.speed.timing import Measure

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
TITLES = {
    "start-up": "Start-up",
    "fit": "`fit`",
    "apply": "`apply`",
    "words": "Word vectors against gensim",
    "peers": "Other ways to an eraser",
    "kernels": "`kfit` and `evaluate`",
    "methods": "Methods of several passes, and transport",
    "tables": "Parquet",
    "shards": "Many files against one",
    "cluster": "A local cluster of two processes",
    "scaling": "How the pass of `fit` grows",
    "bounds": "What the machine allows, one step alone, on one thread if not on all",
}
PASS, WHOLE = "fit pass, d = 300, 2 classes", "d = 300, whole command"
ATTACKERS = "evaluate: 3 probes × before/after × 2 adversaries"
HOLDS = {True: "yes", False: "**no**", None: ""}


def markdown(run: Run) -> str:
    """Lay a run out as tables, a section each."""
    judged = [row.holds for row in run.rows if row.holds is not None]
    about = run.machine
    named = (about["cpu"], f"{about['cores']} cores", about["memory"], about["kernel"], f"load before {about['load']}")
    lines = [
        f"Measured {run.date} at scale {run.scale:g}{'' if run.scale == 1 else ', **a quick run: preliminary**'}, in "
        f"{run.seconds / 60:.0f} minutes; {sum(judged)} of {len(judged)} targets hold.",
        "",
        f"- machine: {', '.join(named)}",
        *([f"- host: {about['host']}"] if "host" in about else []),
        f"- versions: {', '.join(f'{name} {number}' for name, number in run.versions.items())}",
    ]
    found = {row.name: row for row in run.rows if row.section == "bounds"}
    for section, title in TITLES.items():
        rows = [row for row in run.rows if row.section == section]
        if rows:
            lines += ["", f"### {title}", "", *_table(rows, found, int(about["cores"]))]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row], bounds: dict[str, Row], cores: int) -> Iterable[str]:
    yield "| work | size | against | ratio | target | holds | ours | reference | remarks |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield "| " + " | ".join(_cells(row, bounds, cores)) + " |"


def _cells(row: Row, bounds: dict[str, Row], cores: int) -> list[str]:
    reference = "" if row.is_absolute or row.reference is None else shown(row.reference)
    return [
        row.name,
        row.size,
        row.against,
        "" if row.ratio is None else f"{row.ratio:.3g}",
        "" if row.target is None else f"{row.target:g}",
        HOLDS[row.holds],
        shown(row.ours),
        reference,
        "; ".join(part for part in (row.note, _bound(row, bounds, cores)) if part),
    ]


def _bound(row: Row, bounds: dict[str, Row], cores: int) -> str:
    """Say what the steps of a row that misses its target reach alone, and which of them would miss it on all cores."""
    if row.holds is not False:
        return ""
    steps = [bounds[name] for name in row.bounds if name in bounds]
    sentences = []
    for is_on_all_threads, where in ((False, "one thread"), (True, "all threads")):
        some = [step for step in steps if step.is_on_all_threads == is_on_all_threads]
        if some:
            reached = (f"{step.name} {_amount(step.ours)}{_verdict(row, step, cores)}" for step in some)
            sentences.append(f"steps alone, on {where}: {', '.join(reached)}")
    return "; ".join(sentences)


def _verdict(row: Row, step: Row, cores: int) -> str:
    if row.reference is None or row.target is None or row.is_absolute or row.reference.unit != step.ours.unit:
        return ""
    share = step.ours.median / row.reference.median
    most = share if step.is_on_all_threads else cores * share
    return f" (**bounds it**: {share:.2g} of the reference)" if most < row.target else ""


def shown(measure: Measure) -> str:
    """Spell a median with its spread."""
    return f"{_amount(measure)} ± {measure.spread:.0%}"


def _amount(measure: Measure) -> str:
    if measure.unit == "s" and measure.median < 0.1:
        return f"{1000 * measure.median:.3g} ms"
    return f"{measure.median:.3g} {measure.unit}" if measure.median < 100 else f"{measure.median:,.0f} {measure.unit}"


def line(row: Row) -> str:
    """Tell of a row as it is measured."""
    ratio = "not compared" if row.ratio is None else f"{row.ratio:.3g}"
    against = "" if row.reference is None or row.is_absolute else f" against {shown(row.reference)}"
    verdict = {True: "holds", False: "MISSED", None: ""}[row.holds]
    return f"{row.section:9} {row.name} | {row.against}: {ratio} {verdict} ({shown(row.ours)}{against})"


def rewrite(path: Path, text: str) -> None:
    """Put text into the marked block of a file.

    Raises
    ------
    ValueError : the file has no such block
    """
    whole = path.read_text("utf-8")
    head, begin, rest = whole.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: no block between {BEGIN} and {END}")
    path.write_text(f"{head}{BEGIN}\n{text}{END}{tail}", "utf-8")


def headline(run: Run) -> str:
    """Return the figures that the README shows: three lines of Markdown.

    Raises
    ------
    KeyError : the run lacks a row that is shown
    """
    found = {row.name: row for row in reversed(run.rows)}  # the first of each name
    passing, memory = found[PASS], found["fit, npy: peak memory over idle, the file"]
    whole = next(row for row in run.rows if row.section == "fit" and row.name.endswith(WHOLE))  # the default is first
    copying, loading, attacking = found["apply .npy → .npy, k = 1"], found["load text"], found[ATTACKERS]
    return (
        f"- `fit`: {_amount(passing.ours)} in its pass over a cached `.npy` of {passing.size} "
        f"({_share(passing)} of a bare read), {_amount(whole.ours)} as a whole command that also hashes the file; "
        f"{_amount(memory.ours)} of memory beyond start-up.\n"
        f"- `apply`: {_amount(copying.ours)}, {_share(copying)} of a bare copy with fsync; text vectors load "
        f"{_share(loading)} times as fast as in gensim.\n"
        f"- `evaluate`: {_amount(attacking.ours)} for three attackers before and after erasure, in-sample and fresh "
        f"({attacking.size}), on {run.machine['cores']} cores.\n"
    )


def _share(row: Row) -> str:
    return f"{row.ratio:.3g}"


def publish(runs: Collection[Run], root: Path) -> None:
    """Write the run of the largest scale into docs/benchmarks.md, and its headline into the README."""
    largest = max(runs, key=lambda run: run.scale)
    rewrite(root / "docs" / "benchmarks.md", markdown(largest))
    rewrite(root / "README.md", headline(largest))


def comparison(changes: Sequence[Change]) -> str:
    """Lay out what became of each ratio, losses first."""
    lines = [
        f"| work | against | before | now | share | more than {ALLOWED_LOSS:.0%} lost |",
        "|---|---|---|---|---|---|",
    ]
    for change in sorted(changes, key=lambda change: (not change.is_lost, change.share is None, change.share or 0)):
        now = "not measured" if change.now is None else _ratio(change.now.ratio)
        share = "not compared" if change.share is None else f"{change.share:.2f}"
        verdict = "**LOST**" if change.is_lost else ""
        before = change.before
        lines.append(f"| {before.name} | {before.against} | {_ratio(before.ratio)} | {now} | {share} | {verdict} |")
    return "\n".join(lines) + "\n"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3g}"

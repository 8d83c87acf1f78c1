"""Probes before and after, side by side."""

from collections.abc import Iterable, Sequence

from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import ErasedFile, Folds, LearningCurve, Report
from salcli.evaluation.section import Row, Section, Table, filled, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, general, interval, listed, visible
from salcli.render.numbers import R2_IN_WORDS, detectable_table, numeric_table, recall_table
from salcli.render.probe_pairs import STAGES, ProbePair, by_form, probe_pairs

WHITE_BOX = "white-box"
ATTACKER = "An attacker is a classifier that is trained to read the guarded attribute from the embeddings. "
OF_AN_ERASER = (
    "The in-sample attacker is trained on the very rows that the eraser was fitted on; a linear one is stopped there "
    "by construction, so its figure shows that the eraser does what it claims. "
    "The fresh attacker brings labelled rows of its own, as anybody can who obtains the embeddings; "
    "its figure is the one that a release must be judged by. "
)
OF_A_HOLDER = (
    "The white-box attacker brings the same rows and holds the eraser: beside each erased row it reads what the row "
    "may have been, as far as the eraser can be inverted. "
)
OF_NO_ERASER = (
    "The in-sample attacker is trained on the rows that an eraser would be fitted on, the fresh attacker on others. "
)
OF_AN_UNKNOWN_ERASER = (
    "The rows that the file was erased with are not known: the in-sample and the fresh attacker differ only in the "
    "rows that they are trained on. "
)
SAFE = (
    "Safe is an accuracy near the majority: the share that is right when always guessing the most frequent class. "
    "The leak is what is read above chance, from 0 (nothing) to 1 (all), by the largest of three measures: accuracy "
    "above the majority, balanced accuracy, and area under the ROC curve (AUC), which rare classes cannot hide from."
)

READ_RIGHT = "Share of test rows whose guarded attribute the attacker reads right"
IN_FORMS = "The same on rows as a consumer uses them; of each form and adversary, the attacker that reads most"
FORMS_LEAD = (
    "Rows are attacked as they are (raw) and as a consumer may use them: unit, divided by their length; float16, "
    "rounded; int8, in steps of a scale of each column; binary, their signs. Each form has attackers tuned for it. Of "
    "forms other than the first, the attacker of the largest leak is shown for each adversary; the others are folded."
)
AT_EDGE = (
    "Where every test row is read right, or none, the figure is an end of its interval: no accuracy lies beyond 1 or 0."
)


def probe_table(pairs: Iterable[ProbePair], caption: str = READ_RIGHT, *, is_detail: bool = False) -> Table:
    """Return a table of probes, one a row, before and after: narrow enough for a page (see `measures_table`).

    Parameters
    ----------
    pairs : the probes
    caption : of the table
    is_detail : whether it may be folded
    """
    columns = (
        *names("attribute", "probe", "adversary"),
        *numbers("before", "after", "95% interval after", "majority"),
        *numbers("leak before", "leak after"),
    )
    return Table(caption, columns, tuple(_row(pair) for pair in pairs), is_detail=is_detail)


def _row(pair: ProbePair) -> Row:
    latest, both = pair.latest, pair.both
    return (
        *(pair.attribute, latest.reader, latest.adversary),
        *both(lambda result: decimal(result.accuracy)),
        *(interval(latest.ci95), decimal(latest.majority)),
        *both(lambda result: decimal(result.leak)),
    )


def measures_table(pairs: Iterable[ProbePair]) -> Table:
    """Return a folded table of the other measures of `pairs`, and of how each attacker was tuned."""
    columns = (
        *names("attribute", "probe", "adversary"),
        *numbers("95% interval before", "balanced before", "balanced after", "95% interval"),
        *numbers("AUC before", "AUC after", "95% interval", "n train", "n test"),
        *names("remarks"),
    )
    rows = tuple(
        (
            *(pair.attribute, pair.latest.reader, pair.latest.adversary),
            interval(pair.stages["before"].ci95) if "before" in pair.stages else ABSENT,
            *pair.both(lambda result: decimal(result.balanced_accuracy)),
            interval(pair.latest.balanced_ci95),
            *pair.both(lambda result: decimal(result.auc)),
            interval(pair.latest.auc_ci95),
            *(count(pair.latest.n_train), count(pair.latest.n_test)),
            _remarks_of_both(pair),
        )
        for pair in pairs
    )
    return Table("Balanced accuracy, AUC, and how each attacker was tuned", columns, rows, is_detail=True)


def _remarks_of_both(pair: ProbePair) -> str:
    remarks = {stage: _remarks(pair.stages[stage]) if stage in pair.stages else "" for stage in STAGES}
    if remarks["before"] == remarks["after"]:
        return remarks["after"]
    return "; ".join(f"{stage}: {remark}" for stage, remark in remarks.items() if remark)


def flipped(probe: ProbeResult) -> list[str]:
    """Return the remark on `probe` if it has two classes and its flipped predictions are more accurate, else none."""
    return [f"flipped {decimal(probe.leakage)}"] if probe.is_flipped else []


def _remarks(probe: ProbeResult) -> str:
    """Return what makes a figure weaker than it looks, and how the attacker was tuned."""
    remarks = [] if probe.converged else ["not converged"]
    remarks += ["rows capped"] if probe.capped else []
    remarks += flipped(probe)
    if probe.n_effective is not None:
        remarks.append(f"intervals as of {probe.n_effective:,.0f} rows")
    if probe.unrated_classes:
        remarks.append(f"too few rows for AUC: {listed(probe.unrated_classes, 3)}")
    remarks += [f"{name}={general(value, 3)}" for name, value in sorted(probe.hyperparameters.items())]
    return ", ".join(remarks)


def attackers_section(report: Report) -> Section | None:
    """Return the section on how well attackers read each guarded attribute; None if `report` has no attackers."""
    if not (report.probes or report.numeric):
        return None
    is_unknown = isinstance(report.eraser, ErasedFile)
    adversaries = OF_AN_UNKNOWN_ERASER if is_unknown else OF_AN_ERASER if report.eraser else OF_NO_ERASER
    is_held = WHITE_BOX in {result.adversary for result in report.probes} | {
        result.adversary for result in report.numeric
    }
    lead = ATTACKER + adversaries + (OF_A_HOLDER if is_held else "") + (SAFE if report.probes else "")
    is_at_edge = any(probe.accuracy in probe.ci95 for probe in report.probes)
    more = ((AT_EDGE,) if is_at_edge else ()) + ((R2_IN_WORDS,) if report.numeric else ())
    folds = (_folds_in_words(report.folds),) if report.folds is not None else ()
    forms = (
        (FORMS_LEAD + _scale_in_words(report),)
        if len({probe.form for probe in report.probes}) > 1 or report.int8
        else ()
    )
    tables = [*probe_tables(report), numeric_table(report.numeric)]
    tables += map(recall_table, report.recalls)
    tables += filter(None, [detectable_table(report.detectable)])
    learning = tuple(learning_table(curve) for curve in report.learning)
    return Section("attackers", "Attackers", (lead, *folds, *more, *forms), (*filled(tables), *learning))


def _folds_in_words(folds: Folds) -> str:
    """Return how rows took turns."""
    fitted, fresh = (_about(counts) for counts in (folds.n_fitted, folds.n_fresh))
    words = (
        f"Rows took turns: in each of {folds.n} turns the eraser was fitted anew to {fitted} rows, {fresh} others "
        "trained the fresh attacker, and one part was the test, so that each row was tested once. Figures are of all "
        "test rows together, and of the method rather than of the eraser in the file; training rows are a mean."
    )
    if folds.group_column is not None:
        words += (
            f" The {count(folds.n_groups)} groups of {visible(folds.group_column)} each lay in one part; intervals "
            "take the rows of a group for as many independent ones as they vary like."
        )
    return words


def _about(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def learning_title(curve: LearningCurve) -> str:
    """Return the title of `curve`: its attacker, adversary and attribute."""
    return f"Learning curve of {curve.reader}, {curve.adversary}, on {visible(curve.attribute)}"


def learning_in_words(curve: LearningCurve) -> str:
    """Return the balanced accuracy of `curve` with all training rows, and the extrapolated one, as a sentence."""
    last = curve.points[-1]
    return (
        f"{visible(curve.attribute)}: {curve.reader}, {curve.adversary}, reads {decimal(last.mean)} (balanced) with "
        f"{count(last.n_train)} rows; extrapolated to {count(curve.n_extrapolated)}: "
        f"{decimal(curve.extrapolated)} [{interval(curve.extrapolated_ci95)}]"
    )


def learning_table(curve: LearningCurve) -> Table:
    """Return the points of `curve` and its extrapolation as a table."""
    rows = [(count(p.n_train), count(len(p.values)), decimal(p.mean), _range(p.values), "") for p in curve.points]
    end = decimal(curve.extrapolated), interval(curve.extrapolated_ci95), "extrapolated, not measured"
    rows.append((count(curve.n_extrapolated), ABSENT, *end))
    columns = (*numbers("training rows", "draws", "balanced accuracy", "range or 95% interval"), *names("remarks"))
    return Table(learning_title(curve), columns, tuple(rows), is_detail=True)


def _range(values: Sequence[float]) -> str:
    return ABSENT if len(values) < 2 else interval((min(values), max(values)))


def probe_tables(report: Report) -> tuple[Table, ...]:
    """Return the tables of the attackers in `report`: on rows in the first form, in others, in detail, and on bands."""
    first, most, rest = by_form(report.probes)
    found = [probe_table(first)]
    if most:
        found.append(probe_table(most, IN_FORMS))
    if rest:
        found.append(probe_table(rest, "The other attackers on rows in these forms", is_detail=True))
    return (*found, measures_table((*first, *most, *rest)), *bands_tables(report))


def bands_tables(report: Report) -> tuple[Table, ...]:
    """Return a table of the attackers in `report` that read most of each band; none without bands."""
    pairs = probe_pairs(report.bands)
    worst: dict[tuple[str, str], ProbePair] = {}
    for pair in pairs:
        place = (pair.attribute, pair.latest.band)
        if place not in worst or pair.latest.leak > worst[place].latest.leak:
            worst[place] = pair
    rows = []
    for pair in worst.values():
        latest, both = pair.latest, pair.both
        rows.append(
            (
                *(pair.attribute, latest.band),
                *both(lambda result: decimal(result.accuracy)),
                *(interval(latest.ci95), *both(lambda result: decimal(result.auc))),
                *both(lambda result: decimal(result.leak)),
                *(decimal(latest.majority), count(latest.n_test), f"{latest.reader}, {latest.adversary}"),
            )
        )
    columns = (
        *names("attribute", "band"),
        *numbers("before", "after", "95% interval", "AUC before", "AUC after", "leak before", "leak after"),
        *numbers("majority", "rows", are_spare=True),
        *names("attacker"),
    )
    caption = "Rows near the labelled ones, that nothing was trained on: the attacker that reads most"
    return filled([Table(caption, columns, tuple(rows))])


def _scale_in_words(report: Report) -> str:
    """Return what int8 codes are in units of; nothing without them."""
    if report.int8 is None:
        return ""
    scale = sorted(report.int8.scale)
    return (
        f" The scale of int8 is max|x|/127 of each column over {count(report.int8.n_rows)} fitted rows, "
        f"{general(scale[0], 3)} to {general(scale[-1], 3)} (median {general(scale[len(scale) // 2], 3)}); codes are "
        "rounded and cut off at ±127. Before erasure it is taken from the rows before."
    )

"""Probes before and after, side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from salcli.render.table import Row, Section, Table, names, numbers
from salcli.render.text import count, decimal, general, interval, number, record, records, visible

ATTACKER = "An attacker is a classifier that is trained to read the guarded attribute from the embeddings. "
OF_AN_ERASER = (
    "The in-sample attacker is trained on the very rows that the eraser was fitted on; a linear one is stopped there "
    "by construction, so its figure shows that the eraser does what it claims. "
    "The fresh attacker brings labelled rows of its own, as anybody can who obtains the embeddings; "
    "its figure is the one that a release must be judged by. "
)
OF_NO_ERASER = (
    "The in-sample attacker is trained on the rows that an eraser would be fitted on, the fresh attacker on others. "
)
OF_AN_UNKNOWN_ERASER = (
    "Which rows the file was erased with is not known: the in-sample and the fresh attacker differ only in the rows "
    "that they are trained on. "
)
SAFE = "Safe is an accuracy near the majority: the share that is right when always guessing the most frequent class."


@dataclass(frozen=True)
class ProbePair:
    """One probe by one adversary on one attribute, at both stages; either may be missing."""

    attribute: str
    probe: str
    adversary: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def latest(self) -> dict[str, Any]:
        """The stage that is judged: after erasure, or before it when there is no after."""
        return self.after or self.before or {}

    @property
    def attacker(self) -> str:
        """Its name within an attribute."""
        return f"{self.probe}, {self.adversary}"

    def accuracy(self, stage: str) -> float | None:
        """Give the accuracy at a stage, if it was measured."""
        return number(record(self.before if stage == "before" else self.after).get("accuracy"))

    def leakage(self, stage: str) -> float | None:
        """Give what it reads if it may turn its answers round, as gates do."""
        found = number(record(self.before if stage == "before" else self.after).get("leakage"))
        return self.accuracy(stage) if found is None else found

    def is_turned(self, stage: str) -> bool:
        """Whether turned round it reads more."""
        return (self.leakage(stage) or 0.0) > (self.accuracy(stage) or 0.0)

    @property
    def majority(self) -> float | None:
        """What a constant guess reads right, on the rows that are judged."""
        return number(self.latest.get("majority"))


def probe_pairs(probes: object) -> tuple[ProbePair, ...]:
    """Put each probe's two stages side by side, in the report's order; a stage that repeats opens a new pair."""
    pairs: list[tuple[tuple[str, str, str], dict[str, dict[str, Any]]]] = []
    for probe in records(probes):
        attribute, kind, adversary = (visible(probe.get(part) or "?") for part in ("attribute", "probe", "adversary"))
        name = (attribute, kind, adversary)
        stage = "before" if probe.get("stage") == "before" else "after"
        for known, stages in pairs:
            if known == name and stage not in stages:
                stages[stage] = probe
                break
        else:
            pairs.append((name, {stage: probe}))
    return tuple(ProbePair(*name, stages.get("before"), stages.get("after")) for name, stages in pairs)


def best_attacker(pairs: Iterable[ProbePair], stage: str) -> ProbePair | None:
    """Find the probe that reads most at a stage, be it turned round."""
    measured = [pair for pair in pairs if pair.accuracy(stage) is not None]
    return max(measured, key=lambda pair: pair.leakage(stage) or 0.0, default=None)


def by_attribute(pairs: Iterable[ProbePair]) -> dict[str, list[ProbePair]]:
    """Group pairs by the attribute they attack, in the report's order."""
    groups: dict[str, list[ProbePair]] = {}
    for pair in pairs:
        groups.setdefault(pair.attribute, []).append(pair)
    return groups


def probe_table(pairs: Iterable[ProbePair]) -> Table:
    """Tabulate probes, one a row, before and after."""
    return Table(
        "Share of test rows whose guarded attribute the attacker reads right",
        (
            *names("attribute", "probe", "adversary"),
            *numbers("before", "after", "majority", "95% interval before", "95% interval after"),
            *numbers("balanced before", "balanced after", "n train", "n test"),
            *names("remarks"),
        ),
        tuple(_row(pair) for pair in pairs),
    )


def _row(pair: ProbePair) -> Row:
    before, after, latest = record(pair.before), record(pair.after), pair.latest
    return (
        *(pair.attribute, pair.probe, pair.adversary),
        *(decimal(before.get("accuracy")), decimal(after.get("accuracy")), decimal(latest.get("majority"))),
        *(interval(before.get("ci95")), interval(after.get("ci95"))),
        *(decimal(before.get("balanced_accuracy")), decimal(after.get("balanced_accuracy"))),
        *(count(latest.get("n_train")), count(latest.get("n_test"))),
        _remarks_of_both(before, after),
    )


def _remarks_of_both(before: dict[str, Any], after: dict[str, Any]) -> str:
    told = {"before": _remarks(before), "after": _remarks(after)}
    if told["before"] == told["after"]:
        return told["after"]
    return "; ".join(f"{stage}: {remark}" for stage, remark in told.items() if remark)


def turned_round(probe: dict[str, Any]) -> list[str]:
    """Say what an attacker of two classes reads that does worse than guessing."""
    accuracy, leakage = number(probe.get("accuracy")), number(probe.get("leakage"))
    return [f"turned round {decimal(leakage)}"] if accuracy is not None and (leakage or 0.0) > accuracy else []


def _remarks(probe: dict[str, Any]) -> str:
    """Say what makes a figure weaker than it looks, and how the attacker was tuned."""
    told = ["not converged"] if probe.get("converged") is False else []
    told += ["rows capped"] if probe.get("capped") is True else []
    told += turned_round(probe)
    for name, value in sorted(record(probe.get("hyperparameters")).items(), key=str):
        told.append(f"{visible(name)}={visible(value) if (found := number(value)) is None else general(found, 3)}")
    return ", ".join(told)


def attackers_section(report: dict[str, Any]) -> Section | None:
    """Tell how well attackers read each guarded attribute."""
    pairs, eraser = probe_pairs(report.get("probes")), record(report.get("eraser"))
    adversaries = (
        OF_AN_UNKNOWN_ERASER if eraser.get("method") == "against" else OF_AN_ERASER if eraser else OF_NO_ERASER
    )
    lead = ATTACKER + adversaries + SAFE
    return Section("attackers", "Attackers", (lead,), (probe_table(pairs),)) if pairs else None

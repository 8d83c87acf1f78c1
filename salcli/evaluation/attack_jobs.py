"""Jobs of an attack: one probe of one attribute by one adversary each, with its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, Index
from salcli.data.splits import FRESH, WHITE_BOX
from salcli.evaluation.attackers import WEIGHTED, attacker_of, base_name
from salcli.evaluation.attackers.scores import class_counts, majority_rate
from salcli.evaluation.forms import Form
from salcli.evaluation.intersections import LEAST_ROWS, Product
from salcli.evaluation.stages import Stages
from salcli.evaluation.text import listed_counts
from salcli.options import RAW
from salcli.streaming.engine import LOCAL
from salcli.streaming.memory import require_memory

UNEQUAL = 0.6
"""Share of the most frequent class among an attacker's rows above which its weighted twin takes part too."""
QUICK = ("linear", "quadratic")
"""Attackers whose time does not grow with the square of their rows."""
TOO_RARE = "{} is not attacked: fewer than two of its classes have {} test rows (`intersections=False` leaves it out)"


@dataclass(frozen=True, eq=False)
class Job:
    """One probe of one attribute by one adversary."""

    attribute: Attribute
    adversary: str
    probe: str
    at_train: Index
    """Positions among the rows of the stages."""
    at_test: Index
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    labels: Index
    """Labels of the test rows."""
    untrained: dict[str, int]
    """Test rows that are left out, by their class, of which there are no training rows."""
    rare: dict[str, int]
    """Test rows that are left out, by their class of a product, of which there are fewer than `LEAST_ROWS`."""
    rows: Form

    def name(self, stage: str, *, adversary: str | None = None, form: str | None = None) -> tuple[str, ...]:
        """Return what distinguishes it from others at a stage, or its name with another adversary or form."""
        return self.attribute.name, adversary or self.adversary, form or self.rows.name, self.probe, stage


def jobs_of(
    attribute: Attribute,
    adversary: str,
    at_train: Index,
    at_test: Index,
    rows: Form,
    probes: tuple[str, ...],
    least: int = LEAST_ROWS,
) -> tuple[list[Job], list[str]]:
    """Return the jobs of the probes on the test rows of classes that are trained on, and notes on the others.

    Classes of a product with fewer than `least` test rows are left out of training and test.
    """
    y_train, y_test = (attribute.codes(rows.stages.labels[at]) for at in (at_train, at_test))
    if not len(y_test):
        return [], [f"{attribute.name}: no test row is left"]
    if len(np.unique(y_train)) < 2:
        return [], [f"{attribute.name}: the {adversary} attacker's training rows are all of one class"]
    is_known = np.isin(y_test, y_train)
    untrained = class_counts(attribute, y_test[~is_known])
    at_test, y_test = at_test[is_known], y_test[is_known]
    rare = dict[str, int]()
    if isinstance(attribute, Product):
        found, counts = np.unique(y_test, return_counts=True)
        is_rare = np.isin(y_test, found[counts < least])
        is_used = np.isin(y_train, found[counts >= least])
        rare = class_counts(attribute, y_test[is_rare])
        at_train, y_train, at_test, y_test = at_train[is_used], y_train[is_used], at_test[~is_rare], y_test[~is_rare]
        if len(np.unique(y_train)) < 2:
            return [], [TOO_RARE.format(attribute.name, least)]
    if len(y_test) and UNEQUAL < max(majority_rate(y_train), majority_rate(y_test)) < 1:
        probes = tuple(
            name for probe in probes for name in (probe, *((probe + WEIGHTED,) if attacker_of(probe).twin() else ()))
        )
    sides = at_train, at_test, y_train, y_test
    index = rows.stages.labels[at_test]
    jobs = [Job(attribute, adversary, probe, *sides, index, untrained, rare, rows) for probe in probes]
    return jobs if len(y_test) else [], _doubts(attribute, adversary, y_test, untrained, rare, least)


def _doubts(
    attribute: Attribute,
    adversary: str,
    y_test: NDArray[Any],
    untrained: dict[str, int],
    rare: dict[str, int],
    least: int,
) -> list[str]:
    """Return notes on what limits the meaning of the figures on these test rows."""
    notes = []
    if len(np.unique(y_test)) == 1:
        notes.append(
            f"{attribute.name}: the test rows are all of one class: no attacker does better than a blind guess"
        )
    if untrained:
        n = sum(untrained.values())
        n_all = n + sum(rare.values()) + len(y_test)
        notes.append(
            f"{attribute.name}: {n:,} of {n_all:,} test rows are left out, of classes that the {adversary} "
            f"attacker was not trained on: {listed_counts(untrained)}"
        )
    if rare:
        n = sum(rare.values())
        notes.append(
            f"{attribute.name}: {n:,} of {n + len(y_test):,} test rows are left out, of classes with fewer than "
            f"{least} of them: {listed_counts(rare)}"
        )
    return notes


def twin_of(job: Job, stage: str, stages: Stages) -> tuple[str, ...]:
    """Return the name of the job on the same rows: raw ones, or those of the fresh attacker where nothing is inverted.

    Parameters
    ----------
    job : any
    stage : before or after
    stages : the rows as they are in the file
    """
    if stage in job.rows.equal:
        return job.name(stage, form=RAW)
    if job.adversary == WHITE_BOX and (stage == "before" or job.rows.stages.after is stages.after):
        return job.name(stage, adversary=FRESH)
    return job.name(stage)


def stage_names(job: Job) -> Sequence[str]:
    """Return the names of the stages; inner products exist after erasure even without vectors."""
    return ("before", "after") if attacker_of(job.probe).reads == "kernel" else tuple(job.rows.stages.named())


def effort(job: Job) -> float:
    """Return about how long an attacker takes, in no unit."""
    return float(len(job.at_train)) ** (1 if base_name(job.probe) in QUICK else 2)


def require_room(jobs: list[Job]) -> None:
    """Check that as many of the `jobs` as there are threads fit into memory, the largest ones.

    Raises
    ------
    NotEnoughMemory : they do not
    """
    sizes = sorted(_job_bytes(job) for job in jobs)
    require_memory(sum(sizes[-LOCAL.n_workers :]), "training the attackers", "lower `attacker_rows`")


def _job_bytes(job: Job) -> int:
    """Return a bound of the bytes of one job: its rows or inner products, and what the attacker takes besides."""
    n, m, d = len(job.at_train), len(job.at_test), job.rows.stages.width
    attacker = attacker_of(job.probe)
    if attacker.reads == "kernel":
        return 8 * n * (n + 2 * m) + attacker.memory_bytes(n, m, d)
    return int(8 * 4 * (n + m) * d) + attacker.memory_bytes(n, m, d)  # whitened, too

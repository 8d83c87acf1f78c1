"""The measures of an evaluation: a new one is an object in a file of its own, and an entry here."""

from collections.abc import Iterator
from typing import Any

from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.bias import BIAS
from salcli.evaluation.deviation import DEVIATION
from salcli.evaluation.geometry import GEOMETRY
from salcli.evaluation.kept import KEPT
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.report import Measurement
from salcli.evaluation.scatter import SCATTER
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK

MEASURES: dict[str, Measure[Any]] = {
    measure.name: measure for measure in (SIMILARITY, BIAS, TASK, NEIGHBORS, KEPT, GEOMETRY, DEVIATION, SCATTER)
}
"""By name, in the order of their sections."""


def run_measures(rows: BeforeAfter, *, needs_labels: bool) -> dict[str, object]:
    """Return the records of measures by name: of those that need labels, or of those that do not.

    Parameters
    ----------
    rows : before and after erasure
    needs_labels : which measures are run
    """
    return {name: measure.run(rows) for name, measure in MEASURES.items() if measure.needs_labels is needs_labels}


def run_swept(rows: BeforeAfter) -> dict[str, object]:
    """Return the records, by name, of the measures that are repeated along a sweep, for `rows` erased once more."""
    return {name: measure.run(rows) for name, measure in MEASURES.items() if measure.swept is not None}


def recorded(found: Measurement) -> Iterator[tuple[Measure[Any], Any]]:
    """Yield each measure that has a record in `found`, and the record, in the order of their sections."""
    for name, measure in MEASURES.items():
        if (record := found.measures.get(name)) is not None:
            yield measure, record

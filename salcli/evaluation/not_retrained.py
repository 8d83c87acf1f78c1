"""Attackers that were trained before erasure and read the rows afterwards: models that nobody trains again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels
from salcli.data.split_parts import TEST
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attackers import attacker_of
from salcli.evaluation.attackers.base import Classifier, Settings
from salcli.evaluation.attackers.scores import silence_convergence_warnings, wilson
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.readings import Vectors
from salcli.evaluation.report import NotRetrained
from salcli.evaluation.stages import Array, Stages
from salcli.options import RAW


@dataclass(frozen=True, eq=False)
class TrainedBefore:
    """An attacker that was trained on the rows before erasure."""

    result: ProbeResult
    """Of the rows before."""
    classifier: Classifier
    reading: Vectors
    settings: Settings
    true: NDArray[Any]
    """`[m]` classes of the test rows."""

    def read(self, after: Array) -> NotRetrained:
        """Return what it predicts of `after` `[n, d]`, the rows after erasure, on the test rows among them."""
        rows = replace(self.reading, rows={"before": after}).test("before", self.settings)
        n_right, n = int(np.sum(self.classifier.predict(rows) == self.true)), len(self.true)
        result = self.result
        return NotRetrained(result.attribute, result.probe, result.adversary, n_right / n, wilson(n_right, n))


def trained_before(
    stages: Stages, labels: GuardedLabels, split: EvaluationSplit, results: Sequence[ProbeResult], seed: int
) -> Iterator[TrainedBefore]:
    """Yield the attackers on vectors, trained before erasure on raw rows, with the settings that were chosen there.

    Parameters
    ----------
    stages : the rows
    labels : of the CSV
    split : which rows train, and which are tested
    results : of the attackers, at both stages
    seed : of the attackers
    """
    attributes = {each.name: each for each in labels.attributes if each.classes is not None}
    for result in results:
        attacker = attacker_of(result.probe)
        if (
            result.stage != "before"
            or result.form != RAW
            or attacker.reads != "vectors"
            or result.attribute not in attributes
        ):
            continue
        attribute = attributes[result.attribute]
        at_train, at_test = (stages.at(split.having(attribute, name, labels)) for name in (result.adversary, TEST))
        y, true = (attribute.codes(stages.labels[at]) for at in (at_train, at_test))
        is_known = np.isin(true, y)
        reading = Vectors.of(replace(stages, after=None, kernel=None), at_train, at_test[is_known])
        with silence_convergence_warnings():
            classifier = attacker.fit(reading.train("before", result.hyperparameters), y, result.hyperparameters, seed)
        yield TrainedBefore(result, classifier, reading, result.hyperparameters, true[is_known])

"""Attackers that were trained before erasure."""

import numpy as np
import pytest

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attack import attack
from salcli.evaluation.not_retrained import trained_before
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

N = 240


def test_on_rows_that_are_not_erased_they_read_what_they_read_before_and_nothing_where_all_is_erased() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(N) % 2).astype(np.int32)
    x = rng.normal(size=(N, 4))
    x[:, 0] += 2 * y
    labels = GuardedLabels("l.csv", (Attribute("g", y, ("a", "b")), Attribute("age", x[:, 1], None)), None)
    after = x.copy()
    after[:, 0] = 0
    train, test = np.arange(N // 2), np.arange(N // 2, N)
    split = EvaluationSplit.of(train, {"in-sample": train, "fresh": train[:80]}, test, has_held_out=True)
    stages = Stages(np.arange(N), x, x, after)
    results, _ = attack(stages, labels, split, ("linear", "quadratic"), EvaluateOptions(), Silent())
    found = list(trained_before(stages, labels, split, results, 0))
    before = {(r.probe, r.adversary): r.accuracy for r in results if (r.stage, r.form) == ("before", "raw")}
    assert len(found) == 4
    for each in found:
        same = each.read(x)
        assert (same.attribute, same.accuracy) == ("g", before[same.probe, same.adversary])
        assert same.ci95[0] < same.accuracy < same.ci95[1]
        gone = each.read(after)
        assert gone.accuracy == pytest.approx(0.5, abs=0.1)
        assert same.accuracy > 0.75

"""The labelled rows before erasure: read and attacked once, then erased by one eraser after another."""

from pathlib import Path

import numpy as np
import pytest

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.source import ArrayReader, Source
from salcli.data.splits import EvaluationSplit, SplitRule
from salcli.erasers.linear import LinearEraser
from salcli.evaluation.attack import attack
from salcli.evaluation.before import Before, read_before
from salcli.evaluation.stages import Erasure
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

RULE = SplitRule(holdout=0.5)
OPTIONS = EvaluateOptions(probes=("linear",))


@pytest.fixture
def source() -> Source:
    return Source([ArrayReader(np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32))])


def before_of(source: Source) -> Before:
    y = Attribute("y", (np.arange(80) % 2).astype(np.int8), ("a", "b"))
    labels = GuardedLabels("y.csv", (y,), None)

    def split(matched: Index) -> EvaluationSplit:
        return RULE.divide(labels, matched)

    return read_before(source, labels, split, RULE, OPTIONS, Silent())


def first_removed(d: int = 5) -> Erasure:
    direction = np.eye(d)[:, :1]
    return Erasure(LinearEraser(np.zeros(d), direction, direction), dtype=np.dtype(np.float32))


def test_rows_are_erased_without_being_read_again(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    before = before_of(source)
    monkeypatch.setattr(source, "chunks", lambda: pytest.fail("read again"))
    stages = before.erased(source, first_removed(), Silent())
    assert stages.before is before.stages.before
    assert stages.after is not None
    assert not stages.after[:, 0].any()
    assert np.array_equal(stages.after[:, 1:], before.stages.before[:, 1:])
    assert not stages.is_foreign
    assert before.erased(source, Erasure(), Silent()).after is None


@pytest.mark.slow
def test_attackers_before_are_those_of_both_stages_together(source: Source) -> None:
    before = before_of(source)
    stages = before.erased(source, first_removed(), Silent())
    together, _ = attack(stages, before.labels, before.plan, ("linear",), OPTIONS, Silent())
    alone = before.attacked(("linear",), (), OPTIONS, Silent()).probes
    assert alone == tuple(probe for probe in together if probe.stage == "before")
    after, _ = attack(stages, before.labels, before.plan, ("linear",), OPTIONS, Silent(), "after")
    assert after == tuple(probe for probe in together if probe.stage == "after")


def test_a_file_erased_elsewhere_is_in_units_of_its_own(source: Source, tmp_path: Path) -> None:
    other = Source([ArrayReader(np.ones((80, 3), np.float32))])
    stages = before_of(source).erased(source, Erasure(against=other), Silent())
    assert stages.is_foreign
    assert stages.after is not None
    assert stages.after.shape[1] == 3

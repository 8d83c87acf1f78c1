"""Rows before and after erasure: by an eraser, at a strength, or as another tool wrote them."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from salcli.erasers.linear import LinearEraser
from salcli.errors import AlignmentError, SalcliWarning
from salcli.evaluation.stages import Erasure, erase_keys, gather_same, opened_against, stage_rows
from salcli.formats.registry import open_source
from salcli.options import ReadOptions
from salcli.streaming.progress import Silent

from ..cli.helpers import save_npy, words, write_embeddings

N, D = 40, 4
ROWS = np.random.default_rng(0).normal(size=(N, D))
U = np.linalg.qr(np.random.default_rng(1).normal(size=(D, 1)))[0]
ERASER = LinearEraser(np.ones(D), U, U)
AFTER = ROWS - (ROWS - 1) @ U @ U.T


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(save_npy(tmp_path / "x.npy", ROWS))


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_rows_are_those_of_the_labels_asked_for_before_and_after(path: str, strength: float) -> None:
    row_of_label = np.arange(N)[::-1].copy()
    index = np.array([1, 5, 30])
    with closing(open_source(path, ReadOptions())) as source:
        stages = stage_rows(source, Erasure(ERASER, strength=strength), row_of_label, index, Silent())
    assert_array_equal(stages.labels, index)
    assert_array_equal(stages.before, ROWS[row_of_label[index]])
    assert stages.after is not None
    expected = (1 - strength) * ROWS + strength * AFTER
    assert_allclose(stages.after, expected[row_of_label[index]], atol=1e-12)
    assert_array_equal(stages.at(np.array([5, 7, 30])), [1, 2])
    assert list(stages.named()) == ["before", "after"]
    assert not stages.is_foreign


def test_without_an_erasure_there_is_no_later_stage(path: str) -> None:
    with closing(open_source(path, ReadOptions())) as source:
        stages = stage_rows(source, Erasure(), np.arange(N), np.arange(3), Silent())
    assert stages.after is None
    assert list(stages.named()) == ["before"]
    assert erase_keys({"w": ROWS[0]}, {"w": 0}, Erasure()) is None


def test_rows_erased_elsewhere_are_read_row_by_row(path: str, tmp_path: Path) -> None:
    other = str(save_npy(tmp_path / "o.npy", AFTER))
    before = {f"w{i}": ROWS[i] for i in (7, 2)}
    with closing(open_source(path, ReadOptions())) as source, opened_against(other, source, ReadOptions()) as against:
        stages = stage_rows(source, Erasure(against=against), np.arange(N), np.array([2, 9]), Silent())
        by_key = erase_keys(before, {"w7": 7, "w2": 2}, Erasure(against=against))
    assert stages.is_foreign
    assert_array_equal(stages.after, AFTER[[2, 9]])
    assert by_key is not None
    of_eraser = erase_keys(before, {"w7": 7, "w2": 2}, Erasure(ERASER))
    assert of_eraser is not None
    for key, vector in by_key.items():
        assert_array_equal(vector, AFTER[int(key[1:])])
        assert_allclose(of_eraser[key], vector, atol=1e-12)


def test_a_file_of_other_rows_is_refused(path: str, tmp_path: Path) -> None:
    short = str(save_npy(tmp_path / "short.npy", ROWS[:-1]))
    with closing(open_source(path, ReadOptions())) as source:
        with opened_against(None, source, ReadOptions()) as nothing:
            assert nothing is None
        with pytest.raises(AlignmentError, match="39 rows, but .* has 40"):
            with opened_against(short, source, ReadOptions()):
                pass
    keys = [word.encode() for word in words(N)]
    one = str(write_embeddings(tmp_path / "a.npz", ROWS, keys))
    other = str(write_embeddings(tmp_path / "b.npz", ROWS, [*keys[:7], b"x", *keys[8:]]))
    with closing(open_source(one, ReadOptions())) as source:
        with pytest.raises(AlignmentError, match="'x', but .* has 'w7'"):
            with opened_against(other, source, ReadOptions()):
                pass


def test_a_file_that_drops_other_rows_is_refused(path: str, tmp_path: Path) -> None:
    broken = ROWS.copy()
    broken[3, 0] = np.nan
    other = str(save_npy(tmp_path / "o.npy", broken))
    with closing(open_source(path, ReadOptions())) as source:
        with pytest.warns(SalcliWarning, match="1 rows with NaN"):
            against = open_source(other, ReadOptions(allow_nonfinite=True))
        with closing(against):
            assert_array_equal(gather_same(source, against, np.arange(3), np.arange(3), Silent()), ROWS[:3])
            with pytest.raises(AlignmentError, match="drops other rows"):
                gather_same(source, against, np.arange(5), np.arange(5), Silent())

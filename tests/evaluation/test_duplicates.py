"""Copies across the parts of a split, planted among random rows and looked for by brute force."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.duplicates import NEAR, Copies, doubts_of_copies, notes_on_copies, without_copies
from salcli.formats.registry import open_source
from salcli.streaming.progress import Silent

N = 300
FIT, FRESH, TEST = np.arange(100), np.arange(100, 200), np.arange(200, N)


def split(*, has_held_out: bool = True) -> EvaluationSplit:
    return EvaluationSplit.of(FIT, {"in-sample": FIT[:50], "fresh": FRESH}, TEST, has_held_out=has_held_out)


def rows(d: int = 40, offset: float = 3.0) -> NDArray[np.float32]:
    return (np.random.default_rng(0).normal(size=(N, d)) + offset).astype(np.float32)


def found(folder: Path, x: NDArray[Any], of: EvaluationSplit | None = None) -> Any:
    order = np.random.default_rng(1).permutation(len(x))  # labels come in another order than rows
    labels = GuardedLabels("l.csv", (Attribute("g", np.arange(N) % 2, ("a", "b")),), None)
    moved = np.empty_like(x)
    moved[order] = x
    np.save(folder / "x.npy", moved)
    with closing(open_source(str(folder / "x.npy"))) as source:
        return without_copies(source, labels, order, of or split(), Silent())


def test_equal_and_near_rows_are_left_out_where_they_would_tell_of_rows_that_train(tmp_path: Path) -> None:
    x = rows()
    far = np.linalg.norm(x - np.median(x, axis=0), axis=1)[:, None]
    step = np.random.default_rng(2).normal(size=x.shape)
    step *= NEAR * far / np.linalg.norm(step, axis=1)[:, None]
    x[210], x[211] = x[60], x[150]  # of a fitted row that trains no attacker, and of a fresh one
    x[212], x[213] = x[7] + 0.8 * step[7], x[8] + 1.4 * step[8]
    x[110], x[214] = x[9], x[9]  # a fresh row that was fitted; and a test row of both
    x[220] = x[221]  # within a part nothing is wrong
    x[10] = x[11]
    changed, copies = found(tmp_path, x)
    assert copies == {
        "fresh": Copies(1, 100, 0, ("110",)),
        "test": Copies(4, 100, 1, ("210", "211", "212")),
    }
    assert changed.test.tolist() == [i for i in TEST if i not in (210, 211, 212, 214)]
    assert changed.trainers["fresh"].tolist() == [i for i in FRESH if i != 110]
    assert changed.trainers["in-sample"] is not None
    assert not changed.is_capped("fresh")
    (fresh, test) = notes_on_copies(copies)
    assert fresh == "fresh: 1 of 100 rows are left out, copies of rows that train (1 equal, 0 nearly): 110"
    assert test.endswith("(3 equal, 1 nearly): 210, 211, 212, …")


@pytest.mark.parametrize("seed", range(3))
def test_near_rows_are_those_that_brute_force_finds(tmp_path: Path, seed: int) -> None:
    rng, x = np.random.default_rng(seed), rows(20, 0.0)
    x[TEST] = x[rng.choice(FIT, 100)] * (1 + rng.normal(size=(100, 20)) * 10.0 ** rng.uniform(-5, -1, size=(100, 1)))
    median, seen = np.median(x.astype(float), axis=0), np.concatenate([FIT, FRESH])
    away = np.linalg.norm(x - median, axis=1)
    distance = np.linalg.norm(x[TEST][:, None].astype(float) - x[seen], axis=2)
    is_near = distance <= NEAR * np.minimum(away[TEST][:, None], away[seen])
    changed, _ = found(tmp_path, x)
    assert changed.test.tolist() == TEST[~is_near.any(axis=1)].tolist()
    assert 20 < len(changed.test) < 80


def test_in_few_dimensions_only_equal_rows_are_copies_and_zeros_have_no_sign(tmp_path: Path) -> None:
    x = rows(2)
    x[250], x[251], x[252, 0], x[5, 0] = x[3], x[4] * (1 + 1e-6), 0.0, -0.0
    x[252, 1] = x[5, 1]
    _, copies = found(tmp_path, x)
    assert copies == {"test": Copies(2, 100, 0, ("250", "252"))}


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_rows_without_copies_and_rows_that_are_their_own_test_stay(tmp_path: Path, dtype: str) -> None:
    x = rows(64).astype(dtype)
    of = split()
    changed, copies = found(tmp_path, x, of)
    assert changed is of
    assert copies == {}
    same = split(has_held_out=False)
    assert found(tmp_path, np.repeat(x[:1], N, axis=0), same) == (same, {})


@pytest.mark.parametrize(("d", "n"), [(40, 2), (8, 0)])
def test_of_equal_test_rows_with_the_same_labels_one_stays_unless_rows_are_narrow(
    tmp_path: Path, d: int, n: int
) -> None:
    x = rows(d)
    x[[232, 234]] = x[230]
    x[231] = x[230]  # another class
    changed, copies = found(tmp_path, x)
    assert copies == ({"repeated": Copies(n, 100, 0, ("232", "234"))} if n else {})
    assert len(changed.test) == 100 - n
    assert {230, 231} <= set(changed.test.tolist())
    assert doubts_of_copies(copies) == ()
    if n:
        assert notes_on_copies(copies) == ["test: 2 of 100 rows are left out, repeated: 232, 234"]


@pytest.mark.parametrize("factor", [1e5, 1e9])
def test_few_rows_of_great_length_make_no_others_copies(tmp_path: Path, factor: float) -> None:
    x = rows(20, 0.0)
    x[[3, 150, 250, 251]] *= np.float32(factor)
    x[260] = x[4] * np.float32(1 + 1e-5)
    assert found(tmp_path, x)[1] == {"test": Copies(1, 100, 1, ("260",))}


def test_more_copies_than_a_tenth_are_a_doubt() -> None:
    few, many = Copies(10, 100, 0, ("a",)), Copies(11, 100, 0, ("a",))
    assert doubts_of_copies({"test": few}) == ()
    assert doubts_of_copies({"test": few, "fresh": many}) == (
        "11 of 100 fresh rows are copies of rows that train: at most 10% may be",
    )


def test_where_all_test_rows_are_copies_they_are_kept_and_doubted(tmp_path: Path) -> None:
    x = rows()
    x[TEST] = x[FIT]
    changed, copies = found(tmp_path, x)
    assert changed.test.tolist() == TEST.tolist()
    assert not changed.is_capped("test")
    assert notes_on_copies(copies)[0].startswith("test: 100 of 100 rows are copies of rows that train (100 equal")
    assert len(doubts_of_copies(copies)) == 1

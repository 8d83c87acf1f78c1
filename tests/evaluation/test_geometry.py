import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.geometry import Geometry, clusters, variance_removed
from salcli.evaluation.report import to_json


def mean_cosines(x: np.ndarray, codes: np.ndarray) -> tuple[float | None, float | None]:
    within, between = [], []
    for i in range(len(x)):
        for j in range(i):
            cosine = x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j])
            (within if codes[i] == codes[j] else between).append(cosine)
    return (np.mean(within) if within else None), (np.mean(between) if between else None)


def assert_near(found: float | None, expected: float | None) -> None:
    assert (found is None) == (expected is None)
    assert found is None or found == pytest.approx(expected, rel=1e-6, abs=1e-9)  # means are rounded to 12 places


@given(st.integers(0, 9999), st.integers(0, 14))
def test_means_are_those_over_all_pairs(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.integers(-1, 2, (n, 2)).astype(np.float32), rng.integers(-1, 2, (n, 3)).astype(np.float16)
    codes, tasks = rng.integers(-1, 3, n), rng.integers(-1, 2, n)
    found = clusters(before, after, codes, "group", tasks, ("nurse", "judge"))
    assert [cluster.task_class for cluster in found] == [None, "nurse", "judge"]
    is_used = before.any(axis=1) & after.any(axis=1) & (codes >= 0)
    for cluster, is_of_task in zip(found, (True, tasks == 0, tasks == 1), strict=True):
        rows = is_used & is_of_task
        for stage, x in (("before", before), ("after", after)):
            within, between = mean_cosines(x[rows].astype(float), codes[rows])
            assert_near(getattr(cluster.within, stage), within)
            assert_near(getattr(cluster.between, stage), between)
            low, high = cluster.between_ci95.get(stage, (0.0, 0.0))
            is_defined = within is not None and between is not None and not low <= 0 <= high
            assert_near(getattr(cluster.ratio, stage), within / between if is_defined else None)


@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_the_interval_between_classes_holds_the_mean_of_all_rows_95_times_in_100(mean: float) -> None:
    rng = np.random.default_rng(5)
    n_draws, directions = 300, np.eye(6)[:3] * mean
    codes = np.repeat([0, 1, 2], (10, 30, 40))

    def drawn(codes: np.ndarray) -> np.ndarray:
        return rng.normal(size=(len(codes), 6)) + 3 * directions.sum(axis=0) + directions[codes]

    large = np.repeat([0, 1, 2], (1000, 3000, 4000))
    truth = clusters(x := drawn(large), x, large, "group")[0].between.before
    found = [clusters(x := drawn(codes), x, codes, "group")[0].between_ci95["before"] for _ in range(n_draws)]
    share = np.mean([low <= truth <= high for low, high in found])
    assert 0.9 <= share <= 0.98 if mean else share >= 0.9


def test_no_ratio_where_the_mean_between_classes_may_be_zero() -> None:
    rng = np.random.default_rng(1)
    x, codes = rng.normal(size=(60, 20)), rng.integers(0, 2, 60)
    (found,) = clusters(x, x + 1, codes, "group")
    assert found.ratio.before is None
    assert found.ratio.after == pytest.approx(found.within.after / found.between.after)
    assert found.has_no_ratio


@pytest.mark.slow
def test_many_blocks_add_up() -> None:
    rng = np.random.default_rng(0)
    x, codes = rng.normal(1, 1, (5_000, 3)), rng.integers(0, 2, 5_000)
    units = x / np.linalg.norm(x, axis=1)[:, None]
    products = units @ units.T
    is_same = codes[:, None] == codes
    found = clusters(x, x, codes, "group")[0]
    assert found.between.before == pytest.approx(products[~is_same].mean())
    np.fill_diagonal(is_same, val=False)
    assert found.within.before == pytest.approx(products[is_same].mean())


@given(st.integers(0, 999), st.sampled_from([1e-200, 1.0, 1e200]))
def test_variance_removed_is_one_less_the_ratio_of_traces(seed: int, scale: float) -> None:
    x = np.random.default_rng(seed).normal(3, 1, (12, 4))
    after = x.copy()
    after[:, 1] = 0.5
    expected = 1 - np.trace(np.cov(after.T)) / np.trace(np.cov(x.T))
    assert variance_removed(x * scale, after * scale) == pytest.approx(expected)
    assert variance_removed(x, x) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.full((5, 2), 0.1), np.eye(5, 2)),
        (np.eye(3), np.eye(3, 2)),
        (np.zeros((2, 2)), np.zeros((2, 2))),
        (np.zeros((0, 2)), np.zeros((0, 2))),
    ],
)
def test_variance_removed_is_undefined_without_variance_or_with_other_widths(
    before: np.ndarray, after: np.ndarray
) -> None:
    assert variance_removed(before, after) is None


def test_the_json_has_the_fields_of_the_report() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2))
    told = to_json(Geometry(clusters(x, x[:, :1], np.array([0, 1] * 3), "group"), None))
    assert json.loads(json.dumps(told)) == told
    assert set(told) == {"clusters", "variance_removed"}
    assert set(told["clusters"][0]) == {"attribute", "task_class", "within", "between", "between_ci95", "ratio"}

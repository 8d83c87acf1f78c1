import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.geometry import GEOMETRY, MOST_CLASSES, ClassPair, Geometry, clusters, variance_removed
from salcli.evaluation.json_fields import to_json


def mean_cosines(x: np.ndarray, codes: np.ndarray) -> dict[tuple[int, int], list[float]]:
    """The cosine of each pair of rows, by their classes."""
    found: dict[tuple[int, int], list[float]] = {}
    for i in range(len(x)):
        for j in range(i):
            cosine = x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j])
            one, other = sorted((int(codes[i]), int(codes[j])))
            found.setdefault((one, other), []).append(cosine)
    return found


def assert_mean(found: float | None, cosines: list[float]) -> None:
    assert (found is None) == (not cosines)
    assert found is None or found == pytest.approx(np.mean(cosines), rel=1e-6, abs=1e-9)  # rounded to 12 places


@given(st.integers(0, 9999), st.integers(0, 14))
def test_means_are_those_over_all_pairs(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.integers(-1, 2, (n, 2)).astype(np.float32), rng.integers(-1, 2, (n, 3)).astype(np.float16)
    codes, tasks = rng.integers(-1, 3, n), rng.integers(-1, 2, n)
    found = clusters(before, after, codes, "group", ("a", "b", "c"), tasks, ("nurse", "judge"))
    assert [cluster.task_class for cluster in found] == [None, "nurse", "judge"]
    is_used = before.any(axis=1) & after.any(axis=1) & (codes >= 0)
    for cluster, is_of_task in zip(found, (True, tasks == 0, tasks == 1), strict=True):
        rows = is_used & is_of_task
        for stage, x in (("before", before), ("after", after)):
            by_pair = mean_cosines(x[rows].astype(float), codes[rows])
            assert_mean(getattr(cluster.within, stage), [c for (i, j), each in by_pair.items() if i == j for c in each])
            assert_mean(getattr(cluster.between, stage), [c for (i, j), each in by_pair.items() if i < j for c in each])
            assert {pair.classes for pair in cluster.pairs} == {("abc"[i], "abc"[j]) for i, j in by_pair}
            for pair in cluster.pairs:
                cosines = by_pair["abc".index(pair.classes[0]), "abc".index(pair.classes[1])]
                assert pair.n == len(cosines)
                assert_mean(getattr(pair, stage), cosines)


@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_intervals_hold_the_mean_of_all_rows_95_times_in_100(mean: float) -> None:
    rng = np.random.default_rng(5)
    n_draws, directions = 300, np.eye(6)[:3] * mean
    codes, names = np.repeat([0, 1, 2], (10, 30, 40)), ("a", "b", "c")

    def drawn(codes: np.ndarray) -> np.ndarray:
        return rng.normal(size=(len(codes), 6)) + 3 * directions.sum(axis=0) + directions[codes]

    def pairs(codes: np.ndarray) -> tuple[ClassPair, ...]:
        x = drawn(codes)
        return clusters(x, x, codes, "group", names)[0].pairs

    truth = [pair.before for pair in pairs(np.repeat([0, 1, 2], (1000, 3000, 4000)))]
    bounds = np.array([[pair.ci95["before"] for pair in pairs(codes)] for _ in range(n_draws)])
    share = np.mean((bounds[..., 0] <= truth) & (truth <= bounds[..., 1]), axis=0)
    assert len(share) == 6
    assert np.all(share >= 0.9)  # .925 is the least in 1,000 draws; conservative without a mean, when rows add noise
    assert not mean or np.all(share <= 0.985)


def test_few_rows_have_no_interval_and_many_classes_no_pairs() -> None:
    rng = np.random.default_rng(0)
    x, codes = rng.normal(size=(60, 4)), np.repeat([0, 1], (9, 51))
    (found,) = clusters(x, x, codes, "group", ("few", "many"))
    assert {pair.classes: bool(pair.ci95) for pair in found.pairs} == {
        ("few", "few"): False,
        ("few", "many"): False,
        ("many", "many"): True,
    }
    (found,) = clusters(x, x, np.arange(60) % 9, "group", [f"c{i}" for i in range(MOST_CLASSES + 1)])
    assert found.pairs == ()
    assert found.within.before is not None


def test_the_table_has_each_pair_of_two_classes_and_of_more_a_sum_too() -> None:
    rng = np.random.default_rng(0)
    x, codes = rng.normal(size=(60, 4)), np.arange(60) % 3
    shown = GEOMETRY.section(Geometry(clusters(x, x, codes % 2, "g", ("m", "f")), 0.25)).tables[0].rows
    assert [row[2] for row in shown] == ["m × m", "m × f", "f × f"]
    shown = GEOMETRY.section(Geometry(clusters(x, x, codes, "g", ("a", "b", "c")), 0.25)).tables[0].rows
    assert [row[2] for row in shown[:3]] == ["the same class", "different classes", "a × a"]
    assert len(shown) == 2 + 6


@pytest.mark.slow
def test_many_blocks_add_up() -> None:
    rng = np.random.default_rng(0)
    x, codes = rng.normal(1, 1, (5_000, 3)), rng.integers(0, 2, 5_000)
    units = x / np.linalg.norm(x, axis=1)[:, None]
    products = units @ units.T
    is_same = codes[:, None] == codes
    found = clusters(x, x, codes, "group", ("a", "b"))[0]
    assert found.between.before == pytest.approx(products[~is_same].mean())
    assert found.pairs[1].after == pytest.approx(products[~is_same].mean())
    added = products[codes == 0][:, codes == 1].mean(axis=1), products[codes == 1][:, codes == 0].mean(axis=1)
    error = np.sqrt(sum(np.var(each, ddof=1) / len(each) for each in added))
    low, high = found.pairs[1].ci95["before"]
    assert high - low == pytest.approx(2 * 1.96 * error, rel=1e-3)
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
    record = to_json(Geometry(clusters(x, x[:, :1], np.array([0, 1] * 3), "group", ("m", "f")), None))
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {"clusters", "variance_removed"}
    assert set(record["clusters"][0]) == {"attribute", "task_class", "within", "between", "pairs"}
    assert [pair["classes"] for pair in record["clusters"][0]["pairs"]] == [["m", "m"], ["m", "f"], ["f", "f"]]
    assert set(record["clusters"][0]["pairs"][0]) == {"classes", "n", "before", "after", "ci95"}

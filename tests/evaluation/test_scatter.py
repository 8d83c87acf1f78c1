import numpy as np
import pytest

from salcli.data.labels import Attribute, GuardedLabels
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.plan import EvaluationSplit
from salcli.evaluation.scatter import SCATTER, Scatter, ScatterMeasure, class_centres, principal_coordinates
from salcli.evaluation.stages import Erasure, Stages
from salcli.options import EvaluateOptions
from tests.render.reports import scatter_of


def test_rows_without_a_class_are_left_out() -> None:
    scatter = scatter_of("ab", [0, 1, -1], [[1, 2], [3, 4], [5, 6]], [[0, 0]] * 3)
    assert scatter.points(scatter.first) == {"before": [("a", 1, 2), ("b", 3, 4)], "after": [("a", 0, 0), ("b", 0, 0)]}


def test_centres_are_means_even_of_the_largest_numbers() -> None:
    assert class_centres([("a", 1, 2), ("a", 3, 6), ("b", 0, 0)]) == {"a": (2, 4), "b": (0, 0)}
    assert class_centres([("a", 1.7e308, 0)] * 4) == {"a": (pytest.approx(1.7e308), 0)}


def test_the_table_names_each_class_once() -> None:
    scatter = scatter_of("fm", [0, 0, 1], [[1, 2], [3, 4], [0, 1234.5]], [[0, 0]] * 3)
    (table,) = SCATTER.section(scatter).tables
    assert table.rows == (("f", "2", "3", "0", "0", "2", "2"), ("m", "0", "1230", "0", "0", "1", "1"))


def test_coordinates_are_those_on_the_first_two_principal_axes() -> None:
    x = np.random.default_rng(0).normal(size=(50, 5)) * [9, 4, 1, 1, 1] + 3
    found = np.array(principal_coordinates(x))
    axes = np.linalg.eigh(np.cov(x.T))[1][:, :-3:-1]
    expected = (x - x.mean(axis=0)) @ axes
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=0.01)
    assert (found[np.argmax(np.abs(found), axis=0), [0, 1]] > 0).all()
    assert principal_coordinates(np.ones((2, 1))) == ((0.0, 0.0), (0.0, 0.0))


def scattered(n: int, measure: ScatterMeasure = SCATTER) -> Scatter:
    """Run the measure on n test rows of two classes and of a second attribute."""
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(n, 3)), np.arange(n)
    attributes = (Attribute("g", rng.integers(0, 2, n), ("a", "b")), Attribute("h", rng.integers(-1, 2, n), ("c", "d")))
    labels = GuardedLabels("y.csv", attributes, None, None)
    plan = EvaluationSplit.of(index[:0], {}, index, has_held_out=True)
    stages = Stages(index, x, x, x * [1, 0, 1])
    rows = BeforeAfter(None, Erasure(), EvaluateOptions(), Labelled(labels, plan, stages))  # type: ignore[arg-type]
    found = measure.run(rows)
    assert found is not None
    return found


@pytest.mark.parametrize(("n", "shown"), [(999, 999), (1_000, 1_000), (1_300, 1_000)])
def test_a_picture_has_a_thousand_rows_at_most(n: int, shown: int) -> None:
    found = scattered(n)
    assert len(found.before) == len(found.after) == len(found.first.codes) == len(found.others[0].codes) == shown


def test_rows_keep_their_classes_when_they_are_sampled() -> None:
    found = scattered(300, ScatterMeasure(most_rows=100))
    share = np.mean(np.array(found.first.codes) == 1)
    assert abs(share - np.mean(np.array(scattered(300).first.codes) == 1)) < 0.02
    assert [of.attribute for of in found.every] == ["g", "h"]
    assert min(found.others[0].codes) == -1

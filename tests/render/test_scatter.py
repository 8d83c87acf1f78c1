import pytest

from salcli.render.scatter import MOST_POINTS, centres_table, class_centres, scatter_points


def test_rows_without_a_class_or_a_place_are_left_out() -> None:
    scatter = {
        "classes": ["a", "b"],
        "codes": [0, 1, -1, 2, None, 0],
        "before": [[1, 2], [3, 4], [5, 6], [7, 8], [9, 9], [None, 1]],
        "after": [[0, 0]],
    }
    assert scatter_points(scatter) == {"before": [("a", 1, 2), ("b", 3, 4)], "after": [("a", 0, 0)]}


def test_many_rows_are_thinned_evenly() -> None:
    n = 4 * MOST_POINTS
    scatter = {"classes": ["a"], "codes": [0] * n, "before": [[x, 0] for x in range(n)], "after": None}
    assert [x for _, x, _ in scatter_points(scatter)["before"]] == list(range(0, n, 4))


def test_centres_are_means_even_of_the_largest_numbers() -> None:
    assert class_centres([("a", 1, 2), ("a", 3, 6), ("b", 0, 0)]) == {"a": (2, 4), "b": (0, 0)}
    assert class_centres([("a", 1.7e308, 0)] * 4) == {"a": (pytest.approx(1.7e308), 0)}


def test_the_table_names_each_class_once() -> None:
    scatter = {
        "attribute": "gender",
        "classes": ["f", "m"],
        "codes": [0, 0, 1],
        "before": [[1, 2], [3, 4], [0, 1234.5]],
    }
    assert centres_table(scatter).rows == (
        ("f", "2", "3", "–", "–", "2", "0"),
        ("m", "0", "1230", "–", "–", "1", "0"),
    )

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from salcli.erasers.linear import LinearEraser
from salcli.errors import AlignmentError, NotEnoughMemory
from salcli.evaluation.base import BeforeAfter
from salcli.evaluation.cosine import PLACES
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.neighbors import NEIGHBORS, NOWHERE, Neighbor, Neighbors, WordNeighbors, nearest, neighbors
from salcli.evaluation.stages import Erasure
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions
from salcli.streaming import memory


def brute_force(x: np.ndarray, query: int, count: int) -> tuple[list[int], list[float]]:
    wide = x.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    if norms[query] == 0:
        return [], []
    rows = [i for i in range(len(x)) if i != query and norms[i] > 0]
    cosines = {i: round(float(wide[i] @ wide[query] / norms[i] / norms[query]), 10) for i in rows}
    order = sorted(rows, key=lambda i: (-cosines[i], i))[:count]
    return order, [cosines[i] for i in order]


@given(
    st.integers(0, 999),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 45),
    st.integers(1, 41),
    st.sampled_from(["f2", "f4", "f8"]),
)
def test_nearest_rows_are_those_of_brute_force(
    seed: int, n: int, d: int, count: int, block_rows: int, dtype: str
) -> None:
    x = np.random.default_rng(seed).integers(-2, 3, (n, d)).astype(dtype)  # many ties, duplicates and zero vectors
    queries = np.arange(n)
    positions, cosines = nearest(x, queries, count, block_rows=block_rows)
    for query in queries:
        is_there = positions[query] != NOWHERE
        order, values = brute_force(x, int(query), count)
        assert positions[query][is_there].tolist() == order
        assert cosines[query][is_there] == pytest.approx(values, abs=1e-9)
        assert np.isnan(cosines[query][~is_there]).all()


def test_cosines_closer_than_float32_can_tell_are_still_put_in_order() -> None:
    angles = np.random.default_rng(0).permutation(500) * 1e-8 + 0.5
    x = np.concatenate([[[1.0, 0.0]], np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    positions, _ = nearest(x, np.array([0]), 5, block_rows=16)
    assert positions[0].tolist() == (1 + np.argsort(angles)[:5]).tolist()


def test_duplicates_go_by_position_however_many() -> None:
    x = np.tile(np.random.default_rng(1).normal(size=37), (300, 1)).astype(np.float32)
    x[:, :] *= np.resize([1, 3, 7], 300)[:, None].astype(np.float32)
    positions, cosines = nearest(x[::3], np.array([50]), 4, block_rows=33)
    assert positions.tolist() == [[0, 1, 2, 3]]
    assert cosines.tolist() == [[1.0] * 4]


def test_lengths_of_any_size_are_no_matter() -> None:
    x = np.array([[1e300, 0], [1e-300, 1e-301], [0, 1e308], [5e-324, 0]])
    assert nearest(x, np.array([0]), 9)[0].tolist() == [[3, 1, 2]]


def words_of(n: int) -> list[str]:
    return [f"w{i}" for i in range(n)]


def test_words_stand_side_by_side_and_the_sample_is_averaged() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.normal(size=(60, 5)), rng.normal(size=(60, 3))
    found = neighbors(words_of(60), before, after, ["w7", "w3", "w7"], top=12, sample=40, seed=5)
    assert [word.key for word in found.words] == ["w7", "w3", "w7"]
    one, other = brute_force(before, 3, 12)[0], brute_force(after, 3, 12)[0]
    assert [near.key for near in found.words[1].before] == [f"w{i}" for i in one]
    assert [near.key for near in found.words[1].after] == [f"w{i}" for i in other]
    assert found.words[1].overlap == len(set(one) & set(other)) / 12
    sampled = np.random.default_rng(5).choice(60, 40, replace=False)
    shares = [len({*brute_force(before, i, 10)[0]} & {*brute_force(after, i, 10)[0]}) / 10 for i in sampled]
    assert found.mean_overlap_at_10 == pytest.approx(np.mean(shares))
    assert found.n_sampled == 40
    record = to_json(found)
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {"words", "mean_overlap_at_10", "n_sampled", "overlap_error"}
    assert set(record["words"][0]) == {"key", "before", "after", "overlap"}
    assert set(record["words"][0]["before"][0]) == {"key", "cosine"}


def test_fewer_shown_than_ten_still_measures_ten() -> None:
    x = np.random.default_rng(0).normal(size=(30, 4))
    found = neighbors(words_of(30), x, 3 * x, ["w0"], top=2, seed=0)
    assert (len(found.words[0].before), found.words[0].overlap) == (2, 1.0)
    assert (found.mean_overlap_at_10, found.n_sampled) == (1.0, 30)


def test_a_row_that_becomes_zero_keeps_no_neighbour_and_one_that_is_zero_has_none_to_keep() -> None:
    x = np.random.default_rng(0).normal(size=(40, 4))
    x[:20, 0] += 20  # two clusters
    x[20:, 1] += 20
    after = x.copy()
    after[20:] = 0
    found = neighbors(words_of(40), x, after, ["w24"], seed=0)
    assert (found.words[0].after, found.words[0].overlap, found.n_sampled) == ((), 0.0, 40)
    assert found.mean_overlap_at_10 == 0.5
    found = neighbors(words_of(40), after, x, ["w24"], seed=0)
    assert (found.words[0].before, found.words[0].overlap, found.n_sampled) == ((), None, 20)


def test_a_single_row_has_no_neighbours() -> None:
    found = neighbors(["a"], np.ones((1, 2)), np.ones((1, 2)), ["a"], seed=0)
    assert (found.words[0].before, found.mean_overlap_at_10, found.n_sampled) == ((), None, 0)


def test_of_a_repeated_key_the_first_row_counts() -> None:
    x = np.array([[0, 1.0], [1, 0], [1, 0.1], [0.1, 1]])
    found = neighbors(["x", "twice", "near first", "twice"], x, x, ["twice"], top=1, seed=0)
    assert found.words[0].before[0].key == "near first"


def test_a_word_outside_the_keys_is_named() -> None:
    with pytest.raises(AlignmentError, match="1 of 2 words .*'absent'"):
        neighbors(["a", "b"], np.eye(2), np.eye(2), ["a", "absent"], seed=0)


@pytest.mark.parametrize("block_rows", [64, 600])
def test_rows_that_float32_does_not_tell_apart_are_the_nearest_all_the_same(block_rows: int) -> None:
    """Hundreds of rows within float32's rounding of each other: the largest of its products are other ones."""
    x = 1 + 3e-4 * np.random.default_rng(0).normal(size=(600, 24))
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    queries = np.arange(20)
    exact = units[queries] @ units.T
    exact[queries, queries] = -np.inf
    positions, _ = nearest(x, queries, 10, block_rows=block_rows)
    found = np.take_along_axis(exact, positions, axis=1)
    assert_allclose(found, np.sort(exact, axis=1)[:, :-11:-1], atol=2 * 10.0**-PLACES, rtol=0)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[BeforeAfter]:
    """A file of 50 rows of 4 float32 numbers, of which the first is erased."""
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    lines = [f"w{i} {' '.join(map(repr, row))}" for i, row in enumerate(x.tolist())]
    (tmp_path / "x.txt").write_text("\n".join(lines) + "\n")
    options = EvaluateOptions(neighbors=("w3", "w5"))
    erasure = Erasure(LinearEraser(np.zeros(4), np.eye(4)[:, :1], np.eye(4)[:, :1]))
    with closing(open_source(str(tmp_path / "x.txt"), options.read)) as source:
        yield BeforeAfter(source, erasure, options)


def test_the_measure_compares_all_rows_of_a_file_before_and_after(rows: BeforeAfter) -> None:
    found = NEIGHBORS.run(rows)
    assert found is not None
    assert [word.key for word in found.words] == ["w3", "w5"]
    assert found.n_sampled == 50
    assert 0 < (found.mean_overlap_at_10 or 0) < 1


def test_two_stages_of_all_rows_need_their_memory(rows: BeforeAfter, monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 rows before, float64 rows after."""
    n_bytes = 50 * (4 * 4 + 4 * 8)
    monkeypatch.setattr(memory, "available_bytes", lambda: n_bytes)
    assert NEIGHBORS.run(rows) is not None
    monkeypatch.setattr(memory, "available_bytes", lambda: n_bytes - 1)
    with pytest.raises(NotEnoughMemory, match="neighbours among 50 rows"):
        NEIGHBORS.run(rows)


def test_neighbours_that_leave_and_come_are_marked() -> None:
    near = (Neighbor("a-b", 0.5), Neighbor("gone", -0.25)), (Neighbor("a-b", 0.5), Neighbor("new", 0.25))
    (table,) = NEIGHBORS.section(Neighbors((WordNeighbors("w", *near, 0.5),), 0.5, 1)).tables
    assert table.rows[0][2:] == ("a-b 0.50, − gone −0.25", "a-b 0.50, + new 0.25")
    assert "−: leaves" in table.caption

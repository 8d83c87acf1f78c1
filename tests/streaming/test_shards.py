"""Sums over shards: each as if it were alone, then the columns that all have in common, then a tree of the shards."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.data.blocks import Block, widening
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.linalg.class_moments import ClassMoments
from salcli.linalg.class_sums import Grouping
from salcli.linalg.moments import CrossMoments, SecondMoments
from salcli.streaming.engine import LOCAL, tree_sum
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent
from salcli.streaming.sums import fold

N, D = 90, 4
GROUPED = Grouping(least_elements=30 * D)


class Small(ArrayReader):
    """Rows in memory, in partitions of four."""

    def __init__(self, x: np.ndarray, path: str) -> None:
        super().__init__(x, path)
        self.partition = 4


def source_of(x: np.ndarray, cuts: Sequence[int]) -> Source:
    return Source([Small(part, f"{i}.npy") for i, part in enumerate(np.split(x, cuts))])


def attribute(values: np.ndarray, name: str) -> Attribute:
    classes, codes = np.unique(values, return_inverse=True)
    return Attribute(name, codes.astype(np.int8), tuple(map(str, classes)))


def folded(x: np.ndarray, labels: GuardedLabels, rows: np.ndarray, cuts: Sequence[int], kind: type) -> CrossMoments:
    return fold(LabelledSource.of(source_of(x, cuts), labels, rows), kind, LOCAL, Silent(), grouping=GROUPED, joining=0)


def plain(moments: object) -> CrossMoments:
    return getattr(moments, "cross", moments)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(1, N - 1), min_size=1, max_size=4, unique=True).map(sorted),
    dtype=st.sampled_from([np.float32, np.float64]),
    kind=st.sampled_from([CrossMoments, SecondMoments, ClassMoments]),
    seed=st.integers(0, 99),
    is_sorted=st.booleans(),
)
def test_shards_are_added_up_as_if_each_were_alone(
    cuts: list[int], dtype: type, kind: type, seed: int, is_sorted: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(N, D)) + 5).astype(dtype)
    letters = np.array(list("abcde"))[rng.integers(0, 5, N)]
    letters = np.sort(letters) if is_sorted else letters  # sorted: shards lack classes
    rows = rng.permutation(N)[: N - 7]
    attributes = [attribute(letters[rows], "g")]
    if kind is not ClassMoments:
        attributes.append(Attribute("age", rng.normal(size=len(rows)) * 9 + 1e6 + rows, None))
    labels = GuardedLabels("y.csv", tuple(attributes), None)
    found = folded(x, labels, rows, cuts, kind)

    edges, alone, blocks = [0, *cuts, N], [], []
    for start, stop in itertools.pairwise(edges):
        chosen = np.flatnonzero((rows >= start) & (rows < stop))
        if len(chosen):
            chosen = chosen[np.argsort(rows[chosen])]
            part = labels.restricted_to(chosen)
            alone.append(folded(x[start:stop], part, rows[chosen] - start, [], kind))
            blocks.append([Block.of(each) for each in part.attributes])
    total = blocks[0]
    for block in blocks[1:]:
        total = [one + other for one, other in zip(total, block, strict=True)]
    maps = [widening(block, total, is_centred=True) for block in blocks]
    wide = [m if at is None else m.relabelled(at) for m, at in zip(alone, maps, strict=True)]
    assert tree_sum(wide, kind.zero(D, labels.n_columns)).to_bytes() == found.to_bytes()

    z = labels.standardized(is_centred=True).design(np.arange(len(rows)))
    y, cross = x[rows].astype(np.float64), plain(found)
    np.testing.assert_allclose(cross.mean_x, y.mean(0), rtol=1e-5)
    np.testing.assert_allclose(cross.mean_z, z.mean(0), atol=1e-7)
    np.testing.assert_allclose(cross.comoment, (y - y.mean(0)).T @ (z - z.mean(0)), atol=1e-3)
    if kind is ClassMoments:
        for code, scatter in enumerate(found.scatters):
            of_class = y[labels.attributes[0].values == code]
            np.testing.assert_allclose(
                scatter, (of_class - of_class.mean(0)).T @ (of_class - of_class.mean(0)), atol=1e-3
            )


def test_one_shard_in_doubt_is_added_up_once_more_with_all_others() -> None:
    rng = np.random.default_rng(1)
    codes = np.arange(N) % 2
    x = rng.normal(size=(N, D)).astype(np.float32) + np.float32(3e4)
    labels = GuardedLabels("y.csv", (attribute(codes, "g"),), None)
    found = folded(x, labels, np.arange(N), [40], CrossMoments)
    assert found.most_grouped == 0


def test_the_statistics_of_no_row_are_zero() -> None:
    labels = GuardedLabels("y.csv", (attribute(np.array(["a", "b"]), "g"),), None).restricted_to(np.zeros(0, np.int64))
    found = folded(np.ones((N, D)), labels, np.zeros(0, np.int64), [40], CrossMoments)
    assert (found.n, found.comoment.shape) == (0, (D, 0))


def test_a_source_of_one_shard_counts_its_rows() -> None:
    x = np.arange(N * D, dtype=np.float64).reshape(N, D)
    x[50, 1] = np.nan
    with pytest.warns(UserWarning, match="1 rows with NaN"):
        source = Source([Small(x[:40], "a"), Small(x[40:], "b")], allow_nonfinite=True)
    parts = [source.of_shard(shard) for shard in source.shards]
    assert [(part.path, part.n_all, part.n, part.n_dropped) for part in parts] == [("a", 40, 40, 0), ("b", 50, 49, 1)]

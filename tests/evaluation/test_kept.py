"""What is kept of labelled rows and of others, and the votes of neighbours, against brute force."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit
from salcli.evaluation import kept
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.kept import KEPT, Kept, KeptRows, Vote, compared, drawn_rows, vote, votes_on
from salcli.evaluation.stages import Erasure, Stages
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions

Array = NDArray[Any]
N, D, N_LABELLED = 90, 6, 40


def unit(x: Array) -> Array:
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(lengths > 0, lengths, 1)


def near(x: Array, row: int, count: int) -> list[int]:
    cosines = np.round(unit(x.astype(float)) @ unit(x.astype(float))[row], 10)
    return sorted((i for i in range(len(x)) if i != row), key=lambda i: (-cosines[i], i))[:count]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Source, Source, Array, Array]]:
    """A file whose first rows are labelled, and one in which only those are changed."""
    rng = np.random.default_rng(0)
    before = rng.normal(size=(N, D))
    after = before.copy()
    after[:N_LABELLED] += rng.normal(size=(N_LABELLED, D))
    for name, x in (("x", before), ("y", after)):
        np.save(tmp_path / f"{name}.npy", x)
    with closing(open_source(str(tmp_path / "x.npy"))) as one, closing(open_source(str(tmp_path / "y.npy"))) as other:
        yield one, other, before, after


def rows_of(
    files: tuple[Source, Source, Array, Array], labels: GuardedLabels | None = None, **more: Any
) -> BeforeAfter:
    source, against, before, after = files
    codes = (np.arange(N_LABELLED) % 2).astype(np.int32)
    labels = labels or GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")),), None)
    index = np.arange(N_LABELLED)
    split = EvaluationSplit.of(
        index[:20], {"in-sample": index[:20], "fresh": index[20:30]}, index[30:], has_held_out=True
    )
    stages = Stages(index, before[:N_LABELLED], before[:N_LABELLED], after[:N_LABELLED], is_foreign=True)
    labelled = Labelled(labels, split, stages, index)
    return BeforeAfter(source, Erasure(against=against), EvaluateOptions(**more), labelled)


def test_labelled_rows_and_others_are_compared_apart(files: tuple[Source, Source, Array, Array]) -> None:
    _, _, before, after = files
    found, n_among = compared(rows_of(files))
    overlaps = np.array([len({*near(before, i, 10)} & {*near(after, i, 10)}) / 10 for i in range(N)])
    cosines = np.sum(unit(before) * unit(after), axis=1)
    parts = {"all": slice(None), "labelled": slice(N_LABELLED), "others": slice(N_LABELLED, None)}
    assert [each.rows for each in found] == list(parts)
    for each in found:
        at = parts[each.rows]
        assert each.n == each.n_sampled == len(overlaps[at])
        assert each.overlap_at_10 == pytest.approx(np.mean(overlaps[at]))
        assert each.mean_cosine == pytest.approx(np.mean(cosines[at]))
    assert n_among == N
    errors = [np.std(overlaps[parts[name]], ddof=1) / np.sqrt(len(overlaps[parts[name]])) for name in list(parts)[1:]]
    assert [each.overlap_error for each in found[1:]] == pytest.approx(errors)
    expected = np.hypot(errors[0] * N_LABELLED / N, errors[1] * (1 - N_LABELLED / N))
    assert found[0].overlap_error == pytest.approx(expected)
    assert (found[2].mean_cosine, found[1].mean_cosine) == (1.0, pytest.approx(np.mean(cosines[:N_LABELLED])))


def test_rows_of_a_band_and_rows_without_a_label_are_others(files: tuple[Source, Source, Array, Array]) -> None:
    codes = (np.arange(N_LABELLED) % 2).astype(np.int32)
    codes[:3] = -1
    parts = ("train",) * 20 + ("dev",) * 10 + ("band1",) * 10
    labels = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")),), None, parts, "split")
    found, _ = compared(rows_of(files, labels))
    assert {each.rows: each.n for each in found} == {"all": N, "labelled": 27, "others": N - 27}


def test_of_a_large_file_a_sample_is_compared(
    files: tuple[Source, Source, Array, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "SAMPLE", 10)
    monkeypatch.setattr(kept, "MOST_ROWS", 50)
    monkeypatch.setattr(kept, "MOST_ELEMENTS", 1)
    found, n_among = compared(rows_of(files))
    assert [each.n_sampled for each in found] == [20, 10, 10]
    assert 40 <= n_among < N
    assert (found, n_among) == compared(rows_of(files))
    assert found != compared(rows_of(files, seed=1))[0]


def test_rows_of_a_very_large_file_come_from_few_blocks_of_it() -> None:
    n = 10**9 + 7
    rows = drawn_rows(n, 1000, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 1000
    assert len(set((rows // kept.ROWS_OF_BLOCK).tolist())) <= kept.MOST_BLOCKS
    assert 0 <= rows.min() < n / 4 < 3 * n / 4 < rows.max() < n
    assert sorted(drawn_rows(5, 9, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3, 4]


@given(st.integers(0, 999), st.integers(2, 30), st.integers(2, 4))
def test_the_nearest_voters_decide_and_of_equal_counts_the_nearest_one(seed: int, n: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (n + 5, 3)).astype("f4")  # ties, copies and zeros
    codes, voters = rng.integers(0, n_classes, n + 5), np.sort(rng.permutation(n + 5)[:n])
    at = np.arange(n + 5)
    found = vote(x, at, voters, codes)
    cosines = np.round(unit(x.astype(float)) @ unit(x.astype(float)).T, 10)
    for row in at:
        nearest = sorted((v for v in voters if v != row), key=lambda v: (-cosines[row, v], v))[:10]
        votes = [int(codes[v]) for v in nearest]
        assert found[row] == max(dict.fromkeys(votes), key=votes.count)


def test_votes_are_of_all_rows_that_train_on_the_test_rows(files: tuple[Source, Source, Array, Array]) -> None:
    rows = rows_of(files)
    codes = np.arange(N_LABELLED) % 2
    for of, x in zip(votes_on(rows, rows.labels.attributes[0]), files[2:], strict=True):
        right = []
        for row in range(30, N_LABELLED):
            cosines = unit(x)[:30] @ unit(x)[row]
            votes = [codes[v] for v in sorted(range(30), key=lambda v: -cosines[v])[:10]]
            right.append(max(dict.fromkeys(votes), key=votes.count) == codes[row])
        assert of.accuracy == of.balanced_accuracy == pytest.approx(np.mean(right))  # five of each class
        assert (of.n_train, of.n_test, of.majority) == (30, 10, 0.5)
        assert of.ci95[0] < of.accuracy < of.ci95[1]


def test_a_class_that_neighbours_show_is_read_from_them() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(100) % 3
    x = rng.normal(size=(100, 4)) + 5 * np.eye(4)[codes]
    assert np.mean(vote(x, np.arange(50, 100), np.arange(50), codes) == codes[50:]) > 0.95


def test_nothing_is_measured_where_it_is_not_asked_for_or_nothing_is_written(
    files: tuple[Source, Source, Array, Array],
) -> None:
    assert KEPT.run(rows_of(files, kept=False)) is None
    rows = rows_of(files)
    assert rows.labelled is not None
    alone = replace(rows, erasure=Erasure(), labelled=replace(rows.labelled, stages=replace(rows.stages, after=None)))
    found = KEPT.run(alone)
    assert found is not None
    assert found.rows == ()
    assert [each.stage for each in found.votes] == ["before"]


def test_the_section_has_a_table_of_rows_and_one_of_votes() -> None:
    votes = tuple(Vote("g", stage, 0.7, (0.6, 0.8), 0.65, (0.5, 0.8), 0.5, 90, 50) for stage in ("before", "after"))
    rows = (KeptRows("all", 9000, 1000, 0.8, 0.01, 0.9), KeptRows("labelled", 900, 500, 0.5, 0.02, 0.7))
    shown = KEPT.section(Kept(rows, 9000, votes))
    kept_table, vote_table = shown.tables
    assert kept_table.rows[1] == ("labelled", "0.500", "0.020", "0.700", "500", "900")
    assert vote_table.rows == (
        ("g", "0.700", "0.700", "0.600–0.800", "0.500", "0.650", "0.650", "0.500–0.800", "90", "50"),
    )
    assert "80.0% of all, 50.0% of labelled" in shown.paragraphs[0]
    assert set(to_json(rows[0])) == {"rows", "n", "n_sampled", "overlap_at_10", "overlap_error", "mean_cosine"}

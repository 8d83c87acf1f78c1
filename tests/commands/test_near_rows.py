"""Rows next to the labelled ones: against a plain ranking of all rows, and through the real command."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.commands.near_rows import with_bands
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import SplitRule
from salcli.errors import LabelError, UsageError
from salcli.formats.registry import open_source
from salcli.options import ReadOptions
from salcli.streaming.progress import Silent

RULE = SplitRule(fit_split="train")


def a_file(folder: Path, seed: int, n: int = 60, d: int = 5) -> tuple[str, np.ndarray, list[str]]:
    x = np.random.default_rng(seed).normal(size=(n, d))
    keys = [f"w{i}" for i in range(n)]
    np.savez(folder / "x.npz", vectors=x, keys=np.array(keys))
    return str(folder / "x.npz"), x, keys


def a_table(keys: list[str], rows: np.ndarray, codes: np.ndarray) -> GuardedLabels:
    parts = tuple(("train", "test")[i % 2] for i in range(len(rows)))
    attribute = Attribute("g", codes.astype(np.int8), ("f", "m"))
    return GuardedLabels("y.csv", (attribute,), tuple(keys[row] for row in rows), parts, "split", "word")


@given(seed=st.integers(0, 200), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_bands_are_the_next_rows_at_each_end_of_all_rows_without_a_label(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int]
) -> None:
    path, x, keys = a_file(tmp_path_factory.mktemp("b"), seed)
    rows = np.random.default_rng(seed + 1).permutation(60)[:20]
    codes = np.arange(20) % 2
    table = a_table(keys, rows, codes)
    with open_source(path, ReadOptions(batch_rows=7)) as source:
        found = with_bands(table, source, RULE, tuple(sizes), Silent())
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    direction = unit[rows[codes == 1]].mean(0) - unit[rows[codes == 0]].mean(0)
    free = [row for row in np.argsort(unit @ direction) if row not in set(rows.tolist())]
    most = sum(sizes)
    lowest, highest = free[:most], free[::-1][:most]
    assert found.keys is not None
    assert found.splits is not None
    assert found.keys[:20] == table.keys
    assert list(found.keys[20:]) == [keys[row] for row in (*lowest, *highest)]
    assert found.attributes[0].values[20:].tolist() == [0] * most + [1] * most
    parts = [f"band{i}" for i, size in enumerate(sizes, start=1) for _ in range(size)]
    assert list(found.splits[20:]) == parts * 2


def test_labels_that_leave_no_ends_are_refused(tmp_path: Path) -> None:
    path, _, keys = a_file(tmp_path, 0)
    table = a_table(keys, np.arange(20), np.arange(20) % 2)
    with open_source(path, ReadOptions()) as source:
        with pytest.raises(LabelError, match=r"too few rows without a label for `bands=21`: expected 42"):
            with_bands(table, source, RULE, (21,), Silent())
        with pytest.raises(UsageError, match="a split column that the fit went by"):
            with_bands(table, source, SplitRule(), (1,), Silent())
        three = Attribute("g", np.arange(20) % 3, ("a", "b", "c"))
        for other, message in (
            (GuardedLabels("y.csv", table.attributes, None), "with keys and a split column"),
            (GuardedLabels("y.csv", (three,), table.keys, table.splits, "split"), "one attribute with two classes"),
            (
                GuardedLabels("y.csv", table.attributes, table.keys, ("band1", *(table.splits or ())[1:]), "split"),
                "has bands of its own in 'split'",
            ),
        ):
            with pytest.raises(UsageError, match=message):
                with_bands(other, source, RULE, (1,), Silent())

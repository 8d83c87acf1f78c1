"""Sums that do not depend on how a file is read: any batch size, any format that holds the same numbers."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salcli.data.labels import Attribute, GuardedLabels
from salcli.errors import FormatError
from salcli.formats.registry import open_source
from salcli.linalg.class_sums import Grouping
from salcli.linalg.moments import CrossMoments
from salcli.options import ReadOptions
from salcli.streaming.engine import LOCAL
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent
from salcli.streaming.sums import fold

from ..cli.helpers import write_embeddings

N, D = 157, 5
ALL = Grouping(least_elements=0)
NAMES = ("x.npy", "x.npz", "x.h5", "x.txt", "x.glove.txt", "x.bin", "x.txt.gz", "x.bin.gz")


def labels(rng: np.random.Generator, n: int) -> GuardedLabels:
    classes = Attribute("g", rng.integers(0, 3, n).astype(np.int32), ("a", "b", "c"))
    return GuardedLabels("generated", (classes, Attribute("age", rng.normal(size=n) * 9 + 40, None)), None)


def small(batch_rows: int | None = None) -> ReadOptions:
    """Read with partitions of 32 rows, so that little files have many."""
    return ReadOptions(batch_rows=batch_rows, partition_elements=33 * D)


def folded(
    path: Path, given: GuardedLabels, rows: np.ndarray, batch_rows: int | None, **arguments: Any
) -> CrossMoments:
    with closing(open_source(str(path), small(batch_rows))) as source:
        return fold(LabelledSource.of(source, given, rows), CrossMoments, LOCAL, Silent(), **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, np.float32) for name in NAMES] + [(name, np.float64) for name in ("x.npy", "x.npz", "x.h5")],
)
@pytest.mark.parametrize("labelled", ["all", "some"])
def test_a_fold_gives_the_same_bits_for_any_batch_size_and_format(
    tmp_path: Path, name: str, dtype: type[np.floating], labelled: str
) -> None:
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(N, D)) + 1000).astype(dtype)
    rows = np.arange(N) if labelled == "all" else rng.permutation(N)[:70]
    given = labels(rng, len(rows))
    keys = [b"w%d" % i for i in range(N)]
    first = folded(write_embeddings(tmp_path / "first.npy", x, keys), given, rows, None)
    path = write_embeddings(tmp_path / name, x, keys)
    for batch_rows in (None, 1, 7, 32, 50, 1000):
        found = folded(path, given, rows, batch_rows)
        for part in ("mean_x", "mean_z", "comoment"):
            assert np.array_equal(getattr(found, part), getattr(first, part)), (part, batch_rows)
    z = given.standardized(is_centred=True).design(np.arange(len(rows)))
    plain = x[rows].astype(np.float64)
    np.testing.assert_allclose(first.mean_x, plain.mean(0), rtol=1e-13)
    np.testing.assert_allclose(first.comoment, (plain - plain.mean(0)).T @ (z - z.mean(0)), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 7])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labelled", ["all", "some"])
def test_sums_by_groups_are_the_same_bits_for_any_batch_size_and_right_in_any_format(
    tmp_path: Path, name: str, labelled: str, n_classes: int
) -> None:
    grouping = Grouping(least_elements=0, block_elements=64 * D, measured=1, partitions=4)
    rng, n = np.random.default_rng(6), 700
    rows = np.arange(n) if labelled == "all" else rng.permutation(n)[:500]
    codes = rng.integers(0, n_classes, n)
    x = (rng.normal(size=(n, D)) + 3 * rng.normal(size=(n_classes, D))[codes]).astype(np.float32)
    given = one_hot(codes[rows], n_classes)
    keys = [b"w%d" % i for i in range(n)]
    path = write_embeddings(tmp_path / name, x, keys)
    first = folded(path, given, rows, None, grouping=grouping)
    assert first.most_grouped > 0
    for batch_rows in (None, 1, 7, 32, 50, 1000):
        found = folded(path, given, rows, batch_rows, grouping=grouping)
        for part in ("mean_x", "mean_z", "comoment", "root_x"):
            assert np.array_equal(getattr(found, part), getattr(first, part)), (part, batch_rows)
    z, plain = given.design(np.arange(len(rows))), x[rows].astype(np.float64)
    np.testing.assert_allclose(first.mean_x, plain.mean(0), atol=1e-6)
    np.testing.assert_allclose(first.comoment, (plain - plain.mean(0)).T @ (z - z.mean(0)), atol=1e-3)
    assert first.root_x == pytest.approx(np.linalg.norm(plain - plain.mean(0)), rel=1e-6)


def one_hot(codes: np.ndarray, n_classes: int) -> GuardedLabels:
    classes = tuple(f"{i}" for i in range(n_classes))
    return GuardedLabels("generated", (Attribute("g", codes.astype(np.int8), classes),), None)


@pytest.mark.parametrize("fault", ["a large mean", "labels that carry nothing", "sums past float32"])
def test_what_groups_leave_in_doubt_is_added_up_once_more_in_float64(tmp_path: Path, fault: str) -> None:
    rng, n = np.random.default_rng(7), 6400
    x, codes = rng.normal(size=(n, D)).astype(np.float32), rng.permutation(n) % 2
    if fault == "a large mean":
        x += np.float32(5e4)
    elif fault == "sums past float32":
        x = (np.sign(x) * 2.0**127).astype(np.float32)
    else:
        x[codes == 1] = x[codes == 0]
    path = write_embeddings(tmp_path / "x.npy", x, [])
    plain = folded(path, one_hot(codes, 2), np.arange(n), None)
    assert plain.most_grouped == 0
    found = folded(path, one_hot(codes, 2), np.arange(n), None, grouping=ALL)
    for part in ("n", "mean_x", "mean_z", "comoment", "root_x", "most_grouped"):
        assert np.array_equal(getattr(found, part), getattr(plain, part)), part


def test_float64_is_never_added_up_in_float32(tmp_path: Path) -> None:
    x = np.random.default_rng(9).normal(size=(900, D))
    codes = np.arange(900) % 3
    for dtype, wanted in ((np.float64, 0), (">f4", 0), (np.float16, 0), (np.float32, 43)):  # every third of 128 rows
        np.save(tmp_path / "x.npy", x.astype(dtype))
        found = folded(tmp_path / "x.npy", one_hot(codes, 3), np.arange(900), None, grouping=ALL)
        assert found.most_grouped == wanted


def test_not_a_number_in_a_row_that_is_not_fitted_is_refused_too(tmp_path: Path) -> None:
    x = np.random.default_rng(8).normal(size=(N, D)).astype(np.float32)
    x[77, 3] = np.nan
    path, rows = write_embeddings(tmp_path / "x.npy", x, []), np.delete(np.arange(N), [3, 77])
    with pytest.raises(FormatError, match="row 77: nan"):
        folded(path, one_hot(np.arange(N - 2) % 2, 2), rows, None)


def test_not_a_number_is_named_where_rows_are_added_up_by_groups(tmp_path: Path) -> None:
    x = np.random.default_rng(8).normal(size=(3000, D)).astype(np.float32)
    x[2222, 3] = np.nan
    with pytest.raises(FormatError, match="row 2222: nan"):
        folded(
            write_embeddings(tmp_path / "x.npy", x, []),
            one_hot(np.arange(3000) % 2, 2),
            np.arange(3000),
            None,
            grouping=ALL,
        )


@pytest.mark.parametrize("joining", [0, 1, 8, 1000])
def test_groups_of_several_partitions_fold_to_the_plain_sums(tmp_path: Path, joining: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(N, D))
    given = labels(rng, N)
    np.save(tmp_path / "x.npy", x)
    found = folded(tmp_path / "x.npy", given, np.arange(N), None, joining=joining)
    z = given.standardized(is_centred=True).design(np.arange(N))
    np.testing.assert_allclose(found.comoment, (x - x.mean(0)).T @ (z - z.mean(0)), atol=1e-11)


def test_chunks_end_at_partitions_whatever_their_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    for name in NAMES:
        path = write_embeddings(tmp_path / name, x, [b"w%d" % i for i in range(N)])
        for batch_rows in (None, 1, 7, 32, 50, 1000):
            with closing(open_source(str(path), small(batch_rows))) as source:
                chunks = list(source.chunks())
            assert source.partition == 32
            assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
            assert chunks[-1].stop == N
            assert all(chunk.partition() == (0, (chunk.stop - 1) // 32) for chunk in chunks), (name, batch_rows)
            assert all(chunk.n_rows <= (batch_rows or N) for chunk in chunks)

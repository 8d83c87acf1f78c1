"""Rows through an eraser into a file: the same ones however they are read, and what the system may forget meanwhile."""

import itertools
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli import options
from salcli.commands.apply import apply, stream_through
from salcli.commands.fit import fit
from salcli.erasers.linear import LinearEraser
from salcli.errors import FormatError
from salcli.formats.files import ByteFile
from salcli.formats.registry import create, open_source
from salcli.options import ApplyOptions, FitOptions, ReadOptions
from salcli.streaming.progress import Silent

from ..cli.helpers import read_embeddings, write_embeddings

N, D = 157, 5


@pytest.fixture(autouse=True)
def _small_units() -> Iterator[None]:
    """Make a unit 32 rows and a block 6, so that little files have many."""
    with mock.patch.object(options, "UNIT_ELEMENTS", 33 * D), mock.patch.object(options, "BLOCK_ELEMENTS", 6 * D):
        yield


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*itertools.product(["x.npy", "x.npz", "x.h5"], [np.float16, np.float32, np.float64]), ("x.bin", np.float32)],
)
def test_rows_changed_in_the_memory_they_were_read_into_are_those_changed_at_once(
    tmp_path: Path, name: str, dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(N, D)) + 10).astype(dtype)
    u = np.linalg.qr(rng.normal(size=(D, 2)))[0]
    eraser = LinearEraser(rng.normal(size=D), u, u)
    path = write_embeddings(tmp_path / name, x, [b"w%d" % i for i in range(N)])
    for batch_rows in (None, 7):
        with (
            closing(open_source(str(path), ReadOptions(batch_rows=batch_rows))) as source,
            create(str(tmp_path / "o.npy"), source, d=D, dtype=x.dtype, format_name="npy") as writer,
        ):
            n = stream_through(source, writer, lambda rows, out: eraser(rows, out=out), Silent(), at_once=8)
        assert n == N
        assert_array_equal(np.load(tmp_path / "o.npy"), eraser(x))
    assert_array_equal(read_embeddings(path, D)[1], x)


def forgotten(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch, *, is_replaced: bool) -> list[range]:
    """Send a file's rows through an eraser, and tell which of its bytes the system was told to forget."""
    told: list[range] = []

    def advised(handle: int, offset: int, size: int, advice: int) -> None:
        assert os.path.samestat(os.fstat(handle), path.stat())
        assert advice == os.POSIX_FADV_DONTNEED
        told.append(range(offset, offset + size))

    monkeypatch.setattr(os, "posix_fadvise", advised, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    u = np.eye(D)[:, :1]
    eraser = LinearEraser(np.zeros(D), u, u)
    with (
        suppress(FormatError),
        closing(open_source(str(path), ReadOptions(batch_rows=16))) as source,
        create(str(target), source, d=D, dtype=source.dtype, format_name="npy") as writer,
    ):
        stream_through(source, writer, lambda x, out: eraser(x, out=out), Silent(), at_once=8, is_replaced=is_replaced)
    return sorted(told, key=lambda one: one.start)


def test_what_a_file_has_in_the_cache_is_forgotten_once_if_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    path, target = write_embeddings(tmp_path / "x.npy", x, []), tmp_path / "o.npy"
    assert not forgotten(path, target, monkeypatch, is_replaced=False)
    size = path.stat().st_size
    told = list(itertools.chain.from_iterable(forgotten(path, target, monkeypatch, is_replaced=True)))
    assert told == list(range(size - x.nbytes, size))
    assert_array_equal(np.load(path), x)


def test_only_apply_in_place_lets_the_cache_forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    path, labels = write_embeddings(tmp_path / "x.npy", x, []), tmp_path / "g.csv"
    labels.write_text("g\n" + "".join("ab"[int(row[0] > 0)] + "\n" for row in x), "utf-8")
    eraser = str(tmp_path / "e.npz")
    fit(str(path), str(labels), eraser, FitOptions())
    told: list[int] = []
    monkeypatch.setattr(ByteFile, "forget", lambda _, offset, size: told.append(size))
    apply(eraser, str(path), str(tmp_path / "o.npy"), ApplyOptions())
    assert not told
    apply(eraser, str(path), None, ApplyOptions(in_place=True))
    assert sum(told) == x.nbytes
    assert path.read_bytes() == (tmp_path / "o.npy").read_bytes()


def test_rows_that_were_refused_are_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((N, D), np.float32)
    x[5] = np.nan
    path, target = write_embeddings(tmp_path / "x.npy", x, []), tmp_path / "o.npy"
    told = forgotten(path, target, monkeypatch, is_replaced=True)
    assert not target.exists()
    first_slab_ends = path.stat().st_size - x[16:].nbytes
    assert all(place.start >= first_slab_ends for place in told)

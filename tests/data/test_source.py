"""Sources, shards and chunks: rows numbered through all files, and read anywhere from a description."""

import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.data.source import Chunk, Reader, Source
from salcli.errors import FormatError, SalcliWarning
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

from ..cli.helpers import write_embeddings

N, D = 23, 4
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
KEYS = [b"w%d" % i for i in range(N)]
NAMES = ("x.npy", "x.npz", "x.h5", "x.txt", "x.glove.txt", "x.bin", "x.npy.gz", "x.h5.gz", "x.txt.gz", "x.bin.gz")


def small(**arguments: Any) -> ReadOptions:
    """Read with partitions of 8 rows."""
    return ReadOptions(partition_elements=8 * D, **arguments)


def reader_of(path: Path) -> Reader:
    return open_source(str(path), small()).shards[0].reader


def written(path: Path) -> Path:
    """Write the matrix, compressed if the name says so."""
    plain = write_embeddings(path.with_name(path.name.removesuffix(".gz")), X, KEYS)
    if path.suffix == ".gz":
        import gzip

        path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_chunk_that_was_pickled_is_read_to_the_same_rows(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name)
    with closing(open_source(str(path), small(batch_rows=5))) as source:
        chunks = list(source.chunks())
        sent = [pickle.dumps(chunk) for chunk in chunks]
        restored: list[Chunk] = [pickle.loads(data) for data in sent]
        assert len({id(chunk.shard) for chunk in restored}) == 1
        assert restored[0].shard is not source.shards[0]
        with closing(restored[0].shard.reader):
            for chunk, other in zip(chunks, restored, strict=True):
                batch, found = chunk.read(), other.read()
                assert_array_equal(found.vectors, batch.vectors)
                assert_array_equal(found.rows, batch.rows)
                assert found.keys == batch.keys
        assert all(b"w17" not in data and len(data) < 2000 for data in sent), "rows or keys are sent along"


READ_ELSEWHERE = """
import pickle, sys
chunks = pickle.load(sys.stdin.buffer)
pickle.dump([(b.vectors, b.rows, b.keys) for b in (chunk.read() for chunk in reversed(chunks))], sys.stdout.buffer)
"""


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.txt.gz", "x.bin"])
def test_another_process_reads_the_same_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / "keys.txt").write_bytes(b"\n".join(KEYS))
    keys_file = str(tmp_path / "keys.txt") if name == "x.npy" else None
    with closing(open_source(str(written(tmp_path / name)), small(batch_rows=7, keys_file=keys_file))) as source:
        chunks = list(source.chunks())
        command = [sys.executable, "-c", READ_ELSEWHERE]
        done = subprocess.run(command, input=pickle.dumps(chunks), capture_output=True, check=True)
        for chunk, (vectors, rows, keys) in zip(reversed(chunks), pickle.loads(done.stdout), strict=True):
            batch = chunk.read()
            assert_array_equal(vectors, batch.vectors)
            assert_array_equal(rows, batch.rows)
            assert keys == batch.keys == tuple(key.decode() for key in KEYS[chunk.start : chunk.stop])


def test_what_came_through_a_pipe_is_not_sent_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written(tmp_path / "x.txt").open("rb") as handle:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": handle}))
        with closing(open_source("-", small())) as source, pytest.raises(FormatError, match="came through a pipe"):
            pickle.dumps(next(source.chunks()))


@pytest.mark.parametrize("names", [("a.npz", "b.txt"), ("a.h5", "b.bin"), ("a.txt", "b.h5")])
@pytest.mark.parametrize("rows", [None, 3])
def test_rows_of_two_shards_are_numbered_through(tmp_path: Path, names: tuple[str, str], rows: int | None) -> None:
    cut = 10
    paths = [
        write_embeddings(tmp_path / name, X[part], KEYS[part])
        for name, part in zip(names, (slice(cut), slice(cut, N)), strict=True)
    ]
    with closing(Source([reader_of(path) for path in paths])) as source:
        assert (source.n, source.d, source.n_all, source.has_keys) == (N, D, N, True)
        chunks = list(source.chunks())
        assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
        batches = [chunk.read() for chunk in chunks] if rows is None else []
        for chunk in chunks if rows else ():
            batches += [b.with_vectors(b.vectors.copy()) for b in chunk.batches(rows)]
        assert_array_equal(np.concatenate([batch.vectors for batch in batches]), X)
        assert_array_equal(np.concatenate([batch.rows for batch in batches]), np.arange(N))
        keys = [key.encode() for batch in batches for key in batch.keys or ()]
        assert keys == [key.encode() for some in source.key_batches() for key in some] == KEYS
        assert len({chunk.partition() for chunk in chunks}) == 2 + 2  # of 10 and 13 rows, by 8
        assert source.place(cut) == f"{source.shards[1].reader.place(0)} of {paths[1]}"
        assert len(source.digest("blake3")) == 64
    restored = pickle.loads(pickle.dumps(chunks[-1]))
    with closing(restored.shard.reader):
        assert_array_equal(restored.read().rows, np.arange(chunks[-1].start, N))


def test_rows_that_are_dropped_keep_the_numbers_of_all_shards(tmp_path: Path) -> None:
    x = X.copy()
    x[[3, 15]] = np.nan
    paths = [write_embeddings(tmp_path / name, part, []) for name, part in (("a.npy", x[:10]), ("b.npy", x[10:]))]
    with pytest.warns(SalcliWarning, match="2 rows with NaN or Inf are dropped, the first at row 3 of .*a.npy"):
        source = Source([reader_of(path) for path in paths], allow_nonfinite=True)
    with closing(source):
        kept = np.delete(np.arange(N), [3, 15])
        assert_array_equal(source.dropped, [3, 15])
        assert_array_equal(source.kept_rows(), kept)
        assert (source.n, source.n_dropped, source.n_all) == (N - 2, 2, N)
        assert_array_equal(np.concatenate([chunk.read().rows for chunk in source.chunks()]), kept)
        chunk = pickle.loads(pickle.dumps(list(source.chunks())[-1]))
    with closing(chunk.shard.reader):
        assert 15 not in chunk.read().rows


def test_a_row_that_is_not_finite_is_named_by_its_own_file(tmp_path: Path) -> None:
    x = X.copy()
    x[15, 2] = np.inf
    paths = [write_embeddings(tmp_path / name, part, []) for name, part in (("a.npy", x[:10]), ("b.npy", x[10:]))]
    with closing(Source([reader_of(path) for path in paths])) as source:
        with pytest.raises(FormatError, match=r"b\.npy: row 5: inf, expected finite"):
            [chunk.read() for chunk in source.chunks()]
        for chunk in source.chunks():  # a pass that looks by itself
            for batch in chunk.batches(4, is_checked=False):
                assert len(batch)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (write_embeddings, "keys True, but"),
        (lambda path, x, keys: write_embeddings(path, x[:, :2], keys), "dimensions 2, but"),
        (lambda path, x, keys: write_embeddings(path, x.astype(np.float64), keys), "dtype float64, but"),
    ],
)
def test_shards_that_differ_are_refused(tmp_path: Path, other: Any, says: str) -> None:
    first = reader_of(write_embeddings(tmp_path / "a.npy", X, []))
    second = reader_of(other(tmp_path / "b.h5", X, KEYS))
    with closing(first), closing(second), pytest.raises(FormatError, match=f"b.h5: {says}"):
        Source([first, second])


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.txt", "x.bin"])
def test_batches_are_read_into_memory_of_the_caller(tmp_path: Path, name: str) -> None:
    with closing(open_source(str(written(tmp_path / name)), small())) as source:
        memory, at = np.empty((3, D), source.dtype), 0
        for chunk in source.chunks():
            for batch in chunk.batches(3, out=memory):
                assert np.shares_memory(batch.vectors, memory)
                assert_array_equal(memory[: len(batch)], X[at : at + len(batch)])
                at += len(batch)
        assert at == N


@pytest.mark.parametrize("name", ["x.txt", "x.bin", "x.bin.gz"])
def test_rows_are_read_from_any_place(tmp_path: Path, name: str) -> None:
    with closing(open_source(str(written(tmp_path / name)), small(batch_rows=5))) as source:
        for start, stop in ((20, 23), (3, 17), (0, 1), (4, 6)):  # the first of them before any pass over the file
            batch = Chunk(source.shards[0], start, stop).read()
            assert_array_equal(batch.vectors, X[start:stop])
            assert_array_equal(batch.rows, np.arange(start, stop))
            assert [key.encode() for key in batch.keys or ()] == KEYS[start:stop]

"""What is transferred from a store: each byte of the embeddings once a pass, their hash included."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from salcli.commands.fit import fit
from salcli.commands.moments import moments
from salcli.erasers.sal import SALParameters
from salcli.options import FitOptions, MomentsOptions, ReadOptions

fsspec = pytest.importorskip("fsspec")
N, D = 3000, 200
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
HEADS = 10 * (64 << 10)  # beginnings, by which formats are known, and footers
READ = ReadOptions(partition_elements=128 * D, batch_rows=32)  # 24 partitions, in which threads read at the same time


class Counted:
    """A store in memory, and how many bytes are read from it."""

    def __init__(self, files: Any) -> None:
        self.files, self.n_bytes = files, 0

    def size(self, name: str) -> int:
        return int(self.files.size(name))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X)
    table = {"text": [f"{i} " * 100 for i in range(N)], "emb": list(X), "more": np.random.default_rng(1).random(N)}
    pq.write_table(
        pa.table(table), tmp_path / "x.parquet", row_group_size=300, compression="none", use_dictionary=False
    )
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (N // 2), "ascii")
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for path in tmp_path.iterdir():
        memory.put_file(str(path), f"/{path.name}")
    found, whole = Counted(memory), type(memory).cat_file

    def cat_file(self: Any, path: str, start: int | None = None, end: int | None = None) -> bytes:
        data = bytes(whole(self, path, start=start, end=end))
        found.n_bytes += len(data)
        return data

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    yield found
    memory.store.clear()


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_fit_and_its_hash_read_each_byte_once(tmp_path: Path, store: Counted, name: str) -> None:
    labels, found = str(tmp_path / "y.csv"), dict[str, bytes]()
    for folder in (f"{tmp_path}/", "memory://"):
        fit(folder + name, labels, str(tmp_path / "e.npz"), FitOptions(read=READ))
        found[folder] = (tmp_path / "e.npz").read_bytes()
    assert len(set(found.values())) == 1  # the hash is that of the local file
    size = store.size(f"/{name}")
    assert size > 3 * HEADS
    assert size <= store.n_bytes <= size + HEADS


def test_the_hash_of_a_table_reads_what_the_fit_does_not(tmp_path: Path, store: Counted) -> None:
    labels, erasers, n_bytes = str(tmp_path / "y.csv"), list[bytes](), list[int]()
    for folder, algorithm in ((f"{tmp_path}/", "blake3"), ("memory://", "blake3"), ("memory://", "none")):
        store.n_bytes = 0
        fit(f"{folder}x.parquet", labels, str(tmp_path / "e.npz"), FitOptions(hash_algorithm=algorithm))
        erasers.append((tmp_path / "e.npz").read_bytes())
        n_bytes.append(store.n_bytes)
    assert erasers[0] == erasers[1]
    size, column = store.size("/x.parquet"), X.nbytes
    assert size - column > 2 * HEADS
    assert n_bytes[2] < size
    assert n_bytes[1] - n_bytes[2] <= size - column + HEADS


def test_a_method_of_several_passes_hashes_in_the_first(tmp_path: Path, store: Counted) -> None:
    n_bytes = list[int]()
    for algorithm in ("none", "blake3"):
        store.n_bytes = 0
        options = FitOptions(parameters=SALParameters(unit=True, unit_rounds=2), hash_algorithm=algorithm, read=READ)
        fit("memory://x.npy", str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), options)
        n_bytes.append(store.n_bytes)
    assert n_bytes[0] >= 2 * X.nbytes
    assert n_bytes[1] <= n_bytes[0] + HEADS


def test_moments_read_each_byte_once(tmp_path: Path, store: Counted) -> None:
    moments("memory://x.npy", str(tmp_path / "y.csv"), str(tmp_path / "m.npz"), MomentsOptions(read=READ))
    assert store.n_bytes <= X.nbytes + HEADS

"""Rows that wait in a file are those that were added, whatever was taken out of memory in between."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from salcli.formats.row_spool import LeavingSink, Spool

from .tables import KINDS, lists


def table_of(x: np.ndarray, kind: str) -> pa.Table:
    """Give rows beside columns of many kinds, some of them null, with metadata."""
    n = len(x)
    columns: dict[str, Any] = {
        "emb": lists(x, kind),
        "text": [None if i % 3 == 0 else "é" * (i % 5) for i in range(n)],
        "deep": pa.array([None if i % 3 == 0 else {"a": i, "b": ["x"] * (i % 4)} for i in range(n)]),
        "topic": pa.array([f"t{i % 7}" for i in range(n)]).dictionary_encode(),
    }
    return pa.table(columns, metadata={b"own": b"\xff"})


@pytest.mark.parametrize("kind", KINDS)
def test_views_show_what_was_added_also_after_it_left_memory(tmp_path: Path, kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 7)).astype(np.float32)
    spool = Spool(str(tmp_path))
    for rows in (table_of(x, kind), table_of(-x[:2000], kind)):  # the second time fewer
        for part in (rows.slice(0, 1), rows.slice(1, 999), rows.slice(1000)):
            spool.add(part)
        found = spool.take()
        spool.leave()
        assert found.equals(rows, check_metadata=True)
    spool.close()
    assert found.equals(rows)
    assert list(tmp_path.iterdir()) == []


def test_a_sink_writes_to_its_file_and_frees_what_was_read(tmp_path: Path) -> None:
    spool, left = Spool(str(tmp_path)), []
    spool.leave = lambda: left.append(1)  # type: ignore[method-assign]
    with open(tmp_path / "o", "wb") as handle:
        sink = LeavingSink(handle, spool)
        assert (sink.write(b"ab"), sink.write(b"c"), sink.tell()) == (2, 1, 3)
        sink.close()
    spool.close()
    assert (tmp_path / "o").read_bytes() == b"abc"
    assert len(left) == 2


class _Full:
    """A file on a disk that is full."""

    closed = False

    def seek(self, *_: object) -> int:
        return 0

    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def test_a_full_disk_is_an_error_when_rows_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: _Full())
    with closing(Spool(str(tmp_path))) as spool, pytest.raises(OSError, match="No space") as caught:
        spool.add(table_of(np.zeros((2, 5), np.float32), "list"))
    assert caught.value.errno == 28

"""Rows that wait in a file are those that were added, whatever was taken out of memory in between."""

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.formats.row_spool import LeavingSink, Spool


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_views_show_what_was_added_also_after_it_left_memory(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 7)).astype(dtype)
    spool = Spool(str(tmp_path), x.nbytes)
    for shown in (x, -x):
        views = [spool.add(shown[:1]), spool.add(shown[1:1000]), spool.add(shown[1000:])]
        assert_array_equal(np.concatenate(views), shown)
        spool.leave()
        assert_array_equal(np.concatenate(views), shown)
        spool.clear()
    spool.close()
    assert_array_equal(views[2], -x[1000:])
    assert list(tmp_path.iterdir()) == []


def test_a_sink_writes_to_its_file_and_frees_what_was_read(tmp_path: Path) -> None:
    spool, left = Spool(str(tmp_path), 8), []
    spool.leave = lambda: left.append(1)  # type: ignore[method-assign]
    with open(tmp_path / "o", "wb") as handle:
        sink = LeavingSink(handle, spool)
        assert (sink.write(b"ab"), sink.write(b"c"), sink.tell()) == (2, 1, 3)
        sink.close()
    spool.close()
    assert (tmp_path / "o").read_bytes() == b"abc"
    assert len(left) == 2


def test_a_full_disk_is_an_error_when_rows_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(str(tmp_path), 80)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with closing(spool), pytest.raises(OSError, match="No space"):
        spool.add(np.zeros((2, 5)))

"""Files that are looked at where they lie in memory: the same bytes, and only where the system has them."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.formats import pages
from salcli.formats.pages import mapped

from .strategies import file_of

SIZE = 3 * 4096 + 17
DATA = np.random.default_rng(0).bytes(SIZE)


def require_mapping(path: Path) -> None:
    """Skip where the file system does not say what it has in memory."""
    with path.open("rb") as handle:
        handle.read()
        try:
            os.preadv(handle.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except (OSError, AttributeError) as error:
            pytest.skip(f"this file system does not tell what it has in memory ({error})")


@given(st.integers(0, SIZE), st.integers(0, SIZE))
def test_bytes_are_those_of_the_file(offset: int, size: int) -> None:
    with file_of(DATA, "x.bin") as path, pytest.MonkeyPatch.context() as patch:
        require_mapping(path)
        patch.setattr(pages, "LEAST_BYTES", pages.PROBES)
        with path.open("rb") as handle:
            held = mapped(handle.fileno(), offset, size)
        if size < pages.PROBES or offset + size > SIZE:
            assert held is None
        else:
            assert held is not None
            assert held.tobytes() == DATA[offset : offset + size]
            assert held.readonly


def test_few_bytes_are_not_mapped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA)
    require_mapping(tmp_path / "x")
    with (tmp_path / "x").open("rb") as handle:
        assert mapped(handle.fileno(), 0, SIZE) is None


def test_pages_that_must_be_fetched_are_not_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(DATA)
    require_mapping(tmp_path / "x")
    monkeypatch.setattr(pages, "LEAST_BYTES", 1)

    def preadv(handle: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if offset > SIZE // 2:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    with (tmp_path / "x").open("rb") as handle:
        assert mapped(handle.fileno(), 0, SIZE // 2) is not None
        assert mapped(handle.fileno(), 0, SIZE) is None

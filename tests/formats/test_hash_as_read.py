"""The hash of an object is that of its bytes, in whatever order they are read, and only gaps are read for it."""

import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from salcli.formats import hash_as_read
from salcli.formats.hash_as_read import HashAsRead

DATA = np.random.default_rng(0).bytes(1000)


@pytest.fixture(autouse=True, params=[1 << 30, 40])
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use pieces, gaps and limits of a few bytes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SLOT_BYTES": 7, "SMALL_GAP": 2, "HASHED_BYTES": 11, "MOST_WAITING": request.param}.items():
            patch.setattr(hash_as_read, name, value)
        yield
    assert not hash_as_read._waiting


class Fetched:
    """Reads the data, and counts how often each byte is read."""

    def __init__(self) -> None:
        self.times = np.zeros(len(DATA), int)

    def __call__(self, size: int, offset: int) -> bytes:
        self.times[offset : offset + size] += 1
        return DATA[offset : offset + size]


@given(pieces=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 90)), max_size=40))
def test_pieces_in_any_order_are_hashed(pieces: list[tuple[int, int]]) -> None:
    fetched = Fetched()
    found = HashAsRead("blake3", len(DATA), fetched)
    added = np.zeros(len(DATA), bool)
    for start, size in pieces:
        found.add(memoryview(DATA)[start : start + size], start)
        added[start : start + size] = True
    assert found.finish() == blake3(DATA).hexdigest()
    assert fetched.times.max() <= 1
    assert np.all(fetched.times + added >= 1)
    found.close()


def test_what_was_added_is_not_read_again() -> None:
    fetched = Fetched()
    found = HashAsRead("sha256", len(DATA), fetched)
    for start in range(900, -1, -100):  # from the end, so that all but the last wait
        found.add(DATA[start : start + 100], start)
    if len(DATA) < hash_as_read.MOST_WAITING:
        assert not fetched.times.any()
    else:
        assert len(hash_as_read._waiting) == 0 or sum(hash_as_read._waiting.values()) <= hash_as_read.MOST_WAITING
    before = fetched.times.copy()
    assert found.finish() == hashlib.sha256(DATA).hexdigest()
    assert np.array_equal(fetched.times, before)


def test_threads_add_pieces_of_one_object() -> None:
    fetched = Fetched()
    found = HashAsRead("blake3", len(DATA), fetched)

    def add(first: int) -> None:
        for start in range(first, len(DATA), 80):
            found.add(DATA[start : start + 20], start)

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 20, 40, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.finish() == blake3(DATA).hexdigest()
    found.close()


def test_on_a_full_disk_what_cannot_wait_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Fetched()
    found = HashAsRead("blake3", len(DATA), fetched)
    write, n = os.pwrite, [0]

    def full(*args: Any) -> int:
        n[0] += 1
        if n[0] > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*args)

    monkeypatch.setattr(os, "pwrite", full)
    for start in range(900, -1, -100):
        found.add(DATA[start : start + 100], start)
    assert found.finish() == blake3(DATA).hexdigest()
    assert fetched.times.any()
    found.close()


def test_an_object_that_has_become_shorter_ends_the_hash() -> None:
    found = HashAsRead("blake3", len(DATA) + 50, Fetched())
    found.add(DATA[600:700], 600)
    assert found.finish() == blake3(DATA).hexdigest()
    found.close()


def test_a_hash_that_is_not_wanted_ends() -> None:
    fetched = Fetched()
    HashAsRead("blake3", len(DATA), fetched).finish(lambda: False)
    assert not fetched.times.any()

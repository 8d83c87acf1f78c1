import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from salcli.formats.hash_in_step import HashInStep


class Pieces:
    """A file in memory, whose reads are counted."""

    def __init__(self, data: bytes) -> None:
        self.data, self.n_read = data, 0

    def fill(self, view: memoryview, offset: int) -> int:
        piece = self.data[offset : offset + len(view)]
        view[: len(piece)] = piece
        self.n_read += len(piece)
        return len(piece)


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    seed=st.randoms(use_true_random=False),
    left_out=st.sets(st.integers(0, 11), max_size=3),
    header_bytes=st.sampled_from([0, 200]),
)
def test_pieces_in_any_order_have_the_hash_of_the_file(
    sizes: list[int], seed: object, left_out: set[int], header_bytes: int
) -> None:
    data = bytes(i * 37 % 251 for i in range(sum(sizes)))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    order = [i for i in range(len(sizes)) if i not in left_out]
    seed.shuffle(order)  # type: ignore[attr-defined]
    file = Pieces(data)
    found = HashInStep("blake3", file.fill, header_bytes)
    for i in [*order, *order[:2]]:  # some are read twice
        found.add(memoryview(data)[starts[i] : starts[i] + sizes[i]], starts[i])
    assert found.finish() == found.finish() == blake3(data).hexdigest()


def test_pieces_in_order_are_not_read_again() -> None:
    data = bytes(range(256)) * 100
    file = Pieces(data)
    found = HashInStep("blake3", file.fill, header_bytes=128)
    for start in range(128, len(data), 1000):  # a header is never added
        found.add(memoryview(data)[start : start + 1000], start)
    assert found.finish() == blake3(data).hexdigest()
    assert file.n_read == 128


def test_pieces_of_several_threads_have_the_hash_of_the_file() -> None:
    data = bytes(i % 253 for i in range(1 << 20))
    file = Pieces(data)
    found, start = HashInStep("blake3", file.fill), threading.Barrier(4)

    def add_every_fourth(first: int) -> None:
        start.wait()
        for at in range(first << 12, len(data), 4 << 12):
            found.add(memoryview(data)[at : at + (1 << 12)], at)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(add_every_fourth, i) for i in range(4)]:
            done.result()
    assert found.finish() == blake3(data).hexdigest()


def test_a_piece_that_cannot_be_read_blocks_no_later_one() -> None:
    data, fails = bytes(3000), [True]

    def fill(view: memoryview, offset: int) -> int:
        if fails.pop() if fails else False:
            raise OSError("gone")
        return Pieces(data).fill(view, offset)

    found = HashInStep("blake3", fill)
    found.add(memoryview(data)[1000:2000], 1000)
    with pytest.raises(OSError, match="gone"):
        found.add(memoryview(data)[:1000], 0)
    found.add(memoryview(data)[2000:], 2000)
    assert found.finish() == blake3(data).hexdigest()

import itertools
import sys
import threading
import time

import numpy as np
import pytest

from salcli.streaming.engine import N_THREADS, Threads, one_blas_thread, ordered_map, tree_sum


def test_results_come_in_order_though_work_ends_out_of_order() -> None:
    def work(i: int) -> int:
        time.sleep(0.02 if i % 2 == 0 else 0)
        return i

    assert list(ordered_map(work, range(9))) == list(range(9))


def test_only_a_few_items_are_ahead_of_whoever_takes_the_results() -> None:
    started: list[int] = []
    lock = threading.Lock()

    def work(i: int) -> int:
        with lock:
            started.append(i)
        return i

    results = ordered_map(work, range(100))
    assert next(results) == 0
    time.sleep(0.05)
    assert len(started) <= N_THREADS + 1
    results.close()  # type: ignore[attr-defined]


def test_the_first_error_in_order_is_raised() -> None:
    def work(i: int) -> int:
        if i >= 3:
            raise ValueError(str(i))
        return i

    results = ordered_map(work, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^3$"):
        next(results)


def test_blas_is_held_to_one_thread() -> None:
    assert np.linalg  # whose BLAS it is
    assert next(ordered_map(lambda _: blas_threads(), [0])) == {1}


def blas_threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_is_let_go_again_to_what_it_had() -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=2):
        with one_blas_thread():
            assert blas_threads() == {1}
            with threadpool_limits(limits=2):  # what a library would do
                with one_blas_thread():
                    assert blas_threads() == {1}
                assert blas_threads() == {2}
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_libraries_are_looked_for_again_only_where_a_module_came_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    import threadpoolctl

    searches: list[object] = []

    class Counted(threadpoolctl.ThreadpoolController):
        def __init__(self) -> None:
            searches.append(self)
            super().__init__()

    with one_blas_thread():
        pass
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counted)
    for is_loaded, expected in ((False, 0), (True, 1), (False, 1)):
        if is_loaded:
            monkeypatch.setitem(sys.modules, "a_module_that_was_loaded", sys)
        with one_blas_thread():
            pass
        assert len(searches) == expected


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 100])
def test_a_fold_is_a_tree_in_item_order_whatever_the_threads(n: int) -> None:
    class Word(str):
        def __add__(self, other: str) -> "Word":
            return Word(f"({self}{other})")

    def work(i: int) -> Word:
        time.sleep(0.002 * (i % 3))
        return Word(chr(ord("a") + i % 26))

    done: list[str] = []
    found = [Threads(workers).fold(work, range(n), Word(""), done.append) for workers in (1, 4)]
    assert found[0] == found[1] == tree_sum(map(work, range(n)), Word(""))
    assert done[:n] == [work(i) for i in range(n)]
    letters = "".join(c for c in found[0] if c not in "()")
    assert letters == "".join(done[:n])
    depth = max(itertools.accumulate((c == "(") - (c == ")") for c in found[0])) if n else 0
    assert depth <= max(1, n).bit_length()

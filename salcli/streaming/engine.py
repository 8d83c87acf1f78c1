"""`Engine`: how work is distributed; `Threads` distributes it over a small thread pool with one BLAS thread each.

Threaded BLAS busy-waits and is slower on thin products than one thread; so BLAS is limited to one thread and items run
side by side instead. Results come in item order, so that sums do not depend on timing.
"""

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from salcli.streaming.memory import keep_freed_memory

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result = TypeVar("Result")
_found: "list[tuple[int, ThreadpoolController]]" = []
"""The BLAS libraries found last, and the number of modules then: finding them takes milliseconds."""
N_THREADS = max(1, min(4, os.cpu_count() or 1))


class SentOnce:
    """What other processes receive once, not with each item that refers to it: labels of many rows."""


class Engine(Protocol):
    """Where work runs. An engine never changes a result: `map` keeps the order, `fold` is a tree in item order."""

    @property
    def n_workers(self) -> int:
        """Items that run at the same time; memory is reserved for as many."""

    shares_memory: bool
    """Whether work runs in this process. Otherwise work, items and results are pickled, and work cannot write into
    arrays or open files of this process."""

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Return the results of `work` for `items`, in their order."""

    def fold(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        zero: Result,
        done: Callable[[Result], None] | None = None,
        groups: "Groups[Item, Result] | None" = None,
    ) -> Result:
        """Return the sum of `work` of all items, added as `tree_sum` does.

        Parameters
        ----------
        work : one item's part of the sum
        items : in the order of summation
        zero : the neutral element of `+`
        done : called with each part, in order
        groups : consecutive items that are added up first, as a tree of their own
        """


class Groups(Protocol[Item_contra, Result]):
    """Consecutive items whose parts are added up first, such as those of one shard; used where `fold` is called."""

    def number(self, item: Item_contra) -> int:
        """Return the group of an item; those of consecutive groups ascend."""

    def finished(self, number: int, total: Result) -> Result:
        """Return what the sum of the group `number`, `total`, adds to the whole."""


class Threads:
    """Runs items on threads of this process."""

    shares_memory = True

    def __init__(self, n_workers: int = N_THREADS) -> None:
        self.n_workers = n_workers

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `work` for `items`, in their order; a few items are computed ahead of the caller."""
        keep_freed_memory()
        with one_blas_thread(), ThreadPoolExecutor(self.n_workers) as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(work, item))
                    if len(waiting) > self.n_workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def fold(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        zero: Result,
        done: Callable[[Result], None] | None = None,
        groups: Groups[Item, Result] | None = None,
    ) -> Result:
        """Return the sum of `work` of all items (see `Engine.fold`)."""
        if groups is None:
            return tree_sum(self.map(work, items), zero, done)
        numbered, items = itertools.tee(items)
        return sum_of_groups(zip(map(groups.number, numbered), self.map(work, items), strict=True), zero, done, groups)


class OneThread(Threads):
    """Runs items on the thread that wants their results, as one of several such threads, of which a few run at once."""

    def __init__(self, turns: threading.Semaphore) -> None:
        """Take a turn of `turns` for all items of a `map`."""
        super().__init__(1)
        self._turns = turns

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `work` for `items`, none of which is computed ahead (see `Engine.map`)."""
        keep_freed_memory()
        with self._turns:
            yield from map(work, items)


def tree_sum(parts: Iterable[Result], zero: Result, done: Callable[[Result], None] | None = None) -> Result:
    """Return the sum of parts, added as a binary tree whose shape depends on their number alone.

    Rounding grows with the logarithm of the number of parts, and at most as many partial sums are kept.

    Parameters
    ----------
    parts : in the order of summation; they have `+`
    zero : the neutral element
    done : called with each part
    """
    sums: list[tuple[int, Any]] = []
    for part in parts:
        if done is not None:
            done(part)
        level, total = 0, part
        while sums and sums[-1][0] == level:
            level, total = level + 1, sums.pop()[1] + total
        sums.append((level, total))
    whole: Any = sums.pop()[1] if sums else zero
    while sums:
        whole = sums.pop()[1] + whole
    result: Result = whole
    return result


def sum_of_groups(
    parts: Iterable[tuple[int, Result]],
    zero: Result,
    done: Callable[[Result], None] | None,
    groups: Groups[Any, Result],
) -> Result:
    """Return the sum of parts, each group's added up by `tree_sum`, and then the groups.

    Parameters
    ----------
    parts : (number of the group, part), in the order of summation
    zero, done : see `tree_sum`
    groups : what the sum of each group becomes
    """
    by_number = itertools.groupby(parts, key=lambda part: part[0])
    totals = (groups.finished(n, tree_sum((part for _, part in same), zero, done)) for n, same in by_number)
    return tree_sum(totals, zero)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that results are the same bytes on any number of cores."""
    from threadpoolctl import ThreadpoolController

    if not _found or _found[-1][0] != len(sys.modules):  # a newly imported module may have loaded a library
        controller = ThreadpoolController()
        _found[:] = [(len(sys.modules), controller)]
    with _found[-1][1].limit(limits=1):
        yield


LOCAL = Threads()
_current: ContextVar[Engine] = ContextVar("engine", default=LOCAL)


def current_engine() -> Engine:
    """Return the engine that commands run on: this process's threads, or that of `running_on`."""
    return _current.get()


@contextmanager
def running_on(engine: Engine) -> Iterator[None]:
    """Run commands that are called in the block on another `engine`."""
    token = _current.set(engine)
    try:
        yield
    finally:
        _current.reset(token)


def ordered_map(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Return the results of `work` for `items` (chunks of files), in their order, on the current engine."""
    return current_engine().map(work, items)


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Return the results of `work` for `items`, in their order, on threads: for arrays in this process's memory."""
    return LOCAL.map(work, items)

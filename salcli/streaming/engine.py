"""Slabs on a small thread pool, results in slab order, one BLAS thread each.

Threaded BLAS spins while it waits and is slower on thin products than one thread; so BLAS is held to one thread and
slabs run side by side instead. Results are handed out in slab order, so sums do not depend on timing.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from salcli.streaming.memory import keep_freed_memory

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")
_found: "list[tuple[int, ThreadpoolController]]" = []
"""The BLAS libraries that were found last, and how many modules were there: finding them takes milliseconds."""
N_THREADS = max(1, min(4, os.cpu_count() or 1))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, so that results are the same bytes on any number of cores."""
    from threadpoolctl import ThreadpoolController

    if not _found or _found[-1][0] != len(sys.modules):  # a module may have brought a library with it
        controller = ThreadpoolController()
        _found[:] = [(len(sys.modules), controller)]
    with _found[-1][1].limit(limits=1):
        yield


def ordered_map(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Apply `work` to items on threads, a few ahead of whoever takes the results, which come in order."""
    keep_freed_memory()
    with one_blas_thread(), ThreadPoolExecutor(N_THREADS) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > N_THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

"""`Cluster`: the engine that submits items as Dask tasks, some ahead of the caller, and returns results in item order.

Sums of consecutive items are added up on the worker, which returns one sum for each task; the upper levels of the tree
are added up at the client, as results arrive in order. So no sum waits on a worker, and a lost one costs only its
running tasks.
"""

import concurrent.futures
import functools
import hashlib
import itertools
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import salcli
from salcli.data.source import Chunk, Shard
from salcli.errors import ClusterError, first_line, warn
from salcli.streaming.cluster.parcels import Packed, Packer, Parcel, whole
from salcli.streaming.cluster.tasks import Nodes, Outcome, SeenFile, TreeOf, push, run, total_of
from salcli.streaming.engine import Groups

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 3  # of a task whose worker failed otherwise than by being killed
AHEAD = 3  # tasks in flight, a thread of the workers
TASK_BYTES = 1 << 30  # of a file that a task reads at most, if a partition has no more
TASKS_A_THREAD = 4  # before tasks grow
PATIENCE = 300  # seconds without any worker
LOOK = 1  # second between looks for workers
PARCELS = 64  # of values that travel once, kept on the workers


@dataclass
class _Task:
    """An item in flight."""

    work: Callable[[Any], Any]
    packed: Packed
    future: "Future" = None
    used: list["Future"] = field(default_factory=list)
    """Of work and parcels, which stay on a worker as long as these are referred to."""
    n_lost: int = 0


class Cluster:
    """Runs items on the workers of a Dask cluster (see `Engine`)."""

    shares_memory = False

    def __init__(self, client: "Client", address: str) -> None:
        """Wrap a connected `client`; `address` of the scheduler names it in messages."""
        self._client, self._address = client, address
        self._run, self._packer, self._lock = uuid.uuid4().hex[:8], Packer(), threading.RLock()
        self._numbers = itertools.count()
        self._sent: OrderedDict[str, Future] = OrderedDict()
        """By token, parcels that are on a worker."""
        self._works: dict[int, tuple[Any, Future]] = {}
        """By identity, the work of passes that are not over."""
        self._state_of = functools.lru_cache(1024)(SeenFile.of)

    @property
    def n_workers(self) -> int:
        """Threads of all workers, as last heard."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return max(1, sum(int(worker["nthreads"]) for worker in workers.values()))

    def on_workers(self, function: Callable[[], Result]) -> dict[str, Result]:
        """Return what `function` returns on each worker, by its address."""
        found: dict[str, Result] = self._client.run(function)
        return found

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `work` for `items`, in their order (see `Engine.map`).

        Raises
        ------
        ClusterError : the scheduler or all workers are gone, or a task kills its workers
        """
        waiting: deque[_Task] = deque()
        try:
            for item in items:
                with self._lock:
                    packed = self._packer.pack(item)
                waiting.append(self._submitted(_Task(work, packed)))
                if len(waiting) > AHEAD * self.n_workers:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            with suppress(OSError, RuntimeError):  # the scheduler may be gone
                self._client.cancel([task.future for task in waiting])
            self._works.pop(id(work), None)

    def fold(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        zero: Result,
        done: Callable[[Result], None] | None = None,
        groups: Groups[Item, Result] | None = None,
    ) -> Result:
        """Return the sum of `work` of all items (see `Engine.fold`).

        `done` is called with sums of the consecutive items of a task.
        """
        numbers: deque[int] = deque()
        trees: Iterator[Nodes] = self.map(TreeOf(work), _numbered(branches(items, self.n_workers, groups), numbers))
        by_group = itertools.groupby(((numbers.popleft(), tree) for tree in trees), key=lambda each: each[0])
        totals: Nodes = []
        for number, same in by_group:
            nodes: Nodes = []
            for level, total in itertools.chain.from_iterable(tree for _, tree in same):
                if done is not None:
                    done(total)
                push(nodes, level, total)
            whole = total_of(nodes, zero)
            push(totals, 0, whole if groups is None else groups.finished(number, whole))
        result: Result = total_of(totals, zero)
        return result

    def _submitted(self, task: _Task) -> _Task:
        with self._lock, self._reporting():  # files are hashed on a thread meanwhile
            shards = [(shard, self._state(shard)) for shard in task.packed.shards]
            states = [state for _, state in shards if state is not None]
            task.used = [self._work(task.work), *(self._parcel(*each) for each in task.packed.parcels.items())]
            named = dict(zip(task.packed.parcels, task.used[1:], strict=True))
            task.future = self._client.submit(
                run,
                task.used[0],
                salcli.__version__,
                task.packed.data,
                [shard.token for shard, _ in shards],
                states,
                key=f"salcli-{self._run}-{next(self._numbers)}-{_digest(states)}",
                retries=RETRIES,
                pure=False,
                **named,
            )
        return task

    def _result(self, task: _Task) -> Any:
        """Return the result of a task; one whose inputs were lost with a worker is submitted again."""
        outcome = self._outcome(task)
        for shard in task.packed.shards:
            for remark in outcome.remarks.get(shard.token, ()):
                shard.reader.innermost.notes.add(*remark)  # type: ignore[attr-defined]
        if outcome.error is not None:
            raise outcome.error
        for message in outcome.warnings:
            warn(message)
        return outcome.result

    def _outcome(self, task: _Task) -> Outcome:
        from distributed import KilledWorker

        since = time.monotonic()
        while True:
            if task.future.status in ("lost", "cancelled"):
                self._again(task)
            try:
                with self._reporting():
                    found: Outcome = task.future.result(timeout=LOOK)
                    return found
            except concurrent.futures.CancelledError as error:
                self._again(task, error)
            except KilledWorker as error:
                raise ClusterError(
                    f"{_names(task)}: a task killed one worker after the other: too little memory? (Dask ends workers "
                    "at 95 % of theirs)"
                ) from error
            except TimeoutError as error:
                if task.future.status == "error":  # of the task itself
                    raise ClusterError(f"{_names(task)}: {first_line(error)}") from error
                since = time.monotonic() if self._client.scheduler_info(n_workers=-1)["workers"] else since
                if time.monotonic() - since > PATIENCE:
                    raise self._deserted() from None

    def _again(self, task: _Task, error: BaseException | None = None) -> None:
        if getattr(error, "reason", "") == "scheduler-connection-lost" or self._client.status != "running":
            raise self._gone() from error
        task.n_lost += 1
        if task.n_lost > RETRIES:
            raise ClusterError(f"{_names(task)}: its labels were lost with {task.n_lost} workers") from error
        self._works.pop(id(task.work), None)
        for token in task.packed.parcels:
            self._sent.pop(token, None)
        self._submitted(task)

    def _work(self, work: Any) -> "Future":
        """Return the work of a pass on every worker, sent once."""
        if id(work) not in self._works:
            self._works[id(work)] = work, self._scattered(work, broadcast=True)
        return self._works[id(work)][1]

    def _parcel(self, token: str, value: Any) -> "Future":
        """Return a value on one of the workers, from which others fetch it, sent once."""
        if token not in self._sent:
            self._sent[token] = self._scattered(value)
        self._sent.move_to_end(token)
        while len(self._sent) > PARCELS:  # tasks in flight hold their own
            self._packer.forget(self._sent.popitem(last=False)[0])
        return self._sent[token]

    def _scattered(self, value: Any, **how: Any) -> "Future":
        try:
            return self._client.scatter([Parcel(whole(value))], hash=False, timeout=PATIENCE, **how)[0]
        except TimeoutError as error:
            raise self._deserted() from error

    def _state(self, shard: Shard) -> SeenFile | None:
        file = getattr(shard.reader.innermost, "container", None)
        return None if file is None else self._state_of(file.place)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report a scheduler that is gone."""
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError

        try:
            yield
        except (CommClosedError, ClosedClientError) as error:
            raise self._gone() from error

    def _deserted(self) -> ClusterError:
        return ClusterError(f"{self._address}: has had no workers for {PATIENCE} s")

    def _gone(self) -> ClusterError:
        return ClusterError(f"{self._address}: the Dask scheduler is gone: start it again, and the command")


def branches(
    items: Iterable[Item], n_workers: int, groups: Groups[Item, Any] | None = None
) -> Iterator[tuple[int, list[Item]]]:
    """Yield the number of a group and consecutive items of it, a whole branch of its tree (but the group's last).

    Tasks grow with what lies behind them, so that a small file is divided among all workers, and a large one into few
    tasks.

    Parameters
    ----------
    items : chunks, or what holds them
    n_workers : threads of the workers
    groups : of items that are added up first; default: all are one group, of number 0
    """
    before = 0
    for number, same in itertools.groupby(items, key=(lambda _: 0) if groups is None else groups.number):
        index, left = 0, iter(same)
        for first in left:
            most = max(1, TASK_BYTES // max(1, _bytes_of(first)))
            size = _power_of_two(min(most, max(1, before // (TASKS_A_THREAD * n_workers))))
            size = min(size, index & -index) if index else size
            some = [first, *itertools.islice(left, size - 1)]
            index, before = index + len(some), before + len(some)
            yield number, some


def _numbered(branches: Iterable[tuple[int, list[Item]]], numbers: deque[int]) -> Iterator[list[Item]]:
    """Yield the items of each branch, and append its number to `numbers`."""
    for number, some in branches:
        numbers.append(number)
        yield some


def _power_of_two(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _bytes_of(item: Any) -> int:
    """Return the bytes of the rows that an item reads."""
    if isinstance(item, Chunk):
        return item.n_rows * item.shard.reader.d * item.shard.reader.dtype.itemsize
    return sum(map(_bytes_of, item)) if isinstance(item, list | tuple) else 0


def _digest(states: list[SeenFile]) -> str:
    """Return a digest of paths, sizes and times, so that a task of a file that has changed has another key."""
    return hashlib.blake2b(repr(states).encode(), digest_size=8).hexdigest()


def _names(task: _Task) -> str:
    return ", ".join(dict.fromkeys(shard.reader.path for shard in task.packed.shards)) or "a task"

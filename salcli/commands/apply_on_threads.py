"""`apply` to a folder in this process: several shards at the same time, each on a thread of its own.

A thread hashes rows while they are in its core's cache, and writers of different files do not wait for each other, nor
for the disk that another one is synced to. Shards that would leave threads idle are written by all of them, one by one.
Objects of a store are hashed as they are read, and uploaded in the place of a rename, so nothing is transferred twice.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from salcli.commands.apply_on_workers import Erase, Shard, hashed_before_upload
from salcli.errors import collected_warnings
from salcli.formats.keys import KeyCensus
from salcli.formats.registry import OpenFile
from salcli.formats.shard_folder import ALGORITHM, FileState, ShardFolder, file_digest
from salcli.options import ReadOptions
from salcli.streaming.engine import Engine, OneThread, current_engine, running_on
from salcli.streaming.progress import Advance, Progress

SYNCED = 1  # shards that wait for the disk, or for their upload, while others are written


def write_on_threads(
    erase: Erase,
    folder: ShardFolder,
    names: Sequence[str],
    files: Mapping[str, OpenFile],
    options: ReadOptions,
    shown: "Within",
) -> Iterator[tuple[Shard, KeyCensus]]:
    """Write shards in this process, and yield each with its keys when it is in its place, in order.

    After an error those that follow it in order are not in their places, as if they were written one by one.

    Parameters
    ----------
    erase : writes the rows of a source to a path
    folder : of the outputs, open
    names : of the shards to write
    files : the inputs, open, by their paths
    options : that the inputs were opened with
    shown : the progress of all shards

    Raises
    ------
    FormatError : an input is damaged, or changes meanwhile
    OutputError : an output cannot be written, or another run has begun to write the folder
    """
    run = _Run(erase, folder, files, options, shown)
    together = current_engine()
    alone, most = OneThread(threading.Semaphore(together.n_workers)), together.n_workers + SYNCED
    waiting: deque[Future[tuple[Shard, KeyCensus]]] = deque()
    place = _Place(None)
    with ThreadPoolExecutor(most) as pool:
        try:
            for name, is_alone in one_thread_each({name: run.rows(name) for name in names}, together.n_workers):
                while waiting and (not is_alone or len(waiting) > most):
                    yield waiting.popleft().result()
                place = _Place(place)
                waiting.append(pool.submit(run.write, name, alone if is_alone else together, place))
                while waiting and not is_alone:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            run.is_over.set()
            for future in waiting:
                future.cancel()


def one_thread_each(rows: Mapping[str, int], n_threads: int) -> Iterator[tuple[str, bool]]:
    """Yield each shard, in order, and whether one thread writes it while others write others.

    Otherwise all threads write it: a shard with more rows than a thread's share of all, and the last ones before such a
    shard or the end, if they are fewer than threads.

    Parameters
    ----------
    rows : of each shard, by its name
    n_threads : how many threads there are
    """
    share = sum(rows.values()) / n_threads
    for is_large, names in itertools.groupby(rows, key=lambda name: rows[name] > share):
        run = [*names]
        n_alone = 0 if is_large else len(run) - len(run) % n_threads
        yield from ((name, i < n_alone) for i, name in enumerate(run))


class Within:
    """The progress of shards, whose rows count in one stage; what follows rows is not shown."""

    def __init__(self, outer: Progress, advance: Advance) -> None:
        self._outer, self._advance, self._turn = outer, advance, threading.Lock()

    def advance(self, n: int) -> None:
        """Show that `n` more rows are done; safe on any thread."""
        with self._turn:
            self._advance(n)

    def say(self, message: str) -> None:
        """Show `message`."""
        self._outer.say(message)

    def shard(self, is_over: threading.Event | None = None) -> Progress:
        """Return the progress of one shard, which ends by an error once `is_over` is set."""
        return _Shown(self, is_over or threading.Event())


class _Shown:
    """The progress of one shard."""

    def __init__(self, shown: Within, is_over: threading.Event) -> None:
        self.say, self._shown, self._is_over, self._is_first = shown.say, shown, is_over, True

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage of the shard (see `Progress.stage`), of which the first is shown."""
        is_first, self._is_first = self._is_first, False

        def advance(n: int) -> None:
            if self._is_over.is_set():
                raise _Over
            if is_first:
                self._shown.advance(n)

        yield advance


class _Over(Exception):  # noqa: N818 (no error: an earlier one is raised)
    """Raised where a shard is written that is not wanted any more."""


class _Place:
    """Where a shard appears: not before the one that precedes it is in its place."""

    def __init__(self, before: "_Place | None") -> None:
        self._before, self._is_settled, self._is_taken = before, threading.Event(), before is None
        if before is None:
            self._is_settled.set()

    def wait(self) -> None:
        """Wait for the one before; if it does not come, raise `_Over`."""
        before, self._before = self._before, None
        if before is not None:
            before._is_settled.wait()
            if not before._is_taken:
                raise _Over

    @contextmanager
    def taken(self, target: str, require_own: Callable[[], object]) -> Iterator[list[str]]:
        """Write the shard to `target` in the block; `require_own` is called before it appears."""

        def wait() -> None:
            self.wait()
            require_own()

        try:
            with hashed_before_upload(target, wait) as uploaded:
                yield uploaded
            self._is_taken = True
        finally:
            self._is_settled.set()


@dataclass(frozen=True)
class _Run:
    """What the shards have in common."""

    erase: Erase
    folder: ShardFolder
    files: Mapping[str, OpenFile]
    options: ReadOptions
    shown: Within
    is_over: threading.Event = field(default_factory=threading.Event)

    def rows(self, name: str) -> int:
        """Return the rows of the input of a shard."""
        return self.files[self.folder.sources[name]].n

    def write(self, name: str, engine: Engine, place: _Place) -> tuple[Shard, KeyCensus]:
        """Write a shard on this thread, with rows erased on `engine`."""
        path, target = self.folder.sources[name], self.folder.target(name)
        state, file, keys = FileState.of(path), self.files[path], KeyCensus()
        if not file.file.hash_as_read(ALGORITHM):
            file.file.hash_in_step(ALGORITHM)
        with (
            place.taken(target, self.folder.require_own) as uploaded,
            running_on(engine),
            collected_warnings() as found,
        ):
            with closing(file.source(self.options)) as source:
                done = self.erase(source, target, self.shown.shard(self.is_over), keys)
                digest = file.file.digest(ALGORITHM)
            state.require(path)
        written = done.digest or "".join(uploaded) or file_digest(target)
        return Shard(name, done, state, digest, written, tuple(found)), keys

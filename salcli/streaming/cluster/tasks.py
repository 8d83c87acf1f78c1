"""What runs on a worker: one task, with one BLAS thread, whose refusals come back as values, which no retry changes."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import salcli
from salcli.data.source import restored_shard
from salcli.errors import ClusterError, FormatError, SalcliError, collected_warnings
from salcli.formats.urls import Stored, is_url, require_shared
from salcli.linalg.blas import blas_product
from salcli.streaming.cluster.parcels import Parcel, unpacked
from salcli.streaming.engine import Threads, one_blas_thread, running_on
from salcli.streaming.memory import keep_freed_memory

MTIME_SECONDS = 2  # file systems round times
Nodes = list[tuple[int, Any]]
"""Sums of consecutive items, each of 2^level of them, by falling level."""


@dataclass(frozen=True)
class SeenFile:
    """A file as the client sees it, which every worker must see too."""

    path: str
    """Absolute, or a URL."""
    size: int
    mtime: float
    """Seconds since 1970; of a URL 0."""
    version: str | None = None
    """Of a URL, what its store says (see `Stored`)."""

    @classmethod
    def of(cls, path: str, *, is_current: bool = False) -> "SeenFile | None":
        """Return the state of the file at `path`; None where there is no such file here (`is_current`: see `Stored`).

        Raises
        ------
        UsageError : a URL that only this process sees
        FormatError : there is nothing at a URL
        """
        if is_url(path):
            require_shared(path)
            stored = Stored.of(path, is_current=is_current)
            return cls(path, stored.size, 0.0, stored.version)
        try:
            found = os.stat(path)
        except OSError:
            return None
        return cls(os.path.abspath(path), found.st_size, found.st_mtime)

    def check(self) -> None:
        """Check that this process sees the same file.

        Raises
        ------
        FormatError : it is not there, or has another size or time
        """
        found = SeenFile.of(self.path, is_current=True)
        if found is None:
            raise FormatError(f"{self.path}: {worker_name()} does not see this file: all workers need the same folders")
        if (found.size, found.version) != (self.size, self.version) and is_url(self.path):
            raise FormatError(
                f"{self.path}: {worker_name()} sees another object, of {found.size:,} bytes and {found.version}, "
                f"expected {self.size:,} bytes and {self.version}"
            )
        if found.size != self.size or abs(found.mtime - self.mtime) > MTIME_SECONDS:
            raise FormatError(
                f"{self.path}: {worker_name()} sees another file, of {found.size:,} bytes and changed at "
                f"{found.mtime:.0f}, expected {self.size:,} bytes and {self.mtime:.0f} (copies need `cp -p`)"
            )


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    result: Any = None
    error: SalcliError | None = None
    """The user's to correct: the same in every retry, and raised at the client."""
    remarks: dict[str, Any] = field(default_factory=dict)
    """By token of the shard, remarks on rows that were read (see `salcli.formats.base.Notes`)."""
    warnings: list[str] = field(default_factory=list)


def run(
    work: Parcel, version: str, item: bytes, tokens: list[str], files: list[SeenFile], **parcels: Parcel
) -> Outcome:
    """Return the outcome of one item.

    Parameters
    ----------
    work : a function of an item
    version : of salcli at the client
    item : packed (see `parcels.Packer`)
    tokens : of the item's shards
    files : that the item's shards are read from
    parcels : by token, what the item refers to
    """
    try:
        if version != salcli.__version__:
            raise ClusterError(f"{worker_name()} has salcli {salcli.__version__}, the client has {version}")
        for state in files:
            state.check()
        with _limited(), running_on(Threads(1)), collected_warnings() as warnings:
            result = work.value(unpacked(item, parcels))
    except SalcliError as error:
        return Outcome(error=error)
    return Outcome(result, None, _remarks(tokens), warnings)


def _remarks(tokens: list[str]) -> dict[str, Any]:
    found = {}
    for token in tokens:
        shard = restored_shard(token)
        notes = None if shard is None else getattr(shard.reader.innermost, "notes", None)
        if notes is not None and (taken := notes.take()):
            found[token] = taken
    return found


@dataclass(frozen=True)
class TreeOf:
    """The sum of consecutive items, whose number is a power of two or which are the last: part of a tree of all."""

    work: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> Nodes:
        """Return the nodes of the tree over `items`."""
        nodes: Nodes = []
        for item in items:
            push(nodes, 0, self.work(item))
        return nodes


def push(nodes: Nodes, level: int, total: Any) -> None:
    """Add the sum of the next 2^level items to `nodes`, as `tree_sum` does with single ones.

    Parameters
    ----------
    nodes : changed; the number of items in them is a multiple of 2^level
    level : see above
    total : the sum
    """
    while nodes and nodes[-1][0] == level:
        level, total = level + 1, nodes.pop()[1] + total
    nodes.append((level, total))


def total_of(nodes: Nodes, zero: Any) -> Any:
    """Return the sum of all `nodes`, from the last to the first as in `tree_sum`; `zero` if there are none."""
    total = nodes[-1][1] if nodes else zero
    for _, node in reversed(nodes[:-1]):
        total = node + total
    return total


def worker_name() -> str:
    """Return the worker that runs this task, as messages name it."""
    from distributed import get_worker

    try:
        return f"worker {get_worker().address}"
    except ValueError:
        return "this process"


_lock, _running, _limits = threading.Lock(), [0], [ExitStack()]


@contextmanager
def _limited() -> Iterator[None]:
    """Limit BLAS to one thread while any task of salcli runs: the last of those at the same time lifts the limit."""
    with _lock:
        blas_product()  # loaded later, its library would not be limited
        keep_freed_memory()
        if not _running[0]:
            _limits[0].enter_context(one_blas_thread())
        _running[0] += 1
    try:
        yield
    finally:
        with _lock:
            _running[0] -= 1
            if not _running[0]:
                _limits[0].close()

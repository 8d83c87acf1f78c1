"""Hashes of the inputs, computed on a thread during the other work."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from salcli.data.hashes import FileHash, digest_of
from salcli.data.source import Shard, Source
from salcli.errors import LabelError
from salcli.formats.files import ByteFile
from salcli.formats.label_files import label_files
from salcli.streaming.engine import Engine, current_engine


class Hashing(Protocol):
    """A hash that may not be known yet."""

    def result(self) -> FileHash:
        """Return the hash, as soon as it is known."""


@dataclass(frozen=True)
class _Last:
    """A hash of bytes that are read in the block anyway: what is left of them is read when it is needed."""

    hashed: Callable[[], FileHash]

    def result(self) -> FileHash:
        """Return the hash."""
        return self.hashed()


@dataclass(frozen=True)
class LabelFiles:
    """The open files of LABELS, which are read and hashed one after the other."""

    files: list[ByteFile]

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the file, or of several that of the list of their hashes (see `ByteFile.digest`)."""
        return digest_of([file.digest(algorithm, is_wanted) for file in self.files], algorithm)


@contextmanager
def opened_labels(path: str | None) -> Iterator[LabelFiles | None]:
    """Open the files of labels for the time of the block, in which they are read and hashed; None: there are none.

    Raises
    ------
    LabelError : one is no regular file
    FormatError : one cannot be read; and after the block, if one has changed meanwhile
    """
    if path is None:
        yield None
        return
    files = label_files(path)
    for file in files:
        if os.path.exists(file) and not os.path.isfile(file):
            raise LabelError(f"{file}: is no regular file: labels are read more than once, so they cannot be a pipe")
    with ExitStack() as stack:
        opened = LabelFiles([stack.enter_context(closing(ByteFile.open(file, may_be_wide=True))) for file in files])
        yield opened
        for each in opened.files:
            each.require_unchanged()


@contextmanager
def hashing(embeddings: dict[Source, str], labels: LabelFiles | None = None) -> Iterator[list[Hashing]]:
    """Hash files on one thread during the block (more threads are no faster), or each shard where the engine runs.

    Embeddings at URLs are hashed as they are read, so that they are not transferred twice.

    Parameters
    ----------
    embeddings : open sources, and by which algorithm each is hashed
    labels : open files of labels, which are hashed by SHA-256

    Yields
    ------
    the hash of each, in that order
    """
    is_over, engine = threading.Event(), current_engine()

    def is_wanted() -> bool:
        return not is_over.is_set()

    with ThreadPoolExecutor(1) as pool:
        hashed = list[Hashing]()
        for each, algorithm in embeddings.items():
            work = partial(_hashed, each, algorithm, is_wanted, engine)
            is_read_once = engine.shares_memory and each.hash_as_read(algorithm)
            hashed.append(_Last(work) if is_read_once else pool.submit(work))
        try:
            if labels is not None:
                hashed.append(pool.submit(_hashed, labels, "sha256", is_wanted, engine))
            yield hashed
        finally:
            is_over.set()  # raise at once, not when a large file has been hashed
            pool.shutdown(cancel_futures=True)


def _hashed(file: Source | LabelFiles, algorithm: str, is_wanted: Callable[[], bool], engine: Engine) -> FileHash:
    if engine.shares_memory or isinstance(file, LabelFiles):
        return FileHash(algorithm, file.digest(algorithm, is_wanted))
    for _ in itertools.takewhile(lambda _: is_wanted(), _hashes(file.shards, algorithm, engine)):
        pass
    return FileHash(algorithm, digest_of([shard.digests.get(algorithm, "") for shard in file.shards], algorithm))


def hash_shards(shards: Sequence[Shard], algorithm: str) -> None:
    """Hash the files of shards where the current engine runs, several at a time; those that are known are not."""
    for _ in _hashes(shards, algorithm, current_engine()):
        pass


def shard_digest(shard: Shard, algorithm: str) -> str:
    """Return the hash of the file of a shard, computed where the current engine runs unless it is known."""
    hash_shards([shard], algorithm)
    return shard.digests[algorithm]


def _hashes(shards: Sequence[Shard], algorithm: str, engine: Engine) -> Iterator[str]:
    unknown = [shard for shard in shards if algorithm not in shard.digests]
    for shard, digest in zip(unknown, engine.map(partial(_digest, algorithm), unknown), strict=True):
        shard.digests[algorithm] = digest
        yield digest


def _digest(algorithm: str, shard: Shard) -> str:
    return shard.digest(algorithm)

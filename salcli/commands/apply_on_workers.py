"""`apply` to a folder on a cluster: each worker writes whole shards, which the client renames and records.

Workers write into a hidden folder of this run, in the folder of the outputs: a task that outlives its client, or runs
twice, never touches a shard that is finished. In a store of objects, which has no renames, they upload whole shards.
"""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from salcli.commands.erased_rows import Streamed
from salcli.data.source import Reader, Source
from salcli.errors import collected_warnings
from salcli.formats import atomic
from salcli.formats.keys import KeyCensus
from salcli.formats.shard_folder import ALGORITHM, FileState, ShardFolder, file_digest
from salcli.formats.urls import is_url, joined
from salcli.options import ReadOptions
from salcli.streaming.cluster.tasks import SeenFile
from salcli.streaming.engine import ordered_map
from salcli.streaming.progress import Progress, Silent

PARTS = ".salcli-run-"
TRIES = 40
Erase = Callable[[Source, str, Progress, KeyCensus], Streamed]
"""Write the rows of a source, erased, to a path, and count its keys; it can be pickled."""


@dataclass(frozen=True)
class Shard:
    """A shard that a worker has written."""

    name: str
    done: Streamed
    state: FileState
    """Of its input."""
    digest: str
    """Of its input."""
    written: str
    """Digest of the shard."""
    warnings: tuple[str, ...]


def write_on_workers(
    erase: Erase,
    folder: ShardFolder,
    names: Sequence[str],
    files: Mapping[str, Sequence[Reader]],
    options: ReadOptions,
) -> Iterator[Shard]:
    """Write shards on the current engine, and yield each when it is in its place, in order.

    Parameters
    ----------
    erase : writes the rows of a source to a path; can be pickled
    folder : of the outputs, open
    names : of the shards to write
    files : readers of each input, by its path
    options : that the inputs were opened with

    Raises
    ------
    FormatError : an input is damaged, or changes meanwhile
    OutputError : an output cannot be written
    """
    with _parts(folder.path) as parts:
        items = (
            _Item(name, path, files[path], SeenFile.of(path), FileState.of(path), joined(parts, name))
            for name, path in ((name, folder.sources[name]) for name in names)
        )
        for shard in ordered_map(_Write(erase, options), items):
            place, target = joined(parts, shard.name), folder.target(shard.name)
            if place != target:
                with atomic.writing(target):
                    os.replace(place, target)
            named = (message.replace(place, target) for message in shard.warnings)
            yield replace(shard, warnings=tuple(named))


@dataclass(frozen=True)
class _Item:
    """A shard that is to be written."""

    name: str
    path: str
    readers: Sequence[Reader]
    seen: SeenFile | None
    state: FileState
    target: str


@dataclass(frozen=True)
class _Write:
    """The work of a shard; it can be pickled."""

    erase: Erase
    options: ReadOptions

    def __call__(self, item: _Item) -> Shard:
        assert item.seen is not None
        item.seen.check()
        item.readers[0].hash_as_read(ALGORITHM)
        with collected_warnings() as found, hashed_before_upload(item.target) as uploaded:
            allow = self.options.allow_nonfinite
            with closing(Source(item.readers, allow_nonfinite=allow, path=item.path)) as source:
                done = self.erase(source, item.target, Silent(), KeyCensus())
                digest = item.readers[0].digest(ALGORITHM)  # of the whole file
            item.seen.check()
        written = done.digest or "".join(uploaded) or file_digest(item.target)
        return Shard(item.name, done, item.state, digest, written, tuple(found))


@contextmanager
def hashed_before_upload(target: str, wait: Callable[[], object] = lambda: None) -> Iterator[list[str]]:
    """Yield the hash of the shard that is written to `target` in the block, once it is known; of local files none is.

    Parameters
    ----------
    target : of the shard: what is uploaded to a URL is hashed before, as reading it again takes long
    wait : called before the shard appears
    """
    found = list[str]()

    def before(temporary: str) -> None:
        wait()
        if is_url(target):
            found.append(file_digest(temporary))

    with atomic.appearing_after(before):
        yield found


@contextmanager
def _parts(folder: str) -> Iterator[str]:
    """Create a hidden folder for the time of the block, and remove those that killed runs have left.

    In a store, yield the folder itself.
    """
    if is_url(folder):
        yield folder
        return
    with atomic.writing(folder):
        for left in (each for each in os.listdir(folder) if each.startswith(PARTS)):
            shutil.rmtree(os.path.join(folder, left), ignore_errors=True)
        parts = os.path.join(os.path.abspath(folder), PARTS + uuid.uuid4().hex)
        os.mkdir(parts)
    try:
        yield parts
    finally:
        _removed(parts)


def _removed(folder: str) -> None:
    """Remove a folder in which a task that nobody waits for may be writing."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.05)

"""`apply` to a folder where inputs or outputs are objects of a store: nothing is transferred twice.

An input is hashed as it is read. An output at a URL is written into a temporary file here, hashed, and uploaded while
the next shard is read.
"""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from salcli.commands.apply_on_workers import Erase, Shard
from salcli.errors import collected_warnings
from salcli.formats.keys import KeyCensus
from salcli.formats.registry import OpenFile
from salcli.formats.shard_folder import ALGORITHM, FileState, ShardFolder, file_digest
from salcli.formats.url_folder import UrlFolder
from salcli.formats.urls import is_url, upload
from salcli.options import ReadOptions
from salcli.streaming.progress import Progress


def write_at_urls(
    erase: Erase,
    folder: ShardFolder,
    names: Sequence[str],
    files: Mapping[str, OpenFile],
    options: ReadOptions,
    progress: Callable[[], Progress],
    census: KeyCensus,
) -> Iterator[Shard]:
    """Write shards in this process, one after the other, and yield each when it is in its place, in order.

    Parameters
    ----------
    erase : writes the rows of a source to a path
    folder : of the outputs, open
    names : of the shards to write
    files : the inputs, open, by their paths
    options : that the inputs were opened with
    progress : returns what shows the rows of the next shard
    census : counts the keys

    Raises
    ------
    FormatError : an input is damaged, or changes meanwhile
    OutputError : an output cannot be written, or another run has begun to write the folder
    """
    waiting: deque[Future[Shard]] = deque()
    with tempfile.TemporaryDirectory(prefix="salcli-") as temporary, ThreadPoolExecutor(1) as pool:
        for name in names:
            path, target = folder.sources[name], folder.target(name)
            state, file = FileState.of(path), files[path].file
            place = os.path.join(temporary, name) if is_url(target) else target
            file.hash_as_read(ALGORITHM)
            with collected_warnings() as found, closing(files[path].source(options)) as source:
                done = erase(source, place, progress(), census)
                digest = file.digest(ALGORITHM)
            state.require(path)
            messages = tuple(message.replace(place, target) for message in found)
            while waiting:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_finished, folder, Shard(name, done, state, digest, "", messages), place))
        while waiting:
            yield waiting.popleft().result()


def _finished(folder: ShardFolder, shard: Shard, place: str) -> Shard:
    """Return a shard with the digest of what was written to `place`, which is uploaded if its target is a URL."""
    written, target = shard.done.digest or file_digest(place), folder.target(shard.name)
    if isinstance(folder, UrlFolder):
        folder.require_own()
        upload(place, target)
        os.unlink(place)
    return replace(shard, written=written)

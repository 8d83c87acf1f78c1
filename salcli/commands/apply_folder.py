"""`apply` to a folder or glob of shards: into a folder of the same names, which a later run completes."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from salcli.data.source import Source
from salcli.errors import FormatError, UsageError
from salcli.formats import atomic, registry
from salcli.formats.keys import KeyCensus
from salcli.formats.registry import COMPRESSED_SUFFIX, READ_ONLY_SUFFIXES, OpenFile, open_source
from salcli.formats.shard_folder import FileState, ShardFolder, file_digest
from salcli.formats.shards import is_several, suffix_of
from salcli.options import ReadOptions
from salcli.streaming.engine import map_in_threads
from salcli.streaming.progress import Advance, Progress, Silent

Erase = Callable[[Source, str, Progress, KeyCensus], int]
"""Write the rows of a source, erased, to a path; count its keys; return its rows."""


def goes_to_folder(embeddings: str, target: str) -> bool:
    """Return whether the output is a folder: the input is several files, and the output no name of one file.

    Parameters
    ----------
    embeddings, target : paths of the input and the output
    """
    if not is_several(embeddings) or atomic.is_special(target):
        return False
    known = {suffix for one in registry.FORMATS for suffix in one.suffixes} | registry.FOREIGN_SUFFIXES
    return target.endswith(os.sep) or os.path.isdir(target) or suffix_of(target) not in known


def output_names(paths: Sequence[str], before: str, after: str) -> dict[str, str]:
    """Return the input of each output, by the output's name: that of the input, with the suffix of its format.

    Parameters
    ----------
    paths : of the inputs
    before, after : names of the formats of inputs and outputs

    Raises
    ------
    UsageError : two of them would have one name
    """
    found: dict[str, str] = {}
    for path in paths:
        name = os.path.basename(path)
        name = Path(name).stem if Path(name).suffix in READ_ONLY_SUFFIXES else name
        if before != after:
            plain = name.removesuffix(COMPRESSED_SUFFIX)
            name = plain.removesuffix(Path(plain).suffix) + registry.named(after).suffixes[0]
        if name in found:
            raise UsageError(f"{found[name]} and {path} would both be written to {name}: give the folders one by one")
        found[name] = path
    return found


def erase_folder(
    files: Mapping[str, OpenFile],
    folder: ShardFolder,
    erase: Erase,
    embeddings: str,
    options: ReadOptions,
    progress: Progress,
) -> tuple[int, int]:
    """Write the shards of a folder that are missing or do not match its record.

    The next shard is written while input and output of the last one are hashed.

    Parameters
    ----------
    files : the inputs, open, by their paths
    folder : of the outputs
    erase : writes one of them
    embeddings : the folder or glob of the inputs
    options : that they were opened with
    progress : shows the rows

    Returns
    -------
    rows of all shards, and how many shards were kept

    Raises
    ------
    FormatError : an input is damaged, or changes meanwhile
    OutputError : an output cannot be written
    """

    def each(function: Callable[[str], bool], names: Sequence[str]) -> list[bool]:
        with progress.stage("check", len(names), "shards written before") as advance:
            results = []
            for result in map_in_threads(function, names):
                results.append(result)
                advance(1)
        return results

    census, said = KeyCensus(), set[str]()
    waiting: deque[tuple[str, int, FileState, Future[str], Future[str]]] = deque()

    def settle(most: int) -> None:
        while len(waiting) > most:
            name, n, state, digest, written = waiting.popleft()
            folder.add(name, n, state, digest.result(), written.result())

    total = sum(reader.n for file in files.values() for reader in file.readers)
    with folder.opened(each), ThreadPoolExecutor(1) as pool:
        missing = set(folder.missing)
        with (progress if missing else Silent()).stage("apply", total) as advance:
            for name, path in folder.sources.items() if missing else ():
                file, target = files[path], folder.target(name)
                if name not in missing:
                    for keys in Source(file.readers).key_batches():
                        census.add(keys)
                    advance(folder.rows(name))
                    continue
                state = FileState.of(path)
                digest = pool.submit(file_digest, path)
                with _said_once(said, path, target), closing(file.source(options)) as source:
                    n = erase(source, target, _Within(progress, advance), census)
                if FileState.of(path) != state:
                    raise FormatError(f"{path}: changed while it was read")
                waiting.append((name, n, state, digest, pool.submit(file_digest, target)))
                settle(1)
        settle(0)
    if census.repeated():
        with closing(open_source(embeddings, replace(options, allow_nonfinite=False))) as whole:
            census.warn(whole.path, whole.key_batches, whole.place)
    return sum(folder.rows(name) for name in folder.sources), len(folder.sources) - len(missing)


class _Within:
    """The progress of a shard, whose rows count in the stage of all; what follows them is not shown."""

    def __init__(self, outer: Progress, advance: Advance) -> None:
        self._outer, self._advance = outer, advance

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage of the shard (see `Progress.stage`)."""
        advance, self._advance = self._advance, lambda _: None
        yield advance

    def say(self, message: str) -> None:
        """Show `message`."""
        self._outer.say(message)


@contextmanager
def _said_once(said: set[str], *paths: str) -> Iterator[None]:
    """Issue warnings in the block that differ from those in `said` in more than the `paths` of the shard."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        kind = str(each.message)
        for path in paths:
            kind = kind.replace(path, "")
        if kind not in said:
            said.add(kind)
            warnings.warn(each.message, each.category, stacklevel=2)

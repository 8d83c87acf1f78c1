"""`apply` to a folder or glob of shards: into a folder of the same names, which a later run completes."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from salcli.commands.apply_on_threads import Within, write_on_threads
from salcli.commands.apply_on_workers import Erase, Shard, write_on_workers
from salcli.commands.erased_rows import Streamed
from salcli.data.source import Source
from salcli.errors import UsageError, warn
from salcli.formats import atomic, registry
from salcli.formats.keys import KeyCensus
from salcli.formats.registry import COMPRESSED_SUFFIX, READ_ONLY_SUFFIXES, OpenFile, open_source
from salcli.formats.shard_folder import ShardFolder
from salcli.formats.shards import is_folder, is_several, suffix_of
from salcli.formats.urls import name_in
from salcli.options import ReadOptions
from salcli.streaming.engine import current_engine, map_in_threads
from salcli.streaming.progress import Advance, Progress


def goes_to_folder(embeddings: str, target: str) -> bool:
    """Return whether the output is a folder: the input is several files, and the output no name of one file.

    Parameters
    ----------
    embeddings, target : paths of the input and the output
    """
    if not is_several(embeddings) or atomic.is_special(target):
        return False
    known = {suffix for one in registry.FORMATS for suffix in one.suffixes} | registry.FOREIGN_SUFFIXES
    return target.endswith(os.sep) or suffix_of(target) not in known or is_folder(target)


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
        name = name_in(path)
        name = Path(name).stem if Path(name).suffix in READ_ONLY_SUFFIXES else name
        if before != after:
            plain = name.removesuffix(COMPRESSED_SUFFIX)
            name = plain.removesuffix(Path(plain).suffix) + next(iter(registry.named(after).suffixes), "")
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
) -> tuple[Streamed, int]:
    """Write the shards of a folder that are missing or do not match its record.

    Several are written at the same time (see `apply_on_threads`); on a cluster, workers write them.

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
    what was written, and how many shards were kept

    Raises
    ------
    FormatError : an input is damaged, or changes meanwhile
    OutputError : an output cannot be written
    """

    def each(function: Callable[[str], bool], names: Sequence[str]) -> list[bool]:
        unit = f"{'shard' if len(names) == 1 else 'shards'} written before"
        with progress.stage("check", len(names), unit) as advance:
            results = []
            for result in map_in_threads(function, names):
                results.append(result)
                advance(1)
        return results

    run, done = _Run(files, folder, erase, options, progress), Streamed(0)
    total = sum(file.n for file in files.values())
    with folder.opened(each):
        if missing := folder.missing:
            with progress.stage("apply", total) as advance:
                for name in folder.sources:
                    if name not in missing:
                        run.count_keys(name)
                        advance(folder.rows(name))
                write = run.here if current_engine().shares_memory else run.on_workers
                done = sum(write(missing, advance), done)
    if run.census.repeated():
        with closing(open_source(embeddings, replace(options, allow_nonfinite=False))) as whole:
            run.census.warn(whole.path, whole.key_batches, whole.place)
    return done, len(folder.sources) - len(missing)


@dataclass(frozen=True)
class _Run:
    """The shards that are written, and what is found meanwhile."""

    files: Mapping[str, OpenFile]
    folder: ShardFolder
    erase: Erase
    options: ReadOptions
    progress: Progress
    census: KeyCensus = field(default_factory=KeyCensus)
    said: set[str] = field(default_factory=set)
    """Warnings, without paths."""

    def here(self, names: Sequence[str], advance: Advance) -> Iterator[Streamed]:
        """Write shards in this process (see `write_on_threads`)."""
        shown = Within(self.progress, advance)
        for shard, keys in write_on_threads(self.erase, self.folder, names, self.files, self.options, shown):
            self._settle(shard)
            self.census.extend(keys)
            yield shard.done

    def on_workers(self, names: Sequence[str], advance: Advance) -> Iterator[Streamed]:
        """Write shards on the workers of a cluster, several at a time."""
        readers = {path: file.readers for path, file in self.files.items()}
        for shard in write_on_workers(self.erase, self.folder, names, readers, self.options):
            self._settle(shard)
            self.count_keys(shard.name)
            advance(shard.done.n)
            yield shard.done

    def _settle(self, shard: Shard) -> None:
        """Issue the warnings of a shard that is in its place, and record it."""
        with _said_once(self.said, self.folder.sources[shard.name], self.folder.target(shard.name)):
            for message in shard.warnings:
                warn(message)
        self.folder.add(shard.name, shard.done.n, shard.state, shard.digest, shard.written)

    def count_keys(self, name: str) -> None:
        """Count the keys of the input of the shard `name`."""
        for keys in Source(self.files[self.folder.sources[name]].readers).key_batches():
            self.census.add(keys)


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

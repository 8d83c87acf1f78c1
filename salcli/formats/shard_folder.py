"""`ShardFolder`: a folder of outputs, one for each shard of the input, with a record by which a later run goes on.

The record, `_salcli.json`, says how the shards were written and from what, and is written anew as they are finished.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import salcli
from salcli.data.hashes import CHECKSUM
from salcli.errors import FormatError, OutputError, UsageError
from salcli.formats import atomic
from salcli.formats.files import ByteFile, changed
from salcli.formats.shards import RECORD, SCHEMA, matches, read_record, suffix_of
from salcli.formats.urls import Stored, is_url, joined, name_in

LOCK = ".salcli.lock"
ALGORITHM = CHECKSUM  # who could forge a shard could write the record too, and BLAKE3 takes a third of the whole time
REST = 20  # times as long as writing the record took, before it is written again
Each = Callable[[Callable[[str], bool], Sequence[str]], Sequence[bool]]


@dataclass(frozen=True)
class FileState:
    """What shows that a file was changed, without reading it."""

    size: int
    mtime_ns: int | None
    """Of a local file."""
    version: str | None = None
    """Of an object at a URL, if its store says so (see `Stored`)."""

    @classmethod
    def of(cls, path: str, *, is_current: bool = False) -> Self:
        """Return the state of the input at `path` (`is_current`: see `Stored.of`).

        Raises
        ------
        FormatError : there is none
        """
        if is_url(path):
            stored = Stored.of(path, is_current=is_current)
            return cls(stored.size, None, stored.version)
        try:
            found = os.stat(path)
        except OSError as error:
            raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
        return cls(found.st_size, found.st_mtime_ns)

    def to_dict(self) -> dict[str, Any]:
        """Return what is known, as the record has it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def is_of(self, record: Mapping[str, Any]) -> bool:
        """Return whether an entry of the `record` is of a file in this state, as far as that is known."""
        known = self.to_dict()
        return len(known) > 1 and all(record.get(name) == value for name, value in known.items())

    def require(self, path: str) -> None:
        """Check that the input at `path` still has this state.

        Raises
        ------
        FormatError : it has not
        """
        if FileState.of(path, is_current=True) != self:
            raise changed(path)


def file_digest(path: str) -> str:
    """Return the hash of the file at `path` as it is on the disk."""
    with contextlib.closing(ByteFile.open(path, is_refused=False)) as file:
        return file.digest(ALGORITHM)


class ShardFolder:
    """The shards of a folder while one run writes them."""

    def __init__(self, path: str, about: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        """Describe what is to be written.

        Parameters
        ----------
        path : of the folder
        about : plain values that the bytes of all shards depend on
        sources : the input of each shard, by the name of the output, in order
        """
        self.path, self.sources = path, dict(sources)
        self._about: dict[str, Any] = json.loads(json.dumps(about))
        self._entries: dict[str, dict[str, Any]] = {}
        self._written: dict[str, Any] | None = None
        self._next_write = 0.0

    def target(self, name: str) -> str:
        """Return the path of the shard called `name`."""
        return joined(self.path, name)

    @property
    def missing(self) -> list[str]:
        """Names of the shards that are not written yet, in order."""
        return [name for name in self.sources if name not in self._entries]

    @property
    def n_rows(self) -> int:
        """Rows of all shards that are written."""
        return sum(map(self.rows, self._entries))

    def rows(self, name: str) -> int:
        """Return how many rows the shard called `name` has, which is written."""
        return int(self._entries[name]["n"])

    def check_place(self, embeddings: str) -> None:
        """Check, before any work starts, that the folder is new, empty, or one that `apply` wrote.

        Parameters
        ----------
        embeddings : folder or glob of the input

        Raises
        ------
        UsageError : it is a folder of the input, in one, or around one
        OutputError : it is no folder, its own folder does not exist, or other files are in the way
        """
        self._check_apart(embeddings)
        record = read_record(self.path)
        if record is None:
            if others := sorted(name for name in self._names() if not name.startswith(".")):
                raise OutputError(
                    f"{self.path}: holds {', '.join(others[:3])}{' …' if others[3:] else ''} and no {RECORD}: "
                    "name a new folder"
                )
            return
        own, suffixes = {shard["name"] for shard in record["shards"]}, {suffix_of(name) for name in self.sources}
        for name in map(name_in, matches(self.path)):
            is_foreign, is_source = name not in own, name in self.sources
            if is_foreign and (is_source or suffix_of(name) in suffixes):
                raise OutputError(f"{self.target(name)}: was not written by apply: move it, or name another folder")
            if not is_foreign and not is_source:
                raise OutputError(
                    f"{self.target(name)}: is of a shard that {embeddings} no longer has: remove it, or name another "
                    "folder"
                )

    def _check_apart(self, embeddings: str) -> None:
        """Check that the folder can be written, and is none of the input (see `check_place`)."""
        atomic.check_folder(self.path)
        inputs = [os.path.realpath(path) for path in (*self.sources.values(), embeddings) if not is_url(path)]
        real = os.path.realpath(self.path)
        if any(_is_in(path, real) or _is_in(real, path) for path in inputs):
            raise self._not_apart(embeddings)

    def _not_apart(self, embeddings: str) -> UsageError:
        return UsageError(f"{self.path}: the input {embeddings} is in this folder, or it in the input: name another")

    def _names(self) -> list[str]:
        """Return the names of what is in the folder."""
        return os.listdir(self.path) if os.path.isdir(self.path) else []

    @contextlib.contextmanager
    def opened(self, each: Each) -> Iterator[Self]:
        """Write the folder in the block; shards that an earlier run wrote are kept where all is as it was.

        Parameters
        ----------
        each : calls a function with each of several names, and returns the results

        Raises
        ------
        OutputError : another run writes it, or the disk refuses
        """
        is_new = not os.path.isdir(self.path)
        with atomic.writing(self.path):
            os.makedirs(self.path, exist_ok=True)
        try:
            with self._locked():
                atomic.remove_leftovers(self.path, [*self.sources, RECORD])
                with self._recorded(each, is_new=is_new):
                    yield self
        finally:
            if is_new:
                with contextlib.suppress(OSError):
                    os.rmdir(self.path)  # where nothing was written

    @contextlib.contextmanager
    def _recorded(self, each: Each, *, is_new: bool) -> Iterator[None]:
        """Keep what an earlier run wrote, and write the record before and after the block, and where it fails.

        The record goes away only with a new folder in which no shard is.
        """
        self._written = read_record(self.path)
        self._keep(self._written, each)
        for path in filter(os.path.islink, map(self.target, self.missing)):
            raise OutputError(f"{path}: is a link to another file, which apply would replace: remove the link")
        try:
            if self.missing:
                self._write(is_complete=False)
            yield
            if self._record(is_complete=True) != self._written:
                self._write(is_complete=True)
        except BaseException:
            with contextlib.suppress(OSError, OutputError):  # of the first error only
                if self._entries:
                    self._write(is_complete=False)
                elif is_new and not self._may_have_shards():
                    os.unlink(self.target(RECORD))
            raise

    def require_own(self) -> None:
        """Check that no other run has begun to write the folder: here a lock sees to that."""

    def add(self, name: str, n: int, source: FileState, digest: str, written: str) -> None:
        """Record a shard that is written, and write the record unless it was written a moment ago.

        Parameters
        ----------
        name : of the shard
        n : its rows
        source : the state of its input when that was opened
        digest, written : of the input and of the shard
        """
        target = FileState.of(self.target(name))
        self._entries[name] = {
            "name": name,
            "n": n,
            "source": {"name": name_in(self.sources[name]), **source.to_dict(), "hash": _hash(digest)},
            "output": {**replace(target, mtime_ns=None).to_dict(), "hash": _hash(written)},
        }
        if time.monotonic() >= self._next_write:
            self._write(is_complete=False)

    def _keep(self, record: dict[str, Any] | None, each: Each) -> None:
        """Take over the entries of the record whose shards are as they were written, from inputs as they were."""
        if record is None or {name: record.get(name) for name in self._about} != self._about:
            return
        entries = {shard["name"]: shard for shard in record["shards"]}
        names = [name for name in self.sources if "output" in entries.get(name, {})]

        def is_kept(name: str) -> bool:
            try:
                return self._is_as_recorded(name, entries[name])
            except (KeyError, TypeError, FormatError):  # the record is damaged, or the file has gone
                return False

        for name, is_whole in zip(names, each(is_kept, names), strict=True):
            if is_whole:
                source = entries[name]["source"] | FileState.of(self.sources[name]).to_dict()
                self._entries[name] = entries[name] | {"source": source}

    def _is_as_recorded(self, name: str, entry: dict[str, Any]) -> bool:
        source, target = FileState.of(self.sources[name]), FileState.of(self.target(name))
        known, written = entry["source"], entry["output"]
        if (known["name"], known["size"]) != (name_in(self.sources[name]), source.size):
            return False
        if target.size != written["size"] or not isinstance(entry["n"], int):
            return False
        is_same = source.is_of(known) or known["hash"] == _hash(file_digest(self.sources[name]))
        is_whole = replace(target, mtime_ns=None).is_of(written)  # of a local file its digest alone shows that
        return bool(is_same and (is_whole or written["hash"] == _hash(file_digest(self.target(name)))))

    def _record(self, *, is_complete: bool) -> dict[str, Any]:
        shards = [self._entries.get(name, {"name": name}) for name in self.sources]
        return {
            "schema": SCHEMA,
            "complete": is_complete,
            "salcli": salcli.__version__,
            **self._about,
            "n": sum(shard.get("n", 0) for shard in shards),
            "shards": shards,
        }

    def _write(self, *, is_complete: bool) -> None:
        start, record = time.monotonic(), self._record(is_complete=is_complete)
        with atomic.replacing(self.target(RECORD)) as temporary, open(temporary, "w", encoding="ascii") as handle:
            handle.write(_spelt(record))
        self._written = record
        self._next_write = time.monotonic() + REST * (time.monotonic() - start)

    def _may_have_shards(self) -> bool:
        """Return whether a shard may be in its place, though none is recorded: the record then says what is missing."""
        return any(os.path.lexists(self.target(name)) for name in self.sources)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder against other runs; the system unlocks it when the process ends, however it does."""
        path = self.target(LOCK)
        busy = OutputError(f"{self.path}: another salcli apply is writing this folder")
        with atomic.writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with atomic.writing(path):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise busy from None
            if not os.path.exists(path) or os.stat(path).st_ino != os.fstat(handle).st_ino:
                raise busy  # it ended, and took the file away, after it was opened here
            try:
                yield
            finally:
                os.unlink(path)
        finally:
            os.close(handle)


def _spelt(record: dict[str, Any]) -> str:
    """Return a record as JSON with a line for each shard: with indents, json takes seconds for thousands of them."""
    head = json.dumps({name: value for name, value in record.items() if name != "shards"}, indent=1)
    shards = ",\n".join(f"  {json.dumps(shard)}" for shard in record["shards"])
    return f'{head.removesuffix("}").rstrip()},\n "shards": [\n{shards}\n ]\n}}\n'


def _is_in(path: str, folder: str) -> bool:
    """Return whether a real path is that of a folder, or of something in it."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def _hash(digest: str) -> dict[str, Any]:
    return {"algorithm": ALGORITHM, "digest": digest}

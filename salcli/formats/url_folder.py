"""`UrlFolder`: a folder of outputs in a store of objects, which has neither locks nor renames.

A run writes its number into the record, and goes on only while that is there: of two runs at once the one that began
later goes on. Each shard appears whole, when its upload ends.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Self

from salcli.errors import OutputError
from salcli.formats.shard_folder import Each, ShardFolder
from salcli.formats.shards import read_record
from salcli.formats.urls import is_url, listed, located, name_in


class UrlFolder(ShardFolder):
    """The shards of a folder at a URL while one run writes them (see `ShardFolder`)."""

    def __init__(self, path: str, about: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        super().__init__(path, about, sources)
        self._run = uuid.uuid4().hex

    @contextlib.contextmanager
    def opened(self, each: Each) -> Iterator[Self]:
        """Write the folder in the block (see `ShardFolder.opened`).

        Raises
        ------
        OutputError : a run that began later writes it, or the store refuses
        """
        with self._recorded(each, is_new=read_record(self.path) is None):
            yield self

    def require_own(self) -> None:
        """Check that no other run has begun to write the folder.

        Raises
        ------
        OutputError : another one has
        """
        record = read_record(self.path)
        if record is None or record.get("run") != self._run:
            raise OutputError(f"{self.path}: another salcli apply, which began later, is writing this folder")

    def _check_apart(self, embeddings: str) -> None:
        system, own = located(self.path)
        for url in (each for each in (*self.sources.values(), embeddings) if is_url(each)):
            other, path = located(url)
            if other == system and (_is_in(path, own) or _is_in(own, path)):
                raise self._not_apart(embeddings)

    def _names(self) -> list[str]:
        return list(map(name_in, listed(self.path)))

    def _record(self, *, is_complete: bool) -> dict[str, Any]:
        record = super()._record(is_complete=is_complete)
        return record if is_complete else {"run": self._run, **record}

    def _write(self, *, is_complete: bool) -> None:
        if self._has_begun:
            self.require_own()
        super()._write(is_complete=is_complete)

    @property
    def _has_begun(self) -> bool:
        return self._written is not None and self._written.get("run") == self._run

    def _may_have_shards(self) -> bool:
        """Return True: an upload that failed here, or that a worker began, may still end well."""
        return True


def _is_in(path: str, folder: str) -> bool:
    return path.rstrip("/") == folder.rstrip("/") or path.startswith(f"{folder.rstrip('/')}/")

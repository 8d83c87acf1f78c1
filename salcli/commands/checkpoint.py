"""`fit --checkpoint`: the moments of each shard in a folder, for a run that starts again."""

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from salcli.commands.header import describe_inputs, joint_name
from salcli.commands.moments import Design, header_of_shard, keys_of
from salcli.data.hashes import digest_of
from salcli.data.labels import GuardedLabels, Index
from salcli.data.source import Shard
from salcli.errors import FormatError, OutputError
from salcli.formats.files import ByteFile, absolute
from salcli.formats.label_files import label_files
from salcli.formats.moments import read_header, read_sums, write_moments
from salcli.formats.urls import Stored, check_store, exists, is_url, joined, name_in
from salcli.streaming.hashing import hash_shards, shard_digest
from salcli.streaming.passes import LabelledSource


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Sums of shards in a folder (see `Kept`), each in a moments file; one that does not match is replaced."""

    folder: str
    algorithm: str
    """Of the hash of shards, or none."""
    shards: tuple[Shard, ...]
    """Of the parts, in order."""
    headers: tuple[dict[str, Any], ...]
    """What the moments of each have to say, without the inputs' hashes and the bound on rounding."""
    rows: LabelledSource
    table: GuardedLabels
    fitted: Index
    """See `of`."""

    @classmethod
    def of(
        cls, folder: str, algorithm: str, design: Design, rows: LabelledSource, table: GuardedLabels, fitted: Index
    ) -> Self:
        """Return the checkpoint of a fit, and make its folder.

        Parameters
        ----------
        folder : of the moments
        algorithm : of the hash of shards, or none
        design : of the moments
        rows : all labelled rows, with the task if one is kept
        table : all labels
        fitted : `[n]` those of them that are fitted, in the order of the labels of `rows`

        Raises
        ------
        UsageError : no outputs go to such a store
        OutputError : the folder cannot be created
        """
        _make(folder)
        shards, headers, digest = list[Shard](), list[dict[str, Any]](), functools.cache(_sha256)
        for part in rows.by_shard():
            shard = part.source.shards[0]
            inputs = {
                "embeddings": {**describe_inputs(part.source, table)["embeddings"], **_state(shard)},
                "labels": _labels_of(shard, rows.source.shards, table, digest),
            }
            chosen = _fitted_of(shard, rows, fitted)
            headers.append({**header_of_shard(design, part, table, chosen, shard.first), "inputs": inputs})
            shards.append(shard)
        found = cls(folder, algorithm, tuple(shards), tuple(headers), rows, table, fitted)
        found.hash_kept()
        return found

    def hash_kept(self) -> None:
        """Hash the files of shards whose sums are there, several at a time."""
        if self.algorithm != "none":
            numbers = (n for n in range(len(self.shards)) if any(_exists(self._path(n, b)) for b in (False, True)))
            hash_shards([self.shards[number] for number in numbers], self.algorithm)

    def has(self, number: int, *, is_exact: bool) -> bool:
        """Return whether the sums of a shard are there, of the same file, labels and design (see `Kept`)."""
        try:
            found = read_header(self._path(number, is_exact))
        except FormatError:  # none, or one that cannot be read
            return False
        expected = {**self.headers[number], "is_exact": is_exact}
        hashed = found["inputs"]["embeddings"].pop("hash")
        if any(found[name] != expected[name] for name in expected):
            return False
        is_known = hashed is not None or expected["inputs"]["embeddings"]["size"] is not None
        return is_known and bool(hashed == self._hash(number))

    def load(self, number: int, *, is_exact: bool) -> bytes:
        """Return the sums of a shard.

        Raises
        ------
        FormatError : they are damaged
        """
        path = self._path(number, is_exact)
        return read_sums(path, read_header(path))

    def keep(self, number: int, sums: bytes, rounding: float, *, is_exact: bool) -> None:
        """Write the moments of a shard.

        Raises
        ------
        OutputError : they cannot be written
        """
        header = {**self.headers[number], "is_exact": is_exact, "rounding": rounding}
        inputs = header["inputs"]
        header["inputs"] = {**inputs, "embeddings": {**inputs["embeddings"], "hash": self._hash(number)}}
        keys = keys_of(self.table, _fitted_of(self.shards[number], self.rows, self.fitted))
        write_moments(self._path(number, is_exact), header, sums, keys)

    def _hash(self, number: int) -> dict[str, str] | None:
        if self.algorithm == "none":
            return None
        return {"algorithm": self.algorithm, "digest": shard_digest(self.shards[number], self.algorithm)}

    def _path(self, number: int, is_exact: bool) -> str:
        path = self.shards[number].reader.path
        place = hashlib.sha256(os.fsencode(absolute(path))).hexdigest()[:12]  # names may be those of others
        kind = "exact." if is_exact else ""
        return joined(self.folder, f"{name_in(path)}.{place}.{kind}npz")


def _make(folder: str) -> None:
    if is_url(folder):
        check_store(folder)
        return
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot create this folder: {error.strerror}") from error


def _exists(path: str) -> bool:
    return exists(path) if is_url(path) else os.path.exists(path)


def _fitted_of(shard: Shard, rows: LabelledSource, fitted: Index) -> Index:
    """Return those of the `fitted` labels that belong to rows of a shard, ascending."""
    return np.sort(fitted[rows.rows.between(shard.first, shard.first + shard.reader.n).index])


def _labels_of(
    shard: Shard, shards: Sequence[Shard], table: GuardedLabels, digest: Callable[[str], str]
) -> dict[str, Any]:
    """Return the record of the labels of a shard: of its own file where each has one, else of all."""
    parts = list(table.parts) or [(table.path, len(table))]
    if table.keys is None and len(parts) == len(shards):
        parts = [parts[shards.index(shard)]]
    paths = [path for path, _ in parts]
    files = paths if table.parts else label_files(table.path)  # a folder may have one file
    sha256 = digest_of([digest(file) for file in files], "sha256")
    return {"name": joint_name(paths), "n": sum(n for _, n in parts), "sha256": sha256}


def _sha256(path: str) -> str:
    with closing(ByteFile.open(path, may_be_wide=True, is_refused=False)) as file:
        return file.digest("sha256")


def _state(shard: Shard) -> dict[str, Any]:
    """Return size and time of change of the file of a shard, or what its store says; None where it is neither."""
    container = getattr(shard.reader.innermost, "container", None)
    place = shard.reader.path if container is None else container.place
    if is_url(place):
        stored = Stored.of(place)
        return {"size": stored.size if stored.version else None, "changed": stored.version}
    try:
        found = os.stat(place)
    except OSError:
        return {"size": None, "changed": None}
    return {"size": found.st_size, "changed": str(found.st_mtime_ns)}

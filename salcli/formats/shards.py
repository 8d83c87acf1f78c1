"""Folders and globs of files: which files are meant, in natural order, and whether a folder of outputs is whole.

Names that begin with `.` or `_` are never shards, as in Spark, Arrow and Hive; nor are erasers.
"""

import glob
import json
import os
import re
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from salcli.errors import FormatError
from salcli.formats import urls
from salcli.formats.npz_archive import is_artifact

RECORD = "_salcli.json"
"""Beside the shards that `apply` wrote: how, and whether all are there."""
SCHEMA = "salcli.shards/1"
PACKED = (".gz", ".bz2", ".xz")
HANDLES = 256  # of a process beside its shards
LISTED = 3  # names in a message
Kinds = Mapping[str, str]
"""The kind of a file by its suffix."""


def is_several(path: str) -> bool:
    """Return whether `path` is a folder or a glob rather than one file."""
    if urls.is_url(path):
        return urls.is_several(path)
    return os.path.isdir(path) or (glob.has_magic(path) and not os.path.lexists(path))


def is_folder(path: str) -> bool:
    """Return whether `path`, a file or one of which `is_several` is true, is a folder."""
    return urls.is_several(path) and urls.is_folder(path) if urls.is_url(path) else os.path.isdir(path)


def plain_name(path: str) -> str:
    """Return `path` of a folder without slashes at its end; others, and URLs, as they are."""
    return path.rstrip(os.sep) or path if is_several(path) and not urls.is_url(path) else path


def natural_key(name: str) -> tuple[Any, ...]:
    """Return what sorts names so that `a_10` follows `a_9`; equal numbers (`01` and `1`) by their spelling."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)), name


def natural_order(names: Iterable[str]) -> list[str]:
    """Return `names`, numbers in them by their value."""
    return sorted(names, key=natural_key)


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name in lower case, that of a compressed file's content."""
    lower = urls.name_in(name).lower()
    packed = next((end for end in PACKED if lower.endswith(end)), "")
    return Path(lower.removesuffix(packed)).suffix


def matches(path: str) -> list[str]:
    """Return the visible files of a folder, or those that a glob matches, in natural order.

    Links to files that are not there are among them, and cannot be opened: a missing shard is an error.
    """
    if urls.is_url(path):
        found = urls.listed(path)
        if wrong := next((one for one in found if one.count("::") > path.count("::")), None):
            raise FormatError(f"{wrong}: has `::` in its name, which joins URLs: rename it")
    else:
        pattern = os.path.join(glob.escape(path), "*") if os.path.isdir(path) else path
        every = glob.glob(pattern, recursive=True)
        found = [one for one in every if os.path.isfile(one) or not os.path.exists(one)]
    return natural_order(one for one in found if urls.name_in(one)[:1] not in "._")


def shard_files(path: str, ranks: Sequence[Kinds], what: str) -> list[str]:
    """Return the files of a folder or glob that are read as one, in natural order.

    A glob means all files that it matches. Of a folder, files of one kind are meant: of the first rank of which there
    are any.

    Parameters
    ----------
    path : a folder or a glob
    ranks : kinds by suffix; those of a later rank may lie beside those of an earlier one
    what : the files, as messages name them

    Raises
    ------
    FormatError : there are none, there are several kinds, or the folder is incomplete
    """
    files, is_one_folder = matches(path), is_folder(path)
    for folder in [path] if is_one_folder else dict.fromkeys(map(urls.folder_of, files)):
        require_complete(folder)
    if not is_one_folder:
        if not files:
            raise FormatError(f"{path}: no file matches")
        return files
    suffix = next(each for kinds in ranks for each in kinds)
    for kinds in ranks:
        chosen = [one for one in files if suffix_of(one) in kinds and not _is_eraser(one)]
        first_of = {kinds[suffix_of(one)]: urls.name_in(one) for one in reversed(chosen)}
        if len(first_of) > 1:
            shown, such = " and ".join(natural_order(first_of.values())), urls.joined(path, f"*{suffix}")
            raise FormatError(f"{path}: {what} of several formats ({shown}): choose by a glob, such as '{such}'")
        if chosen:
            return chosen
    such = urls.joined(path, f"*/*{suffix}")
    raise FormatError(f"{path}: is a folder without {what} (a glob such as '{such}' reaches deeper ones)")


def _is_eraser(path: str) -> bool:
    return urls.name_in(path).lower().endswith(".npz") and is_artifact(path)


def read_record(folder: str) -> dict[str, Any] | None:
    """Return the record of a folder that `apply` wrote; None if it has none.

    Raises
    ------
    FormatError : it is damaged
    """
    path = urls.joined(folder, RECORD)
    try:
        text = urls.read_whole(path) if urls.is_url(path) else Path(path).read_bytes()
        if text is None:
            return None
        found = json.loads(text)
        names = [shard["name"] for shard in found["shards"]]
        if (schema := found["schema"]) != SCHEMA:
            raise FormatError(f"{path}: its schema is {str(schema)[:40]!r}, this salcli reads {SCHEMA!r}")
        if isinstance(found["complete"], bool) and all(isinstance(name, str) for name in names):
            return dict(found)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise FormatError(f"{path}: is no record of shards that salcli wrote")


def require_complete(folder: str) -> None:
    """Check that a folder that `apply` wrote is whole; others pass.

    Raises
    ------
    FormatError : shards are missing
    """
    record = read_record(folder)
    if record is None:
        return
    names = [shard["name"] for shard in record["shards"]]
    if urls.is_url(folder):
        missing = sorted({*names} - {*map(urls.name_in, urls.listed(folder))}, key=natural_key)
    else:
        missing = [name for name in names if not os.path.isfile(os.path.join(folder, name))]
    if not record["complete"] or missing:
        of = f"{len(missing)} of {len(names)} shards are missing" if missing else "its shards are being written"
        raise FormatError(f"{folder or '.'}: is incomplete: {of}; the same salcli apply as before writes them")


def require_recorded(folder: str, files: Sequence[str]) -> None:
    """Check that the shards of a folder that `apply` wrote are its own, of the sizes it recorded; those of others pass.

    Parameters
    ----------
    folder : or a file or glob, which pass
    files : its shards

    Raises
    ------
    FormatError : there is another file among them, or one has another size
    """
    record = read_record(folder) if is_folder(folder) else None
    if record is None:
        return
    outputs = {shard["name"]: shard.get("output") for shard in record["shards"]}
    for one in files:
        if (name := urls.name_in(one)) not in outputs:
            raise FormatError(
                f"{one}: is no shard that {RECORD} beside it records: choose by a glob, or remove the file"
            )
        known = outputs[name]
        size = known.get("size") if isinstance(known, dict) else None
        if isinstance(size, int) and not urls.is_url(one) and (found := os.path.getsize(one)) != size:
            raise FormatError(
                f"{one}: has {found:,} bytes, and had {size:,} when it was written: the same salcli apply as before "
                "writes it again"
            )


def allow_open_files(n: int) -> None:
    """Raise this process's limit on open files, as far as the system allows it, so that `n` shards stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * n + HANDLES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has another limit besides
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

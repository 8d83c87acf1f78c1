"""Outputs that are whole or absent: a sibling temporary file, fsync, then rename."""

import contextlib
import errno
import functools
import gzip
import os
import re
import resource
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from salcli.errors import OutputError, UsageError, first_line, warn
from salcli.formats.local_urls import base_of, plain
from salcli.formats.urls import check_url, is_url, located, name_in, upload

STDOUT = "-"
MOST_LINKS = 40
PIECE, GIB = 1 << 20, 1 << 30
LEFTOVER = re.compile(r"\.(.+)\.[0-9]+\.[0-9a-f]{8}(?:\.gz)?\.tmp", re.DOTALL)
NAME_BYTES = 100  # of the output's name in its temporary file's: a name may have 255


def descriptor_of(path: str) -> int | None:
    """Return the open descriptor that `path` names: 1 for `-`, `/dev/stdout` and links to it; None if it names none.

    It may be a file, but other processes may write to it too, so it must not be replaced.
    """
    for _ in range(MOST_LINKS):
        if path == STDOUT:
            return 1
        folder, name = os.path.split(path)
        if name.isdecimal() and re.fullmatch(rf"/dev/fd|/proc/{os.getpid()}(/task/\d+)?/fd", os.path.realpath(folder)):
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def is_stdout(path: str) -> bool:
    """Return whether `path` names stdout."""
    return descriptor_of(path) == 1


def is_special(path: str) -> bool:
    """Return whether `path` is stdout, a pipe or a device: it cannot be replaced, only written to."""
    if descriptor_of(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def check_output(
    path: str, inputs: Iterable[str | None], *, may_replace: str | None = None, remedy: str = "name another output"
) -> None:
    """Check, before any work starts, that an output can be written.

    Parameters
    ----------
    path : of the output
    inputs : paths of the command, of folders and globs those of their files; None is passed over
    may_replace : an input that the output may replace
    remedy : what to do instead of replacing an input, as the message ends

    Raises
    ------
    OutputError : its folder is missing or not writable, or it is a folder itself
    UsageError : it is one of the inputs (also by link) and may not replace it
    """
    if is_url(path):
        check_url(path, tuple(inputs))
    elif is_special(path):
        with writing(path):
            os.fstat(descriptor) if (descriptor := descriptor_of(path)) is not None else os.stat(path)
    else:
        _check_file(path, inputs, may_replace, remedy)


def _check_file(path: str, inputs: Iterable[str | None], may_replace: str | None, remedy: str) -> None:
    target = _real_path(path)
    folder = target.parent
    try:
        is_folder = path.endswith(os.sep) or target.is_dir()
        if not folder.is_dir():
            raise OutputError(f"{path}: the folder {os.path.dirname(path) or folder} does not exist")
    except OSError as error:  # a name that is too long
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    if is_folder:
        raise OutputError(f"{path}: is a folder, expected the name of a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {folder} is not writable")
    if not target.exists():
        return
    for source in inputs:
        if source is None or source in (STDOUT, may_replace):
            continue
        base = base_of(source) if is_url(source) else source
        if os.path.exists(base) and os.path.samefile(base, target):
            raise UsageError(f"{path}: is the input {source} itself: {remedy}")


def check_distinct(paths: Iterable[str]) -> None:
    """Check that no two outputs are one file or object, however they are spelt.

    Raises
    ------
    UsageError : two are
    """
    seen = dict[object, str]()
    for path in map(plain, paths):
        place = located(path) if is_url(path) else os.path.realpath(path)
        if not is_special(path) and place in seen:
            raise UsageError(f"{path}: is the output {seen[place]} too: name another")
        seen[place] = path


def check_folder(path: str) -> None:
    """Check, before any work starts, that a folder of outputs can be written, which need not exist yet.

    Raises
    ------
    OutputError : it is a file, it or the folder around it is not writable, or that does not exist
    """
    target = _real_path(path)
    around = target if target.is_dir() else target.parent
    if os.path.lexists(path.rstrip(os.sep)) and not target.is_dir():
        raise OutputError(f"{path}: is a file, expected a folder")
    if not around.is_dir():
        raise OutputError(f"{path}: the folder {around} does not exist")
    if not os.access(around, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {around} is not writable")


def remove_leftovers(folder: str, names: Iterable[str]) -> None:
    """Remove temporary files that killed processes left beside outputs.

    Parameters
    ----------
    folder : of the outputs, which no other process writes
    names : of the outputs
    """
    starts = {_short(name) for name in names}
    for entry in os.listdir(folder):
        found = LEFTOVER.fullmatch(entry)
        if found and found[1] in starts:
            _remove(Path(folder, entry))


def _real_path(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise OutputError(
            f"{path}: the working directory was deleted: change into another, or give a full path"
        ) from error


def _size(n_bytes: int) -> str:
    return f"{n_bytes / GIB:.3g} GiB" if n_bytes >= GIB / 100 else f"{n_bytes:,} bytes"


def require_disk_space(path: str, n_bytes: int, purpose: str) -> None:
    """Check that the disk, and the limit on a file's size (ulimit -f), have space for an output.

    Parameters
    ----------
    path : of the output
    n_bytes : that it takes
    purpose : what the output is, as the message begins

    Raises
    ------
    OutputError : they do not
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    free = shutil.disk_usage(tempfile.gettempdir() if is_url(path) else Path(os.path.realpath(path)).parent).free
    free = free if limit == resource.RLIM_INFINITY else min(free, limit)
    if n_bytes > free:
        raise OutputError(f"{path}: {purpose} takes {_size(n_bytes)}, but {_size(free)} are free")


@contextlib.contextmanager
def replacing(path: str, *, compresses: bool = False) -> Iterator[str]:
    """Yield the name of a temporary file that replaces `path` when the block ends without an error.

    A new file has the permissions of the umask, one that is replaced keeps its own; a link is followed to its file.
    If anything is raised the temporary file goes away and what was at `path` stays.

    Parameters
    ----------
    path : of the output
    compresses : write it as gzip

    Raises
    ------
    OutputError : it cannot be written
    """
    path = plain(path)
    target, temporary = _places(path)
    packed = temporary.with_suffix(".gz.tmp")
    try:
        with writing(path):
            mode = _reserve(temporary)
            with written_meanwhile(temporary):
                yield str(temporary)
            if compresses:
                _reserve(packed)
                _compress(temporary, packed)
                os.replace(packed, temporary)
            is_file = not (is_url(path) or is_special(path))
            if is_file:
                _finish(path, target, temporary, mode)
            _before_it_appears.get()(str(temporary))
            if is_file:
                os.replace(temporary, target)
                _sync_folder(target.parent)
            else:
                _pour(temporary, path)
    finally:
        _remove(temporary, packed)


_before_it_appears: ContextVar[Callable[[str], None]] = ContextVar("before_it_appears", default=lambda _: None)


@contextlib.contextmanager
def appearing_after(wait: Callable[[str], None]) -> Iterator[None]:
    """Call `wait` before a file that is written in the block, on this thread, is renamed or uploaded.

    The temporary file, whose path `wait` gets, is whole then. Whatever `wait` raises, the file does not appear.
    """
    token = _before_it_appears.set(wait)
    try:
        yield
    finally:
        _before_it_appears.reset(token)


@contextlib.contextmanager
def replacing_all(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield names of temporary files that replace all `paths` when the block ends without an error (see `replacing`).

    Files are renamed when all are on the disk, and what is not a file has been written to or uploaded; if one cannot
    be, those that were come back. So all files are replaced, or none is. Errors in the block are its own (`writing`).

    Raises
    ------
    OutputError : one of them cannot be written
    """
    places = {path: _places(path) for path in map(plain, paths)}
    files = [path for path in places if not (is_url(path) or is_special(path))]
    modes, renamed = dict[str, int](), list[tuple[Path, Path]]()
    try:
        for path, (_, temporary) in places.items():
            with writing(path):
                modes[path] = _reserve(temporary)
        yield [str(places[plain(path)][1]) for path in paths]
        for path in files:
            with writing(path):
                _finish(path, *places[path], modes[path])
        for path, (_, temporary) in places.items():
            if path not in files:
                with writing(path):
                    _pour(temporary, path)
        for path in files:
            target, temporary = places[path]
            with writing(path):
                if len(files) > 1 and target.exists():
                    _keep(target, _old(temporary))
                os.replace(temporary, target)
            renamed.append((target, _old(temporary)))
    except BaseException:
        for target, old in reversed(renamed):
            with contextlib.suppress(OSError):
                os.replace(old, target) if old.exists() else target.unlink()
        raise
    finally:
        _remove(*(path for _, temporary in places.values() for path in (temporary, _old(temporary))))
    for folder in {target.parent for target, _ in renamed}:
        _sync_folder(folder)


def _old(temporary: Path) -> Path:
    return temporary.with_suffix(".old.tmp")


def _keep(target: Path, old: Path) -> None:
    """Link a file to another name, or copy it where the file system has no links."""
    try:
        os.link(target, old)
    except OSError:
        shutil.copy2(target, old)


def _places(path: str) -> tuple[Path, Path]:
    """Return the file that a path leads to (of a URL, its name), and a name for a temporary file."""
    target = Path(name_in(path)) if is_url(path) else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if is_url(path) or is_special(path) else target.parent
    return target, folder / f".{_short(target.name)}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:NAME_BYTES])


def _finish(path: str, target: Path, temporary: Path, mode: int) -> None:
    """Set the permissions of a temporary file, and sync it to the disk."""
    if target.exists():
        old = target.stat()
        mode = stat.S_IMODE(old.st_mode)  # private files stay private
        if old.st_nlink > 1:
            warn(f"{path}: is replaced; its other names (hard links: {old.st_nlink - 1}) keep what was there")
    os.chmod(temporary, mode)
    with open(temporary, "rb") as handle:
        os.fsync(handle.fileno())


def _remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _reserve(path: Path) -> int:
    """Create an empty file, readable by its owner only, and return the permissions of the umask."""
    with open(path, "xb") as handle:
        mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
        os.fchmod(handle.fileno(), stat.S_IRUSR | stat.S_IWUSR)
    return mode


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise errors of the operating system in the block as one-line errors on the output `path`.

    Raises
    ------
    OutputError : it cannot be written
    BrokenPipeError : the reader of a pipe closed it
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or first_line(error)
        kept = "" if is_special(path) or not os.path.exists(path) else "; what was there before is unchanged"
        full = " (disk full)" if error.errno == errno.ENOSPC else ""
        raise OutputError(f"{path}: could not be written: {reason}{full}{kept}") from error


def _compress(source: Path, target: Path) -> None:
    with (
        open(source, "rb") as plain,
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
    ):
        shutil.copyfileobj(plain, packed, PIECE)


def _pour(source: Path, path: str) -> None:
    """Copy a whole file to an object of a store, or into what cannot be replaced."""
    if is_url(path):
        upload(str(source), path)
        return
    descriptor = descriptor_of(path)
    with open(source, "rb") as whole:
        if descriptor == 1:
            sys.stdout.flush()
            shutil.copyfileobj(whole, sys.stdout.buffer, PIECE)
            sys.stdout.buffer.flush()
        else:
            with open(path if descriptor is None else os.dup(descriptor), "wb") as target:
                shutil.copyfileobj(whole, target, PIECE)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot; the rename itself has happened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


TURN_SECONDS = 0.01
SYNC_FILE_RANGE_WRITE = 2
TO_ITS_END = 0
Start = Callable[[int, int, int, int], int]  # file descriptor, offset, bytes, flags; 0 if the system does it


@contextlib.contextmanager
def written_meanwhile(path: Path) -> Iterator[None]:
    """Start writing new data of the file at `path` to the disk, repeatedly on a thread, until the block ends.

    Nothing waits for the disk: where each turn synced instead, writers would wait for the journal of the file system.
    Errors of the disk are raised by the sync at the end.
    """
    start = start_of_writing()
    if start is None:
        yield
        return
    is_done = threading.Event()

    def write_out() -> None:
        with contextlib.ExitStack() as stack:
            handle: BinaryIO | None = None
            while not is_done.wait(TURN_SECONDS):
                if handle is None:
                    with contextlib.suppress(OSError):  # it does not exist yet
                        handle = stack.enter_context(path.open("rb", buffering=0))
                elif start(handle.fileno(), 0, TO_ITS_END, SYNC_FILE_RANGE_WRITE):
                    return

    thread = threading.Thread(target=write_out, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


@functools.cache
def start_of_writing() -> Start | None:
    """Return sync_file_range(2), which starts writing dirty pages to the disk; None where there is no such call."""
    import ctypes

    try:
        found = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint], ctypes.c_int
    start: Start = found
    return start

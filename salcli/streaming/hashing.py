"""Hashes of the inputs, computed on a thread during the other work."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

from salcli.data.hashes import FileHash
from salcli.data.source import Source
from salcli.errors import LabelError
from salcli.formats.files import ByteFile
from salcli.formats.urls import is_url


@contextmanager
def hashing(embeddings: dict[Source, str], *labels: str) -> Iterator[list[Future[FileHash]]]:
    """Hash files on one thread during the block; more threads are no faster.

    Parameters
    ----------
    embeddings : open sources, and by which algorithm each is hashed
    labels : paths of files of labels, which are hashed by SHA-256

    Yields
    ------
    the hash of each, in that order

    Raises
    ------
    LabelError : a file of labels is none
    """
    for path in labels:
        if not (os.path.isfile(path) or is_url(path)):
            raise LabelError(f"{path}: is no regular file: labels are read more than once, so they cannot be a pipe")
    is_over = threading.Event()

    def is_wanted() -> bool:
        return not is_over.is_set()

    with ExitStack() as opened, ThreadPoolExecutor(1) as pool:
        files: dict[Source | ByteFile, str] = dict(embeddings.items())
        files |= {opened.enter_context(closing(ByteFile.open(path, may_be_wide=True))): "sha256" for path in labels}
        try:
            yield [pool.submit(_hashed, *each, is_wanted) for each in files.items()]
        finally:
            is_over.set()  # raise at once, not when a large file has been hashed
            pool.shutdown(cancel_futures=True)


def _hashed(file: Source | ByteFile, algorithm: str, is_wanted: Callable[[], bool]) -> FileHash:
    return FileHash(algorithm, file.digest(algorithm, is_wanted))

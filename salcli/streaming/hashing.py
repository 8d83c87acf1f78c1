"""SHA-256 of the inputs, on a thread while they are worked on."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

from salcli.data.source import Source
from salcli.errors import LabelError
from salcli.formats.files import ByteFile


@contextmanager
def hashing(source: Source | None, *others: str) -> Iterator[list[Future[str | None]]]:
    """Hash the embeddings (None: leave them out), and other inputs by name, on a thread while they are worked on."""
    for path in others:
        if not os.path.isfile(path):
            raise LabelError(f"{path}: is no regular file: labels are read more than once, so they cannot be a pipe")
    is_over = threading.Event()

    def is_wanted() -> bool:
        return not is_over.is_set()

    with ExitStack() as opened, ThreadPoolExecutor(1) as pool:
        files = [opened.enter_context(closing(ByteFile.open(path, may_be_wide=True))) for path in others]
        try:
            yield [pool.submit(_sha256, file, is_wanted) for file in (source, *files)]
        finally:
            is_over.set()  # raise at once, not when a large file has been hashed
            pool.shutdown(cancel_futures=True)


def _sha256(file: Source | ByteFile | None, is_wanted: Callable[[], bool]) -> str | None:
    return None if file is None else file.sha256(is_wanted)

"""Files that fsspec addresses by a URL (`s3://`, `gs://`, `memory://` …): found, read by range, and uploaded whole."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from salcli.errors import FormatError, OutputError, SalcliError, UsageError, first_line

URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_url(path: object) -> bool:
    """Return whether `path` is a URL, not a name of a local file."""
    return isinstance(path, str) and URL.match(path) is not None


def located(url: str) -> tuple[Any, str]:
    """Return the file system of fsspec that a URL belongs to, and the path in it.

    Raises
    ------
    UsageError : fsspec, or the package of such a store, is not installed, or there is no such store
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{url}: URLs are read through fsspec: pip install 'salcli[remote]'") from None
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url}: {first_line(error)}") from None
    except Exception as error:
        raise FormatError(f"{url}: cannot be read: {first_line(error)}") from error
    return system, path


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Raise what a store raises in the block as one-line errors that begin with `url`.

    Raises
    ------
    FormatError : it cannot be read
    """
    try:
        yield
    except SalcliError:
        raise
    except FileNotFoundError:
        raise FormatError(f"{url}: cannot be read: no such object") from None
    except Exception as error:
        raise FormatError(f"{url}: cannot be read: {first_line(error)}") from error


def check_url(url: str, inputs: tuple[str | None, ...]) -> None:
    """Check, before any work starts, that an output may go to a URL.

    Parameters
    ----------
    url : of the output
    inputs : paths of the command; None is passed over

    Raises
    ------
    UsageError : there is no such store, it is one of the inputs, or on the Hugging Face Hub, where files are committed
    """
    if url.lower().startswith("hf://"):
        raise UsageError(f"{url}: write a local file, then upload it once (hf upload)")
    place = located(url)
    if any(is_url(each) and located(str(each)) == place for each in inputs):
        raise UsageError(f"{url}: is the input itself: name another output")


@contextmanager
def uploading(url: str) -> Iterator[Path]:
    """Yield a local file that is uploaded when the block ends without an error: objects appear whole, or not at all.

    Raises
    ------
    OutputError : it cannot be uploaded
    """
    system, path = located(url)
    with tempfile.TemporaryDirectory(prefix="salcli-") as folder:
        temporary = Path(folder) / "output"
        yield temporary
        try:
            system.put_file(str(temporary), path)
        except Exception as error:
            raise OutputError(f"{url}: could not be uploaded: {first_line(error)}") from error

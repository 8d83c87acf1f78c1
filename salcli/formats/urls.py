"""Files that fsspec addresses by a URL (`s3://`, `gs://`, `memory://` …): found, listed, and uploaded whole."""

import glob
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from salcli.errors import FormatError, OutputError, SalcliError, UsageError, first_line
from salcli.formats.local_urls import base_of

URL = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)
LINK = re.compile(r"(?:(?<=::)|^)[a-z][a-z0-9+.-]+(?=://|::)", re.IGNORECASE)
CHAIN = re.compile(r"((?:[a-z0-9+.-]+::)*[a-z0-9+.-]+://.*?)((?:::.*)?)", re.IGNORECASE | re.DOTALL)
PAGES = re.compile(r"https?://", re.IGNORECASE)
HUB = re.compile(r"hf://(?:(dataset|space)s/)?([^/]+/[^/@]+)(?:@([^/]*))?/(.+)", re.IGNORECASE)
VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "LastModified", "last_modified", "mtime", "updated", "created")
"""Fields of an object's description that change when its content does; the first that a store has is used."""
BUCKETS = frozenset({"s3", "gs", "gcs", "az", "abfs", "oss"})
"""Stores whose paths begin with the name of a bucket."""
TAIL_BYTES = 1 << 16  # of an object that are read at once where only its end is needed


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
        system, path = url_to_fs(LINK.sub(lambda scheme: scheme[0].lower(), url))
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
    except FileNotFoundError as error:
        cause = error.__cause__  # of a server that cannot be reached, or refuses
        is_unknown = not isinstance(cause, OSError) and getattr(cause, "status", 404) == 404
        why = "no such object" if is_unknown else first_line(cause or error)
        raise FormatError(f"{url}: cannot be read: {why}") from None
    except Exception as error:
        raise FormatError(f"{url}: cannot be read: {first_line(error)}") from error


@dataclass(frozen=True)
class Stored:
    """What a store says of an object."""

    size: int
    version: str | None
    """What changes when the content does; None: the store does not say."""

    @classmethod
    def of(cls, url: str, *, is_current: bool = False) -> "Stored":
        """Return what the store says of the object at `url`; `is_current`: now, not when its folder was listed.

        Raises
        ------
        UsageError : there is no such store
        FormatError : there is no such object, or it cannot be read
        """
        system, path = located(url)
        with reading(url):
            if is_current:
                system.invalidate_cache(path)
            about = system.info(path)
        if about.get("type") != "file" or about.get("size") is None:
            raise FormatError(f"{url}: is no object of known size, expected a file")
        version = next((f"{name} {about[name]}" for name in VERSIONS if about.get(name)), None)
        return cls(int(about["size"]), version)


def exists(url: str) -> bool:
    """Return whether there is an object at `url`."""
    system, path = located(url)
    with reading(url):
        return bool(system.isfile(path))


def read_range(url: str, start: int, stop: int) -> bytes:
    """Return the bytes of an object from `start` to `stop` (exclusive), and transfer no others.

    Raises
    ------
    FormatError : it cannot be read
    """
    system, path = located(url)
    with reading(url):
        from fsspec import AbstractFileSystem

        if type(system).cat_file is not AbstractFileSystem.cat_file:
            return bytes(system.cat_file(path, start=start, end=stop))
        with system.open(path, "rb", cache_type="none") as handle:  # the base class would read ahead
            handle.seek(start)
            return bytes(handle.read(stop - start))


def read_whole(url: str) -> bytes | None:
    """Return the content of a small object at `url`, as it is now; None if there is none."""
    system, path = located(url)
    with reading(url):
        try:
            return bytes(system.cat_file(path))
        except FileNotFoundError:
            return None


@contextmanager
def seekable(url: str) -> Iterator[IO[bytes]]:
    """Open an object, a little of which is read at any place, such as the list of members of a zip."""
    system, path = located(url)
    with reading(url), system.open(path, "rb", block_size=TAIL_BYTES) as handle:
        yield handle


def is_several(url: str) -> bool:
    """Return whether a URL is a folder or a glob rather than one object.

    A folder ends in a slash, or is one of the store. Pages of the web are neither: their `?` begins a query, and they
    would be read to be listed.
    """
    if PAGES.match(url):
        return False
    if url.endswith("/"):
        return True
    system, path = located(url)
    with reading(url):
        try:
            return not system.isfile(path) if _has_magic(url) else bool(system.isdir(path))
        except PermissionError:  # objects may be read where folders may not be listed
            return False


def is_folder(url: str) -> bool:
    """Return whether a URL of which `is_several` is true is a folder, which may be called as a glob is."""
    if not _has_magic(url) or url.endswith("/"):
        return True
    system, path = located(url)
    with reading(url):
        return bool(system.isdir(path))


def listed(url: str) -> list[str]:
    """Return the URLs of the objects in a folder, or of those that a glob matches, in any order.

    Raises
    ------
    UsageError : there is no such store
    FormatError : it cannot be listed
    """
    plain, chain = _unchained(url)
    is_one = is_folder(url)
    base = plain if is_one else plain[: _first_magic(plain)].rpartition("/")[0] + "/"
    system, path = located(url)
    root = located(base + chain)[1].rstrip("/")
    with reading(url):
        system.invalidate_cache(root)  # of this process: others may have written
        try:
            found = system.ls(path, detail=True) if is_one else [*system.glob(path, detail=True).values()]
        except FileNotFoundError:  # stores have no empty folders
            found = []
    if not found and (bucket := _missing_bucket(url)):
        raise FormatError(f"{url}: cannot be listed: there is no bucket {bucket}")
    names = [each["name"] for each in found if each["type"] == "file" and each["name"].strip("/") != root.strip("/")]
    return [
        joined(base, name[len(root) :].lstrip("/")) + chain
        if name.startswith(f"{root}/")
        else system.unstrip_protocol(name) + chain  # spelt in another way than the user's
        for name in names
    ]


def joined(folder: str, name: str) -> str:
    """Return the path, or URL, of the file called `name` in a folder."""
    if not is_url(folder):
        return posixpath.join(folder, name)
    plain, chain = _unchained(folder)
    return f"{plain}{'' if plain.endswith('/') else '/'}{name}{chain}"


def folder_of(path: str) -> str:
    """Return the folder of a file, of a path or a URL."""
    if not is_url(path):
        return posixpath.dirname(path)
    plain, chain = _unchained(path)
    return plain.rpartition("/")[0] + "/" + chain


def name_in(path: str) -> str:
    """Return the name of a file without its folder, of a path or a URL."""
    if not is_url(path):
        return posixpath.basename(path)
    plain = _unchained(path)[0]
    return posixpath.basename(re.split("[?#]", plain)[0] if PAGES.match(plain) else plain)


def _unchained(url: str) -> tuple[str, str]:
    """Return the first URL of a chain, with the caches before it, and the rest.

    >>> _unchained("simplecache::zip://x.npy::s3://bucket/a.zip")
    ('simplecache::zip://x.npy', '::s3://bucket/a.zip')
    """
    found = CHAIN.fullmatch(url)
    return (found[1], found[2]) if found else (url, "")


def _has_magic(url: str) -> bool:
    return glob.has_magic(_unchained(url)[0])


def _first_magic(plain: str) -> int:
    return min(plain.index(mark) for mark in "*?[" if mark in plain)


def require_shared(url: str) -> None:
    """Check that other processes see the object at `url` too.

    Raises
    ------
    UsageError : its store is in the memory of this process
    """
    if url.lower().startswith("memory://"):
        raise UsageError(f"{url}: is in the memory of this process, which workers of a cluster do not see")


def check_store(url: str) -> None:
    """Check, before any work starts, that outputs may go to the store of a URL.

    Raises
    ------
    UsageError : there is no such store, or it is the Hugging Face Hub, where files are committed; or a chain of URLs
    OutputError : there is no such bucket
    """
    if "::" in url:
        raise UsageError(f"{url}: a chain of URLs is read and not written: name the output by one URL, or a path")
    if url.lower().startswith("hf://"):
        raise UsageError(f"{url}: is not written: write to a path HERE, then upload that once: {_upload_command(url)}")
    if bucket := _missing_bucket(url):
        raise OutputError(f"{url}: cannot be written: there is no bucket {bucket}")


def _bucket(url: str) -> str | None:
    """Return the bucket of an object, where its store has buckets."""
    system, path = located(url)
    protocols = [system.protocol] if isinstance(system.protocol, str) else system.protocol
    return str(path).partition("/")[0] if BUCKETS.intersection(protocols) else None


def _missing_bucket(url: str) -> str | None:
    """Return the bucket of an object if its store says that there is none of this name."""
    bucket = _bucket(url)
    try:
        if bucket:
            located(url)[0].info(bucket)
    except FileNotFoundError:
        return bucket
    except Exception:  # noqa: BLE001 (objects may be read where buckets are not shown)
        return None
    return None


def _upload_command(url: str) -> str:
    """Return the command of huggingface_hub that puts a local path at an `hf://` URL."""
    if url.lower().startswith("hf://buckets/"):
        return f"hf buckets cp HERE {url}"
    found = HUB.fullmatch(url)
    kind, repository, revision, name = found.groups() if found else (None, "USER/REPO", None, "NAME")
    options = {"repo-type": kind, "revision": revision}  # of huggingface_hub
    return " ".join(
        ["hf upload", repository, "HERE", name, *(f"--{option} {value}" for option, value in options.items() if value)]
    )


def check_url(url: str, inputs: tuple[str | None, ...]) -> None:
    """Check, before any work starts, that an output may go to a URL.

    Parameters
    ----------
    url : of the output
    inputs : paths of the command; None is passed over

    Raises
    ------
    UsageError : there is no such store, or none that is written to, or it is one of the inputs
    OutputError : it is a folder or a bucket, or there is no such bucket
    """
    check_store(url)
    if url.endswith("/") or _bucket(url) == located(url)[1]:
        raise OutputError(f"{url}: is a folder, expected the name of an object")
    place, urls = located(url), [str(each) for each in inputs if is_url(each)]
    bases = [base_of(each) for each in urls]
    if any(located(each) == place for each in (*urls, *filter(is_url, bases))):
        raise UsageError(f"{url}: is the input itself: name another output")


def upload(source: str, url: str) -> None:
    """Upload a local file: the object appears whole, or not at all.

    Parameters
    ----------
    source : path of the file
    url : of the object

    Raises
    ------
    OutputError : it cannot be uploaded
    """
    system, path = located(url)
    try:
        system.put_file(source, path)
    except Exception as error:
        raise OutputError(f"{url}: could not be uploaded: {first_line(error)}") from error

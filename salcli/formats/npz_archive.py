"""`.npz` as a zip: its members, each read forward like a compressed file, and one-line errors."""

import re
import struct
import zipfile
import zlib
from collections import Counter
from typing import Any

from salcli.errors import FormatError, first_line
from salcli.formats.compression import Stream
from salcli.formats.files import ByteFile
from salcli.formats.keys import shortened
from salcli.formats.urls import is_url, seekable

KNOWN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
ENCRYPTED = 0x1
PATH_MARKS = re.compile(r"[/\\]")
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


class Archive:
    """A zip with one-line errors that name the file."""

    def __init__(self, file: ByteFile) -> None:
        self.path, self.file = file.name, file
        self._zip: zipfile.ZipFile | None = None
        self.names = self.zip.namelist()
        twice = next((name for name, count in Counter(self.names).items() if count > 1), None)
        if twice is not None:
            raise FormatError(f"{self.path}: several members called {shortened(twice)}: which one is meant?")
        outside = next((name for name in self.names if name.startswith("/") or ".." in PATH_MARKS.split(name)), None)
        if outside is not None:
            raise FormatError(f"{self.path}: a member called {shortened(outside)}, a path out of the archive")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_zip": None}

    @property
    def zip(self) -> zipfile.ZipFile:
        """The zip, opened when needed."""
        if self._zip is None:
            try:
                self._zip = zipfile.ZipFile(self.file.handle)
            except FAULTS as error:
                raise FormatError(f"{self.path}: truncated or damaged npz: {first_line(error)}") from error
        return self._zip

    def size(self, member: str) -> int:
        """Return how many bytes `member` unpacks to; no more are read."""
        return self.zip.getinfo(member).file_size

    def growth(self, member: str) -> float:
        """Return how many times larger `member` is when it is unpacked."""
        info = self.zip.getinfo(member)
        return info.file_size / max(1, info.compress_size)

    @property
    def arrays(self) -> list[str]:
        """The names of its arrays."""
        return [name.removesuffix(".npy") for name in self.names]

    def stream(self, member: str, name: str) -> Stream:
        """Return a reader of a member, at its first byte.

        Parameters
        ----------
        member : with its suffix `.npy`
        name : for messages

        Raises
        ------
        FormatError : it is encrypted, compressed in an unknown way, or damaged
        """
        info = self.zip.getinfo(member)
        if info.flag_bits & ENCRYPTED:
            raise FormatError(f"{name}: is encrypted: extract it and save it without a password")
        if info.compress_type not in KNOWN:
            raise FormatError(f"{name}: compressed by method {info.compress_type}, expected none, deflate or bzip2")
        try:
            return Stream(self.zip.open(info), name, "zip")
        except FAULTS as error:
            raise FormatError(f"{name}: damaged zip member: {first_line(error)}") from error

    def close(self) -> None:
        """Close the directory; the owner of the file closes the file."""
        if self._zip is not None:
            self._zip.close()


def describe_zip(names: list[str]) -> str:
    """Return the kind of a zip that is no npz, and what to do about it, by the `names` of its members."""
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook: save the sheet as tab-separated text"
    if any(name.startswith(("word/", "ppt/")) or name == "content.xml" for name in names):
        return "an Office document, not vectors"
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return (
            "a PyTorch file (a Python pickle inside, which is never opened): save the tensor with "
            "numpy.save(PATH, tensor.numpy())"
        )
    inside = ", ".join(map(shortened, names[:4])) + (" …" if len(names) > 4 else "")
    return f"a zip archive (of {inside or 'nothing'}), not an npz: extract the vectors first"


def is_artifact(path: str) -> bool:
    """Return whether the file at `path` is an artifact rather than embeddings, by its members' names."""
    return _has(path, "header.npy", "singular_values.npy")


def is_moments(path: str) -> bool:
    """Return whether the file at `path` holds moments rather than embeddings, by its members' names."""
    return _has(path, "header.npy", "comoment.npy")


def _has(path: str, *members: str) -> bool:
    try:
        with (
            seekable(path) if is_url(path) else open(path, "rb") as handle,
            zipfile.ZipFile(handle) as archive,
        ):
            return set(members) <= set(archive.namelist())
    except (FormatError, *FAULTS):
        return False


class Member(ByteFile):
    """One array of a zip, which is read forward like a compressed file."""

    compression = "zip"

    def __init__(self, archive: Archive, array: str) -> None:
        super().__init__(f"{archive.path}[{shortened(array)}]")
        self.archive, self._member = archive, f"{array}.npy"
        self.closed_with(archive.file)

    @property
    def size(self) -> int:
        """Bytes of the content, as the zip announces them: no more are read."""
        return self.archive.size(self._member)

    @property
    def most_bytes(self) -> int:
        """More bytes than this the content cannot have."""
        return self.size

    def stream(self) -> Stream:
        """Read the content from its first byte."""
        return self.archive.stream(self._member, self.name)

    def close(self) -> None:
        """Close the file of the archive."""
        super().close()
        self.archive.close()
        self.archive.file.close()

"""`Archive`: the members of a zip, read forward and never unpacked to a place that they name."""

import re
import struct
import zipfile
import zlib
from collections import Counter

from salcli.errors import FormatError, first_line
from salcli.formats.bytefile import ByteFile, Stream

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
    """A zip whose every fault is a one-line error that names the file."""

    def __init__(self, file: ByteFile) -> None:
        self.path, self._file = file.name, file
        try:
            self.zip = zipfile.ZipFile(file.handle)
        except FAULTS as error:
            raise FormatError(f"{self.path}: truncated or damaged npz: {first_line(error)}") from error
        self.names = self.zip.namelist()
        twice = next((name for name, count in Counter(self.names).items() if count > 1), None)
        if twice is not None:
            raise FormatError(f"{self.path}: several members called {shortened(twice)}: which one is meant?")
        outside = next((name for name in self.names if name.startswith("/") or ".." in PATH_MARKS.split(name)), None)
        if outside is not None:
            raise FormatError(f"{self.path}: a member called {shortened(outside)}, a path out of the archive")

    def size(self, member: str) -> int:
        """Tell how many bytes a member unpacks to: no more are read, whatever it holds."""
        return self.zip.getinfo(member).file_size

    def growth(self, member: str) -> float:
        """Tell how many times larger a member is unpacked."""
        info = self.zip.getinfo(member)
        return info.file_size / max(1, info.compress_size)

    def stream(self, member: str, name: str) -> Stream:
        """Read a member from its first byte.

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
        """Let go of the directory; the file is its owner's."""
        self.zip.close()


def shortened(name: str) -> str:
    """Show a name that may be as long as its file says."""
    return name if len(name) <= 80 else f"{name[:79]}…"


def is_artifact(path: str) -> bool:
    """Tell an artifact from an `.npz` of embeddings, by its member names."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"header.npy", "singular_values.npy"} <= set(archive.namelist())
    except FAULTS:
        return False

"""The secret of keyed noise: a file that only its owner may read, created if it is absent. It is never shown."""

import os
import re
import secrets
import stat

from salcli.errors import FormatError, OutputError, UsageError, warn
from salcli.formats.urls import is_url

SECRET_BYTES, MODE = 32, 0o600
HEXADECIMAL = re.compile(rb"[0-9a-f]{64}\n?")


def read_secret(path: str) -> bytes:
    """Return the secret in the file at `path`, 32 bytes; the file is created, with a random one, if there is none.

    Raises
    ------
    UsageError : the path is a URL
    FormatError : the file is no such secret, or others may read it
    OutputError : it can be neither read nor created
    """
    if is_url(path):
        raise UsageError(f"{path}: the secret of `noise_key` is a local file, which its owner alone may read")
    try:
        if not os.path.lexists(path):
            _make(path)
        with open(path, "rb") as handle:
            status = os.fstat(handle.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(f"{path}: is no regular file, so it is no secret of `noise_key`")
            text = handle.read(2 * SECRET_BYTES + 2)
    except OSError as error:
        raise OutputError(f"{path}: the secret of `noise_key` cannot be read or created: {error.strerror}") from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FormatError(
            f"{path}: others may read this secret (mode {status.st_mode & 0o777:03o}, expected {MODE:03o}): chmod 600"
        )
    if not HEXADECIMAL.fullmatch(text):
        raise FormatError(f"{path}: is no secret of `noise_key`: expected one line of 64 hexadecimal digits")
    return bytes.fromhex(text.decode("ascii"))


def _make(path: str) -> None:
    """Write a new secret, whole or not at all, and never over another one that is written meanwhile."""
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(SECRET_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
    finally:
        os.unlink(temporary)
    warn(f"{path}: wrote a new secret for noise; keep it, and keep it secret: with another, rows get other noise")

"""Bytes that come through a pipe."""

import errno
import io
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from salcli.errors import FormatError
from salcli.formats.bytefile import ByteFile


class Failing(io.RawIOBase):
    """Gives some bytes, then fails."""

    def __init__(self) -> None:
        self._is_first = True

    def read(self, size: int = -1) -> Any:
        if not self._is_first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._is_first = False
        return b"he 1 2\n"


def test_a_pipe_that_fails_is_no_fault_of_the_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Failing()))
    with pytest.raises(FormatError) as caught:
        ByteFile.open("-")
    assert str(caught.value) == "<stdin>: cannot be read: Input/output error"

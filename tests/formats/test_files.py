"""Bytes that come through a pipe."""

import errno
import gzip
import hashlib
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

from salcli.errors import FormatError
from salcli.formats.files import ByteFile
from salcli.formats.registry import open_source
from salcli.streaming.hashing import hashing

from ..cli.helpers import write_embeddings


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


@pytest.mark.parametrize("name", ["read_at", "read_into", "fill", "stream", "digest"])
def test_a_disk_that_fails_is_told_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail(*_: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "x").write_bytes(b"he 1 2\n")
    with closing(ByteFile.open(tmp_path / "x")) as file:
        monkeypatch.setattr(os, "pread", fail)
        monkeypatch.setattr(os, "preadv", fail)
        works: dict[str, Callable[[], object]] = {
            "read_at": lambda: file.read_at(0, 3),
            "read_into": lambda: file.read_into(memoryview(bytearray(3)), 0),
            "fill": lambda: file.fill(memoryview(bytearray(3)), 0),
            "stream": lambda: file.stream().read(3),
            "digest": lambda: file.digest("blake3"),
        }
        with pytest.raises(FormatError) as caught:
            works[name]()
    assert str(caught.value) == f"{tmp_path / 'x'}: cannot be read: Input/output error"


def test_hashing_ends_when_it_is_no_longer_wanted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(8 << 20))
    answers = iter([True, True, False])
    with closing(ByteFile.open(tmp_path / "x")) as file:
        file.digest("blake3", lambda: next(answers))
        assert next(answers, None) is None


@pytest.mark.parametrize("has_preadv", [True, False])
@pytest.mark.parametrize("n", [1, 2 << 20, (5 << 20) + 7])
def test_digests_are_those_of_the_bytes_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, has_preadv: bool
) -> None:
    if not has_preadv:
        monkeypatch.delattr(os, "preadv", raising=False)
    data = np.random.default_rng(0).bytes(n)
    (tmp_path / "x").write_bytes(data)
    with closing(ByteFile.open(tmp_path / "x")) as file:
        assert file.digest("sha256", lambda: True) == hashlib.sha256(data).hexdigest()
        assert file.digest("blake3") == blake3(data).hexdigest()
        found = bytearray(n)
        file.read_into(memoryview(found), 0)
        assert found == data


def test_a_failure_is_told_before_a_large_file_is_hashed() -> None:

    class Endless:
        """Is hashed as long as that is wanted, or very long."""

        is_stopped = False

        def hash_as_read(self, _: str) -> bool:
            return False

        def digest(self, algorithm: str, is_wanted: Callable[[], bool]) -> str:
            for _ in range(5_000):
                if not is_wanted():
                    self.is_stopped = True
                    break
                time.sleep(0.001)
            return ""

    source = Endless()
    with pytest.raises(ValueError, match="no such label"), hashing({source: "blake3"}):  # type: ignore[dict-item]
        raise ValueError("no such label")
    assert source.is_stopped


class Full(io.BytesIO):
    """A temporary file on a disk that fills up."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("name", ["x.npy.gz", "x.npz", "x.h5.gz", "x.txt.gz", "x.bin.gz"])
def test_a_full_temporary_folder_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    x, keys = np.random.default_rng(0).normal(size=(100, 5)).astype(np.float32), [b"w%d" % i for i in range(100)]
    path = write_embeddings(tmp_path / name.removesuffix(".gz"), x, keys)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(FormatError) as caught, open_source(str(tmp_path / name)) as source:
        [chunk.read() for chunk in source.chunks()]
    assert re.fullmatch(
        f"{tmp_path}/.* cannot be unpacked into a temporary file in .*: No space left on device", str(caught.value)
    )

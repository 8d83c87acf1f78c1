import os
import threading
from pathlib import Path

import pytest

from salcli.formats import atomic as writeback
from salcli.formats.atomic import SYNC_FILE_RANGE_WRITE, replacing, start_of_writing, written_meanwhile

PATIENCE = 20.0  # seconds until a thread that does nothing is taken for one that never will


class Recorder:
    """Stands where the system's call does."""

    def __init__(self, answer: int, enough: int = 1) -> None:
        self.answer, self.enough = answer, enough
        self.files, self.rest = list[str](), list[tuple[int, int, int]]()
        self.was_enough = threading.Event()

    def __call__(self, handle: int, *rest: int) -> int:
        self.files.append(os.readlink(f"/proc/self/fd/{handle}"))
        self.rest.append(rest)
        if len(self.files) >= self.enough:
            self.was_enough.set()
        return self.answer


def watched(monkeypatch: pytest.MonkeyPatch, answer: int, enough: int = 1) -> Recorder:
    recorder = Recorder(answer, enough)
    monkeypatch.setattr(writeback, "start_of_writing", lambda: recorder)
    return recorder


def test_the_whole_growing_file_is_written_out_again_and_again_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, before = watched(monkeypatch, 0, enough=3), threading.active_count()
    with replacing(str(tmp_path / "out")) as temporary:
        Path(temporary).write_bytes(b"rows")
        assert recorder.was_enough.wait(PATIENCE)
    assert threading.active_count() == before
    assert set(recorder.files) == {temporary}
    assert set(recorder.rest) == {(0, 0, SYNC_FILE_RANGE_WRITE)}
    assert (tmp_path / "out").read_bytes() == b"rows"


def test_a_file_that_never_comes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = watched(monkeypatch, 0)
    with written_meanwhile(tmp_path / "never"):
        assert not recorder.was_enough.wait(5 * writeback.TURN_SECONDS)
    assert not recorder.files


def test_a_file_system_that_cannot_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = watched(monkeypatch, -1)
    with replacing(str(tmp_path / "out")) as temporary:
        Path(temporary).write_bytes(b"rows")
        assert recorder.was_enough.wait(PATIENCE)
        threading.Event().wait(5 * writeback.TURN_SECONDS)
    assert len(recorder.files) == 1
    assert (tmp_path / "out").read_bytes() == b"rows"


def test_a_system_without_the_call_writes_the_file_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writeback, "start_of_writing", lambda: None)
    before = threading.active_count()
    with replacing(str(tmp_path / "out")) as temporary:
        Path(temporary).write_bytes(b"rows")
        assert threading.active_count() == before
    assert (tmp_path / "out").read_bytes() == b"rows"


def test_the_system_takes_the_call_as_it_is_made(tmp_path: Path) -> None:
    start = start_of_writing()
    if start is None:
        pytest.skip("this system has no sync_file_range")
    with (tmp_path / "x").open("wb") as handle:
        handle.write(b"rows")
        handle.flush()
        assert start(handle.fileno(), 0, 0, SYNC_FILE_RANGE_WRITE) == 0
        assert start(-1, 0, 0, SYNC_FILE_RANGE_WRITE) == -1

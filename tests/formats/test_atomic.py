import gzip
import os
import stat
from pathlib import Path

import pytest

from salcli.errors import OutputError, UsageError
from salcli.formats import atomic
from salcli.formats.atomic import check_output, replacing, replacing_all


def write(path: Path, content: bytes = b"new", **options: bool) -> None:
    with replacing(str(path), **options) as temporary:
        Path(temporary).write_bytes(content)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_file_appears_whole_and_nothing_else_does(tmp_path: Path) -> None:
    write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_while_it_is_written_the_old_file_is_still_there(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with replacing(str(tmp_path / "out")) as temporary:
        Path(temporary).write_bytes(b"new")
        assert Path(temporary).parent == tmp_path
        assert (tmp_path / "out").read_bytes() == b"old"
    assert (tmp_path / "out").read_bytes() == b"new"


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit, BrokenPipeError])
def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, fault: type[BaseException]) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(fault), replacing(str(tmp_path / "out")) as temporary:
        Path(temporary).write_bytes(b"half")
        raise fault
    assert (tmp_path / "out").read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_what_the_system_refuses_becomes_one_line_that_says_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(OutputError, match=r"could not be written: No space.*disk full.*before is unchanged"):
        with replacing(str(tmp_path / "out")):
            raise OSError(28, "No space left on device")


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "out")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_a_private_file_that_is_replaced_stays_private(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    (tmp_path / "out").chmod(0o600)
    write(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


def test_a_link_is_followed_to_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_compressed_output_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write(tmp_path / name, b"content" * 100, compresses=True)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"content" * 100
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert names(tmp_path) == ["a.gz", "b.gz"]


def test_a_device_is_written_to_and_not_replaced() -> None:
    terminal, device = os.openpty()  # of its own: who replaced the machine's null device would take it from everyone
    try:
        path = Path(os.ttyname(device))
        write(path, b"content")
        assert stat.S_ISCHR(path.stat().st_mode)
        assert os.read(terminal, 100) == b"content"
    finally:
        os.close(terminal)
        os.close(device)


def test_a_long_name_still_finds_room_for_its_temporary_file(tmp_path: Path) -> None:
    write(tmp_path / ("x" * 255))
    assert names(tmp_path) == ["x" * 255]


def test_a_missing_folder_is_named_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nosuch does not exist"):
        check_output(str(tmp_path / "nosuch" / "out"), [])
    with pytest.raises(OutputError, match="is a folder"):
        check_output(str(tmp_path), [])


@pytest.mark.parametrize("kind", ["same", "symlink", "hardlink", "dotted"])
def test_the_input_itself_is_refused_however_it_is_named(tmp_path: Path, kind: str) -> None:
    given, named = tmp_path / "in", tmp_path / "out"
    given.write_bytes(b"x")
    if kind == "symlink":
        named.symlink_to(given)
    elif kind == "hardlink":
        named.hardlink_to(given)
    else:
        named = given if kind == "same" else tmp_path / "." / ".." / tmp_path.name / "in"
    with pytest.raises(UsageError, match="is the input"):
        check_output(str(named), ["other", str(given)])
    with pytest.raises(UsageError, match="say so"):
        check_output(str(named), [None, str(given)], remedy="say so")
    check_output(str(named), [str(given)], may_replace=str(given))
    check_output(str(tmp_path / "new"), [str(given)])


@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("mode", [None, 0o600, 0o644, 0o666])
def test_nobody_else_may_read_what_is_being_written(tmp_path: Path, mode: int | None, compresses: bool) -> None:
    target = tmp_path / "out"
    if mode is not None:
        target.write_bytes(b"before")
        target.chmod(mode)
    before = os.umask(0o027)
    try:
        with replacing(str(target), compresses=compresses) as temporary:
            assert stat.S_IMODE(os.stat(temporary).st_mode) == 0o600
            Path(temporary).write_bytes(b"after")
            assert stat.S_IMODE(os.stat(temporary).st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == (0o640 if mode is None else mode)


def test_nobody_else_may_read_what_is_being_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compress, modes = atomic._compress, []

    def watched(source: Path, target: Path) -> None:
        compress(source, target)
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (source, target))

    monkeypatch.setattr(atomic, "_compress", watched)
    before = os.umask(0o022)
    try:
        write(tmp_path / "out.gz", compresses=True)
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "out.gz").stat().st_mode) == 0o644


def write_all(paths: list[Path], content: bytes = b"new") -> None:
    with replacing_all([str(path) for path in paths]) as temporaries:
        for temporary in temporaries:
            Path(temporary).write_bytes(content)


def test_all_files_are_replaced_as_one_would_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o600)
    write_all([tmp_path / "a", tmp_path / "b"])
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"new", b"new"]
    assert names(tmp_path) == ["a", "b"]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    write_all([])


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_failure_in_the_block_leaves_all_as_they_were(tmp_path: Path, fault: type[BaseException]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(fault), replacing_all([str(tmp_path / "a"), str(tmp_path / "b")]) as temporaries:
        Path(temporaries[0]).write_bytes(b"half")
        raise fault
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_second_file_that_cannot_be_written_leaves_the_first(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    for second in (tmp_path / "nowhere" / "b", tmp_path / "folder", Path("/dev/full")):
        with pytest.raises(OutputError, match=f"^{second}: could not be written"):
            write_all([tmp_path / "a", second])
        assert (tmp_path / "a").read_bytes() == b"old"
        assert names(tmp_path) == ["a", "folder"]


@pytest.mark.parametrize("has_links", [True, False])
def test_files_that_were_renamed_come_back_if_the_last_one_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    for name in "ac":
        (tmp_path / name).write_bytes(name.encode())
    replace = os.replace

    def refusing(source: str, target: str) -> None:
        if Path(target).name == "c" and not str(source).endswith(".old.tmp"):
            raise PermissionError(1, "Operation not permitted")
        replace(source, target)

    def no_link(*_: str) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "replace", refusing)
    if not has_links:
        monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(OutputError, match="c: could not be written: Operation not permitted; what was there before"):
        write_all([tmp_path / name for name in "abc"])
    assert names(tmp_path) == ["a", "c"]  # b was not there before
    assert [(tmp_path / name).read_bytes() for name in "ac"] == [b"a", b"c"]

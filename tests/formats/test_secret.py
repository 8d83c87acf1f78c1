"""The secret of noise: made for its owner alone, never over another one, and refused in one line."""

import os
from pathlib import Path

import pytest

from salcli.errors import FormatError, OutputError, SalcliError, SalcliWarning
from salcli.formats.secret import read_secret


def made(path: Path) -> bytes:
    with pytest.warns(SalcliWarning, match="wrote a new secret for noise"):
        return read_secret(str(path))


def test_it_is_made_once_and_read_again(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        secret = made(tmp_path / "k")
    finally:
        os.umask(old)
    assert len(secret) == 32
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert read_secret(str(tmp_path / "k")) == secret
    assert secret.hex() in (tmp_path / "k").read_text()
    assert made(tmp_path / "other") != secret
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "other"]


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 66, "g" * 64, "0" * 64 + "\n\n"])
def test_another_file_is_no_secret(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(FormatError, match="expected one line of 64 hexadecimal digits") as caught:
        read_secret(str(path))
    assert path.read_text() == text
    assert text[:8] not in str(caught.value) or not text


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "k")
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(FormatError, match="mode 640, expected 600"):
        read_secret(str(tmp_path / "k"))


def test_no_folder_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be read or created: No such file"):
        read_secret(str(tmp_path / "nowhere" / "k"))
    with pytest.raises(SalcliError):
        read_secret(str(tmp_path))


def test_a_secret_that_is_made_meanwhile_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, usual = tmp_path / "k", os.link

    def link(source: str, target: str) -> None:
        path.write_text("ab" * 32)
        path.chmod(0o600)
        usual(source, target)

    monkeypatch.setattr(os, "link", link)
    assert read_secret(str(path)) == bytes.fromhex("ab" * 32)
    assert [each.name for each in tmp_path.iterdir()] == ["k"]

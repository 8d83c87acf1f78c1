"""How much memory there is, as the machine and the control group tell."""

from pathlib import Path

import pytest

from salcli.streaming import memory

GIB = 1 << 30


@pytest.mark.parametrize(
    ("folder", "names"),
    [("", ("memory.max", "memory.current")), ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"))],
)
def test_what_a_control_group_keeps_of_files_is_no_used_memory(
    tmp_path: Path, folder: str, names: tuple[str, str]
) -> None:
    group = tmp_path / folder
    group.mkdir(exist_ok=True)
    for name, text in zip(names, (4 * GIB, 3 * GIB), strict=True):
        (group / name).write_text(f"{text}\n")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {64 * GIB // 1024} kB\n")
    assert memory.available_bytes(tmp_path, tmp_path / "meminfo") == GIB
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {GIB}\nactive_file {GIB // 2}\nshmem 7\n")
    assert memory.available_bytes(tmp_path, tmp_path / "meminfo") == 2.5 * GIB


def test_no_limit_is_none(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{GIB}\n")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {7 * GIB // 1024} kB\n")
    assert memory.available_bytes(tmp_path, tmp_path / "meminfo") == 7 * GIB

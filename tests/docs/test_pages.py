"""Every command of the documentation runs and prints what is shown; what it names exists, and what exists is named."""

import fnmatch
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.speed import table
from benchmarks.speed.results import read_runs
from salcli.erasers.base import METHODS
from salcli.formats.artifact import write_file
from tests.docs.cli_reference import cli_reference, every_command, every_flag
from tests.docs.pages import BLOCK, PAGES, ROOT, Session, agrees, renewed, run, shortened, steps

TEXTS = {page: page.read_text("utf-8") for page in PAGES}
CLI = ROOT / "docs" / "reference" / "cli.md"
RUN = [page for page in PAGES if any(step.command for step in steps(TEXTS[page]))]
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_every_command_of_a_page_prints_what_is_shown(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path, is_cold=page == ROOT / "README.md")
    for step in steps(TEXTS[page]):
        printed = session.run(step)
        assert not session.failures
        assert step.file or agrees(step.output, printed), f"$ {step.command}\n{printed}\n(make docs writes it again)"


def test_the_pages_with_commands_are_found() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "contributing.md"} <= set(RUN)
    assert len(RUN) > 10


def test_the_reference_of_the_command_line_is_made_from_the_code() -> None:
    assert TEXTS[CLI] == cli_reference(), "make docs"


@pytest.mark.parametrize("command", [*sorted(every_command()), *(f"fit --method {name}" for name in METHODS)])
def test_every_option_that_help_shows_is_in_the_reference(command: str) -> None:
    shown = run(f"salcli {command} --help", ROOT).stdout
    shown = shown.partition("\nExamples:")[0]
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", shown)) - {"--help", "-h"}
    assert options or command == "methods"
    name = "fit" if "fit" in command else command
    section = TEXTS[CLI].split(f"\n## salcli {name}\n")[1].split("\n## ")[0]
    assert not {option for option in options if f"`{option}`" not in section}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_and_command_that_a_page_names_exists(page: Path) -> None:
    spans = re.findall(r"`([^`\n]+)`", BLOCK.sub("", TEXTS[page]))
    ours = [span for span in spans if not span.startswith(("python ", "dask "))]
    flags = {flag for span in ours for flag in re.findall(r"(?:^| )(--[a-z][a-z0-9-]*)", span)}
    commands = {name for span in spans for name in re.findall(r"^salcli ([a-z]+)", span)}
    assert flags <= every_flag()
    assert commands <= every_command()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_of_make_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    prose = BLOCK.sub("", TEXTS[page])
    named = re.findall(r"`make ([a-z][a-z-]*)|^    make ([a-z][a-z-]*)", prose, re.MULTILINE)
    assert {one or other for one, other in named} <= targets


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page as its host makes them: lower case, spaces as hyphens, no punctuation."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXTS[page]):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", index))


def test_the_readme_is_short_and_its_picture_small() -> None:
    assert len(TEXTS[ROOT / "README.md"].splitlines()) <= 200
    assert (ROOT / "docs" / "report.png").stat().st_size < 200_000


def test_the_figures_of_speed_are_those_that_were_measured() -> None:
    runs = read_runs(ROOT / "benchmarks" / "results.json")
    for page, text in (("README.md", table.headline), ("docs/benchmarks.md", table.markdown)):
        assert f"{table.BEGIN}\n{text(runs[max(runs)])}{table.END}" in TEXTS[ROOT / page], f"{page}: make docs"


def test_every_test_that_shows_a_promise_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w*]+)`", TEXTS[ROOT / "docs" / "explanation" / "guarantees.md"])
    assert len(named) > 10
    for file, pattern in named:
        found = re.findall(r"^def (test_\w+)\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)
        assert fnmatch.filter(found, pattern), f"{file}::{pattern}"


def keys_of(value: Any) -> set[str]:
    """Return the keys of all objects in a value of JSON."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    return set(value) | {key for item in value.values() for key in keys_of(item)} if isinstance(value, dict) else set()


@pytest.mark.slow
def test_every_key_of_a_report_and_of_an_artifact_is_documented(tmp_path: Path) -> None:
    session, bios = Session(tmp_path), "sample_data/bios-sample.npy sample_data/bios-sample.csv --attribute gender"
    words = "sample_data/glove-sample.txt sample_data/glove-sample-labels.csv"
    kept = "--similarity simlex999 --neighbors king --bias rnd,weat6 --as raw,int8"
    few = "--probes linear --attacker-rows 100"
    every = "--task profession --sweep k=0:1 --repeats 2 --sample 100 --max-accuracy 0.1"
    for command in (
        f"salcli fit {bios} -o e.npz",
        f"salcli kfit {bios} --kernel poly --landmarks 50 -o k.npz",
        f"salcli evaluate {bios} {few} --eraser e.npz {every} --report 1.json || true",
        f"salcli evaluate {bios} {few} --eraser k.npz --report 2.json",
        f"salcli fit {words} -o w.npz",
        f"salcli evaluate {words} {few} --eraser w.npz {kept} --report 3.json",
        f"salcli compare {bios} {few} --quick --eraser e.npz --eraser k.npz --report 4.json",
        f"salcli evaluate {bios} {few} --eraser e.npz --folds 4 --task profession --quick --report f.json",
        f"salcli evaluate {bios} {few} --eraser e.npz --sweep strength=0:1:1 --quick --report s.json",
    ):
        session.run(next(steps(f"```console\n$ {command}\n```")))
    assert not session.failures
    reports = [json.loads((tmp_path / f"{i}.json").read_bytes()) for i in (1, 2, 3, "f", "s")]
    comparison = json.loads((tmp_path / "4.json").read_bytes())
    reports += [each.pop("report") for each in comparison["candidates"]]
    reports.append(comparison)
    files = [np.load(tmp_path / name) for name in ("e.npz", "k.npz")]
    erasers = [json.loads(str(file["header"])) for file in files]
    for report in reports:
        report["run"] |= {"options": None, "libraries": None}  # their keys are names of options and packages
    for eraser in (*erasers, *(report["eraser"] for report in reports if "eraser" in report)):
        eraser |= dict.fromkeys({"parameters", "k_rule"} & set(eraser))  # their keys depend on the method
    for page, keys in (
        ("report-json.md", keys_of(reports)),
        ("artifact.md", keys_of(erasers) | {name for file in files for name in file.files}),
    ):
        text = TEXTS[ROOT / "docs" / "reference" / page]
        assert len(keys) > 20
        assert not {key for key in keys if f"`{key}`" not in text}, page


def test_an_output_agrees_only_with_what_was_printed() -> None:
    assert agrees("a\n…\nd\n", "a\nb\nc\nd\n")
    assert agrees("…\n", "")
    assert not agrees("a\n…\n", "b\n")
    assert not agrees("a\n", "a\nb\n")
    assert not agrees("1.0\n", "1x0\n")


def test_an_output_that_was_cut_is_cut_again_when_it_changes() -> None:
    assert shortened("a\n…\nz\n", "b\n1\n2\ny\n") == "b\n…\ny\n"
    assert shortened("a\n…\n", "b\n1\n2\n") == "b\n…\n"
    assert shortened("a\n…\nz\n", "b\n") == "b\n…\n"
    assert shortened("a\nz\n", "b\n1\n") == "b\n1\n"


def test_a_page_is_written_again_with_what_its_commands_print(tmp_path: Path) -> None:
    blocks = ("text file=a.txt\none\n", "console\n$ cat a.txt\nold\n$ echo \\\n>     two\n", "console\n$ false\n")
    page = "# T\n\n" + "\n".join(f"```{block}```\n" for block in blocks)
    now, failures = renewed(page, tmp_path)
    assert now == page.replace("old\n", "one\n").replace("    two\n", "    two\ntwo\n")
    assert len(failures) == 1
    assert "$ false" in failures[0]


def test_the_bytes_of_an_artifact_are_where_the_reference_says(tmp_path: Path) -> None:
    path, bios = tmp_path / "e.npz", "sample_data/bios-sample.npy sample_data/bios-sample.csv --attribute gender"
    run(f"salcli fit {bios} -o {path} --quiet", ROOT)
    header = json.loads(str(np.load(path)["header"]))
    write_file(str(path), header, {"mean": np.arange(3.0), "left": np.ones((3, 1)), "right": np.ones((3, 1))})
    data, at, names = path.read_bytes(), 0, []
    while data[at : at + 4] == b"PK\3\4":
        version, flags, method, time, date, _, packed, size, m, extra = struct.unpack("<5H3L2H", data[at + 4 : at + 30])
        assert (version, flags, method, time, date) == (45, 0, 0, 0, 1 << 5 | 1)
        assert (packed, size, extra) == (0xFFFFFFFF, 0xFFFFFFFF, 20)
        names.append(data[at + 30 : at + 30 + m].decode())
        number, length, size, packed = struct.unpack("<2H2Q", data[at + 30 + m : at + 50 + m])
        assert (number, length, size) == (1, 16, packed)
        assert data[at + 50 + m : at + 58 + m] == b"\x93NUMPY\x01\x00"
        (h,) = struct.unpack("<H", data[at + 58 + m : at + 60 + m])
        assert (10 + h) % 64 == 0
        numbers = data[at + 60 + m + h : at + 50 + m + size]
        assert names[-1] != "mean.npy" or numbers == struct.pack("<3d", 0, 1, 2)
        at += 50 + m + size
    assert names == ["mean.npy", "left.npy", "right.npy", "header.npy"]

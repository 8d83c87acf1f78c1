"""The blocks of Python pages run, and print what is shown; README's lines on Python do too (see `test_pages`)."""

import re
from pathlib import Path

import pytest

import salcli
from tests.docs.pages import PAGES, ROOT, agrees
from tests.docs.python_blocks import cells, printed

TEXTS = {page: page.read_text("utf-8") for page in PAGES}
RUN = [page for page in PAGES if any(cells(TEXTS[page]))]
TUTORIAL = ROOT / "docs" / "tutorial-python.md"


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_prints_what_is_shown(page: Path, tmp_path: Path) -> None:
    for cell, output in zip(cells(TEXTS[page]), printed(TEXTS[page], tmp_path), strict=True):
        assert agrees(cell.shown or "", output), f"{cell.code}\nprints\n{output}"


def test_the_tutorial_is_run_and_names_all_that_is_public() -> None:
    assert TUTORIAL in RUN
    assert len(list(cells(TEXTS[TUTORIAL]))) > 7
    assert {name for name in salcli.__all__ if name not in TEXTS[TUTORIAL]} <= {"__version__", "fit"}


def test_every_name_of_salcli_that_a_page_has_is_there() -> None:
    for text in TEXTS.values():
        for name in re.findall(r"\bsalcli\.([A-Za-z_]+)\(", text):
            assert hasattr(salcli, name), name


def test_cells_are_found_with_what_they_print() -> None:
    text = "```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\n```python file=a.py\n```\n"
    found = list(cells(text))
    assert [(cell.code, cell.shown) for cell in found] == [("x = 1\n", None), ("print(x)\n", "1\n")]

"""Write what the documentation takes from the code: `python -m tests.docs [PAGE …]`, or `make docs`.

docs/reference/cli.md is made from the commands, the three lines of speed and the table of benchmarks from
benchmarks/results.json, and every console block, and text block after Python, gets what is printed now.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.speed import table
from benchmarks.speed.results import read_runs
from tests.docs import python_blocks
from tests.docs.cli_reference import cli_reference
from tests.docs.pages import PAGES, ROOT, renewed

CLI, RESULTS = ROOT / "docs" / "reference" / "cli.md", ROOT / "benchmarks" / "results.json"


def main() -> None:
    """Write the reference, and run the pages that are named (default: all)."""
    CLI.write_text(cli_reference(), "utf-8")
    table.publish(read_runs(RESULTS).values(), ROOT)
    failures = []
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            now, failed = renewed(text, Path(folder))
        if any(python_blocks.cells(text)):
            with tempfile.TemporaryDirectory() as folder:
                now = python_blocks.renewed(now, Path(folder))
        failures += [f"{page.relative_to(ROOT)}: {one}" for one in failed]
        if now != text:
            page.write_text(now, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()

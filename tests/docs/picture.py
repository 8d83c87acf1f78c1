"""Make docs/report.png, the top of the report of the README's example: `python -m tests.docs.picture [BROWSER]`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, Session, steps

PICTURE, WIDTH, HEIGHT, MOST_BYTES = ROOT / "docs" / "report.png", 1280, 1060, 200_000


def main() -> None:
    """Run the README, and photograph its report with a headless Chromium."""
    browser = sys.argv[1] if len(sys.argv) > 1 else "chromium"
    with tempfile.TemporaryDirectory() as scratch:
        session = Session(Path(scratch))
        for step in steps((ROOT / "README.md").read_text("utf-8")):
            session.run(step)
            if "--report report.html" in step.command:
                break
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{HEIGHT}",
        )
        page = f"file://{session.folder / 'report.html'}"
        subprocess.run([browser, *options, f"--screenshot={PICTURE}", page], check=True, capture_output=True)
    size = PICTURE.stat().st_size
    print(f"wrote {PICTURE.relative_to(ROOT)}, {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES:,} bytes: lower HEIGHT")


if __name__ == "__main__":
    main()

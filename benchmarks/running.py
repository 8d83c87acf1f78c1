"""Scripts end with one line, not a traceback, where a file is missing or is not what it is taken for."""

import sys
from collections.abc import Callable

from salcli.errors import SalcliError


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`; print errors of files and options as one line, with exit status 1."""
    try:
        main()
    except (SalcliError, OSError) as error:
        sys.exit(f"error: {error}")

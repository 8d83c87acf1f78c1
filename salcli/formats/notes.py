"""`Notes`: what readers on several threads have to remark, told once per kind, in file order."""

import threading

from salcli.errors import warn


class Notes:
    """Remarks about rows, gathered while reading and told at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, dict[int, str]] = {}

    def add(self, kind: str, row: int, text: str) -> None:
        """Remark on `row`; `kind` is what all such remarks have in common, `text` the one to show if it is first."""
        with self._lock:
            self._rows.setdefault(kind, {})[row] = text

    def tell(self) -> None:
        """Warn once per kind: the first row, and how many more."""
        with self._lock:
            kinds, self._rows = self._rows, {}
        for kind, rows in sorted(kinds.items()):
            more = f" (and {len(rows) - 1} more such rows)" if len(rows) > 1 else ""
            warn(f"{rows[min(rows)]}: {kind}{more}")

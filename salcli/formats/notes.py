"""`Notes`: what readers on several threads have to remark, told once per kind, in file order."""

import threading

from salcli.errors import warn


class Notes:
    """Remarks about rows, gathered while reading and told at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, set[int]] = {}
        self._first: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, row: int, text: str) -> None:
        """Remark on `row`; `kind` is what all such remarks have in common, `text` the one to show if it is first."""
        with self._lock:
            self._rows.setdefault(kind, set()).add(row)  # a row may be read more than once
            self._first[kind] = min(self._first.get(kind, (row, text)), (row, text))

    def tell(self) -> None:
        """Warn once per kind: the first row, and how many more."""
        with self._lock:
            kinds, firsts = self._rows, self._first
            self._rows, self._first = {}, {}
        for kind, rows in sorted(kinds.items()):
            more = f" (and {len(rows) - 1} more such rows)" if len(rows) > 1 else ""
            warn(f"{firsts[kind][1]}: {kind}{more}")

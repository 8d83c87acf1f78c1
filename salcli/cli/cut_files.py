"""What happens if another program cuts an input short while its pages are being looked at."""

import os
import signal
from contextlib import suppress

from salcli.errors import FormatError

TOLD = b"error: an input file was cut short by another program while it was being read\n"
_kept: list[object] = []
"""A callback from C must live as long as it may be called."""


def end_in_one_line() -> None:
    """Answer SIGBUS, which is all the system then says, with a line and the status of an unusable input.

    The fault is in the middle of a library's C code; a handler of Python's own would run after that code, which never
    ends. Nothing is half written then: files are looked at so by `fit`, before it writes.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        answer = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)
        ctypes.CDLL(None).signal(signal.SIGBUS, answer)
        _kept.append(answer)


def _end(_: int) -> None:
    os.write(2, TOLD)
    os._exit(FormatError.exit_code)

"""Modules of scipy's compiled code, without the packages around them."""

import functools
import importlib.util
import os
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

_loading = threading.Lock()


def scipy_module(package: str, name: str) -> Any:
    """Load `scipy.<package>.<name>`, a compiled module, alone: its package imports much that no pass needs.

    Where that module is not found on its own, the package brings it.
    """
    with _loading:  # several threads may want it first
        return _loaded(package, name)


@functools.cache
def _loaded(package: str, name: str) -> Any:
    full, scipy = f"scipy.{package}.{name}", importlib.util.find_spec("scipy")
    if full not in sys.modules and os.name == "posix" and scipy is not None and scipy.origin is not None:
        stem = Path(scipy.origin).parent / package / name
        path = next((path for end in EXTENSION_SUFFIXES if (path := Path(f"{stem}{end}")).is_file()), None)
        spec = None if path is None else importlib.util.spec_from_file_location(full, path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return sys.modules.setdefault(full, module)
    return importlib.import_module(full)

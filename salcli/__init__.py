"""salcli: remove a guarded attribute from a file of embeddings, and measure what is left.

`salcli.fit` and `salcli.load` work on arrays; `salcli.commands` holds the commands as functions of paths.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salcli.api import fit, load

__version__ = "0.2.0.dev0"
__all__ = ["__version__", "fit", "load"]


def __getattr__(name: str) -> Any:
    """Import the Python face when it is used: the command line starts without it."""
    if name in ("fit", "load"):
        from salcli import api

        return getattr(api, name)
    raise AttributeError(f"module 'salcli' has no attribute {name!r}")

"""salcli: remove a guarded attribute from embeddings, and measure what is left.

The names below work on arrays, frames and tensors: estimators of scikit-learn (`SAL` …), `evaluate`, `load`.
`salcli.commands` holds the commands as functions of paths.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salcli.api.estimators import INLP, LEACE, SAL, SPLINCE, Auto, KernelSAL, Transport
    from salcli.api.evaluating import evaluate
    from salcli.api.fitting import fit
    from salcli.api.keyed import erase_keyed_vectors
    from salcli.api.loading import load, load_eraser
    from salcli.api.scoring import leak_scorer

__version__ = "0.2.0.dev0"
__all__ = [
    "INLP",
    "LEACE",
    "SAL",
    "SPLINCE",
    "Auto",
    "KernelSAL",
    "Transport",
    "__version__",
    "erase_keyed_vectors",
    "evaluate",
    "fit",
    "leak_scorer",
    "load",
    "load_eraser",
]

_MODULES = {
    **dict.fromkeys(("INLP", "LEACE", "SAL", "SPLINCE", "Auto", "KernelSAL", "Transport"), "estimators"),
    "erase_keyed_vectors": "keyed",
    "evaluate": "evaluating",
    "fit": "fitting",
    "leak_scorer": "scoring",
    "load": "loading",
    "load_eraser": "loading",
}
"""Where in `salcli.api` each public name is."""


def __dir__() -> list[str]:
    """Return the public names, also of what is not imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the Python face when it is used: the command line starts without it."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"salcli.api.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'salcli' has no attribute {name!r}")

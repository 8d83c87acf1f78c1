"""Constructors and docstrings of estimators: parameters are those of a method, which are explained once, as options."""

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any

from salcli.options import options_of

GUARDED, Y = "guarded", "y"
OWN: dict[str, tuple[Any, str]] = {
    "guards": (GUARDED, "'guarded': labels come by `guarded`, and y, the main task, is left alone; 'y': y is erased."),
    "numeric": (False, "True if labels are numbers instead of classes, or the names of columns that are."),
    "strength": (1.0, "λ ∈ [0, 1], how far rows are moved; less than 1 can be inverted, and hides nothing."),
    "seed": (0, "Of every random choice."),
}
"""Parameters of every estimator beside those of its method: default and help."""
NOISE_KEY = {"noise_key": (None, "File of the secret of `noise`, created if it is absent.")}
COLUMNS = ("task", "score")
"""Parameters that name columns of a label file."""
PLACE, HEAD = "    Examples\n    --------\n", "    Parameters\n    ----------\n"


def parameters_of(method: type) -> dict[str, tuple[Any, str]]:
    """Return default and help of each parameter of an estimator, by name.

    Parameters
    ----------
    method : the type of the method's parameters; columns of a label file are none of an estimator, which receives the
        labels themselves
    """
    of_method = options_of(method).items()
    known = {name: (default, option.help) for name, (option, default) in of_method if name not in COLUMNS}
    return known | OWN | (NOISE_KEY if "noise" in known else {})


def initializer(defaults: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor that takes parameters by name and keeps them as they are, as scikit-learn's do.

    Parameters
    ----------
    defaults : of the parameters, by name
    """
    names = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()
    ]
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([this, *names])

    def initialize(self: Any, *arguments: Any, **parameters: Any) -> None:
        bound = signature.bind(self, *arguments, **parameters).arguments
        self.__dict__.update({**defaults, **{name: value for name, value in bound.items() if name != "self"}})

    initialize.__name__ = "__init__"
    initialize.__doc__ = "Keep the parameters."
    initialize.__signature__ = signature  # type: ignore[attr-defined]
    return initialize


def described(docstring: str, parameters: Mapping[str, str]) -> str:
    """Return a class's `docstring` with a section of `parameters`, by name, before that of examples."""
    head, place, rest = docstring.partition(PLACE)
    lines = [line for name, text in parameters.items() for line in _entry(name, text)]
    return "".join([head, HEAD, *lines, "\n", place, rest])


def _entry(name: str, text: str) -> list[str]:
    plain = re.sub(r"^[a-z]", lambda first: first.group().upper(), text)
    return [f"    {name}\n", *(f"        {line}\n" for line in wrap(plain, 104))]

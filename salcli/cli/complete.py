"""Completion of option values in a shell: choices, methods, formats, attackers."""

from collections.abc import Callable, Iterable

from salcli.options import DTYPES, Option


def _methods() -> Iterable[str]:
    from salcli.erasers.base import METHODS

    return METHODS


def _formats() -> Iterable[str]:
    from salcli.formats.registry import FORMATS

    return (each.name for each in FORMATS)


def _attackers() -> Iterable[str]:
    from salcli.evaluation.attackers import ATTACKERS

    return ATTACKERS


def _bias_tests() -> Iterable[str]:
    from salcli.formats.word_sets import built_in_names

    return built_in_names()


def _regressors() -> Iterable[str]:
    from salcli.evaluation.attackers import REGRESSORS

    return REGRESSORS


def _gold_sets() -> Iterable[str]:
    from salcli.formats.gold_sets import BUILT_IN

    return BUILT_IN


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "method": _methods,
    "methods": _methods,
    "format": _formats,
    "output_format": _formats,
    "dtype": lambda: DTYPES,
    "probes": lambda: dict.fromkeys((*_attackers(), *_regressors())),
    "max_accuracy": lambda: (f"{name}=" for name in _attackers()),
    "max_gain": lambda: (f"{name}=" for name in _attackers()),
    "max_r2": lambda: (f"{name}=" for name in _regressors()),
    "similarity": _gold_sets,
    "bias": _bias_tests,
    "sweep": lambda: ("k=", "strength="),
}
"""By the name of the field, where its option does not list them."""


def completion(name: str, option: Option) -> Callable[[str], list[str]] | None:
    """Return the function that completes the value of an option.

    Parameters
    ----------
    name : of the option's field
    option : whose choices are completed where `VALUES` has no other values

    Returns
    -------
    values for what was typed so far; None: the shell completes files
    """
    values = VALUES.get(name, (lambda: option.choices) if option.choices else None)
    if values is None:
        return None

    def completed(incomplete: str) -> list[str]:
        """Return the values that begin with `incomplete`, or with the last part of a comma-separated list."""
        before, comma, begun = incomplete.rpartition(",") if option.is_list else ("", "", incomplete)
        taken = before.split(",")
        return [before + comma + value for value in values() if value.startswith(begun) and value not in taken]

    return completed

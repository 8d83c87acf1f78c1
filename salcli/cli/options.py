"""Option records as parameters of typer and back, and the names of parameters as flags."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, cast, get_args

import typer

from salcli.cli.complete import completion
from salcli.errors import ParameterError, SalcliError
from salcli.options import (
    WITHOUT,
    ApplyOptions,
    CompareOptions,
    EvaluateOptions,
    FitOptions,
    InspectOptions,
    LabelCommandOptions,
    MomentsOptions,
    Option,
    options_of,
)

RECORDS = (
    FitOptions,
    ApplyOptions,
    EvaluateOptions,
    InspectOptions,
    LabelCommandOptions,
    CompareOptions,
    MomentsOptions,
)
ARGUMENTS = {"output": "-o", "eraser": "--eraser", "moments": "--moments"}
"""Flags of arguments that are in no record."""
NAMED = re.compile(r"(?<![\w`])`([a-z]\w*)(?:=([^`]*))?`(?![\w`])")  # not a backquote inside a file's name
T = TypeVar("T")


def in_utf8(value: Any) -> Any:
    """Return command-line text, or a list of it, decoded as UTF-8 like files, in any locale.

    Parameters
    ----------
    value : text, a list, or another value, which is returned as it is
    """
    if isinstance(value, list):
        return [in_utf8(one) for one in value]
    return os.fsencode(value).decode("utf-8", "surrogateescape") if isinstance(value, str) else value


Nested = Mapping[str, type]
"""By field name, types of records that are not in the annotations: `parameters` of `FitOptions`, of each method."""


def parameters(record: type, defaults: Mapping[str, Any], nested: Nested) -> Iterator[inspect.Parameter]:
    """Yield a parameter of typer for each option of a record and of the records in it.

    Parameters
    ----------
    record : type of the options
    defaults : by field name, defaults that replace the record's
    nested : see `Nested`
    """
    own = options_of(record)
    for name, hint in _hints(record, nested).items():
        if name in own:
            option, default = own[name]
            yield _parameter(name, hint, option, defaults.get(name, default))
        elif is_dataclass(hint):
            left_out = _left_out(record)[name]
            yield from (p for p in parameters(cast(type, hint), defaults, nested) if p.name not in left_out)


def _hints(record: type, nested: Nested) -> dict[str, Any]:
    return {each.name: nested.get(each.name, each.type) for each in fields(record)}


def _left_out(record: type) -> dict[str, tuple[str, ...]]:
    """Return the names of options that the command does not have, by the field of the record that has them."""
    return {each.name: each.metadata.get(WITHOUT, ()) for each in fields(record)}


def _parameter(name: str, hint: Any, option: Option, default: Any) -> inspect.Parameter:
    kind: Any = str if option.parse or option.is_repeatable else _without_none(hint)
    shown = None if default is None or default == () else default
    if option.parse is not None and shown is not None:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        shown = [shown] if option.is_list else shown
    flags = option.flags_of(name)
    about = typer.Option(
        *flags[:-1],
        flags[-1] if option.off is None else f"{flags[-1]}/{option.off}",
        help=in_flags(option.help) + _bounds(option),
        metavar=option.metavar,
        show_default=shown is not None and (kind is not bool or option.off is not None),
        callback=in_utf8 if option.is_text else None,
        autocompletion=completion(name, option),
    )
    kind = list[str] if option.is_repeatable or option.is_list else kind
    annotation: Any = Annotated[kind if shown is not None else kind | None, about]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=annotation)


def _without_none(hint: Any) -> Any:
    return next(each for each in get_args(hint) if each is not type(None)) if isinstance(hint, UnionType) else hint


def _bounds(option: Option) -> str:
    least, most = option.bounds
    return "" if least is None else f"  [at least {least}]" if most is None else f"  [{least}…{most}]"


def build(record: type[T], values: Mapping[str, Any], nested: Nested) -> T:
    """Return the record of the parsed command line.

    Parameters
    ----------
    record : type of the options
    values : by field name, as typer returns them; None: not set
    nested : see `Nested`

    Raises
    ------
    UsageError : values that their options do not allow, or that contradict each other
    """
    own, found = options_of(record), dict[str, Any]()
    for name, hint in _hints(record, nested).items():
        if name in own:
            option, default = own[name]
            found[name] = default if values[name] is None else option.read(name, values[name])
        elif is_dataclass(hint):
            left_out = dict.fromkeys(_left_out(record)[name])
            found[name] = build(cast(type, hint), {**values, **left_out}, nested)
    return record(**found)


def expanded(command: Callable[..., None], record: type, defaults: Mapping[str, Any], nested: Nested) -> Any:
    """Return a command as a function with a parameter for each option, in place of its argument `options`.

    The command's own arguments come first, then the options of the record, then `json` and `quiet`.

    Parameters
    ----------
    command : takes `options` of type `record`
    record : type of the options
    defaults : by field name, defaults that replace the record's
    nested : see `Nested`

    Raises
    ------
    ValueError : two fields or arguments have the same name
    """
    signature = inspect.signature(command).parameters.values()
    added = list(parameters(record, defaults, nested))
    names = [each.name for each in (*signature, *added)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{record.__name__} and the records in it have several fields called {', '.join(twice)}")

    def run(**arguments: Any) -> None:
        values = {each.name: arguments.pop(each.name) for each in added}
        command(**arguments, options=build(record, values, nested))

    required = [each for each in signature if each.default is each.empty and each.name != "options"]
    optional = [each for each in signature if each.default is not each.empty]
    ordered = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in (*required, *optional[:-2], *added, *optional[-2:])
    ]
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__annotations__ = {each.name: each.annotation for each in ordered}
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return run


@cache
def _flags(record: type) -> dict[str, tuple[str, str | None]]:
    """Return the flag of each field, and the flag that sets it to False, by name."""
    found = {name: (option.flags_of(name)[0], option.off) for name, (option, _) in options_of(record).items()}
    for hint in _hints(record, {}).values():
        if is_dataclass(hint):
            found |= _flags(cast(type, hint))
    return found


def flags_of(record: type) -> dict[str, tuple[str, ...]]:
    """Return all flags of `record` and the records in it, by field name."""
    return {name: tuple(filter(None, flags)) for name, flags in _flags(record).items()}


def _flag(name: str) -> tuple[str, str | None] | None:
    for record in RECORDS:
        if name in _flags(record):
            return _flags(record)[name]
    if name in ARGUMENTS:
        return ARGUMENTS[name], None
    from salcli.erasers.base import METHODS

    of_methods = (_flags(METHODS[method].Parameters) for method in METHODS)
    return next((flags[name] for flags in of_methods if name in flags), None)


def in_flags(text: str) -> str:
    """Return the message `text` with flags in place of the parameters that it names in backquotes.

    >>> in_flags("give `keys_file=FILE`, or `by_row`; not `center=False`")
    'give --keys FILE, or --by-row; not --no-center'
    """
    return NAMED.sub(_in_flags, text)


def _in_flags(named: re.Match[str]) -> str:
    name, value = named.groups()
    flags = _flag(name)
    if flags is None:
        return named.group()
    flag, off = flags
    if value == "False" and off is not None:
        return off
    return flag if value is None else f"{flag} {value}"


def error_line(error: SalcliError) -> str:
    """Return the message of `error` with flags in place of parameter names."""
    if not isinstance(error, ParameterError):
        return in_flags(str(error))
    value = ",".join(map(str, error.value)) if isinstance(error.value, tuple) else error.value
    flag = (_flag(error.name) or (error.name, None))[0]
    return f"{flag} {value}: {in_flags(error.why)}"

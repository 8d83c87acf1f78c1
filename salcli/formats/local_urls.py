"""URLs of local files (`file://`, `local://`) are their paths, so that all rules of local files hold for them."""

import os
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from salcli.options import options_of

LOCAL = re.compile(r"(?:file|local)://(.*)", re.IGNORECASE | re.DOTALL)
P = ParamSpec("P")
R = TypeVar("R")


def plain(path: str) -> str:
    """Return the absolute path that a URL of a local file means, as fsspec reads it; others as they are."""
    found = LOCAL.fullmatch(path)
    return path if found is None else os.path.join(os.getcwd(), os.path.expanduser(found[1]))


def base_of(url: str) -> str:
    """Return the file or object that a chain of URLs is read from (`zip://x.npy::file:///a.zip`: `/a.zip`)."""
    return plain(url.rpartition("::")[2])


def takes_paths(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command in whose arguments and options URLs of local files are replaced by their paths."""

    @wraps(command)
    def run(*args: P.args, **named: P.kwargs) -> R:
        plain_args = cast(Any, [_with_paths(each) for each in args])
        return command(*plain_args, **cast(Any, {name: _with_paths(each) for name, each in named.items()}))

    return run


def _with_paths(value: Any) -> Any:
    """Return text, several texts or a record of options with paths in place of URLs of local files."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return type(value)(map(plain, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    of_text = {name for name, (option, _) in options_of(value).items() if option.is_text}
    old = {each.name: getattr(value, each.name) for each in fields(value) if each.init and each.name not in of_text}
    new = {name: _with_paths(each) for name, each in old.items()}
    changed = {name: each for name, each in new.items() if each is not old[name] and each != old[name]}
    return cast(Any, replace(value, **changed)) if changed else value

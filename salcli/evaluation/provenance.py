"""How a report came to be: the version, the command, the options and the libraries, without paths or times."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any

import salcli
from salcli.erasers.artifact import Artifact
from salcli.formats.files import file_name
from salcli.options import CompareOptions, EvaluateOptions, Limit, Sweep, options_of

LIBRARIES = ("numpy", "scipy", "scikit-learn")
"""Those that figures depend on."""
OF_FILES = ("erasers", "against", "baseline", "bias", "keys_file", "similarity")
"""Options that name files, of which folders are left out."""
WITHOUT_EFFECT = ("batch_rows", "reports", "report_format")
"""Options that change no figure."""
Scalar = str | float | bool | None


@dataclass(frozen=True)
class Run:
    """How a report came to be; the same for the same run in any folder, on any number of threads."""

    version: str
    command: str
    """The shell command, with names of files without folders; empty if called from Python."""
    seed: int
    options: Mapping[str, Scalar | tuple[Scalar, ...]]
    """Those that are set, by their names in Python."""
    libraries: Mapping[str, str]
    fitted_rows: Mapping[str, Scalar] = field(default_factory=dict)
    """Which rows the eraser was fitted on, by its artifact: their number, the rule and the digest."""


def run_of(options: EvaluateOptions | CompareOptions, artifact: Artifact | None, command: str) -> Run:
    """Return the record of how a report came to be.

    Parameters
    ----------
    options : of the command
    artifact : the eraser; None: without one
    command : of the shell, or empty
    """
    return Run(
        salcli.__version__,
        command,
        options.seed,
        dict(sorted(_set(options))),
        dict(_versions()),
        {} if artifact is None else dict(_scalars(artifact.header["rows"])),
    )


def _set(record: Any) -> Iterator[tuple[str, Any]]:
    own = options_of(record)
    for each in fields(record):
        value = getattr(record, each.name)
        if is_dataclass(value) and each.name not in own:
            yield from _set(value)
        elif each.name in own and each.name not in WITHOUT_EFFECT and value not in (None, ()):
            is_file = each.name in OF_FILES
            yield (
                each.name,
                tuple(_plain(one, is_file) for one in value) if isinstance(value, tuple) else (_plain(value, is_file)),
            )


def _plain(value: Any, is_file: bool) -> Scalar:
    if isinstance(value, Limit):
        return value.limit if value.probe is None else f"{value.probe}={value.limit:g}"
    if isinstance(value, Sweep):
        first, *_, last = (*value.values, value.values[-1])
        return f"{value.parameter}={first:g}…{last:g}, {len(value.values)} values"
    found: Scalar = file_name(value) if is_file else value
    return found


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", python_version()
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:  # a copy that no installer has recorded
            yield name, "unknown"


def _scalars(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{name}_")
        elif value is None or isinstance(value, (str, bool, int, float)):
            yield prefix + name, value

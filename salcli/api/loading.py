"""`load`: the eraser of an artifact."""

from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import Eraser


def load(path: str) -> Eraser:
    """Return the eraser of the artifact at `path`, which `salcli fit` wrote.

    Raises
    ------
    FormatError : it is no artifact, of another schema, or damaged
    """
    return read_artifact(path).eraser

"""`load`: an embedding file in memory; `load_eraser`: the eraser of an artifact."""

from dataclasses import fields
from typing import Any

import numpy as np

from salcli.data.embeddings import Embeddings
from salcli.data.source import Chunk
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import Eraser
from salcli.errors import FormatError, ParameterError
from salcli.formats.npz_archive import is_artifact
from salcli.formats.registry import opened_source
from salcli.options import ReadOptions, options_of
from salcli.streaming.engine import ordered_map


def load(path: str, **options: Any) -> Embeddings:
    r"""Return an embedding file in memory, in any format that `salcli` reads.

    Parameters
    ----------
    path : of the file, a folder or a glob of shards
    options : how it is read, by their names in Python: `format`, `dataset`, `keys_dataset`, `keys_file`, `keyed`,
        `allow_nonfinite`; by default everything is detected

    Returns
    -------
    `vectors` `[n, d]` in the file's own precision (text: float32), `rows` `[n]` their numbers in the file, and `keys`,
    None where the file has none

    Raises
    ------
    FormatError : the file is damaged, or no embedding file
    ParameterError : no such option

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import salcli
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "words.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("he 0.5 1.5\nshe 0.25 -1.5\n")
    ...     words = salcli.load(path)
    >>> words.keys, words.vectors.shape
    (('he', 'she'), (2, 2))
    """
    known = {each.name: each for each in fields(ReadOptions)}
    for name, value in options.items():
        if name not in known:
            raise ParameterError(
                name, value, f"no option of load; expected some of {', '.join(options_of(ReadOptions))}"
            )
    if is_artifact(path):
        raise FormatError(
            f"{path}: is an eraser, and holds no embeddings: read it by `load_eraser`, or by from_artifact"
        )
    with opened_source(path, ReadOptions(**options)) as source:
        vectors, rows = np.empty((source.n, source.d), source.dtype), np.empty(source.n, np.int64)
        keys, at = list[str](), 0
        for batch in ordered_map(Chunk.read, source.chunks()):
            part = slice(at, at + len(batch))
            vectors[part], rows[part] = batch.vectors, batch.rows
            keys += batch.keys or ()
            at = part.stop
    return Embeddings(vectors, rows, tuple(keys) if source.has_keys else None)


def load_eraser(path: str) -> Eraser:
    """Return the eraser of the artifact at `path`, which `salcli fit` or `to_artifact` wrote, of any method.

    Raises
    ------
    FormatError : it is no artifact, of another schema, or damaged
    """
    return read_artifact(path).eraser

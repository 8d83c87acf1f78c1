"""Every reader, asked for all it can give of one file: only `SalcliError` may escape."""

import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from salcli.cli import console
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.kernel import KernelEraser
from salcli.errors import SalcliError, SalcliWarning
from salcli.formats.gold_sets import read_similarity
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import InspectOptions, LabelOptions, ReadOptions

from .seeds import PART, zipped

ARTIFACT_MEMBERS = (
    "header",
    "singular_values",
    "mean",
    "left",
    "right",
    "landmarks",
    "dual",
    "offset",
    "whitener",
    "feature_mean",
)
MAX_MESSAGE = 2_000
NPZ_MEMBERS = ("vectors", "keys", "more")


@contextmanager
def strictly() -> Iterator[None]:
    """Take every warning that is not ours for an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SalcliWarning)
        yield


def read_source(path: str, **options: Any) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """Read an embedding file to its end, and ask everything else that a source answers."""
    with closing(open_source(path, ReadOptions(**options))) as source:
        batches = [chunk.read() for chunk in source.chunks()]
        keys = tuple(key for batch in source.key_batches() for key in batch)
        assert len(keys) == (source.n if source.has_keys else 0)
        assert sum(map(len, batches)) == source.n
        source.place(source.n - 1)
        source.digest("blake3")
        return (keys if source.has_keys else None), np.concatenate([batch.vectors for batch in batches])


def read_table(path: str) -> None:
    """Read a label CSV as classes, and as numbers."""
    errors = []
    for options in (LabelOptions(), LabelOptions(numeric=("age",)), LabelOptions(attributes=("y",), by_row=True)):
        try:
            read_labels(path, options).require_variety()
        except SalcliError as error:
            errors.append(error)
    if len(errors) == 3:
        raise errors[0]


def use_artifact(path: str) -> None:
    """Read an artifact, and use all that other code takes from it."""
    artifact = read_artifact(path)
    artifact.summary(), artifact.label_options(LabelOptions(), "e.npz"), artifact.rule, artifact.n_bytes
    found = inspect(path, InspectOptions())
    json.dumps(found, allow_nan=False)
    with redirect_stdout(io.StringIO()):
        console.print_inspection(found)
    rows = np.ones((2, artifact.eraser.d))
    if isinstance(artifact.eraser, KernelEraser):
        artifact.eraser.erased_gram(rows, rows)
    else:
        artifact.eraser(rows)


def assembled(names: tuple[str, ...], data: bytes) -> bytes:
    """Zip what a mutation left of an archive's members, so that its checksums hold."""
    return zipped((f"{name}.npy", part) for name, part in zip(names, data.split(PART), strict=False) if part)


READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "text": ("x.txt", read_source),
    "binary": ("x.bin", lambda path: read_source(path, format="word2vec-bin")),
    "npy": ("x.npy", read_source),
    "npz": ("x.npz", read_source),
    "safetensors": ("x.safetensors", read_source),
    "int8": ("x.safetensors", lambda path: read_source(path, dequantize="scale")),
    "int8-npy": ("x.npy", lambda path: read_source(path, dequantize="0.5")),
    "fbin": ("x.fbin", read_source),
    "fvecs": ("x.fvecs", read_source),
    "fasttext": ("x.bin", read_source),
    "labels": ("y.csv", read_table),
    "similarity": ("s.tsv", read_similarity),
    "artifact": ("e.npz", use_artifact),
}


def survive(reader: str, data: bytes) -> bool:
    """Let a reader loose on bytes; tell whether it could read them. Any error but ours escapes."""
    name, read = READERS[reader]
    if reader in ("npz", "artifact") and not data.startswith(b"PK"):
        data = assembled(ARTIFACT_MEMBERS if reader == "artifact" else NPZ_MEMBERS, data)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder, strictly():
        path = Path(folder, name)
        path.write_bytes(data)
        refusal = refused(lambda: read(str(path)))
    assert refusal is None or 0 < len(refusal) < MAX_MESSAGE, "an error that says nothing, or is without end"
    return refusal is None


def refused(read: Callable[[], object]) -> str | None:
    """Give the message of the `SalcliError` that escapes, None if none does."""
    try:
        read()
    except SalcliError as error:
        return str(error)
    return None

"""salcli's side of every comparison, through its public functions."""

import compileall
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import salcli
from benchmarks.speed import files
from salcli.commands import apply as command
from salcli.commands.erased_rows import stream_through
from salcli.data.join import LabelledRows
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import Chunk
from salcli.erasers.base import METHODS, Fit
from salcli.erasers.sal import fit_sal
from salcli.formats.registry import create, open_source
from salcli.linalg.moments import CrossMoments
from salcli.options import ApplyOptions
from salcli.streaming.engine import LOCAL, one_blas_thread, ordered_map
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent
from salcli.streaming.sums import fold


def labels_of(n: int, n_classes: int) -> GuardedLabels:
    """Make labels, row by row."""
    codes = files.codes_of(n, n_classes)
    return GuardedLabels("generated", (Attribute("g", codes, tuple(f"{i:04}" for i in range(n_classes))),), None)


class FitPass:
    """The streaming pass of `fit` over a file, labels at hand."""

    def __init__(self, path: Path, n: int, n_classes: int) -> None:
        self._path, self._labels = path, labels_of(n, n_classes)
        self._chosen = LabelledRows.of(np.arange(n))

    def __call__(self) -> CrossMoments:
        """Return the moments of the file."""
        with closing(open_source(str(self._path))) as source:
            return fold(LabelledSource(source, self._labels, self._chosen), CrossMoments, LOCAL, Silent())

    def method(self, name: str, of_task: Attribute | None = None, **parameters: Any) -> Fit[Any]:
        """Fit a method to the file."""
        method = METHODS[name]
        with closing(open_source(str(self._path))) as source, one_blas_thread():
            rows, known = LabelledSource(source, self._labels, self._chosen), method.Parameters(**parameters)
            return method.fit(rows, known, task=of_task, seed=0, engine=LOCAL, progress=Silent())


def warm_up(path: Path, n: int) -> None:
    """Compile and import now what the first run would, so that no timed one does."""
    compileall.compile_dir(str(Path(salcli.__file__).parent), quiet=1)
    fit_sal(FitPass(path, n, 2)())


def fit_in_memory(x: NDArray[Any], z: NDArray[Any]) -> Fit[Any]:
    """Fit rows that are at hand."""
    with one_blas_thread():
        return fit_sal(CrossMoments.of(x, z))


def apply(eraser: Path, path: Path, target: Path | None) -> None:
    """Send a file through a saved eraser into a new file, or (None) in place. The output is synced to disk."""
    if target is not None:
        target.unlink(missing_ok=True)
    options = ApplyOptions(in_place=target is None)
    command.apply(str(eraser), str(path), None if target is None else str(target), options)


def load(path: Path) -> tuple[list[str], NDArray[Any]]:
    """Read keys and vectors of a whole file into memory."""
    with closing(open_source(str(path))) as source:
        keys: list[str] = []
        vectors = np.empty((source.n, source.d), source.dtype)

        def placed(chunk: Chunk) -> tuple[str, ...]:
            batch = chunk.read()
            vectors[batch.rows[0] : batch.rows[0] + len(batch)] = batch.vectors
            return batch.keys or ()

        for some in ordered_map(placed, source.chunks()):
            keys.extend(some)
    return keys, vectors


def write_text(path: Path, target: Path) -> None:
    """Write every row of a keyed file as text."""
    target.unlink(missing_ok=True)
    with (
        closing(open_source(str(path))) as source,
        create(str(target), source, d=source.d, dtype=source.dtype, format_name="word2vec-text") as writer,
    ):
        stream_through(source, writer, lambda x, _: x, Silent())

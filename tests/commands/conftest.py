"""Small labelled embeddings for the commands."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ..cli.helpers import planted, save_npy, words, write_csv


@dataclass(frozen=True)
class Files:
    """Rows of three classes far apart, with a split, in files."""

    folder: Path
    x: NDArray[np.float32]
    y: list[str]
    parts: list[str]
    embeddings: str
    labels: str
    keyed_labels: str
    keys: str

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def rows(self, part: str) -> NDArray[np.int64]:
        return np.flatnonzero(np.array(self.parts) == part)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    n = 240
    x, y = planted(n, 8, n_classes=3, shift=3.0)
    parts = [("train", "train", "dev", "test")[i % 4] for i in range(n)]
    embeddings = save_npy(tmp_path / "x.npy", x)
    labels = write_csv(tmp_path / "y.csv", ["y", "split"], zip(y, parts, strict=True))
    order = np.random.default_rng(1).permutation(n)
    keyed = ([words(n)[i], y[i], parts[i]] for i in order)
    keyed_labels = write_csv(tmp_path / "keyed.csv", ["word", "y", "split"], keyed)
    (tmp_path / "x.keys.txt").write_text("\n".join(words(n)) + "\n", "utf-8")
    return Files(tmp_path, x, y, parts, str(embeddings), str(labels), str(keyed_labels), str(tmp_path / "x.keys.txt"))

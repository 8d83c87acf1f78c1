"""K̂ is written tile by tile: the inner products of all erased rows at once."""

from pathlib import Path

import h5py
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from salcli.commands.fit import fit
from salcli.commands.kernel_matrix import TILE, write_kernel
from salcli.erasers.artifact import read_artifact
from salcli.options import ApplyOptions, FitOptions
from salcli.streaming.progress import Silent

from ..cli.helpers import planted, save_npy, write_csv


def test_tiles_make_the_whole_matrix(tmp_path: Path) -> None:
    x, classes = planted(TILE + 30, 3)
    source = str(save_npy(tmp_path / "x.npy", x))
    labels = str(write_csv(tmp_path / "y.csv", ["g"], [[c] for c in classes]))
    eraser, target = str(tmp_path / "e.npz"), str(tmp_path / "k.h5")
    fit(source, labels, eraser, FitOptions(method="ksal", sample=200))
    artifact = read_artifact(eraser)
    n, dtype = write_kernel(eraser, artifact, source, target, ApplyOptions(writes_kernel=True), Silent())
    assert (n, dtype) == (len(x), np.float32)
    change = artifact.eraser.by_inner_products()
    at = change.coordinates(x)
    expected = change.erase_gram(change.kernel.gram(x, x), at, at, strength=1.0)
    with h5py.File(target) as file:
        (found,) = (item[:] for item in file.values() if isinstance(item, h5py.Dataset) and item.ndim == 2)
    assert_allclose(found, expected, atol=1e-5)
    assert_array_equal(found, found.T)

"""Several attributes with many combinations of classes: transports one after another, through the commands."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from salcli.cli.fitted import found_fields
from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.transport.method import TransportParameters
from salcli.erasers.transport.readers import readings
from salcli.errors import UsageError
from salcli.options import ApplyOptions, FitOptions, InspectOptions, LabelOptions
from salcli.streaming.engine import one_blas_thread

from ..cli.helpers import write_csv

N, D, NAMES = 3000, 15, ("a", "b", "c")
pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.int64]]:
    """Write rows of three attributes with five classes each: 125 combinations, each attribute in five dimensions."""
    folder, rng = tmp_path_factory.mktemp("sequence"), np.random.default_rng(0)
    codes = rng.integers(0, 5, (N, 3))
    spread = np.repeat(np.where(codes % 2 == 0, 1.0, 2.5), 5, axis=1)
    x = rng.normal(size=(N, D)) * spread
    x[:, ::5] += 6 * codes
    np.save(folder / "x.npy", (x @ np.linalg.qr(rng.normal(size=(D, D)))[0]).astype(np.float32))
    parts = np.resize(["train", "train", "test"], N)
    write_csv(
        folder / "y.csv", [*NAMES, "split"], [(*(f"v{c}" for c in row), p) for row, p in zip(codes, parts, strict=True)]
    )
    return folder, codes


def fitted(folder: Path, columns: tuple[str, ...] = NAMES, **parameters: object) -> str:
    known = TransportParameters(shrinkage=0.0, **parameters)  # type: ignore[arg-type]
    options = FitOptions(LabelOptions(columns), method="transport", parameters=known)
    fit(str(folder / "x.npy"), str(folder / "y.csv"), str(folder / "e.npz"), options)
    return str(folder / "e.npz")


def test_each_attribute_is_moved_and_later_ones_bring_little_back(folder: tuple[Path, NDArray[np.int64]]) -> None:
    path, codes = folder
    eraser = fitted(path)
    header = read_artifact(eraser).header
    assert header["eraser"] == "transports"
    assert [(step["attribute"], step["n_classes"]) for step in header["transports"]["steps"]] == [(n, 5) for n in NAMES]
    assert inspect(eraser, InspectOptions())["transports"] == header["transports"]
    shown = found_fields(header)
    assert [name for name in shown if name.startswith("transport (")] == [
        f"transport ({i}. {n})" for i, n in enumerate(NAMES, 1)
    ]
    assert "bring a little of earlier attributes back" in shown["limits"]
    apply(eraser, str(path / "x.npy"), str(path / "o.npy"), ApplyOptions())
    fresh = np.arange(2, N, 3)
    x, z = np.load(path / "x.npy")[fresh], np.load(path / "o.npy")[fresh]
    for i in range(3):
        with one_blas_thread():
            before, after = (readings(rows, codes[fresh, i], 5) for rows in (x, z))
        assert min(before.values()) > 0.75
        assert max(after.values()) < 0.36  # chance is 0.2


def test_noise_and_scores_are_about_one_transport(folder: tuple[Path, NDArray[np.int64]]) -> None:
    with pytest.raises(UsageError, match="`noise` goes with one transport"):
        fitted(folder[0], noise=0.1)
    with pytest.raises(UsageError, match="`score` is what the classes of one attribute are cut from"):
        fitted(folder[0], ("a", "b"), score="c")

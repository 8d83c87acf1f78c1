"""Covariances by regression on a score, against numpy's least squares, through the file that holds the scores."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import salcli
from salcli.commands.fit import fit
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.base import find_method
from salcli.erasers.transport.gaussians import IDENTITY, ClassGaussians, Shrinkage
from salcli.erasers.transport.method import TransportParameters
from salcli.erasers.transport.scored import regression_weights
from salcli.errors import LabelError, UsageError
from salcli.linalg.class_moments import ClassMoments
from salcli.options import FitOptions, LabelOptions

from ..cli.helpers import write_csv

N, D, TOP = 1200, 5, 100
pytestmark = pytest.mark.filterwarnings("ignore:.*(unlabelled in column|are few for)")
Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array, Array]:
    """Write rows whose spread grows with a score, at whose ends the classes are; a third is the test."""
    folder, rng = tmp_path_factory.mktemp("scored"), np.random.default_rng(0)
    s = rng.permutation(np.linspace(-1, 1, N))
    x = rng.normal(size=(N, D)) * (1.5 + s[:, None] * [1, -1, 0.5, 0, 0]) + s[:, None]
    x = x.astype(np.float32).astype(np.float64)
    np.save(folder / "x.npy", x.astype(np.float32))
    order = np.argsort(s)
    names = np.full(N, "", object)
    names[order[:TOP]], names[order[-TOP:]] = "low", "high"
    parts = ["" if not name else ("train", "train", "test")[i % 3] for i, name in enumerate(names)]
    write_csv(folder / "y.csv", ["side", "score", "split"], zip(names, map(repr, s.tolist()), parts, strict=True))
    write_csv(folder / "keys.csv", ["id", "side", "score", "split"],
              [(f"k{i}", names[i], repr(float(s[i])), parts[i]) for i in rng.permutation(N).tolist()])  # fmt: skip
    (folder / "keys.txt").write_text("".join(f"k{i}\n" for i in range(N)))
    return folder, x, s


def fitted(folder: Path, labels: str = "y.csv", score: str = "score", **options: object) -> Artifact:
    parameters = TransportParameters(shrinkage=0.1, towards=IDENTITY, score=score)
    known = FitOptions(LabelOptions(("side",)), method="transport", parameters=parameters, **options)  # type: ignore[arg-type]
    fit(str(folder / "x.npy"), str(folder / labels), str(folder / "e.npz"), known)
    return read_artifact(str(folder / "e.npz"))


def regressed(x: Array, s: Array, is_own: NDArray[np.bool_]) -> Array:
    """Return the covariance of rows at the scores of some of them, by least squares on 1, s, s²."""
    phi = np.stack([np.ones_like(s), s, s**2], axis=1)
    squares = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)
    at = phi[is_own].mean(axis=0)
    mean, square = (at @ np.linalg.lstsq(phi, y, rcond=None)[0] for y in (x, squares))
    return np.asarray(square.reshape(D, D) - np.outer(mean, mean))


def test_the_eraser_is_that_of_covariances_by_least_squares(rows: tuple[Path, Array, Array]) -> None:
    folder, x, s = rows
    artifact = fitted(folder)
    order = np.argsort(s)
    classes = [order[-TOP:], order[:TOP]]  # high, low
    own = [np.sort(part[part % 3 != 2]) for part in classes]
    free = order[TOP:-TOP]
    centres = np.array([s[part].mean() for part in own])
    nearest = np.argmin(np.abs(s[free][:, None] - centres), axis=1)
    covariances = []
    for code, part in enumerate(own):
        at = np.concatenate([part, free[nearest == code]])
        covariances.append(regressed(x[at], s[at], np.arange(len(at)) < len(part)))
    index, codes = np.concatenate(own), np.repeat([0, 1], [len(part) for part in own])
    moments = ClassMoments.of(x[index], np.eye(2)[codes])
    expected = ClassGaussians.of(moments, x[index], codes, covariances=np.stack(covariances))
    maps = expected.transport(Shrinkage(0.1, IDENTITY)).maps
    assert_allclose(artifact.eraser.arrays()["maps"], maps, atol=1e-8)
    assert artifact.header["scored"]["column"] == "score"
    assert artifact.header["scored"]["n_unlabelled"] == N - 2 * TOP
    assert min(artifact.header["scored"]["effective_rows"]) > 1.15 * max(len(part) for part in own)


def test_test_rows_take_no_part_and_keys_join_scores_as_positions_do(rows: tuple[Path, Array, Array]) -> None:
    folder, x, _ = rows
    from salcli.options import ReadOptions

    first = fitted(folder).eraser.arrays()["maps"]
    keyed = fitted(folder, "keys.csv", read=ReadOptions(keys_file=str(folder / "keys.txt")))
    assert_allclose(keyed.eraser.arrays()["maps"], first, atol=1e-12)
    changed = x.astype(np.float32)
    is_test = [line.endswith("test") for line in (folder / "y.csv").read_text().splitlines()[1:]]
    changed[is_test] = 100
    np.save(folder / "x.npy", changed)
    try:
        np.testing.assert_array_equal(fitted(folder).eraser.arrays()["maps"], first)
    finally:
        np.save(folder / "x.npy", x.astype(np.float32))


def test_regression_weights_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    own, others = rng.normal(1, 0.1, 20), rng.normal(0, 0.3, 50)
    a, s = regression_weights(own, others), np.concatenate([own, others])
    assert a is not None
    assert a.sum() == pytest.approx(1)
    y, phi = rng.normal(size=70), np.stack([np.ones(70), s, s**2], axis=1)
    assert a @ y == pytest.approx(phi[:20].mean(axis=0) @ np.linalg.lstsq(phi, y, rcond=None)[0])
    assert regression_weights(np.ones(5), np.zeros(5)) is None


def test_scores_that_cannot_be_used_are_one_line(rows: tuple[Path, Array, Array], tmp_path: Path) -> None:
    folder, x, s = rows
    text = (folder / "y.csv").read_text().splitlines()
    for name, change, says in (
        ("few.csv", lambda cells: cells if cells[0] else ["", "", ""], "no row has a score and no class"),
        ("gap.csv", lambda cells: [cells[0], "", cells[2]] if cells[0] else cells, "rows of the fit have no score"),
        ("same.csv", lambda cells: [cells[0], "1", cells[2]], "fewer than three scores"),
    ):
        lines = [text[0], *(",".join(change(line.split(","))) for line in text[1:])]
        (folder / name).write_text("\n".join(lines) + "\n")
        with pytest.raises(LabelError, match=says) as caught:
            fitted(folder, name)
        assert "\n" not in str(caught.value)
    with pytest.raises(LabelError, match="no column 'scores'"):
        fitted(folder, score="scores")
    with pytest.raises(UsageError, match="that column is guarded"):
        fitted(folder, score="side")
    with pytest.raises(UsageError, match="is a column of a label file"):
        salcli.fit(x[:300], np.where(s[:300] > 0, "high", "low"), method="transport", score="score")
    assert find_method("transport").Parameters().score is None

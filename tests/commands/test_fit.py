"""`fit` and `kfit`, called as functions."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.erasers.kernel import FeatureEraser
from salcli.erasers.ksal import KSALParameters
from salcli.erasers.sal import SALParameters
from salcli.errors import AlignmentError, LabelError, SalcliWarning, UsageError
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, ReadOptions

from ..cli.helpers import dense_directions, load_eraser, one_hot, projector, save_npy, write_csv
from .conftest import Files


def test_the_directions_are_those_of_the_dense_cross_covariance_of_the_train_rows(files: Files) -> None:
    artifact = fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    train = files.rows("train")
    _, u, s = dense_directions(files.x[train], one_hot([files.y[i] for i in train]))
    assert artifact.eraser.k == 2  # three classes
    assert_allclose(projector(Path(files.path("e.npz"))), u[:, :2] @ u[:, :2].T, atol=1e-6)
    assert not load_eraser(Path(files.path("e.npz")))["mean"].any()
    assert_allclose(artifact.singular_values, s, atol=1e-6)


def test_rows_that_are_not_fitted_change_nothing(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    changed = files.x.copy()
    changed[np.concatenate([files.rows("dev"), files.rows("test")])] += 7
    save_npy(files.folder / "other.npy", changed)
    fit(files.path("other.npy"), files.labels, files.path("other.npz"), FitOptions())
    one, other = (load_eraser(Path(files.path(name))) for name in ("e.npz", "other.npz"))
    for name in ("mean", "left", "right", "singular_values"):
        assert_array_equal(one[name], other[name])


def test_labels_by_key_in_another_order_find_the_same_rows(files: Files) -> None:
    by_row = fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    options = FitOptions(read=ReadOptions(keys_file=files.keys))
    by_key = fit(files.embeddings, files.keyed_labels, files.path("k.npz"), options)
    assert_allclose(projector(Path(files.path("k.npz"))), projector(Path(files.path("e.npz"))), atol=1e-6)
    assert by_key.header["rows"]["joined_by"] == "key"
    assert by_row.header["rows"]["joined_by"] == "row"


def test_the_header_says_what_was_fitted(files: Files) -> None:
    header = fit(
        files.embeddings, files.labels, files.path("e.npz"), FitOptions(parameters=SALParameters(k=1, center=False))
    ).header
    train = files.rows("train")
    assert header["rows"]["n_fitted"] == len(train)
    (attribute,) = header["attributes"]
    counts = dict(zip(attribute["classes"], attribute["counts"], strict=True))
    assert counts == {name: sum(files.y[i] == name for i in train) for name in sorted(set(files.y))}
    assert (header["k"], header["d"], header["is_centred"]) == (1, 8, False)
    assert header["k_rule"] == {"given": 1}


def test_a_linear_kernel_takes_off_what_sal_takes_off(files: Files) -> None:
    linear = fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    options = FitOptions(method="ksal", parameters=KSALParameters(kernel="linear", landmarks=60))
    artifact = fit(files.embeddings, files.labels, files.path("k.npz"), options)
    assert isinstance(artifact.eraser, FeatureEraser)
    x = files.x.astype(np.float64)
    features = artifact.eraser(x)
    mean = linear.eraser.mean  # type: ignore[union-attr]
    feature_mean = artifact.eraser.linear.mean
    erased = linear.eraser(x) - mean  # type: ignore[union-attr]
    assert_allclose((features - feature_mean) @ (features - feature_mean).T, erased @ erased.T, atol=1e-4)


def test_an_eraser_goes_into_a_file_and_that_is_said_before_a_file_is_opened() -> None:
    with pytest.raises(UsageError, match="give its name"):
        fit("no-such-file.npy", "no-such-file.csv", "-", FitOptions())


def test_two_rules_for_k_are_refused_as_the_parameters_are_made() -> None:
    with pytest.raises(UsageError, match="alpha"):
        SALParameters(k=1, alpha=2.0)


def test_a_part_that_no_row_has_is_named_and_nothing_is_written(files: Files) -> None:
    with pytest.raises(LabelError, match="'trian'"):
        fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions(fit_split="trian"))
    assert not Path(files.path("e.npz")).exists()


def test_a_table_of_pandas_joins_by_its_index_where_that_is_asked_for(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    order = np.random.default_rng(2).permutation(len(files.y))
    shuffled = ([i, files.y[i], files.parts[i]] for i in order)
    table = str(write_csv(files.folder / "pandas.csv", ["", "y", "split"], shuffled))
    with pytest.raises(AlignmentError, match="key=''"):
        fit(files.embeddings, table, files.path("p.npz"), FitOptions())
    written = fit(files.embeddings, table, files.path("p.npz"), FitOptions(labels=LabelOptions(key="")))
    assert_allclose(projector(Path(files.path("p.npz"))), projector(Path(files.path("e.npz"))), atol=1e-6)
    assert (written.header["rows"]["joined_by"], written.header["rows"]["key_column"]) == ("key", "")
    report = evaluate(files.embeddings, table, files.path("p.npz"), EvaluateOptions(probes=("linear",)))
    assert {(probe.n_train, probe.n_test) for probe in report.probes} == {(120, 60), (60, 60)}


def test_fewer_labels_than_rows_join_by_their_index(files: Files) -> None:
    chosen = np.flatnonzero(np.arange(len(files.y)) % 3)
    table = str(write_csv(files.folder / "few.csv", ["", "y"], ([i, files.y[i]] for i in chosen[::-1])))
    with pytest.warns(SalcliWarning, match="the 160 labels are joined by them to the 240 rows"):
        fit(files.embeddings, table, files.path("e.npz"), FitOptions())
    _, u, _ = dense_directions(files.x[chosen], one_hot([files.y[i] for i in chosen]))
    assert_allclose(projector(Path(files.path("e.npz"))), u[:, :2] @ u[:, :2].T, atol=1e-6)
    with pytest.warns(SalcliWarning, match="no rows were held out"):
        report = evaluate(files.embeddings, table, files.path("e.npz"), EvaluateOptions(probes=("linear",)))
    assert {probe.n_train for probe in report.probes} == {160}


def test_labels_in_utf16_are_the_same_labels(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    wide = files.folder / "wide.csv"
    wide.write_text(Path(files.labels).read_text().replace(",", "\t"), "utf-16")
    fit(files.embeddings, str(wide), files.path("w.npz"), FitOptions())
    assert_array_equal(load_eraser(Path(files.path("e.npz")))["left"], load_eraser(Path(files.path("w.npz")))["left"])

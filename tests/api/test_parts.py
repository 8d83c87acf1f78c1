"""Rows in parts: `partial_fit`, `merge` and `+` are fits to all rows at once, to rounding."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import salcli
from salcli.commands.evaluate import evaluate
from salcli.errors import LabelError, SalcliWarning
from salcli.options import EvaluateOptions
from tests.api.test_estimators import SUMMED, rows, same_eraser, without_inputs, write

N = 240


def labelled(kind: Any, table: dict[str, Any], part: slice) -> dict[str, Any]:
    names = ("job",) if kind is salcli.SPLINCE else ()
    found: dict[str, Any] = {"guarded": {name: table[name][part] for name in table if name not in names}}
    return found | ({"task": {"job": table["job"][part]}} if names else {})


def everything() -> tuple[np.ndarray, dict[str, Any]]:
    """Return rows sorted by label, so that parts lack classes, with numbers of a large mean, and missing labels."""
    x, table = rows(n=N, dtype=np.float64)
    order = np.argsort(table["gender"], kind="stable")
    x, found = x[order], {name: values[order].astype(object) for name, values in table.items()}
    found["gender"][::9] = None
    found["job"][150::13] = None
    found["time"] = 1.7e9 + x[:, 1] * 50 + np.arange(N)
    found["time"][::11] = np.nan
    return x, found


def assert_close(found: Any, expected: Any) -> None:
    assert found.k_ == expected.k_
    largest = expected.singular_values_[0]
    np.testing.assert_allclose(found.singular_values_, expected.singular_values_, rtol=1e-7, atol=1e-12 * largest)
    for name, array in expected.eraser_.arrays().items():
        np.testing.assert_allclose(found.eraser_.arrays()[name], array, rtol=1e-6, atol=1e-7 * np.abs(array).max())
    assert without_inputs(found.header_).keys() == without_inputs(expected.header_).keys()
    for name in ("attributes", "rows", "parameters", "k", "rank", "method"):
        assert found.header_[name] == expected.header_[name], name


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=4, unique=True), at=st.integers(0, 2))
def test_rows_in_parts_are_fitted_as_if_all_had_come_at_once(cuts: list[int], at: int) -> None:
    kind = SUMMED[at]
    x, table = everything()
    edges = [0, *sorted(cuts), N]
    parts = [slice(*pair) for pair in itertools.pairwise(edges)]
    expected = kind(numeric=("time",)).fit(x, **labelled(kind, table, slice(None)))
    one, halves = kind(numeric=("time",)), []
    for part in parts:
        one.partial_fit(x[part], **labelled(kind, table, part))
        halves.append(kind(numeric=("time",)).partial_fit(x[part], **labelled(kind, table, part)))
    total = halves[0]
    for other in halves[1:]:
        before = total._sums.statistics
        total = total + other
        assert total._sums.statistics is not before or other._sums.statistics is None
    assert_close(one, expected)
    assert_close(total, expected)
    np.testing.assert_allclose(one.transform(x), expected.transform(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", SUMMED)
def test_one_part_is_a_fit_bit_for_bit(kind: Any) -> None:
    x, table = everything()
    expected = kind(numeric=("time",)).fit(x, **labelled(kind, table, slice(None)))
    found = kind(numeric=("time",)).partial_fit(x, **labelled(kind, table, slice(None)))
    same_eraser(found.artifact_, expected.artifact_)
    assert without_inputs(found.header_) == without_inputs(expected.header_)


def test_uncentred_sums_add_up_too() -> None:
    x, table = everything()
    parameters: dict[str, Any] = {"center": False, "numeric": ("time",)}
    expected = salcli.SAL(**parameters).fit(x, guarded=table)
    found = salcli.SAL(**parameters)
    for part in (slice(0, 100), slice(100, N)):
        found.partial_fit(x[part], guarded={name: values[part] for name, values in table.items()})
    assert_close(found, expected)


def test_a_fit_can_be_continued_and_begun_again() -> None:
    x, table = everything()
    y = table["job"]
    found = salcli.SAL().fit(x[:100], guarded=y[:100])
    first = found.eraser_
    found.partial_fit(x[100:], guarded=y[100:])
    assert_close(found, salcli.SAL().fit(x, guarded=y))
    assert found.eraser_ is not first
    assert_close(found.fit(x[:100], guarded=y[:100]), salcli.SAL().fit(x[:100], guarded=y[:100]))


def test_a_part_may_lack_labels_and_classes_but_not_the_whole() -> None:
    x, _ = everything()
    found = salcli.SAL().partial_fit(x[:5], guarded=[None] * 5).partial_fit(x[5:50], guarded=["a"] * 45)
    with pytest.raises(LabelError, match="one class"):
        found.transform(x)
    found.partial_fit(x[50:], guarded=["b"] * (N - 50))
    assert found.header_["attributes"][0]["counts"] == [45, N - 50]
    assert found.header_["rows"]["n_fitted"] == N - 5


def test_what_does_not_add_up_is_refused(tmp_path: Path) -> None:
    x, table = everything()
    one = salcli.SAL().fit(x, guarded=table["job"])
    with pytest.raises(ValueError, match="'guarded'.*do not add up|of guarded and of job"):
        one.partial_fit(x, guarded={"job": table["job"]})
    with pytest.raises(ValueError, match="equal parameters"):
        one.merge(salcli.SAL(k=1).fit(x, guarded=table["job"]))
    with pytest.raises(ValueError, match="columns"):
        one.merge(salcli.SAL().fit(x[:, :3], guarded=table["job"]))
    with pytest.raises(TypeError):
        one + salcli.LEACE().fit(x, guarded=table["job"])
    with pytest.raises(ValueError, match="numbers.*classes|classes.*numbers"):
        salcli.SAL(numeric=True).fit(x, guarded=table["time"])._sums + one._sums
    one.to_artifact(str(tmp_path / "e.npz"))
    moved = salcli.SAL().partial_fit(x, guarded=table["job"]).set_params(center=False)
    with pytest.raises(ValueError, match="fit again"):
        moved.transform(x)
    with pytest.raises(ValueError, match="fitted with parameters that need more"):
        salcli.SAL(unit=True).fit(x, guarded=table["job"]).set_params(unit=False).partial_fit(x, guarded=table["job"])
    with pytest.raises(ValueError, match="read from an artifact"):
        salcli.SAL.from_artifact(str(tmp_path / "e.npz")).partial_fit(x, guarded=table["job"])


def test_a_sum_is_an_estimator_of_its_own() -> None:
    x, table = everything()
    one, other = (
        salcli.SAL().fit(x[:90], guarded=table["job"][:90]),
        salcli.SAL().fit(x[90:], guarded=table["job"][90:]),
    )
    first = one.transform(x)
    total = one.set_output(transform="default") + other
    total.set_output(transform="pandas")
    total.partial_fit(x, guarded=table["job"])
    np.testing.assert_array_equal(one.transform(x), first)
    assert one.header_["rows"]["n_fitted"] < total.header_["rows"]["n_fitted"]


def test_methods_that_need_more_than_sums_have_no_partial_fit() -> None:
    others = [salcli.INLP(), salcli.KernelSAL(), salcli.Transport()]
    for one in (*others, salcli.SAL(k="auto"), salcli.SAL(unit=True), salcli.LEACE(unit=True)):
        assert not hasattr(one, "partial_fit")
        assert not hasattr(one, "merge")
    for kind in SUMMED:
        assert hasattr(kind(), "partial_fit")
        assert hasattr(kind(k=0), "partial_fit")  # what is wrong with it is said by the fit


def test_evaluate_knows_the_rows_that_came_in_parts(tmp_path: Path) -> None:
    x, table = rows(n=N)
    embeddings, labels, path = write(tmp_path, x, {"gender": table["gender"]})
    one, other = (
        salcli.SAL().fit(x[part], guarded={"gender": table["gender"][part]}) for part in (slice(0, 90), slice(90, N))
    )
    (one + other).to_artifact(path)
    with pytest.warns(SalcliWarning, match="not known"):
        report = evaluate(embeddings, labels, path, EvaluateOptions(probes=("linear",), quick=True))
    assert report.probes

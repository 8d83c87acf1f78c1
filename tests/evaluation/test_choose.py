"""`fit --method auto`: the gentlest eraser whose leak on held-out rows of the fit keeps a limit."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import salcli
from salcli.erasers.base import Fit
from salcli.errors import GateError, LabelError, ParameterError, SalcliWarning, UsageError
from salcli.evaluation.choose import AutoParameters, mean_change

N = 1200


def linear(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes whose means differ, and nothing else."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N) % 2)
    x = rng.normal(size=(N, 5)) + 2
    x[:, 0] += 5 * y
    return x, y


def spread() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes whose means and covariances differ."""
    x, y = linear()
    x[:, 1] = (x[:, 1] - 2) * (1 + 3 * y)
    return x, y


def exclusive_or() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes, of two clusters each, whose means are equal."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(2, size=(2, N))
    x = rng.normal(size=(N, 4))
    x[:, 0] += 5 * (2 * a - 1)
    x[:, 1] += 5 * (2 * b - 1)
    return x, a ^ b


def chosen(x: np.ndarray, y: np.ndarray, **how: Any) -> Fit[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        return salcli.fit(x, y, method="auto", **how)


def test_a_linear_leak_needs_no_more_than_sal_at_its_rank() -> None:
    x, y = linear()
    found = chosen(x, y, max_leak=0.3, attackers=("linear", "rbf"))
    assert found.header["method"] == "sal"
    (only,) = found.header["auto"]["tried"]
    assert (only["method"], only["k"]) == ("sal", 1)
    assert only["leak"] <= 0.3
    plain = salcli.fit(x, y)  # the chosen method is fitted to all rows
    np.testing.assert_array_equal(found.eraser.left, plain.eraser.left)
    assert found.header["parameters"]["k"] is None


@pytest.mark.slow
def test_what_differs_in_covariance_needs_more_than_a_projection() -> None:
    found = chosen(*spread(), max_leak=0.4, attackers=("rbf",))
    tried = found.header["auto"]["tried"]
    assert found.header["method"] == tried[-1]["method"] == "transport"
    assert {each["method"] for each in tried[:-1]} >= {"sal", "leace"}
    assert all(each["leak"] > 0.4 for each in tried[:-1])


@pytest.mark.slow
def test_clusters_that_nothing_makes_alike_are_refused_and_the_best_is_named() -> None:
    with pytest.raises(
        GateError, match=r"no method keeps `max_leak=0.2` on 300 held-out rows .* the best of \d"
    ) as got:
        chosen(*exclusive_or(), max_leak=0.2, attackers=("rbf",))
    assert got.value.exit_code == 1
    assert "(y, rbf" in str(got.value)


@pytest.mark.slow
def test_of_several_classes_fewer_directions_are_tried_first() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=N)
    x = rng.normal(size=(N, 6))
    x[:, :4] += np.eye(4)[y] * [3, 5, 7, 9]
    found = chosen(x, y, max_leak=0.95, attackers=("linear",))
    tried = found.header["auto"]["tried"]
    k = tried[-1]["k"]
    assert k < 3
    assert found.eraser.k == found.header["parameters"]["k"] == k
    every = chosen(x, y, max_leak=0.3, attackers=("linear",)).header["auto"]["tried"]
    assert len(every) > len(tried)
    assert every[: len(tried)] == tried
    assert every[0]["change"] <= 1.25 * min(each["change"] for each in every) < every[-1]["change"]


def test_the_leak_is_that_of_an_attacker_on_rows_that_no_part_of_the_trial_saw() -> None:
    x, y = linear()
    about = chosen(x, y, max_leak=1.0, attackers=("linear",)).header["auto"]
    assert (about["n_trial"], about["n_train"], about["n_held_out"]) == (N // 2, N // 4, N // 4)
    rng = np.random.default_rng(5)  # another division, by other code
    fit, train, test = np.split(rng.permutation(N), [N // 2, 3 * N // 4])
    z = salcli.fit(x[fit], y[fit]).eraser(x)
    right = SVC(kernel="linear", C=1.0).fit(z[train], y[train]).score(z[test], y[test])
    assert abs(about["tried"][0]["leak"] - abs(2 * right - 1)) < 0.15


def test_the_change_does_not_count_a_common_shift() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3)) + 9
    assert mean_change(x, x + 4) == pytest.approx(0, abs=1e-12)
    after = x.copy()
    after[:, 0] = 0
    assert mean_change(x, after) == pytest.approx(np.var(x[:, 0]) / np.var(x, axis=0).sum())
    assert mean_change(np.ones((3, 2)), np.ones((3, 2))) == 0


def test_the_same_seed_chooses_by_the_same_figures() -> None:
    x, y = spread()
    first, again, other = (
        chosen(x, y, max_leak=1.0, attackers=("linear",), seed=seed).header["auto"] for seed in (0, 0, 1)
    )
    assert first == again
    assert first["tried"] != other["tried"]


def test_what_cannot_be_chosen_by_is_refused() -> None:
    x, y = linear()
    with pytest.raises(UsageError, match="method auto needs a limit: give `max_leak=X`"):
        chosen(x, y)
    with pytest.raises(ParameterError, match="expected some of linear, poly, rbf"):
        AutoParameters(max_leak=0.1, attackers=("spy",))
    with pytest.raises(LabelError, match="numeric, and method auto expects classes"):
        salcli.fit(x, y.astype(float), method="auto", numeric=True, max_leak=0.1)
    with pytest.raises(LabelError, match=r"holds 8 of 16 rows out of the fit, with 2 of a class .* at least 5"):
        chosen(x[:16], np.arange(16) % 2, max_leak=0.1)

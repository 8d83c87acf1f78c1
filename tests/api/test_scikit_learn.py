"""What scikit-learn demands of an estimator, and pipelines, searches and scores with guarded labels."""

import doctest
from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import salcli
from salcli.api import scoring
from salcli.errors import ParameterError, SalcliWarning, UsageError
from tests.api.test_estimators import rows

WHOLE = (salcli.SAL, salcli.LEACE, salcli.KernelSAL, salcli.SPLINCE, salcli.INLP, salcli.Transport)
NAMED = (
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_dataframe_column_names_consistency",
    "check_n_features_in",
    "check_inplace_ensure_writeable",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WHOLE)
def test_all_checks_of_scikit_learn_pass(kind: Any) -> None:
    found = check_estimator(kind(guards="y"), on_fail=None, on_skip=None)
    assert len(found) > 40
    failed = [each for each in found if each["status"] not in ("passed", "skipped")]
    assert not failed, failed
    assert {each["check_name"] for each in found if each["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", NAMED)
@pytest.mark.parametrize("kind", WHOLE)
def test_the_checks_that_scikit_learn_does_not_run_pass_too(kind: Any, check: str) -> None:
    try:
        getattr(estimator_checks, check)(kind.__name__, kind(guards="y"))
    except SkipTest as skipped:
        pytest.skip(str(skipped))


def test_without_a_task_splince_keeps_none_and_says_so() -> None:
    x, table = rows(dtype=np.float64)
    with pytest.warns(SalcliWarning, match="no main task to keep, and the eraser is that of leace"):
        found = salcli.SPLINCE(guards="y").fit(x, table["gender"])
    np.testing.assert_allclose(found.transform(x), salcli.LEACE().fit_transform(x, guarded=table["gender"]), atol=1e-9)
    assert "kept_task" not in found.header_
    with pytest.warns(SalcliWarning, match="no main task"):
        parts = salcli.SPLINCE(guards="y").partial_fit(x, table["gender"]).eraser_
    np.testing.assert_allclose(parts(x), found.transform(x), atol=1e-9)
    with pytest.raises(UsageError, match="keeps a main task, and there is none"):
        salcli.SPLINCE().fit(x, guarded=table["gender"])


def test_tags_say_what_is_needed_and_kept() -> None:
    tags = sklearn.utils.get_tags(salcli.SAL(guards="y"))
    assert tags.target_tags.required
    assert not sklearn.utils.get_tags(salcli.SAL()).target_tags.required
    assert set(tags.transformer_tags.preserves_dtype) == {"float32", "float64"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_floats_keep_their_dtype(dtype: Any) -> None:
    x, table = rows()
    x = (x / x.std(axis=0)).astype(dtype)
    expected = np.float64 if dtype is np.int32 else dtype
    assert salcli.SAL().fit_transform(x, guarded=table["gender"]).dtype == expected
    features = salcli.KernelSAL(landmarks=50).fit_transform(x, guarded=table["gender"])
    assert features.dtype == (np.float32 if dtype is np.float16 else expected)  # as `salcli apply` writes them


@pytest.fixture
def _routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline(**parameters: Any) -> Pipeline:
    eraser = salcli.SAL(**parameters).set_fit_request(guarded=True)
    return make_pipeline(StandardScaler(), eraser, LogisticRegression())


@pytest.mark.usefixtures("_routing")
def test_labels_are_routed_through_a_pipeline() -> None:
    x, table = rows()
    found = pipeline().fit(x, table["job"], guarded=table["gender"])
    scaled = StandardScaler().fit_transform(x)
    expected = salcli.SAL().fit(scaled, guarded=table["gender"]).transform(scaled)
    np.testing.assert_array_equal(found[:-1].transform(x), expected)
    assert found.score(x, table["job"]) > 0.7  # the main task is not erased
    with pytest.raises(UsageError, match="main task"):
        pipeline().fit(x, table["job"])
    assert salcli.SAL().set_partial_fit_request(guarded=True).partial_fit(x, guarded=table["gender"]).k_ == 2
    assert salcli.SPLINCE().set_fit_request(guarded=True, task=True)


@pytest.mark.usefixtures("_routing")
def test_a_search_by_leak_does_not_choose_to_erase_nothing() -> None:
    x, table = rows(n=300)
    scoring = {"task": "accuracy", "leak": salcli.leak_scorer("linear")}
    search = GridSearchCV(pipeline(), {"sal__strength": [0.0, 1.0]}, scoring=scoring, refit="leak", cv=3)
    search.fit(x, table["job"], guarded=table["gender"])
    assert search.best_params_ == {"sal__strength": 1.0}
    leaks = search.cv_results_["mean_test_leak"]
    assert leaks[0] < -0.5 < -0.3 < leaks[1] <= 0
    assert (search.cv_results_["mean_test_task"] > 0.6).all()


@pytest.mark.usefixtures("_routing")
def test_cross_validation_takes_guarded_labels_and_scores_leaks() -> None:
    x, table = rows(n=300)
    found = cross_validate(
        pipeline(), x, table["job"], cv=3, scoring=salcli.leak_scorer("linear"), params={"guarded": table["gender"]}
    )
    assert (found["test_score"] > -0.4).all()


def test_a_scorer_without_labels_explains_itself() -> None:
    x, table = rows(n=100)
    found = salcli.SAL().fit(x, guarded=table["gender"])
    with pytest.raises(UsageError, match=r"params=\{'guarded': labels\}"):
        salcli.leak_scorer("linear")(found, x, table["job"])
    with pytest.raises(ParameterError, match="no others"):
        salcli.leak_scorer(adversary="in-sample")
    with pytest.raises(ParameterError, match="expected some of"):
        salcli.leak_scorer("tox")
    of_y = salcli.SAL(guards="y").fit(x, table["gender"])
    score = salcli.leak_scorer("linear")
    assert score(of_y, x, table["gender"]) == score(found, x, guarded=table["gender"])
    assert repr(score) == "LeakScorer(attacker='linear')"


def test_leaks_of_numbers_are_shares_of_their_variance() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    age = x @ [1, 2, 3, 4]
    score = salcli.leak_scorer("ridge", numeric=True)
    kept = salcli.SAL(strength=0.0, numeric=True).fit(x, guarded=age)
    assert score(kept, x, guarded=age) < -0.95
    assert score(kept.set_params(strength=1.0), x, guarded=age) > -0.2


def test_the_examples_run() -> None:
    assert doctest.testmod(scoring).failed == 0

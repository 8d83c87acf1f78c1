"""How a report came to be, without places or times."""

from types import SimpleNamespace

import numpy as np
import pytest

import salcli
from salcli.evaluation.provenance import OF_FILES, WITHOUT_EFFECT, run_of
from salcli.formats.files import file_name
from salcli.options import EvaluateOptions, LabelOptions, Limit, ReadOptions, Sweep, options_of


@pytest.mark.parametrize(
    ("path", "name"), [("x.npy", "x.npy"), ("/a/b c/x.npy", "x.npy"), ("a/shards/", "shards"), ("-", "-"), ("/", "/")]
)
def test_a_file_is_named_without_its_folder(path: str, name: str) -> None:
    assert file_name(path) == name


def test_a_run_says_version_seed_options_and_libraries() -> None:
    options = EvaluateOptions(
        similarity=("/a/gold.tsv", "simlex999"),
        max_accuracy=(Limit(0.6), Limit(0.5, "rbf")),
        sweep=Sweep.parse("k=0:2"),
        reports=("/a/r.html",),
        labels=LabelOptions(attributes=("a/b",)),
        read=ReadOptions(batch_rows=7, keys_file="/a/keys.txt"),
        seed=3,
    )
    run = run_of(options, None, "salcli evaluate x y")
    assert (run.version, run.command, run.seed) == (salcli.__version__, "salcli evaluate x y", 3)
    assert run.options["similarity"] == ("gold.tsv", "simlex999")
    assert run.options["max_accuracy"] == (0.6, "rbf=0.5")
    assert run.options["sweep"] == "k=0…2, 3 values"
    assert (run.options["attributes"], run.options["keys_file"]) == (("a/b",), "keys.txt")
    assert run.options["attacker_rows"] == 10_000
    assert not {"batch_rows", "reports", "report_format"} & set(run.options)
    assert run.libraries["numpy"] == np.__version__


def test_every_option_that_names_a_file_is_known() -> None:
    """Its folder would make the reports of one run differ."""
    files = {"FILE", "OUT", "SET", "REPORT.json", "TEST,…"}
    named = {
        name
        for record in (EvaluateOptions, ReadOptions, LabelOptions)
        for name, (option, _) in options_of(record).items()
        if option.metavar in files and name not in WITHOUT_EFFECT
    }
    assert named <= set(OF_FILES)


def test_options_are_in_one_order_however_they_were_given() -> None:
    options = run_of(EvaluateOptions(seed=3, task="job", read=ReadOptions(allow_nonfinite=True)), None, "").options
    assert list(options) == sorted(options)


def test_a_report_says_which_rows_the_eraser_was_fitted_on() -> None:
    rows = {"n_fitted": 9, "sha256": "ab", "joined_by": "key", "rule": {"fit_split": "train", "holdout": 0.0}}
    artifact = SimpleNamespace(header={"rows": rows})
    found = run_of(EvaluateOptions(), artifact, "").fitted_rows  # type: ignore[arg-type]
    assert found == {"n_fitted": 9, "sha256": "ab", "joined_by": "key", "rule_fit_split": "train", "rule_holdout": 0.0}

"""How a report came to be, without places or times."""

import numpy as np
import pytest

import salcli
from salcli.evaluation.provenance import file_name, run_of
from salcli.options import EvaluateOptions, LabelOptions, Limit, ReadOptions, Sweep


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

"""`salcli evaluate` on several attributes: products, numbers, rows that have only some of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from .helpers import refuse, run, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N = 480
PARTS = np.array(["train", "train", "dev", "test"] * (N // 4))


def write_labels(path: Path, **columns: Any) -> Path:
    rows = zip(*columns.values(), PARTS, strict=True)
    return write_csv(path, [*columns, "split"], rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that tell whether two attributes agree, and hold a third and a number."""
    folder = tmp_path_factory.mktemp("several")
    rng = np.random.default_rng(0)
    one, two, three = (rng.permutation(np.arange(N) % 2) for _ in range(3))
    age = rng.normal(size=N)
    x = rng.normal(size=(N, 6))
    x[:, 0] += 5 * (one == two)
    x[:, 1] += 4 * three
    x[:, 2] += 2 * age
    x[:, 3] = age**2 - 1 + 0.1 * x[:, 3]  # like the next, uncorrelated with the number
    x[:, 4] = (age**3 - 3 * age) / 2 + 0.1 * x[:, 4]
    save_npy(folder / "x.npy", x.astype(np.float32))
    np.save(folder / "codes.npy", np.stack([one, two, three, age]))
    names = [["no", "yes"][code] for code in one], ["left", "right"], three
    two_names = [names[1][code] for code in two]
    three_names = [["t0", "t1"][code] for code in three]
    write_labels(folder / "y.csv", one=names[0], two=two_names, three=three_names, age=age)
    partly = ["" if i % 3 == 0 else name for i, name in enumerate(two_names)]
    write_labels(folder / "partly.csv", one=names[0], two=partly)
    return folder


def attributes(*names: str) -> list[str]:
    return [part for name in names for part in ("--attribute", name)]


def evaluated(folder: Path, *options: object, labels: str = "y.csv", code: int = 0) -> dict[str, Any]:
    how = ("--as", "raw", "--no-learning-curve", "--json", "--quiet")
    done = run("evaluate", folder / "x.npy", folder / labels, *options, *how)
    assert done.code == code, done
    return done.json()


def test_a_product_of_attributes_that_are_both_hidden_is_read_and_fails_the_gate(folder: Path) -> None:
    succeed("fit", folder / "x.npy", folder / "y.csv", *attributes("one", "two"), "-o", folder / "e.npz")
    options = ["--eraser", folder / "e.npz", "--probes", "linear", "--max-leak", "0.3"]
    found = evaluated(folder, *options, code=1)
    after = {(p["attribute"], p["adversary"]): p for p in found["probes"] if p["stage"] == "after"}
    assert {name for name, _ in after} == {"one", "two", "one × two"}
    assert after["one × two", "fresh"]["factors"] == ["one", "two"]
    assert after["one × two", "fresh"]["leak"] > 0.3 > after["one", "fresh"]["leak"]
    assert found["worst"]["attribute"] == "one × two"
    assert found["gates"][0]["decided_by"].startswith("one × two, linear")
    alone = evaluated(folder, *options, "--no-intersections", "--judge", "point")
    assert {p["attribute"] for p in alone["probes"]} == {"one", "two"}
    assert alone["verdict"] == "pass"
    assert [p for p in found["probes"] if "factors" not in p] == alone["probes"]
    three = evaluated(folder, *attributes("one", "two", "three"), "--probes", "linear", "--adversary", "fresh")
    assert [p["attribute"] for p in three["probes"]] == [
        "one", "two", "three", "one × two", "one × three", "two × three", "one × two × three",
    ]  # fmt: skip


def test_each_attribute_passes_alone_their_product_fails_and_passes_where_it_is_guarded(tmp_path: Path) -> None:
    """The mean of a column says whether two attributes agree; both are in another column too, which is erased."""
    n = 1_600
    rng = np.random.default_rng(5)
    one, two = (rng.permutation(np.arange(n) % 2) for _ in range(2))
    x = rng.normal(size=(n, 6))
    x[:, :2] += 4 * np.stack([one, two], axis=1)
    x[:, 2] += 4 * (one == two)
    vectors = save_npy(tmp_path / "x.npy", x.astype(np.float32))
    both = [f"{a}{b}" for a, b in zip(one, two, strict=True)]
    parts = ["train", "train", "dev", "test"] * (n // 4)
    labels = write_csv(tmp_path / "y.csv", ["one", "two", "both", "split"], zip(one, two, both, parts, strict=True))
    succeed("fit", vectors, labels, *attributes("one", "two"), "-o", tmp_path / "margins.npz")
    succeed("fit", vectors, labels, *attributes("both"), "-o", tmp_path / "product.npz")
    gate = ["--probes", "linear", "--as", "raw", "--no-kept", "--no-learning-curve", "--max-gain", "0.15", "--json"]

    def judged(eraser: str, *names: str, code: int) -> tuple[str, str, dict[str, float]]:
        done = run("evaluate", vectors, labels, "--eraser", tmp_path / eraser, *attributes(*names), *gate, "--quiet")
        assert done.code == code, done
        found = done.json()
        read = {
            p["attribute"]: p["accuracy"] - p["majority"]
            for p in found["probes"]
            if (p["stage"], p["adversary"]) == ("after", "in-sample")
        }
        return found["gates"][0]["status"], found["gates"][0]["decided_by"], read

    for name in ("one", "two"):
        status, _, read = judged("margins.npz", name, code=0)
        assert (status, set(read)) == ("passed", {name})
    status, by, read = judged("margins.npz", "one", "two", code=1)
    assert (status, by.split(",")[0]) == ("failed", "one × two")
    assert read["one × two"] > 0.15 > 0.05 > max(read["one"], read["two"])
    status, _, read = judged("product.npz", "one", "two", code=0)
    assert (status, set(read)) == ("passed", {"one", "two", "one × two"})


def ridge_r2(x: NDArray[Any], age: NDArray[Any]) -> float:
    """Ridge regression by hand, nearly without a penalty: from the dev rows to the test rows."""
    at = x[PARTS == "dev"]
    design = np.column_stack([np.ones(len(at)), at])
    weights = np.linalg.lstsq(design, age[PARTS == "dev"], rcond=None)[0]
    test = x[PARTS == "test"]
    predicted = np.column_stack([np.ones(len(test)), test]) @ weights
    return float(r2_score(age[PARTS == "test"], predicted))


def test_a_number_is_read_before_and_after_and_judged_by_its_own_gate(folder: Path) -> None:
    x, age = np.load(folder / "x.npy").astype(np.float64), np.load(folder / "codes.npy")[3]
    succeed("fit", folder / "x.npy", folder / "y.csv", "--numeric", "age", "-o", folder / "age.npz")
    found = evaluated(folder, "--eraser", folder / "age.npz", "--max-r2", "0.1", code=1)
    by_name = {(r["probe"], r["adversary"], r["stage"]): r for r in found["numeric"]}
    assert {name for name, *_ in by_name} == {"ridge", "kernel-ridge", "boosting"}
    assert by_name["ridge", "fresh", "before"]["r2"] == pytest.approx(ridge_r2(x, age), abs=0.02)
    assert max(by_name["ridge", adversary, "after"]["r2"] for adversary in ("in-sample", "fresh")) < 0.1
    assert by_name["kernel-ridge", "fresh", "before"]["r2"] > 0.8
    for result in by_name.values():
        assert result["ci95"][0] < result["r2"] < result["ci95"][1] <= 1
    assert found["probes"] == []
    (gate,) = found["gates"]
    assert (gate["name"], gate["value"]) == ("max-r2", max(r["r2"] for r in found["numeric"] if r["stage"] == "after"))
    (could,) = found["detectable"]
    assert (could["attribute"], could["n_test"], could["is_numeric"]) == ("age", N // 4, True)


def test_no_gate_on_classes_passes_where_a_number_is_guarded_and_not_judged(folder: Path) -> None:
    options = [*attributes("three"), "--numeric", "age", "--probes", "linear,ridge", "--max-accuracy", "1"]
    found = evaluated(folder, *options, code=1)
    assert found["gates"][0]["reason"].startswith("no limit judges age, which is numeric: set --max-r2 too")
    assert {r["probe"] for r in found["numeric"]} == {"ridge"}
    found = evaluated(folder, *options, "--max-r2", "1")
    assert [gate["status"] for gate in found["gates"]] == ["passed", "passed"]
    refuse(2, "evaluate", folder / "x.npy", folder / "y.csv", *options[:2], "--probes", "ridge", says="reads numbers")
    refuse(2, "evaluate", folder / "x.npy", folder / "y.csv", *options, "--max-r2", "rbf=1", says="no probe 'rbf'")


def test_a_row_counts_for_each_attribute_that_it_has(folder: Path) -> None:
    options = ["--probes", "linear", "--no-learning-curve"]
    found = evaluated(folder, *attributes("one", "two"), *options, labels="partly.csv")
    n_of = {(p["attribute"], p["adversary"]): (p["n_train"], p["n_test"]) for p in found["probes"]}
    has_two = np.arange(N) % 3 > 0
    n_dev, n_test = (int(np.sum(has_two & (name == PARTS))) for name in ("dev", "test"))
    assert n_of["one", "fresh"] == (N // 4, N // 4)
    assert n_of["two", "fresh"] == n_of["one × two", "fresh"] == (n_dev, n_test)
    alone = evaluated(folder, *attributes("one"), *options, labels="partly.csv")
    assert [p for p in found["probes"] if p["attribute"] == "one"] == alone["probes"]
    # an eraser was fitted on the rows that have both
    succeed("fit", folder / "x.npy", folder / "partly.csv", *attributes("one", "two"), "-o", folder / "p.npz")
    erased_too = evaluated(folder, "--eraser", folder / "p.npz", *options, labels="partly.csv")
    n_of = {(p["attribute"], p["adversary"]): (p["n_train"], p["n_test"]) for p in erased_too["probes"]}
    n_fitted = int(np.sum(has_two & (PARTS == "train")))
    assert n_of["one", "in-sample"] == (n_fitted, N // 4)
    assert n_of["two", "in-sample"] == (n_fitted, n_test)
    assert n_of["one", "fresh"] == (N // 4, N // 4)


def test_sweeps_and_repeats_have_numbers_too(folder: Path) -> None:
    succeed("fit", folder / "x.npy", folder / "y.csv", "--numeric", "age", "-o", folder / "s.npz")
    options = ["--eraser", folder / "s.npz", "--probes", "ridge", "--repeats", "2", "--sample", "60"]
    found = evaluated(folder, *options, "--sweep", "strength=0:1:1")
    first, last = ({r["adversary"]: r["r2"] for r in step["numeric"]} for step in found["sweep"])
    stages = {(r["adversary"], r["stage"]): r["r2"] for r in found["numeric"]}
    assert first["fresh"] == pytest.approx(stages["fresh", "before"], abs=1e-6)
    assert last["fresh"] == pytest.approx(stages["fresh", "after"], abs=1e-6)
    assert [figure["name"] for figure in found["repeats"]["figures"]] == [
        "age, ridge, in-sample: R²", "age, ridge, fresh: R²",
    ]  # fmt: skip


def test_every_report_says_what_the_test_rows_could_have_shown_and_recall_by_class(folder: Path) -> None:
    paths = [folder / f"r.{suffix}" for suffix in ("md", "html", "json")]
    reports = [part for path in paths for part in ("--report", path)]
    options = [*attributes("three"), "--numeric", "age", "--probes", "linear,ridge", "--max-leak", "0.01"]
    done = run("evaluate", folder / "x.npy", folder / "y.csv", *options, *reports)
    assert done.code == 1
    assert "smallest that 120 test rows of three could have shown (power 0.8): accuracy 0.6" in done.out
    assert "smallest that 120 test rows of age could have shown (power 0.8): R² 0.2" in done.out
    assert "warning: three: 120 test rows could have shown nothing below" in done.err
    assert "Share of the variance of a numeric attribute" in done.out
    for path in paths[:2]:
        text = path.read_text("utf-8")
        for said in ("Recall by class of three: linear, fresh", "could have shown", "explains", "R²"):
            assert said in text, (path, said)

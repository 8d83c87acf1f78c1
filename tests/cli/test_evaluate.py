"""`salcli evaluate` in a process of its own: which rows attack, what they read, and what the gates make of it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import pytest

from .helpers import (
    Done,
    header_of,
    load_eraser,
    planted,
    refuse,
    run,
    save_npy,
    succeed,
    text_of,
    words,
    write_csv,
)

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 900, 6
PARTS = ["train"] * 400 + ["dev"] * 200 + ["test"] * 250 + ["unused"] * 50
UNUSED = (
    "column 'split': rows marked 'unused' (50 rows) are not used; train, dev (or val, valid, validation) and test are"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two unequal classes that a plane divides, a split, and an eraser of the train rows."""
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(N) < 0.35, "few", "many")
    x = rng.normal(size=(N, D)) + np.outer(labels == "few", [8, -4, 0, 2, 0, 0]) + [3, 1, 0, 0, 0, -2]
    save_npy(folder / "x.npy", x.astype(np.float32))
    write_csv(folder / "y.csv", ["y", "split"], zip(labels, PARTS, strict=True))
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    return folder


LINEAR = ("--probes", "linear", "--as", "raw", "--no-learning-curve")


def inputs(folder: Path, eraser: str = "e.npz") -> list[object]:
    return [folder / "x.npy", folder / "y.csv", "--eraser", folder / eraser, *LINEAR]


@pytest.fixture(scope="module")
def done(folder: Path) -> Done:
    return succeed("evaluate", *inputs(folder), "--json")


@pytest.fixture(scope="module")
def report(done: Done) -> dict[str, Any]:
    return done.json()


def result(report: dict[str, Any], adversary: str, stage: str) -> dict[str, Any]:
    options = ("linear", adversary, stage, "raw")
    (found,) = [p for p in report["probes"] if (p["probe"], p["adversary"], p["stage"], p["as"]) == options]
    return found


def test_the_report_has_the_fields_of_its_schema(folder: Path, report: dict[str, Any]) -> None:
    assert report["schema"] == "salcli.report/1"
    assert {"inputs", "eraser", "probes", "gates", "notes", "verdict"} <= set(report)
    for name, file in (("embeddings", "x.npy"), ("labels", "y.csv")):
        assert report["inputs"][name]["path"] == file
        algorithm, digest = report["inputs"][name]["hash"].values()
        assert (
            digest
            == {"blake3": blake3.blake3, "sha256": hashlib.sha256}[algorithm]((folder / file).read_bytes()).hexdigest()
        )
    assert (report["inputs"]["embeddings"]["n"], report["inputs"]["embeddings"]["d"]) == (N, D)
    assert (report["eraser"]["method"], report["eraser"]["k"], report["eraser"]["rank"]) == ("sal", 1, 1)
    assert report["gates"] == []
    assert report["verdict"] == "none"
    assert [(p["probe"], p["adversary"], p["stage"]) for p in report["probes"]] == [
        (probe, adversary, stage)
        for adversary in ("in-sample", "fresh")
        for probe in ("linear", "linear-weighted")
        for stage in ("before", "after")
    ]


def test_every_probe_states_its_rows_its_majority_and_its_interval(folder: Path, report: dict[str, Any]) -> None:
    test = [line.split(",")[0] for line in (folder / "y.csv").read_text().splitlines() if line.endswith(",test")]
    majority = test.count("many") / len(test)
    for probe in report["probes"]:
        assert probe["n_train"] == {"in-sample": 400, "fresh": 200}[probe["adversary"]]
        assert probe["n_test"] == 250
        assert probe["majority"] == pytest.approx(majority, abs=1e-15)
        assert (probe["attribute"], probe["converged"], probe["capped"]) == ("y", True, False)
        share, n, z = probe["accuracy"], 250, 1.959963984540054
        half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
        centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        assert probe["ci95"] == pytest.approx([centre - half, centre + half], abs=1e-12)
        assert (probe["accuracy"] * 250) == pytest.approx(round(probe["accuracy"] * 250), abs=1e-9)


def test_attackers_read_all_before_and_next_to_nothing_after(report: dict[str, Any]) -> None:
    for adversary in ("in-sample", "fresh"):
        before = result(report, adversary, "before")
        assert before["accuracy"] > 0.99
        assert before["balanced_accuracy"] > 0.99
    after = result(report, "in-sample", "after")
    assert after["accuracy"] == after["majority"]
    assert after["balanced_accuracy"] == 0.5
    fresh = result(report, "fresh", "after")
    assert abs(fresh["accuracy"] - fresh["majority"]) < 0.06
    assert abs(fresh["balanced_accuracy"] - 0.5) < 0.06


def test_a_second_run_writes_the_same_bytes(folder: Path, done: Done) -> None:
    env = {"PYTHONHASHSEED": "5", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"}
    assert run("evaluate", *inputs(folder), "--json", "--quiet", env=env).stdout == done.stdout


def test_without_json_a_table_and_a_verdict_are_printed(folder: Path) -> None:
    done = run("evaluate", *inputs(folder), "--max-accuracy", "0.5", "--quiet")
    assert done.code == 1
    unused, blind = done.err.splitlines()
    assert unused == f"warning: {UNUSED}"
    assert blind.startswith("warning: y: 250 test rows could have shown nothing below 0.69")
    assert done.out.splitlines()[-1] == "verdict: fail"
    assert "gate max-accuracy ≤ 0.5: " in done.out
    assert sum(" linear " in line for line in done.out.splitlines()) == 4


# Gates


def worst(report: dict[str, Any]) -> float:
    after = [probe["accuracy"] for probe in report["probes"] if probe["stage"] == "after"]
    return max(max(share, 1 - share) for share in after)


def test_a_gate_passes_up_to_its_limit_and_no_further(folder: Path, report: dict[str, Any]) -> None:
    """One run for each verdict: as many gates as there are limits, judged one by one."""
    value = worst(report)
    below = [float(np.nextafter(value, 0)), *np.random.default_rng(1).uniform(0, value, 5).tolist(), 0.0]
    above = [value, float(np.nextafter(value, 1)), *np.random.default_rng(2).uniform(value, 1, 5).tolist(), 1.0]
    for limits, code, verdict in ((above, 0, "pass"), (above + below, 1, "fail")):
        options = [option for limit in limits for option in ("--max-accuracy", repr(limit))]
        done = run("evaluate", *inputs(folder), "--json", "--judge", "point", *options)
        assert done.code == code, done
        found = done.json()
        assert found["verdict"] == verdict
        assert [gate["limit"] for gate in found["gates"]] == limits
        assert [gate["passed"] for gate in found["gates"]] == [limit >= value for limit in limits]
        assert {gate["value"] for gate in found["gates"]} == {value}
        assert {
            **found,
            "gates": [],
            "verdict": "none",
            "run": report["run"],
            "notes": [note for note in found["notes"] if "could have shown" not in note],
        } == report  # complete, whatever the gate says


def test_a_gate_is_undecided_between_its_bounds_and_says_what_would_decide(
    folder: Path, report: dict[str, Any]
) -> None:
    value = worst(report)
    args = ["evaluate", *inputs(folder), "--max-accuracy", repr(value + 0.001)]
    done = run(*args, "--json")
    (gate,) = done.json()["gates"]
    assert (done.code, done.json()["verdict"]) == (1, "undecided")
    assert (gate["status"], gate["passed"], gate["value"]) == ("undecided", False, value)
    assert gate["rows_needed"] > 10_000
    assert f"about {gate['rows_needed']:,} test rows would decide" in gate["reason"]
    allowed = run(*args, "--allow-undecided", "--quiet")
    assert (allowed.code, allowed.out.splitlines()[-1]) == (0, "verdict: undecided")
    assert " UNDECIDED (" in allowed.out
    wide = succeed("evaluate", *inputs(folder), "--max-accuracy", repr(value + 0.1), "--confidence", "0.6", "--json")
    assert wide.json()["gates"][0]["status"] == "passed"
    failing = run("evaluate", *inputs(folder), "--max-accuracy", repr(value - 0.2), "--allow-undecided", "--json")
    assert (failing.code, failing.json()["verdict"]) == (1, "fail")


def test_copies_of_fitted_rows_are_left_out_and_pass_no_gate_if_they_are_many(tmp_path: Path) -> None:
    x, labels = planted(400, 20)
    splits = np.array(["train", "dev", "test", "test"])[np.arange(400) % 4]
    args = [
        "evaluate",
        tmp_path / "x.npy",
        tmp_path / "y.csv",
        *LINEAR,
        "--max-accuracy",
        "1",
        "--json",
    ]
    write_csv(tmp_path / "y.csv", ["y", "split"], [[label, split] for label, split in zip(labels, splits, strict=True)])
    train, test = np.flatnonzero(splits == "train"), np.flatnonzero(splits == "test")
    for n, code in ((20, 0), (21, 1)):
        copied = x.copy()
        copied[test[:n]] = x[train[:n]] * (1 + 1e-6)
        save_npy(tmp_path / "x.npy", copied)
        done = run(*args)
        assert done.code == code
        found = done.json()
        assert found["duplicates"]["test"]["n"] == n
        assert {p["n_test"] for p in found["probes"]} == {200 - n}
        assert any(f"test: {n} of 200 rows are left out, copies of rows that train" in note for note in found["notes"])
    assert "21 of 200 test rows are copies" in found["gates"][0]["reason"]


def test_a_gate_may_name_its_probe(folder: Path) -> None:
    done = run("evaluate", *inputs(folder), "--json", "--max-accuracy", "linear=0.99")
    assert done.code == 0
    assert done.json()["gates"][0]["name"] == "max-accuracy linear"


def test_without_an_eraser_the_gate_judges_the_file_as_it_is(folder: Path) -> None:
    done = run("evaluate", folder / "x.npy", folder / "y.csv", *LINEAR, "--json", "--max-accuracy", "0.9")
    assert done.code == 1
    found = done.json()
    assert found["eraser"] is None
    assert {probe["stage"] for probe in found["probes"]} == {"before"}
    assert found["gates"][0]["value"] > 0.99


@pytest.mark.parametrize("limit", ["1.5", "much", "rbf7=0.5", "nan"])
def test_a_limit_that_is_no_share_is_a_usage_error(folder: Path, limit: str) -> None:
    refuse(2, "evaluate", *inputs(folder), f"--max-accuracy={limit}", says=limit)


@pytest.mark.parametrize("options", [["--adversary", "spy"], ["--probes", "oracle"], ["--attacker-rows", "1"]])
def test_an_attacker_that_does_not_exist_is_a_usage_error(folder: Path, options: list[str]) -> None:
    refuse(2, "evaluate", *inputs(folder), *options, says=options[0])


# Rows


def test_labels_that_lead_to_other_rows_are_refused(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "y.csv").read_text().splitlines()
    lines[1] = lines[1].replace("train", "test")
    (tmp_path / "y.csv").write_text("\n".join(lines) + "\n")
    files = [folder / "x.npy", tmp_path / "y.csv", "--eraser", folder / "e.npz"]
    refuse(3, "evaluate", *files, "--quiet", says="399 fitted rows, not to the 400")
    lines[0] = "y,part"
    (tmp_path / "y.csv").write_text("\n".join(lines) + "\n")
    refuse(3, "evaluate", *files, "--quiet", says="no column 'split'")


@pytest.mark.parametrize("part", ["train", "test"])
def test_labels_that_changed_places_are_refused_or_told(folder: Path, tmp_path: Path, part: str) -> None:
    header, *lines = (folder / "y.csv").read_text().splitlines()
    places = [i for i, line in enumerate(lines) if line.endswith(f",{part}")]
    one = places[0]
    other = next(i for i in places if lines[i] != lines[one])
    lines[one], lines[other] = lines[other], lines[one]  # the same counts, other people
    (tmp_path / "y.csv").write_text("\n".join([header, *lines]) + "\n")
    files = [folder / "x.npy", tmp_path / "y.csv", "--eraser", folder / "e.npz"]
    if part == "train":
        refuse(3, "evaluate", *files, "--quiet", says="has other labels on the fitted rows")
    else:
        notes = succeed("evaluate", *files, *LINEAR, "--json").json()["notes"]
        assert any("the labels are not the file that the eraser was fitted on" in note for note in notes)


def test_another_width_is_refused_with_both_numbers(folder: Path, tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.ones((N, D + 1)))
    files = [tmp_path / "x.npy", folder / "y.csv", "--eraser", folder / "e.npz"]
    refuse(3, "evaluate", *files, "--quiet", says="has 7 dimensions")


def test_an_eraser_of_rows_of_another_size_is_refused_and_not_attacked_for_ever(tmp_path: Path) -> None:
    x, labels = planted(200, 4)
    y = write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    large, small = save_npy(tmp_path / "large.npy", x), save_npy(tmp_path / "small.npy", x * np.float32(1e-40))
    succeed("fit", large, y, "--keep-mean", "-o", tmp_path / "e.npz")
    done = refuse(
        3,
        "evaluate",
        small,
        y,
        "--eraser",
        tmp_path / "e.npz",
        *LINEAR,
        says="of another size",
    )
    assert "as they lie apart" in done.err


def test_the_cap_on_training_rows_is_stated_when_it_bites(folder: Path) -> None:
    done = succeed("evaluate", *inputs(folder), "--json", "--quiet", "--probe-rows", "300")
    found = done.json()
    by_adversary = {p["adversary"]: (p["n_train"], p["capped"], p["n_test"]) for p in found["probes"]}
    assert by_adversary == {"in-sample": (300, True, 250), "fresh": (200, False, 250)}
    assert found["notes"] == ["in-sample: 300 of 400 training rows used (--attacker-rows)", UNUSED]
    assert "300 of 400 training rows used" in done.err


def test_without_dev_rows_half_of_the_test_rows_attack(folder: Path, tmp_path: Path) -> None:
    text = (folder / "y.csv").read_text().replace(",dev", ",unused")
    (tmp_path / "y.csv").write_text(text)
    files = [folder / "x.npy", tmp_path / "y.csv", "--eraser", folder / "e.npz", *LINEAR]
    fresh = result(succeed("evaluate", *files, "--json").json(), "fresh", "after")
    assert fresh["n_train"] + fresh["n_test"] == 250
    assert 90 < fresh["n_train"] < 160


def test_nothing_held_out_is_said_and_no_gate_on_fresh_passes(folder: Path, tmp_path: Path) -> None:
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", tmp_path / "all.npz", "--no-split", "--attribute", "y")
    files = [
        folder / "x.npy",
        folder / "y.csv",
        "--eraser",
        tmp_path / "all.npz",
        "--json",
        "--quiet",
        *LINEAR,
    ]
    done = run("evaluate", *files, "--max-accuracy", "1")
    assert done.code == 1
    found = done.json()
    assert {(p["adversary"], p["n_train"], p["n_test"]) for p in found["probes"]} == {("in-sample", N, N)}
    assert result(found, "in-sample", "after")["accuracy"] == result(found, "in-sample", "after")["majority"]
    assert found["gates"][0]["passed"] is False
    assert "fresh" in found["gates"][0]["reason"]
    assert [note for note in found["notes"] if "no rows were held out" in note]
    assert sum("no rows were held out" in line for line in done.err.splitlines()) == 1
    assert run("evaluate", *files, "--max-accuracy", "1", "--adversary", "in-sample").code == 0


def write_secret(folder: Path, held_out: list[int], n: int) -> Path:
    """Write rows that tell their label only where they took no part in the fit: elsewhere they are noise."""
    rng = np.random.default_rng(7)
    labels = rng.permutation(np.arange(n) % 2)
    x = rng.normal(size=(n, 6))
    x[:, 0] = 0
    x[held_out, 0] = 10 * labels[held_out] - 5
    keys = [b"w%d" % i for i in range(n)]
    (folder / "secret.txt").write_bytes(text_of(keys, x, has_header=True))
    parts = ["train"] * n
    for i in held_out:
        parts[i] = "dev" if i % 2 else "test"
    write_csv(folder / "secret.csv", ["word", "y", "split"], zip(words(n), labels, parts, strict=True))
    return folder


def assert_only_fresh_reads(found: dict[str, Any]) -> None:
    for stage in ("before", "after"):
        assert result(found, "fresh", stage)["accuracy"] == 1.0  # one fitted row among its test rows would miss
        assert result(found, "in-sample", stage)["accuracy"] < 0.8  # a held-out row in its training would tell it all


def test_fresh_and_test_rows_of_a_split_took_no_part_in_the_fit(tmp_path: Path) -> None:
    write_secret(tmp_path, list(range(100, 200)), 200)
    files = [tmp_path / "secret.txt", tmp_path / "secret.csv"]
    succeed("fit", *files, "-o", tmp_path / "e.npz")
    found = succeed("evaluate", *files, "--eraser", tmp_path / "e.npz", *LINEAR, "--json").json()
    assert_only_fresh_reads(found)
    assert {(p["n_train"], p["n_test"]) for p in found["probes"]} == {(100, 50), (50, 50)}


def test_fresh_and_test_rows_of_a_holdout_took_no_part_in_the_fit(tmp_path: Path) -> None:
    n, rule = 200, ["--no-split", "--holdout", "0.5", "--seed", "4"]
    (tmp_path / "unit.txt").write_bytes(text_of([b"w%d" % i for i in range(n)], np.eye(n), has_header=True))
    write_csv(tmp_path / "any.csv", ["word", "y"], [[f"w{i}", i % 2] for i in range(n)])
    succeed("fit", tmp_path / "unit.txt", tmp_path / "any.csv", "-o", tmp_path / "unit.npz", "--keep-mean", *rule)
    held_out = np.flatnonzero(load_eraser(tmp_path / "unit.npz")["mean"] == 0).tolist()
    write_secret(tmp_path, held_out, n)
    files = [tmp_path / "secret.txt", tmp_path / "secret.csv"]
    succeed("fit", *files, "-o", tmp_path / "e.npz", *rule, "--attribute", "y")
    found = succeed("evaluate", *files, "--eraser", tmp_path / "e.npz", *LINEAR, "--json").json()
    assert_only_fresh_reads(found)
    fresh, in_sample = result(found, "fresh", "after"), result(found, "in-sample", "after")
    assert fresh["n_train"] + fresh["n_test"] == len(held_out)
    assert in_sample["n_train"] == header_of(tmp_path / "e.npz")["rows"]["n_fitted"] == n - len(held_out)
    bare = succeed("evaluate", *files, *rule, *LINEAR, "--attribute", "y", "--json").json()  # the same rule
    assert result(bare, "fresh", "before") == result(found, "fresh", "before")


def test_several_classes_are_told_apart_before_and_not_after(tmp_path: Path) -> None:
    x, labels = planted(900, 8, n_classes=4, seed=6)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--holdout", "0.5")
    done = run("evaluate", *inputs(tmp_path), "--json", "--max-accuracy", "0.5")
    assert done.code == 0, done
    found = done.json()
    for adversary in ("in-sample", "fresh"):
        assert result(found, adversary, "before")["accuracy"] > 0.97
        assert result(found, adversary, "after")["accuracy"] < 0.4
    # one of four below chance is no flipped answer
    assert found["gates"][0]["value"] == max(p["accuracy"] for p in found["probes"] if p["stage"] == "after")


# Leak, baseline, pooled, quick


def test_a_release_may_not_leak_more_than_the_last_one(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "last.json"
    common = ("evaluate", *inputs(folder), "--judge", "point", "--quiet")
    succeed(*common, "--report", report, "--max-leak", "1")
    last = json.loads(report.read_text())
    leak = max(p["leak"] for p in last["probes"] if p["stage"] == "after")
    assert (last["gates"][0]["name"], last["gates"][0]["value"]) == ("max-leak", leak)
    again = succeed(*common, "--baseline", report, "--max-leak-increase", "0", "--json").json()
    assert [(gate["name"], gate["value"]) for gate in again["gates"]] == [("max-leak-increase", 0)]
    for probe in last["probes"]:
        probe["leak"] = max(0.0, probe["leak"] - 0.5)
    report.write_text(json.dumps(last))
    assert run(*common, "--baseline", report, "--max-leak-increase", "0").code == (1 if leak else 0)
    report.write_text("{}")
    refuse(3, *common, "--baseline", report, "--max-leak-increase", "0", says="expected a JSON report")
    refuse(2, *common, "--baseline", report, says="--max-leak-increase")


def test_a_pooled_attacker_has_the_fitted_and_the_fresh_rows(folder: Path) -> None:
    found = succeed("evaluate", *inputs(folder), "--adversary", "in-sample,fresh,pooled", "--json").json()
    n = {probe["adversary"]: probe["n_train"] for probe in found["probes"]}
    assert n["pooled"] == n["in-sample"] + n["fresh"]
    alone = succeed("evaluate", *inputs(folder), "--adversary", "pooled", "--json").json()
    assert alone["probes"] == [probe for probe in found["probes"] if probe["adversary"] == "pooled"]


def test_untuned_attackers_are_quick_say_so_and_pass_no_gate(folder: Path) -> None:
    done = run("evaluate", *inputs(folder), "--quick", "--max-accuracy", "1", "--json")
    assert done.code == 1
    assert "--quick: attackers have one setting each" in done.json()["gates"][0]["reason"]
    assert {probe["hyperparameters"]["C"] for probe in done.json()["probes"]} == {1.0}

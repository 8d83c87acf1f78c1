"""`salcli fit` in a process of its own: what lies in the artifact, and which rows made it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

from .helpers import (
    SAMPLE,
    Array,
    dense_directions,
    header_of,
    load_eraser,
    one_hot,
    planted,
    projector,
    refuse,
    save_npy,
    succeed,
    text_of,
    words,
    write_csv,
)

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 300, 8
EXACT = 1e-12  # U Uᵀ of well separated singular values, from float64 sums in another order


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three classes with a second attribute, a number and a split; `x.npy` without keys, `x.txt` with."""
    folder = tmp_path_factory.mktemp("fit")
    x, labels = planted(N, D, n_classes=3)
    rng = np.random.default_rng(5)
    second = rng.choice(["no", "yes"], N).tolist()
    age = np.round(x[:, 0] * 2 + rng.normal(size=N), 3).tolist()
    part = rng.choice(["train", "dev", "test", "extra"], N).tolist()
    save_npy(folder / "x.npy", x)
    (folder / "x.txt").write_bytes(text_of([w.encode() for w in words(N)], x, has_header=True))
    (folder / "keys.txt").write_text("\n".join(words(N)) + "\n", encoding="utf-8")
    write_csv(folder / "rows.csv", ["group"], [[label] for label in labels])
    write_csv(folder / "keyed.csv", ["word", "group"], list(zip(words(N), labels, strict=True))[::-1])
    columns = ["name", "group", "second", "age", "part"]
    write_csv(folder / "wide.csv", columns, zip(words(N), labels, second, age, part, strict=True))
    return folder


def wide(folder: Path, column: str) -> list[str]:
    lines = (folder / "wide.csv").read_text(encoding="utf-8").splitlines()
    at = lines[0].split(",").index(column)
    return [line.split(",")[at] for line in lines[1:]]


def rows_of(folder: Path) -> Array:
    return np.load(folder / "x.npy")


def assert_fitted(path: Path, x: Array, z: Array, k: int, *, centres: bool = True) -> None:
    """Hold an artifact against the dense oracle."""
    _, u, s = dense_directions(x, z, centres=centres)
    arrays = load_eraser(path)
    assert arrays["left"].shape == (x.shape[1], k)
    np.testing.assert_allclose(projector(path), u[:, :k] @ u[:, :k].T, atol=EXACT)
    assert not arrays["mean"].any()  # what is subtracted: removed directions are set to zero
    np.testing.assert_allclose(arrays["singular_values"], s, atol=1e-13)


def test_the_artifact_holds_the_directions_of_the_dense_svd(folder: Path, tmp_path: Path) -> None:
    labels = wide(folder, "group")
    record = succeed("fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", "--json").json()
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(labels), 2)
    header = header_of(tmp_path / "e.npz")
    assert header["schema"] == "salcli.eraser/2"
    assert (header["method"], header["k"], header["d"], header["rank"]) == ("sal", 2, D, 2)
    (attribute,) = header["attributes"]
    assert (attribute["name"], attribute["classes"]) == ("group", ["c0", "c1", "c2"])
    assert attribute["counts"] == [100, 100, 100]
    assert header["rows"]["n_fitted"] == N
    assert header["rows"]["joined_by"] == "row"
    assert record["schema"] == "salcli.fit/1"
    assert record["k"] == 2
    assert record["singular_values"] == load_eraser(tmp_path / "e.npz")["singular_values"].tolist()


def test_keep_mean_gives_removed_directions_their_mean(folder: Path, tmp_path: Path) -> None:
    mean, u, _ = dense_directions(rows_of(folder), one_hot(wide(folder, "group")))
    succeed("fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", "--keep-mean")
    np.testing.assert_allclose(load_eraser(tmp_path / "e.npz")["mean"], mean, atol=1e-12)
    np.testing.assert_allclose(projector(tmp_path / "e.npz"), u[:, :2] @ u[:, :2].T, atol=EXACT)
    assert succeed("inspect", tmp_path / "e.npz", "--json").json()["parameters"]["keep_mean"] is True
    assert "sal, centred, mean kept" in succeed("inspect", tmp_path / "e.npz").out


@pytest.mark.parametrize("command", ["fit", "kfit"])
def test_a_mean_that_was_not_taken_off_cannot_be_kept(folder: Path, tmp_path: Path, command: str) -> None:
    files = (folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz")
    refuse(2, command, *files, "--keep-mean", "--no-center", says="--keep-mean keeps the mean that centring subtracts")
    assert not (tmp_path / "e.npz").exists()


def test_without_centring_the_mean_stays_and_is_among_the_directions(folder: Path, tmp_path: Path) -> None:
    succeed("fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", "--no-center")
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(wide(folder, "group")), 3, centres=False)
    assert not load_eraser(tmp_path / "e.npz")["mean"].any()
    assert header_of(tmp_path / "e.npz")["is_centred"] is False


def test_k_removes_only_the_strongest_directions(folder: Path, tmp_path: Path) -> None:
    succeed("fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", "-k", 1)
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(wide(folder, "group")), 1)
    assert header_of(tmp_path / "e.npz")["rank"] == 2
    assert header_of(tmp_path / "e.npz")["k_rule"] == {"given": 1}


@pytest.mark.parametrize(("side", "k"), [(0.99, 1), (1.01, 2)])
def test_alpha_is_compared_with_the_ratio_of_singular_values(folder: Path, tmp_path: Path, side: float, k: int) -> None:
    *_, s = dense_directions(rows_of(folder), one_hot(wide(folder, "group")))
    alpha = 1 + (s[0] / s[1] - 1) * side
    assert alpha > 1
    succeed("fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", "--alpha", repr(float(alpha)))
    assert load_eraser(tmp_path / "e.npz")["left"].shape == (D, k)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["-k", "3"], 3, "rank 2"),
        (["-k", "0"], 2, "-k 0"),
        (["-k", "1", "--alpha", "2"], 2, "--alpha"),
        (["--alpha", "0.5"], 2, "--alpha 0.5"),
        (["--holdout", "1"], 2, "--holdout 1"),
        (["--sample", "1"], 2, "--sample 1"),
        (["--method", "leave-it"], 2, "--method leave-it"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_leaves_no_artifact(
    folder: Path, tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    refuse(code, "fit", folder / "x.npy", folder / "rows.csv", "-o", tmp_path / "e.npz", *options, says=says)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_carry_nothing_are_an_error_of_rank_zero(tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(size=(20, 4))
    save_npy(tmp_path / "x.npy", np.concatenate([x, x]))
    write_csv(tmp_path / "y.csv", ["y"], [["a"]] * 20 + [["b"]] * 20)
    refuse(3, "fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", says="rank 0")
    assert not (tmp_path / "e.npz").exists()


def test_one_class_is_an_error_that_names_it(folder: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "y.csv", ["y"], [["only"]] * N)
    refuse(3, "fit", folder / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", says="one class (only)")
    assert not (tmp_path / "e.npz").exists()


def test_a_class_with_a_single_row_is_a_warning(folder: Path, tmp_path: Path) -> None:
    labels = ["rare", *wide(folder, "group")[1:]]
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    done = succeed("fit", folder / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
    assert done.err.splitlines() == [f"warning: {tmp_path / 'y.csv'}: column 'y': a class with a single row: rare"]
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(labels), 3)


def standardized(values: Any) -> Any:
    numbers = np.array(values, dtype=float)[:, None]
    return (numbers - numbers.mean()) / numbers.std()


def test_several_attributes_stand_side_by_side(folder: Path, tmp_path: Path) -> None:
    columns = ["--attribute", "second", "--attribute", "group", "--numeric", "age", "--key", "name"]
    succeed("fit", folder / "x.txt", folder / "wide.csv", "-o", tmp_path / "e.npz", *columns)
    blocks = [one_hot(wide(folder, "second")), one_hot(wide(folder, "group"))]
    z = np.hstack([*blocks, standardized(wide(folder, "age"))])
    assert_fitted(tmp_path / "e.npz", rows_of(folder), z, 4)
    names = [(a["name"], a["classes"] is None) for a in header_of(tmp_path / "e.npz")["attributes"]]
    assert names == [("second", False), ("group", False), ("age", True)]


def test_a_numeric_column_is_one_direction(folder: Path, tmp_path: Path) -> None:
    options = ["--numeric", "age", "--by-row", "--json"]
    record = succeed("fit", folder / "x.npy", folder / "wide.csv", "-o", tmp_path / "e.npz", *options).json()
    assert record["k"] == 1
    assert_fitted(tmp_path / "e.npz", rows_of(folder), standardized(wide(folder, "age")), 1)


def test_the_unit_of_a_numeric_column_does_not_hide_a_class(folder: Path, tmp_path: Path) -> None:
    ages, groups = np.array(wide(folder, "age"), dtype=float), wide(folder, "group")
    for unit in (1.0, 1e16):  # nanoseconds since 1970 are about 1.6e18
        rows = [[group, repr((100 + age) * unit)] for group, age in zip(groups, ages.tolist(), strict=True)]
        write_csv(tmp_path / "y.csv", ["g", "t"], rows)
        target = tmp_path / f"{unit}.npz"
        succeed("fit", folder / "x.npy", tmp_path / "y.csv", "-o", target, "--attribute", "g", "--numeric", "t")
        z = np.hstack([one_hot(groups), standardized(ages)])
        assert_fitted(target, rows_of(folder), z, len(set(groups)))


def test_two_free_columns_ask_for_a_choice(folder: Path, tmp_path: Path) -> None:
    says = "name, group, second, age, part: choose with --attribute"
    refuse(3, "fit", folder / "x.npy", folder / "wide.csv", "-o", tmp_path / "e.npz", says=says)


@pytest.mark.parametrize("options", [["--attribute", "group", "--key", "no"], ["--attribute", "no"]])
def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(
    folder: Path, tmp_path: Path, options: list[str]
) -> None:
    says = "no column 'no'"
    done = refuse(3, "fit", folder / "x.txt", folder / "wide.csv", "-o", tmp_path / "e.npz", *options, says=says)
    assert "name, group, second, age, part" in done.err


def test_rows_with_an_empty_cell_take_no_part(folder: Path, tmp_path: Path) -> None:
    labels = wide(folder, "group")
    write_csv(tmp_path / "y.csv", ["y"], [["" if i % 5 == 0 else label] for i, label in enumerate(labels)])
    done = succeed("fit", folder / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
    assert "60 rows unlabelled in column 'y'" in done.err
    kept = np.arange(N) % 5 != 0
    assert_fitted(tmp_path / "e.npz", rows_of(folder)[kept], one_hot(np.array(labels)[kept].tolist()), 2)
    assert header_of(tmp_path / "e.npz")["rows"]["n_fitted"] == 240


def test_keys_join_whatever_the_order_of_the_labels(folder: Path, tmp_path: Path) -> None:
    succeed("fit", folder / "x.txt", folder / "keyed.csv", "-o", tmp_path / "e.npz")
    keys = ["--keys", folder / "keys.txt"]
    succeed("fit", folder / "x.npy", folder / "keyed.csv", "-o", tmp_path / "keys.npz", *keys)
    for name in ("e.npz", "keys.npz"):
        assert_fitted(tmp_path / name, rows_of(folder), one_hot(wide(folder, "group")), 2)


def test_by_row_passes_over_the_key_column(folder: Path, tmp_path: Path) -> None:
    succeed("fit", folder / "x.txt", folder / "keyed.csv", "-o", tmp_path / "e.npz", "--by-row")
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(wide(folder, "group")[::-1]), 2)


def test_keyed_labels_for_a_file_without_keys_are_refused_with_the_way_out(folder: Path, tmp_path: Path) -> None:
    refuse(3, "fit", folder / "x.npy", folder / "keyed.csv", "-o", tmp_path / "e.npz", says="give --keys FILE")


def test_labels_without_a_row_are_counted_and_named(folder: Path, tmp_path: Path) -> None:
    rows = [*zip(words(N), wide(folder, "group"), strict=True), *((f"gone{i}", "c0") for i in range(4))]
    write_csv(tmp_path / "y.csv", ["word", "y"], rows)
    done = succeed("fit", folder / "x.txt", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
    assert "4 of 304 labels not in the embedding" in done.err
    assert "'gone0', 'gone1', 'gone2' …" in done.err
    assert_fitted(tmp_path / "e.npz", rows_of(folder), one_hot(wide(folder, "group")), 2)


def test_row_labels_of_another_length_are_refused_with_both_counts(folder: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "y.csv", ["y"], [["a"], ["b"]])
    done = refuse(3, "fit", folder / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", says="2 labels")
    assert f"has {N} rows" in done.err


def test_the_sample_word_vectors_fit_as_the_oracle_says(tmp_path: Path) -> None:
    sex = {"he": "m", "him": "m", "his": "m", "she": "f", "her": "f", "hers": "f"}
    write_csv(tmp_path / "y.csv", ["word", "y"], sex.items())
    succeed("fit", SAMPLE / "glove-sample.h5", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    keys = (SAMPLE / "glove-sample.keys.txt").read_text(encoding="utf-8").split("\n")
    x = np.load(SAMPLE / "glove-sample.npy")[[keys.index(word) for word in sex]]
    assert_fitted(tmp_path / "e.npz", x, one_hot(list(sex.values())), 1)


@pytest.mark.parametrize(
    ("options", "algorithm"),
    [
        ((), "blake3"),
        (("--hash", "sha256"), "sha256"),
        (("--sha256",), "sha256"),
        (("--hash", "none"), None),
        (("--no-sha256",), None),
        (("--hash", "none", "--no-sha256"), None),
    ],
)
def test_evaluate_tells_another_file_by_the_hash_that_the_eraser_has(
    tmp_path: Path, options: tuple[str, ...], algorithm: str | None
) -> None:
    x, labels = planted(400, 6)
    path, data = save_npy(tmp_path / "x.npy", x), (tmp_path / "x.npy").read_bytes()
    parts = [("train", "dev", "test", "test")[i % 4] for i in range(400)]
    given = write_csv(tmp_path / "y.csv", ["y", "split"], zip(labels, parts, strict=True))
    succeed("fit", path, given, "-o", tmp_path / "e.npz", *options)
    digests = {"blake3": blake3(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}
    of_file = {"hash": None if algorithm is None else {"algorithm": algorithm, "digest": digests[algorithm]}}
    of_file |= {"sha256": digests["sha256"]} if algorithm == "sha256" else {}
    recorded = header_of(tmp_path / "e.npz")["inputs"]["embeddings"]
    assert {name: recorded[name] for name in ("hash", "sha256") if name in recorded} == of_file
    save_npy(tmp_path / "other.npy", x * 2)
    for name, is_other in (("x.npy", False), ("other.npy", True)):
        command = ("evaluate", tmp_path / name, given, "--eraser", tmp_path / "e.npz", "--probes", "linear")
        report = json.loads(succeed(*command, "--json", "--quiet").out)
        found, notes = report["inputs"]["embeddings"], " ".join(report["notes"])
        assert found["hash"]["algorithm"] == (algorithm or "blake3")
        assert found.get("sha256") == (found["hash"]["digest"] if algorithm == "sha256" else None)
        assert (found["hash"] == of_file["hash"]) is (algorithm is not None and not is_other)
        assert ("--hash none" in notes) is (algorithm is None)
        title = {"blake3": "BLAKE3", "sha256": "SHA-256", None: None}[algorithm]
        assert (f"not the file that the eraser was fitted on (another {title})" in notes) is (
            is_other and algorithm is not None
        )


def test_an_eraser_fits_the_same_without_a_hash(tmp_path: Path) -> None:
    x, labels = planted(100, 6)
    path = save_npy(tmp_path / "x.npy", x)
    given = write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    erasers = []
    for algorithm in ("blake3", "none"):
        succeed("fit", path, given, "-o", tmp_path / "e.npz", "--hash", algorithm)
        erasers.append(load_eraser(tmp_path / "e.npz"))
    assert all(np.array_equal(erasers[0][name], erasers[1][name]) for name in ("mean", "left", "singular_values"))


def test_hashes_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    says = "--no-sha256 and --hash sha256 contradict each other"
    refuse(2, "fit", "x", "y", "-o", tmp_path / "e.npz", "--hash", "sha256", "--no-sha256", says=says)


def test_names_of_columns_are_utf8_in_any_locale(tmp_path: Path) -> None:
    x, labels = planted(200, 4)
    path = save_npy(tmp_path / "x.npy", x)
    rows = zip(words(200), labels, ["früh", "spät"] * 100, labels, strict=True)
    given = write_csv(tmp_path / "y.csv", ["nr", "größe", "teil", "other"], rows)
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    columns = ["--attribute", "größe", "--split-column", "teil", "--fit-split", "früh"]
    succeed("fit", path, given, "-o", tmp_path / "e.npz", "--by-row", *columns, env=env)
    header = header_of(tmp_path / "e.npz")
    assert (header["attributes"][0]["name"], header["rows"]["n_fitted"]) == ("größe", 100)

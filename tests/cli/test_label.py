"""`salcli label` in a process of its own, against scores that numpy works out."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import SAMPLE, read_csv, refuse, save_npy, succeed, text_of

pytestmark = pytest.mark.slow  # each test starts processes

TOP = 100


@pytest.fixture(scope="module")
def vectors() -> tuple[list[str], np.ndarray]:
    keys = (SAMPLE / "glove-sample.keys.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return keys, np.load(SAMPLE / "glove-sample.npy").astype(np.float64)


def scores_of(vectors: tuple[list[str], np.ndarray], pairs: list[tuple[str, str]], *, by_cosine: bool) -> np.ndarray:
    keys, x = vectors
    direction = np.mean([x[keys.index(a)] - x[keys.index(b)] for a, b in pairs], axis=0)
    if by_cosine:
        return x @ direction / np.linalg.norm(x, axis=1) / np.linalg.norm(direction)
    return x @ direction


def assert_ends(rows: list[list[str]], keys: list[str], scores: np.ndarray, names: tuple[str, str]) -> None:
    """Hold the words of each label against the two ends of the scores."""
    order = np.argsort(-scores, kind="stable")
    for name, chosen in zip(names, (order[:TOP], order[-TOP:]), strict=True):
        assert {row[0] for row in rows if row[1] == name} == {keys[i] for i in chosen}
    assert len(rows) == 2 * TOP


def test_the_words_nearest_to_each_seed_are_labelled(vectors: tuple[list[str], np.ndarray], tmp_path: Path) -> None:
    options = ["--direction", "he:she", "--top", TOP, "-o", tmp_path / "y.csv", "--json"]
    done = succeed("label", SAMPLE / "glove-sample.txt", *options)
    columns, rows = read_csv(tmp_path / "y.csv")
    scores = scores_of(vectors, [("he", "she")], by_cosine=True)
    assert columns == ["word", "label", "split"]
    assert_ends(rows, vectors[0], scores, ("he", "she"))
    for name in ("he", "she"):  # 0.49, 0.21 and 0.30 of each
        parts = [row[2] for row in rows if row[1] == name]
        assert [parts.count(part) for part in ("train", "dev", "test")] == [49, 21, 30]
    record = done.json()
    assert record["schema"] == "salcli.label/1"
    assert record["classes"] == {"he": TOP, "she": TOP}
    assert record["splits"] == {"train": 98, "dev": 42, "test": 60}
    falling = np.sort(scores)[::-1]
    assert record["lowest_score_of_first"] == pytest.approx(falling[TOP - 1], abs=1e-6)
    assert record["highest_score_of_second"] == pytest.approx(falling[-TOP], abs=1e-6)


def test_several_pairs_are_averaged_and_scores_are_written(
    vectors: tuple[list[str], np.ndarray], tmp_path: Path
) -> None:
    pairs = [("he", "she"), ("him", "her"), ("man", "woman")]
    seeds = [option for a, b in pairs for option in ("--direction", f"{a}:{b}")]
    options = [*seeds, "--by", "dot", "--top", TOP, "--scores", "--split", "none", "--name", "sex"]
    succeed("label", SAMPLE / "glove-sample.txt", *options, "-o", tmp_path / "y.csv")
    columns, rows = read_csv(tmp_path / "y.csv")
    assert columns == ["word", "sex", "score"]
    scores = scores_of(vectors, pairs, by_cosine=False)
    assert_ends(rows, vectors[0], scores, ("he", "she"))
    expected = [scores[vectors[0].index(row[0])] for row in rows]
    np.testing.assert_allclose([float(row[2]) for row in rows], expected, atol=1e-5)


def test_limit_chooses_among_the_first_rows(vectors: tuple[list[str], np.ndarray], tmp_path: Path) -> None:
    options = ["--direction", "he:she", "--top", TOP, "--limit", 1000, "-o", tmp_path / "y.csv"]
    succeed("label", SAMPLE / "glove-sample.h5", *options)
    scores = scores_of(vectors, [("he", "she")], by_cosine=True)[:1000]
    assert_ends(read_csv(tmp_path / "y.csv")[1], vectors[0], scores, ("he", "she"))


def test_the_same_seed_writes_the_same_bytes_and_another_seed_another_split(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        options = ["--direction", "he:she", "--top", TOP, "--seed", seed, "-o", tmp_path / name]
        succeed("label", SAMPLE / "glove-sample.h5", *options, env={"PYTHONHASHSEED": str(seed + len(name))})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    first, third = (read_csv(tmp_path / name)[1] for name in ("a", "c"))
    assert [row[:2] for row in first] == [row[:2] for row in third]
    assert [row[2] for row in first] != [row[2] for row in third]


def test_hostile_words_are_quoted_so_that_they_join_again(tmp_path: Path) -> None:
    keys = ['"', "a,b", "it's", "he said", "[/red]", ";", "null", "007", "#", "-1", "日本", 'x"y', "NA", "1e5"]
    x = np.random.default_rng(0).normal(size=(len(keys) + 2, 3))
    words = ["he", "she", *keys]
    (tmp_path / "x.txt").write_bytes(text_of([word.encode() for word in words], x, has_header=True))
    options = ["--direction", "he:she", "--top", len(words) // 2, "--split", "none", "-o", tmp_path / "y.csv"]
    succeed("label", tmp_path / "x.txt", *options)
    assert {row[0] for row in read_csv(tmp_path / "y.csv")[1]} == set(words)
    done = succeed("fit", tmp_path / "x.txt", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--json", "--quiet")
    assert done.json()["rows"]["n_fitted"] == len(words)
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--direction", "he:zzzz"], 3, "zzzz"),
        (["--direction", "he"], 2, "FIRST:SECOND"),
        (["--direction", "he:he"], 3, "no direction"),
        (["--direction", "he:she", "--top", "2501"], 3, "5002"),
        (["--direction", "he:she", "--by", "sight"], 2, "--by sight"),
        (["--direction", "he:she", "--split", "0.9,0.9,0.9"], 2, "--split"),
        *(
            (["--direction", "he:she", "--name", name], 2, f"--name '{name}'")
            for name in ("word", "key", "id", "token")
        ),
        *((["--direction", "he:she", "--name", name], 2, "--name") for name in ("split", "score", "", " ")),
    ],
)
def test_what_cannot_be_labelled_is_refused_and_leaves_no_file(
    tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    refuse(code, "label", SAMPLE / "glove-sample.h5", "-o", tmp_path / "y.csv", *options, says=says)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_keys_has_no_seed_words(tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.ones((4, 2)))
    options = ["--direction", "a:b", "-o", tmp_path / "y.csv"]
    refuse(3, "label", tmp_path / "x.npy", *options, says="give --keys FILE")


def test_counts_are_those_of_the_rows_that_are_written(tmp_path: Path) -> None:
    options = ["--direction", "he:she", "--top", "77", "--split", "0.1,0.2,0.1", "-o", tmp_path / "y.csv", "--json"]
    record = succeed("label", SAMPLE / "glove-sample.txt", *options).json()
    _, rows = read_csv(tmp_path / "y.csv")
    labels = [row[1] for row in rows]
    assert record["classes"] == {name: labels.count(name) for name in ("he", "she")}
    assert sum(record["classes"].values()) == sum(record["splits"].values()) < 2 * 77


def test_of_a_repeated_word_the_first_row_counts_even_if_it_is_zero(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 5))
    x[7] = 0
    keys = [f"w{i}" for i in range(39)] + ["w7"]
    (tmp_path / "x.txt").write_bytes(text_of([key.encode() for key in keys], x, has_header=True))
    options = ["--direction", "w0:w1", "--top", "19", "-o", tmp_path / "y.csv", "--json"]
    assert "w7" not in {
        row[0] for row in (succeed("label", tmp_path / "x.txt", *options), read_csv(tmp_path / "y.csv"))[1][1]
    }


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--direction", "he::"], "expected FIRST:SECOND"),
        (["--direction", ":she"], "expected FIRST:SECOND"),
        (["--direction", "he:she", "--split", "0,0,0"], "add up to more than 0"),
        (["--direction", "he:she", "--name", "Word"], "would not be taken for labels"),
        (["--direction", "he:she", "--name", " ID "], "would not be taken for labels"),
        (["--direction", "he:she", "--name", "a\tb"], "would not be taken for labels"),
    ],
)
def test_labels_that_fit_could_not_read_are_not_made(tmp_path: Path, extra: list[str], says: str) -> None:
    refuse(2, "label", SAMPLE / "glove-sample.txt", *extra, "-o", tmp_path / "y.csv", says=says)
    assert not (tmp_path / "y.csv").exists()


def test_rows_that_are_not_scored_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("he 1 2\nshe 2 1\na 0 0\nhe 3 3\nb 1 1\nc 2 2\n")
    done = succeed("label", tmp_path / "x.txt", "--direction", "he:she", "--top", "2", "-o", tmp_path / "y.csv")
    assert "1 rows have the key of another one" in done.err
    assert "1 zero rows have no cosine" in done.err


def test_seed_words_without_a_direction_are_told_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("he 1 2\nshe 1 2\na 3 1\n")
    args = ["label", tmp_path / "x.txt", "--direction", "he:she", "--top", "1", "-o", tmp_path / "y.csv"]
    refuse(3, *args, says="x.txt: the seed words' vectors are equal")


def test_rows_without_words_are_labelled_by_the_sizes_of_the_classes_and_fitted(tmp_path: Path) -> None:
    truth = [row[0] for row in read_csv(SAMPLE / "bios-sample.csv")[1]]
    save_npy(tmp_path / "x.npy", np.load(SAMPLE / "bios-sample.npy")[:600])
    counts = f"female:{truth[:600].count('female') / 600},male:{truth[:600].count('male') / 600}"
    args = ["label", tmp_path / "x.npy", "--counts", counts, "--name", "gender", "--split", "none"]
    done = succeed(*args, "-o", tmp_path / "y.csv", "--json")
    assert "warning: without --seed-labels the names of the classes may be exchanged" in done.err
    record = done.json()
    assert record["classes"] == {name: truth[:600].count(name) for name in ("female", "male")}
    columns, rows = read_csv(tmp_path / "y.csv")
    assert columns == ["gender", "score", "margin"]
    assert np.mean([row[0] == true for row, true in zip(rows, truth, strict=False)]) > 0.9
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "--attribute", "gender", "-o", tmp_path / "e.npz")
    refuse(2, *args, "--direction", "he:she", "-o", tmp_path / "z.csv", says="--counts assigns a class to every row")
    refuse(2, *args, "--top", "5", "-o", tmp_path / "z.csv", says="it cannot go with --top")
    refuse(
        2, *args[:2], "--counts", "a:1,b:x", "-o", tmp_path / "z.csv", says="--counts a:1,b:x: expected NAME:SHARE or"
    )
    refuse(3, *args[:2], "--counts", "a:1,b:2", "-o", tmp_path / "z.csv", says="--counts add up to 3 rows, but there")
    assert not (tmp_path / "z.csv").exists()

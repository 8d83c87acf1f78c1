"""`salcli inspect` in a process of its own: what it says of embeddings, labels, similarity and artifacts."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from .helpers import (
    MODULE,
    SAMPLE,
    header_of,
    load_eraser,
    planted,
    projector,
    refuse,
    run,
    save_npy,
    succeed,
    text_of,
    write_csv,
    write_embeddings,
)

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 30, 4
KEYS = [b"w%d" % i for i in range(N)]
FORMATS = {
    "x.npy": "npy",
    "x.npz": "npz",
    "x.h5": "h5",
    "x.txt": "word2vec-text",
    "x.glove.txt": "glove",
    "x.bin": "word2vec-bin",
    "x.txt.gz": "word2vec-text",
}


def rows() -> np.ndarray:
    x, _ = planted(N, D, seed=4)
    x[5] = x[17] = 0
    return x


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_described_alike(tmp_path: Path, name: str) -> None:
    path = write_embeddings(tmp_path / name, rows(), [*KEYS[:-1], KEYS[0]])
    done = succeed("inspect", path, "--json", "--head", 2)
    found = done.json()
    has_keys = name != "x.npy"
    assert found["schema"] == "salcli.inspect/1"
    assert (found["path"], found["format"]) == (str(path), FORMATS[name])
    assert (found["n"], found["d"], found["dtype"]) == (N, D, "float32")
    assert (found["has_keys"], found["duplicate_keys"]) == (has_keys, int(has_keys))
    assert found["zero_rows"] == 2
    assert [row["key"] for row in found["head"]] == (["w0", "w1"] if has_keys else [0, 1])
    np.testing.assert_allclose([row["vector"] for row in found["head"]], rows()[:2], rtol=1e-7)
    assert "labels" not in found
    assert "similarity" not in found
    assert len(found["warnings"]) == 1 + has_keys
    assert any("2 zero rows" in warning for warning in found["warnings"])
    assert done.err.splitlines() == [f"warning: {warning}" for warning in found["warnings"]]


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_the_dtype_of_the_file_is_told(tmp_path: Path, dtype: str) -> None:
    path = save_npy(tmp_path / "x.npy", rows().astype(dtype))
    assert np.dtype(succeed("inspect", path, "--json").json()["dtype"]) == np.dtype(dtype)


def test_the_sample_text_shows_the_numbers_that_stand_in_the_file() -> None:
    path = SAMPLE / "glove-sample.txt"
    found = succeed("inspect", path, "--json", "--head", 3).json()
    assert (found["n"], found["d"], found["warnings"]) == (5000, 100, [])
    lines = path.read_text(encoding="utf-8").splitlines()[1:4]
    assert [row["key"] for row in found["head"]] == [line.split(" ")[0] for line in lines]
    assert [row["vector"] for row in found["head"]] == [[float(v) for v in line.split(" ")[1:]] for line in lines]


def test_a_long_key_is_cut_in_the_table_and_whole_in_json(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(text_of([b"k" * 5000, *KEYS[1:]], rows(), has_header=True))
    shown = succeed("inspect", tmp_path / "x.txt", "--head", 1).out
    assert f"row '{'k' * 79}…'" in shown
    assert max(map(len, shown.splitlines())) < 200
    assert succeed("inspect", tmp_path / "x.txt", "--head", 1, "--json").json()["head"][0]["key"] == "k" * 5000


def test_a_key_that_is_not_utf8_is_shown_beside_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(text_of([b"caf\xe9", *KEYS[1:]], rows(), has_header=True))
    done = succeed("inspect", tmp_path / "x.txt", "--json", "--head", 2)
    assert done.stdout.isascii()
    first, second = done.json()["head"]
    assert (first["key"], first["key_hex"]) == ("caf\udce9", "636166e9")
    assert "key_hex" not in second


def test_head_zero_shows_no_row_and_a_negative_one_is_a_usage_error(tmp_path: Path) -> None:
    path = save_npy(tmp_path / "x.npy", rows())
    assert succeed("inspect", path, "--json", "--head", 0).json()["head"] == []
    done = refuse_usage(path, "--head", "-1")
    assert "--head" in done


def refuse_usage(*args: object) -> str:
    done = run("inspect", *args)
    assert done.code == 2
    assert done.stdout == b""
    return done.err


def test_a_join_with_labels_is_counted(tmp_path: Path) -> None:
    write_embeddings(tmp_path / "x.txt", rows(), KEYS)
    labels = [[f"w{i}", "F" if i % 3 else "M", "train" if i < 8 else "test"] for i in range(12, 0, -1)]
    labels += [["gone", "F", "test"], ["w20", "", "test"]]
    write_csv(tmp_path / "y.csv", ["word", "sex", "split"], labels)
    done = succeed("inspect", tmp_path / "x.txt", "--labels", tmp_path / "y.csv", "--json", "--head", 4)
    found = done.json()["labels"]
    assert found["path"] == str(tmp_path / "y.csv")
    assert (found["attribute"], found["classes"]) == ("sex", {"F": 8, "M": 4})
    assert (found["n_labelled"], found["unmatched_labels"], found["unlabelled_rows"]) == (12, 1, N - 12)
    assert found["splits"] == {"test": 7, "train": 7}
    assert found["head"] == [{"key": f"w{i}", "label": "F" if i % 3 else "M"} for i in (1, 2, 3)]
    assert "'gone'" in done.err
    assert "1 rows unlabelled" in done.err


def test_a_class_of_one_row_is_warned_of(tmp_path: Path) -> None:
    save_npy(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    write_csv(tmp_path / "y.csv", ["y"], [["a"], ["b"], ["a"], ["a"]])
    done = succeed("inspect", tmp_path / "x.npy", "--labels", tmp_path / "y.csv")
    assert "column 'y': a class with a single row: b" in done.err


def test_labels_without_keys_are_shown_by_row_number(tmp_path: Path) -> None:
    path = save_npy(tmp_path / "x.npy", rows())
    write_csv(tmp_path / "y.csv", ["age"], [[i / 2] for i in range(N)])
    options = ["--labels", tmp_path / "y.csv", "--numeric", "age", "--json", "--head", 2]
    found = succeed("inspect", path, *options).json()["labels"]
    assert found["classes"] == {}
    assert found["head"] == [{"key": 0, "label": 0.0}, {"key": 1, "label": 0.5}]


def sample_vectors() -> dict[str, np.ndarray]:
    keys = (SAMPLE / "glove-sample.keys.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    lines = (SAMPLE / "glove-sample.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {key: np.array(line.rsplit(" ", 100)[1:], float) for key, line in zip(keys, lines, strict=True)}


def rho(pairs: list[tuple[str, str, float]], vectors: dict[str, np.ndarray]) -> tuple[int, float]:
    """Correlate, by scipy, the cosines of the pairs whose words are there."""
    used = [(vectors[a], vectors[b], score) for a, b, score in pairs if a in vectors and b in vectors]
    cosines = [round(a @ b / np.linalg.norm(a) / np.linalg.norm(b), 12) for a, b, _ in used]
    return len(used), float(spearmanr(cosines, [score for _, _, score in used]).statistic)


def test_the_built_in_similarity_set_is_scored_as_scipy_does() -> None:
    found = succeed("inspect", SAMPLE / "glove-sample.txt", "--similarity", "simlex999", "--json").json()["similarity"]
    text = resources.files("gensim.test.test_data").joinpath("simlex999.txt").read_text(encoding="utf-8")
    fields = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [(a.lower(), b.lower(), float(score)) for a, b, score, *_ in fields]
    used, expected = rho(pairs, sample_vectors())
    assert (found["set"], found["pairs_total"], found["pairs_used"]) == ("simlex999", 999, used)
    assert found["oov_pairs"] == 999 - used == 1
    assert found["oov_words"] == ["disorganize"]
    assert found["spearman"] == pytest.approx(expected, abs=1e-9)


def test_a_similarity_file_is_scored_with_ties_and_without_unknown_words(tmp_path: Path) -> None:
    pairs = [("he", "she", 9.0), ("King", "queen", 9.0), ("man", "woman", 8.0), ("car", "the", 1.0), ("zzz", "he", 5.0)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\t{s}\n" for a, b, s in pairs), encoding="utf-8")
    options = ["--similarity", tmp_path / "pairs.tsv", "--json"]
    found = succeed("inspect", SAMPLE / "glove-sample.txt", *options).json()["similarity"]
    used, expected = rho([(a.lower(), b.lower(), s) for a, b, s in pairs], sample_vectors())
    assert (found["pairs_total"], found["pairs_used"], used) == (5, 4, 4)
    assert (found["oov_pairs"], found["oov_words"]) == (1, ["zzz"])
    assert found["spearman"] == pytest.approx(expected, abs=1e-9)


def test_constant_scores_have_no_correlation(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("he\tshe\t1\nman\twoman\t1\n", encoding="utf-8")
    options = ["--similarity", tmp_path / "pairs.tsv", "--json"]
    assert succeed("inspect", SAMPLE / "glove-sample.txt", *options).json()["similarity"]["spearman"] is None


@pytest.fixture(scope="module")
def eraser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    x, labels = planted(60, 5, n_classes=3)
    save_npy(folder / "x.npy", x)
    write_csv(folder / "y.csv", ["y"], [[label] for label in labels])
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    return folder / "e.npz"


def test_an_artifact_is_described_and_its_matrix_written(eraser: Path, tmp_path: Path) -> None:
    done = succeed("inspect", eraser, "--json", "--projection", tmp_path / "p.npy")
    found = done.json()
    assert done.stderr == b""
    assert (found["schema"], found["format"]) == ("salcli.inspect/1", "salcli eraser")
    assert (found["method"], found["k"], found["d"], found["rank"]) == ("sal", 2, 5, 2)
    assert found["singular_values"] == load_eraser(eraser)["singular_values"].tolist()
    assert found["classes"] == {"y": {"c0": 20, "c1": 20, "c2": 20}}
    assert found["fit"] == {name: header_of(eraser)[name] for name in ("rows", "inputs", "versions")}
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), np.eye(5) - projector(eraser), atol=1e-15)


def test_an_artifact_is_told_in_words_too(eraser: Path) -> None:
    done = succeed("inspect", eraser)
    assert "2 of 5 dimensions" in done.out
    assert "c0 20, c1 20, c2 20" in done.out


def test_a_projection_needs_an_eraser_and_a_place_of_its_own(eraser: Path, tmp_path: Path) -> None:
    source = eraser.parent / "x.npy"
    refuse(2, "inspect", source, "--projection", tmp_path / "p.npy", says="--projection")
    refuse(2, "inspect", eraser, "--labels", eraser.parent / "y.csv", says="is an eraser")
    before = eraser.read_bytes()
    refuse(2, "inspect", eraser, "--projection", eraser, says="is the input")
    assert eraser.read_bytes() == before
    refuse(4, "inspect", eraser, "--projection", tmp_path / "no" / "p.npy", says="does not exist")
    assert list(tmp_path.iterdir()) == []


def test_a_projection_need_not_fit_into_memory(tmp_path: Path) -> None:
    x, labels = planted(30, 12_000)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["g"], [[label] for label in labels])
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    limited = ("bash", "-c", 'ulimit -v 1300000; exec "$@"', "bash", *MODULE)
    succeed("inspect", tmp_path / "e.npz", "--projection", tmp_path / "p.npy", command=limited)
    found = np.load(tmp_path / "p.npy", mmap_mode="r")
    assert found.shape == (12_000, 12_000)
    directions = load_eraser(tmp_path / "e.npz")["left"]
    for rows in (slice(0, 300), slice(11_900, None)):
        expected = np.eye(12_000)[rows] - directions[rows] @ directions.T
        np.testing.assert_allclose(found[rows], expected, atol=1e-15)


def test_an_artifact_of_another_schema_is_refused_with_its_version(eraser: Path, tmp_path: Path) -> None:
    arrays = load_eraser(eraser)
    text = str(arrays["header"]).replace("salcli.eraser/2", "salcli.eraser/9")
    np.savez(tmp_path / "e.npz", **{**arrays, "header": np.array(text)})
    done = refuse(3, "inspect", tmp_path / "e.npz", says="salcli.eraser/9")
    assert "written by salcli 0." in done.err


def test_an_artifact_whose_directions_are_not_orthonormal_is_refused(eraser: Path, tmp_path: Path) -> None:
    arrays = load_eraser(eraser)
    np.savez(tmp_path / "e.npz", **{**arrays, "left": arrays["left"] * 1.01, "right": arrays["right"] * 1.01})
    refuse(3, "inspect", tmp_path / "e.npz", says="damaged artifact")


def test_a_number_that_json_has_not_is_told_of_its_row(tmp_path: Path) -> None:
    x = np.ones((5, 2), np.longdouble)
    x[3, 1] = np.longdouble("1e400")
    np.save(tmp_path / "x.npy", x)
    refuse(3, "inspect", tmp_path / "x.npy", "--json", says="row 3: ")
    assert succeed("inspect", tmp_path / "x.npy", "--json", "--head", "3").json()["n"] == 5

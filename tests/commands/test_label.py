"""`label`, called as a function."""

from pathlib import Path

import numpy as np
import pytest

from salcli.commands.label import label
from salcli.errors import AlignmentError, LabelError, RankError
from salcli.options import LabelCommandOptions

from ..cli.helpers import read_csv, text_of, words

N, TOP = 60, 10


@pytest.fixture
def source(tmp_path: Path) -> tuple[str, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    path = tmp_path / "x.txt"
    path.write_bytes(text_of([word.encode() for word in words(N)], x, has_header=True))
    return str(path), x


@pytest.mark.parametrize("by", ["cosine", "dot"])
def test_the_labelled_words_are_the_top_and_the_bottom_by_brute_force(
    source: tuple[str, np.ndarray], tmp_path: Path, by: str
) -> None:
    path, x = source
    options = LabelCommandOptions(directions=("w1:w2", "w3:w4"), top=TOP, by=by, with_scores=True)
    done = label(path, str(tmp_path / "l.csv"), options)
    wide = x.astype(np.float64)
    direction = np.mean([wide[1] - wide[2], wide[3] - wide[4]], axis=0)
    expected = wide @ direction
    if by == "cosine":
        expected /= np.linalg.norm(wide, axis=1) * np.linalg.norm(direction)
    columns, rows = read_csv(tmp_path / "l.csv")
    assert columns == ["word", "label", "split", "score"]
    scores = {name: float(score) for name, _, _, score in rows}
    assert scores == pytest.approx({f"w{i}": expected[i] for i in np.argsort(expected)[[*range(TOP), *range(-TOP, 0)]]})
    order = sorted(scores, key=scores.__getitem__, reverse=True)
    assert {name for name, value, _, _ in rows if value == "w1"} == set(order[:TOP])
    assert done.lowest_score_of_first >= done.highest_score_of_second
    assert done.classes == {"w1": TOP, "w2": TOP}


def test_every_part_has_its_share_of_both_classes(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    options = LabelCommandOptions(directions=("w1:w2",), top=TOP, split=(0.5, 0.2, 0.3))
    done = label(source[0], str(tmp_path / "l.csv"), options)
    assert done.splits == {"train": 10, "dev": 4, "test": 6}
    _, rows = read_csv(tmp_path / "l.csv")
    for part, n in done.splits.items():
        assert sum(row[1:] == ["w1", part] for row in rows) == n // 2
    assert done.n_scored == N


def test_only_the_first_rows_are_looked_at(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    done = label(source[0], str(tmp_path / "l.csv"), LabelCommandOptions(directions=("w1:w2",), top=TOP, limit=25))
    assert done.n_scored == 25
    assert all(int(row[0][1:]) < 25 for row in read_csv(tmp_path / "l.csv")[1])


def test_too_few_words_and_seeds_without_a_row_are_refused_and_nothing_is_written(
    source: tuple[str, np.ndarray], tmp_path: Path
) -> None:
    with pytest.raises(LabelError, match="`top=31` needs 62"):
        label(source[0], str(tmp_path / "l.csv"), LabelCommandOptions(directions=("w1:w2",), top=31))
    with pytest.raises(AlignmentError, match="no row for the seed word nobody"):
        label(source[0], str(tmp_path / "l.csv"), LabelCommandOptions(directions=("w1:nobody",), top=5))
    assert not (tmp_path / "l.csv").exists()


@pytest.mark.parametrize("zero", [1, 2])
def test_a_seed_word_whose_vector_is_zero_is_refused_by_name(tmp_path: Path, zero: int) -> None:
    x = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    x[zero] = 0
    path = tmp_path / "x.txt"
    path.write_bytes(text_of([word.encode() for word in words(N)], x, has_header=True))
    options = LabelCommandOptions(directions=("w1:w2", "w3:w4"), top=TOP)
    with pytest.raises(RankError, match=f"x.txt: the seed word 'w{zero}' has a vector of zeros"):
        label(str(path), str(tmp_path / "l.csv"), options)
    assert not (tmp_path / "l.csv").exists()

"""`label`, called as a function."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from salcli.commands.label import label
from salcli.data.labels import GuardedLabels
from salcli.errors import AlignmentError, LabelError, ParameterError, RankError, UsageError
from salcli.formats.key_groups import read_key_groups
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import LabelCommandOptions, LabelOptions, ReadOptions

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


def authors(path: Path, *, of: str = "author") -> Path:
    """Write a CSV with the author of each of the words: four words to one."""
    path.write_text(f"word,{of}\n" + "".join(f"w{i},a{i // 4}\n" for i in range(N)), encoding="utf-8")
    return path


def split_by_groups(source: str, tmp_path: Path, groups: str, **how: Any) -> GuardedLabels:
    options = LabelCommandOptions(directions=("w1:w2",), top=25, groups=groups, **how)
    done = label(source, str(tmp_path / "l.csv"), options)
    found = read_labels(str(tmp_path / "l.csv"), LabelOptions(groups="author"))
    assert done.group_column == "author"
    assert found.groups is not None
    assert found.splits is not None
    keys = found.keys or ()
    assert [(found.groups.classes or ())[i] for i in found.groups.values] == [f"a{int(key[1:]) // 4}" for key in keys]
    part_of: dict[int, set[str]] = {}
    for author, part in zip(found.groups.values.tolist(), found.splits, strict=True):
        part_of.setdefault(author, set()).add(part)
    assert all(len(parts) == 1 for parts in part_of.values())
    assert len(part_of) == done.n_groups
    return found


def test_words_of_a_group_lie_in_one_part(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    found = split_by_groups(source[0], tmp_path, str(authors(tmp_path / "authors.csv")))
    sizes = [(found.splits or ()).count(part) for part in ("train", "dev", "test")]
    assert sizes == pytest.approx([24.5, 10.5, 15], abs=4)
    assert len(found) == 50


def test_a_column_of_several_is_named(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    path = authors(tmp_path / "authors.csv", of="page,author")
    path.write_text(path.read_text(encoding="utf-8").replace(",a", ",1,a").replace("e,1,a", "e,a"), encoding="utf-8")
    split_by_groups(source[0], tmp_path, f"{path}:author")
    for groups in (str(path), f"{path}:writer"):
        with pytest.raises(LabelError, match=r"authors.csv: .*`groups=FILE:COLUMN`"):
            split_by_groups(source[0], tmp_path, groups)


def test_groups_may_stand_beside_the_rows(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["keys"] = source[1], words(N)
        file["about/author"] = [f"a{i // 4}" for i in range(N)]
    read = ReadOptions(keys_dataset="keys")
    split_by_groups(str(tmp_path / "x.h5"), tmp_path, "about/author", read=read)
    with open_source(str(tmp_path / "x.h5"), read) as opened:
        assert read_key_groups("about/author", opened, read).of["w7"] == "a1"


def test_a_word_without_a_group_is_one_of_its_own(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "authors.csv"
    path.write_text("word,author\nw0,a\nw3,\n", encoding="utf-8")
    options = LabelCommandOptions(directions=("w1:w2",), top=30, groups=str(path))
    with pytest.warns(UserWarning, match="59 of 60 labelled words have no group"):
        assert label(source[0], str(tmp_path / "l.csv"), options).n_groups == N


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("word,author\nnobody,a\nnowhere,b\n", AlignmentError, "none of the 50 labelled words has a group"),
        ("word,author\n" + "".join(f"w{i},a{i // 30}\n" for i in range(N)), LabelError, "no row is left for dev"),
        ("word,split\n" + "".join(f"w{i},a{i}\n" for i in range(N)), LabelError, "groups"),
        ("word,score\n" + "".join(f"w{i},a{i}\n" for i in range(N)), ParameterError, "name of another one"),
        ("author,page\na,b\nb,c\n", LabelError, "groups=FILE:COLUMN"),
    ],
)
def test_groups_that_cannot_be_used_are_refused(
    source: tuple[str, np.ndarray], tmp_path: Path, text: str, error: type[Exception], says: str
) -> None:
    (tmp_path / "authors.csv").write_text(text, encoding="utf-8")
    options = LabelCommandOptions(directions=("w1:w2",), top=25, groups=str(tmp_path / "authors.csv"))
    with pytest.raises(error, match=says):
        label(source[0], str(tmp_path / "l.csv"), options)
    assert not (tmp_path / "l.csv").exists()


def test_groups_need_a_file_and_a_split(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    options = LabelCommandOptions(directions=("w1:w2",), top=25, groups="author")
    with pytest.raises(ParameterError, match=r"no such file, and .*x.txt holds no list of groups"):
        label(source[0], str(tmp_path / "l.csv"), options)
    with pytest.raises(UsageError, match="`groups` lie in one part of the split"):
        LabelCommandOptions(directions=("w1:w2",), groups="author", split=())
    with pytest.raises(UsageError, match="`counts` assigns a class to every row: it cannot go with `groups`"):
        LabelCommandOptions(counts=(("a", 0.5), ("b", 0.5)), groups="author")


def test_words_behind_the_ends_have_a_score_and_no_class(source: tuple[str, np.ndarray], tmp_path: Path) -> None:
    options = LabelCommandOptions(directions=("w1:w2",), top=TOP, bands=(3,), unlabelled=5, with_scores=True)
    done = label(source[0], str(tmp_path / "l.csv"), options)
    assert done.n_unlabelled == 10
    assert done.lines()["labels"].endswith("; 10 more without a class")
    _, rows = read_csv(tmp_path / "l.csv")
    free = [float(score) for _, name, split, score in rows if name == split == ""]
    first, second = ([float(s) for _, name, _, s in rows if name == each] for each in ("w1", "w2"))
    assert min(first) >= max(free)
    assert max(second) <= min(free)
    assert sorted(free, reverse=True) == free
    assert len(free) == 10
    with pytest.raises(UsageError, match="give `with_scores` too"):
        LabelCommandOptions(directions=("w1:w2",), unlabelled=5)
    with pytest.raises(LabelError, match="and `unlabelled=50` needs 120"):
        label(source[0], str(tmp_path / "m.csv"), LabelCommandOptions(
            directions=("w1:w2",), top=TOP, unlabelled=50, with_scores=True))  # fmt: skip

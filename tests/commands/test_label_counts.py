"""`label --counts`, called as a function."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest

from salcli.commands.fit import fit
from salcli.commands.label import label
from salcli.commands.label_counts import Assigned, label_by_counts
from salcli.errors import AlignmentError, LabelError, ParameterError, SalcliWarning, UsageError
from salcli.options import FitOptions, LabelCommandOptions, LabelOptions, ReadOptions
from salcli.streaming.progress import Silent

from ..cli.helpers import planted, read_csv, save_npy, text_of, words, write_csv

HALVES = (("c0", 0.5), ("c1", 0.5))


@pytest.fixture
def rows(tmp_path: Path) -> tuple[str, list[str]]:
    x, labels = planted(200, 6)
    return str(save_npy(tmp_path / "x.npy", x)), labels


def assigned(path: str, output: Path, **how: object) -> Assigned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        done = label(path, str(output), LabelCommandOptions(**{"counts": HALVES, **how}))  # type: ignore[arg-type]
    assert isinstance(done, Assigned)
    return done


def test_classes_are_found_up_to_their_names_and_fit_takes_the_file(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    path, truth = rows
    done = assigned(path, tmp_path / "l.csv", split=())
    columns, lines = read_csv(tmp_path / "l.csv")
    assert columns == ["label", "score", "margin"]
    right = np.mean([line[0] == true for line, true in zip(lines, truth, strict=True)])
    assert max(right, 1 - right) > 0.98
    assert done.classes == {"c0": 100, "c1": 100}
    assert all(float(line[2]) >= 0 for line in lines)
    fitted = fit(
        path, str(tmp_path / "l.csv"), str(tmp_path / "e.npz"), FitOptions(LabelOptions(attributes=("label",)))
    )
    assert fitted.header["rows"]["n_fitted"] == 200


def test_seed_labels_name_the_classes_and_the_held_out_part_is_measured(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    path, truth = rows
    write_csv(tmp_path / "s.csv", ["sex"], [[one if i < 60 else ""] for i, one in enumerate(truth)])
    done = assigned(path, tmp_path / "l.csv", seed_labels=str(tmp_path / "s.csv"), name="sex", split=())
    found = [line[0] for line in read_csv(tmp_path / "l.csv")[1]]
    assert np.mean(np.array(found) == np.array(truth)) > 0.98
    assert found[:60] == truth[:60]
    assert done.n_known == 60
    assert done.seeds is not None
    assert (done.seeds.n_held_out, done.seeds.n_known) == (15, 45)
    assert done.seeds.right > 0.9
    assert done.seeds.is_above_chance


def test_a_warning_says_so_where_seed_labels_are_assigned_no_better_than_chance(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    noise = np.random.default_rng(1).permutation(np.arange(200) % 2)
    write_csv(tmp_path / "s.csv", ["label"], [[f"c{code}" if i < 80 else ""] for i, code in enumerate(noise)])
    options = LabelCommandOptions(counts=HALVES, seed_labels=str(tmp_path / "s.csv"))
    with pytest.warns(SalcliWarning, match=r"of 20 seed labels that were held out, .* no better than chance \(50.0%\)"):
        done = label_by_counts(rows[0], str(tmp_path / "l.csv"), options, Silent())
    assert done.seeds is not None
    assert not done.seeds.is_above_chance


def test_without_or_with_few_seed_labels_a_warning_says_what_is_not_known(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    with pytest.warns(SalcliWarning, match="the names of the classes may be exchanged"):
        label(rows[0], str(tmp_path / "l.csv"), LabelCommandOptions(counts=HALVES))
    write_csv(tmp_path / "s.csv", ["label"], [[one if i < 6 else ""] for i, one in enumerate(rows[1])])
    with pytest.warns(SalcliWarning, match="6 seed labels are too few to check the assignment by; 40 would do"):
        done = label(
            rows[0], str(tmp_path / "l.csv"), LabelCommandOptions(counts=HALVES, seed_labels=str(tmp_path / "s.csv"))
        )
    assert isinstance(done, Assigned)
    assert done.seeds is None


def test_the_same_seed_gives_the_same_bytes_however_the_file_is_read(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    for name, how in (("a", {}), ("b", {"read": ReadOptions(batch_rows=200)}), ("c", {"seed": 1})):
        assigned(rows[0], tmp_path / name, **how)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("counts", [(("a", 0.333), ("b", 0.333), ("c", 0.334)), (("a", 1), ("b", 99), ("c", 100))])
def test_every_class_has_its_rows_when_directions_come_from_a_sample(
    rows: tuple[str, list[str]], tmp_path: Path, counts: tuple[tuple[str, float], ...]
) -> None:
    done = assigned(rows[0], tmp_path / "l.csv", counts=counts, sample=50, split=())
    assert done.n_sampled == 50
    found = [line[0] for line in read_csv(tmp_path / "l.csv")[1]]
    sizes = [found.count(name) for name, _ in counts]
    assert sizes == ([67, 66, 67] if counts[0][1] != 1 else [1, 99, 100])
    assert list(done.classes.values()) == sizes


def test_directions_come_from_seed_labels_alone_where_a_sample_has_no_room_for_others(
    rows: tuple[str, list[str]], tmp_path: Path
) -> None:
    write_csv(tmp_path / "s.csv", ["label"], [[one if i < 60 else ""] for i, one in enumerate(rows[1])])
    done = assigned(rows[0], tmp_path / "l.csv", seed_labels=str(tmp_path / "s.csv"), sample=50, split=())
    assert done.n_sampled == 50
    assert done.strength > 0
    found = [line[0] for line in read_csv(tmp_path / "l.csv")[1]]
    assert np.mean(np.array(found) == np.array(rows[1])) > 0.98


def test_of_a_repeated_key_the_first_row_is_labelled_and_rows_with_nan_are_left_out(tmp_path: Path) -> None:
    x, truth = planted(60, 4)
    x[7] = np.nan
    keys = [word.encode() for word in words(60)]
    keys[5] = keys[4]
    (tmp_path / "x.txt").write_bytes(text_of(keys, x, has_header=True))
    read = ReadOptions(allow_nonfinite=True)
    done = assigned(str(tmp_path / "x.txt"), tmp_path / "l.csv", read=read, split=(0.5, 0.0, 0.4))
    columns, lines = read_csv(tmp_path / "l.csv")
    assert columns == ["word", "label", "split", "score", "margin"]
    assert done.n_assigned == 58
    assert len(lines) == done.splits["train"] + done.splits["test"] == 52
    assert not {"w5", "w7"} & {line[0] for line in lines}
    save_npy(tmp_path / "x.npy", x)
    assigned(str(tmp_path / "x.npy"), tmp_path / "n.csv", read=read, split=())
    found = [line[0] for line in read_csv(tmp_path / "n.csv")[1]]
    assert found[7] == ""
    right = np.mean([one == true for i, (one, true) in enumerate(zip(found, truth, strict=True)) if i != 7])
    assert max(right, 1 - right) > 0.95


@pytest.mark.parametrize(
    ("counts", "seeds", "error", "says"),
    [
        ((("c0", 100), ("c1", 99)), None, LabelError, "`counts` add up to 199 rows, but there are 200"),
        ((("c0", 0.999), ("c1", 0.001)), None, LabelError, "a share of 0.001 of 200 rows is no row of class 'c1'"),
        (HALVES, ["c0", "c9"] + [""] * 198, LabelError, "'c9', expected a class of `counts`: c0, c1"),
        ((("c0", 2), ("c1", 198)), ["c0"] * 3 + [""] * 197, LabelError, "3 seed labels 'c0', but `counts` has 2 rows"),
        (HALVES, ["c0"] * 100 + ["c1"] * 100, LabelError, "every row has a seed label"),
        (HALVES, ["c0"] * 3, AlignmentError, "3 labels, but"),
    ],
)
def test_counts_and_seed_labels_that_do_not_fit_are_refused_and_nothing_is_written(
    rows: tuple[str, list[str]],
    tmp_path: Path,
    counts: tuple[tuple[str, float], ...],
    seeds: list[str] | None,
    error: type[Exception],
    says: str,
) -> None:
    path = None if seeds is None else str(write_csv(tmp_path / "s.csv", ["label"], [[one] for one in seeds]))
    with pytest.raises(error, match=says):
        assigned(rows[0], tmp_path / "l.csv", counts=counts, seed_labels=path)
    assert not (tmp_path / "l.csv").exists()


def test_the_column_of_seed_labels_is_that_of_name(rows: tuple[str, list[str]], tmp_path: Path) -> None:
    path = write_csv(tmp_path / "s.csv", ["sex"], [[one] for one in rows[1]])
    with pytest.raises(LabelError, match=r"no column 'label' \(`name`\); it has sex"):
        assigned(rows[0], tmp_path / "l.csv", seed_labels=str(path))


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"counts": (("a", 0.5),)}, ParameterError, "at least two classes"),
        ({"counts": (("a", 0.5), ("a", 0.5))}, ParameterError, "at least two classes, each with a name of its own"),
        ({"counts": (("a", 0.5), ("b", 0.4))}, ParameterError, "add up to 0.9, expected 1"),
        ({"counts": (("a", -1), ("b", 4))}, ParameterError, "of every class"),
        ({"counts": HALVES, "directions": ("he:she",)}, UsageError, "cannot go with `directions`"),
        ({"counts": HALVES, "groups": "a.csv"}, UsageError, "cannot go with `groups`"),
        ({"counts": HALVES, "bands": (5,)}, UsageError, "cannot go with `bands`"),
        ({"directions": ("he:she",), "starts": 3}, UsageError, "`starts` goes with `counts=NAME:SHARE,…`"),
        ({"counts": HALVES, "name": "margin"}, UsageError, "would not be taken for labels"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    how: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        LabelCommandOptions(**how)  # type: ignore[arg-type]


def test_the_file_of_the_sample_reads_as_gender(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "sample_data"
    with open(sample / "bios-sample.csv", encoding="utf-8", newline="") as handle:
        truth = [row["gender"] for row in csv.DictReader(handle)]
    counts = tuple((name, truth.count(name)) for name in ("female", "male"))
    assigned(str(sample / "bios-sample.npy"), tmp_path / "l.csv", counts=counts, split=())
    found = [line[0] for line in read_csv(tmp_path / "l.csv")[1]]
    assert np.mean(np.array(found) == np.array(truth)) > 0.95

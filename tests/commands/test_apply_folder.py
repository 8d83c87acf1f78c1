"""When the output of `apply` is a folder, and how its files are called."""

from pathlib import Path

import numpy as np
import pytest

from salcli.commands.apply import Applied, apply
from salcli.commands.apply_folder import goes_to_folder, output_names
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.errors import FormatError, SalcliError, UsageError
from salcli.formats.shard_folder import ShardFolder
from salcli.formats.shards import read_record
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions

from ..cli.helpers import planted, save_npy, write_csv


@pytest.mark.parametrize(
    ("embeddings", "target", "expected"),
    [
        ("folder", "out", True),
        ("folder/", "out/", True),
        ("folder", "out.parquet/", True),
        ("folder", "v1.0", True),
        ("folder", "old.npy", True),
        ("*.npy", "out", True),
        ("folder", "out.npy", False),
        ("folder", "out.txt.gz", False),
        ("folder", "-", False),
        ("folder", "/dev/null", False),
        ("x.npy", "out", False),
        ("[x].npy", "out", False),
    ],
)
def test_several_files_go_to_a_folder_unless_the_output_is_called_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embeddings: str, target: str, expected: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "old.npy"):
        Path(name).mkdir()
    for name in ("x.npy", "[x].npy"):
        Path(name).touch()
    assert goes_to_folder(embeddings, target) is expected


def test_outputs_are_called_as_their_inputs() -> None:
    paths = ["a/x.npy", "a/y.npy.gz", "b/z.npy.bz2", "b/v1.0"]
    assert [*output_names(paths, "npy", "npy")] == ["x.npy", "y.npy.gz", "z.npy", "v1.0"]
    assert output_names(paths[:3], "npy", "h5") == {"x.h5": "a/x.npy", "y.h5": "a/y.npy.gz", "z.h5": "b/z.npy.bz2"}
    with pytest.raises(UsageError, match=r"a/x.npy and b/x.npy would both be written to x.npy"):
        output_names(["a/x.npy", "b/x.npy"], "npy", "npy")


def test_what_was_written_and_kept_is_returned(tmp_path: Path) -> None:
    x, classes = planted(40, 3)
    (tmp_path / "x").mkdir()
    for i in range(4):
        save_npy(tmp_path / "x" / f"{i}.npy", x[10 * i : 10 * i + 10])
    labels, eraser, out = (str(tmp_path / name) for name in ("y.csv", "e.npz", "out"))
    write_csv(Path(labels), ["g"], [[c] for c in classes])
    fit(str(tmp_path / "x"), labels, eraser, FitOptions())
    for n_kept in (0, 3):
        found = apply(eraser, str(tmp_path / "x"), out, ApplyOptions())
        assert found == Applied(out, "npy", 40, 3, "float32", 4, n_kept)
        rows = np.concatenate([np.load(f"{out}/{i}.npy") for i in range(4)])
        assert abs(np.mean(rows[np.array(classes) == "c0"], axis=0) - np.mean(rows, axis=0)).max() < 1e-5
        Path(out, "2.npy").unlink()


@pytest.mark.parametrize("place", ["local", "url"])
@pytest.mark.parametrize("cause", ["damaged", "interrupted"])
def test_a_folder_that_has_shards_and_is_not_whole_is_refused_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, cause: str
) -> None:
    x, classes = planted(40, 3)
    (tmp_path / "x").mkdir()
    for i, rows in enumerate(np.split(x, 4)):
        save_npy(tmp_path / "x" / f"{i}.npy", rows)
    labels, eraser, out = (str(tmp_path / name) for name in ("y.csv", "e.npz", "out"))
    write_csv(Path(labels), ["g"], [[c] for c in classes])
    fit(str(tmp_path / "x"), labels, eraser, FitOptions())
    if place == "url":
        out = "memory://unfinished/out"
        pytest.importorskip("fsspec").filesystem("memory").store.clear()

    def interrupted(self: ShardFolder, name: str, *_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises((SalcliError, KeyboardInterrupt)):
        if cause == "interrupted":
            patch.setattr(ShardFolder, "add", interrupted)
        else:
            save_npy(tmp_path / "x" / "1.npy", x[10:20] * np.inf)
        apply(eraser, str(tmp_path / "x"), out, ApplyOptions())
    record = read_record(out)
    assert record is not None
    assert not record["complete"]
    with pytest.raises(FormatError, match="is incomplete"):
        evaluate(str(tmp_path / "x"), labels, None, EvaluateOptions(against=out))
    save_npy(tmp_path / "x" / "1.npy", x[10:20])
    assert apply(eraser, str(tmp_path / "x"), out, ApplyOptions()).n == 40
    record = read_record(out)
    assert record is not None
    assert record["complete"]

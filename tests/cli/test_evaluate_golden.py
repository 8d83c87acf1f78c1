"""The JSON of `evaluate --json`, which other programs read: every key, type and length, and the numbers nearly."""

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from .helpers import SAMPLE, run, succeed, write_csv

GOLDEN = Path(__file__).with_name("golden_reports.json")
SHOWN = 3  # elements of a long list that the golden file keeps
FILES = ("x.npy", "y.csv", "--by-row", "--keys", "keys.txt")
WORDS = ("--similarity", "gold.tsv", "--neighbors", "b0,b7")
LINEAR = ("--probes", "linear", "--probe-rows", "300")
GATES = ("--max-accuracy", "0.6", "--max-gain", "linear=0.9", "--max-tpr-gap", "1", "--min-similarity-kept", "0.5")
CASES: dict[str, tuple[str, ...]] = {
    "repeats": (*FILES, "--eraser", "e.npz", "--task", "profession", "--repeats", "2", "--sample", "300", *LINEAR),
    "sweep": (*FILES, "--eraser", "e.npz", "--task", "profession", "--sweep", "k=0:1", *WORDS, *LINEAR, *GATES),
    "kernel": ("x.npy", "y.csv", "--eraser", "k.npz", "--attribute", "gender", *LINEAR),
    "words alone": ("x.npy", "--keys", "keys.txt", "--eraser", "e.npz", *WORDS),
    "erased elsewhere": ("x.npy", "y.csv", "--attribute", "gender", "--against", "out.npy", *LINEAR),
    "no eraser": ("x.npy", "y.csv", "--attribute", "gender", "--task", "profession", *LINEAR, "--max-gain", "0"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample of biographies with names for its rows, two guarded attributes, two erasers and an erased file."""
    folder = tmp_path_factory.mktemp("golden")
    shutil.copy(SAMPLE / "bios-sample.npy", folder / "x.npy")
    with open(SAMPLE / "bios-sample.csv", encoding="utf-8", newline="") as handle:
        (*columns, split), *rows = csv.reader(handle)
    halves = [[*row[:2], "left" if i // 3 % 2 else "right", row[2]] for i, row in enumerate(rows)]
    write_csv(folder / "y.csv", [*columns, "half", split], halves)
    (folder / "keys.txt").write_text("".join(f"b{i}\n" for i in range(len(rows))))
    pairs = "".join(f"b{7 * i}\tb{11 * i + 1}\t{i % 8}\n" for i in range(40))
    (folder / "gold.tsv").write_text(pairs + "b1\tnowhere\t3\n")
    attributes = ("--attribute", "gender", "--attribute", "half")
    succeed("fit", "x.npy", "y.csv", *attributes, "-o", "e.npz", cwd=folder)
    succeed("kfit", "x.npy", "y.csv", "--attribute", "gender", "--landmarks", "40", "-o", "k.npz", cwd=folder)
    succeed("apply", "e.npz", "x.npy", "-o", "out.npy", cwd=folder)
    return folder


def shortened(value: Any) -> Any:
    """Cut long lists, and say how long they were."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        kept = [shortened(item) for item in value[: SHOWN if len(value) > 2 * SHOWN else None]]
        return kept if len(kept) == len(value) else [*kept, f"{len(value)} in all"]
    return value


def require_like(found: Any, expected: Any, place: str) -> None:
    """Check types, keys, lengths and strings exactly, and floats to 3 % or .03: solvers differ by machine."""
    assert type(found) is type(expected), place
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected), place
        for key in expected:
            if key not in ("sha256", "digest", "hyperparameters", "version", "libraries"):
                require_like(found[key], expected[key], f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            require_like(one, other, f"{place}[{i}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=0.03, abs_tol=0.03), place
    else:
        assert found == expected, place


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_json_is_what_other_programs_read(folder: Path, case: str) -> None:
    found = shortened(run("evaluate", *CASES[case], "--json", "--quiet", cwd=folder).json())
    require_like(found, json.loads(GOLDEN.read_text("utf-8"))[case], case)

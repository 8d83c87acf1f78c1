"""The same input and options give the same bytes, whatever surrounds the command."""

import gzip
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from .helpers import header_of, planted, run, text_of, words, write_csv, write_embeddings

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 240, 6
REPORTS = ("r.json", "r.md", "r.xml", "r.html")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
KEYS = [f"naïve{word}ß語" for word in words(N)]
SURROUNDINGS = {
    "1 thread": dict.fromkeys(THREADS, "1"),
    "2 threads": dict.fromkeys(THREADS, "2"),
    "4 threads, another hash": dict.fromkeys(THREADS, "4") | {"PYTHONHASHSEED": "4711"},
    "C, far away": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1"},
    "UTF-8": {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "America/St_Johns"},
}
COMMANDS = {
    "e.npz": ("fit", "x.txt", "y.csv", "-o", "e.npz"),
    "k.npz": ("kfit", "x.txt", "y.csv", "--landmarks", "50", "-o", "k.npz"),
    "all.npz": ("kfit", "x.txt", "y.csv", "--landmarks", "all", "-o", "all.npz"),
    "l.csv": ("label", "x.txt", "--direction", f"{KEYS[1]}:{KEYS[2]}", "--top", "60", "-o", "l.csv"),
    "o.txt": ("apply", "e.npz", "x.txt", "-o", "o.txt"),
    "o.bin.gz": ("apply", "e.npz", "x.txt", "-o", "o.bin.gz"),
    "o.npz": ("apply", "e.npz", "x.npz", "-o", "o.npz"),
    "o.npy": ("apply", "e.npz", "x.npy", "-o", "o.npy"),
    "o.h5": ("apply", "e.npz", "x.h5", "-o", "o.h5"),
}
BATCHED = [name for name in COMMANDS if name != "l.csv"]
EVALUATE = ("evaluate", "x.txt", "y.csv", "--eraser", "e.npz", "--probes", "linear", "--json")


def inputs(folder: Path) -> None:
    x, labels = planted(N, D)
    keys = [key.encode() for key in KEYS]
    for name in ("x.txt", "x.npz", "x.npy", "x.h5"):
        write_embeddings(folder / name, x, keys)
    parts = [("train", "dev", "test", "test")[i % 4] for i in range(N)]
    write_csv(folder / "y.csv", ["word", "y", "split"], zip(KEYS, labels, parts, strict=True))


def done(folder: Path, *args: object, env: dict[str, str] | None = None) -> bytes:
    found = run(*args, cwd=folder, env=env)
    assert found.code == 0, found
    return found.stdout


def outputs(
    folder: Path, names: Sequence[str], *options: object, env: dict[str, str] | None = None
) -> dict[str, bytes]:
    for name in names:
        done(folder, *COMMANDS[name], *options, env=env)
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usual")
    inputs(folder)
    return folder


@pytest.fixture(scope="module")
def usual(folder: Path) -> dict[str, bytes]:
    return outputs(folder, list(COMMANDS))


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_threads_hash_seed_time_zone_and_locale_change_no_byte(
    folder: Path, usual: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    inputs(tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, (1e9, 1e9))
    names = ["e.npz", "l.csv", "o.txt"] if name != "4 threads, another hash" else list(COMMANDS)
    assert outputs(tmp_path, names, env=SURROUNDINGS[name]) == {key: usual[key] for key in names}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_batch_size_changes_no_byte(folder: Path, usual: dict[str, bytes], tmp_path: Path, size: int) -> None:
    inputs(tmp_path)
    names = BATCHED if size == 7 else ["e.npz", "o.npy"]
    assert outputs(tmp_path, names, "--batch-rows", size) == {name: usual[name] for name in names}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_digit_of_many_directions_or_features_depends_on_the_batch_size(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, codes = rng.normal(size=(900, 300)), rng.integers(0, 20, 900)
    write_embeddings(tmp_path / "x.npy", (x + rng.normal(size=(20, 300))[codes]).astype(np.float32), [])
    write_csv(tmp_path / "y.csv", ["y"], [[f"c{code}"] for code in codes])
    done(tmp_path, "fit", "x.npy", "y.csv", "-o", "e.npz")
    done(tmp_path, "kfit", "x.npy", "y.csv", "--landmarks", "100", "-o", "k.npz")
    for eraser in ("e.npz", "k.npz"):
        found = []
        for size in ((), ("--batch-rows", 7), ("--batch-rows", 500)):
            done(tmp_path, "apply", eraser, "x.npy", "-o", "o.npy", "--dtype", dtype, *size)
            found.append((tmp_path / "o.npy").read_bytes())
        assert found[0] == found[1] == found[2], eraser


def test_reports_are_the_same_bytes_for_any_threads_hash_seed_and_batch(folder: Path, usual: dict[str, bytes]) -> None:
    options = [part for name in REPORTS for part in ("--report", name)]
    found = []
    for env, size in ((SURROUNDINGS["1 thread"], 11), (SURROUNDINGS["4 threads, another hash"], 500)):
        shown = done(folder, *EVALUATE, "--batch-rows", size, *options, env=env)
        found.append((shown, *((folder / name).read_bytes() for name in REPORTS)))
    assert found[0] == found[1]


def test_reports_name_files_without_folders(folder: Path, usual: dict[str, bytes], tmp_path: Path) -> None:
    gold = "".join(f"{one}\t{other}\t{i}\n" for i, (one, other) in enumerate(zip(KEYS[:40], KEYS[40:80], strict=True)))
    found = []
    for place in (tmp_path / "a", tmp_path / "another folder"):
        shutil.copytree(folder, place)
        (place / "gold.tsv").write_text(gold, "utf-8")
        paths = (place / "x.npy", place / "y.csv", "--by-row", "--keys", place / "keys.txt")
        (place / "keys.txt").write_text("".join(f"{key}\n" for key in KEYS), "utf-8")
        done(place, "fit", *paths, "-o", "other.npz", "--seed", "7")
        more = ("--eraser", place / "other.npz", "--similarity", place / "gold.tsv")
        base = ("--probes", "linear,quadratic", "--no-learning-curve", "--report", place / "base.json")
        done(tmp_path, "evaluate", *paths, *more, *base)
        gate = ("--probes", "linear", "--baseline", place / "base.json", "--max-leak-increase", "1")
        written = (part for name in REPORTS for part in ("--report", place / name))
        failed = run("evaluate", *paths, *more, *gate, *written, cwd=tmp_path)
        assert failed.code == 1, failed  # the other attacker is missing, and the gate names the file that has it
        found.append([(place / name).read_bytes() for name in REPORTS])
        assert not [text for text in found[-1] if str(tmp_path).encode() in text]
        assert all(b"base.json: the fresh quadratic" in text for text in found[-1])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["a b.txt", "[x] {y}*.txt", "–naïve語.txt", "-o.txt"])
def test_the_name_of_the_input_is_all_that_an_artifact_tells_of_where_it_was(
    usual: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    """Held is the name without its folder: the same file by two paths gives the same bytes."""
    inputs(tmp_path)
    (tmp_path / "sub").mkdir()
    shutil.copy(tmp_path / "x.txt", tmp_path / "sub" / name)
    done(tmp_path / "sub", "fit", f"./{name}", "../y.csv", "-o", "e.npz")
    done(tmp_path, "fit", tmp_path / "sub" / name, tmp_path / "y.csv", "-o", "e.npz")
    assert (tmp_path / "e.npz").read_bytes() == (tmp_path / "sub" / "e.npz").read_bytes()
    header = header_of(tmp_path / "e.npz")
    assert header["inputs"]["embeddings"].pop("name") == name
    done(tmp_path, *COMMANDS["e.npz"])
    expected = header_of(tmp_path / "e.npz")
    assert expected["inputs"]["embeddings"].pop("name") == "x.txt"
    assert header == expected


def test_gzip_holds_no_time_and_no_name(usual: dict[str, bytes]) -> None:
    data = usual["o.bin.gz"]
    assert data[3] & 0b1000 == 0  # no file name
    assert data[4:8] == bytes(4)  # no time
    assert gzip.decompress(data).startswith(b"%d %d\n" % (N, D))


def test_the_inputs_are_what_they_seem(folder: Path) -> None:
    x, _ = planted(N, D)
    assert (folder / "x.txt").read_bytes() == text_of([key.encode() for key in KEYS], x, has_header=True)

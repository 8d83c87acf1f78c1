"""What every command owes the shell: streams, exit status, names of files, pipes, and no surprises."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from .helpers import HERE, MODULE, SAMPLE, SCRIPT, planted, refuse, run, save_npy, succeed, text_of, words, write_csv

COMMANDS = ("label", "fit", "apply", "evaluate", "inspect")
HEAVY = ("numpy", "scipy", "sklearn", "pyarrow", "gensim", "h5py", "rich", "matplotlib")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("process")
    x, labels = planted(120, 5)
    (folder / "x.txt").write_bytes(text_of([word.encode() for word in words(120)], x, has_header=True))
    parts = [("train", "train", "dev", "test")[i % 4] for i in range(120)]
    write_csv(folder / "y.csv", ["word", "y", "split"], zip(words(120), labels, parts, strict=True))
    succeed("fit", folder / "x.txt", folder / "y.csv", "-o", folder / "e.npz")
    return folder


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_on_stdout_alone(command: str) -> None:
    done = run(*command.split(), "--help")
    assert done.code == 0
    assert done.stderr == b""
    assert done.out.startswith(("Usage: ", "\nUsage: ", "\n Usage: "))
    for name in COMMANDS if not command else ("--json",):
        assert name in done.out


def test_the_version_is_that_of_the_package_for_script_and_module() -> None:
    for command in (MODULE, (str(SCRIPT),)):
        done = run("--version", command=command)
        assert (done.code, done.stderr) == (0, b"")
        assert done.out == f"salcli {version('salcli')}\n"


@pytest.mark.slow
def test_the_installed_script_equals_the_module(folder: Path) -> None:
    args = ["inspect", folder / "x.txt", "--labels", folder / "y.csv", "--json"]
    assert run(*args, command=(str(SCRIPT),)) == run(*args)


@pytest.mark.parametrize(
    "args",
    [
        ["paint"],
        ["fit", "--no-such-option"],
        ["apply", "e.npz"],
        ["fit", "x", "y", "-o", "z", "-k", "two"],
        ["label", "x", "-o", "y"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_two_and_says_it_on_stderr(args: list[str]) -> None:
    done = run(*args)
    assert done.code == 2
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert done.err.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["fit", "{x}", "{none}", "-o", "{out}"],
        ["apply", "{none}", "{x}", "-o", "{out}"],
        ["apply", "{e}", "{none}", "-o", "{out}"],
        ["evaluate", "{x}", "{y}", "--eraser", "{none}"],
        ["label", "{none}", "--direction", "a:b", "-o", "{out}"],
        ["inspect", "{x}", "--similarity", "{none}"],
    ],
    ids=" ".join,
)
def test_a_missing_file_is_one_line_that_names_it(folder: Path, tmp_path: Path, args: list[str]) -> None:
    places = {"x": "x.txt", "y": "y.csv", "e": "e.npz"}
    names = {name: str(folder / file) for name, file in places.items()}
    none = tmp_path / "gone.npz"
    files = [arg.format(**names, none=none, out=tmp_path / "out.npz") for arg in args]
    done = refuse(3, *files, says="No such file")
    assert done.err.startswith(f"error: {none}: ")
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_with_json_stdout_holds_one_object_of_every_command(folder: Path, tmp_path: Path) -> None:
    x, y, e = folder / "x.txt", folder / "y.csv", folder / "e.npz"
    schemas = {
        "label": [x, "--direction", "w1:w2", "--top", 5, "-o", tmp_path / "l.csv"],
        "fit": [x, y, "-o", tmp_path / "e.npz"],
        "apply": [e, x, "-o", tmp_path / "o.txt"],
        "evaluate": [x, y, "--eraser", e, "--probes", "linear"],
        "inspect": [x],
    }
    for command, args in schemas.items():
        done = succeed(command, *args, "--json")
        expected = "report" if command == "evaluate" else command
        assert done.json()["schema"] == f"salcli.{expected}/1"
        assert done.stdout == (json.dumps(done.json(), sort_keys=True) + "\n").encode()
        assert b"\r" not in done.stderr
        assert b"\x1b" not in done.stderr + done.stdout


@pytest.mark.slow
def test_progress_is_one_plain_line_a_stage_and_quiet_is_silent(folder: Path, tmp_path: Path) -> None:
    fit = ["fit", folder / "x.txt", folder / "y.csv", "-o", tmp_path / "e.npz"]
    apply = ["apply", folder / "e.npz", folder / "x.txt", "-o", tmp_path / "o.txt"]
    for args, line in ((fit, b"fit: 60 rows\n"), (apply, b"apply: 120 rows\n")):
        talking = succeed(*args)
        assert talking.stderr == line
        assert talking.stdout
        quiet = succeed(*args, "--quiet")
        assert (quiet.stdout, quiet.stderr) == (b"", b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "{salcli} --help | true",
        "{salcli} --version | true",
        "{salcli} fit --help | true",
        "{salcli} apply {e} {x} -o - | head -1 >/dev/null",
        "{salcli} inspect {x} --json --head 5000 | true",
    ],
)
def test_a_closed_pipe_is_no_error(folder: Path, tmp_path: Path, line: str) -> None:
    save_npy(tmp_path / "x.npy", np.ones((120, 100)))
    write_csv(tmp_path / "y.csv", ["y"], [[i % 2] for i in range(120)])
    if not (folder / "e100.npz").exists():
        options = ["-o", folder / "e100.npz", "--by-row", "--quiet"]
        rows = np.random.default_rng(0).normal(size=(120, 100))
        succeed("fit", save_npy(tmp_path / "fit.npy", rows), tmp_path / "y.csv", *options)
    places = {"e": folder / "e100.npz", "x": SAMPLE / "glove-sample.txt"}
    shell = line.format(salcli=" ".join(MODULE), **places) + "; echo ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", shell], cwd=HERE, capture_output=True, timeout=60, check=False)
    assert done.stdout.strip() in (b"0", b"141"), done
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert b"error" not in done.stderr.lower()


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, salcli.cli.app; print(sorted(set({HEAVY!r}) & {{m.partition('.')[0] for m in sys.modules}}))"
    done = run("-c", code, command=(sys.executable,))
    assert (done.code, done.out) == (0, "[]\n")


def test_help_loads_nothing_heavy() -> None:
    done = run("-X", "importtime", "-m", "salcli", "--help", command=(sys.executable,))
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.err.splitlines() if "|" in line}
    assert "salcli" in loaded
    assert not loaded & set(HEAVY)


NAMES = ["with space", "[x]", "[/red]", "naïve 日本", "-dash"]


@pytest.mark.slow
def test_any_file_name_will_do(folder: Path, tmp_path: Path) -> None:
    """Names are kept as they are, in files and in messages; one that begins with a dash stands after `--`."""
    for name in (NAMES[0], *NAMES[2:5]):
        place = tmp_path / name.strip("/").replace("/", "_")
        place.mkdir()
        for file in ("x.txt", "y.csv"):
            (place / f"{name.replace('/', '_')}{file}").write_bytes((folder / file).read_bytes())
        x, y, e = (name.replace("/", "_") + end for end in ("x.txt", "y.csv", "e.npz"))
        record = succeed("fit", "-o", e, "--json", "--", x, y, cwd=place).json()
        assert record["output"] == e
        assert (place / e).read_bytes()[:2] == b"PK"
        assert json.loads(str(np.load(place / e)["header"]))["inputs"]["labels"]["name"] == y


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES[1:5])
def test_a_message_shows_a_name_as_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.replace("/", "|") / "none.npy"
    done = refuse(3, "inspect", path, says=str(path), env={"LC_ALL": "C"})
    assert done.err.count("\n") == 1


def test_a_line_feed_in_a_name_does_not_break_the_line(tmp_path: Path) -> None:
    done = refuse(3, "inspect", tmp_path / "two\nlines\x1b[31m.npy", says="two\\nlines")
    assert b"\x1b" not in done.stderr


def test_an_empty_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    refuse(3, "inspect", tmp_path / "empty.npy", says="an empty file")
    (tmp_path / "folder").mkdir()
    refuse(3, "inspect", tmp_path / "folder", says="folder")


GUARD = """
import os, sys

def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request"):
        os._exit(99)

sys.addaudithook(refuse)
"""


@pytest.mark.slow
def test_no_command_asks_the_network(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {"PYTHONPATH": os.pathsep.join(paths)}
    calling = "import socket; socket.create_connection(('127.0.0.1', 9))"
    assert run("-c", calling, command=(sys.executable,), env=env).code == 99
    x, y, e = folder / "x.txt", folder / "y.csv", folder / "e.npz"
    succeed("label", x, "--direction", "w1:w2", "--top", 5, "-o", tmp_path / "l.csv", env=env)
    succeed("fit", x, y, "-o", tmp_path / "e.npz", env=env)
    succeed("apply", e, x, "-o", tmp_path / "o.h5", env=env)
    succeed("evaluate", x, y, "--eraser", e, "--probes", "linear", env=env)
    succeed("inspect", SAMPLE / "glove-sample.h5", "--similarity", "wordsim353", env=env)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("apply", "e.npz", "x.npy", "-o", "-", "--json"), "both write to stdout"),
        (("label", "x.npy", "--direction", "a:b", "-o", "-", "--json"), "both write to stdout"),
        (("fit", "x.npy", "y.csv", "-o", "-"), "give its name"),
        (("apply", "e.npz", "x.npy", "-o", "/dev/stdout", "--json"), "both write to stdout"),
        (("fit", "x.npy", "y.csv", "-o", "/dev/fd/1"), "give its name"),
    ],
)
def test_stdout_is_not_asked_for_two_things(arguments: tuple[str, ...], says: str) -> None:
    refuse(2, *arguments, says=says)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("/dev/stdout", "ab"),
        ("/dev/stdout", "wb"),
        ("/dev/fd/1", "ab"),
        ("/proc/thread-self/fd/1", "ab"),
        ("link", "ab"),
    ],
)
def test_every_name_of_stdout_gets_nothing_but_data_and_what_a_file_holds_stays(
    tmp_path: Path, name: str, opened: str
) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    target = name if name.startswith("/") else tmp_path / name
    (tmp_path / "v.txt").write_bytes(b"a 1 2\nb 3 4.5\n")
    label = ("label", tmp_path / "v.txt", "--direction", "a:b", "--top", 1, "--split", "none")
    expected = succeed(*label, "-o", "-").stdout
    assert expected.startswith(b"word,label")
    (tmp_path / "log").write_bytes(b"before\n")
    with open(tmp_path / "log", opened) as log:
        log.write(b"first\n")
        log.flush()
        subprocess.run([*MODULE, *map(str, label), "-o", target], stdout=log, check=True, stderr=subprocess.PIPE)
        log.write(b"last\n")
    before = b"before\nfirst\n" if opened == "ab" else b"first\n"
    assert (tmp_path / "log").read_bytes() == before + expected + b"last\n"
    assert succeed(*label, "-o", target).stdout == expected


@pytest.mark.slow
def test_an_inherited_descriptor_is_written_to_and_one_that_is_closed_is_refused(tmp_path: Path) -> None:
    label = ("label", SAMPLE / "glove-sample.txt", "--direction", "he:she", "--top", "3")
    refuse(4, *label, "-o", "/dev/fd/87", says="/dev/fd/87: could not be written")
    with open(tmp_path / "log", "ab") as log:
        log.write(b"first\n")
        log.flush()
        output = f"/dev/fd/{log.fileno()}"
        subprocess.run([*MODULE, *map(str, label), "-o", output], pass_fds=[log.fileno()], check=True)
    assert (tmp_path / "log").read_bytes().startswith(b"first\nword,label")


@pytest.mark.slow
def test_a_deleted_working_directory_is_one_line(folder: Path, tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    line = f"cd {gone}; rmdir {gone}; {sys.executable} -m salcli apply {folder / 'e.npz'} {folder / 'x.txt'} -o out.txt"
    refuse(4, "-c", line, command=("bash",), says="working directory was deleted")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            "evaluate x y --probess z",
            "salcli evaluate: no such option: --probess; did you mean --probe-rows, --probes?",
        ),
        ("inspect x --zzz", "salcli inspect: no such option: --zzz; see salcli inspect -h"),
        ("evalute x y", "salcli: no such command 'evalute'; did you mean 'evaluate'?"),
        ("--zzz", "salcli: no such option: --zzz; see salcli -h"),
        ("evaluate", "salcli evaluate: missing argument 'EMBEDDINGS'; see salcli evaluate -h"),
        ("fit x y", "salcli fit: missing option '-o' / '--output'; see salcli fit -h"),
        ("fit x y -o z --bogus", "salcli fit: no such option: --bogus"),
        ("label x --top ten -o y", "salcli label: invalid value for '--top': 'ten' is not a valid int"),
        ("evaluate x y --seed", "salcli evaluate: option '--seed' requires an argument; see salcli evaluate -h"),
        ("apply a b c", "salcli apply: got unexpected extra argument(s) (c); see salcli apply -h"),
        ("evaluate a b c", "an eraser is given by --eraser, an erased file by --against; see salcli evaluate -h"),
        ("evaluate x y --judge dice", "--judge dice: expected one of bounds, point"),
        ("fit x y -o z --sample 1.5", "salcli fit: invalid value for '--sample': '1.5' is not a valid int"),
    ],
)
def test_usage_errors_are_one_line(args: str, says: str) -> None:
    done = refuse(2, *args.split(), says=says, command=(str(SCRIPT),))
    assert len(done.err.splitlines()) == 1

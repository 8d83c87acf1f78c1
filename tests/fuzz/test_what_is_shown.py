"""Nothing that stands in a file (or in its name) acts on the terminal or on a report: it is shown letter by letter."""

import json
import unicodedata
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest

from salcli.erasers.artifact import Artifact, write_artifact
from salcli.erasers.linear import LinearEraser

from .forked import Commands, Measured
from .seeds import artifact_header

HOSTILE = "\x1b[31m[red]x[/nothing]:tada:<script>alert(1)</script>|\u202egpj\u2028`*_\\"
SHOWN = ("[red]x[/nothing]:tada:<script>alert(1)</script>|", "gpj")
NAME = HOSTILE.replace("/", "∕") + "\n\udcff"  # any bytes but these two may stand in a file's name
KINDS = ("json", "md", "html", "xml")


def words(n: int) -> list[bytes]:
    odd = [HOSTILE.encode(), b"\xff\x9b31m[bold]", "é\u202e".encode(), b"\x1b]0;title\x07", b"a[/]b", b":bomb:"]
    return [*odd, *(b"w%d" % i for i in range(n - len(odd)))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, labels, an eraser and a gold set in which keys, classes, columns and names are hostile."""
    folder = tmp_path_factory.mktemp("shown") / NAME
    folder.mkdir()
    rng = np.random.default_rng(0)
    n = 120
    x = rng.normal(size=(n, 4)) + np.arange(n)[:, None] % 2 * 3
    rows = [word + b" " + " ".join(f"{v:.3f}" for v in row).encode() for word, row in zip(words(n), x, strict=True)]
    (folder / "x.txt").write_bytes(b"%d 4\n" % n + b"\n".join(rows) + b"\n")
    names = [f"{HOSTILE}\nF", "M\x1b[0m\u202d"]
    parts = ("train", "train", "dev", "test")
    quoted = [cell.replace('"', '""') for cell in (HOSTILE, *names)]
    lines = [f'word,"{quoted[0]}",split']
    # the labels of hostile keys are those of their rows; a few labels have no row
    for i, word in enumerate([*words(n), b"none\x1b[2J", b"none|<b>"]):
        key = word.decode("utf-8", "surrogateescape").replace('"', '""')
        lines.append(f'"{key}","{quoted[1 + i % 2]}",{parts[i // 2 % 4]}')
    (folder / "y.csv").write_bytes(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
    gold = ["w1\tw2\t1", "w3\tw4\t2", "w5\tw6\t3", f"none{HOSTILE}\tw9\t1"]
    (folder / "s.tsv").write_text("\n".join(gold) + "\n", encoding="utf-8")
    return folder


def require_tame(text: str) -> None:
    """Hold printed text to characters that only show themselves, on lines of its own."""
    unruly = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert not unruly


def tame(done: Measured, *, code: int = 0) -> Measured:
    assert done.code == code, done
    require_tame(done.out)
    require_tame(done.err)
    return done


@pytest.mark.slow
def test_inspect_shows_keys_classes_and_names(commands: Commands, folder: Path) -> None:
    args = ["inspect", folder / "x.txt", "--labels", folder / "y.csv", "--similarity", folder / "s.tsv"]
    done = tame(commands.run(*args, "--head", 6))
    flat = done.out.replace("\n", "").replace(" ", "")
    for part in SHOWN:
        assert flat.count(part.replace(" ", "")) >= 3  # in a key, a class and a name
    assert "[red]x[∕nothing]:tada:<script>" in done.err
    assert ":bomb:" in done.out
    assert "a[/]b" in done.out


def test_inspect_json_is_ascii_and_holds_every_letter(commands: Commands, folder: Path) -> None:
    done = tame(commands.run("inspect", folder / "x.txt", "--labels", folder / "y.csv", "--json"))
    assert done.out.isascii()
    found = json.loads(done.out)
    assert [row["key"].encode("utf-8", "surrogateescape") for row in found["head"]] == words(120)[:5]
    assert found["labels"]["attribute"] == HOSTILE
    assert found["labels"]["classes"] == {f"{HOSTILE}\nF": 60, "M\x1b[0m\u202d": 60}
    assert found["path"] == str(folder / "x.txt")


@pytest.mark.slow
def test_reports_of_every_kind_show_names_as_text(commands: Commands, folder: Path) -> None:
    fit = ["fit", folder / "x.txt", folder / "y.csv", "-o", folder / "e.npz"]
    assert SHOWN[0] in tame(commands.run(*fit)).out.replace("\n", "")
    reports: list[object] = [part for kind in KINDS for part in ("--report", folder / f"r.{kind}")]
    inputs = [folder / "x.txt", folder / "y.csv", "--eraser", folder / "e.npz"]
    options = ["--probes", "linear", "--similarity", folder / "s.tsv", "--neighbors", "w1", "--max-accuracy", "1"]
    done = tame(commands.run("evaluate", *inputs, *options, *reports))
    assert SHOWN[0] in done.out
    json_, markdown, html, xml = ((folder / f"r.{kind}").read_bytes().decode() for kind in KINDS)
    assert HOSTILE in {probe["attribute"] for probe in json.loads(json_)["probes"]}
    for text in (json_, markdown, html, xml):
        require_tame(text)
    assert "<script" not in html + xml
    assert "alert(1)" in html
    assert "<script" not in markdown.replace("\\<script", "")
    assert not [line for line in markdown.splitlines() if "alert" in line and "</script>|" in line]
    minidom.parseString(xml.encode())


@pytest.mark.parametrize(
    ("files", "args", "says"),
    [
        ({"x.txt": b"2 2\nb 1 2\n%b 1 1_0\n"}, ["inspect", "x.txt"], "expected a number"),
        ({"x.txt": b"2 2\nb 1 2\n%b 1\n"}, ["inspect", "x.txt"], "2 expected"),
        ({"x.txt": b"a 1 2\n%b nan 2\n"}, ["inspect", "x.txt"], "expected finite numbers"),
        ({"x.txt": b"a 1 2\nb 2 1\n", "y.csv": b"word,%b,z\na,1,2\n"}, ["fit", "x.txt", "y.csv"], "choose with"),
        ({"x.txt": b"a 1 2\nb 2 1\n", "y.csv": b"word,y\n%b,1\n"}, ["fit", "x.txt", "y.csv"], "not in the embedding"),
        ({"x.txt": b"a 1 2\nb 2 1\n", "y.csv": b"word,y\n%b,1\n%b,2\n"}, ["fit", "x.txt", "y.csv"], "on line 3"),
        ({"x.txt": b"a 1 2\nb 2 1\n", "y.csv": b"word,y\na,%b\nb,%b\n"}, ["fit", "x.txt", "y.csv"], "is not UTF-8"),
        ({"x.txt": b"a 1 2\nb 2 1\n", "s.tsv": b"x\ty\t1\nc\t%b\tz\n"}, ["inspect", "x.txt", "--similarity", "s.tsv"],
         "two words and a score"),
        ({"none": b""}, ["inspect", "gone.npy"], "no file matches"),
    ],
)  # fmt: skip
def test_an_error_shows_what_it_quotes_as_text(
    commands: Commands, folder: Path, files: dict[str, bytes], args: list[str], says: str
) -> None:
    odd = b"\x1b[31m[red][/x]:tada:\xe2\x80\xae\xff"
    place = folder / f"e{len(list(folder.iterdir()))}"
    place.mkdir()
    for name, data in files.items():
        (place / name).write_bytes(data.replace(b"%b", odd))
    inputs: list[Any] = [place / arg if "." in arg else arg for arg in args]
    done = tame(commands.run(*inputs, *(["-o", place / "o.npz"] if args[0] == "fit" else [])), code=3)
    assert sorted(path.name for path in place.iterdir()) == sorted(files)
    last = done.err.splitlines()[-1]
    assert says in last
    assert SHOWN[0].replace("/", "∕") in last
    assert len([line for line in done.err.splitlines() if line.startswith("error: ")]) == 1


def test_an_artifact_shows_what_its_header_says_as_text(commands: Commands, folder: Path) -> None:
    u = np.eye(3)[:, :1]
    header = artifact_header(method=HOSTILE)
    header["attributes"] = [{"name": HOSTILE, "classes": [f"{HOSTILE}\n", "M"], "counts": [1, 1], "sha256": ""}]
    write_artifact(str(folder / "h.npz"), Artifact(LinearEraser(np.zeros(3), u, u), np.ones(1), header))
    done = tame(commands.run("inspect", folder / "h.npz"))
    assert done.out.replace("\n", "").replace(" ", "").count(SHOWN[0]) >= 3
    assert json.loads(tame(commands.run("inspect", folder / "h.npz", "--json")).out)["method"] == HOSTILE
    header["schema"] = header["versions"]["salcli"] = HOSTILE
    with np.load(folder / "h.npz") as found:
        np.savez(folder / "h.npz", **{**found, "header": np.array(json.dumps(header))})
    assert SHOWN[0] in tame(commands.run("inspect", folder / "h.npz"), code=3).err


@pytest.mark.slow
def test_a_message_about_a_name_without_end_has_one(commands: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(2))
    (tmp_path / "y.csv").write_text(f"word,y\n{'k' * 500_000},1\n{'k' * 500_000},2\n", encoding="utf-8")
    done = commands.run("inspect", tmp_path / "x.npy", "--labels", tmp_path / "y.csv")
    assert done.code == 3
    assert len(done.err) < 2_500
    assert "…" in done.err

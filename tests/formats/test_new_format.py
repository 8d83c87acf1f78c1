"""A format that is registered here, as one object, serves every command."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.data.embeddings import Embeddings
from salcli.data.source import Reader, partition_rows, row_ranges
from salcli.errors import FormatError
from salcli.formats import registry
from salcli.formats.base import FileReader, Format, Output, Writer
from salcli.formats.files import ByteFile
from salcli.options import ReadOptions

from ..cli.helpers import planted

MAGIC = b"#toy\n"


class ToyReader(FileReader):
    """Rows of the form `key|1.5;2.5`."""

    format, has_keys, dtype = "toy", True, np.dtype(np.float64)

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        self.path, self.file = file.name, file
        self._lines = file.stream().read(1 << 30).decode().splitlines()[1:]
        if not self._lines:
            raise FormatError(f"{self.path}: no rows")
        self.n, self.d = len(self._lines), self._lines[0].count(";") + 1
        self.partition = partition_rows(self.d)
        self._rows = options.batch_rows or self.n

    def ranges(self) -> Iterator[tuple[int, int]]:
        return row_ranges(self.n, self._rows, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        keys, rows = zip(*(line.split("|") for line in self._lines[start:stop]), strict=True)
        return Embeddings.starting_at(start, np.array([row.split(";") for row in rows], float), keys)

    def place(self, row: int) -> str:
        return f"line {row + 2}"


class ToyWriter(Writer):
    def __init__(self, output: Output) -> None:
        self._handle = output.open()
        self._handle.write(MAGIC)

    def write(self, piece: Embeddings) -> None:
        for key, vector in zip(piece.keys or (), piece.vectors.tolist(), strict=True):
            self._handle.write(f"{key}|{';'.join(map(repr, vector))}\n".encode())


TOY = Format("toy", (".toy",), lambda head: head.startswith(MAGIC), ToyReader, ToyWriter, has_magic=True)
Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Register the format, write a file of it with labels, and return what runs a command in this process."""
    monkeypatch.setattr(registry, "FORMATS", [TOY, *registry.FORMATS])
    monkeypatch.chdir(tmp_path)
    x, classes = planted(n=240)
    rows = [f"w{i}|" + ";".join(map(repr, row)) + "\n" for i, row in enumerate(x.tolist())]
    Path("x.toy").write_bytes(MAGIC + "".join(rows).encode())
    labels = [f"w{i},{name},{'train' if i % 2 else 'test'}\n" for i, name in enumerate(classes)]
    Path("y.csv").write_text("word,g,split\n" + "".join(labels), "utf-8")

    def ran(*args: str) -> Any:
        done = CliRunner().invoke(app, args)
        if done.exit_code:
            return done
        return json.loads(done.stdout) if "--json" in args else done.stdout

    return ran


def test_a_new_format_is_one_object(run: Run) -> None:
    run("fit", "x.toy", "y.csv", "-o", "e.npz")
    assert run("inspect", "e.npz", "--json")["fit"]["inputs"]["embeddings"]["format"] == "toy"
    applied = run("apply", "e.npz", "x.toy", "-o", "out.toy", "--json")
    assert (applied["format"], applied["n"], applied["d"]) == ("toy", 240, 8)
    with registry.open_source("x.toy") as before, registry.open_source("out.toy") as after:
        (x,), (erased,) = ([chunk.read() for chunk in source.chunks()] for source in (before, after))
    with np.load("e.npz") as eraser:
        expected = x.vectors - (x.vectors - eraser["mean"]) @ eraser["right"] @ eraser["left"].T
    assert_allclose(erased.vectors, expected, atol=1e-9)
    assert erased.keys == x.keys
    common = ("evaluate", "x.toy", "y.csv", "--probes", "linear", "--json")
    for given in (("--against", "out.toy"), ("--eraser", "e.npz")):
        report = run(*common, *given)
        accuracy = {probe["stage"]: probe["accuracy"] for probe in report["probes"]}
        assert accuracy["before"] > 0.95, given
        assert accuracy["after"] < 0.75, given
    looked = run("inspect", "out.toy", "--json", "--labels", "y.csv", "--head", "1")
    assert (looked["format"], looked["n"], looked["has_keys"], looked["dtype"]) == ("toy", 240, True, "float64")
    assert looked["head"][0]["key"] == "w0"


def test_a_new_format_is_written_from_and_to_others(run: Run) -> None:
    run("fit", "x.toy", "y.csv", "-o", "e.npz")
    run("apply", "e.npz", "x.toy", "-o", "out.txt")
    run("apply", "e.npz", "out.txt", "-o", "again", "--output-format", "toy")
    run("apply", "e.npz", "x.toy", "--in-place")
    assert Path("again").read_bytes().startswith(MAGIC)
    assert Path("x.toy").read_bytes().startswith(MAGIC)
    assert run("inspect", "x.toy", "--format", "toy", "--json")["n"] == 240


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("inspect", "x.toy", "--format", "npy"), 3, "not an npy file: its content is toy"),
        (("inspect", "y.toy"), 3, "not toy, whatever its name says"),
        (("inspect", "x.toy", "--dataset", "a"), 2, "x.toy is toy; only files of npz, h5"),
        (("inspect", "x.toy", "--format", "tyo"), 2, "expected one of toy, npy, npz"),
        (("apply", "e.npz", "x.toy", "-o", "-"), 2, None),
    ],
)
def test_messages_know_a_new_format(run: Run, args: tuple[str, ...], code: int, says: str | None) -> None:
    run("fit", "x.toy", "y.csv", "-o", "e.npz")
    Path("y.toy").write_text("a 1 2\nb 3 4\n", "utf-8")
    if says is None:  # stdout takes text, and this is none: it is written as word2vec text
        assert re.match(r"240 8\nw0 ", run(*args))
        return
    done = run(*args)
    assert done.exit_code == code
    assert says in done.output


def shards(file: ByteFile, options: ReadOptions) -> list[Reader]:
    """Open the files that a list names, one a line, as shards."""
    with closing(file):
        names = file.stream().read(1 << 20).decode().splitlines()[1:]
    return [registry.open_source(name, options).shards[0].reader for name in names]


LIST = Format("list", (".list",), lambda head: head.startswith(b"#list\n"), shards, ToyWriter, has_magic=True)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npy", "toy"])
def test_a_source_of_several_shards_that_is_registered_here_serves_every_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(registry, "FORMATS", [LIST, *registry.FORMATS])
    with registry.open_source("x.toy") as source:
        (whole,) = (chunk.read() for chunk in source.chunks())
    np.save("x.npy", whole.vectors)
    np.save("1.npy", whole.vectors[:100])
    np.save("2.npy", whole.vectors[100:])
    lines = Path("x.toy").read_bytes().splitlines(keepends=True)[1:]
    Path("1.toy").write_bytes(MAGIC + b"".join(lines[:100]))
    Path("2.toy").write_bytes(MAGIC + b"".join(lines[100:]))
    Path("x.list").write_text(f"#list\n1.{suffix}\n2.{suffix}\n")
    by_row = ("--by-row",) if suffix == "npy" else ()
    for name, path in (("one", f"x.{suffix}"), ("several", "x.list")):
        run("fit", path, "y.csv", *by_row, "-o", f"{name}.npz")
        run("apply", f"{name}.npz", path, "-o", f"{name}.{suffix}")
    with np.load("one.npz") as one, np.load("several.npz") as several:
        assert_allclose(several["left"], one["left"], atol=1e-12)
    rows = []
    for name in ("one", "several"):
        with registry.open_source(f"{name}.{suffix}") as source:
            rows.append(np.concatenate([chunk.read().vectors for chunk in source.chunks()]))
    assert_allclose(rows[1], rows[0], atol=1e-9)
    common = ("evaluate", "x.list", "y.csv", *by_row, "--eraser", "several.npz", "--probes", "linear", "--json")
    report = run(*common, "--sweep", "k=0:1", "--repeats", "2", "--sample", "60")
    accuracy = {probe["stage"]: probe["accuracy"] for probe in report["probes"]}
    assert accuracy["before"] > 0.95 > 0.75 > accuracy["after"]
    assert (len(report["sweep"]), report["repeats"]["n"]) == (2, 2)
    assert run("inspect", "x.list", "--json")["n"] == 240
    assert run("apply", "several.npz", "x.list", "--in-place").exit_code == 2

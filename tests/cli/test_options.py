"""The command line is made from option records: what a field says is what help shows, parses and refuses."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import salcli
from salcli.cli.app import app
from salcli.cli.options import RECORDS, flags_of, in_flags
from salcli.erasers.base import METHODS, Fit
from salcli.erasers.linear import LinearEraser
from salcli.errors import ParameterError, UsageError
from salcli.evaluation.report import Gate, Report
from salcli.options import ApplyOptions, FitOptions, LabelOptions, Record, option

from .helpers import header_of, planted, refuse, save_npy, succeed, write_csv

ROOT = Path(salcli.__file__).parent
TALKING = ("cli/", "__main__.py", "render/style.py")  # style.py: names in CSS begin with two hyphens


def salcli_run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200"})


# Names of parameters, and flags


def strings(path: Path) -> Iterator[ast.Constant]:
    """Yield the string literals of a file, parts of f-strings too, without docstrings and what `option` is given."""
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("option")):
            waiting += ast.iter_child_nodes(node)


def names_a_flag(text: str) -> bool:
    words = text.replace("var(--", "").replace("(", " ").replace("`", " ").split(" ")  # CSS has names that begin so
    return any(word[:2] == "--" and word[2:3].isalpha() for word in words) or "-k" in words or "-o" in words


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ROOT.rglob("*.py")) if not str(path.relative_to(ROOT)).startswith(TALKING)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_below_the_command_line_no_message_names_a_flag(path: Path) -> None:
    assert not [(node.lineno, node.value) for node in strings(path) if names_a_flag(str(node.value))]


def test_the_search_for_flags_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""--no"""\nx = f"{y}: give (--keys FILE)"\nz = "leave -o out"\nw = option(0, "--no")\n', "utf-8"
    )
    assert sorted(str(node.value) for node in strings(tmp_path / "a.py")) == [": give (--keys FILE)", "leave -o out"]
    assert all(names_a_flag(str(node.value)) for node in strings(tmp_path / "a.py"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("give `keys_file=FILE`, or `by_row`", "give --keys FILE, or --by-row"),
        ("(`hash_algorithm=none`)", "(--hash none)"),
        ("fit with `landmarks=M` or `center=False`", "fit with --landmarks M or --no-center"),
        ("missing `output=OUT` (or `in_place`)", "missing -o OUT (or --in-place)"),
        ("`k=3` of `attributes=a b`", "-k 3 of --attribute a b"),
        ("only `salcli kfit` writes `this`", "only `salcli kfit` writes `this`"),
        ("no`k`.npy: column 'y`top`'", "no`k`.npy: column 'y`top`'"),  # names from files
    ],
)
def test_the_command_line_shows_flags_where_python_names_parameters(text: str, shown: str) -> None:
    assert in_flags(text) == shown


def test_one_name_has_the_same_flags_in_all_records() -> None:
    found: dict[str, tuple[str, ...]] = {}
    for record in (*RECORDS, LabelOptions, *(METHODS[name].Parameters for name in METHODS)):
        for name, flags in flags_of(record).items():
            assert found.setdefault(name, flags) == flags


@pytest.mark.slow
def test_a_parameter_error_speaks_the_words_of_who_called(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as caught:
        ApplyOptions(strength=1.5)
    assert str(caught.value) == "strength = 1.5: outside 0…1"
    with pytest.raises(UsageError, match="^`reduces` changes the width of the file: it cannot go with `in_place`"):
        ApplyOptions(reduces=True, in_place=True)
    args = ("apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy")
    refuse(2, *args, "--strength", "1.5", says="error: --strength 1.5: outside 0…1")
    refuse(2, *args, "--dtype", "int8", says="error: --dtype int8: expected one of float16, float32, float64")
    refuse(2, "apply", "e", "x", "--reduce", "--in-place", says="--reduce changes the width of the file: it cannot go")
    refuse(2, "evaluate", "x", "y", "--seed", "-1", says="error: --seed -1: outside 0…4294967295")
    refuse(2, "evaluate", "x", "y", "--sweep", "rank=1", says="error: --sweep rank=1: expected k=FROM:TO")
    refuse(2, "evaluate", "x", "y", "--adversary", "spy,fresh", says="error: --adversary spy,fresh: expected one of")


def test_warnings_show_flags_too(tmp_path: Path) -> None:
    x, labels = planted(20, 3)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    args = ("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
    stderr = succeed(*args, "--sample", "99").err
    assert stderr == "warning: --sample 99: only 20 labelled rows are there; all are used\n"


def test_notes_and_reasons_of_a_report_are_worded_for_its_reader() -> None:
    gate = Gate("max-accuracy", 0.5, None, "failed", ("name the others alone (`attributes`)",))
    report = Report(gates=(gate,), notes=("3 of 5 used (`attacker_rows`)",)).worded(in_flags)
    assert report.notes == ("3 of 5 used (--attacker-rows)",)
    assert report.gates[0].reason == "name the others alone (--attribute)"


# Methods


@dataclass(frozen=True)
class ToyParameters(Record):
    """The parameters of a method that removes one coordinate."""

    column: int = option(0, help="Coordinate to remove, counted from 0.", metavar="J", bounds=(0, None))
    is_shy: bool = option(False, "--shy", off="--bold", help="Do nothing of note.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.column == 13:
            raise ParameterError("column", self.column, "an unlucky coordinate; leave `column` out")


class Toy:
    name = "toy"
    summary = "removes one coordinate, to show how a method is added"
    Parameters = ToyParameters

    def fit(self, rows: Any, parameters: Any, **how: Any) -> Fit[LinearEraser]:
        direction = np.eye(rows.source.d)[:, [parameters.column]]
        return Fit(LinearEraser(np.zeros(rows.source.d), direction, direction), np.ones(1), 1, is_centred=False)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "toy", Toy())  # type: ignore[arg-type]


@pytest.mark.usefixtures("toy")
def test_the_options_of_a_new_method_come_from_its_parameters(tmp_path: Path) -> None:
    shown = salcli_run("fit", "--method", "toy", "--help").output
    assert "Coordinate to remove, counted from 0." in shown
    assert "[at least 0]" in shown
    assert "[default: 0]" in shown
    assert "--shy / --bold" in shown.replace("  ", " ")
    assert "Method toy: removes one coordinate" in shown
    assert "--alpha" not in shown
    assert "--attribute" in shown
    assert "--column" not in salcli_run("fit", "--help").output

    x, labels = planted(40, 4)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    args = ("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet")
    for refused, says in (
        (("--method=toy", "--column", "-2"), "error: --column -2: at least 0"),
        (("--method=toy", "--column", "13"), "error: --column 13: an unlucky coordinate; leave --column out"),
        (("--method=toy", "-k", "1"), "error: -k: method toy has no such option; sal, leace, splince, ksal have it"),
        (("--column", "1"), "error: --column: method sal has no such option; toy has it"),
        (
            ("--method", "tox"),
            "error: --method tox: expected one of sal, leace, splince, inlp, ksal, transport, auto, toy",
        ),
    ):
        done = salcli_run(*args, *refused)
        assert (done.exit_code, says in done.output) == (2, True), done.output
        assert not (tmp_path / "e.npz").exists()
    assert salcli_run(*args, "--method", "toy", "--column", "2").exit_code == 0
    assert header_of(tmp_path / "e.npz")["method"] == "toy"


def test_an_option_of_another_method_is_refused_with_its_name() -> None:
    refuse(
        2, "fit", "x", "y", "-o", "e", "--kernel", "rbf", says="--kernel: method sal has no such option; ksal has it"
    )
    assert "no such option: --nonsense" in salcli_run("fit", "x", "y", "-o", "e", "--nonsense").output


@pytest.mark.parametrize(("command", "default"), [("fit", "sal"), ("kfit", "ksal")])
def test_help_shows_the_options_of_the_method_alone(command: str, default: str) -> None:
    for method in ("sal", "ksal"):
        shown = salcli_run(command, "--method", method, "--help").output
        assert f"[default: {default}]" in shown
        assert ("--landmarks" in shown) is (method == "ksal")
    assert ("--landmarks" in salcli_run(command, "--help").output) is (default == "ksal")


@pytest.mark.slow
def test_kfit_is_fit_with_another_default(tmp_path: Path) -> None:
    x, labels = planted(60, 4)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    for name, command in (("a", ("kfit",)), ("b", ("fit", "--method", "ksal")), ("c", ("kfit", "--method", "sal"))):
        succeed(*command, tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / f"{name}.npz", "--quiet")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert header_of(tmp_path / "c.npz")["method"] == "sal"


def test_methods_lists_what_there_is_and_when_to_use_it() -> None:
    found = succeed("methods", "--json").json()
    assert found["schema"] == "salcli.methods/1"
    assert [method["name"] for method in found["methods"]] == list(METHODS)
    assert all(method["summary"] for method in found["methods"])
    of_ksal = {each["name"]: each for each in next(m for m in found["methods"] if m["name"] == "ksal")["parameters"]}
    assert of_ksal["landmarks"]["default"] == 2048
    assert of_ksal["center"]["flags"] == ["--center", "--no-center"]
    assert of_ksal["k"]["flags"] == ["-k"]
    assert "-k" in of_ksal["alpha"]["help"]
    lines = succeed("methods").out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)


def test_defaults_of_help_are_those_of_the_records() -> None:
    shown = salcli_run("evaluate", "--help").output
    assert "[default: in-sample,fresh]" in shown
    assert "[default: 10,000]" in shown
    assert "[default: 0.49,0.21,0.3]" in salcli_run("label", "--help").output
    assert FitOptions().method == "sal"


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["--probes", "rbf,knn", "--probes", "linear,rbf"], "probes", ("rbf", "knn", "linear")),
        (["--as", "raw", "--as", "unit"], "forms", ("raw", "unit")),
        (["--as", "int8"], "forms", ("int8",)),
        ([], "forms", ("raw", "unit")),
        (["--bands", "20", "--bands", "20,5"], "bands", (20, 20, 5)),
        (["--neighbors", "she", "--neighbors", "he, it"], "neighbors", ("she", "he", "it")),
    ],
)
def test_lists_add_up_where_their_option_is_repeated(
    args: list[str], name: str, value: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def evaluate(_embeddings: str, _labels: str, _eraser: str, options: Any, *_: object) -> None:
        found.append(options)
        raise UsageError("enough")

    monkeypatch.setattr("salcli.commands.evaluate.evaluate", evaluate)
    assert salcli_run("evaluate", "a.npy", "a.csv", *args).exit_code == 2
    assert getattr(found[0], name) == value


def test_an_eraser_as_third_argument_of_evaluate_is_told_its_flag() -> None:
    assert "an eraser is given by --eraser" in salcli_run("evaluate", "x", "y", "e.npz").output

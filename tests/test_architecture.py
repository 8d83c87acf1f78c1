"""The route of the data is the architecture: imports run one way, and heavy ones wait until they are needed."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "salcli"
MODULES = sorted(ROOT.rglob("*.py"))

BELOW_ROUTE = {"errors", "options", "data", "spectral", "formats", "evaluation", "engine", "evaluate_options"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "data": {"errors"},
    "spectral": {"errors"},
    "engine": {"errors"},
    "options": {"errors", "data"},
    "evaluation": {"errors", "data"},
    "formats": {"errors", "options", "data", "spectral"},
    "passes": BELOW_ROUTE,
    "erasing": BELOW_ROUTE,
    "provenance": BELOW_ROUTE,
    "hashing": BELOW_ROUTE,
    "kernel_route": BELOW_ROUTE | {"passes"},
    "evaluate_options": {"errors", "data", "options"},
    "row_plan": BELOW_ROUTE,
    "staging": BELOW_ROUTE | {"passes", "erasing", "kernel_route"},
    "probing": BELOW_ROUTE | {"kernel_route", "row_plan", "staging"},
    "keeping": BELOW_ROUTE | {"passes", "row_plan", "staging"},
    "sweeping": BELOW_ROUTE | {"passes", "row_plan", "staging", "probing", "keeping"},
    "assessment": BELOW_ROUTE | {"passes", "row_plan", "staging", "probing", "keeping", "sweeping"},
    "reporting": BELOW_ROUTE | {"render"},
    "labelling": BELOW_ROUTE | {"passes"},
    "inspection": BELOW_ROUTE | {"passes"},
    "workflow": BELOW_ROUTE
    | {"passes", "erasing", "provenance", "hashing", "kernel_route", "staging", "assessment", "reporting"},
    "cli": {"errors", "options", "evaluate_options", "workflow", "labelling", "inspection", "render"},
    "render": {"errors"},
    "__main__": {"cli"},
    "__init__": set(),
}
ONLY_IN = {
    "typer": "cli",
    "rich": "cli",
    "h5py": "formats",
    "gensim": "formats",
    "pyarrow": "formats",
    "orjson": "formats",
}
ONLY_IN |= {"sklearn": "evaluation", "threadpoolctl": "engine"}
ONLY_IN |= {"matplotlib": "render"}
LAZY = {"scipy", "sklearn", "pyarrow", "gensim", "orjson", "threadpoolctl", "matplotlib"}
HARD_LIMIT = 300


def package_of(path: Path) -> str:
    return ".".join(("salcli", *path.relative_to(ROOT).parent.parts))


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imports(ast.parse(path.read_text("utf-8")), package_of(path)):
        top, *rest = name.split(".")
        if top == "salcli" and rest:
            assert rest[0] in MAY_IMPORT[layer] | {layer}, f"{layer} must not import {name}"
        assert ONLY_IN.get(top, layer) == layer, f"{top} belongs to {ONLY_IN.get(top)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_packages_are_imported_where_they_are_used(path: Path) -> None:
    top_level = ast.Module(
        [n for n in ast.parse(path.read_text("utf-8")).body if not isinstance(n, ast.FunctionDef)], []
    )
    at_start = [node for node in top_level.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {name.split(".")[0] for node in at_start for name in imports(node, package_of(path))}
    assert not names & LAZY


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_holds_one_idea(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= HARD_LIMIT


def test_the_rule_knows_every_layer() -> None:
    layers = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert layers == set(MAY_IMPORT)


def test_the_rule_can_fail() -> None:
    names = list(imports(ast.parse("from ..formats import text\nimport rich.table"), "salcli.spectral"))
    assert names == ["salcli.formats.text", "rich.table"]

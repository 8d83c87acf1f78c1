"""The route of the data is the architecture: imports run one way, and heavy ones wait until they are needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent / "salcli"
MODULES = sorted(ROOT.rglob("*.py"))

# Each layer may import those below it, and itself; what stands on one line does not know the others on it.
LAYERS = (
    ("errors",),
    ("data", "linalg", "options"),
    ("formats",),
    ("streaming",),
    ("erasers",),
    ("evaluation",),
    ("render",),
    ("commands",),
    ("cli", "api"),
    ("__main__",),
)
FLOOR = {name: floor for floor, names in enumerate(LAYERS) for name in names}
SIDEWAYS = {
    ("options", "data"),  # options name the rule by which rows are chosen
    ("data", "linalg"),  # rows that are read are checked to be finite
    ("__init__", "api"),  # imported when it is used
}
ONLY_IN = {
    "typer": {"cli"},
    "rich": {"cli", "render"},
    "h5py": {"formats"},
    "gensim": {"formats"},
    "pyarrow": {"formats"},
    "orjson": {"formats"},
    "blake3": {"data"},
    "xxhash": {"data"},
    "sklearn": {"evaluation", "api"},
    "threadpoolctl": {"streaming"},
    "distributed": {"streaming"},
    "dask": {"streaming"},
    "cloudpickle": {"streaming"},
    "matplotlib": {"render"},
    "onnx": {"formats"},
}
OF_TABLES = {"arrow_columns", "arrow_files", "arrow_table", "arrow_ipc", "parquet", "parquet_writer"}
OF_TABLES |= {"row_spool", "table_labels", "table_metadata", "table_writer"}
"""Modules that are imported when a table is read or written, and not before."""
LAZY = {"blake3", "xxhash", "scipy", "sklearn", "pyarrow", "gensim", "orjson", "threadpoolctl", "matplotlib", "onnx"}
LAZY |= {"distributed", "dask", "cloudpickle"}


def package_of(path: Path) -> str:
    return ".".join(("salcli", *path.relative_to(ROOT).parent.parts))


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def may_import(layer: str, other: str) -> bool:
    return layer == other or (layer, other) in SIDEWAYS or FLOOR[other] < FLOOR.get(layer, 0) or other == "__version__"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imports(ast.parse(path.read_text("utf-8")), package_of(path)):
        top, *rest = name.split(".")
        if top == "salcli" and rest:
            assert may_import(layer, rest[0]), f"{layer} must not import {name}"
        assert layer in ONLY_IN.get(top, {layer}), f"{top} belongs to {ONLY_IN.get(top)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_packages_are_imported_where_they_are_used(path: Path) -> None:
    top_level = ast.Module(
        [n for n in ast.parse(path.read_text("utf-8")).body if not isinstance(n, ast.FunctionDef)], []
    )
    at_start = [node for node in top_level.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {name.split(".")[0] for node in at_start for name in imports(node, package_of(path))}
    allowed = {"sklearn"} if path.parent.name == "api" else set()  # estimators have its base classes
    allowed |= {"pyarrow"} if path.stem in OF_TABLES else set()
    assert not names & LAZY - allowed


def test_the_command_line_starts_without_the_python_face() -> None:
    code = "import sys, salcli, salcli.cli.app; assert not {'sklearn', 'salcli.api', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pyarrow_is_imported_for_tables_only(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(2))
    code = (
        "import sys, salcli.formats.label_table; from salcli.formats.registry import open_source; "
        f"open_source({str(tmp_path / 'x.npy')!r}).close(); assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_rule_knows_every_layer() -> None:
    layers = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert layers == {*FLOOR, "__init__"}


def test_the_rule_can_fail() -> None:
    names = list(imports(ast.parse("from ..formats import text\nimport rich.table"), "salcli.linalg"))
    assert names == ["salcli.formats.text", "rich.table"]


ROUTE = [path for path in MODULES if path.parent.name in ("commands", "evaluation") and path.name != "__init__.py"]


@pytest.mark.parametrize("path", ROUTE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_module_of_the_route_is_imported_by_a_test_of_its_layer(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    tests = Path(__file__).parent / path.parent.name
    for test in tests.glob("test_*.py"):
        names = imports(ast.parse(test.read_text("utf-8")), f"tests.{path.parent.name}")
        if any(name == module or name.startswith(f"{module}.") for name in names):
            return
    pytest.fail(f"no test in tests/{path.parent.name} imports {module}")

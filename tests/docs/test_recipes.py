"""Recipes for Slurm, Spark and Dask that pages only show run here, with stand-ins for what starts the commands."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, ROOT, Session, Step, run, steps

MOMENTS = (ROOT / "docs" / "how-to" / "moments.md").read_text("utf-8")
SCALE = (ROOT / "docs" / "explanation" / "scale.md").read_text("utf-8")
STUBS = {
    # runs every task of the array at once, and what depends on it when it is submitted
    "sbatch": """
case "$1" in
    --parsable) for i in 0 1 2 3; do SLURM_ARRAY_TASK_ID=$i bash "$2" >&2; done; echo 17 ;;
    --dependency=afterok:17) [ "$2" = --wrap ] && sh -c "$3" ;;
    *) exit 9 ;;
esac
""",
    "srun": """
while [ "$1" != dask ]; do shift; done
echo "$@" >> started
[ "$2" = scheduler ] && echo '{"address": "tcp://10.0.0.1:8786"}' > cluster.json
exit 0
""",
    "kubectl": "exit 0",
    "recorded-salcli": 'for each in "$@"; do echo "$each"; done > arguments',
}
PYSPARK = """
class Context:
    def parallelize(self, items, n):
        assert n == len(items)
        self.items = items
        return self

    def foreach(self, function):
        for item in self.items:
            function(item)


class SparkSession:
    class builder:
        appName = staticmethod(lambda name: SparkSession.builder)
        getOrCreate = staticmethod(lambda: SparkSession)

    sparkContext = Context()
"""


def blocks(text: str, language: str) -> list[str]:
    return [block["body"] for block in BLOCK.finditer(text) if block["info"] == language]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session with the stand-ins, and with the shards of the page."""
    found = Session(tmp_path)
    (tmp_path / "bin").mkdir()
    for name, body in STUBS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}")
        (tmp_path / "bin" / name).chmod(0o755)
    for step in steps(MOMENTS):
        if step.file:
            found.run(step)
    found.run(Step(command="python split.py && salcli fit x y --attribute gender -o expected.npz --quiet"))
    return found


def start(session: Session, script: str) -> None:
    session.run(Step(command=f'PATH="$PWD/bin:$PATH"\nset -e\n{script}\nwait'))
    assert not session.failures


@pytest.mark.slow
def test_a_slurm_array_and_spark_fit_what_fit_does(session: Session) -> None:
    (submit,) = (each for each in blocks(MOMENTS, "bash") if "sbatch" in each)
    start(session, f"{submit}\ncmp eraser.npz expected.npz")
    (submit,) = (each for each in blocks(MOMENTS, "bash") if "spark-submit" in each)
    (session.folder / "pyspark").mkdir()
    (session.folder / "pyspark" / "__init__.py").touch()
    (session.folder / "pyspark" / "sql.py").write_text(PYSPARK)
    script = submit.replace("spark-submit", "python").replace("/data", '"$PWD"')
    start(session, f'export PYTHONPATH="$PWD:$PYTHONPATH"\n{script}\ncmp of-spark.npz expected.npz')


def test_the_address_of_a_slurm_job_reaches_the_command(tmp_path: Path) -> None:
    found = Session(tmp_path)
    (tmp_path / "bin").mkdir()
    for name, body in STUBS.items():
        (tmp_path / "bin" / name.removeprefix("recorded-")).write_text(f"#!/bin/bash\n{body}")
        (tmp_path / "bin" / name.removeprefix("recorded-")).chmod(0o755)
    (script,) = (each for each in blocks(SCALE, "sh") if "srun" in each)
    slurm = re.search(r"^# Slurm.*?\n\n", script, re.DOTALL | re.MULTILINE)
    assert slurm is not None
    start(found, slurm[0])
    arguments = (tmp_path / "arguments").read_text().split("\n")
    assert arguments[-3:-1] == ["--scheduler", "tcp://10.0.0.1:8786"]
    assert len((tmp_path / "started").read_text().splitlines()) == 2
    kubernetes = script[slurm.end() :]
    start(found, kubernetes)
    assert "tcp://127.0.0.1:8786" in (tmp_path / "arguments").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["scheduler", "worker"])
def test_dask_has_the_options_that_are_shown(program: str) -> None:
    pytest.importorskip("distributed")
    shown = "\n".join(blocks(SCALE, "sh")).replace("\\\n", " ")
    commands = re.findall(rf"dask {program} ([^\n&]*)", shown)
    assert len(commands) == 2
    options = {each for command in commands for each in re.findall(r"--[a-z-]+", command)}
    help_of = run(f"dask {program} --help", ROOT, is_cold=True).stdout
    assert options
    assert options <= set(re.findall(r"--[a-z-]+", help_of))

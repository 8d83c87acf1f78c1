"""The seams of methods, erasers, statistics and engines: toy members drive whole commands, and nothing else changes."""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import cloudpickle
import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.data import source as source_module
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import ERASERS, METHODS, Eraser, Fit, Registry
from salcli.erasers.linear import LinearEraser
from salcli.evaluation.json_fields import to_json
from salcli.linalg.class_sums import Grouping
from salcli.linalg.moments import CrossMoments, Read
from salcli.linalg.relabelled import LabelMap
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions, InspectOptions, Sweep, option
from salcli.streaming.engine import LOCAL, running_on, sum_of_groups, tree_sum
from salcli.streaming.passes import LabelledSource
from salcli.streaming.sums import fold

from ..cli.helpers import write_embeddings

N, D = 240, 5


@dataclass(frozen=True)
class ToyParameters:
    column: int = option(0, metavar="N", help="Which coordinate is removed.")


@dataclass(frozen=True, eq=False)
class Sums:
    """A statistic that is none of ours: Σ x."""

    n: int
    x: np.ndarray
    n_sums: ClassVar[int] = D
    is_finite: ClassVar[bool] = True

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        return cls(0, np.zeros(d))

    may_group = False

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        parts = [(len(x), x.sum(0, dtype=np.float64)) for x, _ in read(7)]
        return cls(sum(n for n, _ in parts), np.sum([x for _, x in parts], axis=0))

    def add(self, x: np.ndarray, z: np.ndarray) -> Self:
        return type(self)(self.n + len(x), self.x + x.sum(0))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.n + other.n, self.x + other.x)

    def relabelled(self, labels: LabelMap) -> Self:
        return self

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:
        return True

    def to_bytes(self) -> bytes:
        return self.n.to_bytes(8, "little") + self.x.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(int.from_bytes(data[:8], "little"), np.frombuffer(data[8:]))


class Toy:
    """Sets one coordinate to its mean."""

    name = "toy"
    summary = "for tests"
    Parameters = ToyParameters

    def fit(self, rows: LabelledSource, parameters: ToyParameters, **how: Any) -> Fit[LinearEraser]:
        sums = fold(rows, Sums, how["engine"], how["progress"])
        e = np.zeros((D, 1))
        e[parameters.column] = 1
        return Fit(LinearEraser(sums.x / sums.n, e, e), np.ones(1), 1)


class Oblique(Toy):
    """The same coordinate, along a direction that is not at right angles."""

    name = "oblique"

    def fit(self, rows: LabelledSource, parameters: ToyParameters, **how: Any) -> Fit[LinearEraser]:
        found = super().fit(rows, parameters, **how)
        left = found.eraser.left + 0.5 * np.eye(D)[:, [(parameters.column + 1) % D]]
        return Fit(LinearEraser(found.eraser.mean, left, found.eraser.right), np.ones(1), 1)


@dataclass(frozen=True, eq=False)
class Rounding(Eraser):
    """An eraser that is not linear: it keeps whole numbers alone."""

    kind: ClassVar[str] = "rounding"
    names: ClassVar[tuple[str, ...]] = ("width",)
    width: int

    @property
    def d(self) -> int:
        return self.width

    @property
    def d_out(self) -> int:
        return self.width

    @property
    def k(self) -> int:
        return 1

    def __call__(self, x: np.ndarray, *, strength: float = 1.0, dtype: Any = None, out: Any = None) -> np.ndarray:
        return (x + strength * (np.round(x) - x)).astype(dtype or x.dtype)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"width": np.array([float(self.width)])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Self:
        return cls(int(arrays["width"][0]))


class RoundingMethod:
    name, summary, Parameters = "rounding", "for tests", ToyParameters

    def fit(self, rows: LabelledSource, parameters: ToyParameters, **how: Any) -> Fit[Rounding]:
        return Fit(Rounding(rows.source.d), np.ones(1), 1)


class Serial:
    """An engine that runs one item after the other, and sees nothing of this process but what is sent to it."""

    n_workers = 1
    shares_memory = False
    calls = 0

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            Serial.calls += 1
            sent, sent_item = cloudpickle.loads(cloudpickle.dumps((work, item)))
            yield cloudpickle.loads(cloudpickle.dumps(sent(sent_item)))

    def fold(self, work: Any, items: Any, zero: Any, done: Any = None, groups: Any = None) -> Any:
        if groups is None:
            return tree_sum(self.map(work, items), zero, done)
        items = list(items)
        return sum_of_groups(zip(map(groups.number, items), self.map(work, items), strict=True), zero, done, groups)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, Path]:
    rng = np.random.default_rng(0)
    codes = np.arange(N) % 2
    x = rng.normal(size=(N, D)) + 3
    x[:, 2] += 4 * codes
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    splits = np.array(["train", "dev", "test"])[rng.integers(0, 3, N)]
    rows = "\n".join(f"{'ab'[code]},{split}" for code, split in zip(codes, splits, strict=True))
    (tmp_path / "y.csv").write_text(f"y,split\n{rows}\n")
    return str(tmp_path / "x.npy"), str(tmp_path / "y.csv"), tmp_path


def through_all(paths: tuple[str, str, Path], method: str, **options: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Drive fit → artifact → apply → evaluate; return rows before and after, and the report as plain values."""
    x, y, folder = paths
    eraser, out = str(folder / "e.npz"), str(folder / "out.npy")
    fit(x, y, eraser, FitOptions(method=method, parameters=METHODS[method].Parameters(column=2)))
    apply(eraser, x, out, ApplyOptions())
    report = evaluate(x, y, eraser, EvaluateOptions(probes=("linear",), **options))
    return np.load(x), np.load(out), report


@pytest.mark.slow
@pytest.mark.parametrize("method", [Toy(), Oblique()], ids=lambda method: method.name)
def test_a_method_that_is_registered_here_goes_through_all_commands(
    method: Toy, paths: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, method.name, method)
    sweep = Sweep.parse("k=0:1")
    x, out, report = through_all(paths, method.name, sweep=sweep, repeats=3, sample=40)
    found = read_artifact(str(paths[2] / "e.npz"))
    assert found.header["method"] == method.name
    assert found.parameters == ToyParameters(2)
    train = [line.endswith("train") for line in Path(paths[1]).read_text().splitlines()[1:]]
    mean = x[train].mean(0, dtype=np.float64)
    np.testing.assert_allclose(out[:, 2], mean[2], atol=1e-5)
    np.testing.assert_allclose(out[:, 3], x[:, 3] - (method.name == "oblique") * 0.5 * (x[:, 2] - mean[2]), atol=1e-5)
    accuracy = {(probe.adversary, probe.stage): probe.accuracy for probe in report.probes}
    assert accuracy["fresh", "before"] > 0.9 > 0.7 > accuracy["fresh", "after"] or method.name == "oblique"
    assert report.repeats.n == 3
    assert [step.value for step in report.sweep] == [0.0, 1.0]


@pytest.mark.slow
def test_an_eraser_that_is_registered_here_is_written_read_and_swept(
    paths: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "rounding", RoundingMethod())
    monkeypatch.setitem(ERASERS, "rounding", Rounding)
    x, out, report = through_all(paths, "rounding", sweep=Sweep.parse("strength=0:1:0.5"), repeats=2, sample=40)
    np.testing.assert_array_equal(out, np.round(x))
    assert len(report.sweep) == 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sal", "leace", "inlp", "ksal", "transport"])
@pytest.mark.parametrize("suffix", ["npy", "npz", "txt"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # files that another process would have opened
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_drives_every_command_and_changes_no_byte(
    paths: tuple[str, str, Path], method: str, suffix: str
) -> None:
    x, y, folder = paths
    if suffix != "npy":
        x = str(write_embeddings(folder / f"keyed.{suffix}", np.load(x), [b"w%d" % i for i in range(N)]))
    sweep = Sweep.parse("strength=0:1:0.5" if method == "transport" else "k=0:1")  # transport has no k
    options = EvaluateOptions(probes=("linear",), sweep=sweep, repeats=2, sample=40)
    found: dict[str, list[Any]] = {}
    for name, engine in (("threads", LOCAL), ("serial", Serial())):
        eraser, out = str(folder / f"{name}.npz"), str(folder / f"{name}.out.{suffix}")
        for command in (
            lambda eraser=eraser: fit(x, y, eraser, FitOptions(method=method)),
            lambda eraser=eraser, out=out: apply(eraser, x, out, ApplyOptions()),
            lambda eraser=eraser: evaluate(x, y, eraser, options),
            lambda: inspect(x, InspectOptions()),
        ):
            Serial.calls = 0
            with running_on(engine):
                result = command()
            assert (Serial.calls > 0) == (name == "serial")
            found.setdefault(name, []).append(result)
        found[name][:2] = [Path(eraser).read_bytes(), Path(out).read_bytes()]
        found[name][2] = to_json(found[name][2]) | {"eraser": None, "inputs": None}
    assert found["threads"] == found["serial"]
    for shard in source_module._shards.values():  # that another process would close when it ends
        shard.reader.close()
    source_module._shards.clear()
    gc.collect()


def test_the_methods_that_there_are_have_a_name_a_summary_and_parameters() -> None:
    assert list(METHODS) == ["sal", "leace", "splince", "inlp", "ksal", "transport", "auto"]
    for name, method in METHODS.items():
        assert method.name == name
        assert method.summary
        assert "\n" not in method.summary
        method.Parameters()


def test_a_registry_imports_a_member_when_it_is_used() -> None:
    members: Registry[Any] = Registry({"there": "salcli.linalg.moments:CrossMoments", "lost": "salcli.nowhere:X"})
    assert list(members) == ["there", "lost"]
    assert members["there"] is CrossMoments
    with pytest.raises(ModuleNotFoundError):
        members["lost"]
    with pytest.raises(KeyError):
        members["unknown"]

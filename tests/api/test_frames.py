"""Frames and tensors: taken as rows and as labels, and returned. Packages that are not installed are skipped."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import salcli
from salcli.api.labels import columns_of, label_table
from salcli.commands.fit import fit
from salcli.data.source import ArrayReader, Source
from salcli.errors import LabelError, SalcliWarning, ShapeError
from salcli.formats.registry import open_source
from salcli.linalg.class_sums import Grouping
from salcli.linalg.moments import CrossMoments
from salcli.options import FitOptions, LabelOptions, ReadOptions
from salcli.streaming.engine import LOCAL
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent
from salcli.streaming.sums import fold
from tests.api.test_estimators import rows, same_eraser, write

NAMES = [f"dim{i}" for i in range(12)]


class Column(list):  # type: ignore[type-arg]
    """A series of a library that is not installed."""

    def __init__(self, name: str, values: list[Any]) -> None:
        super().__init__(values)
        self.name = name


class Frame:
    """A frame of a library that is not installed: columns by name."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Column:
        return Column(name, self._columns[name])


class NAType:
    """What pandas has for a missing value, which is neither equal nor unequal to anything."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


def test_columns_come_from_frames_series_dicts_and_arrays() -> None:
    frame = Frame(gender=["f", None, "m", ""], age=[1, 2.5, float("nan"), NAType()])
    found = label_table(frame, 4, "guarded", ("age",))
    gender, age = found.attributes
    assert (gender.name, gender.classes, gender.values.tolist()) == ("gender", ("f", "m"), [0, -1, 1, -1])
    np.testing.assert_array_equal(age.values, [1, 2.5, np.nan, np.nan])
    assert list(columns_of(Column("sex", ["f", "m"]), "guarded")) == ["sex"]
    assert list(columns_of(np.array([["a"], ["b"]]), "guarded")) == ["guarded"]
    assert label_table([True, False], 2, "y").attributes[0].classes == ("False", "True")
    assert label_table([NAType(), "a", "b"], 3, "y").attributes[0].values.tolist() == [-1, 0, 1]


def test_labels_that_are_none_are_refused() -> None:
    for wrong in (np.zeros((2, 2, 2)), np.zeros((2, 0)), np.array("a")):
        with pytest.raises(ShapeError, match="expected labels"):
            label_table(wrong, 2, "y")
    with pytest.raises(LabelError, match="0 columns"):
        label_table({}, 2, "y")
    with pytest.raises(LabelError, match="each name once"):
        label_table({1: ["a"], "1": ["b"]}, 1, "y")
    with pytest.raises(LabelError, match="not finite"):
        label_table([1.0, np.inf], 2, "y", True)
    with pytest.raises(LabelError, match="could not convert"):
        label_table(["a", "b"], 2, "y", True)
    with pytest.raises(LabelError, match="real"):
        label_table(np.array([1j, 2]), 2, "y", True)
    with pytest.raises(LabelError, match="task: 2 columns"):
        label_table([1, 2], 2, "y", task=np.zeros((2, 2)))


def test_arrays_are_added_up_in_the_groups_of_a_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(5000, 32)).astype(np.float32) + 5
    codes = np.arange(5000) % 3
    np.save(tmp_path / "x.npy", x)
    grouping = Grouping(least_elements=1, partitions=8)
    labels = label_table(codes, len(x), "y")
    sums = []
    for options in (None, ReadOptions(partition_elements=1 << 13)):
        if options is None:
            reader = ArrayReader(x)
            reader.partition = 256
            source = Source([reader])
        else:
            source = open_source(str(tmp_path / "x.npy"), options)
        with source:
            labelled = LabelledSource.of(source, labels, range(len(x)))
            found = fold(labelled, CrossMoments, LOCAL, Silent(), grouping=grouping, joining=1)
        assert found.most_grouped
        sums.append(found.comoment)
    np.testing.assert_array_equal(*sums)


def test_rounding_that_brings_the_attribute_back_is_warned_of() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 5)) + 100 + 0.2 * codes[:, None]
    with pytest.warns(SalcliWarning, match="rounded to float16.*float32"):
        salcli.SAL().fit(x.astype(np.float16), guarded=codes)
    salcli.SAL().fit(x, guarded=codes)


def test_frames_of_pandas(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    x, table = rows()
    frame, labels = pd.DataFrame(x, columns=NAMES), pd.DataFrame(table)
    labels.loc[::7, "gender"] = None
    found = salcli.SAL().fit(frame, guarded=labels)
    texts = {"gender": labels["gender"].fillna("").to_numpy(), "job": table["job"]}
    embeddings, csv, path = write(tmp_path, x, texts)
    same_eraser(fit(embeddings, csv, path, FitOptions(labels=LabelOptions(("gender", "job")))), found.artifact_)
    assert found.get_feature_names_out().tolist() == NAMES
    erased = found.set_output(transform="pandas").transform(frame)
    assert isinstance(erased, pd.DataFrame)
    assert list(erased.columns) == NAMES
    np.testing.assert_array_equal(erased.to_numpy(), found.set_output(transform="default").transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        found.transform(frame[NAMES[::-1]])
    for series in (labels["gender"], labels["gender"].astype("category"), labels["gender"].astype("string")):
        assert salcli.SAL().fit(frame, guarded=series).header_["attributes"][0]["classes"] == ["f", "m", "x"]


def test_frames_of_polars() -> None:
    pl = pytest.importorskip("polars")
    x, table = rows()
    gender = [None if i % 7 == 0 else value for i, value in enumerate(table["gender"].tolist())]
    frame = pl.DataFrame(dict(zip(NAMES, x.T, strict=True)))
    found = salcli.SAL().fit(frame, guarded=pl.DataFrame({"gender": gender}))
    expected = salcli.SAL().fit(x, guarded={"gender": gender})
    same_eraser(found.artifact_, expected.artifact_)
    erased = found.set_output(transform="polars").transform(frame)
    assert isinstance(erased, pl.DataFrame)
    assert erased.columns == NAMES


class Tensor:
    """A tensor on another device, as torch has them: numpy takes no part of it before `cpu`."""

    __module__ = "torch"

    def __init__(self, values: np.ndarray, device: str, dtype: str, *, is_attached: bool = False) -> None:
        self.values, self.device, self.dtype, self.is_attached = values, device, dtype, is_attached

    def is_floating_point(self) -> bool:
        return "float" in self.dtype

    def detach(self) -> "Tensor":
        return Tensor(self.values, self.device, self.dtype)

    def float(self) -> "Tensor":
        return Tensor(self.values.astype(np.float32), self.device, "float32")

    def cpu(self) -> "Tensor":
        return Tensor(self.values, "cpu", self.dtype, is_attached=self.is_attached)

    def numpy(self) -> np.ndarray:
        assert (self.device, self.is_attached) == ("cpu", False)
        assert self.dtype != "bfloat16"
        return self.values

    def to(self, *, device: str, dtype: str | None) -> "Tensor":
        return Tensor(self.values, device, dtype or self.dtype)


@pytest.mark.parametrize(
    ("dtype", "returned"),
    [("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("int64", "float64")],
)
def test_a_tensor_comes_back_to_its_device_with_its_type(
    dtype: str, returned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = ModuleType("torch")
    torch.bfloat16 = "bfloat16"  # type: ignore[attr-defined]
    torch.from_numpy = lambda values: Tensor(values, "cpu", values.dtype.name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    x, table = rows()
    x = np.round(x).astype("float32" if dtype == "bfloat16" else dtype)
    codes = Tensor(np.unique(table["gender"], return_inverse=True)[1], "cuda:1", "int64")
    with pytest.warns(SalcliWarning, match="bfloat16") if dtype == "bfloat16" else nullcontext():
        found = salcli.SAL().fit(Tensor(x, "cuda:1", dtype, is_attached=True), guarded=codes)
    erased = found.transform(Tensor(x, "cuda:1", dtype, is_attached=True))
    assert isinstance(erased, Tensor)
    assert (erased.device, erased.dtype, erased.is_attached) == ("cuda:1", returned, False)
    np.testing.assert_array_equal(erased.values, found.transform(x))


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, table = rows()
    codes = np.unique(table["gender"], return_inverse=True)[1]
    tensor = torch.from_numpy(x).requires_grad_()
    found = salcli.SAL().fit(tensor, guarded=torch.from_numpy(codes))
    expected = salcli.SAL().fit(x, guarded=codes)
    same_eraser(found.artifact_, expected.artifact_)
    erased = found.transform(tensor)
    assert isinstance(erased, torch.Tensor)
    assert (erased.dtype, erased.device, erased.requires_grad) == (tensor.dtype, tensor.device, False)
    np.testing.assert_array_equal(erased.numpy(), expected.transform(x))
    coarse = tensor.detach().to(torch.bfloat16)
    assert found.transform(coarse).dtype == torch.bfloat16
    with pytest.warns(SalcliWarning, match="rounded to bfloat16 may have the attribute again"):
        salcli.SAL().fit(coarse, guarded=codes)
    whole = (
        salcli.SAL()
        .fit(torch.arange(12).reshape(6, 2), guarded=list("aababb"))
        .transform(torch.arange(4).reshape(2, 2))
    )
    assert whole.dtype == torch.float64
    inverse = found.set_params(strength=0.5)
    torch.testing.assert_close(
        inverse.inverse_transform(inverse.transform(tensor)), tensor.detach(), rtol=1e-4, atol=1e-3
    )

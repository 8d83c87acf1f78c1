"""What stands beside the matrix of an HDF5 file: in the copy, links and references lead where they led."""

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from salcli.formats.hdf5_copy import Hdf5Copy

from .test_hdf5 import KEYS, X, file_with, rewritten


def led(file: h5py.File, references: Any) -> list[str | None]:
    return [str(file[reference].name) if reference else None for reference in np.ravel(references)]


def test_references_lead_to_the_new_objects(tmp_path: Path) -> None:
    def build(file: h5py.File) -> None:
        file["g/x"], file["words"], file["counts"] = X, KEYS, np.arange(3)
        nothing = h5py.Reference()
        file.attrs["main"] = file["g/x"].ref
        file["g"].attrs["all"] = np.array(
            [[file["words"].ref, nothing], [file["g"].ref, file["counts"].ref]], h5py.ref_dtype
        )
        file.create_dataset("list", (3,), h5py.ref_dtype)[:2] = [file["g/x"].ref, file["g"].ref]
        file.create_dataset("one", (), h5py.ref_dtype)[()] = file["words"].ref
        del file["counts"]

    with h5py.File(rewritten(file_with(tmp_path, build), tmp_path / "out.h5")) as file:
        assert led(file, file.attrs["main"]) == ["/g/x"]
        assert led(file, file["g"].attrs["all"]) == ["/words", None, "/g", None]
        assert file["g"].attrs["all"].shape == (2, 2)
        assert led(file, file["list"][:]) == ["/g/x", "/g", None]
        assert led(file, file["one"][()]) == ["/words"]
        np.testing.assert_array_equal(file[file.attrs["main"]][:], X * 2)


def test_a_reference_to_keys_that_are_written_anew_leads_to_those(tmp_path: Path) -> None:
    x = X.copy()
    x[4] = np.nan

    def build(file: h5py.File) -> None:
        file["x"], file["words"] = x, KEYS
        file.attrs["keys"] = file["words"].ref
        file["words"].attrs["language"] = "de"

    with pytest.warns(UserWarning, match="dropped"):
        target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5", allow_nonfinite=True)
    with h5py.File(target) as file:
        assert len(file[file.attrs["keys"]]) == len(KEYS) - 1
        assert file["words"].attrs["language"] == "de"


@pytest.mark.parametrize("d", [6, 4], ids=["as wide", "narrower"])
def test_scales_are_attached_as_they_were(tmp_path: Path, d: int) -> None:
    def build(file: h5py.File) -> None:
        file["x"], file["rows"], file["columns"], file["other"] = X, np.arange(25), np.arange(6), np.zeros(25)
        for name in ("rows", "columns"):
            file[name].make_scale(name)
        file["x"].dims[0].attach_scale(file["rows"])
        file["x"].dims[1].attach_scale(file["columns"])
        file["other"].dims[0].attach_scale(file["rows"])

    with warnings.catch_warnings(record=True) as found:
        target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5", d=d)
    assert ("scale of dimension 1 of /x is not" in str([each.message for each in found])) == (d != 6)
    with h5py.File(target) as file:
        scales = {
            (name, i): [scale.name for scale in dim.values()]
            for name in ("x", "other")
            for i, dim in enumerate(file[name].dims)
        }
        assert scales == {("x", 0): ["/rows"], ("x", 1): ["/columns"] if d == 6 else [], ("other", 0): ["/rows"]}
        assert file["rows"].is_scale
        assert file["columns"].is_scale
        back = [(file[reference].name, int(i)) for reference, i in file["rows"].attrs["REFERENCE_LIST"]]
        assert sorted(back) == [("/other", 0), ("/x", 0)]


def test_references_to_parts_of_datasets_are_told_of(tmp_path: Path) -> None:
    def build(file: h5py.File) -> None:
        file["x"] = X
        file.attrs["part"] = file["x"].regionref[1:3]

    with pytest.warns(UserWarning, match="attribute 'part' of / holds references inside values or to parts"):
        target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5")
    with h5py.File(target) as file:
        assert "part" not in file.attrs


def test_attributes_that_only_young_files_hold_are_kept(tmp_path: Path) -> None:
    big = np.arange(50_000.0)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["x"], file["other"] = X, np.arange(3)
        for name in ("x", "other"):
            file[name].attrs["big"] = big
    with h5py.File(rewritten(tmp_path / "v.h5", tmp_path / "out.h5")) as file:
        assert file["x"].attrs["big"].tolist() == file["other"].attrs["big"].tolist() == big.tolist()


def test_a_copy_is_for_the_same_readers(tmp_path: Path) -> None:
    for libver, superblock in (("earliest", 0), ("v108", 2), ("v110", 3)):
        with h5py.File(tmp_path / "v.h5", "w", libver=libver) as file:
            file["x"] = X
        assert (tmp_path / "v.h5").read_bytes()[8] == superblock
        assert rewritten(tmp_path / "v.h5", tmp_path / "out.h5").read_bytes()[8] == superblock


def test_what_is_only_called_like_scales_is_copied_as_it_is(tmp_path: Path) -> None:
    """h5py's own reader of scales ends the process on some of these."""

    def build(file: h5py.File) -> None:
        file["x"], file["q"] = X, np.arange(3)
        file["x"].attrs["DIMENSION_LIST"] = 3
        file["q"].attrs["DIMENSION_LIST"] = "x"
        file["q"].attrs["REFERENCE_LIST"] = 7
        file.attrs["DIMENSION_LIST"] = np.arange(2)
        file.attrs["REFERENCE_LIST"] = file["x"].ref

    with h5py.File(rewritten(file_with(tmp_path, build), tmp_path / "out.h5")) as file:
        held = [file[name].attrs["DIMENSION_LIST"] for name in ("x", "q", "/")]
        assert (held[0], held[1], held[2].tolist()) == (3, "x", [0, 1])
        assert file["q"].attrs["REFERENCE_LIST"] == 7
        assert led(file, file.attrs["REFERENCE_LIST"]) == ["/x"]


def test_references_that_hold_nothing_or_lead_nowhere_are_no_damage(tmp_path: Path) -> None:
    def build(file: h5py.File) -> None:
        file["x"], file["s"] = X, np.arange(25)
        file["x"].dims[0].attach_scale(file["s"])
        del file["s"]
        file.attrs["none"] = h5py.Empty(h5py.ref_dtype)
        file.create_dataset("none", data=h5py.Empty(h5py.ref_dtype))

    with pytest.warns(UserWarning, match="scale of dimension 0 of /x"):
        target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5")
    with h5py.File(target) as file:
        assert isinstance(file.attrs["none"], h5py.Empty)
        assert file["none"].shape is None


def test_many_references_are_moved_part_by_part(tmp_path: Path) -> None:
    def build(file: h5py.File) -> None:
        file["x"], file["words"] = X, KEYS
        file.create_dataset("list", (11, 2), h5py.ref_dtype)[:] = [[file["x"].ref, file["words"].ref]] * 11

    with h5py.File(file_with(tmp_path, build)) as source, h5py.File(tmp_path / "out.h5", "w") as file:
        copy = Hdf5Copy("x.h5", source, file, set(), references_at_once=6)
        copy.groups()
        copy.finish()
        assert led(file, file["list"][:]) == ["/x", "/words"] * 11


@pytest.mark.parametrize("shape", [(), (2,)], ids=["one", "several"])
def test_references_inside_values_are_told_of(tmp_path: Path, shape: tuple[int, ...]) -> None:
    held = np.dtype([("n", "<i4"), ("to", h5py.ref_dtype, shape)])

    def build(file: h5py.File) -> None:
        file["x"] = X
        file["type"] = held
        file.create_dataset("list", (3,), held)

    with pytest.warns(UserWarning, match="dataset /list holds references inside values"):
        target = rewritten(file_with(tmp_path, build), tmp_path / "out.h5")
    with h5py.File(target) as file:
        assert isinstance(file["type"], h5py.Datatype)
        assert file["type"].dtype == held
        assert file["list"].shape == (3,)

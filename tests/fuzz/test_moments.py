"""Moments in which anything was changed are refused in one line, or can be fitted to."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.commands.fit_moments import fit_moments
from salcli.commands.inspect import inspect
from salcli.commands.moments import moments
from salcli.erasers.leace import LEACEParameters
from salcli.options import FitOptions, InspectOptions, LabelOptions, MomentsOptions

from ..formats.strategies import file_of
from .readers import refused
from .seeds import npy, zipped
from .strategies import mutated
from .test_artifacts import ODD, VALUES, changed, places

pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")


@cache
def members(seed: int = 0) -> dict[str, bytes]:
    """Return the arrays of the moments of a small shard as `.npy` bytes."""
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as folder:
        x, y, out = (str(Path(folder) / name) for name in ("x.npy", "y.csv", "m.npz"))
        np.save(x, rng.normal(size=(12, 3)))
        Path(y).write_text("g,age\n" + "".join(f"{'ab'[i % 2]},{i * i}\n" for i in range(12)))
        labels = LabelOptions(("g",), ("age",))
        moments(x, y, out, MomentsOptions(labels, method="leace"))
        with np.load(out) as file:
            return {name: npy(file[name]) for name in file.files}


def bytes_of(**changes: bytes) -> bytes:
    return zipped((f"{name}.npy", data) for name, data in (members() | changes).items())


def header() -> dict[str, Any]:
    with file_of(bytes_of(), "m.npz") as path, np.load(path) as file:
        return json.loads(str(file["header"]))  # type: ignore[no-any-return]


def survive(data: bytes) -> bool:
    """Return whether moments are fitted to; otherwise they are refused in one line that names the file."""
    with file_of(data, "m.npz") as path, TemporaryDirectory() as folder:
        other = Path(folder) / "other.npz"
        other.write_bytes(zipped((f"{name}.npy", data) for name, data in members(1).items()))
        options = FitOptions(method="leace", parameters=LEACEParameters())
        refusals = [
            refused(lambda: fit_moments([str(other), str(path)], str(Path(folder) / "e.npz"), options)),
            refused(lambda: inspect(str(path), InspectOptions())),
        ]
        assert all(each is None or ("m.npz" in each and "\n" not in each) for each in refusals)
        return refusals[0] is None


def test_the_seed_is_fitted_to() -> None:
    assert survive(bytes_of())


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["drop", *VALUES]))
def test_any_field_of_the_header_may_be_anything(data: st.DataObject, value: Any) -> None:
    at = data.draw(st.sampled_from(list(places(header()))[1:]))
    text = json.dumps(changed(header(), at, value, drops=value == "drop"))
    survive(bytes_of(header=npy(np.array(text))))


@pytest.mark.parametrize("name", sorted({"n", "mean_x", "mean_z", "comoment", "scatter", "root_x", "root_z"}))
def test_any_array_may_be_any_other(name: str) -> None:
    for array in ODD:
        survive(bytes_of(**{name: npy(array)}))


@settings(max_examples=50)
@given(st.deferred(lambda: mutated([bytes_of()])))
def test_a_change_anywhere_is_refused_or_harmless(data: bytes) -> None:
    survive(data)

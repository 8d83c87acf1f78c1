"""An artifact in which anything was changed is refused in one line, or can be used for all that it is read for."""

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from salcli.erasers.artifact import read_artifact
from salcli.errors import FormatError

from ..formats.strategies import file_of
from .forked import Commands
from .readers import ARTIFACT_MEMBERS, strictly, survive, use_artifact
from .seeds import PART, artifact_members, npy, zipped
from .strategies import mutated

NAN = json.loads("NaN")
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        1.5,
        10**30,
        10**400,
        -(2**63),
        NAN,
        float("inf"),
        1e308,
        "",
        "x",
        "train",
        "\ud800",
    ),
    *(
        "\x1b[31m",
        "x" * 100_000,
        [],
        {},
        [1],
        ["F", "F"],
        ["F", "M"],
        [[[]]],
        {"x": 1},
        {"embeddings": 1},
        [None],
        [{}],
    ),
)
DEEP: Any = 0
for _ in range(300):
    DEEP = [DEEP]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the way to everything in a header."""
    yield at
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def changed(header: dict[str, Any], at: tuple[Any, ...], value: Any, *, drops: bool = False) -> Any:
    copy = json.loads(json.dumps(header))
    if not at:
        return value
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    if drops:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return copy


def with_header(which: int, text: str) -> bytes:
    members = artifact_members(which) | {"header": npy(np.array(text))}
    return zipped((f"{name}.npy", data) for name, data in members.items())


def header_of(which: int) -> dict[str, Any]:
    with file_of(with_header(which, header_text(which)), "e.npz") as path:
        return read_artifact(str(path)).header


def header_text(which: int) -> str:
    arrays = np.load(io.BytesIO(artifact_members(which)["header"]))
    return str(arrays)


@pytest.mark.parametrize("which", range(3))
def test_the_seeds_are_usable(which: int) -> None:
    with file_of(with_header(which, header_text(which)), "e.npz") as path, strictly():
        use_artifact(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("value", [*VALUES, DEEP, "drop"], ids=lambda value: repr(value)[:20])
def test_any_field_of_the_header_may_be_anything(which: int, value: Any) -> None:
    header = header_of(which)
    n_refused = 0
    for at in places(header):
        if value == "drop" and not at:
            continue
        other = changed(header, at, value, drops=value == "drop")
        n_refused += not survive("artifact", with_header(which, json.dumps(other)))
    assert n_refused >= 15  # fields of which a type or their presence is required


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', "[" * 100_000, '{"a": NaN}', "9" * 5000, '"\\ud800"'])
def test_a_header_that_is_no_record_is_refused(text: str) -> None:
    with file_of(with_header(0, text), "e.npz") as path, pytest.raises(FormatError, match=r"e\.npz: "):
        read_artifact(str(path))


ODD = (
    *(np.float64(1), np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.full((3, 1), np.nan), np.eye(3)[:, :1] * 2),
    *(np.full(3, np.inf), np.full((3, 1), 1e308), np.eye(3)[:, :1].astype("f4"), np.eye(3)[:, :1].astype(">f8")),
    *(np.asfortranarray(np.eye(3)), np.eye(3, dtype=int), np.array("x"), np.array(["x"] * 3), np.zeros((1, 1, 1))),
    *(np.zeros((4, 3)), np.zeros((4, 4)), np.ones(1), np.ones((2, 2)), np.zeros((3, 10**5)), np.array([b"x"])),
)


@pytest.mark.parametrize("which", range(3))
def test_any_array_may_be_any_other(which: int) -> None:
    members, n_read = artifact_members(which), 0
    for name in members:
        for array in ODD:
            held = members | {name: npy(array)}
            n_read += survive("artifact", zipped((f"{member}.npy", data) for member, data in held.items()))
    assert n_read < len(members) * len(ODD) / 3


SEEDS = [PART.join(artifact_members(which).get(name, b"") for name in ARTIFACT_MEMBERS) for which in range(3)]


@settings(max_examples=250)
@given(mutated(SEEDS))
def test_a_change_anywhere_is_refused_or_harmless(data: bytes) -> None:
    survive("artifact", data)


def test_the_seed_of_mutations_is_read() -> None:
    assert all(survive("artifact", seed) for seed in SEEDS)


@pytest.mark.slow
def test_a_changed_header_ends_the_command_in_one_line(commands: Commands, tmp_path: Any) -> None:
    header = header_of(0)
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    for at in list(places(header))[1::3]:
        data = with_header(0, json.dumps(changed(header, at, [NAN])))
        (tmp_path / "e.npz").write_bytes(data)
        args = ["apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", "--quiet"]
        commands.refuse(*args, says="e.npz: ")
        assert not (tmp_path / "o.npy").exists()


@pytest.mark.slow
def test_a_number_that_overflows_is_refused() -> None:
    text = header_text(0).replace('"given": 1', '"given": 1e999')
    assert "1e999" in text
    assert not survive("artifact", with_header(0, text))

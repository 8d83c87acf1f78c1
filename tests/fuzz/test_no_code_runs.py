"""Data is only data: no pickle is opened, no other file is followed, no member of an archive names a place."""

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from .forked import Commands
from .seeds import KEYS, X, artifact_members, npy, zipped


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def object_npy(mark: Path, *, shape: tuple[int, ...] = (1, 1)) -> bytes:
    buffer = io.BytesIO()
    array = np.empty(shape, dtype=object)
    array.flat[0] = Payload(mark)
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def pickled(protocol: int) -> Callable[[Path], bytes]:
    return lambda mark: pickle.dumps(Payload(mark), protocol=protocol)


def in_artifact(name: str) -> Callable[[Path], bytes]:
    return lambda mark: zipped(
        (f"{member}.npy", data) for member, data in (artifact_members() | {name: object_npy(mark, shape=())}).items()
    )


CODE: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
    **{f"a pickle of protocol {p}": ("x.kv", pickled(p), "could run code when loaded") for p in range(6)},
    "a pickled list": ("x.joblib", lambda mark: pickle.dumps([Payload(mark)]), "could run code when loaded"),
    "an old pickled list": ("x.pkl", lambda mark: pickle.dumps([Payload(mark)], 0), "could run code when loaded"),
    "a packed pickle": ("x.pkl.gz", lambda mark: gzip.compress(pickle.dumps(Payload(mark))), "could run code"),
    "objects as npy": ("x.npy", object_npy, "an object array (a Python pickle inside)"),
    "objects as npz": ("x.npz", lambda mark: zipped([("x.npy", object_npy(mark))]), "an object array"),
    "keys that are objects": (
        "x.npz",
        lambda mark: zipped([("x.npy", npy(X)), ("keys.npy", object_npy(mark, shape=(4,)))]),
        "objects are never unpickled",
    ),
    "an npz with a pickle under an array's name": (
        "x.npz",
        lambda mark: zipped([("x.npy", pickle.dumps(Payload(mark)))]),
        "damaged npy header",
    ),
    **{
        f"an artifact whose {name} is an object": ("e.npz", in_artifact(name), "which is never opened")
        for name in ("header", "left", "singular_values")
    },
}


@pytest.mark.parametrize("case", CODE)
def test_no_code_of_a_file_is_run(commands: Commands, tmp_path: Path, case: str) -> None:
    name, make, says = CODE[case]
    mark = tmp_path / "mark"
    (tmp_path / name).write_bytes(make(mark))
    commands.refuse("inspect", tmp_path / name, says=says)
    np.save(tmp_path / "rows.npy", np.ones((2, 3)))
    commands.refuse("apply", tmp_path / name, tmp_path / "rows.npy", "-o", tmp_path / "o.npy", "--quiet", says=name)
    assert not mark.exists()
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_the_payload_does_run_when_it_is_unpickled(tmp_path: Path, protocol: int) -> None:
    pickle.loads(pickled(protocol)(tmp_path / "mark"))
    assert (tmp_path / "mark").is_dir()


# --- HDF5 ---------------------------------------------------------------------------------------------------------


def view_of(path: Path, *, dtype: Any = "f4", shape: tuple[int, ...] = (4, 3), grows: bool = False) -> Any:
    most = (None, *shape[1:]) if grows else shape
    layout, source = h5py.VirtualLayout(shape, dtype, most), h5py.VirtualSource(str(path), "x", shape, maxshape=most)
    rows = slice(None, h5py.h5s.UNLIMITED) if grows else slice(None)
    layout[rows, ...] = source[rows, ...]
    return layout


def _soft_to_external(file: h5py.File, other: Path) -> None:
    file["away"] = h5py.ExternalLink(str(other), "/")
    file["x"] = h5py.SoftLink("/away/x")


def _external_keys(file: h5py.File, other: Path) -> None:
    file["x"] = X
    file.create_dataset("keys", (4,), "S8", external=str(other))


def _view_of_a_view(file: h5py.File, other: Path) -> None:
    file.create_virtual_dataset("far", view_of(other))
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:] = h5py.VirtualSource(".", "/far", (4, 3))
    file.create_virtual_dataset("x", layout)


AWAY: dict[str, Callable[[h5py.File, Path], Any]] = {
    "a link to another file": lambda f, o: f.__setitem__("x", h5py.ExternalLink(str(o), "/x")),
    "a group in another file": lambda f, o: f.__setitem__("g", h5py.ExternalLink(str(o), "/")),
    "a link to a link to another file": _soft_to_external,
    "rows in another file": lambda f, o: f.create_dataset("x", (4, 3), "f4", external=str(o)),
    "a view of another file": lambda f, o: f.create_virtual_dataset("x", view_of(o)),
    "a growing view of another file": lambda f, o: f.create_virtual_dataset("x", view_of(o, grows=True)),
    "a view of a view": _view_of_a_view,
    "keys in another file": _external_keys,
    "keys in a growing view": lambda f, o: (
        f.__setitem__("x", X),
        f.create_virtual_dataset("keys", view_of(o, dtype="S8", shape=(4,), grows=True)),
    ),
}
CHOICES: tuple[tuple[str, ...], ...] = ((), ("--dataset", "x"), ("--dataset", "g/x"), ("--keys-dataset", "keys"))


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A pipe that nobody writes to: whoever opens it stands still until the alarm."""
    os.mkfifo(tmp_path / "trap.h5")
    return tmp_path / "trap.h5"


@pytest.mark.parametrize("case", AWAY)
def test_no_other_file_is_opened(commands: Commands, tmp_path: Path, trap: Path, case: str) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        AWAY[case](file, trap)
    for chosen in CHOICES:
        commands.refuse("inspect", tmp_path / "v.h5", *chosen, says="v.h5")


def _beside(file: h5py.File, other: Path) -> None:
    file["x"] = X
    file["link"] = h5py.ExternalLink(str(other), "/x")
    file["g/link"] = h5py.ExternalLink(str(other), "/x")
    file["loop"] = h5py.SoftLink("/loop")
    file["g/up"] = h5py.SoftLink("/g/up/up")
    file.create_virtual_dataset("view", view_of(other))
    file.create_virtual_dataset("g/view", view_of(other, grows=True))


def test_what_stands_beside_the_matrix_is_not_followed_either(commands: Commands, tmp_path: Path, trap: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        _beside(file, trap)
    (tmp_path / "e.npz").write_bytes(zipped((f"{name}.npy", data) for name, data in artifact_members().items()))
    done = commands.run("inspect", tmp_path / "v.h5", "--json")
    assert done.code == 0, done
    done = commands.run("apply", tmp_path / "e.npz", tmp_path / "v.h5", "-o", tmp_path / "o.h5", "--quiet")
    assert done.code == 0, done
    with h5py.File(tmp_path / "o.h5") as file:
        assert file["x"].shape == X.shape
        assert isinstance(file.get("g/link", getlink=True), h5py.ExternalLink)


def test_links_in_a_circle_end(commands: Commands, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["x"] = h5py.SoftLink("/y")
        file["y"] = h5py.SoftLink("/x")
        file["g/up"] = file["/"]
    commands.refuse("inspect", tmp_path / "v.h5", says="no 2-D float dataset")
    commands.refuse("inspect", tmp_path / "v.h5", "--dataset", "x", says="no dataset")
    commands.refuse("inspect", tmp_path / "v.h5", "--dataset", "/g/up/g/up/g/x", says="no dataset")


# --- archives -----------------------------------------------------------------------------------------------------


def patched(archive: bytes, *, flag: int = 0, method: int | None = None) -> bytes:
    """Set flags or the compression method of every member, in both of its headers."""
    data = bytearray(archive)
    for mark, at_flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(mark, start + 1)) >= 0:
            data[start + at_flag] |= flag
            if method is not None:
                data[start + at_flag + 2 : start + at_flag + 4] = method.to_bytes(2, "little")
    return bytes(data)


WHOLE = [("x.npy", npy(X)), ("keys.npy", npy(np.array(KEYS)))]
with pytest.warns(UserWarning, match="Duplicate name"):
    TWICE = zipped([*WHOLE, ("x.npy", npy(X))])
ARCHIVES: dict[str, tuple[bytes, str]] = {
    "a path out of the archive": (zipped([*WHOLE, ("../escaped.npy", npy(X[0]))]), "a path out of the archive"),
    "a path out in the middle": (zipped([*WHOLE, ("a/../../escaped.npy", npy(X[0]))]), "a path out of the archive"),
    "a path with backslashes": (zipped([*WHOLE, ("..\\escaped.npy", npy(X[0]))]), "a path out of the archive"),
    "an absolute path": (zipped([("/escaped.npy", npy(X))]), "a path out of the archive"),
    "the same name twice": (TWICE, "several members called x.npy"),
    "encrypted members": (patched(zipped(WHOLE), flag=1), "save it without a password"),
    "an unknown method": (patched(zipped(WHOLE), method=99), "compressed by method 99"),
    "a method that takes any memory": (patched(zipped(WHOLE, zipfile.ZIP_LZMA)), "compressed by method 14"),
}


@pytest.mark.parametrize("case", ARCHIVES)
@pytest.mark.parametrize("named", [False, True])
def test_an_odd_archive_is_refused_and_names_no_place(
    commands: Commands, tmp_path: Path, case: str, named: bool
) -> None:
    data, says = ARCHIVES[case]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.npz").write_bytes(data)
    commands.refuse("inspect", tmp_path / "in/x.npz", *(("--dataset", "x") if named else ()), says=says)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "x.npz"]


@pytest.mark.parametrize("case", ["encrypted members", "an unknown method", "a path out of the archive"])
def test_an_odd_archive_is_no_eraser(commands: Commands, tmp_path: Path, case: str) -> None:
    whole = [(f"{name}.npy", data) for name, data in artifact_members().items()]
    odd = {
        "encrypted members": (patched(zipped(whole), flag=1), "save it without a password"),
        "an unknown method": (patched(zipped(whole), method=99), "method 99"),
        "a path out of the archive": (zipped([*whole, ("../x.npy", b"")]), "a path out"),
    }
    (tmp_path / "e.npz").write_bytes(odd[case][0])
    commands.refuse("inspect", tmp_path / "e.npz", says=odd[case][1])


@pytest.mark.slow
def test_a_damaged_array_beside_the_matrix_stops_apply_in_one_line(commands: Commands, tmp_path: Path) -> None:
    data = bytearray(zipped([("x.npy", npy(X)), ("more.npy", npy(np.arange(300)))]))
    data[len(data) // 2] ^= 1  # within `more`
    (tmp_path / "x.npz").write_bytes(data)
    (tmp_path / "e.npz").write_bytes(zipped((f"{name}.npy", held) for name, held in artifact_members().items()))
    commands.refuse(
        "apply",
        tmp_path / "e.npz",
        tmp_path / "x.npz",
        "-o",
        tmp_path / "o.npz",
        "--quiet",
        says="x.npz[more]: damaged",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.npz", "x.npz"]

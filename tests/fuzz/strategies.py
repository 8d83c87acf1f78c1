"""Files built byte by byte: mutations of valid ones, and structures that no tool would write."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

from .seeds import KEYS, X, raw_npy

INTERESTING = (
    b"\x00",
    b"\xff",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"9",
    b"-",
    b"nan",
    b'"',
    b",",
    b"\xef\xbb\xbf",
    b"\xff\xff\xff\x7f",
)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes], most: int = 4) -> bytes:
    """Change a valid file in a few places: flip, drop, insert, repeat, cut."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, most))):
        at, length = draw(st.integers(0, max(0, len(data) - 1))), draw(st.integers(1, 16))
        change = draw(st.sampled_from(["flip", "set", "insert", "drop", "repeat", "cut"]))
        if change == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "set" and data:
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif change == "insert":
            data[at:at] = draw(st.sampled_from(INTERESTING))
        elif change == "drop":
            del data[at : at + length]
        elif change == "repeat":
            data[at:at] = data[at : at + length]
        else:
            del data[at:]
    return bytes(data)


DESCRIPTIONS = (
    *(
        "'<f4'",
        "'<f4'",
        "'>f4'",
        "'<f8'",
        "'>f8'",
        "'<f2'",
        "'=f4'",
        "'f4'",
        "'<f16'",
        "'|f4'",
        "'d'",
        "'<i4'",
        "'|b1'",
    ),
    *(
        "'<c8'",
        "'|O'",
        "'<U3'",
        "'|S5'",
        "'|V2'",
        "'<M8[ns]'",
        "'<M8[x]'",
        "'a4'",
        "'<f3'",
        "'f4,f4'",
        "'3f4'",
        "'<f4 '",
    ),
    *(
        "[('x', '<f4')]",
        "[('x', '<f4', (2,))]",
        "('<f4', (2,))",
        "[]",
        "'\\x00'",
        "'float32'",
        "'<f4000000000'",
        "None",
        "4",
    ),
)
SHAPES = (
    *(
        "(4, 3)",
        "(4, 3)",
        "(4, 3)",
        "(3, 4)",
        "(4L, 3L)",
        "(12,)",
        "()",
        "(2, 2, 3)",
        "(0, 3)",
        "(4, 0)",
        "(-4, -3)",
        "(4.0, 3)",
    ),
    *(
        "(True, 12)",
        "[4, 3]",
        "(1 << 2, 3)",
        "(99999999999, 3)",
        "(4, 99999999999)",
        "(2147483648, 2147483648)",
        "(0x4, 3)",
    ),
    *(
        f"({10**30}, 3)",
        "(" + "1, " * 70 + ")",
        "(None, 3)",
        "4, 3",
        "(4, 3",
        "(1_2, 1)",
        "('4', 3)",
        f"({'9' * 5000}, 1)",
    ),
)
ORDERS = ("False", "False", "False", "True", "True", "0", "1", "None", "'False'", "not True")


@st.composite
def npy_files(draw: st.DrawFn) -> bytes:
    """Headers of every version with true and false claims, before a body that may not fit."""
    fields = {
        "descr": draw(st.sampled_from(DESCRIPTIONS)),
        "fortran_order": draw(st.sampled_from(ORDERS)),
        "shape": draw(st.sampled_from(SHAPES)),
    }
    for name in draw(st.sampled_from([[], [], [], [], ["descr"], ["shape"], ["fortran_order"]])):
        del fields[name]
    fields |= draw(st.sampled_from([{}, {}, {}, {}, {"more": "1"}, {"descr ": "'<f4'"}]))
    text = "{" + ", ".join(f"'{name}': {value}" for name, value in draw(st.permutations(list(fields.items())))) + ", }"
    text = text.ljust(draw(st.sampled_from([0, 0, 117, 300, 11_000])))
    text += draw(st.sampled_from(["\n", "\n", "\n", "", "\x00", "\n\n", "#", "é"]))
    header = text.encode("latin-1")
    version = draw(st.sampled_from([(1, 0), (1, 0), (2, 0), (3, 0), (0, 0), (4, 0), (1, 1), (255, 255)]))
    length = draw(
        st.sampled_from([None, None, None, None, None, 0, 5, len(header) + 1, len(header) - 1, 65_535, 2**32 - 1])
    )
    width = draw(st.sampled_from([4, 4, 8, 2, 16]))
    extra = draw(st.sampled_from([0, 0, 0, 0, -1, 1, -12 * width, 4]))
    value = draw(st.sampled_from([0.5, -2.0, 3.25, float("nan"), float("inf")]))
    kind: Any = {2: "<f2", 4: "<f4", 8: ">f8", 16: "<f8"}[width]
    values = np.arange(12) + np.array([value] + [0] * 11)
    body = (values.astype(kind).tobytes() + bytes(12 * width))[: max(0, 12 * width + extra)]
    return raw_npy(header, body, version=version, length=length)


# --- HDF5 ---------------------------------------------------------------------------------------------------------


def _opaque(group: h5py.Group, name: str) -> None:
    space = h5py.h5s.create_simple((4, 3))
    h5py.h5d.create(group.id, name.encode(), h5py.h5t.STD_B32LE, space)


def _odd_float(group: h5py.Group, name: str) -> None:
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 10, 5, 0, 10)
    kind.set_size(2)
    h5py.h5d.create(group.id, name.encode(), kind, h5py.h5s.create_simple((4, 3)))


PAIR = np.zeros((4, 3), [("a", "f4"), ("b", "i4")])
ITEMS: dict[str, Callable[[h5py.Group, str], Any]] = {
    "matrix": lambda g, n: g.create_dataset(n, data=X),
    "packed matrix": lambda g, n: g.create_dataset(n, data=X, chunks=(2, 3), compression="gzip", shuffle=True),
    "double matrix": lambda g, n: g.create_dataset(n, data=X.astype(">f8")),
    "long double matrix": lambda g, n: g.create_dataset(n, data=X.astype(np.longdouble)),
    "growing matrix": lambda g, n: g.create_dataset(n, data=X, maxshape=(None, None)),
    "keys": lambda g, n: g.create_dataset(n, data=KEYS),
    "bytes": lambda g, n: g.create_dataset(n, data=np.array([b"a", b"\xff", b"c", b"d"])),
    "unwritten": lambda g, n: g.create_dataset(n, (4, 3), "f4"),
    "unwritten chunks": lambda g, n: g.create_dataset(n, (10**12, 3), "f4", chunks=(1000, 3)),
    "empty": lambda g, n: g.create_dataset(n, (0, 3), "f4"),
    "null": lambda g, n: g.create_dataset(n, data=h5py.Empty("f4")),
    "scalar": lambda g, n: g.create_dataset(n, data=1.5),
    "list": lambda g, n: g.create_dataset(n, data=np.ones(4, "f4")),
    "whole numbers": lambda g, n: g.create_dataset(n, data=X.astype(int)),
    "complex": lambda g, n: g.create_dataset(n, data=X.astype("c8")),
    "pairs": lambda g, n: g.create_dataset(n, data=PAIR),
    "bits": _opaque,
    "odd floats": _odd_float,
    "ragged": lambda g, n: g.create_dataset(n, (4,), h5py.vlen_dtype(np.float32)),
    "references": lambda g, n: g.create_dataset(n, (4, 3), h5py.ref_dtype),
    "flags": lambda g, n: g.create_dataset(n, data=X.astype(bool)),
    "group": lambda g, n: g.create_group(n),
    "type": lambda g, n: g.__setitem__(n, np.dtype("f4")),
    "circle": lambda g, n: g.__setitem__(n, h5py.SoftLink(f"{g.name.rstrip('/')}/{n}")),
    "dangling": lambda g, n: g.__setitem__(n, h5py.SoftLink("/nowhere")),
    "up": lambda g, n: g.__setitem__(n, g.file["/"]),
    "away": lambda g, n: g.__setitem__(n, h5py.ExternalLink("nowhere.h5", "/x")),
    "own view": lambda g, n: g.create_virtual_dataset(n, h5py.VirtualLayout((4, 3), "f4")),
}
MATRICES = ("matrix", "packed matrix", "double matrix", "long double matrix", "growing matrix")
NAMES = ("x", "keys", "words", "é", "a b", "\x1b[31m", "n" * 300, "..", "y")


@st.composite
def hdf5_structures(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """Give a file, and the kind of everything in it."""
    held, kinds = io.BytesIO(), []
    with h5py.File(held, "w", libver=draw(st.sampled_from(["earliest", "latest"]))) as file:
        groups: list[h5py.Group] = [file]
        names = draw(st.lists(st.sampled_from(NAMES[:-2] + NAMES[-1:]), unique=True, min_size=1, max_size=5))
        for name in names:
            kind = draw(st.sampled_from([*ITEMS, *MATRICES]))
            group = draw(st.sampled_from(groups))
            ITEMS[kind](group, name)
            kinds.append(kind)
            if kind == "group":
                groups.append(group[name])
    return held.getvalue(), kinds

"""Small valid files of every kind that is read, built in code: what mutations start from."""

import bz2
import gzip
import io
import json
import lzma
import struct
import zipfile
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.linear import LinearEraser
from salcli.formats.artifact import SCHEMA
from salcli.linalg.kernels import Kernel, NystromMap

BOM = b"\xef\xbb\xbf"
X = np.arange(12, dtype=np.float32).reshape(4, 3) / 4
KEYS = ("a", "b c", "é", "7")
PART = b"\x00\xff\x00\xff"  # between the members of an archive that is zipped after it was mutated

TEXT = (
    b"4 3\na 1 2 3\nb c 4 5 6\n\xc3\xa9 .5 -1e-3 +7\n7 0 0 0\n",
    b"a 1 2\r\nb 3 4\r\nc\t5 6 \r\n",
    BOM + b"a 1 2\nb nan 4\n\xff inf 0\n",
    b"2 1\nword 1 1\nb 1_0\n",
    b"the 0.1 0.2 0.3 \nof 0.4 0.5 0.6 \n",
)
BINARY = (
    b"4 3\n" + b"".join(b"w%d " % i + row.tobytes() for i, row in enumerate(X)),
    b"2 1\na \x00\x00\x80?\nb \x00\x00\x00@\n",
    BOM + b"1 2\na " + bytes(8),
)
LABELS = (
    b"word,label\na,F\nb c,M\n\xc3\xa9,F\n7,M\n",
    b'key;y;split\r\n"a;b";1;train\r\n"say ""x""";2;dev\r\nc;;test\r\nd;1;test\r\n',
    b"label\nF\n\nM\nF\n",
    BOM + b"id\tage\ta\n1\t3.5\tx\n2\t\ty\n3\t-1e5\tx\n",
)
SIMILARITY = (
    b"word1\tword2\tscore\na\tb\t3.5\nc\td\t1\n",
    b"# comment\na b 1\nc d 2\n",
    b"n,word1,word2,score\n1,a,b,0.5\n2,c,d,9\n",
)


def npy(array: NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    """Give an array's `.npy` bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version, allow_pickle=False)
    return buffer.getvalue()


def raw_npy(header: bytes, body: bytes = b"", *, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """Put a header of any text (and any claimed length) before any bytes."""
    width = 2 if version[0] == 1 else 4
    size = min(len(header) if length is None else length, (1 << 8 * width) - 1)
    return b"\x93NUMPY" + bytes(version) + size.to_bytes(width, "little") + header + body


def zipped(members: Iterable[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED, level: int = 6) -> bytes:
    """Zip members in order; names may repeat."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=compression, compresslevel=level)
    return buffer.getvalue()


def artifact_header(**more: Any) -> dict[str, Any]:
    """Give the header of a valid linear eraser."""
    return {
        "schema": SCHEMA, "method": "sal", "parameters": {"k": 1}, "eraser": "linear", "is_orthogonal": True,
        "d": 3, "k": 1, "rank": 1, "is_centred": True, "k_rule": {"given": 1},
        "attributes": [{"name": "y", "classes": ["F", "M"], "counts": [2, 2], "sha256": "0"}],
        "rows": {
            "rule": {"fit_split": None, "holdout": 0.0, "sample": None, "seed": 0}, "n_fitted": 4, "sha256": "0",
            "joined_by": "key", "key_column": "word", "split_column": None,
        },
        "inputs": {"embeddings": {"name": "x.npy", "sha256": "0", "n": 4}, "labels": {"name": "y.csv", "sha256": "0"}},
        "versions": {"salcli": "0.1.0", "numpy": "2"},
        **more,
    }  # fmt: skip


def _artifacts() -> tuple[Artifact, ...]:
    u, dual = np.eye(3)[:, :1], np.ones((4, 1))
    linear = LinearEraser(np.zeros(3), u, u)
    poly = Kernel("poly", 1.0, 2, 1.0)
    features = NystromMap(poly, X, NystromMap.of(poly, X).whitener[:, :3])
    kernel = {"landmarks": {"n": 4, "rule": "sample", "n_features": 3}, "method": "ksal"}
    exact = {"landmarks": {"n": 4, "rule": "all"}, "method": "ksal"}
    erasers = (
        (linear, artifact_header()),
        (
            KernelEraser(Kernel("rbf", 0.5), X, dual, np.zeros(1)),
            artifact_header(kernel={"name": "rbf", "gamma": 0.5}, eraser="inner products", **exact),
        ),
        (
            FeatureEraser(features, linear),
            artifact_header(kernel=features.kernel.to_dict(), eraser="features", **kernel),
        ),
    )
    return tuple(Artifact(eraser, np.array([1.0, 0.0]), header) for eraser, header in erasers)


def artifact_members(which: int = 0) -> dict[str, bytes]:
    """Give the arrays of a valid artifact (linear, by inner products, by features) as `.npy` bytes."""
    held = _artifacts()[which]
    arrays = {"header": np.array(json.dumps(held.header)), "singular_values": held.singular_values}
    return {name: npy(np.asarray(array)) for name, array in (arrays | held.eraser.arrays()).items()}


def hdf5(**arrays: Any) -> bytes:
    """Give an HDF5 file with these datasets."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="earliest") as file:
        for name, array in arrays.items():
            file[name] = array
    return buffer.getvalue()


PACKERS = (gzip.compress, bz2.compress, lzma.compress)


def safetensors(**tensors: NDArray[Any]) -> bytes:
    """Give tensors as the bytes of a safetensors file."""
    names, about, end = {"<f4": "F32", "<f2": "F16", "|i1": "I8", "<u2": "BF16"}, dict[str, Any](), 0
    for name, x in tensors.items():
        about[name] = {"dtype": names[x.dtype.str], "shape": x.shape, "data_offsets": [end, end + x.nbytes]}
        end += x.nbytes
    text = json.dumps(about).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(x.tobytes() for x in tensors.values())


def fasttext(words: Iterable[bytes] = (b"he", b"she", b"\xff"), bucket: int = 2, d: int = 3) -> bytes:
    """Give a model of words as fastText lays it out (FastText::saveModel, without the matrix of outputs)."""
    words = list(words)
    head = struct.pack("<2i12id", 793712314, 12, d, 5, 1, 1, 5, 1, 2, 2, bucket, 2, 3, 100, 1e-4)
    counts = struct.pack("<3i2q", len(words), len(words), 0, 9, -1)
    entries = b"".join(word + b"\0" + struct.pack("<qb", 3, 0) for word in words)
    numbers = np.arange((len(words) + bucket) * d, dtype="<f4")
    return head + counts + entries + struct.pack("<?2q", False, len(words) + bucket, d) + numbers.tobytes()


CODES = (X * 4 - 3).astype(np.int8)
SCALES = np.array([0.5, 0.25, 0, 0.125], np.float32)
FBIN = np.array(X.shape, "<u4").tobytes()
FVECS = b"".join(np.int32(3).tobytes() + row.tobytes() for row in X)
SAFETENSORS = (
    safetensors(w=SCALES, m=X), safetensors(m=X.astype(np.float16)), safetensors(m=X.view("<u2")),
    safetensors(codes=CODES, scale=SCALES.reshape(-1, 1)),
)  # fmt: skip

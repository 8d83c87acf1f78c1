"""`.safetensors`: the tensors of a linear layer, as PyTorch names them."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.formats import atomic
from salcli.formats.exports import DenseMap, Target

DTYPES = {"<f4": "F32", "<f8": "F64"}


def packed(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return a `.safetensors` file: the length of a JSON header, the header, then the numbers.

    The header is padded with blanks to a multiple of eight bytes, which aligns the numbers (safetensors, "Format").

    Parameters
    ----------
    tensors : arrays of float32 or float64, by name
    metadata : texts by name
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    pieces, at = [], 0
    for name, tensor in tensors.items():
        kind = tensor.dtype.newbyteorder("<")
        data = np.ascontiguousarray(tensor, kind).tobytes()
        header[name] = {
            "dtype": DTYPES[kind.str],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(data)],
        }
        pieces.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *pieces])


def write(path: str, dense: DenseMap, is_double: bool) -> list[str]:
    """Write `weight` `[out, in]` and `bias` `[out]`.

    Parameters
    ----------
    path : of the output
    dense : the map
    is_double : float64 instead of float32

    Returns
    -------
    the path

    Raises
    ------
    OutputError : it cannot be written
    """
    dtype = np.float64 if is_double else np.float32
    tensors = {"weight": dense.weight.astype(dtype), "bias": dense.bias.astype(dtype)}
    data = packed(tensors, {"format": "pt", **dense.metadata})
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        handle.write(data)
    return [path]


TARGET = Target("safetensors", (".safetensors",), write, has_double=True)

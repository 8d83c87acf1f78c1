"""`.safetensors`: the tensors of a linear layer, as PyTorch names them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.formats import atomic
from salcli.formats.exports import DenseMap, Target
from salcli.formats.safetensors import METADATA, header_bytes

DTYPES = {"<f4": "F32", "<f8": "F64"}


def packed(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return a `.safetensors` file.

    Parameters
    ----------
    tensors : arrays of float32 or float64, by name
    metadata : texts by name
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
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
    return b"".join([header_bytes(header), *pieces])


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

"""`.onnx`: one `Gemm` from `embedding` to `erased`, in double precision inside on request."""

from typing import Any

import numpy as np

from salcli.errors import UsageError
from salcli.formats import atomic
from salcli.formats.exports import DenseMap, Target

OPSET, IR_VERSION = 17, 8
"""Of 2022: what runtimes of the last years load."""
MOST_BYTES = 1 << 31  # of a protobuf message


def write(path: str, dense: DenseMap, is_double: bool) -> list[str]:
    """Write a model with the input `embedding` and the output `erased`, both `[n, d]` float32.

    Parameters
    ----------
    path : of the output
    dense : the map; one that normalizes divides rows by their lengths before and after
    is_double : cast to float64, multiply, and cast back

    Returns
    -------
    the path

    Raises
    ------
    UsageError : the package `onnx` is missing, or the matrix does not fit into such a file
    OutputError : it cannot be written
    """
    try:
        import onnx
        from onnx import helper
    except ImportError as error:
        raise UsageError("the package `onnx` is not installed: pip install 'salcli[export]'") from error
    if dense.d**2 * (8 if is_double else 4) > MOST_BYTES - (1 << 20):
        raise UsageError(f"a matrix of {dense.d} x {dense.d} does not fit into one `.onnx` file of 2 GiB")
    dtype = np.float64 if is_double else np.float32
    graph = helper.make_graph(
        _nodes(helper, dense, is_double),
        "eraser",
        [helper.make_tensor_value_info("embedding", onnx.TensorProto.FLOAT, ["n", dense.d])],
        [helper.make_tensor_value_info("erased", onnx.TensorProto.FLOAT, ["n", dense.d])],
        [
            onnx.numpy_helper.from_array(dense.weight.astype(dtype), "weight"),
            onnx.numpy_helper.from_array(dense.bias.astype(dtype), "bias"),
            onnx.numpy_helper.from_array(np.array(np.finfo(dtype).tiny, dtype), "tiny"),
        ][: 3 if dense.normalizes else 2],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, producer_name="salcli", opset_imports=opset, ir_version=IR_VERSION)
    helper.set_model_props(model, dense.metadata)
    onnx.checker.check_model(model)
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        handle.write(model.SerializeToString(deterministic=True))
    return [path]


def _nodes(helper: Any, dense: DenseMap, is_double: bool) -> list[Any]:
    """Return the nodes, each of which takes what the one before returns."""
    nodes: list[Any] = []
    at = "embedding"

    def then(kind: str, *more: str, **attributes: Any) -> None:
        nonlocal at
        nodes.append(helper.make_node(kind, [at, *more], [f"step{len(nodes)}"], **attributes))
        at = nodes[-1].output[0]

    def divide() -> None:
        before = at
        then("ReduceL2", axes=[1], keepdims=1)
        then("Max", "tiny")
        nodes.append(helper.make_node("Div", [before, at], [f"step{len(nodes)}"]))

    if is_double:
        then("Cast", to=11)  # TensorProto.DOUBLE
    if dense.normalizes:
        divide()
        at = nodes[-1].output[0]
    then("Gemm", "weight", "bias", transB=1)
    if dense.normalizes:
        divide()
        at = nodes[-1].output[0]
    if is_double:
        then("Cast", to=1)  # TensorProto.FLOAT
    nodes[-1].output[0] = "erased"
    return nodes


TARGET = Target("onnx", (".onnx",), write, has_double=True)

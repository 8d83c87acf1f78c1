"""`.onnx`: a graph from `embedding` to `erased`, in double precision inside on request.

A dense map is one `Gemm`; the maps of classes, and of kernels, take a dozen nodes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import UsageError
from salcli.formats import atomic
from salcli.formats.exports import ClassMaps, DenseMap, KernelMap, Map, Target

OPSET, IR_VERSION = 17, 8
"""Of 2022: what runtimes of the last years load."""
MOST_BYTES = (1 << 31) - (1 << 20)  # of a protobuf message, less what names and shapes take
FLOAT, DOUBLE = 1, 11
"""Of `TensorProto`."""
LOST = {np.float64: 1e-9, np.float32: 1e-5}
"""Erased rows shorter than this share of their former length are rounding errors, which division would blow up."""


class Graph:
    """Nodes and constants of a model, in the order in which they are computed."""

    def __init__(self, dtype: type[np.floating[Any]]) -> None:
        """Start empty; constants have the `dtype`."""
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def constant(self, name: str, value: Any) -> str:
        """Return the `name` of a new constant: a number or an array `value`; whole numbers stay int64."""
        array = np.asarray(value)
        self.constants[name] = array.astype(np.int64 if array.dtype.kind == "i" else self.dtype)
        return name

    def __call__(self, kind: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> str:
        """Return the name of the first output of a new node of a `kind`."""
        from onnx import helper

        names = [f"step{len(self.nodes)}", f"indices{len(self.nodes)}"][:n_outputs]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def unit(self, x: str, least: float) -> str:
        """Return rows `x` divided by their lengths, or by `least` if that is more; rows of zeros stay zero."""
        length = self("ReduceL2", x, axes=[1], keepdims=1)
        return self("Div", x, self("Max", length, self.constant(f"least{len(self.nodes)}", least)))


def write(path: str, found: Map, is_double: bool) -> list[str]:
    """Write a model with the input `embedding` `[n, d]` and the output `erased` `[n, d']`, both float32.

    Parameters
    ----------
    path : of the output
    found : the map; a dense one that normalizes divides rows by their lengths before and after
    is_double : cast to float64, compute, and cast back; maps of kernels do in any case, as float32 loses their digits

    Returns
    -------
    the path

    Raises
    ------
    UsageError : the package `onnx` is missing, or the matrices do not fit into such a file
    OutputError : it cannot be written
    """
    try:
        import onnx
        from onnx import helper
    except ImportError as error:
        raise UsageError("the package `onnx` is not installed: pip install 'salcli[export]'") from error
    is_double = is_double or isinstance(found, KernelMap)
    graph = Graph(np.float64 if is_double else np.float32)
    x = graph("Cast", "embedding", to=DOUBLE) if is_double else "embedding"
    erased = _mapped(graph, x, found)
    graph("Cast" if is_double else "Identity", erased, **({"to": FLOAT} if is_double else {}))
    graph.nodes[-1].output[0] = "erased"
    n_bytes = sum(array.nbytes for array in graph.constants.values())
    if n_bytes > MOST_BYTES:
        raise UsageError(f"matrices of {n_bytes / 1e9:.1f} GB do not fit into one `.onnx` file of 2 GiB")
    made = helper.make_graph(
        graph.nodes,
        "eraser",
        [helper.make_tensor_value_info("embedding", FLOAT, ["n", found.d])],
        [helper.make_tensor_value_info("erased", FLOAT, ["n", found.d_out])],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, producer_name="salcli", opset_imports=opset, ir_version=IR_VERSION)
    helper.set_model_props(model, found.metadata)
    onnx.checker.check_model(model)
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        handle.write(model.SerializeToString(deterministic=True))
    return [path]


def _mapped(graph: Graph, x: str, found: Map) -> str:
    """Return the name of the rows `x` after the map, whose nodes are added to the `graph`."""
    if isinstance(found, ClassMaps):
        return _by_class(graph, x, found)
    if isinstance(found, KernelMap):
        values = _kernel_values(graph, x, found)
        return graph("Gemm", values, graph.constant("weight", found.weight), graph.constant("bias", found.bias))
    weight, bias = graph.constant("weight", found.weight), graph.constant("bias", found.bias)
    if not found.normalizes:
        return graph("Gemm", x, weight, bias, transB=1)
    unit = graph.unit(x, float(np.finfo(graph.dtype).tiny))
    return graph.unit(graph("Gemm", unit, weight, bias, transB=1), LOST[graph.dtype])


def _by_class(graph: Graph, x: str, found: ClassMaps) -> str:
    """Return rows that are moved by the maps of their classes: w ⊗ (x − centre) times all steps at once."""
    c, d = found.steps.shape[:2]
    logits = graph("Gemm", x, graph.constant("weights", found.weights), graph.constant("logits", found.bias))
    w = graph("Softmax", logits, axis=1)
    if found.certain:
        two = graph("TopK", logits, graph.constant("two", np.array([2])), n_outputs=2, axis=1)
        gate = graph("MatMul", two, graph.constant("lead", np.array([[1.0], [-1.0]]) / found.certain))
        w = graph("Mul", w, graph("Min", gate, graph.constant("open", 1.0)))
    away = graph("Sub", x, graph.constant("centre", found.centre))
    parts = graph(
        "Mul",
        graph("Unsqueeze", w, graph.constant("last", np.array([2]))),
        graph("Unsqueeze", away, graph.constant("middle", np.array([1]))),
    )
    steps = graph.constant("steps", found.steps.reshape(c * d, d))
    return graph("Add", x, graph("MatMul", graph("Flatten", parts, axis=1), steps))


def _kernel_values(graph: Graph, x: str, found: KernelMap) -> str:
    """Return κ(x) (see `KernelRow`)."""
    row, kernel, gamma = found.row, found.row.kernel, float(found.row.kernel.gamma or 0)
    if kernel.name != "rbf":
        scale = gamma if kernel.name == "poly" else 1.0
        values = graph("MatMul", x, graph.constant("landmarks", scale * row.y.T))
        if kernel.name == "linear":
            return values
        values = graph("Add", values, graph.constant("coef0", kernel.coef0))
        return graph("Pow", values, graph.constant("degree", float(kernel.degree)))
    x = graph("Sub", x, graph.constant("centre", row.centre))
    products = graph(
        "Gemm", x, graph.constant("landmarks", 2 * gamma * row.y.T), graph.constant("squares", -gamma * row.squares)
    )
    squares = graph("Mul", graph("ReduceSumSquare", x, axes=[1], keepdims=1), graph.constant("gamma", gamma))
    distances = graph("Sub", products, squares)
    return graph("Exp", graph("Min", distances, graph.constant("zero", 0.0)))


TARGET = Target("onnx", (".onnx",), write, has_double=True, holds=(DenseMap, ClassMaps, KernelMap))

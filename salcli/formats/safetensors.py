"""safetensors: a length of 8 bytes, a JSON header, then tensors in C order, one of which is the matrix."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, ParameterError, UsageError, first_line, warn
from salcli.formats.base import Output
from salcli.formats.files import ByteFile
from salcli.formats.keys import listed, shortened
from salcli.formats.plain_rows import RowsReader
from salcli.formats.quantized import BECOMES, FLOAT16, require_int8, scale_of, widened
from salcli.formats.rows_writer import RowsWriter
from salcli.formats.tokenizer import TOKENIZER, read_tokens
from salcli.options import ReadOptions

MAX_HEADER = 100_000_000  # bytes, as the library has it
ITEM_BYTES = dict.fromkeys(("U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1)
ITEM_BYTES |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 2) | dict.fromkeys(("F32", "I32", "U32"), 4)
ITEM_BYTES |= dict.fromkeys(("F64", "I64", "U64", "C64"), 8)
FLOATS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<f4"),
}
NAMES = {2: "F16", 4: "F32", 8: "F64"}
QUANTIZED = frozenset({"I8", "U8", "F8_E4M3", "F8_E5M2"})
METADATA, MATRIX, MAPPING = "__metadata__", "embeddings", "mapping"
COPY_PIECE = 4 << 20


@dataclass(frozen=True)
class Tensor:
    """What the header records of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """Its first byte, counted from the end of the header."""
    stop: int


@dataclass(frozen=True)
class Header:
    """The tensors of a file in the order of their bytes, its metadata, and where the bytes begin."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str] | None
    offset: int


def read_header(file: ByteFile) -> Header:
    """Return the header of a plain file, after checking it.

    Every byte behind the header belongs to exactly one tensor, as the library demands too.

    Raises
    ------
    FormatError : it is damaged, or announces other bytes than there are
    """
    path, size = file.name, file.size or 0
    length = int.from_bytes(file.read_up_to(0, 8), "little")
    if size < 8 or length > min(MAX_HEADER, size - 8):
        raise FormatError(
            f"{path}: a header of {length:,} bytes is announced in a file of {size:,} bytes: truncated, or damaged"
        )
    try:
        found = json.loads(file.read_at(8, length), object_pairs_hook=_unique)
        metadata = found.pop(METADATA, None)
        tensors = {name: _tensor(one) for name, one in found.items()}
        if metadata is not None and not all(isinstance(value, str) for value in {**metadata}.values()):
            raise ValueError(f"{METADATA} holds more than text")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: damaged safetensors header: {first_line(error)}") from error
    tensors = dict(sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)))
    end = 0
    for name, tensor in tensors.items():
        if tensor.start != end:
            where = f"tensor {shortened(name)} begins at byte {tensor.start:,}, expected {end:,}"
            raise FormatError(f"{path}: damaged safetensors header: {where}")
        end = tensor.stop
    if end != size - 8 - length:
        fault = "truncated" if end > size - 8 - length else "too long"
        raise FormatError(f"{path}: {fault}: the tensors take {end:,} bytes, {size - 8 - length:,} follow the header")
    return Header(tensors, metadata, 8 + length)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _tensor(about: Any) -> Tensor:
    """Return a tensor from its JSON; a fault raises ValueError, KeyError or TypeError."""
    dtype, shape, (start, stop) = about["dtype"], about["shape"], about["data_offsets"]
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in (*shape, start, stop)):
        raise ValueError(f"shape {shape!r:.60} and offsets [{start!r:.20}, {stop!r:.20}], expected whole numbers")
    if dtype not in ITEM_BYTES:
        raise ValueError(f"dtype {dtype!r:.40}, expected one of {', '.join(ITEM_BYTES)}")
    if math.prod(shape) * ITEM_BYTES[dtype] != stop - start:
        raise ValueError(f"{dtype} of shape {shape!r:.60} in {stop - start:,} bytes")
    return Tensor(dtype, tuple(shape), start, stop)


class SafetensorsReader(RowsReader):
    """The only 2-D float tensor of a safetensors file, or the one that `dataset` names."""

    format = "safetensors"

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Find the matrix and its keys.

        Parameters
        ----------
        file : of the tensors
        options : which tensor is read, and how

        Raises
        ------
        ParameterError : keys inside the file are requested
        FormatError : the file is damaged, or the choice of a tensor is ambiguous
        """
        self.path, self.file = file.name, file.plain()
        if options.keys_dataset is not None:
            raise ParameterError(
                "keys_dataset", options.keys_dataset, f"{self.path} is safetensors, which holds no text"
            )
        self.header = read_header(self.file)
        self.scale = scale_of(options.dequantize, self.path)
        self.matrix = self._find_matrix(options.dataset)
        """The name of the tensor that holds the rows."""
        tensor = self.header.tensors[self.matrix]
        self.is_bfloat16 = tensor.dtype == "BF16"
        n, d = tensor.shape
        offset = self.header.offset + tensor.start
        self._set_layout(
            options,
            offset=offset,
            n=n,
            d=d,
            dtype=FLOATS.get(tensor.dtype, FLOAT16),
            name=f": tensor {shortened(self.matrix)}",
        )
        if isinstance(self.scale, str):
            self._require_scales(self.scale)
        self._keys: tuple[str, ...] | None = None
        if MAPPING in self.header.tensors:
            warn(f"{self.path}: tensor {MAPPING}: tokens share rows by it; rows have no keys")
        elif options.keyed is not False and options.keys_file is None and not file.name.startswith("<"):
            self._keys = read_tokens(os.path.join(os.path.dirname(self.path), TOKENIZER), n, self.path)
        self.has_keys = self._keys is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keys": None}  # read again instead of pickled with every chunk

    def _require_scales(self, name: str) -> None:
        tensor = self.header.tensors.get(name)
        if tensor is None or tensor.dtype not in FLOATS or tensor.shape not in ((self.n,), (self.n, 1)):
            found = "no such tensor" if tensor is None else f"{tensor.dtype} of shape {list(tensor.shape)}"
            raise ParameterError("dequantize", name, f"{self.path}: {found}, expected {self.n:,} floats, or a number")

    def scales(self, start: int, stop: int) -> NDArray[Any] | float:
        """Return the scale of some rows (see `RowsReader.scales`)."""
        if not isinstance(self.scale, str):
            return super().scales(start, stop)
        tensor = self.header.tensors[self.scale]
        size = ITEM_BYTES[tensor.dtype]
        data = self.file.read_at(self.header.offset + tensor.start + start * size, (stop - start) * size)
        if tensor.dtype == "BF16":
            return widened(np.frombuffer(data, "<u2"))
        return np.frombuffer(data, FLOATS[tensor.dtype])

    def _find_matrix(self, dataset: str | None) -> str:
        tensors = self.header.tensors
        is_read = _is_int8 if self.scale is not None else _is_floats
        if dataset is not None:
            if dataset not in tensors:
                raise FormatError(f"{self.path}: no tensor {dataset!r}; it holds {listed([*tensors])}")
            if self.scale is not None:
                require_int8(
                    f"{self.path}: tensor {dataset}", tensors[dataset].dtype, is_int8=is_read(tensors[dataset])
                )
            elif not is_read(tensors[dataset]):
                raise FormatError(f"{self.path}: tensor {dataset}: {_described(tensors[dataset])}")
            return dataset
        fitting = [name for name, tensor in tensors.items() if is_read(tensor)]
        quantized = [(n, t) for n, t in tensors.items() if t.dtype in QUANTIZED and len(t.shape) == 2]
        if all(tensors[name].shape[1] == 1 for name in fitting) and self.scale is None and quantized:
            fitting = []  # a column of floats beside codes is their scale
        if not fitting:
            if quantized and self.scale is None:
                raise FormatError(f"{self.path}: tensor {shortened(quantized[0][0])}: {_described(quantized[0][1])}")
            kind = "float" if self.scale is None else "int8"
            raise FormatError(f"{self.path}: no 2-D {kind} tensor among {listed([*tensors]) or 'no tensors at all'}")
        if len(fitting) > 1:
            raise FormatError(f"{self.path}: several matrices, {listed(fitting)}: choose one with `dataset`")
        return fitting[0]

    def keyed(self, batch: Embeddings) -> Embeddings:
        """Return `batch` with its keys, where there are some."""
        if not self.has_keys:
            return batch
        first = int(batch.rows[0])
        return Embeddings(batch.vectors, batch.rows, self._all_keys()[first : first + len(batch)])

    def _all_keys(self) -> tuple[str, ...]:
        if self._keys is None:
            self._keys = read_tokens(os.path.join(os.path.dirname(self.path), TOKENIZER), self.n, self.path)
        return self._keys or ()

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        if self.has_keys:
            yield from (self._all_keys()[start:stop] for start, stop in self.ranges())

    def companions(self) -> dict[str, tuple[int, ...]]:
        """Return the other tensors, with their shapes."""
        taken = (self.matrix, self.scale)
        return {name: tensor.shape for name, tensor in self.header.tensors.items() if name not in taken}


def _is_floats(tensor: Tensor) -> bool:
    return tensor.dtype in FLOATS and len(tensor.shape) == 2


def _is_int8(tensor: Tensor) -> bool:
    return tensor.dtype == "I8" and len(tensor.shape) == 2


def _described(tensor: Tensor) -> str:
    shape = f"{tensor.dtype} of shape {list(tensor.shape)}"
    if tensor.dtype in QUANTIZED:
        return f"{shape} has no scale here: " + (
            "`dequantize` names one" if tensor.dtype == "I8" else "multiply it by its scale, and save float16"
        )
    return f"{shape}, expected a matrix of floats"


def header_bytes(about: dict[str, Any]) -> bytes:
    """Return a file's first bytes: the length of the JSON of `about`, and the JSON, padded so that numbers are aligned.

    Parameters
    ----------
    about : dtype, shape and offsets by name of tensor, and the metadata
    """
    text = json.dumps(about, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class SafetensorsWriter(RowsWriter):
    """Writes the matrix with the other tensors and the metadata of the input, or alone."""

    def __init__(self, output: Output) -> None:
        """Start the file of `output`.

        Raises
        ------
        UsageError : numbers that the format does not have
        """
        if output.dtype.itemsize not in NAMES:
            raise UsageError(f"{output.target}: safetensors holds no {output.dtype}: give `dtype=float64`")
        like = output.model if isinstance(output.model, SafetensorsReader) else None
        self._like, name = like, like.matrix if like else MATRIX
        self._erased = {name: output.dtype, **output.beside.erased}
        if like is not None and like.is_bfloat16:
            warn(BECOMES.format(output.target, output.dtype))
        old = like.header.tensors if like else {}
        self._copied = {
            each: t
            for each, t in old.items()
            if each not in self._erased and output.beside.is_copied(each) and like and each != like.scale
        }
        about: dict[str, Any] = {} if like is None or like.header.metadata is None else {METADATA: like.header.metadata}
        self._starts, end = dict[str, int](), 0
        for each in old or (name,):
            shape: tuple[int, ...]
            if each in self._erased:
                kind, shape = NAMES[self._erased[each].itemsize], (output.n, output.d)
            elif each in self._copied:
                kind, shape = old[each].dtype, old[each].shape
            else:
                continue
            self._starts[each], end = end, end + math.prod(shape) * ITEM_BYTES[kind]
            about[each] = {"dtype": kind, "shape": shape, "data_offsets": (self._starts[each], end)}
        header = header_bytes(about)
        self._first = len(header)
        super().__init__(output.open(), header, output.dtype)
        self._copy()
        self.begin(name)

    def _copy(self) -> None:
        for name, tensor in self._copied.items():
            assert self._like is not None
            place, target = self._like.header.offset + tensor.start, self._first + self._starts[name]
            for at in range(0, tensor.stop - tensor.start, COPY_PIECE):
                data = self._like.file.read_at(place + at, min(COPY_PIECE, tensor.stop - tensor.start - at))
                self._handle.seek(target + at)
                self._handle.write(data)

    def begin(self, name: str) -> None:
        """Write the rows that follow to the tensor called `name`, one of those that are erased too."""
        self._dtype = FLOATS[NAMES[self._erased[name].itemsize]]
        self._offset = self._first + self._starts[name]
        self._handle.seek(self._offset)

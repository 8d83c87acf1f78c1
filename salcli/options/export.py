"""Options of `export`."""

from dataclasses import dataclass

from salcli.options.record import Record, option


@dataclass(frozen=True)
class ExportOptions(Record):
    """What an eraser is written as."""

    to: str | None = option(
        None,
        help="onnx, safetensors, npz, or sentence-transformers (OUT: the folder of a model, which the eraser is "
        "appended to); default: by the suffix of OUT.",
        metavar="TARGET",
    )
    double: bool = option(False, help="Multiply in float64: less than rounding to float32 leaves behind.")

"""Options of `apply`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from salcli.errors import ParameterError, UsageError
from salcli.options.cluster import ClusterOptions
from salcli.options.reading import FORMAT_HELP, ReadOptions
from salcli.options.record import Record, option

if TYPE_CHECKING:  # help is shown without numpy
    import numpy as np

DTYPES = ("float16", "float32", "float64")


@dataclass(frozen=True)
class ApplyOptions(Record):
    """How to erase a file."""

    in_place: bool = option(False, help="Replace the input (by rename, when all is written).")
    strength: float = option(1.0, help="Share of the way; below 1 it can be undone.", metavar="λ", bounds=(0, 1))
    reduces: bool = option(False, "--reduce", help="Write the d − k remaining coordinates instead.")
    noise_key: str | None = option(
        None,
        help="Secret of an eraser with noise, made if absent, for its owner alone: rows get the same noise again.",
        metavar="FILE",
    )
    writes_kernel: bool = option(
        False, "--kernel-matrix", help="Of a kernel's eraser: write the inner products K̂ (n × n, HDF5)."
    )
    dtype: str | None = option(
        None,
        help="Numbers of the output: float16, float32, float64; default: the input's.",
        metavar="T",
        choices=DTYPES,
    )
    output_format: str | None = option(
        None, help=f"Force the output's format: {FORMAT_HELP} (models are not written).", metavar="F"
    )
    erase_also: tuple[str, ...] = option(
        (),
        help="Another matrix of the file, of the same rows and width, to erase with the same eraser (repeatable).",
        metavar="DATASET",
        repeatable=True,
        text=True,
    )
    drop: tuple[str, ...] = option(
        (),
        help="Dataset beside the matrix in an HDF5 or npz file to leave out (repeatable).",
        metavar="DATASET",
        repeatable=True,
        text=True,
    )
    only: bool = option(False, help="Leave out all datasets but the matrix, its keys and --erase-also.")
    read: ReadOptions = field(default_factory=ReadOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.writes_kernel and (self.erase_also or self.drop or self.only):
            raise UsageError("`writes_kernel` writes inner products alone: leave `erase_also`, `drop` and `only` out")
        if self.only and self.drop:
            raise UsageError("`only` leaves all else out already: leave `drop` out")
        if self.writes_kernel and (self.reduces or self.in_place):
            raise UsageError("`writes_kernel` writes inner products: it cannot go with `reduces` or `in_place`")
        if self.writes_kernel and self.output_format not in (None, "h5"):
            raise UsageError(f"`writes_kernel` writes HDF5, not {self.output_format}")
        if self.reduces and self.strength != 1:
            raise UsageError("`reduces` leaves the directions out altogether: it cannot go with `strength`")
        if self.in_place and self.output_format is not None:
            raise ParameterError("output_format", self.output_format, "`in_place` keeps the file's format")
        if self.reduces and self.in_place:
            raise UsageError("`reduces` changes the width of the file: it cannot go with `in_place`")

    @property
    def output_dtype(self) -> "np.dtype[np.generic] | None":
        """The dtype that was requested."""
        import numpy as np

        return None if self.dtype is None else np.dtype(self.dtype)

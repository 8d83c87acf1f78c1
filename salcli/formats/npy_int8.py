"""`.npy` of int8, read with its scale; all other arrays are left to `NpyReader`."""

import numpy as np

from salcli.errors import FormatError
from salcli.formats.base import FileReader
from salcli.formats.files import ByteFile
from salcli.formats.npy import NpyReader, read_header
from salcli.formats.plain_rows import RowsReader
from salcli.formats.quantized import FLOAT16, require_int8, scale_of
from salcli.options import ReadOptions


def read_npy(file: ByteFile, options: ReadOptions) -> FileReader:
    """Open an array (see `NpyReader`, and `Int8Reader` with `dequantize`)."""
    return NpyReader(file, options) if options.dequantize is None else Int8Reader(file, options)


class Int8Reader(RowsReader):
    """A matrix of int8 in C order, times a number."""

    format = "npy"

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Read the header.

        Parameters
        ----------
        file : of the array
        options : how rows are read

        Raises
        ------
        ParameterError : the scale is no number
        UsageError : the array is not of int8
        FormatError : it announces other bytes than there are, or is no matrix in C order
        """
        self.path, header = file.name, read_header(file.head(), file.name)
        self.scale = scale_of(options.dequantize, self.path, has_names=False)
        require_int8(self.path, header.dtype, is_int8=header.dtype == np.int8)
        if len(header.shape) != 2 or header.is_fortran:
            order = "Fortran" if header.is_fortran else "C"
            raise FormatError(f"{self.path}: shape {header.shape!r:.60} in {order} order, expected a matrix in C order")
        n, d = header.shape
        self.file = file.plain(n_bytes=header.offset + n * d)
        if self.file.size != header.offset + n * d:
            raise FormatError(
                f"{self.path}: truncated or too long: {n} x {d} int8 take {n * d} bytes, "
                f"{(self.file.size or 0) - header.offset} bytes follow the header"
            )
        self._set_layout(options, offset=header.offset, n=n, d=d, dtype=FLOAT16)

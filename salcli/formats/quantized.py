"""Numbers of one or two bytes that numpy has no floats for: int8 with a scale becomes float16, bfloat16 float32."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Floats
from salcli.errors import FormatError, ParameterError, UsageError
from salcli.formats.keys import shortened

FLOAT16 = np.dtype(np.float16)
LEAST, MOST = 2.0**-14, 2.0**8  # of a scale: codes times less lose digits in float16, times more overflow

BECOMES = "{}: bfloat16 becomes {}, as rounding to it might bring the attribute back"


def scale_of(text: str | None, path: str, *, has_names: bool = True) -> float | str | None:
    """Return what `dequantize` names: a number, or the column or tensor of one number for each row.

    Parameters
    ----------
    text : of the option; None: it is not given
    path : of the file, for messages
    has_names : whether a name may be given

    Raises
    ------
    ParameterError : a number outside of what float16 can hold, or a name where there can be none
    """
    try:
        number = None if text is None else float(text)
    except ValueError:
        if not has_names:
            raise ParameterError(
                "dequantize", text, f"{path}: expected a number (tables and safetensors have names)"
            ) from None
        return text
    if number is not None and not LEAST <= number <= MOST:
        raise ParameterError("dequantize", text, f"expected {LEAST:.2g} to {MOST:g}, as the result is float16")
    return number


def dequantized(codes: NDArray[Any], scale: Any, first: int, where: str, out: Floats | None = None) -> Floats:
    """Return codes times their scale.

    Parameters
    ----------
    codes : `[n, d]`
    scale : a number, or `[n]` numbers, one for each row
    first : number of the first row in the file, for messages
    where : names file and scale, for messages
    out : float16 memory `[n, d]`; default: new memory

    Returns
    -------
    `[n, d]` float16

    Raises
    ------
    FormatError : the scale of a row is none that float16 can hold; 0 is accepted
    """
    factors = np.asarray(scale, np.float32).reshape(-1, 1)
    is_fit = ((factors >= LEAST) & (factors <= MOST)) | (factors == 0)
    if not is_fit.all():
        row = int(np.argmin(is_fit))
        raise FormatError(
            f"{where}: row {first + row}: the scale is {factors[row, 0]:.3g}, expected {LEAST:.2g} to {MOST:g}; rows "
            "count from 0"
        )
    x = out if out is not None else np.empty(codes.shape, FLOAT16)
    np.multiply(codes, factors, out=x, dtype=np.float32, casting="unsafe")
    return x


def widened(halves: NDArray[np.uint16], out: Floats | None = None) -> Floats:
    """Return bfloat16 as float32, exactly: a bfloat16 is the upper half of a float32.

    Parameters
    ----------
    halves : the bits, of any shape
    out : float32 memory of that shape; default: new memory
    """
    x: Floats = out if out is not None else np.empty(halves.shape, np.float32)
    np.left_shift(halves, 16, out=x.view(np.uint32), dtype=np.uint32)
    return x


def require_int8(where: str, dtype: object, *, is_int8: bool) -> None:
    """Check that the matrix that `dequantize` is given for holds int8.

    Parameters
    ----------
    where : names file and matrix
    dtype : of the matrix, for the message
    is_int8 : whether that is int8

    Raises
    ------
    UsageError : it does not
    """
    if not is_int8:
        raise UsageError(f"`dequantize`: {shortened(where)} is {dtype}, not int8: leave it out")

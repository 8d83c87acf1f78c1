"""X − C Lᵀ and S + Xᵀ X in place: one call of BLAS each, where numpy would make the product first and add it after."""

import ctypes
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AS_IT_IS, TRANSPOSED, UPPER = b"N", b"T", b"U"
BlasFunction = Callable[..., None]
TEXT, MATRIX = ctypes.c_char_p, ctypes.c_void_p
INTEGER, NUMBER = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
KINDS: dict[str, tuple[Any, ...]] = {
    "dgemm": (TEXT, TEXT, *3 * (INTEGER,), NUMBER, MATRIX, INTEGER, MATRIX, INTEGER, NUMBER, MATRIX, INTEGER),
    "dsyrk": (TEXT, TEXT, INTEGER, INTEGER, NUMBER, MATRIX, INTEGER, NUMBER, MATRIX, INTEGER),
}
"""Of the arguments of functions of BLAS."""


def subtract_product(x: Array, c: Array, l_t: Array, *, times: float = 1.0) -> None:
    """Subtract λ c l_t from x in place; the GIL is released meanwhile.

    Parameters
    ----------
    x : `[n, d]` float64, in C order
    c : `[n, k]` float64, in C or Fortran order
    l_t : `[k, d]` float64, in C order
    times : λ, a finite number

    Raises
    ------
    ValueError : dtypes, shapes or order differ from these; BLAS would write outside the arrays
    """
    (n, d), k = x.shape, len(l_t)
    is_contiguous = x.flags.c_contiguous and l_t.flags.c_contiguous and x.flags.writeable
    is_double = x.dtype == c.dtype == l_t.dtype == np.float64
    if not is_contiguous or not is_double or (c.shape, l_t.shape) != ((n, k), (k, d)):
        raise ValueError(f"x {x.shape}, c {c.shape} and l_t {l_t.shape} are not float64 [n, d], [n, k] and [k, d]")
    if not x.size or not k:
        return
    dgemm = blas_product()
    if dgemm is None:
        x -= times * (c @ l_t)
        return
    if not c.flags.c_contiguous:
        c = np.asfortranarray(c)
    # To BLAS, whose matrices are in Fortran order, x is xᵀ [d, n] and l_t is l [d, k].
    is_turned = not c.flags.c_contiguous
    rows, width, inner = ctypes.c_int(n), ctypes.c_int(d), ctypes.c_int(k)
    dgemm(
        AS_IT_IS, TRANSPOSED if is_turned else AS_IT_IS, width, rows, inner,
        ctypes.c_double(-times), _address(l_t), width, _address(c), rows if is_turned else inner,
        ctypes.c_double(1.0), _address(x), width,
    )  # fmt: skip


def _address(matrix: Array) -> int:
    return int(matrix.__array_interface__["data"][0])


def add_gram(sums: Array, x: Array) -> None:
    """Add xᵀ x to the lower triangle of `sums` in place, with half the multiplications; the GIL is released meanwhile.

    Parameters
    ----------
    sums : `[d, d]` float64, in C order
    x : `[n, d]` float64, in C order

    Raises
    ------
    ValueError : dtypes, shapes or order differ from these; BLAS would write outside the arrays
    """
    (n, d), is_contiguous = x.shape, x.flags.c_contiguous and sums.flags.c_contiguous and sums.flags.writeable
    if not is_contiguous or not x.dtype == sums.dtype == np.float64 or sums.shape != (d, d):
        raise ValueError(f"sums {sums.shape} and x {x.shape} are not float64 [d, d] and [n, d]")
    if not x.size:
        return
    dsyrk = _blas_function("dsyrk")
    if dsyrk is None:
        sums += x.T @ x
        return
    width, one = ctypes.c_int(d), ctypes.c_double(1.0)
    # To BLAS, whose matrices are in Fortran order, x is xᵀ [d, n], and the lower triangle is the upper one.
    dsyrk(UPPER, AS_IT_IS, width, ctypes.c_int(n), one, _address(x), width, one, _address(sums), width)


def blas_product() -> BlasFunction | None:
    """Return BLAS's dgemm (see `_blas_function`)."""
    return _blas_function("dgemm")


@functools.cache
def _blas_function(name: str) -> BlasFunction | None:
    """Return a function of BLAS as scipy exports it to compiled code; None if its integers are not C's.

    scipy's function for Python (such as `scipy.linalg.blas.dgemm`) holds the GIL. The library is loaded by the first
    call: where BLAS is to be limited to one thread, set the limit first.

    Parameters
    ----------
    name : one of `KINDS`
    """
    capsule = scipy_module("linalg", "cython_blas").__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if signature.count(b" int *") != KINDS[name].count(INTEGER):
        return None
    return ctypes.CFUNCTYPE(None, *KINDS[name])(pointer_of(capsule, signature))


def add_products(
    sums: NDArray[Any], starts: NDArray[np.int32], columns: NDArray[np.int32], values: NDArray[Any], x: NDArray[Any]
) -> None:
    """Add Zᵀ x to `sums`, row after row of x.

    The public product of a sparse matrix allocates a new matrix for every block; this adds in place.

    Parameters
    ----------
    sums : `[c, d]`, in C order, of the dtype of x and the values
    starts : `[n + 1]` where the entries of each row of Z begin
    columns, values : `[m]` the entries of Z `[n, c]`, row by row
    x : `[n, d]`
    """
    assert sums.flags.c_contiguous  # else reshape would copy it
    kernels, shape = scipy_module("sparse", "_sparsetools"), (len(sums), *x.shape)
    kernels.csc_matvecs(*shape, starts, columns, values, x.reshape(-1), sums.reshape(-1))


_loading = threading.Lock()


def scipy_module(package: str, name: str) -> Any:
    """Return `scipy.<package>.<name>`, a compiled module, without importing its package, which takes long.

    If its file is not found, the package is imported.

    Parameters
    ----------
    package : the subpackage of scipy, such as `linalg`
    name : the module in it

    Raises
    ------
    ImportError : scipy has no such module
    """
    with _loading:  # several threads may load it first
        return _loaded(package, name)


@functools.cache
def _loaded(package: str, name: str) -> Any:
    full, scipy = f"scipy.{package}.{name}", importlib.util.find_spec("scipy")
    if full not in sys.modules and os.name == "posix" and scipy is not None and scipy.origin is not None:
        stem = Path(scipy.origin).parent / package / name
        path = next((path for end in EXTENSION_SUFFIXES if (path := Path(f"{stem}{end}")).is_file()), None)
        spec = None if path is None else importlib.util.spec_from_file_location(full, path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return sys.modules.setdefault(full, module)
    return importlib.import_module(full)

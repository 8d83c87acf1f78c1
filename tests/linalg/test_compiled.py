"""Compiled modules are loaded once, whoever wants them first."""

import subprocess
import sys


def test_threads_that_want_a_module_at_once_get_the_same_whole_one() -> None:
    code = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from salcli.linalg.blas import scipy_module
sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
def load(_):
    start.wait()
    module = scipy_module("linalg", "cython_blas")
    return module, module.__pyx_capi__["dgemm"]
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(load, range(8)))
assert len({id(module) for module, _ in found}) == 1
import numpy as np, scipy.linalg
from scipy.linalg import cython_blas
assert cython_blas is found[0][0]
assert np.allclose(scipy.linalg.blas.dgemm(1.0, np.eye(2), np.eye(2)), np.eye(2))
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""Files of a header and rows (safetensors, fbin, fvecs, int8) and fastText models are read, or refused in one line."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ..formats.strategies import file_of
from .fuzz_readers import seeds_of
from .readers import read_source, survive
from .seeds import CODES, FBIN, SAFETENSORS, SCALES, X, fasttext
from .strategies import mutated

FLAT = ("safetensors", "int8", "int8-npy", "fbin", "fvecs", "fasttext")


@pytest.mark.parametrize("reader", FLAT)
def test_the_seeds_are_read(reader: str) -> None:
    read = [survive(reader, data) for data in seeds_of(reader)]
    assert read == [True] * (len(read) - (reader == "safetensors")) + [False] * (reader == "safetensors")  # int8


def test_the_rows_of_the_seeds_are_what_they_were() -> None:
    with file_of(FBIN + X.tobytes(), "x.fbin") as path:
        assert_array_equal(read_source(str(path))[1], X)
    with file_of(SAFETENSORS[-1], "x.safetensors") as path:
        assert_array_equal(read_source(str(path), dequantize="scale")[1], CODES * SCALES[:, None])


@pytest.mark.parametrize("reader", FLAT)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_file_is_refused_or_read(reader: str, data: st.DataObject) -> None:
    survive(reader, data.draw(mutated(seeds_of(reader), most=5)))


def headers(places: Sequence[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Numbers of four bytes to put at some places of a header."""
    extreme = st.sampled_from([0, 1, 2, 3, 255, 2**15, 2**31 - 1, -1, -(2**31)])
    return st.lists(st.tuples(st.sampled_from(places), extreme), min_size=1, max_size=3)


@settings(max_examples=80)
@example([(64, 0)])
@example([(64, 2**31 - 1), (68, 2**31 - 1)])
@given(headers([8, 12, 16, 40, 44, 48, 64, 68, 72, 84, 88, 125, 126, 130, 134]))
def test_a_model_that_announces_anything_is_refused_or_read(changes: list[tuple[int, int]]) -> None:
    data = bytearray(fasttext())
    for at, value in changes:
        data[at : at + 4] = struct.pack("<i", value)
    survive("fasttext", bytes(data))


@pytest.mark.parametrize("cut", [1, 63, 70, 95, 100, 124, 130, 141, -1])
def test_a_model_that_was_cut_is_refused(cut: int) -> None:
    assert not survive("fasttext", fasttext()[:cut])


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0, 1, 3, 4, 2**31, 2**32 - 1]), min_size=2, max_size=2))
def test_an_fbin_that_announces_other_rows_is_refused(shape: list[int]) -> None:
    is_read = survive("fbin", np.array(shape, "<u4").tobytes() + X.tobytes())
    assert is_read == (tuple(shape) in {(4, 3), (3, 4)})

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.errors import FormatError, SalcliWarning
from salcli.formats.registry import open_source
from salcli.options import ReadOptions


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.booleans(), min_size=1, max_size=20).filter(any),
    st.sampled_from(["f2", "f4", "f8", ">f4"]),
    st.integers(1, 7),
)
def test_rows_that_are_not_finite_are_dropped_and_the_others_keep_their_numbers(
    tmp_path: Path, kept: list[bool], dtype: str, batch_rows: int
) -> None:
    x = np.arange(3 * len(kept), dtype=dtype).reshape(-1, 3)
    x[~np.array(kept), 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    options = ReadOptions(batch_rows=batch_rows, allow_nonfinite=True)
    if all(kept):
        source = open_source(str(tmp_path / "x.npy"), options)
    else:
        with pytest.warns(SalcliWarning, match=f"{kept.count(False)} rows with NaN or Inf are dropped"):
            source = open_source(str(tmp_path / "x.npy"), options)
    with closing(source):
        batches = [chunk.read() for chunk in source.chunks()]
    assert (source.n, source.n_dropped) == (sum(kept), kept.count(False))
    assert_array_equal(np.concatenate([batch.rows for batch in batches]), np.flatnonzero(kept))
    assert_array_equal(np.concatenate([batch.vectors for batch in batches]), x[np.array(kept)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_that_is_not_finite_is_refused_with_its_number(tmp_path: Path, value: float, dtype: type) -> None:
    x = np.ones((10, 4), dtype)
    x[7, 2] = value
    np.save(tmp_path / "x.npy", x)
    with closing(open_source(str(tmp_path / "x.npy"))) as source, pytest.raises(FormatError, match="row 7: .*finite"):
        [chunk.read() for chunk in source.chunks()]


def test_values_whose_sum_is_infinite_are_finite_rows(tmp_path: Path) -> None:
    x = np.full((100, 4), np.finfo(np.float32).max, np.float32)
    np.save(tmp_path / "x.npy", x)
    with closing(open_source(str(tmp_path / "x.npy"))) as source:
        assert_array_equal(next(source.chunks()).read().vectors, x)

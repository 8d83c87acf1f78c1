"""Labelled rows for hypothesis: of many shapes, scales and means."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


@st.composite
def labelled_rows(
    draw: st.DrawFn,
    *,
    max_classes: int = 5,
    max_d: int = 12,
    scales: tuple[float, ...] = (1.0,),
    means: Any = (0.0, 10.0),
) -> Rows:
    """Draw x [n, d], whose class means differ, and one-hot z [n, c], every class with at least two rows."""
    c = draw(st.integers(2, max_classes))
    d = draw(st.integers(1, max_d))
    n = draw(st.integers(2 * c, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.permutation(np.concatenate([np.arange(c), np.arange(c), rng.integers(0, c, n - 2 * c)]))
    centres = rng.normal(size=(c, d)) * draw(st.sampled_from([0.5, 3.0]))
    mean = rng.normal(size=d) * draw(st.sampled_from(means))
    scale = draw(st.sampled_from(scales))
    return (rng.normal(size=(n, d)) + centres[labels] + mean) * scale, np.eye(c)[labels]

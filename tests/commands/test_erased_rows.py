"""Rows through an eraser into a file: the same ones however they are read."""

import itertools
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.commands.erased_rows import stream_through
from salcli.erasers.linear import LinearEraser
from salcli.formats.registry import create, open_source
from salcli.options import ReadOptions
from salcli.streaming.progress import Silent

from ..cli.helpers import read_embeddings, write_embeddings

N, D = 157, 5


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*itertools.product(["x.npy", "x.npz", "x.h5"], [np.float16, np.float32, np.float64]), ("x.bin", np.float32)],
)
def test_rows_changed_in_the_memory_they_were_read_into_are_those_changed_at_once(
    tmp_path: Path, name: str, dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(N, D)) + 10).astype(dtype)
    u = np.linalg.qr(rng.normal(size=(D, 2)))[0]
    eraser = LinearEraser(rng.normal(size=D), u, u)
    path = write_embeddings(tmp_path / name, x, [b"w%d" % i for i in range(N)])
    for batch_rows in (None, 7):
        with (
            closing(open_source(str(path), ReadOptions(batch_rows=batch_rows, partition_elements=33 * D))) as source,
            create(str(tmp_path / "o.npy"), source, d=D, dtype=x.dtype, format_name="npy") as writer,
        ):
            done = stream_through(
                source, writer, lambda rows, out: eraser(rows, out=out), Silent(), at_once=8, block_elements=6 * D
            )
        assert done.n == N
        assert_array_equal(np.load(tmp_path / "o.npy"), eraser(x))
    assert_array_equal(read_embeddings(path, D)[1], x)

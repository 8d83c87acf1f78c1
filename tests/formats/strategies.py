"""What several modules of this folder need: a file for a moment, reading it whole, hostile words and numbers."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.errors import SalcliWarning
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

BOM = b"\xef\xbb\xbf"
SAMPLE_DATA = Path(__file__).parents[2] / "sample_data"

# No control characters: a file that has some is taken for binary, which test_signature.py looks at.
WORD_PIECES = (
    *(b"a", b"the", b"Q", b"1", b"2.5", b"-3", b"nan", b"NA", b"null", b'"', b"'", b"\\", b"#", b",", b";"),
    *("é".encode(), "語".encode(), "\u00a0".encode(), "\u2009".encode(), "\u0085".encode(), "\u2028".encode()),
    *(b"\x0b", b"\x0c", b"\x1c", b"\r", b"\xff", b"\xe9", b"\xc3", BOM),
)
GOOD_NUMBERS = (
    *(b"0", b"-0", b"-0.0", b"+1", b"007", b".5", b"-.5", b"+.5", b"1.", b"-1.", b"1e-38", b"1E5", b"1e+5", b"1.e2"),
    *(b".5e-3", b"1e-320", b"4.9e-324", b"1.7976931348623157e308", b"0.1", b"123456789012345678901234567890"),
    *(b"2.00000000000000000000000000001", b"9007199254740993", b"1e-400", b"0e999", b"3.4028235677973366e38"),
)
BAD_NUMBERS = (
    *(b"1_0", b"0,5", b"0x1", b"+", b"-", b".", b"e5", b"1e", b"1e+", b"--1", b"1f", b"1d0", b"1.2.3", b"NA", b"null"),
    *(
        b"nan(1)",
        b"nan()",
        b"infinit",
        b"1e5.0",
        "١".encode(),
        "1\u00a0".encode(),
        "−1".encode(),
        b"1\x0c",
        b'"1"',
        b"True",
    ),
)
NONFINITE_NUMBERS = (b"nan", b"NaN", b"-nan", b"inf", b"-Inf", b"+inf", b"infinity", b"-INFINITY", b"1e999", b"-1e999")

good_numbers = st.one_of(
    st.sampled_from(GOOD_NUMBERS),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value).encode()),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: f"{value:.6g}".encode()),
    st.integers(-(10**6), 10**6).map(lambda value: str(value).encode()),
)


def words(*more: bytes, min_pieces: int = 1, max_pieces: int = 4) -> st.SearchStrategy[bytes]:
    """Words of hostile pieces; `more` adds to these."""
    pieces = st.lists(st.sampled_from(WORD_PIECES + more), min_size=min_pieces, max_size=max_pieces)
    return pieces.map(b"".join)


@dataclass(frozen=True)
class Whole:
    """A source read to its end."""

    keys: tuple[str, ...] | None
    vectors: NDArray[Any]
    rows: list[int]
    n: int
    d: int
    dtype: np.dtype[Any]
    format: str

    @property
    def words(self) -> list[bytes]:
        return [key.encode("utf-8", "surrogateescape") for key in self.keys or ()]


def read_whole(path: Path | str, **options: Any) -> Whole:
    """Read all chunks of a file, and compare `key_batches` with the keys that come with the vectors."""
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        batches = [chunk.read() for chunk in source.chunks()]
        keys = tuple(key for batch in batches for key in batch.keys or ()) if source.has_keys else None
        kinds = {batch.vectors.dtype.newbyteorder("=") for batch in batches}
        assert kinds == {source.dtype.newbyteorder("=")}, "batches are not of the dtype that was announced"
        vectors = np.concatenate([batch.vectors for batch in batches], dtype=source.dtype)  # keeps the byte order
        rows = [row for batch in batches for row in batch.rows.tolist()]
        told = tuple(key for batch in source.key_batches() for key in batch)
        if keys is not None:
            assert tuple(told[row] for row in rows) == keys, "key_batches and chunks give different keys"
        assert len(vectors) == len(rows) == source.n, "n is not the number of rows"
        return Whole(keys, vectors, rows, source.n, source.d, source.dtype, source.format)


@contextmanager
def file_of(data: bytes, name: str = "vectors.txt") -> Iterator[Path]:
    """Put bytes into a file that lasts as long as the block (a hypothesis test must not share tmp_path)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        yield path


@contextmanager
def unwarned() -> Iterator[None]:
    """Keep expected SalcliWarnings of generated files quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        yield

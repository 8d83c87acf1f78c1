"""How an embedding file is read."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from salcli.options.record import Record, option

if TYPE_CHECKING:  # help is shown without numpy
    import numpy as np

FORMAT_HELP = (
    "npy, npz, h5, parquet, arrow, safetensors, word2vec-text, glove, word2vec-bin, fbin, f16bin, fvecs, fasttext "
    "or gensim"
)
CHUNK_BYTES = 8 << 20  # large beside Python's overhead for each chunk, small enough for a few on every thread
WIDENED_CHUNK_BYTES = 16 << 20
STREAMED_CHUNK_BYTES = 32 << 20  # of rows that are read in batches, through a small buffer
BLOCK_ELEMENTS = 1 << 21  # in memory at once in a pass


def block_rows(d: int, elements: int = BLOCK_ELEMENTS) -> int:
    """Return the number of rows of width `d` in a block of about `elements` numbers, at least 1."""
    return int(max(1, elements // max(1, d)))


def _float32() -> "np.dtype[Any]":
    import numpy as np

    return np.dtype(np.float32)


@dataclass(frozen=True)
class ReadOptions(Record):
    """How to read an embedding file. By default everything is detected."""

    format: str | None = option(
        None, help=f"Force the input's format: {FORMAT_HELP}; default: by content.", metavar="F"
    )
    dataset: str | None = option(
        None,
        "--dataset",
        "--vector",
        help="Matrix inside an HDF5, npz or safetensors file, or column of vectors of a table; default: the only one, "
        "or of a table one named emb, embedding, embeddings or vector.",
        metavar="PATH",
        text=True,
    )
    keys_dataset: str | None = option(
        None,
        help="Keys inside an HDF5 or npz file, or column of them; default: the only list of strings that fits, or of a "
        "table the column id, _id, docid, doc_id, key or word.",
        metavar="PATH",
    )
    dequantize: str | None = option(
        None,
        help="Scale of int8 vectors, which are read as float16: a number, or the name of the tensor or column that has "
        "one for each row; default: int8 is refused.",
        metavar="COL|NUMBER",
        text=True,
    )
    keys_file: str | None = option(
        None, "--keys", help="Keys of a file that has none: text, one a line, or .npy.", metavar="FILE"
    )
    keyed: bool | None = option(
        None,
        off="--no-keys",
        help="Each row of a text file begins with a word, or is numbers only (whatever else the file holds, rows have "
        "no keys); default: words, unless every row begins with a number that has a point or exponent.",
    )
    batch_rows: int | None = option(
        None, help="Most rows read at once; default: by format, 1.5…32 MiB.", metavar="N", bounds=(1, None)
    )
    allow_pickle: bool = option(
        False, help="Open a .kv file or model that gensim pickled: loading it runs code, so only one you made yourself."
    )
    allow_nonfinite: bool = option(False, help="Drop rows with NaN or Inf instead of refusing the file.")
    text_dtype: "np.dtype[Any]" = field(default_factory=_float32)
    """What text is parsed to (the parser reads float64 and rounds once, as gensim does)."""
    widened_bytes: int = 0
    """Bytes of a row in memory, if they are more than in the file."""
    streamed_bytes: int = STREAMED_CHUNK_BYTES
    """Of a chunk whose rows can be read in batches, through a small buffer."""
    partition_elements: int | None = None
    """Most numbers of a partition, which the last bits of a sum depend on; None: see `partition_rows`."""
    survey_bytes: int | None = None
    """Bytes that are read at once to find rows of no fixed length; None: as the format has it."""

    @property
    def most_rows(self) -> int | None:
        """Largest number of rows of a chunk that is independent of the file; None: no limit."""
        if self.batch_rows is not None or not self.widened_bytes:
            return self.batch_rows
        return max(1, WIDENED_CHUNK_BYTES // self.widened_bytes)

    def rows_per_chunk(
        self, row_bytes: int, partition: int, multiple_of: int = 1, *, fills_buffers: bool = False
    ) -> int:
        """Return the number of rows of a chunk: a partition in equal parts where possible.

        Parameters
        ----------
        row_bytes : bytes of a row in the file
        partition : rows of a partition
        multiple_of : the result is a multiple of it, except for `batch_rows`
        fills_buffers : whether rows can be read in batches through a small buffer, so that chunks may be larger
        """
        if self.batch_rows is not None:
            return self.batch_rows
        rows = max(1, (self.streamed_bytes if fills_buffers else CHUNK_BYTES) // max(1, row_bytes))
        parts = -(-partition // min(rows, self.most_rows or rows))
        return max(1, partition // parts // multiple_of) * multiple_of

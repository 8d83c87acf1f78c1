"""Word vectors inside models that gensim reads: fastText's `.bin`, and gensim's pickles. They are in memory."""

import logging
import struct
from collections.abc import Iterator
from pickle import UnpicklingError
from typing import Any, NoReturn

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import partition_rows, require_shape, row_ranges
from salcli.errors import FormatError, UsageError, first_line, warn
from salcli.formats.base import FileReader, Output
from salcli.formats.files import ByteFile
from salcli.formats.keys import MAX_KEY
from salcli.formats.urls import is_url
from salcli.options import ReadOptions

FAULTS: tuple[type[Exception], ...] = (OSError, ValueError, AssertionError, LookupError, TypeError, AttributeError)
FAULTS += (ArithmeticError, MemoryError, NotImplementedError, EOFError, ImportError, UnpicklingError, struct.error)
ARGUMENTS = struct.Struct("<2i12id")  # magic, version; dim, …, bucket at 8 of the twelve; a threshold
COUNTS = struct.Struct("<3i2q")  # entries, words, labels, tokens, pruned
ENTRY_BYTES, DIM, BUCKET = 9, 2, 10  # behind a word: its count and kind; places in `ARGUMENTS`


class ModelReader(FileReader):
    """The words and vectors of a model, in its order."""

    has_keys = True

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Load the model.

        Parameters
        ----------
        file : of the model
        options : how rows are read

        Raises
        ------
        FormatError : the file is damaged, or holds no word vectors
        """
        self.path, self.file = file.name, file
        if is_url(self.path):
            raise FormatError(f"{self.path}: models are read from local files: download it first")
        self._loaded: Any = None
        self.n, self.d = self._model.vectors.shape
        require_shape(self.path, self.n, self.d)
        self.dtype = self._model.vectors.dtype
        self.partition = partition_rows(self.d, options.partition_elements)
        self._rows = options.rows_per_chunk(self.d * self.dtype.itemsize, self.partition)
        if hasattr(self._model, "vectors_ngrams"):
            warn(
                f"{self.path}: a fastText model: its words alone are erased, parts of words are not, so vectors that "
                "the model makes of unseen words still have the attribute: publish the words' vectors, not the model"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def _model(self) -> Any:
        if self._loaded is None:
            try:
                self._loaded = self.load()
                if (
                    len(self._loaded.index_to_key) != len(self._loaded.vectors)
                    or self._loaded.vectors.dtype.kind != "f"
                ):
                    raise ValueError("words and vectors do not match")
            except FAULTS as error:
                raise FormatError(
                    f"{self.path}: gensim cannot read word vectors from it ({first_line(error)})"
                ) from error
        return self._loaded

    def load(self) -> Any:
        """Return the file's `KeyedVectors`."""
        raise NotImplementedError

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        return row_ranges(self.n, self._rows, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows (see `Reader.read`)."""
        vectors: Floats = np.array(self._model.vectors[start:stop])
        return Embeddings.starting_at(start, vectors, tuple(self._model.index_to_key[start:stop]))


class FasttextReader(ModelReader):
    """A model that fastText wrote (`.bin`)."""

    format = "fasttext"

    def load(self) -> Any:
        """Return the words' vectors, of which each is the mean of those of its parts.

        Raises
        ------
        FormatError : the file ends too early, is quantized, or was trained to classify
        """
        from gensim.models.fasttext import load_facebook_vectors

        _require_model(self.file.plain())
        if not self.file.is_plain:
            raise FormatError(f"{self.path}: packed: unpack the model first")
        logging.getLogger("gensim").setLevel(logging.CRITICAL)  # its remarks are no errors
        with np.errstate(all="ignore"):  # of counts of words, which are not used
            return load_facebook_vectors(self.path)


class PickleReader(ModelReader):
    """`KeyedVectors`, or a model with them, that gensim saved; loading one runs what its writer put into it."""

    format = "gensim"

    def load(self) -> Any:
        """Return the file's `KeyedVectors`."""
        from gensim.utils import SaveLoad

        found = SaveLoad.load(self.path)
        return getattr(found, "wv", found)


def _require_model(file: ByteFile) -> None:
    """Check what gensim does not: it would read words behind the end for ever."""
    stream, path = file.stream(), file.name
    arguments = ARGUMENTS.unpack(_read(stream, ARGUMENTS.size, path))
    entries, n_words, n_labels, _, pruned = COUNTS.unpack(_read(stream, COUNTS.size, path))
    size = file.size or 0
    if n_labels:
        raise FormatError(f"{path}: a fastText classifier, with {n_labels:,} labels: models of words are read")
    if not 0 < n_words == entries <= size // ENTRY_BYTES or pruned > 0:
        raise FormatError(f"{path}: damaged or pruned fastText model: {n_words:,} words among {entries:,} entries")
    place, waiting, at = ARGUMENTS.size + COUNTS.size, b"", 0
    for _ in range(entries):
        while (end := waiting.find(b"\0", at)) < 0 or len(waiting) < end + 1 + ENTRY_BYTES:
            piece, waiting, at = stream.read(1 << 16), waiting[at:], 0
            if not piece or len(waiting) > MAX_KEY:
                raise FormatError(f"{path}: truncated fastText model: it ends among its words, or one has no end")
            waiting += piece
        stop = end + 1 + ENTRY_BYTES
        place, at = place + stop - at, stop
    head = file.read_up_to(place, 17).ljust(17, b"\0")
    rows, width = struct.unpack("<2q", head[1:])
    if head[0]:
        raise FormatError(f"{path}: a quantized fastText model: use the one it was made of")
    expected = (n_words + arguments[BUCKET], arguments[DIM])
    if (rows, width) != expected or rows * width * 4 > size - place - 17:
        raise FormatError(
            f"{path}: truncated or damaged fastText model: {rows:,} x {width:,} numbers in "
            f"{max(0, size - place - 17):,} bytes, expected {expected[0]:,} x {expected[1]:,}"
        )


def _read(stream: Any, n: int, path: str) -> bytes:
    data: bytes = stream.read(n)
    if len(data) < n:
        raise FormatError(f"{path}: truncated fastText model")
    return data


def refuse_model(output: Output) -> NoReturn:
    """Refuse to write a model.

    Raises
    ------
    UsageError : always; the message names what is written
    """
    raise UsageError(
        f"{output.target}: models are not written: name the output .vec, .npz or .h5, or give `output_format`"
    )

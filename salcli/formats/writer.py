"""`EmbeddingWriter`: what takes batches in file order and leaves a file."""

from typing import Any

from salcli.data.embeddings import Embeddings, Floats


class EmbeddingWriter:
    """Base of all writers. `encode` may run on any thread; `write` and what follows run on one, in file order."""

    takes_places = False
    """Whether `place` may stand for `encode` and `write`."""

    def place(self, row: int, vectors: Floats) -> None:
        """Write consecutive rows to where they belong; safe on any thread, in any order."""
        raise NotImplementedError

    def encode(self, batch: Embeddings) -> Any:
        """Turn a batch into what `write` takes."""
        raise NotImplementedError

    def write(self, piece: Any) -> None:
        """Append it."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what was held back; after this the file is whole."""

    def discard(self) -> None:
        """Let go of what is open, when the file will not be wanted."""

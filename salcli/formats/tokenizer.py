"""`tokenizer.json` of the `tokenizers` library: the token of each row of an embedding matrix beside it."""

import json
import os

from salcli.errors import FormatError, first_line, warn

TOKENIZER = "tokenizer.json"
MAX_BYTES = 256 << 20


def read_tokens(path: str, n: int, matrix: str) -> tuple[str, ...] | None:
    """Return the token of each row; None if there is no such file, or it has not one for each row.

    Parameters
    ----------
    path : of the `tokenizer.json`
    n : rows of the matrix
    matrix : path of the matrix, for messages

    Raises
    ------
    FormatError : the file is no such JSON
    """
    if not os.path.isfile(path):
        return None
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB")
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
        tokens = _tokens(found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"{path}: not the tokens of {matrix}: {first_line(error)} (`keyed=False` leaves them out)"
        ) from error
    if sorted(tokens) != list(range(n)):
        warn(f"{path}: {len(tokens):,} tokens, but {matrix} has {n:,} rows: not taken as keys")
        return None
    return tuple(tokens[row] for row in range(n))


def _tokens(found: dict) -> dict[int, str]:  # type: ignore[type-arg]
    """Return the token of each number: of WordPiece and BPE by name, of Unigram by place, and added ones."""
    vocabulary = found["model"]["vocab"]
    if isinstance(vocabulary, list):
        tokens = dict(enumerate(token for token, _ in vocabulary))
    else:
        tokens = {number: token for token, number in vocabulary.items()}
    tokens.update((added["id"], added["content"]) for added in found.get("added_tokens") or ())
    if not all(type(number) is int and isinstance(token, str) for number, token in tokens.items()):
        raise ValueError("a token is no text, or its number is none")
    return tokens

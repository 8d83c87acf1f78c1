"""Text in UTF-16, as spreadsheets save it, read as UTF-8."""

import codecs
from collections.abc import Iterator

from salcli.errors import FormatError

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before that of UTF-16, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
HEAD_BYTES = 4096
LEAST_SHARE = 16  # one letter of so many is ASCII, as delimiters, digits and line ends are


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of text whose first bytes are `head`, if it is UTF-16 or UTF-32; None for any other.

    Without a byte order mark it is UTF-16 if the high bytes of ASCII letters and line ends are at the right places.
    """
    if marked := next((name for mark, name in MARKS if head.startswith(mark)), None):
        return marked
    head = head[: min(len(head) // 2 * 2, HEAD_BYTES)]
    for name, high in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        n_ascii = high.count(0)
        if n_ascii < 2 or n_ascii * LEAST_SHARE < len(high) or head.count(0) != n_ascii:
            continue
        text = head.decode(name, "replace")
        if all(text.count(end) == head.count(end.encode()) for end in "\n\r") and ("\n" in text or "\r" in text):
            return name
    return None


def as_utf8(path: str, pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield pieces of text in UTF-8.

    Parameters
    ----------
    path : of the file, for messages
    pieces : of the text
    encoding : that they are in

    Raises
    ------
    FormatError : they are not in `encoding` throughout
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    n_bytes = 0
    try:
        for piece in pieces:
            yield decoder.decode(piece).encode()
            n_bytes += len(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: begins as {encoding.upper()} text but does not go on so near byte {n_bytes + error.start} "
            f"({error.reason}): save it as UTF-8"
        ) from error

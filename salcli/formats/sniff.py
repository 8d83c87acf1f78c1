"""The kind of a file, by its first bytes: formats that are read, and formats that are rejected by name."""

import codecs
import re
from typing import NamedTuple

from salcli.formats.text_rows import NUMBER

HEAD_BYTES = 65_536

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
GIT_LFS = b"version https://git-lfs"
NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
FASTTEXT_MAGIC = b"\xba\x16\x4f\x2f"

# Magic bytes, what the file is, and what to do about it.
REFUSED = (
    (b"(\xb5/\xfd", "zstd-compressed: decompress it first (zstd -d)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: extract the vectors first"),
    (b"Rar!", "a RAR archive: extract the vectors first"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PARE", "a Parquet file whose footer is encrypted: decrypt it first"),
    (b"%PDF", "a PDF document, not vectors"),
    (b"SQLite format 3", "an SQLite database, not vectors"),
    *((mark, "UTF-16 text: save it as UTF-8") for mark in UTF16_MARKS),
    (b"FEA1", "a Feather file, which salcli does not read: write its vectors as .npy or .h5"),
    (b"Obj\x01", "an Avro file, which salcli does not read: write its vectors as .npy or .h5"),
    (b"GGUF", "a GGUF model, not vectors: write its embedding matrix as .npy"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel or other Office file: save the sheet as tab-separated text"),
    (
        b"MATLAB 7.3 MAT-file",
        "a MATLAB file, whose matrices lie on their side: write rows as .npy or .h5",
    ),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file, which salcli does not read: write its vectors as .npy or .h5"),
    (GIT_LFS, "a Git LFS pointer, not the file itself: run `git lfs pull`"),
)
HTML = re.compile(rb"\s*(<!--.*?-->\s*)?<(!doctype\s+html|html|head|body|\?xml)", re.IGNORECASE | re.DOTALL)
# The protocol opcode, then what a pickle of an object, dict, list or tuple starts with; before protocol 2, that alone.
PICKLE = re.compile(
    rb"\x80[\x02-\x05](\x95|[\}\]\)\(cX\x8c\x8aGJKMNTU])|c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n[pq(]"
    rb"|\([dl]p\d\n|\(i[A-Za-z_][\w.]*\n|[\]}]q[\x00\x01]"
)
# Magic bytes that could begin a word, with further bytes that could not.
BINARY = (
    (re.compile(rb"ORC[^\x00-\x08]{0,500}[\x00-\x08]", re.DOTALL), "an ORC file, which salcli does not read"),
    (
        re.compile(rb"I[A-Za-z][A-Za-z0-9]{2}..\x00\x00", re.DOTALL),
        "a faiss index, which salcli does not read",
    ),
)
SAFETENSORS = re.compile(rb".{4}\x00{4}\{\s*[\"}]", re.DOTALL)  # the length of a JSON header, and its beginning
TAR_AT = 257
HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?(?:\n|\Z)")
NUMBER_BYTES = frozenset(b"0123456789+-.eE \t")


class Header(NamedTuple):
    """The first line of a word2vec file."""

    n: int
    d: int
    n_bytes: int


def is_safetensors(head: bytes) -> bool:
    """Return whether content that begins with `head` is of safetensors."""
    return SAFETENSORS.match(head) is not None


def is_table(head: bytes) -> bool:
    """Return whether content that begins with `head` is a table of named columns, in a format of its own."""
    return head.startswith(PARQUET_MAGIC) or is_arrow(head)


def is_arrow(head: bytes) -> bool:
    """Return whether content that begins with `head` is an Arrow file, or a stream of Arrow messages."""
    length = int.from_bytes(head[4:8], "little")  # of the schema, padded to 8 bytes
    return head.startswith(ARROW_MAGIC) or (head.startswith(b"\xff" * 4) and 0 < length < 1 << 28 and length % 8 == 0)


def compression_of(head: bytes) -> str | None:
    """Return the name of the compression that `head`, a file's first bytes, starts with; None if it is plain."""
    return next((name for magic, name in COMPRESSIONS.items() if head.startswith(magic)), None)


def is_pickle(head: bytes) -> bool:
    """Return whether content that begins with `head` is a Python pickle."""
    return PICKLE.match(head) is not None


def refusal(head: bytes, *, allows_pickle: bool = False) -> str | None:
    """Return the kind of a file that salcli cannot read; None if it may be readable.

    Parameters
    ----------
    head : its first bytes
    allows_pickle : whether pickles are opened
    """
    if not head:
        return "an empty file"
    for magic, reason in REFUSED:
        if head.startswith(magic):
            return reason
    if HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "an HTML or XML page, not vectors: the download may have saved an error page"
    if not allows_pickle and is_pickle(head):
        return (
            "a Python pickle (a gensim model?), which could run code when loaded, so it is never opened: "
            "export it with KeyedVectors.save_word2vec_format, or give `allow_pickle` if you made it yourself"
        )
    for pattern, kind in BINARY:
        if pattern.match(head):
            return f"{kind}: write the vectors as .npy or .h5"
    if head[TAR_AT : TAR_AT + 5] == b"ustar":
        return "a tar archive: extract the vectors first"
    return None


def word2vec_header(head: bytes) -> Header | None:
    """Return the header `n d` in the first line of `head`, if that is two non-negative integers and nothing else."""
    match = HEADER.match(head)
    return Header(int(match[1]), int(match[2]), match.end()) if match else None


def is_word2vec_text(head: bytes) -> bool:
    """Return whether content that begins with `head` (64 KiB) has a word2vec header and a row of text."""
    return _has_header(head, is_binary=False)


def is_word2vec_binary(head: bytes) -> bool:
    """Return whether content that begins with `head` (64 KiB) has a word2vec header and a binary record, or none."""
    return _has_header(head, is_binary=True) or is_word2vec_without_rows(head)


def is_word2vec_without_rows(head: bytes) -> bool:
    """Return whether content that begins with `head` is a word2vec header of no rows alone, as text or binary."""
    header = word2vec_header(head)
    return header is not None and not header.n and len(head) == header.n_bytes


def _has_header(head: bytes, *, is_binary: bool) -> bool:
    header = word2vec_header(head.removeprefix(b"\xef\xbb\xbf"))
    return header is not None and looks_binary(head[header.n_bytes :], header.d) == is_binary


def looks_like_vectors(line: str) -> bool:
    """Return whether `line` may be the first of a text or binary file of vectors: a word and numbers, or `n d`."""
    data = line.encode("utf-8", "surrogateescape")
    fields = data.split()
    return HEADER.match(data) is not None or (len(fields) > 3 and all(map(NUMBER.fullmatch, fields[-3:])))


def looks_binary(body: bytes, d: int | None = None) -> bool:
    """Return whether the first row is a float32 record rather than text.

    Parameters
    ----------
    body : what follows the header, at least its first 64 KiB
    d : dimensions, if a header announced them
    """
    line, feed, _ = body.partition(b"\n")
    fields = line.replace(b"\t", b" ").split()
    is_cut = not feed and len(body) >= HEAD_BYTES // 2
    numbers = fields[1:-1] if is_cut else fields[-(d or 1) :]
    if len(numbers) >= (1 if is_cut or d is None else d) and all(map(NUMBER.fullmatch, numbers)):
        return False
    if any(byte < 32 and byte not in b"\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f" for byte in body[:4096]):
        return True
    if d is None and _is_utf8(body[:4096]):
        return False  # prose, a CSV …: not rows of vectors, but the reader of text has the best error messages
    _, _, behind_word = (body if is_cut else line).partition(b" ")
    return sum(byte in NUMBER_BYTES or byte == 0x2C for byte in behind_word) * 2 < len(behind_word)


def _is_utf8(head: bytes) -> bool:
    """Return whether bytes are UTF-8, but for a last character that may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True

import io
import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from salcli.errors import FormatError
from salcli.formats.registry import open_source, recognised
from salcli.formats.sniff import (
    compression_of,
    looks_binary,
    looks_like_vectors,
    refusal,
    word2vec_header,
)

from .strategies import file_of


def orc_file() -> bytes:
    handle = io.BytesIO()
    orc.write_table(pa.table({"x": [1.5, 2.5] * 100, "word": ["a", "b"] * 100}), handle)
    return handle.getvalue()


def zip_of(*names: str) -> bytes:
    handle = io.BytesIO()
    with zipfile.ZipFile(handle, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return handle.getvalue()


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"", "empty"),
        (b"(\xb5/\xfd", "zstd"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"\xef\xbb\xbf  <html lang='en'>", "HTML"),
        (b"<!-- saved -->\n<!doctype HTML>", "HTML"),
        (b"<?xml version='1.0'?>", "HTML or XML"),
        (pickle.dumps({"a": 1}, 2), "pickle"),
        (pickle.dumps({"a": 1}, 4), "pickle"),
        (pickle.dumps([1], 5), "pickle"),
        (b"\xff\xfea\x00 \x001\x00", "UTF-16"),
        (b"%PDF-1.7", "PDF"),
        (pickle.dumps((1, 2), 2), "pickle"),
        (pickle.dumps({"a": [1.5]}, 1), "pickle"),
        (pickle.dumps([1.5], 0), "pickle"),
        (b"(lp1\nF1.5\na.", "pickle"),
        (b"(dp1\nS'a'\np2\nI1\ns.", "pickle"),
        (orc_file(), "ORC"),
        (b"IxF2" + (128).to_bytes(4, "little") + (10).to_bytes(8, "little") + bytes(5120), "faiss"),
        (zip_of("[Content_Types].xml", "xl/workbook.xml"), "Excel"),
        (zip_of("content.xml", "mimetype"), "Office"),
        (zip_of("archive/data.pkl", "archive/data/0"), "PyTorch"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "Excel"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"x" * 257 + b"ustar", "tar"),
    ],
)
def test_what_is_no_embedding_file_is_named(head: bytes, told: str) -> None:
    assert head.startswith(b"PK") or told in str(refusal(head))
    with file_of(head, "vectors.txt") as path, pytest.raises(FormatError, match=rf"vectors\.txt: .*{told}"):
        open_source(str(path))


@pytest.mark.parametrize(
    "head",
    [
        b"ORC 0.1 0.2\norc 0.1 0.2",
        b"IxF2 0.1 0.2\n",
        b"(lp 0.1 0.2\n",
        b"GGU 0.1 0.2\n",
        b"the 0.1 0.2\n",
        b"2 3\n",
        b"<unk> 0.1 0.2\n",
        b"</s> 1 2\n",
        b"html 1 2\n",
        b"\x80 1 2\n",
    ],
)
def test_words_that_look_odd_are_not_refused(head: bytes) -> None:
    assert refusal(head) is None


def test_compressions_are_told_by_their_first_bytes() -> None:
    assert [compression_of(head) for head in (b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"the")] == [
        "gzip",
        "bz2",
        "xz",
        None,
    ]


@pytest.mark.parametrize(
    ("line", "header"),
    [
        (b"5 4\n", (5, 4)), (b"5\t4\r\n", (5, 4)), (b" 5 4 \n", (5, 4)), (b"0 0\n", (0, 0)), (b"5 4", (5, 4)),
        (b"-5 4\n", None), (b"5 4 1\n", None), (b"5\n", None), (b"5.0 4\n", None), (b"the 1\n", None),
        (b"1_0 4\n", None),
    ],
)  # fmt: skip
def test_a_header_is_two_non_negative_integers_and_nothing_else(line: bytes, header: tuple[int, int] | None) -> None:
    found = word2vec_header(line)
    assert (found and (found.n, found.d)) == header


@given(
    st.integers(1, 400), st.integers(1, 30), st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 100.0]), st.booleans()
)
def test_binary_records_are_told_from_text(d: int, n: int, seed: int, scale: float, has_feeds: bool) -> None:
    x = (np.random.default_rng(seed).normal(size=(n, d)) * scale).astype("<f4")
    words = [f"word{i}".encode() for i in range(n)]
    binary = b"".join(w + b" " + row.tobytes() + b"\n" * has_feeds for w, row in zip(words, x, strict=True))
    text = b"".join(
        w + b" " + " ".join(map(repr, row.tolist())).encode() + b"\n" for w, row in zip(words, x, strict=True)
    )
    header = f"{n} {d}\n".encode()
    assert recognised((header + binary)[:65536]).name == "word2vec-bin"
    assert recognised((header + text)[:65536]).name == "word2vec-text"
    assert recognised(text[:65536]).name == "glove"


@pytest.mark.parametrize(
    "row", [b"a 0.1 0.2", b"\x01\x02 0.1 0.2", b"a b c 1 2", b"a\t1\t2", b"a nan inf", b"a 1e-5 -.5"]
)
def test_a_row_of_text_is_text_whatever_its_word_holds(row: bytes) -> None:
    assert not looks_binary(row + b"\n" + row, 2)
    assert not looks_binary(row + b"\n" + row)


def test_a_text_row_with_a_fault_is_still_text() -> None:
    assert not looks_binary(b"bolta 0,125 0,25\n", 2)
    assert not looks_binary(b"kirun 0.1 0.2 0.3\n", 4)


@pytest.mark.parametrize(
    "text", ["Dear all,\nthis is a letter.\n", "word,g\nhe,1\n", "é\n" * 40_000, "# title\n\nprose\n"]
)
def test_prose_is_no_binary(text: str) -> None:
    assert not looks_binary(text.encode()[:65536])


def test_floats_are_no_prose() -> None:
    x = np.random.default_rng(0).normal(size=(20, 12)).astype("<f4")
    assert looks_binary(b"".join(b"w%d " % i + row.tobytes() for i, row in enumerate(x)))


@pytest.mark.parametrize(
    ("line", "is_vectors"),
    [
        ("the -0.1 0.25 3", True), ("5000 100", True), ('" 1 2 3', True), ("a b c 1 2 3", True),
        ("label", False), ("group 1", False), ("label of 2", False), ("2024", False), ("", False),
        ("\udcff 1 2 3", True), ("1 2 3", False), ("a 1 2", False),
    ],
)  # fmt: skip
def test_a_column_name_is_told_from_the_first_row_of_vectors(line: str, is_vectors: bool) -> None:
    assert looks_like_vectors(line) is is_vectors

"""word2vec binary: against gensim in both directions, and files that lie about themselves."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, SalcliWarning
from salcli.formats import word2vec_binary
from salcli.formats.word2vec_binary import Word2vecBinaryWriter

from .strategies import file_of, read_whole, unwarned

RNG = np.random.default_rng(5)
VECTORS = RNG.standard_normal((6, 3)).astype(np.float32)
WORDS = (b"the", "é".encode(), b"new_york", b"a" * 300, b'"', "語\u00a0".encode())

plain_words = st.lists(
    st.text(st.characters(blacklist_categories=("Cs", "Z", "Cc")), min_size=1, max_size=8),
    min_size=1,
    max_size=8,
    unique=True,
)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=True)


def content(
    words: tuple[bytes, ...], vectors: NDArray[Any], *, behind: bytes = b"", header: bytes | None = None
) -> bytes:
    head = b"%d %d\n" % vectors.shape if header is None else header
    return head + b"".join(w + b" " + v.tobytes() + behind for w, v in zip(words, vectors, strict=True))


def written(keys: tuple[str, ...], vectors: NDArray[Any], batch_rows: int = 2) -> bytes:
    handle = io.BytesIO()
    writer = Word2vecBinaryWriter(handle, n=len(keys), d=vectors.shape[1], dtype=vectors.dtype, target="out.bin")
    for start in range(0, len(keys), batch_rows):
        part = slice(start, start + batch_rows)
        writer.write(writer.encode(Embeddings.starting_at(start, vectors[part], keys[part])))
    writer.close()
    return handle.getvalue()


@st.composite
def keyed(draw: st.DrawFn) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    keys, d = tuple(draw(plain_words)), draw(st.integers(1, 5))
    values = draw(st.lists(numbers, min_size=len(keys) * d, max_size=len(keys) * d))
    return keys, np.array(values, np.float32).reshape(len(keys), d)


@settings(max_examples=100)
@given(keyed(), st.sampled_from([None, 1, 3]), st.sampled_from([1, 17, 8 << 20]))
def test_what_gensim_writes_is_read_bit_for_bit(
    case: tuple[tuple[str, ...], NDArray[np.float32]], batch_rows: int | None, piece: int
) -> None:
    keys, vectors = case
    held = KeyedVectors(vectors.shape[1])
    held.add_vectors(list(keys), vectors)
    with file_of(b"", "vectors.bin") as path:
        held.save_word2vec_format(str(path), binary=True, sort_attr=None)
        found = read_whole(path, batch_rows=batch_rows, format="word2vec-bin", survey_bytes=piece)
    assert found.words == [key.encode() for key in held.index_to_key]
    assert found.vectors.tobytes() == held.vectors.tobytes()


@settings(max_examples=100)
@given(keyed())
def test_what_is_written_is_read_by_gensim_bit_for_bit_and_read_back(
    case: tuple[tuple[str, ...], NDArray[np.float32]],
) -> None:
    keys, vectors = case
    with file_of(written(keys, vectors), "vectors.bin") as path:
        text = KeyedVectors.load_word2vec_format(str(path), binary=True)
        found = read_whole(path, format="word2vec-bin")
    assert text.index_to_key == list(keys) == list(found.keys or ())
    assert text.vectors.tobytes() == vectors.tobytes() == found.vectors.tobytes()


@pytest.mark.parametrize("behind", [b"", b"\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("batch_rows", [None, 1, 4])
def test_records_may_be_parted_by_line_feeds_and_compressed(behind: bytes, pack: Any, batch_rows: int | None) -> None:
    with file_of(pack(content(WORDS, VECTORS, behind=behind)), "v.bin") as path:
        found = read_whole(path, batch_rows=batch_rows)
    assert found.format == "word2vec-bin"
    assert tuple(found.words) == WORDS
    assert found.vectors.tobytes() == VECTORS.tobytes()


@settings(max_examples=150)
@given(st.integers(0, len(content(WORDS, VECTORS)) - 1), st.booleans(), st.sampled_from([3, 8 << 20]))
def test_a_file_cut_anywhere_is_refused(cut: int, is_compressed: bool, piece: int) -> None:
    data = content(WORDS, VECTORS)[:cut]
    with (
        file_of(gzip.compress(data) if is_compressed else data, "v.bin") as path,
        pytest.raises(FormatError, match=str(path)),
    ):
        read_whole(path, survey_bytes=piece)


@settings(max_examples=60)
@given(st.integers(10, len(gzip.compress(content(WORDS, VECTORS), mtime=0)) - 1))
def test_a_compressed_stream_cut_anywhere_is_refused(cut: int) -> None:
    packed = gzip.compress(content(WORDS, VECTORS), mtime=0)
    with file_of(packed[:cut], "v.bin.gz") as path, pytest.raises(FormatError, match=str(path)):
        read_whole(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"7 3\n", "truncated"),
        (b"5 3\n", "line 1 announces 5 records, but .* follow record 4"),
        (b"1000000000 3\n", "truncated"),
        (b"6 4\n", "truncated|not float32"),
        (b"6 2\n", "not float32"),
        (b"0 3\n", "no rows to read"),
        (b"6 0\n", "no rows to read"),
        (b"6\n", "header"),
    ],
)
def test_a_header_that_lies_is_refused(header: bytes, message: str) -> None:
    with file_of(content(WORDS, VECTORS, header=header), "v.bin") as path:
        with pytest.raises(FormatError, match=message) as caught:
            read_whole(path, format="word2vec-bin")
        assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_numbers_of_another_width_are_refused(dtype: type, n: int) -> None:
    vectors = np.random.default_rng(n).standard_normal((n, 20)).astype(dtype)
    words = tuple(b"w%d" % i for i in range(n))
    with file_of(content(words, vectors), "v.bin") as path, pytest.raises(FormatError, match="not float32"):
        read_whole(path)


@pytest.mark.parametrize("behind", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("row", [0, 3, 5])
def test_an_empty_word_is_refused_naming_its_record(row: int, behind: bytes) -> None:
    words = (*WORDS[:row], b"", *WORDS[row + 1 :])
    with file_of(content(words, VECTORS, behind=behind), "v.bin") as path:
        with pytest.raises(FormatError, match=rf"record {row} \(counting from 0\) has an empty word"):
            read_whole(path)


def test_a_word_without_end_is_refused() -> None:
    data = b"2 3\n" + b"x" * 70_000 + b" " + b"\x00" * 12 + b"b " + b"\x00" * 12
    with file_of(data, "v.bin") as path, pytest.raises(FormatError, match="record 0 .*no space within 65536 bytes"):
        read_whole(path, format="word2vec-bin")


def test_a_line_feed_inside_a_word_is_refused() -> None:
    with file_of(content((*WORDS[:3], b"a\nb", *WORDS[4:]), VECTORS), "v.bin") as path:
        with pytest.raises(FormatError, match="record 3 .*a line feed inside a word"):
            read_whole(path)


def test_words_that_are_not_utf8_travel_unchanged_with_one_warning() -> None:
    words = (b"a", b"caf\xe9", b"\xff\xfe", b"b", b"c", b"d")
    with file_of(content(words, VECTORS), "v.bin") as path:
        with pytest.warns(SalcliWarning) as caught:
            found = read_whole(path, batch_rows=2)
        assert len(caught) == 1
        assert "record 1 (counting from 0): word 'caf\\\\xe9': bytes that are not UTF-8" in str(caught[0].message)
        assert "and 1 more such rows" in str(caught[0].message)
    assert tuple(found.words) == words
    assert written(found.keys or (), found.vectors) == content(words, VECTORS)


def test_nan_is_refused_naming_row_and_word_or_dropped() -> None:
    vectors = VECTORS.copy()
    vectors[2, 1] = np.nan
    with file_of(content(WORDS, vectors), "v.bin") as path:
        with pytest.raises(FormatError, match=r"row 2|record 2"):
            read_whole(path)
        with pytest.warns(SalcliWarning, match="1 rows with NaN or Inf are dropped"):
            found = read_whole(path, allow_nonfinite=True, batch_rows=2)
    assert found.rows == [0, 1, 3, 4, 5]


@settings(max_examples=100)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_a_key_is_refused_or_reads_back(keys: list[str]) -> None:
    vectors = np.full((len(keys), 2), 0.3, np.float32)
    try:
        data = written(tuple(keys), vectors)
    except FormatError:
        assert any(not key or " " in key or "\n" in key for key in keys)
        return
    with file_of(data, "v.bin") as path, unwarned():
        assert read_whole(path, format="word2vec-bin").keys == tuple(keys)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_dtypes_are_not_written(dtype: type) -> None:
    with pytest.raises(FormatError, match=r"^out\.bin: word2vec binary holds float32 only"):
        written(("a",), np.ones((1, 2), dtype))


def test_big_endian_float32_is_written_little_endian(tmp_path: Path) -> None:
    vectors = VECTORS.astype(">f4")
    assert written(tuple("abcdef"), vectors) == content(tuple(c.encode() for c in "abcdef"), VECTORS)


@pytest.mark.parametrize("packs", [False, True])
def test_what_follows_the_last_record_is_seen_however_far_behind_it(packs: bool) -> None:
    blank = b"\n" * (2 * word2vec_binary.SURVEY_BYTES)
    for rest in (b"", b"\0", b"x 1"):
        data = content(WORDS, VECTORS) + blank + rest
        with file_of(gzip.compress(data, 1) if packs else data, "v.bin.gz" if packs else "v.bin") as path:
            if rest:
                with pytest.raises(FormatError, match="the count is too small"):
                    read_whole(path)
            else:
                assert len(read_whole(path).vectors) == len(WORDS)

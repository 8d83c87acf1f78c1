"""Words of fastText models and of gensim's pickles are those that gensim reads; damaged models are refused."""

import logging
import pickle
import struct
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import load_facebook_vectors, save_facebook_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.errors import FormatError, SalcliWarning, UsageError
from salcli.formats.registry import create, open_source, output_format
from salcli.options import ReadOptions
from tests.cli.helpers import refuse, succeed

WORDS = ["he", "she", "king", "queen", "é", "prince"]
OWN = ReadOptions(allow_pickle=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("m") / "m.bin"
    logging.getLogger("gensim").setLevel(logging.CRITICAL)
    save_facebook_model(FastText([WORDS] * 9, vector_size=4, min_count=1, bucket=20, epochs=1, workers=1), str(path))
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    found = KeyedVectors(4)
    found.add_vectors(WORDS, np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))
    found.save(str(tmp_path / "v.kv"))
    return tmp_path / "v.kv"


def test_words_of_a_fasttext_model_are_those_of_gensim(model: Path) -> None:
    expected = load_facebook_vectors(str(model))
    with pytest.warns(SalcliWarning, match="parts of words are not"):
        source = open_source(str(model))
    with closing(source):
        copy = pickle.loads(pickle.dumps(source.shards[0].reader))
        batch = copy.read(1, 4)
        copy.close()
        assert_array_equal(batch.vectors, expected.vectors[1:4])
        assert [key for keys in source.key_batches() for key in keys] == expected.index_to_key
        assert_array_equal(np.concatenate([c.read().vectors for c in source.chunks()]), expected.vectors)
        with pytest.raises(UsageError, match=r"name the output \.vec"):
            with create("o", source, d=4, dtype=np.dtype("f4"), format_name=output_format("o", source, None)):
                pass


def test_a_model_is_erased_into_vectors(model: Path, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("word,y\nhe,m\nking,m\nshe,f\nqueen,f\n", encoding="ascii")
    succeed("fit", model, tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    succeed("apply", tmp_path / "e.npz", model, "-o", tmp_path / "o.bin")
    found, before = (
        KeyedVectors.load_word2vec_format(tmp_path / "o.bin", binary=True),
        load_facebook_vectors(str(model)),
    )
    assert found.index_to_key == before.index_to_key
    gaps = [(m["he"] + m["king"] - m["she"] - m["queen"]) for m in (found, before)]
    assert np.abs(gaps[0]).max() < 1e-5 * np.abs(gaps[1]).max() + 1e-6


def test_a_pickle_is_opened_only_where_it_is_allowed(vectors: Path) -> None:
    refuse(3, "inspect", vectors, says="--allow-pickle")
    with closing(open_source(str(vectors), OWN)) as source:
        (batch,) = (chunk.read() for chunk in source.chunks())
    assert list(batch.keys or ()) == WORDS
    assert_array_equal(batch.vectors, KeyedVectors.load(str(vectors)).vectors)


@pytest.mark.parametrize("content", [{"a": 1}, [1, 2], KeyedVectors(3)])
def test_a_pickle_of_anything_else_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "x.kv").write_bytes(pickle.dumps(content))
    with pytest.raises(FormatError, match="cannot read word vectors|the matrix is empty"):
        open_source(str(tmp_path / "x.kv"), OWN)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(4, 330), st.integers(0, 255), st.booleans())
def test_a_damaged_model_is_refused_in_one_line_or_read(
    model: Path, tmp_path: Path, at: int, byte: int, cut: bool
) -> None:
    data = model.read_bytes()
    damaged = data[:at] if cut else data[:at] + bytes([byte]) + data[at + 1 :]
    (tmp_path / "x.bin").write_bytes(damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        try:
            open_source(str(tmp_path / "x.bin")).close()
        except FormatError as error:
            found = str(error)
        else:
            found = ""
    assert len(found.splitlines()) == (1 if cut else len(found.splitlines()[:1]))


def test_kinds_of_models_without_words_are_named(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    for at, value, found in [
        (72, struct.pack("<i", 3), "classifier"),
        (64, struct.pack("<i", 10**9), "damaged or pruned"),
    ]:
        (tmp_path / "x.bin").write_bytes(data[:at] + value + data[at + 4 :])
        with pytest.raises(FormatError, match=found):
            open_source(str(tmp_path / "x.bin"))

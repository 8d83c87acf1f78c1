"""Embedding files in memory, and gensim's vectors, which are those that `salcli apply` writes."""

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors, Word2Vec

import salcli
from salcli.api import keyed, loading
from salcli.commands.apply import apply
from salcli.errors import FormatError, ParameterError, UsageError
from salcli.options import ApplyOptions
from tests.api.test_estimators import rows

WORDS = [f"w{i}" for i in range(200)]


@pytest.fixture
def kv() -> Any:
    found = KeyedVectors(12)
    x, _ = rows(n=200)
    found.add_vectors(WORDS, x / x.std(axis=0))
    found.set_vecattr("w0", "count", 7)
    return found


@pytest.fixture
def sal(kv: Any) -> Any:
    return salcli.SAL().fit(kv.vectors, guarded=rows(n=200)[1]["gender"])


@pytest.mark.parametrize("is_loaded", [False, True])
def test_vectors_of_gensim_are_those_that_apply_writes(kv: Any, sal: Any, is_loaded: bool, tmp_path: Path) -> None:
    path, source, target = (str(tmp_path / name) for name in ("e.npz", "in.bin", "out.bin"))
    sal.to_artifact(path)
    kv.save_word2vec_format(source, binary=True)
    apply(path, source, target, ApplyOptions())
    expected = KeyedVectors.load_word2vec_format(target, binary=True)
    found = salcli.erase_keyed_vectors(kv, salcli.load_eraser(path) if is_loaded else sal)
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert found.index_to_key == expected.index_to_key
    assert found.most_similar("w3") == expected.most_similar("w3")
    np.testing.assert_array_equal(found.norms, np.linalg.norm(expected.vectors, axis=1))


def test_a_copy_shares_nothing_with_the_original(kv: Any, sal: Any) -> None:
    before = kv.vectors.copy()
    kv.fill_norms()
    norms = kv.norms.copy()
    found = salcli.erase_keyed_vectors(kv, sal)
    found.add_vectors(["new"], np.ones((1, 12), np.float32))
    found.set_vecattr("w0", "count", 9)
    np.testing.assert_array_equal(kv.vectors, before)
    np.testing.assert_array_equal(kv.norms, norms)
    assert ("new" in kv, kv.get_vecattr("w0", "count"), len(kv)) == (False, 7, 200)


def test_in_place_the_vectors_and_norms_are_replaced(kv: Any, sal: Any) -> None:
    expected = salcli.erase_keyed_vectors(kv, sal)
    kv.fill_norms()
    before = kv.vectors
    assert salcli.erase_keyed_vectors(kv, sal, in_place=True) is kv
    np.testing.assert_array_equal(kv.vectors, expected.vectors)
    np.testing.assert_array_equal(kv.norms, expected.norms)
    assert not np.array_equal(before, kv.vectors)  # which may be mapped from a file
    assert kv.similarity("w0", "w1") == expected.similarity("w0", "w1")


def test_features_of_a_kernel_have_another_width(kv: Any) -> None:
    ksal = salcli.KernelSAL(landmarks=50).fit(kv.vectors, guarded=rows(n=200)[1]["gender"])
    found = salcli.erase_keyed_vectors(kv, ksal)
    assert found.vector_size == found.vectors.shape[1] > 12
    assert found["w5"].shape == (found.vector_size,)


def test_models_and_vectors_of_fasttext_are_refused(sal: Any) -> None:
    sentences = [["a", "b", "c"]] * 5
    with pytest.raises(UsageError, match=r"`model\.wv`"):
        salcli.erase_keyed_vectors(Word2Vec(sentences, vector_size=12, min_count=1), sal)
    fasttext = FastText(sentences, vector_size=12, min_count=1, bucket=100).wv
    with pytest.raises(UsageError, match="n-grams"):
        salcli.erase_keyed_vectors(fasttext, sal)
    plain = KeyedVectors(12)
    plain.add_vectors(fasttext.index_to_key, fasttext.vectors)
    assert len(salcli.erase_keyed_vectors(plain, sal)) == 3
    with pytest.raises(ValueError, match="12"):
        salcli.erase_keyed_vectors(KeyedVectors(5, 1), sal)


def test_an_embedding_file_is_loaded_whole(kv: Any, tmp_path: Path) -> None:
    text, binary, array = (str(tmp_path / name) for name in ("x.txt", "x.bin", "x.npy"))
    kv.save_word2vec_format(text)
    kv.save_word2vec_format(binary, binary=True)
    np.save(array, kv.vectors)
    for path, options in ((text, {}), (binary, {"batch_rows": 7}), (binary, {"format": "word2vec-bin"})):
        found = salcli.load(path, **options)
        np.testing.assert_array_equal(found.vectors, kv.vectors)
        assert found.keys == tuple(WORDS)
    plain = salcli.load(array)
    assert (plain.keys, plain.vectors.dtype, plain.rows.tolist()) == (None, np.float32, list(range(200)))
    broken = kv.vectors.copy()
    broken[3, 1] = np.nan
    np.save(array, broken)
    with pytest.warns(UserWarning, match="dropped"):
        assert len(salcli.load(array, allow_nonfinite=True)) == 199


def test_what_is_no_embedding_file_is_refused(sal: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "e.npz")
    sal.to_artifact(path)
    with pytest.raises(FormatError, match="is an eraser.*load_eraser"):
        salcli.load(path)
    with pytest.raises(ParameterError, match="no option of load"):
        salcli.load(path, limit=3)


@pytest.mark.parametrize("module", [keyed, loading])
def test_the_examples_run(module: Any) -> None:
    assert doctest.testmod(module).failed == 0

"""`similarity`: which words are looked up, and what cannot be."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.errors import AlignmentError
from salcli.evaluation.similarity import gather_words
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions, ReadOptions

from ..cli.helpers import save_npy, words, write_embeddings


def test_the_words_of_all_sets_are_read_once_with_their_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    path = write_embeddings(tmp_path / "x.npz", x, [word.encode() for word in words(30)])
    (tmp_path / "a.tsv").write_text("w1\tw2\t3\nw2\tgone\t1\n", "utf-8")
    (tmp_path / "b.tsv").write_text("w2\tw9\t2\n", "utf-8")
    options = EvaluateOptions(similarity=(str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")))
    with closing(open_source(str(path), ReadOptions())) as source:
        found = gather_words(source, options)
    assert [len(gold.pairs) for gold in found.sets] == [2, 1]
    assert dict(found.rows) == {"w1": 1, "w2": 2, "w9": 9}
    for word, row in found.rows.items():
        assert_array_equal(found.before[word], x[row])


def test_a_file_without_keys_has_no_words(tmp_path: Path) -> None:
    path = save_npy(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "a.tsv").write_text("w1\tw2\t3\n", "utf-8")
    with closing(open_source(str(path), ReadOptions())) as source:
        assert gather_words(source, EvaluateOptions()).sets == ()
        with pytest.raises(AlignmentError, match="has no keys"):
            gather_words(source, EvaluateOptions(similarity=(str(tmp_path / "a.tsv"),)))

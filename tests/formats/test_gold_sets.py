import subprocess
import sys

import pytest

from salcli.errors import FormatError
from salcli.formats import gold_sets
from salcli.formats.gold_sets import SimilaritySet, read_similarity

from .strategies import file_of

PAIRS, SCORES = (("old", "new"), ("big cat", "tiger")), (1.58, 9.2)


def read(text: str) -> SimilaritySet:
    with file_of(text.encode(), "set.txt") as path:
        return read_similarity(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "old\tnew\t1.58\nbig cat\ttiger\t9.2\n",
        "old,new,1.58\nbig cat,tiger,9.2",
        "Word 1,Word 2,Human (mean)\r\nold,new,1.58\r\nbig cat,tiger,9.2\r\n",
        "# a comment\n\nold\tnew\t1.58\nbig cat\ttiger\t9.2\n",
        "word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2.7\nbig cat\ttiger\tN\t9.2\t4\n",
        "\ufeffold;new;1.58\nbig cat;tiger;9.2\n",
        '"old","new",1.58\n"big cat","tiger",9.2\n',
        'old, new, 1.58\n"big cat", "tiger", 9.2\n',
        '"Word, first";"Word, second";"score"\r\n"old";"new";"1.58"\r\n"big cat";"tiger";"9.2"\r\n',
        "Word 1,Word 2,Human (mean),1,2,3\nold,new,1.58,1,2,2\nbig cat,tiger,9.2,9,9,10\n",
        ",word1,word2,score\n0,old,new,1.58\n1,big cat,tiger,9.2\n",
        "1\told\tnew\t1.58\n2\tbig cat\ttiger\t9.2\n",
        "\ufeff# a comment\r\n  # and one more\r\nold\tnew\t1.58\t\r\n\r\nbig cat\ttiger\t9.2\t\r\n",
    ],
)
def test_published_layouts_read_to_the_same_pairs(text: str) -> None:
    found = read(text)
    assert (found.pairs, found.scores) == (PAIRS, SCORES)


def test_spaces_may_part_the_fields() -> None:
    assert read("old new 1.58\nsmart  intelligent\t9.2\n").pairs == (("old", "new"), ("smart", "intelligent"))


def test_spaces_may_part_a_header_and_numbered_rows() -> None:
    text = "word1 word2 score\n1 old new 1.58\n2 smart intelligent 9.2\n"
    assert read(text).pairs == (("old", "new"), ("smart", "intelligent"))


def test_words_may_be_numbers() -> None:
    assert read("1\t2\t3\n7\t8\t9\n").pairs == (("1", "2"), ("7", "8"))
    assert read("1\tone\t9\t4\n2\ttwo\t9\t5\n").pairs == (("1", "one"), ("2", "two"))


def test_a_quote_is_a_letter_where_tabs_part_the_fields() -> None:
    assert read('"\tnew\t1\nold\t"x\t2\n').pairs == (('"', "new"), ("old", '"x'))


@pytest.mark.parametrize(("name", "n"), [("simlex999", 999), ("wordsim353", 353)])
def test_the_built_in_sets_are_whole(name: str, n: int) -> None:
    found = read_similarity(name)
    assert found.name == name
    assert len(found.pairs) == len(found.scores) == n
    assert all(0 <= score <= 10 for score in found.scores)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("old\tnew\t1\nold\tnew\n", "line 2: .*expected two words and a score"),
        ("old\tnew\t1\nold\tnew\tx\n", "line 2"),
        ("old\tnew\t1\n\tnew\t2\n", "line 2"),
        ("old\tnew\t1\nold\tnew\tnan\n", "line 2"),
        ("word1\tword2\tscore\n", "no pairs below line 1"),
        ("old\tnew\t1\t5\nold\tnew\tx\t5\nold\tnew\t1\t5\n", "line 2"),
        ("old\tnew\t1\t5\nold\tnew\tx\t5\n", "line 1"),  # which of the two is wrong, two rows do not tell
        ("old,new,1\nold,new,2\nold,new,x,3\n", "line 3"),
        ("old,new,1\nold,n\rew,2\n", "line 2: broken CSV"),
        ("w1;w2;score\nold;new;1,58\n", "line 2"),
        ("# only\n", "no pairs"),
    ],
)
def test_a_line_without_two_words_and_a_score_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(text)


def test_the_built_in_sets_are_read_without_importing_gensim() -> None:
    program = (
        "import sys; from salcli.formats.gold_sets import read_similarity as read; read('simlex999'); "
        "sys.exit('gensim' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_built_in_set_without_gensim_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gold_sets, "find_spec", lambda _: None)
    with pytest.raises(FormatError, match="simlex999: ships with gensim, which is not installed"):
        read_similarity("simlex999")

import subprocess
import sys
from pathlib import Path

import pytest

from salcli.errors import FormatError, LabelError, SalcliWarning
from salcli.formats import gold_sets
from salcli.formats.gold_sets import SimilaritySet, read_similarity

from .strategies import file_of

PAIRS, SCORES = (("old", "new"), ("big cat", "tiger")), (1.58, 9.2)


def read(text: str, encoding: str = "utf-8") -> SimilaritySet:
    with file_of(text.encode(encoding), "set.txt") as path:
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


SIMLEX = "word1\tword2\tPOS\tSimLex999\tconc(w1)\tconc(w2)\tconcQ\tAssoc(USF)\tSimAssoc333\tSD(SimLex)\n"


@pytest.mark.parametrize(
    "text",
    [
        "# t: topic, S: synonyms\nt\told\tnew\t1.58\nS\tbig cat\ttiger\t9.2\n",
        "Type\tWord 1\tWord 2\tHuman (mean)\nt\told\tnew\t1.58\nS\tbig cat\ttiger\t9.2\n",
        "relation,w1,w2,mean\nsyn,old,new,1.58\nsyn,big cat,tiger,9.2\n",
        "1,t,old,new,1.58\n2,S,big cat,tiger,9.2\n",
        ",type,word1,word2,score\n0,t,old,new,1.58\n1,S,big cat,tiger,9.2\n",
        "Word 1,Word 2,1,2,3,Average\nold,new,1,2,2,1.58\nbig cat,tiger,9,9,10,9.2\n",
        "word1;word2;freq;mean_freq;similarity\nold;new;17;18;1.58\nbig cat;tiger;9;8;9.2\n",
        "word1,word2,rating 1,rating 2,avg\nold,new,1,2,1.58\nbig cat,tiger,,10,9.2\n",
        "w1\tw2\tPOS\tn\tsim\nold\tnew\tA\t3\t1.58\nbig cat\ttiger\tN\t4\t9.2\n",
        '"","word1","word2","freq","score"\n"1","old","new",5,1.58\n"2","big cat","tiger",4,9.2\n',
        SIMLEX + "old\tnew\tA\t1.58\t2.7\t2.8\t2\t7.2\t1\t0.4\nbig cat\ttiger\tN\t9.2\t4\t3.4\t3\t5\t1\t1.4\n",
        ",word1,word2,POS,score\n0,old,new,A,1.58\n1,big cat,tiger,N,9.2\n",
    ],
)
def test_the_columns_of_words_and_scores_are_found_among_others(text: str, recwarn: pytest.WarningsRecorder) -> None:
    found = read(text)
    assert (found.pairs, found.scores) == (PAIRS, SCORES)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("w1,w2,ann1,ann2\nold,new,1.58,2\nbig cat,tiger,9.2,9\n", r"column 3 \(ann1\)"),
        ("word1,word2,1,2\nold,new,1.58,2\nbig cat,tiger,9.2,9\n", r"column 3 \(1\)"),
        ("w1,w2,rating 1,rating 2\nold,new,1.58,2\nbig cat,tiger,9.2,9\n", r"column 3 \(rating 1\)"),
        ("t\told\tnew\t1.58\t2\nS\tbig cat\ttiger\t9.2\t9\n", "column 4 is"),
        ("old\tnew\t1.58\t2\nbig cat\ttiger\t9.2\t9\n", "column 3 is"),
    ],
)
def test_the_first_of_several_numbers_is_named_where_no_header_decides(text: str, named: str) -> None:
    with pytest.warns(SalcliWarning, match=named):
        found = read(text)
    assert (found.pairs, found.scores) == (PAIRS, SCORES)


@pytest.mark.parametrize("column", ["gold", "5", "GOLD"])
def test_a_column_is_chosen_by_name_or_number(tmp_path: Path, column: str) -> None:
    path = tmp_path / "set:1.csv"
    path.write_text("type,w1,w2,score,gold\nt,old,new,5,1.58\nS,big cat,tiger,5,9.2\n")
    found = read_similarity(f"{path}:{column}")
    assert (found.pairs, found.scores, found.name) == (PAIRS, SCORES, f"{path}:{column}")
    assert read_similarity(str(path)).scores == (5, 5)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("glod", "no column 'glod': it has w1, w2, score, gold; did you mean gold?"),
        ("w1", "column w1 does not hold scores; columns with numbers: 3, 4"),
        ("7", "column 7 does not hold scores"),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, column: str, message: str) -> None:
    path = tmp_path / "set.csv"
    path.write_text("w1,w2,score,gold\nold,new,5,1.58\nbig cat,tiger,5,9.2\n")
    with pytest.raises(LabelError, match=message.replace("?", r"\?")):
        read_similarity(f"{path}:{column}")


def test_a_built_in_set_of_another_spelling_is_hinted_at() -> None:
    with pytest.raises(FormatError, match=r"simlex-999: .*did you mean simlex999\?"):
        read_similarity("simlex-999")


def test_a_broken_cell_of_the_named_column_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match="line 3"):
        read("w1,w2,1,2,mean\nold,new,1,2,1.58\nbig cat,tiger,9,9,x\na,b,1,2,3\n")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_set_may_be_in_utf16(encoding: str) -> None:
    found = read("Word 1;Word 2;Score\r\nold;new;1.58\r\nbig cat;tiger;9.2\r\n", encoding)
    assert (found.pairs, found.scores) == (PAIRS, SCORES)

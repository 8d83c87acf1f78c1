"""Word sets of bias tests: the published ones, and files."""

import json
from pathlib import Path
from typing import Any

import pytest

from salcli.errors import FormatError
from salcli.formats.word_sets import built_in_names, read_bias_tests

OWN = {
    "sets": {"he": ["he", "man"], "she": ["she", "woman"]},
    "tests": {
        "work": {"X": ["boss", "chief", "boss"], "Y": ["clerk"], "A": "he", "B": "she"},
        "home": {"test": "rnd", "X": "he", "Y": "she", "A": ["kitchen"]},
    },
}


def test_the_published_tests_have_their_sets() -> None:
    names = built_in_names()
    assert names == (*(f"weat{i}" for i in range(1, 11)), "rnd", "ripa")
    sizes = {name: [len(each.words) for each in read_bias_tests(name)[0].sets.values()] for name in names[:10]}
    # Caliskan et al. 2017, table 1: N_T words of each target, N_A of each attribute
    assert sizes["weat1"] == sizes["weat2"] == [25, 25, 25, 25]
    assert sizes["weat4"] == [18, 18, 25, 25]
    assert sizes["weat5"] == [18, 18, 8, 8]
    assert sizes["weat6"] == sizes["weat7"] == sizes["weat8"] == sizes["weat10"] == [8, 8, 8, 8]
    assert sizes["weat9"] == [6, 6, 7, 7]
    assert [test.name for test in read_bias_tests("rnd")] == ["rnd career", "rnd family"]
    assert [test.kind for test in read_bias_tests("ripa")] == ["ripa", "ripa"]
    assert list(read_bias_tests("rnd")[0].sets) == ["X", "Y", "A"]


def test_a_file_has_tests_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "sets.json"
    path.write_text(json.dumps(OWN), "utf-8")
    work, home = read_bias_tests(str(path))
    assert (work.name, work.kind, home.kind) == ("work", "weat", "rnd")
    assert {role: (of.name, of.words) for role, of in work.sets.items()} == {
        "X": ("X", ("boss", "chief")),
        "Y": ("Y", ("clerk",)),
        "A": ("he", ("he", "man")),
        "B": ("she", ("she", "woman")),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[]", r"\[\] at the top, expected \{\"tests\": "),
        ("null", "null at the top, expected"),
        ({}, r"no `tests`, expected \{\"tests\": "),
        ({"tests": {}}, r"`tests` is \{\}, expected"),
        ({"tests": ["t"]}, r"`tests` is \[\"t\"\], expected"),
        ({"tests": {"t": {"test": "mac"}}}, 't: test "mac", expected a test that is one of weat, rnd, ripa$'),
        ({"tests": {"t": {"test": None}}}, "t: test null, expected a test that is one of"),
        ({"tests": {"t": 1}}, "t: 1, expected an object with a test and its word sets$"),
        ({"tests": {"t": {"X": ["a"], "Y": ["b"], "A": ["c"]}}}, "t: no B, expected a list of words"),
        ({"tests": {"t": {"X": None}}}, "t: X is null, expected a list of words, or its name in `sets`$"),
        ({"tests": {"t": {"X": [], "Y": ["b"], "A": ["c"], "B": ["d"]}}}, r"t: X is \[\], expected a list of words"),
        ({"tests": {"t": {"X": ["a", 1]}}}, r"t: X is \[\"a\", 1\], expected a list of words"),
        ({"tests": {"t": {"X": ["word"] * 99}}, "sets": []}, r"`sets` is \[\], expected an object \{NAME: "),
        ({"tests": {"t": {"X": "men"}}, "sets": None}, "`sets` is null, expected an object"),
        ({"tests": {"t": {"X": "men"}}, "sets": {}}, "t: X is 'men', but there are no `sets`$"),
        ({"tests": {"t": {"X": "men"}}}, "t: X is 'men', but there are no `sets`$"),
        ({"tests": {"t": {"X": "men"}}, "sets": {"men": []}}, r"'men' in `sets` is \[\], expected a list of words$"),
        ({"tests": {"t": {"X": ["a"]}}, "sets": {"men": "he"}}, "'men' in `sets` is \"he\", expected a list of words$"),
        ({"tests": {"t": {"X": {"w" * 90: 1}}}}, r"X is \{\"w{37}…, expected a list of words"),
        (
            {"sets": {"men": ["a"]}, "tests": {"t": {"X": "man"}}},
            "X is 'man', which `sets` does not have; did you mean men",
        ),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_with_what_was_expected(
    tmp_path: Path, content: Any, says: str
) -> None:
    path = tmp_path / "sets.json"
    data = (
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"^{path}: .*{says}"):
        read_bias_tests(str(path))


def test_a_name_that_is_almost_right_is_hinted_at_and_a_file_that_is_not_there_named() -> None:
    with pytest.raises(FormatError, match="weat11: there is no such file or built-in bias test; did you mean weat1"):
        read_bias_tests("weat11")
    with pytest.raises(FormatError, match="nowhere/sets.json"):
        read_bias_tests("nowhere/sets.json")

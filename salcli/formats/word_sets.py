"""Word sets of bias tests: those of published tests, which the package has, or a JSON file of one's own.

The sets of `weat1` to `weat10` are those of Caliskan, Bryson and Narayanan, "Semantics derived automatically from
language corpora contain human-like biases", Science 356, 2017 (tables 1 and 2 and supplement); `rnd` and `ripa` have
the male and female terms, career and family words of the same.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from salcli.errors import FormatError, did_you_mean
from salcli.formats.files import ByteFile

MAX_BYTES = 8 << 20
KINDS = {"weat": ("X", "Y", "A", "B"), "rnd": ("X", "Y", "A"), "ripa": ("X", "Y", "A")}
"""Tests, with the word sets that each compares: targets X and Y, attributes A and B."""
EXPECTED = 'expected {"tests": {NAME: {"test": "weat", "X": [WORD, …], "Y": …, "A": …, "B": …}, …}}'
SHORTHANDS = {"rnd": ("rnd career", "rnd family"), "ripa": ("ripa career", "ripa family")}
"""Names that stand for several built-in tests."""


@dataclass(frozen=True)
class WordSet:
    """Some words, in their order."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class BiasTest:
    """A bias test with its word sets."""

    name: str
    kind: str
    """weat, rnd or ripa."""
    sets: Mapping[str, WordSet]
    """Targets X and Y, attributes A and (of weat) B."""


def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in tests, as users write them."""
    return (*(f"weat{i}" for i in range(1, 11)), *SHORTHANDS)


def read_bias_tests(name: str) -> tuple[BiasTest, ...]:
    """Read the tests of a built-in `name`, or of a JSON file.

    Such a file is an object with `tests`: by name, objects with `test` (weat, rnd or ripa; default: weat) and the word
    sets `X`, `Y`, `A` and, of weat, `B`: lists of words, or names of lists in the object `sets` beside `tests`.

    Raises
    ------
    FormatError : there is no such file or test, or it is not as it should be
    """
    if name in built_in_names():
        found = _tests(name, json.loads(files("salcli.formats").joinpath("word_sets.json").read_bytes()))
        wanted = SHORTHANDS.get(name, (name,))
        return tuple(test for test in found if test.name in wanted)
    if "/" not in name and not os.path.exists(name) and (hint := did_you_mean(name, built_in_names())):
        raise FormatError(f"{name}: there is no such file or built-in bias test{hint}")
    with closing(ByteFile.open(name, is_refused=False)) as file:
        data = file.stream().read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise FormatError(f"{name}: more than {MAX_BYTES >> 20} MiB: no word sets")
    try:
        return tuple(_tests(name, json.loads(data)))
    except (ValueError, RecursionError) as error:  # of JSON, or of UTF-8
        raise FormatError(f"{name}: not JSON ({error}), {EXPECTED}") from error


def _tests(path: str, record: Any) -> Iterator[BiasTest]:
    tests = record.get("tests") if isinstance(record, dict) else None
    named = record.get("sets", {}) if isinstance(record, dict) else {}
    if not isinstance(tests, dict) or not tests or not isinstance(named, dict):
        raise FormatError(f"{path}: no tests, {EXPECTED}")
    for name, test in tests.items():
        kind = test.get("test", "weat") if isinstance(test, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            shown = "no object" if kind is None else f"test {kind!r}"
            raise FormatError(f"{path}: {name}: {shown}, expected a test that is one of {', '.join(KINDS)}")
        yield BiasTest(name, kind, {role: _words(path, name, role, test.get(role), named) for role in KINDS[kind]})


def _words(path: str, test: str, role: str, value: Any, named: Mapping[str, Any]) -> WordSet:
    """Return the words of a set that is a list, or the name of one."""
    name = role
    if isinstance(value, str):
        if value not in named:
            raise FormatError(
                f"{path}: {test}: {role} is {value!r}, which `sets` does not have{did_you_mean(value, named)}"
            )
        name, value = value, named[value]
    are_words = isinstance(value, list) and value and all(isinstance(word, str) and word for word in value)
    if not are_words:
        raise FormatError(
            f"{path}: {test}: {role} is {str(value)[:40]!r}, expected a list of words, or its name in `sets`"
        )
    return WordSet(name, tuple(dict.fromkeys(value)))

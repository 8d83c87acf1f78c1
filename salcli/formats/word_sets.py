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
from typing import Any, TypeGuard

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
    if not isinstance(record, dict):
        raise FormatError(f"{path}: {_shown(record)} at the top, {EXPECTED}")
    tests, named = record.get("tests"), record.get("sets", {})
    if not isinstance(tests, dict) or not tests:
        found = f"`tests` is {_shown(tests)}" if "tests" in record else "no `tests`"
        raise FormatError(f"{path}: {found}, {EXPECTED}")
    if not isinstance(named, dict):
        raise FormatError(f"{path}: `sets` is {_shown(named)}, expected an object {{NAME: [WORD, …], …}}")
    for name, words in named.items():
        if not _are_words(words):
            raise FormatError(f"{path}: {name!r} in `sets` is {_shown(words)}, expected a list of words")
    for name, test in tests.items():
        if not isinstance(test, dict):
            raise FormatError(f"{path}: {name}: {_shown(test)}, expected an object with a test and its word sets")
        kind = test.get("test", "weat")
        if not isinstance(kind, str) or kind not in KINDS:
            raise FormatError(f"{path}: {name}: test {_shown(kind)}, expected a test that is one of {', '.join(KINDS)}")
        yield BiasTest(name, kind, {role: _words(path, name, role, test, named) for role in KINDS[kind]})


def _words(path: str, test: str, role: str, record: Mapping[str, Any], named: Mapping[str, Any]) -> WordSet:
    """Return the words of a set that is a list, or the name of one."""
    name, value = role, record.get(role)
    if isinstance(value, str):
        if value not in named:
            which = f"which `sets` does not have{did_you_mean(value, named)}" if named else "but there are no `sets`"
            raise FormatError(f"{path}: {test}: {role} is {value[:40]!r}, {which}")
        name, value = value, named[value]
    if not _are_words(value):
        found = f"{role} is {_shown(value)}" if role in record else f"no {role}"
        raise FormatError(f"{path}: {test}: {found}, expected a list of words, or its name in `sets`")
    return WordSet(name, tuple(dict.fromkeys(value)))


def _are_words(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) and word for word in value)


def _shown(value: Any) -> str:
    """Return the beginning of a value as JSON has it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

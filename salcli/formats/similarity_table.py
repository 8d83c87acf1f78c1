"""Word-similarity gold sets: two words and a score a line, in any of the layouts they are published in."""

import csv
from dataclasses import dataclass
from importlib import resources

from salcli.errors import FormatError
from salcli.formats.bytefile import ByteFile

BUILT_IN = {"simlex999": "simlex999.txt", "wordsim353": "wordsim353.tsv"}
MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class SimilaritySet:
    """Pairs of words with the similarity that people gave them."""

    name: str
    """As the user named it."""
    pairs: tuple[tuple[str, str], ...]
    """In file order."""
    scores: tuple[float, ...]
    """One for each pair."""


def read_similarity(name: str) -> SimilaritySet:
    """Read a gold set: a file, or one that ships with gensim (simlex999, wordsim353).

    Tab, comma, semicolon or space separated; a header, `#` comments, CRLF and more columns are allowed. The score
    is the first column behind the two words that holds a number.

    Raises
    ------
    FormatError : a line without two words and a number
    """
    if name in BUILT_IN:
        folder = resources.files("gensim.test.test_data")
        with resources.as_file(folder / BUILT_IN[name]) as path:
            return _read(str(path), name)
    return _read(name, name)


def _read(path: str, name: str) -> SimilaritySet:
    file = ByteFile.open(path)
    try:
        data = file.stream().read(MAX_BYTES + 1)
    finally:
        file.close()
    if len(data) > MAX_BYTES:
        raise FormatError(f"{path}: more than {MAX_BYTES >> 20} MiB: not a similarity set")
    lines = data.decode("utf-8-sig", "surrogateescape").split("\n")
    numbered = [(i, line.rstrip("\r")) for i, line in enumerate(lines, 1)]
    numbered = [(i, line) for i, line in numbered if line.strip() and not line.startswith("#")]
    if not numbered:
        raise FormatError(f"{path}: no pairs")
    delimiter = next((mark for mark in "\t,;" if all(mark in line for _, line in numbered[:2])), None)
    pairs, scores = [], []
    for position, (number, line) in enumerate(numbered):
        fields = line.split() if delimiter is None else _fields(line, delimiter)
        score = next((value for text in fields[2:] if (value := _number(text)) is not None), None)
        if score is None and position == 0:
            continue  # a header
        if score is None or not fields[0] or not fields[1]:
            raise FormatError(f"{path}: line {number}: {line[:60]!r}, expected two words and a score")
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        raise FormatError(
            f"{path}: no pairs below line {numbered[0][0]}: {numbered[0][1][:60]!r}, expected two words and a score"
        )
    return SimilaritySet(name, tuple(pairs), tuple(scores))


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == "\t":  # where a quote is a letter
        return [text.strip() for text in line.split(delimiter)]
    return [text.strip() for text in next(csv.reader([line], delimiter=delimiter))]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") and "_" not in text else None

"""Word-similarity gold sets: two words and a score a line, in any of the layouts they are published in.

Two sets are at hand by name, as gensim ships them in its test data, where they are read without importing it:

- `simlex999`: SimLex-999, https://www.cl.cam.ac.uk/~fh295/simlex.html; Hill, Reichart and Korhonen, "SimLex-999:
  Evaluating Semantic Models With (Genuine) Similarity Estimation", Computational Linguistics 41(4), 2015
- `wordsim353`: WordSimilarity-353, http://www.cs.technion.ac.il/~gabr/resources/data/wordsim353/; Finkelstein et al.,
  "Placing Search in Context: The Concept Revisited", ACM Transactions on Information Systems 20(1), 2002
"""

import csv
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from salcli.errors import FormatError
from salcli.formats.files import ByteFile

BUILT_IN = {"simlex999": "simlex999.txt", "wordsim353": "wordsim353.tsv"}
MAX_BYTES = 8 << 20  # the largest published set has 0.2


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
    is the first column behind the two words that holds a number, the same in all rows. A first column that numbers the
    rows is passed over.

    Raises
    ------
    FormatError : a line without two words and a number
    """
    if name in BUILT_IN:
        return _read(_built_in(name), name)
    return _read(name, name)


def _built_in(name: str) -> str:
    """Return where a set is that gensim ships.

    Raises
    ------
    FormatError : gensim is not installed
    """
    spec = find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise FormatError(f"{name}: ships with gensim, which is not installed: give the file of the set")
    return str(Path(spec.submodule_search_locations[0], "test", "test_data", BUILT_IN[name]))


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
    numbered = [(i, line) for i, line in numbered if line.strip() and not line.lstrip(" ").startswith("#")]
    if not numbered:
        raise FormatError(f"{path}: no pairs")
    records = _records(path, numbered)
    column = _score_column(records)
    pairs, scores = [], []
    for (number, line), fields in zip(numbered, records, strict=True):
        score = _number(fields[column]) if column is not None and column < len(fields) else None
        if score is None and number == numbered[0][0]:
            continue  # a header
        if score is None or not fields[0] or not fields[1] or _first_number(fields) != column:
            raise FormatError(f"{path}: line {number}: {line[:60]!r}, expected two words and a score")
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        raise FormatError(
            f"{path}: no pairs below line {numbered[0][0]}: {numbered[0][1][:60]!r}, expected two words and a score"
        )
    return SimilaritySet(name, tuple(pairs), tuple(scores))


def _records(path: str, numbered: list[tuple[int, str]]) -> list[list[str]]:
    """Part lines into fields, without a first column that only numbers the rows."""
    first = [line for _, line in numbered[:2]]
    delimiter = next((mark for mark in "\t,;" if all(line.count(mark) >= 2 for line in first)), None)
    if delimiter is None:
        records = [line.split() for _, line in numbered]
    else:
        records = [_fields(path, number, line, delimiter) for number, line in numbered]
    below = records[1:] or records
    is_numbered = all(len(fields) > 3 and _number(fields[0]) is not None for fields in below)
    if is_numbered and all(_number(fields[2]) is None and _number(fields[3]) is not None for fields in below):
        # a header may name this column, leave its name empty, or (as R does) leave the field out
        return [fields if i == 0 and len(fields) < len(below[0]) else fields[1:] for i, fields in enumerate(records)]
    return records


def _score_column(records: list[list[str]]) -> int | None:
    """Find the column most rows agree on, the first line aside: there, numbers may be names (of annotators, say)."""
    columns = [column for fields in records[1:] or records if (column := _first_number(fields)) is not None]
    counts = Counter(columns)
    return min(counts, key=lambda column: (-counts[column], column), default=None)


def _first_number(fields: list[str]) -> int | None:
    return next((i for i, text in enumerate(fields) if i >= 2 and _number(text) is not None), None)


def _fields(path: str, number: int, line: str, delimiter: str) -> list[str]:
    if delimiter == "\t":  # where a quote is a letter
        return [text.strip() for text in line.split(delimiter)]
    try:
        return [text.strip() for text in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
    except csv.Error as error:
        raise FormatError(f"{path}: line {number}: broken CSV: {error}") from error


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") and "_" not in text else None

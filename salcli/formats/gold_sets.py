"""Word-similarity gold sets: two words and a score a line, in any of the layouts they are published in.

Two sets are at hand by name, as gensim ships them in its test data, where they are read without importing it:

- `simlex999`: SimLex-999, https://www.cl.cam.ac.uk/~fh295/simlex.html; Hill, Reichart and Korhonen, "SimLex-999:
  Evaluating Semantic Models With (Genuine) Similarity Estimation", Computational Linguistics 41(4), 2015
- `wordsim353`: WordSimilarity-353, http://www.cs.technion.ac.il/~gabr/resources/data/wordsim353/; Finkelstein et al.,
  "Placing Search in Context: The Concept Revisited", ACM Transactions on Information Systems 20(1), 2002
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from salcli.errors import FormatError, LabelError, did_you_mean, warn
from salcli.formats.encodings import as_utf8, wide_encoding
from salcli.formats.files import ByteFile
from salcli.formats.urls import is_url

BUILT_IN = {"simlex999": "simlex999.txt", "wordsim353": "wordsim353.tsv"}
MAX_BYTES = 8 << 20  # the largest published set has 0.2
# Names of the column of scores, the surest first; names of other measures are excluded.
SCORE_NAMES = (
    re.compile(r"average|avg|mean(?!ing)", re.IGNORECASE),
    re.compile(r"score|similarity|rating|simlex|(?<![a-z])sim(?![a-z])", re.IGNORECASE),
)
OTHER_MEASURE = re.compile(r"freq|count|(?<![a-z])(sd|std|stdev|var|se|n)(?![a-z])|deviation|error|rank", re.IGNORECASE)
TYPE_NAMES = frozenset({"type", "types", "pos", "relation", "rel", "category", "class", "tag"})
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
NUMBERED_NAMES = re.compile(r"([^\0]*?[a-z])[ _.-]*1\0\1[ _.-]*2", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class SimilaritySet:
    """Pairs of words with human judgements of their similarity."""

    name: str
    """As the user named it."""
    pairs: tuple[tuple[str, str], ...]
    """In file order."""
    scores: tuple[float, ...]
    """One for each pair."""


def read_similarity(name: str) -> SimilaritySet:
    """Read a gold set: a file, or one that ships with gensim (simlex999, wordsim353).

    Tab, comma, semicolon or space separated; a header, `#` comments, CRLF and more columns are allowed. The score
    is the first column behind the two words that holds a number, the same in all rows; of several, the one that a
    header calls average, mean, score, similarity or rating, or the one that `FILE:COLUMN` names. Columns before the
    words that number the rows or hold a letter for the type of each pair are passed over.

    Parameters
    ----------
    name : a file or a built-in set; `:COLUMN` behind it names the column of the scores, by its name or its number

    Raises
    ------
    FormatError : a line without two words and a number
    LabelError : there is no such column
    """
    path, column = column_of(name)
    return _read(_built_in(path) if path in BUILT_IN else path, name, column)


def column_of(name: str) -> tuple[str, str | None]:
    """Return the file of the gold set `name`, and the column that is named behind it, or None.

    A file called `name` as a whole goes first.
    """
    path, colon, column = name.rpartition(":")
    if not colon or not path or name in BUILT_IN or os.path.exists(name):
        return name, None
    is_file = os.path.exists(path) or is_url(path)
    return (path, column) if path in BUILT_IN or is_file else (name, None)


def _built_in(name: str) -> str:
    """Return the path of a set that gensim ships.

    Raises
    ------
    FormatError : gensim is not installed
    """
    spec = find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise FormatError(f"{name}: ships with gensim, which is not installed: give the file of the set")
    return str(Path(spec.submodule_search_locations[0], "test", "test_data", BUILT_IN[name]))


def _lines_of(path: str) -> list[tuple[int, str]]:
    """Return the lines of a file that are neither blank nor comments, with their numbers."""
    if "/" not in path and not os.path.exists(path) and (hint := did_you_mean(path, BUILT_IN)):
        raise FormatError(f"{path}: there is no such file or built-in set{hint}")
    with closing(ByteFile.open(path, may_be_wide=True)) as file:
        data = file.stream().read(MAX_BYTES + 1)
    if (encoding := wide_encoding(data)) is not None:
        data = b"".join(as_utf8(path, iter([data]), encoding))
    if len(data) > MAX_BYTES:
        raise FormatError(f"{path}: more than {MAX_BYTES >> 20} MiB: not a similarity set")
    text = data.decode("utf-8-sig", "surrogateescape")
    lines = text.split("\n" if "\n" in text else "\r")
    numbered = [(i, line.rstrip("\r")) for i, line in enumerate(lines, 1)]
    return [(i, line) for i, line in numbered if line.strip() and not line.lstrip(" ").startswith("#")]


def _read(path: str, name: str, requested: str | None) -> SimilaritySet:
    numbered = _lines_of(path)
    if not numbered:
        raise FormatError(f"{path}: no pairs")
    records, n_before = _records(path, numbered)
    header = records[0] if _is_header(records) else None
    if requested is None:
        column, is_first = _score_column(path, header, records, n_before)
    else:
        column, is_first = _requested_column(path, header, records, n_before, requested), False
    pairs, scores = [], []
    for i, ((number, line), fields) in enumerate(zip(numbered, records, strict=True)):
        if i == 0 and header is not None:
            continue
        score = _number(fields[column]) if column is not None and column < len(fields) else None
        if score is None and i == 0:
            continue  # a header too, though its other columns look like data
        is_elsewhere = is_first and _first_number(fields) != column
        if score is None or not fields[0] or not fields[1] or is_elsewhere:
            raise FormatError(f"{path}: line {number}: {line[:60]!r}, expected two words and a score")
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        raise FormatError(
            f"{path}: no pairs below line {numbered[0][0]}: {numbered[0][1][:60]!r}, expected two words and a score"
        )
    return SimilaritySet(name, tuple(pairs), tuple(scores))


def _records(path: str, numbered: list[tuple[int, str]]) -> tuple[list[list[str]], int]:
    """Return lines as fields, without the columns before the two words, and how many those were."""
    first = [line for _, line in numbered[:2]]
    delimiter = next((mark for mark in "\t,;" if all(line.count(mark) >= 2 for line in first)), None)
    if delimiter is None:
        records = [line.split() for _, line in numbered]
    else:
        records = [_fields(path, number, line, delimiter) for number, line in numbered]
    width, n_before = len((records[1:] or records)[0]), 0
    for is_before_words in (_are_numbered, _are_types):
        if is_before_words(records):
            # a header may name this column, leave its name empty, or (as R does) leave the field out
            is_short = len(records[0]) < width - n_before
            records = [fields if i == 0 and is_short else fields[1:] for i, fields in enumerate(records)]
            n_before += 1
    return records, n_before


def _are_numbered(records: list[list[str]]) -> bool:
    """Return whether the first column numbers the rows: two words follow, and a score, or it counts from 0 or 1."""
    below = records[1:] or records
    if not all(len(fields) > 3 and _number(fields[0]) is not None and _number(fields[2]) is None for fields in below):
        return False
    counted = [fields[0] for fields in below]
    counts_up = any(counted == [str(i) for i in range(first, first + len(counted))] for first in (0, 1, 2))
    return counts_up or all(_number(fields[3]) is not None for fields in below)


def _are_types(records: list[list[str]]) -> bool:
    """Return whether the first column holds a letter for the type of each pair, or is named so: two words follow."""
    below = records[1:] or records
    if not all(
        len(fields) > 3 and all(_number(text) is None for text in fields[:3]) and _first_number(fields) is not None
        for fields in below
    ):
        return False
    if records[0][0].lower() in TYPE_NAMES:
        return True
    are_letters = [all(len(fields[i]) == 1 and fields[i].isalpha() for fields in below) for i in range(3)]
    return are_letters[0] and not any(are_letters[1:])  # a third column of letters is the part of speech


def _numeric_columns(records: list[list[str]]) -> list[int]:
    """Return the columns behind the words that hold numbers in at least half of the rows, the first line aside."""
    below = records[1:] or records
    counts = Counter(i for fields in below for i, text in enumerate(fields) if i >= 2 and _number(text) is not None)
    return sorted(column for column, count in counts.items() if 2 * count >= len(below))


def _is_header(records: list[list[str]]) -> bool:
    """Return whether the first line names columns: text where the others have numbers, or `word1 word2 1 2 3 …`."""
    first = records[0]
    texts = [first[i] for i in _numeric_columns(records) if i < len(first)]
    are_numbered = texts == [str(i) for i in range(1, len(texts) + 1)]  # annotators
    if len(records) > 1 and are_numbered and NUMBERED_NAMES.fullmatch("\0".join(first[:2])):
        return True
    return len(records) > 1 and any(_number(text) is None and text.lower() not in MISSING for text in texts)


def _score_column(
    path: str, header: Sequence[str] | None, records: list[list[str]], n_before: int
) -> tuple[int | None, bool]:
    """Return the column of the scores, and whether it is the first that holds a number rather than a named one."""
    columns = _numeric_columns(records)
    names = header or ()
    for pattern in SCORE_NAMES:
        fitting = [i for i in columns if i < len(names) and _names_scores(pattern, names[i])]
        if len(fitting) == 1:
            return fitting[0], fitting[0] == columns[0]
        if fitting:  # of several annotators, say
            break
    found = [column for fields in records[1:] or records if (column := _first_number(fields)) is not None]
    counts = Counter(found)
    first = min(counts, key=lambda column: (-counts[column], column), default=None)
    if first is not None and len(columns) > 1:
        named = f" ({names[first]})" if first < len(names) and names[first] else ""
        warn(
            f"{path}: {len(columns)} columns hold numbers, and no header names the scores: column "
            f"{first + n_before + 1}{named} is taken; another one by {path}:COLUMN, its name or number"
        )
    return first, True


def _names_scores(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None and OTHER_MEASURE.search(name) is None


def _requested_column(
    path: str, header: Sequence[str] | None, records: list[list[str]], n_before: int, requested: str
) -> int:
    """Return the column of a name or, where none is called so, of a number that counts all columns from 1.

    Raises
    ------
    LabelError : there is none, or it holds no numbers
    """
    names = list(header or ())
    folded = [name.lower() for name in names]
    if requested.lower() in folded:
        column = names.index(requested) if requested in names else folded.index(requested.lower())
    elif requested.isascii() and requested.isdigit():
        column = int(requested) - n_before - 1
    else:
        named = f"it has {', '.join(names)}" if names else "it has no header, so give the column's number"
        raise LabelError(f"{path}: no column {requested!r}: {named}{did_you_mean(requested, names)}")
    columns = _numeric_columns(records)
    if column not in columns:
        numbers = ", ".join(str(i + n_before + 1) for i in columns) or "none"
        raise LabelError(f"{path}: column {requested} does not hold scores; columns with numbers: {numbers}")
    return column


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

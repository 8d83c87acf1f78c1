import hashlib
import json
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data import digests
from salcli.data.digests import MAX_TAIL, labels_digest, rows_digest
from salcli.data.labels import Attribute, GuardedLabels

N = 12_000  # numbers of one to five digits
BORDERS = [0, 9, 10, 99, 100, 999, 1000, 9999, 10_000, N - 1]
SOME = st.lists(st.integers(0, N - 1) | st.sampled_from(BORDERS), min_size=1, max_size=9, unique=True)
SPANS = st.tuples(st.integers(0, N), st.integers(0, N)).map(lambda ends: range(min(ends), max(ends)))
NAMES = st.text(max_size=6) | st.sampled_from(['"', "%d", "\\", "ü", "x" * MAX_TAIL, "\udc80"])


def sha256_of(lines: list[list[str]]) -> str:
    return hashlib.sha256("".join(json.dumps(line) + "\n" for line in lines).encode()).hexdigest()


@pytest.mark.slow
@given(
    SOME | SPANS,
    st.booleans(),
    st.none() | st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.sampled_from([7, 8192]),
)
def test_digests_are_those_of_lines_of_json(
    index: list[int] | range, by_key: bool, classes: list[str] | None, at_once: int
) -> None:
    names = [f'%s "é" {i * 7919 % N}' if by_key else str(i) for i in range(N)]
    if classes is None:
        attribute = Attribute("g", np.arange(N) / 7, None)
        told = [repr(float(value)) for value in attribute.values]
    else:
        attribute = Attribute("g", (np.arange(N) % len(classes)).astype(np.int8), tuple(classes))
        told = [classes[code] for code in attribute.values]
    labels = GuardedLabels("l.csv", (attribute,), tuple(names) if by_key else None)
    ordered = sorted(index, key=lambda i: names[i]) if by_key else sorted(index)
    selection = index if isinstance(index, range) else np.array(index)
    with patch.object(digests, "LINES_AT_ONCE", at_once):
        assert rows_digest(labels, selection) == sha256_of([[names[i]] for i in ordered])
        assert labels_digest(labels, attribute, selection) == sha256_of([[names[i], told[i]] for i in ordered])


def test_a_key_is_not_a_number() -> None:
    attribute = Attribute("g", np.zeros(2, np.int8), ("a",))
    keyed, numbered = (GuardedLabels("l.csv", (attribute,), keys) for keys in (("x", "0"), None))
    assert rows_digest(keyed, np.array([0])) != rows_digest(numbered, np.array([0]))
    assert rows_digest(keyed, np.array([0, 1])) != rows_digest(keyed, np.array([0]))


def test_row_numbers_past_32_bits_are_spelt_whole() -> None:
    labels, rows = GuardedLabels("l.csv", (), None), [7, 2**31 - 1, 2**31 + 5, 10**10 - 1, 10**12 + 3]
    assert rows_digest(labels, np.array(rows)) == sha256_of([[str(row)] for row in rows])

import hashlib
import json
import struct
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data import digests
from salcli.data.digests import labels_digest, rows_digest
from salcli.data.labels import Attribute, GuardedLabels

N = 12_000  # numbers of one to five digits
BORDERS = [0, 9, 10, 99, 100, 999, 1000, 9999, 10_000, N - 1]
SOME = st.lists(st.integers(0, N - 1) | st.sampled_from(BORDERS), min_size=1, max_size=9, unique=True)
SPANS = st.tuples(st.integers(0, N), st.integers(0, N)).map(lambda ends: range(min(ends), max(ends)))
NAMES = st.text(max_size=6) | st.sampled_from(['"', "%d", "\\", "ü", "x" * 64, "\udc80"])


def sha256_of(lines: list[list[str]]) -> str:
    return hashlib.sha256("".join(json.dumps(line) + "\n" for line in lines).encode()).hexdigest()


@pytest.mark.slow
@given(
    SOME | SPANS,
    st.booleans(),
    st.none() | st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.sampled_from([7, 8192]),
)
def test_digests_are_those_of_plain_bytes(
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
    with patch.object(digests, "ROWS_AT_ONCE", at_once):
        for spells in (True, False):
            rows = rows_digest(labels, selection, spells_numbers=spells)
            of_labels = labels_digest(labels, attribute, selection, spells_numbers=spells)
            if spells or by_key:
                assert rows == sha256_of([[names[i]] for i in ordered])
                assert of_labels == sha256_of([[names[i], told[i]] for i in ordered])
            else:
                assert rows == hashlib.sha256(b"".join(struct.pack("<q", i) for i in ordered)).hexdigest()
                kind, there = "<qd", None
                values = attribute.values.tolist()
                if classes is not None:
                    kind, there = "<qq", sorted({told[i] for i in ordered}, key=classes.index)
                    values = [there.index(label) if label in there else -1 for label in told]
                pairs = b"".join(struct.pack(kind, i, values[i]) for i in ordered)
                head = json.dumps(there).encode() + b"\n"
                assert of_labels == hashlib.sha256(head + pairs).hexdigest()


def test_a_key_is_not_a_number() -> None:
    attribute = Attribute("g", np.zeros(2, np.int8), ("a",))
    keyed, numbered = (GuardedLabels("l.csv", (attribute,), keys) for keys in (("x", "0"), None))
    assert rows_digest(keyed, np.array([0])) != rows_digest(numbered, np.array([0]))
    assert rows_digest(keyed, np.array([0, 1])) != rows_digest(keyed, np.array([0]))


def test_another_order_of_classes_is_another_label() -> None:
    one, other = (Attribute("g", np.array(codes, np.int8), ("a", "b")) for codes in ([0, 1], [1, 0]))
    digests_of = [labels_digest(GuardedLabels("l.csv", (a,), None), a, range(2)) for a in (one, other)]
    assert digests_of[0] != digests_of[1]


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("numeric", [True, False])
def test_the_digest_of_several_shards_is_composed_of_theirs(by_key: bool, numeric: bool) -> None:
    shards, rng = [7, 1, 12], np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], shards).astype(np.int8)  # so that a shard has one class of three
    attribute = Attribute("g", codes * 1.5, None) if numeric else Attribute("g", codes, ("a", "b", "c"))
    keys = tuple(f"w{i * 7 % 20}" for i in range(20)) if by_key else None
    labels, index = GuardedLabels("l.csv", (attribute,), keys), np.array([0, 3, 6, 7, 9, 19])
    for of in (None, attribute):
        found = (
            rows_digest(labels, rng.permutation(index), shards=shards)
            if of is None
            else labels_digest(labels, of, index, shards=shards)
        )
        texts = [[repr(float(v))] if numeric else ["abc"[v]] for v in attribute.values]
        if keys is not None:
            lines = [json.dumps([keys[i], *([] if of is None else texts[i])]) + "\n" for i in index]
            total = sum(int.from_bytes(hashlib.sha512(line.encode()).digest(), "little") for line in lines)
            assert found == hashlib.sha256((total % 2**512).to_bytes(64, "little")).hexdigest()
        else:
            parts, first = [], 0
            for n in shards:
                part, rows = (
                    labels.restricted_to(range(first, first + n)),
                    index[(index >= first) & (index < first + n)],
                )
                own = rows_digest(part, rows - first)
                parts.append(own if of is None else labels_digest(part, part.attributes[0], rows - first))
                first += n
            assert found == hashlib.sha256("".join(f"{part}\n" for part in parts).encode()).hexdigest()

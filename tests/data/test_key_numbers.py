"""Whether shards share keys is seen from numbers, of all keys or of a share of them."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from salcli.data.key_numbers import key_numbers, shared_keys

KEYS = st.lists(st.sampled_from([f"w{i}" for i in range(60)] + ["", "\udcff", "ä"]), max_size=12)


@given(shards=st.lists(KEYS, max_size=6), compared=st.sampled_from([8, 1000]))
def test_shared_keys_are_those_of_sets(shards: list[list[str]], compared: int) -> None:
    numbers = [key_numbers(shard) for shard in shards]
    assert [len(each) for each in numbers] == [len(set(shard)) for shard in shards]
    pairs = [
        (i, j, len(set(a) & set(b)))
        for (i, a), (j, b) in itertools.combinations(enumerate(shards), 2)
        if set(a) & set(b)
    ]
    found, share = shared_keys(numbers, compared=compared)
    if share == 1:
        assert (found in pairs) if pairs else found is None
    else:
        assert sum(map(len, numbers)) > compared
        if found is not None:  # of the keys that were compared
            assert any(found[:2] == (i, j) and found[2] <= n for i, j, n in pairs)


def test_of_many_keys_a_share_is_compared_by_which_many_shared_ones_are_found() -> None:
    shards = [key_numbers(f"{shard} {i}" for i in range(4000)) for shard in range(4)]
    found, share = shared_keys(shards, compared=1000)
    assert found is None
    assert 1 / 32 <= share <= 1 / 8
    again = key_numbers(f"{2 if i < 400 else 9} {i}" for i in range(4000))
    found, _ = shared_keys([*shards, again], compared=1000)
    assert found is not None
    assert found[:2] == (2, 4)
    assert 5 < found[2] < 100


def test_the_least_of_many_are_listed_and_no_key_beyond_is_missed_in_silence() -> None:
    keys = [f"w{i}" for i in range(1000)]
    few, every = key_numbers(keys, most=100), key_numbers(keys)
    np.testing.assert_array_equal(few, every[:100])
    found, share = shared_keys([few, key_numbers(keys[500:])], listed=100)
    assert found is not None
    assert share < 0.2
    found, share = shared_keys([few, key_numbers(["x", "y"])], listed=100)
    assert (found, share < 0.2) == (None, True)

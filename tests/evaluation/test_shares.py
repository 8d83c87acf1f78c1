from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.shares import difference

counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, counts)
def test_shares_of_rows_differ_by_the_float_nearest_to_the_exact_difference(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    exact = Fraction(*one) - Fraction(*other)
    assert difference(one[0] / one[1], other[0] / other[1]) == float(exact)


def test_what_floats_get_wrong_is_right() -> None:
    assert 0.55 - 0.5 != 0.05
    assert difference(0.55, 0.5) == 0.05

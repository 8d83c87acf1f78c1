import pytest
from hypothesis import given

from salcli.evaluation.text import decimal, interval, shortened, visible
from tests.render.reports import strings


@given(strings())
def test_visible_text_is_printable_and_shown_twice_the_same(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("\u202eabc", r"\u202eabc"),
        ("\udcff", r"\udcff"),
        ("\x1b[0m", r"\x1b[0m"),
        ("😀é漢", "😀é漢"),
    ],
)
def test_characters_without_a_shape_get_one(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(strings())
def test_shortened_text_keeps_both_ends(text: str) -> None:
    whole, shown = visible(text), shortened(text, 10)
    assert len(shown) == min(10, len(whole))
    assert (shown[:6], shown[-3:]) == (whole[:6], whole[-3:])


def test_numbers_keep_three_decimals_and_no_negative_zero() -> None:
    assert [decimal(value) for value in (0.12345, 1, -0.5, -0.0001, -0.0, None)] == [
        "0.123",
        "1.000",
        "−0.500",
        "0.000",
        "0.000",
        "–",
    ]


def test_intervals_that_cross_zero_are_not_written_with_a_dash() -> None:
    assert [interval(ends) for ends in ((0.1, 0.2), (-0.1, 0.2), None)] == ["0.100–0.200", "−0.100 to 0.200", "–"]

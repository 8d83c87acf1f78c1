import pytest

from salcli.evaluation.section import Section, Table, filled, merged, names, numbers


def test_a_row_that_does_not_fit_its_table_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="other columns"):
        Table("caption", (*names("a"), *numbers("b")), (("1", "2"), ("1",)))
    with pytest.raises(AssertionError, match="tone"):
        Table("caption", names("a"), (("1",), ("2",)), ("pass",))


def test_empty_tables_are_left_out() -> None:
    empty, full = Table("empty", names("a"), ()), Table("full", names("a"), (("1",),))
    assert filled([empty, full]) == (full,)


def test_sections_of_one_key_are_one_in_the_place_of_the_first() -> None:
    one, other = Table("one", names("a"), (("1",),)), Table("other", names("a"), (("2",),))
    found = merged(
        [
            Section("a", "A", ("first",), (one,), ("p",), line="x"),
            Section("b", "B"),
            Section("a", "A", ("second",), (other,), ("q",), line="y"),
        ]
    )
    assert found == (Section("a", "A", ("first", "second"), (one, other), ("p", "q"), line="x\ny"), Section("b", "B"))

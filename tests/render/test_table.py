import pytest

from salcli.render.table import Table, filled, names, numbers


def test_a_row_that_does_not_fit_its_table_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="other columns"):
        Table("caption", (*names("a"), *numbers("b")), (("1", "2"), ("1",)))
    with pytest.raises(AssertionError, match="tone"):
        Table("caption", names("a"), (("1",), ("2",)), ("pass",))


def test_empty_tables_are_left_out() -> None:
    empty, full = Table("empty", names("a"), ()), Table("full", names("a"), (("1",),))
    assert filled([empty, full]) == (full,)

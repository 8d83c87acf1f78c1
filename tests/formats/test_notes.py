"""Remarks about rows: one line a kind, the first row's, whoever came to it first."""

import warnings

from salcli.formats.base import Notes


def told(notes: Notes) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notes.warn()
    return [str(warning.message) for warning in caught]


def test_the_first_row_of_a_kind_is_shown_and_each_row_counts_once() -> None:
    notes = Notes()
    for row in (7, 3, 3, 5, 7):  # threads come to rows in any order, and some are read again
        notes.add("odd", row, f"row {row}")
    notes.add("even", 4, "row 4")
    assert told(notes) == ["row 4: even", "row 3: odd (and 2 more such rows)"]


def test_what_was_told_is_not_told_again() -> None:
    notes = Notes()
    notes.add("odd", 3, "row 3")
    told(notes)
    assert told(notes) == []
    notes.add("odd", 9, "row 9")
    assert told(notes) == ["row 9: odd"]

"""Which columns of a label CSV mean what."""

from dataclasses import dataclass

from salcli.errors import ParameterError, UsageError
from salcli.options.record import Record, option


@dataclass(frozen=True)
class LabelOptions(Record):
    """The meaning of the columns of a label CSV. By default it is detected."""

    attributes: tuple[str, ...] = option(
        (),
        "--attribute",
        help="Column of classes to guard (repeatable); default: the only column that is neither key nor split.",
        metavar="COL",
        repeatable=True,
        text=True,
    )
    numeric: tuple[str, ...] = option(
        (), help="Column of numbers to guard (repeatable).", metavar="COL", repeatable=True, text=True
    )
    key: str | None = option(
        None, help="Column that joins by key; default: word, key, id or token.", metavar="COL", text=True
    )
    by_row: bool = option(False, help="Join by row number, even if there is a key column.")
    split_column: str | None = option(
        None,
        help="Column of row parts (train, dev, test); default: the one called split, if there is one.",
        metavar="COL",
        text=True,
    )
    no_split: bool = option(False, help="Take no column as the split.")
    groups: str | None = option(
        None,
        help="Column of groups (author, document), each of which lies in one part of a hold-out, of folds or of the "
        "split.",
        metavar="COL",
        text=True,
    )
    task: str | None = None
    """A column of classes that is read too and not guarded: the main task."""
    implied_by: str | None = None
    """Path of the eraser that the other columns are taken from, for messages."""
    set_by_user: frozenset[str] = frozenset()
    """Fields that were set by options, where an eraser set others."""
    may_lack_split: bool = False
    """Whether `split_column` need not be there."""
    may_be_empty: bool = False
    """Whether a column may have no class, as one of a shard of others."""

    def named_by(self, name: str) -> str:
        """Return where the column of the field `name` comes from, for messages: its option, or the eraser."""
        return (
            f"`{name}`"
            if self.implied_by is None or name in self.set_by_user
            else f"{self.implied_by} was fitted with it"
        )

    @property
    def why_by_row(self) -> str:
        """Why rows join by position where they do, for messages: an option, the eraser, or for want of a key."""
        if not self.by_row:
            return "no key column"
        is_implied = self.implied_by is not None and "by_row" not in self.set_by_user
        return f"as {self.implied_by} was fitted; `key` names a column" if is_implied else "`by_row`"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_row and self.key is not None:
            raise UsageError(f"`by_row` and `key={self.key}` contradict each other: give one")
        if self.no_split and self.split_column is not None:
            raise UsageError(f"`no_split` and `split_column={self.split_column}` contradict each other: give one")
        if self.task is not None and self.task in (*self.attributes, *self.numeric):
            raise ParameterError("task", self.task, "that column is guarded; a main task is another one")
        if self.groups is not None and self.groups in (*self.attributes, *self.numeric):
            raise ParameterError("groups", self.groups, "that column is guarded; groups are in another one")

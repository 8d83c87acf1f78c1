"""Options of `inspect`."""

from dataclasses import dataclass, field

from salcli.options.labels import LabelOptions
from salcli.options.reading import ReadOptions
from salcli.options.record import Record, option


@dataclass(frozen=True)
class InspectOptions(Record):
    """What `inspect` shows."""

    labels: str | None = option(None, help="Also describe its join with a label CSV.", metavar="CSV")
    similarity: str | None = option(
        None,
        help="Also score word similarity: simlex999, wordsim353, or FILE[:COLUMN] of word1, word2, score.",
        metavar="SET",
    )
    head: int = option(5, help="Rows to show.", metavar="N", bounds=(0, None))
    projection: str | None = option(None, help="Write an artifact's dense d×d matrix.", metavar="P.npy")
    label_options: LabelOptions = field(default_factory=LabelOptions)
    read: ReadOptions = field(default_factory=ReadOptions)

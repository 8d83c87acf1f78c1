"""Options of `label`."""

from dataclasses import dataclass, field

from salcli.errors import ParameterError, UsageError
from salcli.options.reading import ReadOptions
from salcli.options.record import Record, option, options_of, parse_counts, seed_option

BY_WORDS = ("top", "by", "limit", "bands", "unlabelled", "groups")
"""Options of `label` that choose among words along a direction."""
BY_COUNTS = ("seed_labels", "starts", "sample")
"""Options of `label` that assign every row by class counts."""


def _parse_shares(text: str) -> tuple[float, ...]:
    """Read `train,dev,test` shares, or `none`."""
    if text == "none":
        return ()
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise ValueError("expected three shares such as 0.49,0.21,0.30, or none") from None


def _parse_class_counts(text: str) -> tuple[tuple[str, float], ...]:
    """Read `name:share` or `name:rows`, with commas between."""
    found = []
    for part in text.split(","):
        name, _, number = part.rpartition(":")
        try:
            found.append((name.strip(), int(number) if number.strip().isdecimal() else float(number)))
        except ValueError:
            raise ValueError(
                "expected NAME:SHARE or NAME:ROWS with commas between, such as female:0.4,male:0.6"
            ) from None
    return tuple(found)


@dataclass(frozen=True)
class LabelCommandOptions(Record):
    """How to make labels, from seed words or from the sizes of the classes."""

    directions: tuple[str, ...] = option(
        (),
        "--direction",
        help="Seed pair, such as he:she (repeatable: the mean difference).",
        metavar="A:B",
        repeatable=True,
        text=True,
    )
    counts: tuple[tuple[str, float], ...] = option(
        (),
        help="Instead of seed words, assign a class to every row: the share of each class, or its rows, such as "
        "female:0.4,male:0.6.",
        metavar="NAME:X,…",
        parse=_parse_class_counts,
        text=True,
    )
    seed_labels: str | None = option(
        None,
        help="With `counts`: a label CSV of rows that are known, in its column `name`; they show which class is which.",
        metavar="CSV",
    )
    starts: int = option(10, help="With `counts`: random starts; the best one is kept.", metavar="N", bounds=(1, None))
    sample: int | None = option(
        None,
        help="With `counts`: rows, drawn at random, that directions are found on, before all rows are assigned; "
        "default: as many as 256 MiB of memory hold.",
        metavar="N",
        bounds=(2, None),
    )
    top: int = option(1000, help="Words to label at each end.", metavar="N", bounds=(1, None))
    by: str = option("cosine", help="cosine or dot.", choices=("cosine", "dot"))
    limit: int | None = option(None, help="Choose among the first N rows only.", metavar="N", bounds=(1, None))
    split: tuple[float, ...] = option(
        (0.49, 0.21, 0.3),
        help="Shares of train, dev and test, stratified; none: no split column.",
        metavar="T,D,T",
        parse=_parse_shares,
    )
    bands: tuple[int, ...] = option(
        (),
        help="Words behind those at each end, which belong to the parts band1, band2 …: never fitted, but attacked.",
        metavar="N,…",
        parse=parse_counts,
        bounds=(1, None),
    )
    unlabelled: int = option(
        0,
        help="Words behind those at each end that are written with a score and without a class, which transport can "
        "use; needs `with_scores`.",
        metavar="N",
        bounds=(0, None),
    )
    groups: str | None = option(
        None,
        help="Groups of words (author, document), each of which lies in one part of the split: a CSV of words and "
        "groups (FILE:COL if it has more columns), or a list beside the rows of an HDF5, npz or Parquet file.",
        metavar="COL|FILE",
        text=True,
    )
    name: str = option("label", help="Name of the label column.", metavar="COL", text=True)
    with_scores: bool = option(False, "--scores", help="Add the score as a column.")
    read: ReadOptions = field(default_factory=ReadOptions)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counts:
            self._require_counts()
        elif (other := self._not_default(BY_COUNTS)) is not None:
            raise UsageError(f"`{other}` goes with `counts=NAME:SHARE,…`, which assigns every row")
        elif not self.directions or not all(all(pair) for pair in self.pairs):
            raise UsageError("`directions`: expected FIRST:SECOND, two words with a colon between, such as he:she")
        if (
            len(self.split) not in (0, 3)
            or not all(share >= 0 for share in self.split)
            or not sum(self.split) <= 1 + 1e-9
            or (self.split and not sum(self.split))
        ):
            why = "expected three shares, train,dev,test, that add up to more than 0 and at most 1"
            raise ParameterError("split", self.split, why)
        if self.bands and not self.split:
            raise UsageError("`bands` are parts of the split column: leave `split=none` out")
        if self.unlabelled and not self.with_scores:
            raise UsageError("`unlabelled` words have a score and nothing else: give `with_scores` too")
        if self.groups is not None and not self.split:
            raise UsageError("`groups` lie in one part of the split column: leave `split=none` out")
        taken = ("word", "key", "id", "token", "split", "score", "margin", "")
        if self.name.strip().lower() in taken or set(self.name) & set(",;\t\r\n"):
            raise UsageError(f"`name={self.name!r}`: that column would not be taken for labels: choose another name")

    def _not_default(self, names: tuple[str, ...]) -> str | None:
        """Return the first of the fields `names` that is not at its default; None: all are."""
        return next((name for name in names if getattr(self, name) != options_of(self)[name][1]), None)

    def _require_counts(self) -> None:
        if self.directions or (other := self._not_default(BY_WORDS)) is not None:
            other = "directions" if self.directions else other
            raise UsageError(f"`counts` assigns a class to every row: it cannot go with `{other}`")
        names, numbers = [name for name, _ in self.counts], [number for _, number in self.counts]
        shown = ",".join(f"{name}:{number:g}" for name, number in self.counts)
        if len(names) < 2 or len(set(names)) < len(names) or not all(names):
            raise ParameterError("counts", shown, "expected at least two classes, each with a name of its own")
        if not all(0 < number < float("inf") for number in numbers):
            raise ParameterError("counts", shown, "expected rows, or a share of them, of every class")
        if not self.has_whole_counts and abs(sum(numbers) - 1) > 1e-6:
            why = f"shares that add up to {sum(numbers):g}, expected 1 (or whole numbers of rows)"
            raise ParameterError("counts", shown, why)

    @property
    def has_whole_counts(self) -> bool:
        """Whether `counts` are numbers of rows, not shares."""
        return all(isinstance(number, int) for _, number in self.counts)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The seed pairs."""
        return tuple((pair.rpartition(":")[0], pair.rpartition(":")[2]) for pair in self.directions)

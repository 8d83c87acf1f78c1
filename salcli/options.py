"""The options of every command, each written once: the command line is made from the fields of these records.

A field made by `option` is an option of the command line. Its name is that of the Python face, its `Option` says how it
is called and explained on the command line and which values it takes. Messages below the command line name parameters
as Python writes them, in backquotes (`` `keys_file=FILE` ``); the command line shows the flag instead (`--keys FILE`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from salcli.data.hashes import HASH_ALGORITHMS
from salcli.errors import ParameterError, UsageError

if TYPE_CHECKING:  # help is shown without numpy
    import numpy as np

    from salcli.data.splits import SplitRule

DEFAULT_FIT_SPLIT = "train"
JUDGES = ("bounds", "point")
DTYPES = ("float16", "float32", "float64")
FORMAT_HELP = "npy, npz, h5, parquet, arrow, safetensors, word2vec-text, glove, word2vec-bin, fbin, f16bin or fvecs"
CHUNK_BYTES = 8 << 20  # large beside Python's overhead for each chunk, small enough for a few on every thread
WIDENED_CHUNK_BYTES = 16 << 20
STREAMED_CHUNK_BYTES = 32 << 20  # of rows that are read in batches, through a small buffer
BLOCK_ELEMENTS = 1 << 21  # in memory at once in a pass


@dataclass(frozen=True)
class Option:
    """How a field is written and explained on the command line, and which values it takes."""

    flags: tuple[str, ...]
    """Empty: `--field-name`."""
    help: str
    """One sentence, with the unit."""
    metavar: str | None = None
    off: str | None = None
    """The flag that sets a bool field to False."""
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    """Least and greatest value, both allowed; None: no bound."""
    parse: Callable[[str], Any] | None = None
    """Read the value from its text; raises ValueError with what was expected."""
    is_repeatable: bool = False
    """Each use of the flag adds a value to the tuple."""
    is_text: bool = False
    """Names something inside a file (a column, a word), so its bytes are read as UTF-8 in any locale."""

    def flags_of(self, name: str) -> tuple[str, ...]:
        """Return the flags of the field `name`, the one for messages first."""
        return self.flags or ("--" + name.replace("_", "-"),)

    def read(self, name: str, text: Any) -> Any:
        """Return the value of a field from the command line.

        Parameters
        ----------
        name : of the field
        text : as the command line has it; a list of texts if the option is repeatable

        Raises
        ------
        ParameterError : the text cannot be read
        """
        if self.is_repeatable:
            return tuple(self._parsed(name, one) for one in text or ())
        return self._parsed(name, text)

    def _parsed(self, name: str, text: Any) -> Any:
        if self.parse is None or text is None:
            return text
        try:
            return self.parse(text)
        except ValueError as error:
            raise ParameterError(name, text, str(error)) from None

    def check(self, name: str, value: Any) -> None:
        """Check the value of a field.

        Parameters
        ----------
        name : of the field
        value : of any type; of a tuple, every element is checked

        Raises
        ------
        ParameterError : it is not one of the choices, or out of bounds
        """
        least, most = self.bounds
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            if self.choices and one not in self.choices:
                raise ParameterError(name, value, f"expected one of {', '.join(self.choices)}")
            is_low, is_high = least is not None and not one >= least, most is not None and not one <= most
            if is_low or is_high:
                raise ParameterError(name, value, f"at least {least}" if most is None else f"outside {least}…{most}")


def option(
    default: Any,
    *flags: str,
    help: str,
    metavar: str | None = None,
    off: str | None = None,
    choices: tuple[str, ...] = (),
    bounds: tuple[float | None, float | None] = (None, None),
    parse: Callable[[str], Any] | None = None,
    repeatable: bool = False,
    text: bool = False,
) -> Any:
    """Return a dataclass field that is an option of the command line (see `Option` for the arguments)."""
    given = Option(flags, help, metavar, off, choices, bounds, parse, repeatable, text)
    return field(default=default, metadata={"option": given})


def options_of(record: Any) -> dict[str, tuple[Option, Any]]:
    """Return option and default of each field that has one, by name; `record` is a record or its type."""
    return {each.name: (each.metadata["option"], each.default) for each in fields(record) if "option" in each.metadata}


class Record:
    """A frozen dataclass of options, whose values are checked when it is made.

    Raises
    ------
    ParameterError : a value that its option does not allow
    """

    def __post_init__(self) -> None:
        hints = {each.name: each.type for each in fields(cast(Any, self))}
        for name, (given, _) in options_of(cast(Any, self)).items():
            value = getattr(self, name)
            if not _is_of(value, hints[name]):
                raise ParameterError(name, value, f"expected {getattr(hints[name], '__name__', hints[name])}")
            given.check(name, value)


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a field; an int is accepted for a float, a bool for neither."""
    if isinstance(hint, UnionType):
        return any(_is_of(value, one) for one in get_args(hint))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    kind = get_origin(hint) or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def _seed() -> Any:
    return option(0, help="Of every random choice.", metavar="N", bounds=(0, 2**32 - 1))


def _limits(help: str) -> Any:
    """Return the option of a gate on attackers."""
    return option((), help=help, metavar="[PROBE=]X", repeatable=True, parse=Limit.parse)


def _listed(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def block_rows(d: int, elements: int = BLOCK_ELEMENTS) -> int:
    """Return the number of rows of width `d` in a block of about `elements` numbers, at least 1."""
    return int(max(1, elements // max(1, d)))


def _float32() -> "np.dtype[Any]":
    import numpy as np

    return np.dtype(np.float32)


@dataclass(frozen=True)
class ReadOptions(Record):
    """How to read an embedding file. By default everything is detected."""

    format: str | None = option(
        None, help=f"Force the input's format: {FORMAT_HELP}; default: by content.", metavar="F"
    )
    dataset: str | None = option(
        None,
        "--dataset",
        "--vector",
        help="Matrix inside an HDF5, npz or safetensors file, or column of vectors of a table; default: the only one, "
        "or of a table one named emb, embedding, embeddings or vector.",
        metavar="PATH",
        text=True,
    )
    keys_dataset: str | None = option(
        None,
        help="Keys inside an HDF5 or npz file, or column of them; default: the only list of strings that fits, or of a "
        "table the column id, _id, docid, doc_id, key or word.",
        metavar="PATH",
    )
    keys_file: str | None = option(
        None, "--keys", help="Keys of a file that has none: text, one a line, or .npy.", metavar="FILE"
    )
    keyed: bool | None = option(
        None,
        off="--no-keys",
        help="Each row of a text file begins with a word, or is numbers only (whatever else the file holds, rows have "
        "no keys); default: words, unless every row begins with a number that has a point or exponent.",
    )
    batch_rows: int | None = option(
        None, help="Most rows read at once; default: by format, 1.5…32 MiB.", metavar="N", bounds=(1, None)
    )
    allow_nonfinite: bool = option(False, help="Drop rows with NaN or Inf instead of refusing the file.")
    text_dtype: "np.dtype[Any]" = field(default_factory=_float32)
    """What text is parsed to (the parser reads float64 and rounds once, as gensim does)."""
    widened_bytes: int = 0
    """Bytes of a row in memory, if they are more than in the file."""
    streamed_bytes: int = STREAMED_CHUNK_BYTES
    """Of a chunk whose rows can be read in batches, through a small buffer."""
    partition_elements: int | None = None
    """Most numbers of a partition, which the last bits of a sum depend on; None: see `partition_rows`."""
    survey_bytes: int | None = None
    """Bytes that are read at once to find rows of no fixed length; None: as the format has it."""

    @property
    def most_rows(self) -> int | None:
        """Largest number of rows of a chunk that is independent of the file; None: no limit."""
        if self.batch_rows is not None or not self.widened_bytes:
            return self.batch_rows
        return max(1, WIDENED_CHUNK_BYTES // self.widened_bytes)

    def rows_per_chunk(
        self, row_bytes: int, partition: int, multiple_of: int = 1, *, fills_buffers: bool = False
    ) -> int:
        """Return the number of rows of a chunk: a partition in equal parts where possible.

        Parameters
        ----------
        row_bytes : bytes of a row in the file
        partition : rows of a partition
        multiple_of : the result is a multiple of it, except for `batch_rows`
        fills_buffers : whether rows can be read in batches through a small buffer, so that chunks may be larger
        """
        if self.batch_rows is not None:
            return self.batch_rows
        rows = max(1, (self.streamed_bytes if fills_buffers else CHUNK_BYTES) // max(1, row_bytes))
        parts = -(-partition // min(rows, self.most_rows or rows))
        return max(1, partition // parts // multiple_of) * multiple_of


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
    given: frozenset[str] = frozenset()
    """Fields that were set by options, where an eraser set others."""
    may_lack_split: bool = False
    """Whether `split_column` need not be there."""

    def named_by(self, name: str) -> str:
        """Return where the column of the field `name` comes from, for messages: its option, or the eraser."""
        return f"`{name}`" if self.implied_by is None or name in self.given else f"{self.implied_by} was fitted with it"

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


def require_split(fit_split: str | None, *, has_splits: bool) -> None:
    """Check that `fit_split` names a part of the split only if the labels have a split column (`has_splits`).

    Raises
    ------
    ParameterError : they have none
    """
    if fit_split is not None and not has_splits:
        raise ParameterError("fit_split", fit_split, "there is no split column (`split_column` names one)")


@dataclass(frozen=True)
class FitOptions(Record):
    """How to fit an eraser."""

    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = option(
        None, help="Part of the split that is fitted; default: train.", metavar="NAME", text=True
    )
    holdout: float = option(0.0, help="Share of labelled rows kept out, by a seeded hash.", metavar="F")
    sample: int | None = option(None, help="Fit on N rows, stratified by class.", metavar="N")
    method: str = option(
        "sal", help="How it is fitted; `salcli methods` lists the methods, and when to use which.", metavar="M"
    )
    parameters: Any = None
    """`Parameters` of the method (see `salcli.erasers.base.METHODS`); None: its defaults."""
    read: ReadOptions = field(default_factory=ReadOptions)
    hash_algorithm: str = option(
        HASH_ALGORITHMS[0],
        "--hash",
        help="Hash of the embeddings that the eraser records, by which evaluate recognises the file. Hashing a large "
        "file takes longer than the fit: blake3 is several times as fast as sha256, none leaves it out.",
        metavar="A",
        choices=(*HASH_ALGORITHMS, "none"),
    )
    sha256: bool | None = option(
        None,
        "--sha256",
        off="--no-sha256",
        help="The same as `hash_algorithm=sha256` or `hash_algorithm=none`.",
    )
    seed: int = _seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sha256 is not None:
            meant = "sha256" if self.sha256 else "none"
            if self.hash_algorithm not in (HASH_ALGORITHMS[0], meant):
                alias = "`sha256`" if self.sha256 else "`sha256=False`"
                raise UsageError(f"{alias} and `hash_algorithm={self.hash_algorithm}` contradict each other: give one")
            object.__setattr__(self, "hash_algorithm", meant)

    def rule(self, *, has_splits: bool) -> "SplitRule":
        """Return the rule for the rows that are fitted.

        Parameters
        ----------
        has_splits : whether the labels have a split column

        Raises
        ------
        ParameterError : `fit_split` is set, and there is no split column
        """
        from salcli.data.splits import SplitRule

        require_split(self.fit_split, has_splits=has_splits)
        return SplitRule(
            (self.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None, self.holdout, self.sample, self.seed
        )


@dataclass(frozen=True)
class ApplyOptions(Record):
    """How to erase a file."""

    in_place: bool = option(False, help="Replace the input (by rename, when all is written).")
    strength: float = option(1.0, help="Share of the way; below 1 it can be undone.", metavar="λ", bounds=(0, 1))
    reduces: bool = option(False, "--reduce", help="Write the d − k remaining coordinates instead.")
    noise_key: str | None = option(
        None,
        help="Secret of an eraser with noise, made if absent, for its owner alone: rows get the same noise again.",
        metavar="FILE",
    )
    writes_kernel: bool = option(
        False, "--kernel-matrix", help="Of a kernel's eraser: write the inner products K̂ (n × n, HDF5)."
    )
    dtype: str | None = option(
        None,
        help="Numbers of the output: float16, float32, float64; default: the input's.",
        metavar="T",
        choices=DTYPES,
    )
    output_format: str | None = option(None, help=f"Force the output's format: {FORMAT_HELP}.", metavar="F")
    erase_also: tuple[str, ...] = option(
        (),
        help="Another matrix of the file, of the same rows and width, to erase with the same eraser (repeatable).",
        metavar="DATASET",
        repeatable=True,
        text=True,
    )
    drop: tuple[str, ...] = option(
        (),
        help="Dataset beside the matrix in an HDF5 or npz file to leave out (repeatable).",
        metavar="DATASET",
        repeatable=True,
        text=True,
    )
    only: bool = option(False, help="Leave out all datasets but the matrix, its keys and --erase-also.")
    read: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.writes_kernel and (self.erase_also or self.drop or self.only):
            raise UsageError("`writes_kernel` writes inner products alone: leave `erase_also`, `drop` and `only` out")
        if self.only and self.drop:
            raise UsageError("`only` leaves all else out already: leave `drop` out")
        if self.writes_kernel and (self.reduces or self.in_place):
            raise UsageError("`writes_kernel` writes inner products: it cannot go with `reduces` or `in_place`")
        if self.writes_kernel and self.output_format not in (None, "h5"):
            raise UsageError(f"`writes_kernel` writes HDF5, not {self.output_format}")
        if self.reduces and self.strength != 1:
            raise UsageError("`reduces` leaves the directions out altogether: it cannot go with `strength`")
        if self.in_place and self.output_format is not None:
            raise ParameterError("output_format", self.output_format, "`in_place` keeps the file's format")
        if self.reduces and self.in_place:
            raise UsageError("`reduces` changes the width of the file: it cannot go with `in_place`")

    @property
    def output_dtype(self) -> "np.dtype[np.generic] | None":
        """The dtype that was requested."""
        import numpy as np

        return None if self.dtype is None else np.dtype(self.dtype)


def _parse_counts(text: str) -> tuple[int, ...]:
    """Read whole numbers with commas between."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError("expected whole numbers with commas between, such as 1000,1000") from None


def _parse_shares(text: str) -> tuple[float, ...]:
    """Read `train,dev,test` shares, or `none`."""
    if text == "none":
        return ()
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise ValueError("expected three shares such as 0.49,0.21,0.30, or none") from None


BY_WORDS = ("top", "by", "limit", "bands", "unlabelled", "groups")
"""Options of `label` that choose among words along a direction."""
BY_COUNTS = ("seed_labels", "starts", "sample")
"""Options of `label` that assign every row by class counts."""


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
        parse=_parse_counts,
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
    seed: int = _seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counts:
            self._require_counts()
        elif (given := self._given(BY_COUNTS)) is not None:
            raise UsageError(f"`{given}` goes with `counts=NAME:SHARE,…`, which assigns every row")
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

    def _given(self, names: tuple[str, ...]) -> str | None:
        """Return the first of the fields `names` that is not at its default; None: all are."""
        return next((name for name in names if getattr(self, name) != options_of(self)[name][1]), None)

    def _require_counts(self) -> None:
        if self.directions or (given := self._given(BY_WORDS)) is not None:
            other = "directions" if self.directions else given
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


@dataclass(frozen=True)
class ExportOptions(Record):
    """What an eraser is written as."""

    to: str | None = option(
        None,
        help="onnx, safetensors, npz, or sentence-transformers (OUT: the folder of a model, which the eraser is "
        "appended to); default: by the suffix of OUT.",
        metavar="TARGET",
    )
    double: bool = option(False, help="Multiply in float64: less than rounding to float32 leaves behind.")


ADVERSARIES, POOLED, WHITE_BOX = ("in-sample", "fresh"), "pooled", "white-box"
RAW = "raw"
FORMS = (RAW, "unit", "float16", "int8", "binary")
"""How rows are used: as they are, of length 1, rounded, quantized, or their signs."""
REPORT_SUFFIXES = (".json", ".md", ".html", ".xml")
MOST_STEPS = 1000


@dataclass(frozen=True)
class Limit:
    """The limit of a gate on attackers: on one probe, or on all."""

    limit: float
    probe: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """Return the limit of a `text` `X` or `PROBE=X`.

        Raises
        ------
        ValueError : X is not a number from 0 to 1
        """
        probe, equals, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            raise ValueError("expected [PROBE=]X with a share X, such as 0.6") from None
        if not 0 <= limit <= 1:
            raise ValueError("not a share, 0…1")
        return cls(limit, probe if equals else None)


@dataclass(frozen=True)
class Sweep:
    """Values of one parameter, for each of which everything is measured again."""

    parameter: str
    """k or strength."""
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Return the sweep of a `text` such as `k=0:30`, `k=0:30:5` or `strength=0:1:0.1`.

        The last value is included if it is a whole number of steps from the first.

        Raises
        ------
        ValueError : it is another parameter, or the values make no sense for it
        """
        parameter, _, bounds = text.partition("=")
        if parameter not in ("k", "strength"):
            raise ValueError("expected k=FROM:TO[:STEP] or strength=FROM:TO:STEP")
        try:
            first, last, *rest = (float(part) for part in bounds.split(":"))
            step = rest[0] if rest else (1.0 if parameter == "k" else 0.1)
        except ValueError:
            raise ValueError("expected numbers FROM:TO or FROM:TO:STEP") from None
        finite = all(map(isfinite, (first, last, step))) and len(rest) < 2
        if not finite or step <= 0 or not 0 <= first <= last or (last - first) / step >= MOST_STEPS:
            raise ValueError(f"expected 0 ≤ FROM ≤ TO, a positive STEP, at most {MOST_STEPS} values")
        values = tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
        if parameter == "k" and any(value != int(value) for value in values):
            raise ValueError("k is a whole number")
        if parameter == "strength" and last > 1:
            raise ValueError("strength is a share, 0…1")
        return cls(parameter, values)


@dataclass(frozen=True)
class EvaluateOptions(Record):
    """How to evaluate."""

    against: str | None = option(
        None,
        help="Evaluate before and after as another tool erased it: a file with the same rows.",
        metavar="OUT",
    )
    adversaries: tuple[str, ...] = option(
        ADVERSARIES,
        "--adversary",
        help="in-sample (trained on the fitted rows), fresh (on rows of its own), pooled (on both), white-box (as "
        "fresh, and holds the eraser).",
        metavar="A,…",
        parse=_listed,
        choices=(*ADVERSARIES, POOLED, WHITE_BOX),
    )
    probes: tuple[str, ...] | None = option(
        None,
        help="linear, poly, rbf, quadratic and, of a kernel's eraser, same-kernel (default); knn, mlp, boosting; "
        "of numeric attributes ridge, kernel-ridge, boosting (default); or all.",
        metavar="P,…",
        parse=_listed,
    )
    forms: tuple[str, ...] = option(
        (RAW, "unit"),
        "--as",
        help="Attack the rows as they will be used: raw, unit (of length 1), float16, int8 (each column in "
        "steps of its own), binary (signs). Gates judge all of them.",
        metavar="F,…",
        parse=_listed,
        choices=FORMS,
    )
    attacker_rows: int = option(
        10_000,
        "--attacker-rows",
        "--probe-rows",
        help="Most training rows of an attacker; a note states when there are more.",
        metavar="N",
        bounds=(2, None),
    )
    learning_curve: bool = option(
        True,
        "--learning-curve",
        off="--no-learning-curve",
        help="Train the strongest attacker on fewer rows too, and extrapolate its accuracy to ten times as many.",
    )
    intersections: bool = option(
        True,
        "--intersections",
        off="--no-intersections",
        help="Of several guarded attributes of classes, attack each pair, and all together, as one attribute more.",
    )
    quick: bool = option(
        False,
        help="One setting for each attacker, untuned, and one form of the rows: weak, so no gate on attackers passes.",
    )
    task: str | None = option(None, help="Column of the main task: accuracy and TPR gaps.", metavar="COL", text=True)
    similarity: tuple[str, ...] = option(
        (),
        help="simlex999, wordsim353 or FILE[:COLUMN] of word1, word2, score (repeatable).",
        metavar="SET",
        repeatable=True,
    )
    neighbors: tuple[str, ...] = option(
        (), help="Words whose neighbours are shown before and after.", metavar="W,…", parse=_listed, text=True
    )
    kept: bool = option(
        True,
        "--kept",
        off="--no-kept",
        help="Compare labelled rows with others: the nearest rows that stay, cosines, and what neighbours give away.",
    )
    bias: tuple[str, ...] = option(
        (),
        help="Bias tests before and after: weat1 to weat10, rnd, ripa, or a JSON file of word sets.",
        metavar="TEST,…",
        parse=_listed,
    )
    sweep: Sweep | None = option(  # noqa: RUF009 (a classmethod's name misleads the linter)
        None, help="Measure along k=FROM:TO or strength=FROM:TO:STEP.", metavar="P=A:B[:S]", parse=Sweep.parse
    )
    repeats: int | None = option(None, help="Fit N times on few labels; mean and spread.", metavar="N")
    sample: int | None = option(None, help="Of `repeats`: rows of each fit, stratified.", metavar="M")
    folds: int | None = option(
        None,
        help="Rows take turns as fit, attack and test, in N turns with a fit each: for small label files.",
        metavar="N",
        bounds=(3, None),
    )
    bands: tuple[int, ...] = option(
        (),
        help="Also attack the next N rows without a label at both ends of the attribute, as band1, band2 …",
        metavar="N,…",
        parse=_parse_counts,
        bounds=(1, None),
    )
    reports: tuple[str, ...] = option(
        (),
        "--report",
        help="Write the report as .json, .md, .html or .xml (JUnit); repeatable.",
        metavar="FILE",
        repeatable=True,
    )
    report_format: str | None = option(
        None,
        help="json, md, html or xml: of reports whose name has no such suffix.",
        metavar="F",
        choices=tuple(suffix[1:] for suffix in REPORT_SUFFIXES),
    )
    max_accuracy: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker reads more than this share right (repeatable)."
    )
    max_gain: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker reads more than this over the majority rate, or of balanced accuracy over chance "
        "(repeatable)."
    )
    max_leak: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker's leak (0: nothing is read, 1: all, by accuracy, balanced accuracy and AUC) is "
        "more (repeatable)."
    )
    max_r2: tuple[Limit, ...] = option(
        (),
        help="Gate: exit 1 if any attacker of a numeric attribute explains more than this share of its variance, R² "
        "(repeatable).",
        metavar="[PROBE=]X",
        repeatable=True,
        parse=Limit.parse,
    )
    baseline: str | None = option(
        None, help="JSON report of the release that leaks are compared with.", metavar="REPORT.json"
    )
    max_leak_increase: float | None = option(
        None,
        help="Gate: exit 1 if the worst leak is larger by more than this than that of `baseline`.",
        metavar="X",
        bounds=(0, 1),
    )
    max_tpr_gap: float | None = option(None, help="Gate on the main task's TPR gap.", metavar="X", bounds=(0, 1))
    min_similarity_kept: float | None = option(
        None,
        help="Gate: least share of Spearman's correlation that is kept, of every set.",
        metavar="X",
        bounds=(0, 1),
    )
    min_task_accuracy: float | None = option(
        None, help="Gate: least accuracy of the main task.", metavar="X", bounds=(0, 1)
    )
    min_task_kept: float | None = option(
        None,
        help="Gate: least share of the main task's accuracy above the majority that is kept.",
        metavar="X",
        bounds=(0, 1),
    )
    min_neighbors_kept: float | None = option(
        None,
        help="Gate: least mean share of the ten nearest rows that stay, over a sample.",
        metavar="X",
        bounds=(0, 1),
    )
    min_pairs: int = option(
        30,
        help="Fewest pairs of a similarity set that pass its gate; half of the set too.",
        metavar="N",
        bounds=(2, None),
    )
    judge: str = option(
        "bounds",
        help="bounds: a gate passes, fails or is undecided by confidence bounds; point: by its figure alone.",
        choices=JUDGES,
    )
    confidence: float = option(0.95, help="Of the bounds that gates are judged by.", metavar="C", bounds=(0.5, 0.9999))
    allow_undecided: bool = option(False, help="Exit 0 where a gate is undecided.")
    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = option(
        None,
        help="Without an eraser: the part that trains the in-sample attacker; default: train.",
        metavar="NAME",
        text=True,
    )
    holdout: float = option(
        0.0, help="Without an eraser or split: share of rows kept for fresh attacker and test.", metavar="F"
    )
    read: ReadOptions = field(default_factory=ReadOptions)
    seed: int = _seed()

    def format_of(self, report: str) -> str | None:
        """Return the format of the path `report`, json, md, html or xml: by its suffix, else `report_format`."""
        suffix = Path(report).suffix.lower()
        return suffix[1:] if suffix in REPORT_SUFFIXES else self.report_format

    @property
    def attacked_forms(self) -> tuple[str, ...]:
        """The forms of the rows that are attacked: the first alone where attackers are not tuned."""
        return self.forms[:1] if self.quick else self.forms

    @property
    def fits_again(self) -> bool:
        """Whether erasers are fitted again: on samples or folds of the rows, or with another k."""
        of_k = self.sweep is not None and self.sweep.parameter == "k"
        return self.repeats is not None or self.folds is not None or of_k

    def __post_init__(self) -> None:
        for name in ("adversaries", "probes", "forms", "similarity", "neighbors", "bias", "reports"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(dict.fromkeys(given)))
        super().__post_init__()
        if not self.adversaries:
            raise ParameterError("adversaries", (), f"expected {', '.join((*ADVERSARIES, POOLED))} or {WHITE_BOX}")
        if not self.forms:
            raise ParameterError("forms", (), f"expected some of {', '.join(FORMS)}")
        if WHITE_BOX in self.adversaries and RAW not in self.attacked_forms:
            raise UsageError(f"`adversaries={WHITE_BOX}` inverts rows as `apply` writes them: leave raw among `forms`")
        self._require_companions()
        self._require_folds()

    def _require_folds(self) -> None:
        if self.folds is not None and (self.sweep, self.repeats, self.against) != (None, None, None):
            raise UsageError("`folds` fits an eraser in each turn: leave `sweep`, `repeats` and `against` out")
        if self.folds is not None and (self.fit_split is not None or self.holdout):
            raise UsageError("`folds` divides all labelled rows: leave `fit_split` and `holdout` out")

    def _require_companions(self) -> None:
        if (self.repeats is None) != (self.sample is None):
            raise UsageError("`repeats=N` and `sample=M` go together: N fits, each on M of the rows")
        if self.repeats is not None and (self.repeats < 2 or (self.sample or 0) < 2):
            raise UsageError(f"`repeats={self.repeats}` `sample={self.sample}`: at least 2 fits on at least 2 rows")
        if (self.baseline is None) != (self.max_leak_increase is None):
            raise UsageError("`baseline=REPORT.json` and `max_leak_increase=X` go together")
        for path in self.reports:
            if self.format_of(path) is None:
                why = f"expected a name that ends in {', '.join(REPORT_SUFFIXES)}, or `report_format`"
                raise ParameterError("reports", path, why)
        if self.task is not None and "in-sample" not in self.adversaries:
            raise UsageError("`task` trains on the fitted rows: leave in-sample among `adversaries`")
        for name in ("max_tpr_gap", "min_task_accuracy", "min_task_kept"):
            if getattr(self, name) is not None and self.task is None:
                raise UsageError(f"`{name}` judges a main task: give `task=COL`")
        if self.min_similarity_kept is not None and not self.similarity:
            raise UsageError("`min_similarity_kept` judges word similarity: give `similarity=SET`")

    def require_inputs(self, *, has_labels: bool, has_eraser: bool) -> None:
        """Check that the inputs suffice for the options.

        Parameters
        ----------
        has_labels, has_eraser : whether LABELS and `eraser` were given

        Raises
        ------
        UsageError : it names the option and what it needs
        """
        if has_eraser and self.against is not None:
            raise UsageError("`eraser` and `against` exclude each other: give one")
        if WHITE_BOX in self.adversaries and not has_eraser:
            raise UsageError(f"`adversaries={WHITE_BOX}` holds the eraser and inverts it: give `eraser`")
        needs_none = self.similarity or self.bias or self.neighbors or self.min_neighbors_kept is not None
        if not (has_labels or needs_none):
            raise UsageError("missing LABELS (only `similarity`, `bias` and `neighbors` do without)")
        if self.neighbors and not has_eraser and self.against is None:
            raise UsageError("`neighbors` compares before with after: give `eraser` or `against`")
        if (self.sweep is not None or self.repeats is not None) and not (has_eraser and has_labels):
            raise UsageError("`sweep` and `repeats` erase again and again: they need `eraser` and LABELS")
        if self.folds is not None and not (has_eraser and has_labels):
            raise UsageError("`folds` fits the method of an eraser again: it needs `eraser` and LABELS")
        if self.task is not None and not has_labels:
            raise UsageError("`task` is a column of LABELS: give them")
        for name in ("min_similarity_kept", "min_task_kept", "min_neighbors_kept"):
            if getattr(self, name) is not None and not has_eraser and self.against is None:
                raise UsageError(f"`{name}` compares before with after: give `eraser` or `against`")


WITHOUT = "without"
"""Key of the metadata of a field that holds a record: names of options in it which the command does not have."""


@dataclass(frozen=True)
class CompareOptions(Record):
    """What is compared, and how each candidate is evaluated."""

    erasers: tuple[str, ...] = option(
        (), "--eraser", help="Artifact that fit or kfit wrote (repeatable).", metavar="ERASER", repeatable=True
    )
    against: tuple[str, ...] = option(
        (), help="A file with the same rows that another tool erased (repeatable).", metavar="OUT", repeatable=True
    )
    methods: tuple[str, ...] = option(
        (),
        "--method",
        help="Method that is fitted first, with its default options and on the rows of the first eraser, else by the "
        "split column or `holdout` (repeatable).",
        metavar="M",
        repeatable=True,
    )
    require: str = option(
        "all",
        help="all: exit 1 unless every candidate keeps all limits; any: unless at least one does.",
        choices=("all", "any"),
    )
    evaluation: EvaluateOptions = field(
        default_factory=EvaluateOptions, metadata={WITHOUT: ("against", "sweep", "repeats", "sample", "folds")}
    )

    def __post_init__(self) -> None:
        for name in ("erasers", "against", "methods"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        super().__post_init__()
        if len(self.erasers) + len(self.against) + len(self.methods) < 2:
            raise UsageError(
                "a comparison takes at least two candidates (`erasers`, `against`, `methods`); "
                "`salcli evaluate` measures one"
            )

    @property
    def seed(self) -> int:
        """Of every random choice."""
        return self.evaluation.seed

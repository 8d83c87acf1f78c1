"""What each command can be told, as records with the defaults of the command line."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from salcli.data.splits import RowRule
from salcli.errors import UsageError

DEFAULT_FIT_SPLIT = "train"
DEFAULT_LANDMARKS, ALL_LANDMARKS = 2048, "all"
DTYPES = ("float16", "float32", "float64")
CHUNK_BYTES = 8 << 20  # big enough to hide what Python takes for each, small enough for a few on every thread
WIDENED_CHUNK_BYTES = 16 << 20
STREAMED_CHUNK_BYTES = 32 << 20  # of rows that are read in batches, through a small buffer
BLOCK_ELEMENTS = 1 << 21  # what a pass holds at once


def block_rows(d: int) -> int:
    """Give the rows of a block, which a pass works on at once."""
    return int(max(1, BLOCK_ELEMENTS // max(1, d)))


@dataclass(frozen=True)
class ReadOptions:
    """How to read an embedding file. The defaults find out everything."""

    format: str | None = None
    """Force a format."""
    dataset: str | None = None
    """The matrix inside an HDF5 or npz file."""
    keys_dataset: str | None = None
    """The keys inside an HDF5 or npz file."""
    keys_file: str | None = None
    """A text file with one key a line, for files without keys."""
    batch_rows: int | None = None
    """Rows of a chunk; default: about 8 MiB (of text 1.5)."""
    allow_nonfinite: bool = False
    """Drop rows with NaN or Inf instead of refusing the file."""
    text_dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    """What text is parsed to (the parser reads float64 and rounds once, as gensim does)."""
    widened_bytes: int = 0
    """Bytes that a row grows to on its way, if those are more than it has in the file."""
    streamed_bytes: int = STREAMED_CHUNK_BYTES
    """Of a chunk whose rows can be read in batches, through a small buffer."""

    @property
    def most_rows(self) -> int | None:
        """Rows of a chunk as far as they do not depend on the file."""
        if self.batch_rows is not None or not self.widened_bytes:
            return self.batch_rows
        return max(1, WIDENED_CHUNK_BYTES // self.widened_bytes)

    def rows_per_chunk(
        self, row_bytes: int, partition: int, multiple_of: int = 1, *, fills_buffers: bool = False
    ) -> int:
        """Choose the rows of a chunk: equal parts of a partition, as far as may be; more where batches are cheap."""
        if self.batch_rows is not None:
            return self.batch_rows
        rows = max(1, (self.streamed_bytes if fills_buffers else CHUNK_BYTES) // max(1, row_bytes))
        parts = -(-partition // min(rows, self.most_rows or rows))
        return max(1, partition // parts // multiple_of) * multiple_of


@dataclass(frozen=True)
class LabelOptions:
    """Which columns of a label CSV mean what. The defaults find out."""

    attributes: tuple[str, ...] = ()
    """Columns of classes; default: the only column that is neither key nor split."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers."""
    key: str | None = None
    """The column that joins by key; default: word, key, id or token."""
    by_row: bool = False
    """Join by row number even if there is a key column."""
    split_column: str | None = None
    """The column of row parts; default: `split`, if there is one."""
    no_split: bool = False
    """Take no column as the split."""
    task: str | None = None
    """A column of classes that is read along and not guarded: the main task."""
    implied_by: str | None = None
    """The eraser that named those columns which no option did, for messages."""
    given: frozenset[str] = frozenset()
    """The options that did, if an eraser named others."""

    def named_by(self, option: str) -> str:
        """Say who named a column: an option, or the eraser that was fitted with it."""
        return option if self.implied_by is None or option in self.given else f"{self.implied_by} was fitted with it"

    def __post_init__(self) -> None:
        if self.by_row and self.key is not None:
            raise UsageError(f"--by-row and --key {self.key} contradict each other: give one")
        if self.no_split and self.split_column is not None:
            raise UsageError(f"--no-split and --split-column {self.split_column} contradict each other: give one")
        if self.task is not None and self.task in (*self.attributes, *self.numeric):
            raise UsageError(f"--task {self.task}: that column is guarded; a main task is another one")


def require_split(fit_split: str | None, *, has_splits: bool) -> None:
    """Refuse the name of a part where there are no parts."""
    if fit_split is not None and not has_splits:
        raise UsageError(f"--fit-split {fit_split}: there is no split column (--split-column names one)")


@dataclass(frozen=True)
class FitOptions:
    """How to fit an eraser."""

    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = None
    holdout: float = 0.0
    sample: int | None = None
    seed: int = 0
    k: int | None = None
    alpha: float | None = None
    is_centred: bool = True
    method: str = "sal"
    hashes_embeddings: bool = True
    METHODS: ClassVar[tuple[str, ...]] = ("sal",)

    def __post_init__(self) -> None:
        if self.method not in self.METHODS:
            raise UsageError(f"--method {self.method}: expected {' or '.join(self.METHODS)}")

    def rule(self, *, has_splits: bool) -> RowRule:
        """Say which rows are fitted, now that it is known whether there is a split column."""
        require_split(self.fit_split, has_splits=has_splits)
        return RowRule(
            (self.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None, self.holdout, self.sample, self.seed
        )


@dataclass(frozen=True)
class KernelFitOptions(FitOptions):
    """How to fit an eraser in a kernel's feature space."""

    method: str = "ksal"
    kernel: str = "rbf"
    gamma: float | None = None
    degree: int | None = None
    coef0: float | None = None
    """The kernel's parameters; default: the paper's (see `Kernel`)."""
    landmarks: int | None = DEFAULT_LANDMARKS
    """Rows whose span the eraser works in; None: all fitted rows, exactly, by inner products."""
    METHODS: ClassVar[tuple[str, ...]] = ("ksal",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.landmarks is not None and self.landmarks < 2:
            raise UsageError(f"--landmarks {self.landmarks}: at least 2, or all")

    @staticmethod
    def parse_landmarks(text: str) -> int | None:
        """Read a number, or `all`."""
        if text == ALL_LANDMARKS:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise UsageError(f"--landmarks {text}: expected a number of rows, or all")
        return int(text)


@dataclass(frozen=True)
class ApplyOptions:
    """How to erase a file."""

    read: ReadOptions = field(default_factory=ReadOptions)
    strength: float = 1.0
    reduces: bool = False
    dtype: str | None = None
    output_format: str | None = None
    in_place: bool = False
    writes_kernel: bool = False
    """Of a kernel eraser: write the matrix of inner products K̂ instead of vectors."""

    def __post_init__(self) -> None:
        if self.writes_kernel and (self.reduces or self.in_place):
            raise UsageError("--kernel-matrix writes inner products: it cannot go with --reduce or --in-place")
        if self.writes_kernel and self.output_format not in (None, "h5"):
            raise UsageError(f"--kernel-matrix writes HDF5, not {self.output_format}")
        if not 0 <= self.strength <= 1:
            raise UsageError(f"--strength {self.strength} is outside 0…1")
        if self.reduces and self.strength != 1:
            raise UsageError("--reduce leaves the directions out altogether: it cannot go with --strength")
        if self.in_place and self.output_format is not None:
            raise UsageError(f"--output-format {self.output_format}: --in-place keeps the file's format")
        if self.reduces and self.in_place:
            raise UsageError("--reduce changes the width of the file: it cannot go with --in-place")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"--dtype {self.dtype}: expected one of {', '.join(DTYPES)}")

    @property
    def output_dtype(self) -> np.dtype[np.generic] | None:
        """The numbers' type that was asked for."""
        return None if self.dtype is None else np.dtype(self.dtype)


@dataclass(frozen=True)
class LabelCommandOptions:
    """How to make labels from seed words."""

    read: ReadOptions = field(default_factory=ReadOptions)
    directions: tuple[str, ...] = ()
    top: int = 1000
    by: str = "cosine"
    limit: int | None = None
    split: tuple[float, ...] = (0.49, 0.21, 0.30)
    seed: int = 0
    name: str = "label"
    with_scores: bool = False

    def __post_init__(self) -> None:
        if not self.directions or not all(all(pair) for pair in self.pairs):
            raise UsageError("--direction: expected FIRST:SECOND, two words with a colon between, such as he:she")
        if self.top < 1:
            raise UsageError(f"--top {self.top}: at least one word at each end")
        if self.by not in ("cosine", "dot"):
            raise UsageError(f"--by {self.by}: expected cosine or dot")
        if (
            len(self.split) not in (0, 3)
            or not all(share >= 0 for share in self.split)
            or not sum(self.split) <= 1 + 1e-9
            or (self.split and not sum(self.split))
        ):
            raise UsageError("--split: expected three shares, train,dev,test, that add up to more than 0 and at most 1")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit {self.limit}: at least one row")
        taken = ("word", "key", "id", "token", "split", "score", "")
        if self.name.strip().lower() in taken or set(self.name) & set(",;\t\r\n"):
            raise UsageError(f"--name {self.name!r}: that column would not be taken for labels: choose another name")

    @staticmethod
    def parse_split(text: str) -> tuple[float, ...]:
        """Read `train,dev,test` shares, or `none`."""
        if text == "none":
            return ()
        try:
            return tuple(float(share) for share in text.split(","))
        except ValueError:
            raise UsageError(f"--split {text}: expected three shares such as 0.49,0.21,0.30, or none") from None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The seed pairs."""
        return tuple((pair.rpartition(":")[0], pair.rpartition(":")[2]) for pair in self.directions)


@dataclass(frozen=True)
class InspectOptions:
    """What to look at."""

    read: ReadOptions = field(default_factory=ReadOptions)
    labels: str | None = None
    label_options: LabelOptions = field(default_factory=LabelOptions)
    similarity: str | None = None
    head: int = 5
    projection: str | None = None


SAME_KERNEL = "same-kernel"
VECTOR_PROBES = ("linear", "poly", "rbf")
PROBES = (*VECTOR_PROBES, SAME_KERNEL)
ADVERSARIES = ("in-sample", "fresh")
REPORT_SUFFIXES = (".json", ".md", ".html", ".xml")
MOST_STEPS = 1000


@dataclass(frozen=True)
class Limit:
    """A gate that judges attackers: of one probe, or of all."""

    limit: float
    probe: str | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--max-accuracy") -> "Limit":
        """Read `X` or `PROBE=X`."""
        probe, equals, number = text.rpartition("=")
        if equals and probe not in PROBES:
            raise UsageError(f"{option} {text}: no probe {probe!r}, expected one of {', '.join(PROBES)}")
        try:
            limit = float(number)
        except ValueError:
            raise UsageError(f"{option} {text}: expected [PROBE=]X with a share X, such as 0.6") from None
        return cls(require_share(limit, f"{option} {text}"), probe or None)


@dataclass(frozen=True)
class Sweep:
    """Values of one parameter along which everything is measured again."""

    parameter: str
    """k or strength."""
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Read `k=0:30`, `k=0:30:5` or `strength=0:1:0.1`; the last value belongs to it if a step meets it."""
        parameter, _, bounds = text.partition("=")
        if parameter not in ("k", "strength"):
            raise UsageError(f"--sweep {text}: expected k=FROM:TO[:STEP] or strength=FROM:TO:STEP")
        try:
            first, last, *rest = (float(part) for part in bounds.split(":"))
            step = rest[0] if rest else (1.0 if parameter == "k" else 0.1)
        except ValueError:
            raise UsageError(f"--sweep {text}: expected numbers FROM:TO or FROM:TO:STEP") from None
        finite = np.isfinite([first, last, step]).all() and len(rest) < 2
        if not finite or step <= 0 or not 0 <= first <= last or (last - first) / step >= MOST_STEPS:
            raise UsageError(f"--sweep {text}: expected 0 ≤ FROM ≤ TO, a positive STEP, at most {MOST_STEPS} values")
        values = tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
        if parameter == "k" and any(value != int(value) for value in values):
            raise UsageError(f"--sweep {text}: k is a whole number")
        if parameter == "strength" and last > 1:
            raise UsageError(f"--sweep {text}: strength is a share, 0…1")
        return cls(parameter, values)


@dataclass(frozen=True)
class EvaluateOptions:
    """How to evaluate."""

    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)
    against: str | None = None
    """An erased file made elsewhere, with the same rows."""
    adversaries: tuple[str, ...] = ADVERSARIES
    probes: tuple[str, ...] | None = None
    """Default: linear, poly and rbf, and of a kernel's eraser the same kernel."""
    fit_split: str | None = None
    holdout: float = 0.0
    probe_rows: int = 10_000
    seed: int = 0
    task: str | None = None
    """The column of the main task."""
    similarity: tuple[str, ...] = ()
    neighbors: tuple[str, ...] = ()
    """Words whose neighbours are shown."""
    sweep: Sweep | None = None
    repeats: int | None = None
    sample: int | None = None
    """Rows of each repeated fit."""
    max_accuracy: tuple[Limit, ...] = ()
    max_gain: tuple[Limit, ...] = ()
    max_tpr_gap: float | None = None
    min_similarity_kept: float | None = None
    reports: tuple[str, ...] = ()

    @property
    def fits_again(self) -> bool:
        """Whether erasers are fitted: to samples of the rows, or of another k."""
        return self.repeats is not None or (self.sweep is not None and self.sweep.parameter == "k")

    def __post_init__(self) -> None:
        unknown = [name for name in self.adversaries if name not in ADVERSARIES]
        if unknown or not self.adversaries:
            raise UsageError(f"--adversary {','.join(self.adversaries)}: expected {' or '.join(ADVERSARIES)}")
        if self.probes is not None and (not self.probes or not set(self.probes) <= set(PROBES)):
            raise UsageError(f"--probes {','.join(self.probes)}: expected some of {', '.join(PROBES)}")
        if self.probe_rows < 2:
            raise UsageError(f"--probe-rows {self.probe_rows}: at least 2 rows are needed")
        self._require_companions()

    def _require_companions(self) -> None:
        for name, share in (
            ("--max-tpr-gap", self.max_tpr_gap),
            ("--min-similarity-kept", self.min_similarity_kept),
        ):
            if share is not None:
                require_share(share, f"{name} {share:g}")
        if (self.repeats is None) != (self.sample is None):
            raise UsageError("--repeats N and --sample M go together: N fits, each on M of the rows")
        if self.repeats is not None and (self.repeats < 2 or (self.sample or 0) < 2):
            raise UsageError(f"--repeats {self.repeats} --sample {self.sample}: at least 2 fits on at least 2 rows")
        for path in self.reports:
            if Path(path).suffix.lower() not in REPORT_SUFFIXES:
                raise UsageError(f"--report {path}: expected a name that ends in {', '.join(REPORT_SUFFIXES)}")
        if self.task is not None and "in-sample" not in self.adversaries:
            raise UsageError("--task trains on the fitted rows: leave in-sample among --adversary")
        if self.max_tpr_gap is not None and self.task is None:
            raise UsageError("--max-tpr-gap judges a main task: give --task COL")
        if self.min_similarity_kept is not None and not self.similarity:
            raise UsageError("--min-similarity-kept judges word similarity: give --similarity SET")

    @property
    def needs_vectors(self) -> bool:
        """Whether anything but the same kernel looks at written vectors."""
        asked = (self.similarity, self.neighbors, self.task, self.sweep, self.repeats)
        return any(asked) or set(self.probes or VECTOR_PROBES) != {SAME_KERNEL}

    def require_inputs(self, *, has_labels: bool, has_eraser: bool) -> None:
        """Refuse what the inputs that are given cannot answer.

        Raises
        ------
        UsageError : it names the option and what it needs
        """
        if has_eraser and self.against is not None:
            raise UsageError("--eraser and --against both say what comes after: give one")
        if not has_labels and not (self.similarity or self.neighbors):
            raise UsageError("missing LABELS (only --similarity and --neighbors do without)")
        if self.neighbors and not has_eraser and self.against is None:
            raise UsageError("--neighbors compares before with after: give --eraser or --against")
        if (self.sweep is not None or self.repeats is not None) and not (has_eraser and has_labels):
            raise UsageError("--sweep and --repeats erase again and again: they need --eraser and LABELS")
        if (self.sweep is not None or self.repeats is not None) and set(self.probes or ()) == {SAME_KERNEL}:
            raise UsageError(
                "--sweep and --repeats look at written vectors: ask for another probe than same-kernel alone"
            )
        if self.task is not None and not has_labels:
            raise UsageError("--task is a column of LABELS: give them")
        if self.min_similarity_kept is not None and not has_eraser and self.against is None:
            raise UsageError("--min-similarity-kept compares before with after: give --eraser or --against")


def require_share(value: float, told: str) -> float:
    """Refuse a limit that is no share."""
    if not 0 <= value <= 1:
        raise UsageError(f"{told}: not a share, 0…1")
    return value

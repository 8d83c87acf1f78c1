"""Options of `compare`."""

from dataclasses import dataclass, field

from salcli.errors import UsageError
from salcli.options.cluster import ClusterOptions
from salcli.options.evaluate import EvaluateOptions
from salcli.options.record import WITHOUT, Record, option


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

    @property
    def cluster(self) -> ClusterOptions:
        """Where chunks of the embeddings are read."""
        return self.evaluation.cluster

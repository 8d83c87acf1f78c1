"""Where the embeddings are read: on threads of this process, or on a cluster."""

from dataclasses import dataclass

from salcli.errors import UsageError
from salcli.options.record import Record, option


@dataclass(frozen=True)
class ClusterOptions(Record):
    """Where chunks of the embeddings are read; default: on threads of this process."""

    scheduler: str | None = option(
        None,
        help="Read and compute on the workers of the Dask cluster whose scheduler is at tcp://HOST:PORT, which must "
        "see the same files; default: that of DASK_SCHEDULER_ADDRESS, where it is set.",
        metavar="ADDRESS",
    )
    workers: int | None = option(
        None, help="Read and compute in N processes of this machine (Dask).", metavar="N", bounds=(1, None)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scheduler is not None and self.workers is not None:
            raise UsageError("`scheduler` and `workers` exclude each other: give one")

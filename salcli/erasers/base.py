"""`Method`, `Eraser` and `Fit`: what every method has in common, and the registry `METHODS`.

A method is one file: a frozen record of parameters and a `fit` that turns labelled rows into an eraser.
"""

import importlib
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.errors import ParameterError, UsageError, warn
from salcli.linalg.moments import Statistics
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]


class Eraser(Protocol):
    """A fitted, frozen change of rows. Erasers subclass it, and inherit defaults of the methods that not all need."""

    kind: ClassVar[str]
    """Its name in artifacts (see `ERASERS`)."""
    names: ClassVar[tuple[str, ...]]
    """The arrays of it in an artifact."""
    keeps_space: ClassVar[bool] = True
    """Whether rows stay in their own space: with strength 0 they do not change."""
    needs_secret: ClassVar[bool] = False
    """Whether it erases with a secret only, which is in no artifact (see `keyed`)."""
    normalizes: ClassVar[bool] = False
    """Whether rows are divided by their lengths, with any strength."""
    least_dtype: ClassVar[type[np.floating[Any]]] = np.float16
    """The narrowest dtype for its rows."""

    @property
    def d(self) -> int:
        """Width of the rows it takes."""

    @property
    def d_out(self) -> int:
        """Width of the rows it returns."""

    @property
    def k(self) -> int:
        """Number of directions it removes."""

    @property
    def is_orthogonal(self) -> bool:
        """Whether it is an orthogonal projection of rows (or of their features)."""
        return False

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return erased rows.

        Parameters
        ----------
        x : `[n, d]`
        strength : λ ∈ [0, 1], the share of the way
        dtype : of the result
        out : memory that may be used for the result

        Returns
        -------
        `[n, d_out]`
        """

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact, by the names in `names`."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        """Return the eraser of an artifact, after checking it (the inverse of `arrays`).

        Parameters
        ----------
        arrays : by the names in `names`
        header : of the artifact

        Raises
        ------
        SalcliError : the arrays are no such eraser
        """

    def truncated(self, k: int) -> "Eraser | None":  # noqa: ARG002 (members use it)
        """Return the eraser that removes the first `k` of its directions only; None if the method must fit again."""
        return None

    def reduce(
        self,
        x: NDArray[Any],  # noqa: ARG002 (members use them)
        *,
        dtype: DTypeLike | None = None,  # noqa: ARG002
        out: NDArray[Any] | None = None,  # noqa: ARG002
    ) -> NDArray[Any]:
        """Return the coordinates of rows in the complement of what is removed.

        Parameters
        ----------
        x : `[n, d]`
        dtype : of the result
        out : memory that may be used for the result

        Returns
        -------
        `[n, d_out − k]`

        Raises
        ------
        UsageError : it is no orthogonal projection
        """
        raise UsageError("`reduces` needs an orthogonal projection, which this eraser is not")

    def preimages(self, y: NDArray[Any], *, strength: float = 1.0) -> Array | None:  # noqa: ARG002 (members use them)
        """Return what erased rows may have been, as far as whoever holds the eraser can compute it.

        Parameters
        ----------
        y : `[n, d_out]` erased rows
        strength : λ ∈ [0, 1] that they were erased with

        Returns
        -------
        `[n, p]`, columns to read beside those of y; None: a row has no trace of what was removed

        Raises
        ------
        UsageError : nothing computes it for this kind of eraser
        """
        raise UsageError(f"`adversaries=white-box`: nothing here inverts an eraser of the kind {self.kind!r}")

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:  # noqa: ARG002 (members use them)
        """Return how much rounding brings back of the removed directions, as a root mean square; 0 if not known.

        Parameters
        ----------
        x : rows `[n, d]` before erasure
        dtype : that erased rows are rounded to
        """
        return 0.0

    def to_features(self, remedy: str = "") -> "Eraser":  # noqa: ARG002 (a kernel's eraser may need memory)
        """Return an eraser that writes vectors: this one, or for inner products one of features.

        Parameters
        ----------
        remedy : what needs less memory, as the message ends
        """
        return self

    def keyed(self, secret: bytes) -> "Eraser":  # noqa: ARG002 (members use it)
        """Return the eraser with the `secret` that it needs.

        Raises
        ------
        UsageError : it needs none
        """
        raise UsageError("this eraser needs no secret")

    def by_inner_products(self) -> Any:
        """Return the same eraser by inner products (`KernelEraser`), or None without a kernel."""
        return None

    @property
    def rows_at_once(self) -> int | None:
        """Rows of the best batches, for erasers whose arithmetic does not depend on batches; None: any."""
        return None


E = TypeVar("E", bound=Eraser, covariant=True)


@dataclass(frozen=True, eq=False)
class Fit(Generic[E]):
    """The result of a method's `fit`: an eraser and the spectrum that its directions were chosen from."""

    eraser: E
    singular_values: Array
    """`[min(d, c)]` of the matrix whose directions are removed, descending."""
    rank: int
    """Number of singular values above rounding."""
    k_rule: dict[str, Any] = field(default_factory=lambda: {"rank": True})
    """How k was chosen: {"given": k}, {"alpha": α} or {"rank": true}."""
    is_centred: bool = True
    """Whether the moments were centred."""
    header: dict[str, Any] = field(default_factory=dict)
    """Further plain values for the artifact's header, or corrections of those that `fit` received."""
    doubts: tuple[str, ...] = ()
    """Warnings about this fit, for callers that fit once (see `warn_of_doubts`)."""
    statistics: Any = field(default=None, repr=False)
    """The sums that it was fitted to, where they are all that the method needs (see `SummedMethod`)."""


def task_of(parameters: Any) -> str | None:
    """Return the column of the main task that a method's `parameters` name; None for methods that keep none.

    Raises
    ------
    UsageError : the method keeps one, and none is named
    """
    task: str | None = getattr(parameters, "task", None)
    if task is None and hasattr(parameters, "task"):
        raise UsageError("the method keeps a main task: name its column by `task=COL`")
    return task


def warn_of_doubts(fit: Fit[Eraser]) -> None:
    """Warn of the doubts of `fit`, and of an eraser that removes all directions."""
    for doubt in fit.doubts:
        warn(doubt)
    if fit.eraser.k == fit.eraser.d_out:
        warn(
            f"all {fit.eraser.k} directions are removed, so erased rows are all equal and no main task can be learnt: "
            "remove fewer"
        )


class Method(Protocol):
    """A way to fit an eraser."""

    name: str
    summary: str
    """When to use it, in one line."""
    Parameters: type
    """A frozen dataclass of `option` fields, from which the command line is generated. If it has a field `task`, that
    names the column of the main task, which `fit` then receives."""

    def fit(
        self,
        rows: LabelledSource,
        parameters: Any,
        *,
        task: Attribute | None,
        seed: int,
        engine: Engine,
        progress: Progress,
    ) -> Fit[Eraser]:
        """Fit an eraser, in one pass over the rows, several, or with the rows in memory.

        Parameters
        ----------
        rows : labelled rows
        parameters : an instance of `Parameters`
        task : classes of the main task, of the same rows, for methods that keep it
        seed : of the random number generator
        engine : where the passes run
        progress : shows the stages
        """


class SummedMethod(Method, Protocol):
    """A method that needs nothing of the rows but sums, so that rows can come in parts, and sums be added up."""

    Statistics: type[Statistics]

    def needs_sums_only(self, parameters: Any) -> bool:
        """Return whether that is so with these `parameters`: it must not read rows twice."""

    def centres(self, parameters: Any) -> bool:
        """Return whether numeric labels are measured from their mean with these `parameters`."""

    def summed(self, labels: GuardedLabels) -> GuardedLabels:
        """Return `labels` with all columns of Z that are added up: those of the main task, if it keeps one, too."""

    def fit_sums(self, statistics: Any, labels: GuardedLabels, parameters: Any) -> Fit[Eraser]:
        """Fit an eraser to sums of rows.

        Parameters
        ----------
        statistics : of rows and of the Z of `labels`, numbers in standard deviations
        labels : of these rows, as `summed` returns them
        parameters : an instance of `Parameters`
        """


T = TypeVar("T")


class Registry(MutableMapping[str, T]):
    """Members by name; those written as `module:attribute` are imported when they are first used."""

    def __init__(self, members: dict[str, str]) -> None:
        self._members: dict[str, Any] = dict(members)

    def __getitem__(self, name: str) -> T:
        member = self._members[name]
        if isinstance(member, str):
            module, _, attribute = member.partition(":")
            member = self._members[name] = getattr(importlib.import_module(module), attribute)
        found: T = member
        return found

    def __setitem__(self, name: str, member: T) -> None:
        self._members[name] = member

    def __delitem__(self, name: str) -> None:
        del self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


METHODS: Registry[Method] = Registry(
    {
        "sal": "salcli.erasers.sal:METHOD",
        "leace": "salcli.erasers.leace:METHOD",
        "splince": "salcli.erasers.splince:METHOD",
        "inlp": "salcli.erasers.inlp:METHOD",
        "ksal": "salcli.erasers.ksal:METHOD",
        "transport": "salcli.erasers.transport.method:METHOD",
        "auto": "salcli.evaluation.choose:METHOD",  # above the other methods: it trains attackers on what they erase
    }
)


def find_method(name: str) -> Method:
    """Return the method called `name`.

    Raises
    ------
    ParameterError : there is none; the message lists those there are
    """
    if name not in METHODS:
        raise ParameterError("method", name, f"expected one of {', '.join(METHODS)}")
    return METHODS[name]


ERASERS: Registry[type[Eraser]] = Registry(
    {
        "linear": "salcli.erasers.linear:LinearEraser",
        "unit": "salcli.erasers.unit:UnitEraser",
        "features": "salcli.erasers.kernel:FeatureEraser",
        "inner products": "salcli.erasers.kernel:KernelEraser",
        "transport": "salcli.erasers.transport.eraser:TransportEraser",
        "transports": "salcli.erasers.transport.sequence:SequenceEraser",
        "noisy transport": "salcli.erasers.transport.noise:NoisyTransportEraser",
    }
)

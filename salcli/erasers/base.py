"""STUB of the methods' registry, for the command line alone; `METHODS`, `find_method` and the names below stay.

A method is one object: its name, when to use it, its parameters as an option record, and how it is fitted.
"""

from collections import UserDict
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol

from salcli.data.embeddings import Rows
from salcli.data.labels import GuardedLabels, as_index
from salcli.errors import ParameterError
from salcli.formats.finite import FiniteSource
from salcli.linalg.kernels import PARAMETERS
from salcli.options import Record, option
from salcli.streaming.progress import Progress


class Method(Protocol):
    """How an eraser is fitted."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line: when to use it."""
    Parameters: ClassVar[type]
    """An option record."""

    def fit(
        self,
        source: FiniteSource,
        labels: GuardedLabels,
        rows: Rows | range,
        parameters: Any,
        *,
        seed: int,
        progress: Progress,
    ) -> Any:
        """Fit the rows that carry `labels`; return a `SpectralFit`."""


class _Methods(UserDict[str, Any]):
    """Methods by name; one that is written as `module:NAME` is imported when it is used."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = getattr(import_module(module), attribute)
        return found


METHODS = _Methods({"sal": "salcli.erasers.base:SAL", "ksal": "salcli.erasers.base:KSAL"})


def find_method(name: str) -> Method:
    """Return the method called `name`.

    Raises
    ------
    ParameterError : there is none; the message lists those there are
    """
    if name not in METHODS:
        raise ParameterError("method", name, f"expected one of {', '.join(METHODS)}")
    found: Method = METHODS[name]
    return found


def parse_landmarks(text: str) -> int | str:
    """Read a number of rows, or `all`."""
    if text == "all":
        return text
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ValueError("expected a number of rows, or all")
    return int(text)


@dataclass(frozen=True)
class SalParameters(Record):
    """How many directions are removed."""

    k: int | None = option(None, "-k", help="Directions to remove; default: all of the rank.", metavar="N")
    alpha: float | None = option(None, help="Instead of `k`: the least k with σ₁/σₖ₊₁ > A, at least 1.", metavar="A")
    center: bool = option(True, off="--no-center", help="Centre X and Z first; the paper does not.")

    def __post_init__(self) -> None:
        from salcli.erasers.sal import require_choice

        super().__post_init__()
        require_choice(self.k, self.alpha)


@dataclass(frozen=True)
class KsalParameters(SalParameters):
    """The kernel, and the rows whose span the eraser works in."""

    kernel: str = option("rbf", help="rbf, poly or linear.", metavar="K", choices=tuple(PARAMETERS))
    gamma: float | None = option(None, help="Of rbf (default 0.1) and poly (default 1).", metavar="γ")
    degree: int | None = option(None, help="Of poly (default 2): (γ xᵀx' + c₀)ᵖ.", metavar="P")
    coef0: float | None = option(None, help="c₀ of poly (default 1).", metavar="C")
    landmarks: int | str = option(
        2048,
        help="Rows (all fitted ones, or a stratified sample) whose span the eraser works in; all: exact kSAL.",
        metavar="M|all",
        parse=parse_landmarks,
    )

    def __post_init__(self) -> None:
        from salcli.erasers.kernel_route import kernel_of

        super().__post_init__()
        kernel_of(self)  # type: ignore[arg-type]
        if self.landmarks != "all" and (isinstance(self.landmarks, str) or self.landmarks < 2):
            raise ParameterError("landmarks", self.landmarks, "at least 2, or all")


@dataclass(frozen=True)
class KernelFitOptions:
    """What `kernel_route` reads."""

    k: int | None
    alpha: float | None
    is_centred: bool
    kernel: str
    gamma: float | None
    degree: int | None
    coef0: float | None
    landmarks: int | None
    seed: int


class Sal:
    """Spectral Attribute removaL."""

    name = "sal"
    summary = "the directions that covary with the labels; the default, fast at any size"
    Parameters = SalParameters

    def fit(self, source: Any, labels: Any, rows: Any, parameters: Any, *, seed: int, progress: Any) -> Any:  # noqa: ARG002
        """Fit in one pass over the rows."""
        from salcli.data.join import LabelledRows
        from salcli.erasers.sal import fit_sal
        from salcli.streaming.passes import fold_moments

        center = parameters.center
        moments = fold_moments(source, labels, LabelledRows.of(rows), progress, is_centred=center)
        return fit_sal(moments, parameters.k, alpha=parameters.alpha, is_centred=center)


class Ksal:
    """SAL in the feature space of a kernel."""

    name = "ksal"
    summary = "SAL in a kernel's feature space: for what attackers that are not linear still read"
    Parameters = KsalParameters

    def fit(self, source: Any, labels: Any, rows: Any, parameters: Any, *, seed: int, progress: Any) -> Any:
        """Fit on landmarks, or exactly on all rows."""
        from salcli.erasers.kernel_route import fit_by_landmarks, fit_exactly

        p = parameters
        landmarks = None if p.landmarks == "all" else p.landmarks
        options = KernelFitOptions(p.k, p.alpha, p.center, p.kernel, p.gamma, p.degree, p.coef0, landmarks, seed)
        by = fit_exactly if landmarks is None else fit_by_landmarks
        return by(source, labels, as_index(rows), options, progress)


SAL, KSAL = Sal(), Ksal()

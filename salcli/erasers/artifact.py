"""`Artifact`: an eraser and how it was fitted, as `fit` writes it and `apply` and `evaluate` read it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels
from salcli.data.source import Source
from salcli.data.splits import SplitRule
from salcli.erasers.base import ERASERS, METHODS, Eraser, Method
from salcli.errors import AlignmentError, FormatError, SalcliError, UsageError
from salcli.formats.artifact import SCHEMA_1, read_file, write_file
from salcli.linalg.blas import blas_product
from salcli.options import LabelOptions


@dataclass(frozen=True, eq=False)
class Artifact:
    """An eraser as it is in a file."""

    eraser: Eraser
    """The eraser."""
    singular_values: NDArray[np.float64]
    """`[min(d, c)]` of Ω, descending."""
    header: dict[str, Any]
    """Schema, method, options, classes, rank, the rule of the fitted rows, hashes and versions."""
    sha256: str = ""
    """Of the file it was read from; empty before it is written."""

    @property
    def n_bytes(self) -> int:
        """Bytes of its arrays."""
        return self.singular_values.nbytes + sum(array.nbytes for array in self.eraser.arrays().values())

    @property
    def rule(self) -> SplitRule:
        """Which rows were fitted."""
        return SplitRule.from_dict(self.header["rows"]["rule"])

    @property
    def spells_numbers(self) -> bool:
        """Whether its digests are of row numbers as text (see `salcli.data.digests`)."""
        return bool(self.header.get("schema") == SCHEMA_1)

    @property
    def method(self) -> Method:
        """The method that fitted it.

        Raises
        ------
        FormatError : this version has no such method
        """
        name = self.header["method"]
        if name not in METHODS:
            raise FormatError(f"the eraser was fitted by method {name!r}; this salcli has {', '.join(METHODS)}")
        return METHODS[name]

    @property
    def parameters(self) -> Any:
        """The method's parameters, as `fit` received them.

        Raises
        ------
        FormatError : they are not those of the method
        """
        values = self.header["parameters"].items()  # JSON has lists where options have tuples
        try:
            return self.method.Parameters(**{name: tuple(v) if isinstance(v, list) else v for name, v in values})
        except (TypeError, UsageError) as error:
            why = f": {error}" if isinstance(error, UsageError) else ""
            raise FormatError(f"the parameters of method {self.header['method']!r} are not understood{why}") from error

    def summary(self) -> dict[str, Any]:
        """Return the main values of the header."""
        names = ("method", "d", "k", "rank", "is_centred", "k_rule", "kernel", "landmarks")
        return {name: self.header[name] for name in names if name in self.header} | {
            "attributes": [a["name"] for a in self.header["attributes"]]
        }

    def require_width(self, path: str, source: Source) -> None:
        """Check that rows have the width that the eraser takes.

        Parameters
        ----------
        path : of the artifact, for the message
        source : the rows

        Raises
        ------
        AlignmentError : the widths differ
        """
        if source.d != self.eraser.d:
            versions = self.header.get("versions", {})
            by = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
            raise AlignmentError(
                f"{source.path} has {source.d} dimensions, but {path} erases {self.eraser.d} (written by {by})"
            )

    @property
    def task(self) -> str | None:
        """The column of the main task whose covariance the method keeps; None for methods that keep none."""
        task: str | None = self.header["parameters"].get("task")
        return task

    def guards(self, labels: GuardedLabels) -> bool:
        """Return whether `labels` have the attributes that were guarded, in their order, and the task that was kept."""
        has_task = self.task is None or (labels.task is not None and labels.task.name == self.task)
        return has_task and [a["name"] for a in self.header["attributes"]] == [a.name for a in labels.attributes]

    def label_options(self, chosen: LabelOptions, path: str) -> LabelOptions:
        """Return options that read labels as the fit did, except for those that the user set.

        Parameters
        ----------
        chosen : the user's options
        path : of the artifact, for messages
        """
        rows, attributes = self.header["rows"], self.header["attributes"]
        is_chosen = bool(chosen.attributes or chosen.numeric)
        return LabelOptions(
            chosen.attributes if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is not None),
            chosen.numeric if is_chosen else tuple(a["name"] for a in attributes if a["classes"] is None),
            chosen.key if chosen.key is not None else None if chosen.by_row else rows["key_column"],
            chosen.by_row or (chosen.key is None and rows["joined_by"] == "row"),
            chosen.split_column or (None if chosen.no_split else rows["split_column"]),
            chosen.no_split or (chosen.split_column is None and rows["split_column"] is None),
            chosen.groups if chosen.groups is not None else rows.get("group_column"),
            chosen.task,
            path,
            frozenset(
                option
                for option, value in (
                    ("attributes", chosen.attributes),
                    ("numeric", chosen.numeric),
                    ("key", chosen.key),
                    ("by_row", chosen.by_row or None),
                    ("split_column", chosen.split_column),
                    ("groups", chosen.groups),
                    ("task", chosen.task),
                )
                if value not in (None, ())
            ),
        )


def write_artifact(path: str, artifact: Artifact) -> None:
    """Write an artifact, whole or not at all.

    Parameters
    ----------
    path : of the output
    artifact : its hash is not used

    Raises
    ------
    OutputError : it cannot be written
    """
    arrays = {**artifact.eraser.arrays(), "singular_values": artifact.singular_values}
    write_file(path, {**artifact.header, "eraser": artifact.eraser.kind}, arrays)


def read_artifact(path: str) -> Artifact:
    """Return the artifact in a file, after checking it.

    Parameters
    ----------
    path : of the file

    Raises
    ------
    FormatError : not an artifact, of another schema, or damaged
    """
    file = read_file(path)
    header, singular_values = file.header, file.arrays["singular_values"]
    if header["eraser"] not in ERASERS:
        raise FormatError(f"{path}: holds an eraser of kind {header['eraser']!r:.60}; this salcli reads {_kinds()}")
    kind = ERASERS[header["eraser"]]
    if missing := [name for name in kind.names if name not in file.arrays]:
        raise FormatError(f"{path}: damaged artifact: the arrays {', '.join(missing)} are missing")
    try:
        eraser = kind.from_arrays(file.arrays, header)
    except SalcliError as error:
        raise FormatError(f"{path}: damaged artifact: {error}") from error
    _require_consistent(path, header, eraser, singular_values)
    blas_product()  # loaded here, since it is used on threads later
    return Artifact(eraser, singular_values, header, file.sha256)


def _kinds() -> str:
    return ", ".join(ERASERS)


def _require_consistent(
    path: str, header: dict[str, Any], eraser: Eraser, singular_values: NDArray[np.float64]
) -> None:
    for name, value in (("d", eraser.d), ("k", eraser.k)):
        if header[name] != value:
            raise FormatError(f"{path}: damaged artifact: its header has {name} = {header[name]}, its arrays {value}")
    if not np.all(singular_values >= 0) or np.any(np.diff(singular_values) > 0):
        raise FormatError(f"{path}: damaged artifact: singular values must be positive and descending")
    if not header["k"] <= header["rank"] <= len(singular_values):
        raise FormatError(
            f"{path}: damaged artifact: its header has rank = {header['rank']}, "
            f"of {len(singular_values)} singular values, and k = {header['k']}"
        )

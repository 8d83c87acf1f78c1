"""`LabelMatrix`: the non-zero entries of rows of Z, and sums over them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ShapeError
from salcli.linalg.blas import add_products
from salcli.linalg.decompositions import norm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelMatrix:
    """Rows of Z `[n, c]` with the same few entries in each: a class sets one 1, a number itself."""

    columns: NDArray[np.int32]
    """`[n, a]` the columns of Z that a row has an entry in."""
    values: Array | None
    """`[n, a]` the entries; None: all of them are 1."""
    width: int
    """Columns c of Z."""
    n_one_hot: int = 0
    """How many leading columns hold exactly one 1 in each row (0: not known)."""

    @classmethod
    def of(cls, z: NDArray[Any]) -> Self:
        """Return the label matrix of a dense `z` `[n, c]`, which may be one-hot.

        Raises
        ------
        ShapeError : it is not a matrix
        """
        if z.ndim != 2:
            raise ShapeError(f"z {z.shape} is not [n, c]")
        n, c = z.shape
        z = np.asarray(z)
        ones = z == 1
        if n and np.count_nonzero(ones) == n == np.count_nonzero(z):
            codes = np.flatnonzero(ones) - np.arange(0, n * c, c)
            if codes.min() >= 0 and codes.max() < c:  # one in each row: else one has two, or none
                return cls(codes.astype(np.int32)[:, None], None, c, c)
        return cls(np.broadcast_to(np.arange(c, dtype=np.int32), (n, c)), np.asarray(z, dtype=np.float64), c)

    def __len__(self) -> int:
        return len(self.columns)

    def take(self, rows: Any) -> Self:
        """Return the rows that `rows` (positions or a slice) selects."""
        values = None if self.values is None else self.values[rows]
        return type(self)(self.columns[rows], values, self.width, self.n_one_hot)

    def with_ones(self) -> Self:
        """Return the matrix with a further column, of ones."""
        n = len(self)
        columns = np.concatenate([self.columns, np.full((n, 1), self.width, np.int32)], axis=1)
        values = None if self.values is None else np.concatenate([self.values, np.ones((n, 1))], axis=1)
        return type(self)(columns, values, self.width + 1, self.n_one_hot)

    def to_dense(self) -> Self:
        """Return the matrix with an entry in every column, zeros included: `values` is then Z `[n, c]`."""
        columns = np.arange(self.width, dtype=np.int32)
        if self.values is None and self.columns.shape[1] == 1:
            values = np.eye(self.width).take(self.columns[:, 0], axis=0)
        else:
            values = np.zeros((len(self), self.width))
            np.put_along_axis(values, self.columns, 1.0 if self.values is None else self.values, axis=1)
        return type(self)(np.broadcast_to(columns, values.shape), values, self.width)

    @classmethod
    def concatenated(cls, parts: "Sequence[LabelMatrix]") -> "LabelMatrix":
        """Return the rows of `parts`, at least one matrix and all of the same columns, one after the other."""
        if len(parts) == 1:
            return parts[0]
        entries = [part.values for part in parts if part.values is not None]
        columns, values = (
            np.concatenate([part.columns for part in parts]),
            np.concatenate(entries) if entries else None,
        )
        return cls(columns, values, parts[0].width, parts[0].n_one_hot)

    def add_sums_to(self, sums: Array) -> None:
        """Add Σ z to `sums` `[c]`, row by row."""
        if self.values is None:
            sums += np.bincount(self.columns.reshape(-1), minlength=len(sums))
        else:
            np.add.at(sums, self.columns.reshape(-1), self.values.reshape(-1))

    def add_products_to(self, sums: Array, x: Array) -> None:
        """Add Σ z xᵀ over rows `x` `[n, d]` to `sums` `[c, d]`, in place."""
        if self.values is not None and self.columns.shape[1] == self.width:
            sums += self.values.T @ x
            return
        starts = np.arange(0, self.columns.size + 1, self.columns.shape[1], dtype=np.int32)
        values = np.ones(self.columns.size) if self.values is None else self.values.reshape(-1)
        add_products(sums, starts, self.columns.reshape(-1), values, x)

    @property
    def norm(self) -> float:
        """√Σ z² of all entries."""
        return math.sqrt(self.columns.size) if self.values is None else norm(self.values)

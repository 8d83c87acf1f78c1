"""`GroupedSums`: sums of many float32 rows by class, nearly as fast as they are read."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from salcli.spectral.design import SparseDesign
from salcli.spectral.row_sums import NARROW, RowSums

GROUP = 64  # rows that are added up in float32 before float64 takes over
BLOCK_ELEMENTS = 1 << 21  # numbers added up at once: Python comes in between seldom enough for two threads
GROUPS_ELEMENTS = 1 << 18  # of groups' sums, before they are added up
LEAST_ELEMENTS = 1 << 25  # fewer numbers take no time in float64 either
MOST_SUMS = 1 << 19  # more sums than that take longer to join than their rows to add up
MEASURED = 8  # of so many rows one is measured


def may_group(n: int, d: int, width: int, n_one_hot: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether n rows are many enough, and of the kind, to be added up by groups."""
    return dtype == np.float32 and n_one_hot == width and n * d >= LEAST_ELEMENTS and width * d <= MOST_SUMS


class GroupedSums(RowSums):
    """Sums of float32 rows with one class each: of small groups in float32, of the groups in float64.

    Products with a one-hot Z are exact, so all rounding is that of the additions in a group. How large it may be is
    judged by a part of the rows.
    """

    measures_all = False

    def __init__(self, d: int, width: int) -> None:
        """Begin with nothing; d and width: columns of X and Z."""
        super().__init__(d, width, n_one_hot=width)
        rows = self.rows_at_once
        # Of many classes a group has so many rows that each gets about half of `GROUP`.
        self._is_narrow = width <= NARROW
        self._n_rows_group = GROUP if self._is_narrow else min(rows, _power_of_two(width * GROUP * 3 // 4))
        at_once = rows // self._n_rows_group
        self._groups = np.zeros((at_once * max(1, GROUPS_ELEMENTS // (at_once * width * d)), width, d), np.float32)
        self._at_once, self._n_full, self._n_open, self._n_rows = at_once, 0, 0, 0

    def _room(self, d: int) -> NDArray[Any]:
        return np.empty((max(GROUP, _power_of_two(BLOCK_ELEMENTS // d)), d), np.float32)

    def _add_batches(self, batches: Iterable[NDArray[Any]], z: SparseDesign) -> None:
        sorter, rows, at = self._sorter(z), self.rows_at_once, 0
        for x in batches:
            if len(x) == rows and not self._n_waiting and at % GROUP == 0 and x.flags.c_contiguous:
                self._sum_up_by(sorter, x, at)
            else:
                self._gather(x, z, at)
            at += len(x)

    def _sorter(self, z: SparseDesign) -> "_Sorter":
        return _Products(z) if self._is_narrow else _Classes(z, self._n_rows_group)

    def _sum_up(self, x: NDArray[Any], z: SparseDesign) -> None:
        self._sum_up_by(self._sorter(z), x, 0)

    def _sum_up_by(self, sorter: "_Sorter", x: NDArray[np.float32], at: int) -> None:
        self._measure(x[: -(-len(x) // MEASURED)])
        most = sorter.most_rows(at, len(x))
        if self._n_rows + most > GROUP:
            self._begin_groups()
        self._n_open = sorter.put(self._groups[self._n_full :], x, at)
        self._n_rows += most
        self.most_grouped = max(self.most_grouped, self._n_rows)

    def _begin_groups(self) -> None:
        """Leave the groups that rows were added to last, and make room for others."""
        self._n_full, self._n_open, self._n_rows = self._n_full + self._n_open, 0, 0
        if self._n_full + self._at_once > len(self._groups):
            self._add_groups()

    def _add_groups(self) -> None:
        used = self._groups[: self._n_full + self._n_open]
        if len(used) == 1:
            self._sums += used[0]
        else:
            self._sums += used.sum(axis=0, dtype=np.float64)
        used[:] = 0
        self._n_full, self._n_open, self._n_rows = 0, 0, 0

    def _finish(self) -> None:
        super()._finish()
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_groups()

    @property
    def is_finite(self) -> bool:
        """Whether the sums are: neither NaN nor Inf leaves a sum."""
        return super().is_finite and bool(np.isfinite(self._sums).all())


class _Sorter(Protocol):
    """Sums of groups of rows by class."""

    def most_rows(self, at: int, n: int, /) -> int:
        """Say how many of the n rows from `at` one group will get from `put` in one class, at most."""

    def put(self, groups: NDArray[np.float32], x: NDArray[np.float32], at: int, /) -> int:
        """Add the rows `at`…, after `most_rows` of them, to `groups` `[m, c, d]`; give how many of these it took."""


class _Products(_Sorter):
    """Of a few classes: as products with Z, `GROUP` rows at a time."""

    def __init__(self, z: SparseDesign) -> None:
        self._z = np.take(np.eye(z.width, dtype=np.float32), z.columns[:, 0], axis=0)
        n = len(z) // GROUP
        self._grouped = self._z[: n * GROUP].reshape(n, GROUP, z.width).transpose(0, 2, 1)

    def most_rows(self, _at: int, _n: int, /) -> int:
        return GROUP

    def put(self, groups: NDArray[np.float32], x: NDArray[np.float32], at: int, /) -> int:
        n, first = len(x) // GROUP, at // GROUP
        whole = n * GROUP
        np.matmul(self._grouped[first : first + n], x[:whole].reshape(n, GROUP, x.shape[1]), out=groups[:n])
        if whole == len(x):
            return n
        np.matmul(self._z[at + whole : at + len(x)].T, x[whole:], out=groups[n])
        return n + 1


class _Classes(_Sorter):
    """Of many classes: each row to the sum of its class in its group."""

    def __init__(self, z: SparseDesign, rows: int) -> None:
        self._codes, self._width, self._rows = np.ascontiguousarray(z.columns[:, 0]), z.width, rows
        self._starts, self._ones = np.arange(len(z) + 1, dtype=np.int32), np.ones(len(z), np.float32)
        self._places = self._codes[:0]

    def most_rows(self, at: int, n: int, /) -> int:
        codes = self._codes[at : at + n]  # which sum each row belongs to, group by group:
        self._places = codes if n <= self._rows else codes + self._starts[:n] // self._rows * self._width
        return int(np.bincount(self._places).max(initial=0))

    def put(self, groups: NDArray[np.float32], x: NDArray[np.float32], _at: int, /) -> int:
        from scipy.sparse import _sparsetools

        (n, d), n_groups = x.shape, -(-len(x) // self._rows)
        columns = (self._starts[: n + 1], self._places, self._ones[:n])
        flat = (x.reshape(-1), groups[:n_groups].reshape(-1))
        _sparsetools.csc_matvecs(n_groups * self._width, n, d, *columns, *flat)
        return n_groups


def _power_of_two(n: int) -> int:
    """Give the largest one up to n (at least 1), which divides the rows of a unit."""
    return 1 << (max(1, n).bit_length() - 1)

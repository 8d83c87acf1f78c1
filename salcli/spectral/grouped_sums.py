"""`GroupedSums`: sums of many float32 rows by class, nearly as fast as they are read."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.spectral.design import SparseDesign
from salcli.spectral.linalg import power_of_two
from salcli.spectral.row_sums import RowSums
from salcli.spectral.scatter import add_products

GROUP = 64  # about so many rows of a class are added up in float32 before float64 takes over
BLOCK_ELEMENTS = 1 << 23  # numbers added up at once: Python comes in between seldom enough for two threads
GATHERED = 4  # rows that must wait first are added up so many times fewer at once
BLOCK_ROWS = 1 << 16  # rows, at most: their places take memory too
GROUPS_ELEMENTS = 1 << 18  # of groups' sums, before they are added up
LEAST_ELEMENTS = 1 << 25  # fewer numbers take no time in float64 either, and leave it more to lose
MOST_SUMS = 1 << 19  # more sums than that take longer to join than their rows to add up
MEASURED = 32  # of so many rows one is measured


def may_group(n: int, d: int, width: int, n_one_hot: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether n rows are many enough, and of the kind, to be added up by groups."""
    return dtype == np.float32 and n_one_hot == width and n * d >= LEAST_ELEMENTS and width * d <= MOST_SUMS


class GroupedSums(RowSums):
    """Sums of float32 rows with one class each: of small groups in float32, of the groups in float64.

    Products with a one-hot Z are exact, so all rounding is that of the additions in a group. How large it may be is
    judged by a part of the rows.
    """

    measures_all = False
    _kind = np.float32

    def __init__(self, d: int, width: int, *, gathers: bool = False) -> None:
        """Begin with nothing.

        Parameters
        ----------
        d, width : columns of X and Z
        gathers : rows come in batches of any size and wait in memory of ours: a quarter of it will do
        """
        elements = BLOCK_ELEMENTS // GATHERED if gathers else BLOCK_ELEMENTS
        self._n_rows_block = max(GROUP, power_of_two(min(elements // d, BLOCK_ROWS)))
        super().__init__(d, width, n_one_hot=width)
        rows = self.rows_at_once
        # A group has so many rows that each class gets about half of `GROUP` of them.
        self._n_rows_group = min(rows, max(GROUP, power_of_two(width * GROUP * 3 // 4)))
        at_once = rows // self._n_rows_group
        self._groups = np.zeros((at_once * max(1, GROUPS_ELEMENTS // (at_once * width * d)), width, d), np.float32)
        self._at_once, self._n_full, self._n_open, self._n_rows = at_once, 0, 0, 0
        self._starts, self._ones = _single_ones(rows)

    @property
    def rows_at_once(self) -> int:
        """How many rows are added up at once: batches of so many are not gathered first."""
        return self._n_rows_block

    def _add_batches(self, batches: Iterable[NDArray[Any]], z: SparseDesign) -> None:
        places, rows, at = _Places(z, self._n_rows_group, self._at_once), self.rows_at_once, 0
        self._sum_z += places.n_in_classes
        for x in batches:
            if len(x) == rows and not self._n_waiting and at % rows == 0:
                self._add_block(x, *places.of_block(at // rows))
            else:
                self._gather(x, z, at)
            at += len(x)

    def _sum_up(self, x: NDArray[Any], z: SparseDesign) -> None:
        self._add_block(x, *_Places(z, self._n_rows_group, self._at_once).of_block(0))

    def _add_block(self, x: NDArray[np.float32], places: NDArray[np.int32], most: int) -> None:
        """Add each row to the sum at its place among the groups; at most so many of them to any."""
        n = len(x)
        self._measure(x[: -(-n // MEASURED)])
        if self._n_rows + most > GROUP:
            self._begin_groups()
        n_groups = -(-n // self._n_rows_group)
        sums = self._groups[self._n_full : self._n_full + n_groups].reshape(-1, x.shape[1])
        add_products(sums, self._starts[: n + 1], places, self._ones[:n], x)
        self._n_open, self._n_rows = max(self._n_open, n_groups), self._n_rows + most
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


class _Places:
    """Which sum each row belongs to: that of its class, in its group of its block."""

    def __init__(self, z: SparseDesign, n_rows_group: int, n_groups_block: int) -> None:
        codes, of_blocks = z.columns[:, 0], n_groups_block * z.width
        in_block, in_all = _first_places(len(z), n_rows_group, n_groups_block, z.width)
        self._of_rows, self._n_rows_block = codes + in_block, n_rows_group * n_groups_block
        n_blocks = -(-len(z) // self._n_rows_block)
        n_in_sums = np.bincount(codes + in_all, minlength=n_blocks * of_blocks)
        self._most = n_in_sums.reshape(n_blocks, of_blocks).max(axis=1, initial=0).tolist()
        self.n_in_classes = n_in_sums.reshape(-1, z.width).sum(axis=0)

    def of_block(self, block: int) -> tuple[NDArray[np.int32], int]:
        """Give the places of a block's rows, and how many rows belong to one sum at most."""
        start = block * self._n_rows_block
        return self._of_rows[start : start + self._n_rows_block], self._most[block]


@functools.lru_cache(maxsize=4)
def _single_ones(n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Give where the entries of n rows with a single 1 begin, and the ones."""
    return np.arange(n + 1, dtype=np.int32), np.ones(n, np.float32)


@functools.lru_cache(maxsize=4)  # many calls bring the same number of rows
def _first_places(
    n: int, n_rows_group: int, n_groups_block: int, width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give each row the place of its group's first class, among those of its block and among all."""
    group = np.arange(n, dtype=np.int32) // n_rows_group
    return group % n_groups_block * width, group * width

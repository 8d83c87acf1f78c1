"""`RowSums`: Σ x zᵀ over rows that come in any batches, the same to the last bit."""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salcli.linalg.blas import add_products
from salcli.linalg.decompositions import norm, power_of_two
from salcli.linalg.label_matrix import LabelMatrix

Array = NDArray[np.float64]
WIDE_ELEMENTS = 1 << 18  # numbers widened to float64 at once: large beside Python's overhead, small enough for a cache
SCATTER_ELEMENTS = 1 << 21  # numbers of a block whose scatter is one product: its sum into [d, d] costs little then
NARROW = 4  # up to so many columns of Z, a dense product is as fast as adding rows to their classes' sums
LEAST_NARROW_POWER = 1e-30  # float32 squares that underflow are lost beside such a sum, but not in a smaller one


class RowSums:
    """Σ (x − anchor) zᵀ and related sums, added up in float64, in place.

    Rows are added in their order, always the same number at once, whatever the batches: the sums are the same to the
    last bit.
    """

    most_grouped = 0
    """The most rows that were added up in float32."""
    measures_all = True
    _kind: type[np.floating[Any]] = np.float64

    def __init__(
        self, d: int, width: int, *, n_one_hot: int = 0, anchor: Array | None = None, rows: int | None = None
    ) -> None:
        """Start from zero.

        Parameters
        ----------
        d, width : columns of X and Z
        n_one_hot : leading columns of Z that hold exactly one 1 in each row
        anchor : `[d]`, subtracted from all rows; None: zero
        rows : how many are added up at once; default: `best_rows`
        """
        # Σ x is the sum of the classes' sums if every row has a class; else a column of ones is added to Z.
        self._width, self._n_one_hot = width, n_one_hot
        self._sums = np.zeros((width + (n_one_hot == 0), d))
        self._anchor, self._rows = anchor, rows or self.best_rows(d)
        self._n, self._n_measured, self._root_x, self._root_z = 0, 0, 0.0, 0.0
        self._sum_z = np.zeros(len(self._sums))
        # Rows wait here as float64, and their rows of Z, until there are enough for a block.
        self._buffer: NDArray[Any] | None = None
        self._waiting: list[LabelMatrix] = []
        self._n_waiting = 0

    @staticmethod
    def best_rows(d: int) -> int:
        """Return how many rows of `d` dimensions are added up at once; batches of that size are not copied first."""
        return max(1, WIDE_ELEMENTS // max(1, d))

    @property
    def _block(self) -> NDArray[Any]:
        if self._buffer is None:
            self._buffer = np.empty((self._rows, self._sums.shape[1]), self._kind)
        return self._buffer

    def add(self, x: NDArray[Any], z: LabelMatrix) -> None:
        """Add rows and their labels; rows are copied if they are needed later.

        Parameters
        ----------
        x : `[n, d]` of any float dtype
        z : `[n, width]` labels of the same rows
        """
        with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite raise in the end
            self._n += len(z)
            self._root_z = math.hypot(self._root_z, z.norm)
            self._add(x, z if self._n_one_hot else z.with_ones())

    def _add(self, x: NDArray[Any], z: LabelMatrix) -> None:
        z.add_sums_to(self._sum_z)
        z, block = (z.to_dense() if z.width <= NARROW else z), self._block
        if len(x) == len(block) and not self._n_waiting:
            self._widen(x, block)
            self._sum_up(block, z)
        else:
            self._gather(x, z)

    def _widen(self, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Copy rows, measured from the anchor, into a block."""
        np.copyto(out, x, casting="same_kind")
        if self._anchor is not None:
            out -= self._anchor
        if self.measures_all:
            self._measure(x if self._anchor is None else out)

    def _gather(self, x: NDArray[Any], z: LabelMatrix) -> None:
        start, block = 0, self._block
        while start < len(x):
            stop = min(start + len(block) - self._n_waiting, len(x))
            self._widen(x[start:stop], block[self._n_waiting : self._n_waiting + stop - start])
            self._waiting.append(z.take(slice(start, stop)))
            self._n_waiting += stop - start
            if self._n_waiting == len(block):
                self._sum_up_waiting()
            start = stop

    def _sum_up_waiting(self) -> None:
        if self._n_waiting:
            self._sum_up(self._block[: self._n_waiting], LabelMatrix.concatenated(self._waiting))
            self._waiting, self._n_waiting = [], 0

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        z.add_products_to(self._sums, x)

    def _measure(self, x: NDArray[Any]) -> None:
        """Add ‖x‖², in float32 where that suffices: it only bounds rounding."""
        flat = x.reshape(-1)
        power = float(flat @ flat) if x.dtype == np.float32 else 0.0
        is_sure = LEAST_NARROW_POWER < power < math.inf
        root = math.sqrt(power) if is_sure else norm(x.astype(np.float64, copy=False))
        self._root_x, self._n_measured = math.hypot(self._root_x, root), self._n_measured + len(x)

    def _finish(self) -> None:
        """Add the rows that still wait in the buffer, and free it."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._sum_up_waiting()
        self._buffer = None

    def __len__(self) -> int:
        return self._n

    def totals(self) -> "Totals":
        """Return the sums over all rows added so far."""
        self._finish()
        of_z = self._sums[: self._width]
        with np.errstate(over="ignore", invalid="ignore"):
            sum_x = of_z[: self._n_one_hot].sum(axis=0) if self._n_one_hot else self._sums[-1]
        root_x = self._root_x * math.sqrt(self._n / max(1, self._n_measured))
        return Totals(
            self._n, self._anchor, sum_x, self._sum_z[: self._width], of_z, root_x, self._root_z, self.most_grouped
        )


class ScatterSums(RowSums):
    """Σ (x − anchor)(x − anchor)ᵀ beside the class sums, in blocks large enough for BLAS (numpy calls dsyrk)."""

    def __init__(self, d: int, width: int, *, n_one_hot: int = 0, anchor: Array | None = None) -> None:
        """Start from zero (see `RowSums`)."""
        super().__init__(d, width, n_one_hot=n_one_hot, anchor=anchor)
        self._scatter, self._d = np.zeros((d, d)), d

    @staticmethod
    def best_rows(d: int) -> int:
        """Return how many rows of `d` dimensions make a block."""
        return max(1, SCATTER_ELEMENTS // max(1, d))

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        super()._sum_up(x, z)
        self._scatter += x.T @ x

    def scatter(self) -> Array:
        """Return Σ (x − anchor)(x − anchor)ᵀ `[d, d]` over all rows added so far."""
        self._finish()
        return self._scatter


class Totals(NamedTuple):
    """Sums over n rows, x measured from the anchor."""

    n: int
    anchor: Array | None
    """`[d]`; None: zero."""
    sum_x: Array
    """`[d]`"""
    sum_z: Array
    """`[c]`"""
    sum_zx: Array
    """`[c, d]` Σ z xᵀ"""
    root_x: float
    """√Σ ‖x‖²"""
    root_z: float
    """√Σ ‖z‖²"""
    most_grouped: int
    """The most rows that were added up in float32; 0: none."""


GROUP = 64  # about the number of rows of a class that are added up in float32 before float64
BLOCK_ROWS = 1 << 16  # rows, at most: their places take memory too
MOST_SUMS = 1 << 19  # more sums than that take longer to join than their rows to add up


@dataclass(frozen=True)
class Grouping:
    """When rows are added up in small float32 groups first, and how many at once."""

    least_elements: int = 1 << 21
    """Fewer numbers, of a shard, are added up in float64, which takes no time either."""
    block_elements: int = 1 << 21
    """Numbers added up at once: few enough for a cache, many beside Python's overhead."""
    sums_elements: int = 1 << 18
    """Numbers of the groups' sums that wait to be added up in float64."""
    measured: int = 32
    """One row in this number is measured for the bound on rounding."""
    partitions: int = 8
    """Partitions of a file that one work item adds up: with fewer, Python's overhead would matter."""

    def suits(self, n: int, d: int, z: LabelMatrix, dtype: np.dtype[Any]) -> bool:
        """Return whether rows are added up in groups: float32 rows with one class each, and enough of them.

        Parameters
        ----------
        n : rows
        d : dimensions
        z : labels, of any number of rows; only its columns count
        dtype : of the rows
        """
        is_one_hot = z.n_one_hot == z.width and z.width * d <= MOST_SUMS
        return bool(dtype == np.float32 and is_one_hot and n * d >= self.least_elements)

    def block_rows(self, d: int) -> int:
        """Return how many rows of `d` dimensions are added up at once; batches of that size are not copied first."""
        return max(GROUP, power_of_two(min(self.block_elements // max(1, d), BLOCK_ROWS)))


class GroupedSums(RowSums):
    """Sums of float32 rows with one class each: of small groups in float32, of the groups in float64.

    Products with a one-hot Z are exact, so all rounding is that of the additions in a group. How large it may be is
    judged by a part of the rows.
    """

    measures_all = False
    _kind = np.float32

    def __init__(self, d: int, width: int, grouping: Grouping) -> None:
        """Start from zero.

        Parameters
        ----------
        d, width : columns of X and Z
        grouping : how large groups and blocks are
        """
        super().__init__(d, width, n_one_hot=width, rows=grouping.block_rows(d))
        self._measured = grouping.measured
        rows = self._rows
        # In a group, each class has about half of `GROUP` rows.
        self._n_rows_group = min(rows, max(GROUP, power_of_two(width * GROUP * 3 // 4)))
        at_once = rows // self._n_rows_group
        n_groups = at_once * max(1, grouping.sums_elements // (at_once * width * d))
        self._groups = np.zeros((n_groups, width, d), np.float32)
        self._at_once, self._n_full, self._n_open, self._n_rows = at_once, 0, 0, 0
        self._starts, self._ones = _single_ones(rows)

    def _add(self, x: NDArray[Any], z: LabelMatrix) -> None:
        if len(x) == self._rows and not self._n_waiting:
            self._sum_up(x, z)
        else:
            self._gather(x, z)

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        """Add each row to the sum of its class in its group."""
        n, codes = len(x), z.columns[:, 0]
        self._measure(x[: -(-n // self._measured)])
        places = codes + _first_places(n, self._n_rows_group, z.width)
        n_groups = -(-n // self._n_rows_group)
        n_in_sums = np.bincount(places, minlength=n_groups * z.width)
        self._sum_z += n_in_sums.reshape(-1, z.width).sum(axis=0)
        most = int(n_in_sums.max(initial=0))
        if self._n_rows + most > GROUP:
            self._begin_groups()
        sums = self._groups[self._n_full : self._n_full + n_groups].reshape(-1, x.shape[1])
        add_products(sums, self._starts[: n + 1], places, self._ones[:n], x)
        self._n_open, self._n_rows = max(self._n_open, n_groups), self._n_rows + most
        self.most_grouped = max(self.most_grouped, self._n_rows)

    def _begin_groups(self) -> None:
        """Close the current groups, and start new ones."""
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


@functools.lru_cache(maxsize=4)
def _single_ones(n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return index pointers and data of a sparse matrix of n rows with a single 1 each."""
    return np.arange(n + 1, dtype=np.int32), np.ones(n, np.float32)


@functools.lru_cache(maxsize=4)  # many calls have the same number of rows
def _first_places(n: int, n_rows_group: int, width: int) -> NDArray[np.int32]:
    """Return for each row the place of its group's first class among the sums of its block."""
    return np.arange(n, dtype=np.int32) // n_rows_group * width

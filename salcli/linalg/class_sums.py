"""`RowSums`: Σ x zᵀ over rows that come in any batches, the same to the last bit."""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from salcli.linalg.blas import add_products
from salcli.linalg.decompositions import norm, power_of_two
from salcli.linalg.label_matrix import SparseDesign

Array = NDArray[np.float64]
WIDE_ELEMENTS = 1 << 18  # numbers widened to float64 at once: many beside what Python does for them, few for a cache
NARROW = 4  # up to so many columns of Z, a dense product is as fast as adding rows to their classes' sums
LEAST_NARROW_POWER = 1e-30  # float32 squares that underflow are lost beside such a sum, but not in a smaller one


class RowSums:
    """Σ (x − anchor) zᵀ and what belongs to it, added up in float64, in place.

    Rows are taken in their order and always so many at once, whatever the batches they come in: the sums are the same
    to the last bit.
    """

    most_grouped = 0
    """The most rows that were added up in float32."""
    measures_all = True
    _kind: type[np.floating[Any]] = np.float64

    def __init__(self, d: int, width: int, *, n_one_hot: int = 0, anchor: Array | None = None) -> None:
        """Begin with nothing.

        Parameters
        ----------
        d, width : columns of X and Z
        n_one_hot : leading columns of Z that hold exactly one 1 in each row
        anchor : `[d]` what rows are measured from
        """
        # Σ x comes with the classes' sums, if every row has a class; else a column of ones is added to Z.
        self._width, self._n_one_hot = width, n_one_hot
        self._sums = np.zeros((width + (n_one_hot == 0), d))
        self._anchor = anchor
        self._n, self._n_measured, self._root_x, self._root_z = 0, 0, 0.0, 0.0
        self._sum_z = np.zeros(len(self._sums))
        # Rows wait here, widened, and their rows of Z, until there are enough of them.
        self._room: NDArray[Any] | None = None
        self._waiting: list[SparseDesign] = []
        self._n_waiting = 0

    @property
    def rows_at_once(self) -> int:
        """How many rows are added up at once: batches of so many are not gathered first."""
        return max(1, WIDE_ELEMENTS // max(1, self._sums.shape[1]))

    @property
    def _held(self) -> NDArray[Any]:
        if self._room is None:
            self._room = np.empty((self.rows_at_once, self._sums.shape[1]), self._kind)
        return self._room

    def add(self, batches: Iterable[NDArray[Any]], z: SparseDesign) -> None:
        """Add rows: x `[n, d]` of any float dtype in batches, which may share a buffer, and the design of them all."""
        with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite are refused in the end
            self._n += len(z)
            self._root_z = math.hypot(self._root_z, z.norm)
            z = z if self._n_one_hot else z.with_ones()
            self._add_batches(batches, z)

    def _add_batches(self, batches: Iterable[NDArray[Any]], z: SparseDesign) -> None:
        z.add_sums_to(self._sum_z)
        z, at, held = (z.spelt_out() if z.width <= NARROW else z), 0, self._held
        for x in batches:
            if len(x) == len(held) and not self._n_waiting:
                self._widen(x, held)
                self._sum_up(held, z.take(slice(at, at + len(x))))
            else:
                self._gather(x, z, at)
            at += len(x)

    def _widen(self, x: NDArray[Any], held: NDArray[Any]) -> None:
        """Put rows, measured from the anchor, into memory of ours."""
        np.copyto(held, x, casting="same_kind")
        if self._anchor is not None:
            held -= self._anchor
        if self.measures_all:
            self._measure(x if self._anchor is None else held)

    def _gather(self, x: NDArray[Any], z: SparseDesign, at: int) -> None:
        start, held = 0, self._held
        while start < len(x):
            stop = min(start + len(held) - self._n_waiting, len(x))
            self._widen(x[start:stop], held[self._n_waiting : self._n_waiting + stop - start])
            self._waiting.append(z.take(slice(at + start, at + stop)))
            self._n_waiting += stop - start
            if self._n_waiting == len(held):
                self._sum_up_waiting()
            start = stop

    def _sum_up_waiting(self) -> None:
        if self._n_waiting:
            self._sum_up(self._held[: self._n_waiting], SparseDesign.concatenated(self._waiting))
            self._waiting, self._n_waiting = [], 0

    def _sum_up(self, x: NDArray[Any], z: SparseDesign) -> None:
        z.add_products_to(self._sums, x)

    def _measure(self, x: NDArray[Any]) -> None:
        """Add ‖x‖², in float32 if that will do: it only tells how large rounding may be."""
        flat = x.reshape(-1)
        power = float(flat @ flat) if x.dtype == np.float32 else 0.0
        is_sure = LEAST_NARROW_POWER < power < math.inf
        root = math.sqrt(power) if is_sure else norm(x.astype(np.float64, copy=False))
        self._root_x, self._n_measured = math.hypot(self._root_x, root), self._n_measured + len(x)

    def _finish(self) -> None:
        """Put everything that was added into the sums, which may be kept long before they join others."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._sum_up_waiting()
        self._room = None

    def __iadd__(self, other: Self) -> Self:
        """Add the sums of other rows, about the same anchor."""
        self._finish()
        other._finish()
        with np.errstate(over="ignore", invalid="ignore"):
            self._sums += other._sums
        self._sum_z += other._sum_z
        self._n, self._root_x = self._n + other._n, math.hypot(self._root_x, other._root_x)
        self._root_z, self._n_measured = math.hypot(self._root_z, other._root_z), self._n_measured + other._n_measured
        self.most_grouped = max(self.most_grouped, other.most_grouped)
        return self

    @property
    def is_finite(self) -> bool:
        """Whether neither NaN nor Inf was added, nor squares that overflow."""
        self._finish()
        return math.isfinite(self._root_x)

    def __len__(self) -> int:
        return self._n

    def totals(self) -> "Totals":
        """Give the sums over all rows added so far."""
        self._finish()
        of_z = self._sums[: self._width]
        with np.errstate(over="ignore", invalid="ignore"):
            sum_x = of_z[: self._n_one_hot].sum(axis=0) if self._n_one_hot else self._sums[-1]
        root_x = self._root_x * math.sqrt(self._n / max(1, self._n_measured))
        return Totals(
            self._n, self._anchor, sum_x, self._sum_z[: self._width], of_z, root_x, self._root_z, self.most_grouped
        )


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


def anchor_of(x: NDArray[Any]) -> Array | None:
    """Choose what rows are measured from: the first of them, or zero where float64 is exact enough without.

    Means may be far larger than the signal: a sum of float64 values then loses the signal's digits, unless they are
    taken from a value near the mean. Values of 32 bits and fewer leave 29 bits of room in a float64.
    """
    return None if x.dtype.itemsize <= 4 or not len(x) else x[0].astype(np.float64)


GROUP = 64  # about so many rows of a class are added up in float32 before float64 takes over
BLOCK_ELEMENTS = 1 << 21  # numbers added up at once: few for the cache, many beside what Python does for them
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

    def __init__(self, d: int, width: int) -> None:
        """Begin with nothing.

        Parameters
        ----------
        d, width : columns of X and Z
        """
        self._n_rows_block = max(GROUP, power_of_two(min(BLOCK_ELEMENTS // d, BLOCK_ROWS)))
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

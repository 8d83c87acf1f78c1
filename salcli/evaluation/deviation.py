"""Change of a kernel matrix by erasure: γ/ρ = mean|K̂ − K| / std(K) (Shao, Ziser & Cohen 2023)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.sampling import capped
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.section import Section
from salcli.evaluation.text import count, decimal
from salcli.streaming.engine import map_in_threads

Array = NDArray[np.float64]
TILE = 1024  # rows and columns of one product


@dataclass(frozen=True)
class Deviation:
    """γ/ρ of a kernel's eraser."""

    value: float | None
    """None where the kernel does not vary."""
    n: int
    """Rows whose inner products were compared."""


class KernelDeviation(Measure[Deviation]):
    """γ/ρ of a kernel's eraser on the test rows."""

    name: ClassVar[str] = "deviation"

    def run(self, rows: BeforeAfter) -> Deviation | None:
        """Return γ/ρ, summed tile by tile; None without a kernel (see `Measure.run`)."""
        stages, options = rows.stages, rows.options
        if stages.kernel is None:
            return None
        eraser = stages.kernel
        x = stages.rows[stages.at(capped(rows.labels, rows.plan.test, options.attacker_rows, options.seed))]
        at = eraser.coordinates(x)
        parts = [slice(start, start + TILE) for start in range(0, len(x), TILE)]

        def tile(pair: tuple[slice, slice]) -> tuple[Array, Array]:
            one, other = pair
            gram = eraser.kernel.gram(x[one], x[other])
            return gram, eraser.erase_gram(np.zeros_like(gram), at[one], at[other])

        tiles = map_in_threads(tile, ((one, other) for one in parts for other in parts))
        return Deviation(deviation(tiles), len(x))

    def section(self, record: Deviation) -> Section:
        """Return a sentence of the geometry's section (see `Measure.section`)."""
        value = "undefined" if record.value is None else decimal(record.value)
        line = f"deviation of the kernel, mean|K̂ − K| / std(K): {value} on {count(record.n)} test rows"
        if record.value is None:
            return Section("geometry", "Geometry", line=line)
        sentence = (
            f"Inner products move by {value} of their standard deviation, "
            f"on average over the pairs of {count(record.n)} rows."
        )
        return Section("geometry", "Geometry", (sentence,), line=line)


DEVIATION = KernelDeviation()


def deviation(tiles: Iterable[tuple[Array, Array]]) -> float | None:
    """Return γ/ρ, accumulated over tiles of a kernel matrix.

    Parameters
    ----------
    tiles : (K, K̂ − K) of the same shape; together they cover the matrix once

    Returns
    -------
    γ/ρ, or None where K does not vary
    """
    n, mean, power, change_sum = 0, 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for gram, change in tiles:
        change_sum += float(np.abs(change).sum())
        low, high = min(low, float(gram.min())), max(high, float(gram.max()))
        here = float(gram.mean())
        step, total = here - mean, n + gram.size
        power += float(np.sum((gram - here) ** 2)) + step**2 * n * gram.size / total  # Chan, Golub & LeVeque 1983
        mean += step * gram.size / total
        n = total
    if low >= high or power <= 0:  # equal values can have a power by rounding
        return None
    return change_sum / n / float(np.sqrt(power / n))

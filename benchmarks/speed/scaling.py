"""How the fit pass grows with rows, dimensions and classes: linear, linear, and not at all."""

from collections.abc import Iterator

import numpy as np

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.ours import FitPass
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Measure, interleaved

TARGET = 0.8  # rate at the largest size, as a share of the rate at the smallest
ROWS, ROWS_D = (1e5, 3e5, 1e6, 3e6, 1e7), 32
DIMENSIONS, DIMENSIONS_N = (100, 256, 512, 1024, 2048, 4096), 1e5
CLASSES, CLASSES_N, CLASSES_D = (2, 10, 30, 100, 300, 1000), 1.6e6, 256


def rows(bench: Bench) -> Iterator[Row]:
    """Vary one of n, d and c while the others stay."""
    sizes = [bench.sized(n, 2000) for n in ROWS]
    seconds = {n: _timed(bench, {2: (n, ROWS_D)})[2] for n in sizes}
    yield _row("n", seconds, 1.0, f"{sizes[0]:,} … {sizes[-1]:,} rows × {ROWS_D}, 2 classes")
    n = bench.sized(DIMENSIONS_N, 2000)
    seconds = {d: _timed(bench, {2: (n, d)})[2] for d in DIMENSIONS}
    yield _row("d", seconds, 1.0, f"{n:,} rows × {DIMENSIONS[0]} … {DIMENSIONS[-1]:,}, 2 classes")
    n = bench.sized(CLASSES_N, 4000)
    seconds = _timed(bench, dict.fromkeys(CLASSES, (n, CLASSES_D)))
    yield _row("classes", seconds, 0.0, f"{files.size_of(n, CLASSES_D)}, {CLASSES[0]} … {CLASSES[-1]:,} classes")


def _timed(bench: Bench, shapes: dict[int, tuple[int, int]]) -> dict[int, list[float]]:
    """Time the pass for each number of classes, over one file (the shapes are the same)."""
    n, d = next(iter(shapes.values()))
    path = files.write_npy(bench.folder / "scaling.npy", n, d)
    works = {str(c): FitPass(path, n, c) for c in shapes}
    seconds = interleaved(works, max(3, bench.repeats), bench.budget)
    path.unlink()
    return {c: seconds[str(c)] for c in shapes}


def _row(varied: str, seconds: dict[int, list[float]], expected: float, size: str) -> Row:
    """Compare the time a unit of work takes at both ends, at most 1; the exponent is fitted over all sizes."""
    measures = {x: Measure.of(each, "s") for x, each in seconds.items()}
    exponent = fitted_exponent({x: each.median for x, each in measures.items()})
    (first, smallest), *_, (last, largest) = measures.items()
    growth = (last / first) ** expected
    points = ", ".join(f"{x:,}: {each.median:.3g} s ± {each.spread:.0%}" for x, each in measures.items())
    return Row(
        section="scaling",
        name=f"fit pass, time against {varied}",
        against=f"growth with exponent {expected:g} from the smallest",
        size=size,
        ours=largest,
        reference=Measure(smallest.median * growth, smallest.spread, "s", smallest.repeats),
        ratio=min(1.0, smallest.median * growth / largest.median),
        target=TARGET,
        note=f"exponent {exponent:.2f}; {points}",
    )


def fitted_exponent(points: dict[int, float]) -> float:
    """Fit p in y = a xᵖ by least squares of the logarithms."""
    x, y = np.log(list(points.keys())), np.log(list(points.values()))
    return float(np.polyfit(x, y, 1)[0])

"""The passes that only kernels need: landmarks or all rows to an eraser, and a file's rows to their inner products."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import LabelledRows
from salcli.data.labels import GuardedLabels, as_index
from salcli.data.source import Source
from salcli.data.splits import stratified_sample
from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.ksal import exact_bytes, fit_ksal
from salcli.erasers.sal import SpectralFit, fit_sal
from salcli.errors import UsageError, warn
from salcli.linalg.decompositions import column_rank
from salcli.linalg.kernels import PARAMETERS, Kernel, NystromMap
from salcli.options import KernelFitOptions
from salcli.streaming import memory
from salcli.streaming.engine import N_THREADS, ordered_map
from salcli.streaming.passes import fold_moments, gather_rows
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
EIGH_COPIES = 5  # the matrix, its eigenvectors, and what the solver works in
TILE = 1024


def kernel_of(options: KernelFitOptions) -> Kernel:
    """Name the kernel that was asked for.

    Raises
    ------
    UsageError : there is none of that name, or it has no such parameter
    """
    asked = {"gamma": options.gamma, "degree": options.degree, "coef0": options.coef0}
    given = {name: value for name, value in asked.items() if value is not None}
    for name in given:
        if name not in PARAMETERS.get(options.kernel, asked):
            raise UsageError(f"--{name} {given[name]}: the {options.kernel} kernel has no such parameter")
    return Kernel(options.kernel, **given)  # type: ignore[arg-type]


def fit_by_landmarks(
    source: Source, labels: GuardedLabels, rows: NDArray[np.int64], options: KernelFitOptions, progress: Progress
) -> SpectralFit[FeatureEraser]:
    """Fit SAL on the features that landmarks give: all fitted rows, or a stratified sample of them.

    Parameters
    ----------
    labels : of the fitted rows
    rows : `[n]` the embedding row of each label
    """
    most, everyone = options.landmarks or len(rows), np.arange(len(rows))
    if most < len(rows):
        everyone = stratified_sample(labels, everyone, most, options.seed)
    m = len(everyone)
    memory.require_room(8 * EIGH_COPIES * m * m, f"the kernel matrix of {m:,} landmarks", "give fewer --landmarks")
    features = NystromMap.of(kernel_of(options), _native(gather_rows(source, np.sort(rows[everyone]), progress)[0]))
    moments = fold_moments(source, labels, LabelledRows.of(rows), progress, features)
    fit = fit_sal(moments, options.k, alpha=options.alpha, is_centred=options.is_centred)
    _tell_of_lost(source, fit.rank, labels.design(everyone), is_centred=options.is_centred)
    return SpectralFit(FeatureEraser(features, fit.eraser), fit.singular_values, fit.rank, fit.k_rule, fit.is_centred)


def fit_exactly(
    source: Source, labels: GuardedLabels, rows: NDArray[np.int64], options: KernelFitOptions, progress: Progress
) -> SpectralFit[KernelEraser]:
    """Fit kSAL on all rows by their inner products (see `fit_by_landmarks` for the parameters).

    Raises
    ------
    RoomError : it would not fit into memory
    """
    n, d = len(rows), source.d
    needed = exact_bytes(n, d, source.dtype.itemsize, labels.n_columns, N_THREADS)
    memory.require_room(needed, f"exact kSAL on {n:,} rows of {d} dimensions", "use --landmarks M or --sample N")
    chosen = LabelledRows.of(rows)
    x = _native(gather_rows(source, as_index(chosen.rows), progress)[0])
    design = labels.design(as_index(chosen.index))

    def spread(work: Callable[[slice], Array], blocks: Iterable[slice]) -> Iterator[Array]:
        with progress.stage(f"kernel matrix block by block, at most {memory.in_gib(needed)}", n) as advance:
            for part in ordered_map(work, blocks):
                yield part
                advance(len(part))

    fit = fit_ksal(
        x,
        design,
        kernel_of(options),
        options.k,
        alpha=options.alpha,
        is_centred=options.is_centred,
        spread=spread,
    )
    _tell_of_lost(source, fit.rank, design, is_centred=options.is_centred)
    free = memory.available_bytes()
    if free is not None and fit.eraser.explicit_bytes > free:
        warn(
            f"to write feature vectors with this eraser, apply will need {memory.in_gib(fit.eraser.explicit_bytes)} "
            f"for the kernel matrix of its {n:,} rows, more than there is here; --landmarks M needs less"
        )
    return fit


def _tell_of_lost(source: Source, rank: int, design: Array, *, is_centred: bool) -> None:
    """Tell if labels span more directions than were found: inner products hold squares, which lose what is small."""
    if rank >= min(design.shape[1] - is_centred, source.d):
        return  # as it should be; the rest takes time where classes are many
    spanned = column_rank(design, is_centred=is_centred)
    if rank < min(spanned, source.d):
        warn(
            f"{source.path}: the labels span {spanned} directions, of which {rank} rise above rounding in the kernel's "
            "features: columns much smaller than others (numeric labels too) are lost; bring all to one scale first"
        )


def explicit(eraser: KernelEraser, remedy: str = "fit with --landmarks M") -> FeatureEraser:
    """Find features for an exact eraser, if the kernel matrix of its rows fits into memory.

    Raises
    ------
    RoomError : it does not
    """
    m = len(eraser.landmarks)
    memory.require_room(
        eraser.explicit_bytes,
        f"to write feature vectors, the kernel matrix of the eraser's {m:,} rows",
        remedy,
    )
    return eraser.explicit()


def _native(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Keep the precision as stored, up to float64, in this machine's byte order: an artifact is the same anywhere."""
    return np.ascontiguousarray(x, dtype=np.dtype(f"f{min(8, x.dtype.itemsize)}"))

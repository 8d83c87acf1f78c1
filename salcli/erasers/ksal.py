"""kSAL: removal in a kernel's feature space (Shao, Ziser & Cohen 2023, "Kernel SAL"), without an n×n eigenproblem.

The paper takes the top eigenvectors of Γ. As printed, Γ = K_φ K_ψ; its own proof uses Γ = K_ψ K_φ, and only that makes
Φw a left singular vector of Ω. With K_ψ = ZZᵀ every such eigenvector is w = Zv, where (Zᵀ K_φ Z) v = λ v is c×c.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, as_index
from salcli.data.sampling import stratified_sample
from salcli.erasers.base import Fit
from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.kernel_scale import explained_by, fitting_gamma, sampled, scale_doubts
from salcli.erasers.sal import fit_sal
from salcli.erasers.spectrum import ProjectionParameters, choose_k
from salcli.errors import ParameterError, RankError, warn
from salcli.linalg.decompositions import column_rank
from salcli.linalg.kernels import EPS, PARAMETERS, Kernel, NystromMap, block_rows, blocks
from salcli.linalg.moments import CrossMoments
from salcli.options import option
from salcli.streaming import memory
from salcli.streaming.engine import LOCAL, Engine, map_in_threads
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

Array = NDArray[np.float64]
Spread = Callable[[Callable[[slice], Array], Iterable[slice]], Iterable[Array]]


ALL_LANDMARKS, SCALE = "all", "scale"
EIGH_COPIES = 5  # the matrix, its eigenvectors, and what the solver works in


def parse_gamma(text: str) -> float | str:
    """Return `text` as a number, or `scale`.

    Raises
    ------
    ValueError : it is neither
    """
    try:
        return text if text == SCALE else float(text)
    except ValueError:
        raise ValueError("expected a positive number, or scale") from None


def parse_landmarks(text: str) -> int | str:
    """Return `text` as a number of landmarks, or `all`.

    Raises
    ------
    ValueError : it is neither
    """
    if text == ALL_LANDMARKS:
        return text
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ValueError("expected a number of rows, or all")
    return int(text)


@dataclass(frozen=True)
class KSALParameters(ProjectionParameters):
    """How kSAL is fitted."""

    kernel: str = option("rbf", metavar="K", help="rbf, poly or linear.", choices=tuple(PARAMETERS))
    gamma: float | str | None = option(
        None,
        metavar="γ|scale",
        help="Of rbf (default 0.1) and poly (default 1); scale: 1 / median squared distance of the fitted rows.",
        parse=parse_gamma,
    )
    degree: int | None = option(None, metavar="P", help="Of poly (default 2): (γ xᵀx' + c₀)ᵖ.")
    coef0: float | None = option(None, metavar="C", help="c₀ of poly (default 1).")
    landmarks: int | str = option(
        2048,
        metavar="M|all",
        help="Rows (all fitted ones, or a stratified sample) whose span the eraser works in; all: exact kSAL.",
        parse=parse_landmarks,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.landmarks != ALL_LANDMARKS and (isinstance(self.landmarks, str) or self.landmarks < 2):
            raise ParameterError("landmarks", self.landmarks, "at least 2, or all")
        if self.gamma != SCALE and isinstance(self.gamma, str):
            raise ParameterError("gamma", self.gamma, "expected a positive number, or scale")
        self.to_kernel()

    def scaled_to(self, x: NDArray[Any], seed: int) -> Self:
        """Return the parameters with a number for γ = scale.

        Parameters
        ----------
        x : `[n, d]` rows, of which a sample decides
        seed : of the sample

        Raises
        ------
        RankError, RangeError : see `fitting_gamma`
        """
        return replace(self, gamma=fitting_gamma(sampled(x, seed))) if self.gamma == SCALE else self

    def to_kernel(self) -> Kernel:
        """Return the kernel, with its default γ if γ is `scale`.

        Raises
        ------
        ParameterError : there is none of that name, or it has no such parameter
        """
        values = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        named = {name: value for name, value in values.items() if value is not None}
        for name, value in named.items():
            if name not in PARAMETERS.get(self.kernel, values):
                raise ParameterError(name, value, f"the {self.kernel} kernel has no such parameter")
        if self.gamma == SCALE:
            del named["gamma"]
        return Kernel(self.kernel, **named)  # type: ignore[arg-type]


class KSALMethod:
    """Removes the directions of a kernel's feature space that covary most with Z."""

    name = "ksal"
    summary = "against classifiers with one known kernel (rbf, poly): writes feature vectors instead of the embeddings"
    Parameters = KSALParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: KSALParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[KernelEraser | FeatureEraser]:
        """Fit kSAL to labelled rows: exactly by inner products, or on the features of landmarks (see `Method.fit`).

        Raises
        ------
        RankError : the features do not vary with the labels, or k is above the rank
        NotEnoughMemory : the kernel matrix of the landmarks, or the exact fit, does not fit into memory
        """
        if parameters.landmarks == ALL_LANDMARKS:
            return _fit_exactly(rows.standardized(is_centred=parameters.center), parameters, seed, progress)
        return _fit_nystroem(rows, parameters, seed, engine, progress)


METHOD = KSALMethod()


def _fit_nystroem(
    rows: LabelledSource, parameters: KSALParameters, seed: int, engine: Engine, progress: Progress
) -> Fit[FeatureEraser]:
    """Fit SAL on the features that landmarks give: all fitted rows, or a stratified sample of them."""
    most, index = int(parameters.landmarks), np.arange(len(rows))
    if most < len(rows):
        index = stratified_sample(rows.labels, index, most, seed)
    m = len(index)
    memory.require_memory(8 * EIGH_COPIES * m * m, f"the kernel matrix of {m:,} landmarks", "give fewer `landmarks`")
    chosen = np.sort(rows.row_of_label[index])
    landmarks = _native(gather_rows(rows.source, chosen, progress)[0])
    parameters = parameters.scaled_to(landmarks, seed)
    doubts = scale_doubts(parameters.to_kernel(), landmarks, seed)
    features = NystromMap.of(parameters.to_kernel(), landmarks)
    moments = fold(rows, CrossMoments, engine, progress, features, is_centred=parameters.center)
    with explained_by(doubts):
        fit = fit_sal(
            moments, parameters.k, alpha=parameters.alpha, is_centred=parameters.center, keep_mean=parameters.keep_mean
        )
    labels = rows.labels.standardized(is_centred=parameters.center)
    _warn_of_lost(rows, fit.rank, labels.design(index), is_centred=parameters.center)
    rule = "stratified" if m < len(rows) else "every fitted row"
    header = {"landmarks": {"n": len(landmarks), "rule": rule, "n_features": features.width}}
    header = {"kernel": features.kernel.to_dict(), "parameters": asdict(parameters), **header}
    eraser = FeatureEraser(features, fit.eraser)
    return Fit(eraser, fit.singular_values, fit.rank, fit.k_rule, fit.is_centred, header, doubts)


def _fit_exactly(rows: LabelledSource, parameters: KSALParameters, seed: int, progress: Progress) -> Fit[KernelEraser]:
    """Fit kSAL on all rows by their inner products.

    Raises
    ------
    NotEnoughMemory : it would not fit into memory
    """
    source, n = rows.source, len(rows)
    needed = exact_bytes(n, source.d, source.dtype.itemsize, rows.labels.n_columns, LOCAL.n_workers)
    memory.require_memory(
        needed, f"exact kSAL on {n:,} rows of {source.d} dimensions", "use `landmarks=M` or `sample=N`"
    )
    x = _native(gather_rows(source, as_index(rows.rows.rows), progress)[0])
    design = rows.labels.design(as_index(rows.rows.index))
    parameters = parameters.scaled_to(x, seed)
    doubts = scale_doubts(parameters.to_kernel(), x, seed)

    def spread(work: Callable[[slice], Array], blocks: Iterable[slice]) -> Iterator[Array]:
        with progress.stage(f"kernel matrix block by block, at most {memory.in_gib(needed)}", n) as advance:
            for part in map_in_threads(work, blocks):
                yield part
                advance(len(part))

    with explained_by(doubts):
        fit = fit_ksal(
            x,
            design,
            parameters.to_kernel(),
            parameters.k,
            alpha=parameters.alpha,
            is_centred=parameters.center,
            keep_mean=parameters.keep_mean,
            spread=spread,
        )
    _warn_of_lost(rows, fit.rank, design, is_centred=parameters.center)
    free = memory.available_bytes()
    if free is not None and fit.eraser.explicit_bytes > free:
        warn(
            f"to write feature vectors with this eraser, apply will need {memory.in_gib(fit.eraser.explicit_bytes)} "
            f"for the kernel matrix of its {n:,} rows, more than there is here; `landmarks=M` needs less"
        )
    header = {"kernel": fit.eraser.kernel.to_dict(), "parameters": asdict(parameters)}
    return replace(fit, header={**header, "landmarks": {"n": n, "rule": ALL_LANDMARKS}}, doubts=doubts)


def _warn_of_lost(rows: LabelledSource, rank: int, design: Array, *, is_centred: bool) -> None:
    """Warn if labels span more directions than were found: inner products hold squares, which lose what is small."""
    if rank >= min(design.shape[1] - is_centred, rows.source.d):
        return  # nothing is lost; the rank of the labels takes time if classes are many
    spanned = column_rank(design, is_centred=is_centred)
    if rank < min(spanned, rows.source.d):
        warn(
            f"{rows.source.path}: the labels span {spanned} directions, of which {rank} rise above rounding in the "
            "kernel's features: columns much smaller than others (numeric labels too) are lost; "
            "bring all to one scale first"
        )


def _native(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return rows in the stored precision, up to float64, and native byte order: artifacts are the same anywhere."""
    return np.ascontiguousarray(x, dtype=np.dtype(f"f{min(8, x.dtype.itemsize)}"))


def fit_ksal(
    x: NDArray[Any],
    z: Array,
    kernel: Kernel,
    k: int | None = None,
    *,
    alpha: float | None = None,
    is_centred: bool = True,
    keep_mean: bool = False,
    spread: Spread = map,
) -> Fit[KernelEraser]:
    """Fit an eraser of the k directions of feature space that covary most with Z; exact, in memory O(block · n).

    They are Φ Z v with (Zᵀ K Z) v = λ v, a c × c problem (Shao, Ziser & Cohen 2023, "Kernel SAL"; see the top of this
    file).

    Parameters
    ----------
    x : `[n, d]`
    z : `[n, c]` one-hot or numbers
    kernel : of x; that of z is linear
    k, alpha, is_centred, keep_mean : as for `fit_sal`
    spread : maps a function over row blocks, perhaps on threads, keeping their order

    Returns
    -------
    Fit, whose eraser's coefficients W [n, k] are orthonormal under K: WᵀKW = I

    Raises
    ------
    RankError : Ω is zero to rounding, or k is above its rank
    RangeError : rows, or kernel values, that are not finite in float64
    ParameterError : k < 1, alpha < 1, or both given
    """
    n = len(x)
    design = z - z.mean(axis=0) if is_centred else np.asarray(z, dtype=np.float64)
    with_ones = np.column_stack([design, np.full(n, 1 / n)])  # K 1/n too, which centring needs
    row = kernel.against(x)
    products = np.concatenate([*spread(lambda rows: row(x[rows]) @ with_ones, blocks(n, n))])
    small = design.T @ products[:, :-1]  # M = Zᵀ K Z
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    power = float(np.sum(design**2)) / n * float(np.abs(products[:, -1]).max(initial=0.0))
    floor = max(max(values[0], 0.0) * 10 * max(z.shape[1], np.sqrt(n)), n * power) * EPS
    rank = int(np.sum(values > floor))
    singular_values = np.sqrt(np.maximum(values, 0)) / n
    if rank == 0:
        raise RankError(
            f"zero covariance (rank 0): the kernel's features do not vary with the labels on these {n:,} rows; "
            "there is nothing to remove"
        )
    chosen, rule = choose_k(singular_values, rank, k, alpha)
    dual = design @ (vectors[:, :chosen] / np.sqrt(values[:chosen]))
    largest = np.argmax(np.abs(dual), axis=0)
    dual *= np.where(dual[largest, np.arange(chosen)] < 0, -1.0, 1.0)
    offset = dual.T @ products[:, -1] if keep_mean else np.zeros(chosen)
    return Fit(KernelEraser(kernel, x, dual, offset), singular_values, rank, rule, is_centred)


def exact_bytes(n: int, d: int, itemsize: int, n_columns: int, n_threads: int) -> int:
    """Return a bound on the memory of `fit_ksal`, in bytes.

    It holds the rows and a float64 copy, a few of T [n, c], and a block for each thread.

    Parameters
    ----------
    n, d : rows and dimensions
    itemsize : bytes of a number of the rows
    n_columns : columns c of Z
    n_threads : row blocks that are computed at once
    """
    a_block = 8 * block_rows(n) * (n + 2 * d)
    return n * d * (itemsize + 8) + 4 * 8 * n * (n_columns + 2) + n_threads * a_block

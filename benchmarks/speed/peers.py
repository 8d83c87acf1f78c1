"""Other ways to an eraser, on the same data: the paper's recipe, concept-erasure, INLP, and a dense projection."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import files
from benchmarks.speed.bench import MISSING, Bench
from benchmarks.speed.ours import FitPass, apply, fit_in_memory
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Work, salcli
from salcli.data.labels import Attribute
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.streaming.engine import ordered_map

Array = NDArray[Any]
PAPER_ROWS, PAPER_D, MACHINES = 7_350, 300, 35
INLP_ROUNDS = 3
WHOLE_ROWS, WHOLE_D, CLASSES = 200_000, 768, (2, 30)
COPIES = 4  # of the rows that a peer may hold at once: as they are, widened to float64, and on their way to a file
AGREEMENT = 1e-5
PEER_BATCH = 8_192
RECIPE = "the paper's recipe in numpy"
WINS = 1.0  # the target of every peer: ours is the faster
APPLY_BOUNDS = ("float32 → float64 in a cached block", "copy into a fresh array (page faults)")


def paper_recipe(x: Array, z: Array, k: int) -> Array:
    """Fit as the paper's authors do: X'Z / n, a full SVD, and the projector `[d, d]` on the remaining columns.

    Their Z is of integers (notebooks/time_measurement.py in github.com/jasonshaoshun/SAL), and so numpy widens float32
    rows and multiplies in float64. With a Z of float32 it stays in float32, which is faster and right to fewer digits.
    """
    u, _, _ = np.linalg.svd(x.T @ z / len(x), full_matrices=True)
    projector: Array = u[:, k:] @ u[:, k:].T
    return projector


def inlp(x: Array, codes: Array, n_machines: int) -> Array:
    """Fit by iterative null space projection (Ravfogel et al. 2020): the projector `[d, d]` off all normals."""
    from sklearn.svm import LinearSVC

    normals: list[Array] = []
    projector = np.eye(x.shape[1])
    for _ in range(n_machines):
        machine = LinearSVC(dual="auto").fit(x @ projector, codes)
        normals.append(machine.coef_.T)
        basis, _ = np.linalg.qr(np.hstack(normals))
        projector = np.eye(x.shape[1]) - basis @ basis.T
    return projector


def concept_erasure() -> Callable[[Array, Array], Array] | None:
    """Give concept-erasure's orthogonal fit, rows and design to a projector; None if it is not installed."""
    if find_spec("concept_erasure") is None:
        return None
    import torch
    from concept_erasure import LeaceFitter  # type: ignore[import-untyped]

    def fit(x: Array, z: Array) -> Array:
        fitted = LeaceFitter.fit(torch.from_numpy(x), torch.from_numpy(z), method="orth")
        return np.asarray(fitted.eraser.P.numpy())

    return fit


def rows(bench: Bench) -> Iterator[Row]:
    """Measure fits in memory, fits from a file, INLP, and applying."""
    shapes = [("the paper's size", PAPER_ROWS, PAPER_D, 2)]
    shapes += [(f"{c} classes", bench.sized(WHOLE_ROWS, 2000), WHOLE_D, c) for c in CLASSES]
    for name, n, d, n_classes in shapes:
        yield from _fits(bench, name, *files.separated(n, d, n_classes))
    yield from _from_file(bench)
    yield from _second_moments(bench)
    yield _inlp(bench)
    yield _inlp_from_file(bench)
    yield from _applied(bench)


def _fits(bench: Bench, name: str, x: Array, codes: Array) -> Iterator[Row]:
    narrow = np.eye(int(codes.max()) + 1, dtype=np.float32)[codes]
    z, k, touches = narrow.astype(np.int64), narrow.shape[1] - 1, COPIES * x.nbytes
    ours = partial(fit_in_memory, x, z)
    size = f"{files.size_of(*x.shape)}, {z.shape[1]} classes"
    fit = f"SAL fit in memory, {name}"
    note = "rows and design at hand; ours: centred, float64 or groups of float32"
    bounds = ("our class sums of a block", "our float64 class sums of a cached block")
    for recipe, design, arithmetic in (
        (RECIPE, z, "float64, for the labels are integers, as the authors have them"),
        (f"{RECIPE}, all in float32", narrow, "float32, which is not the authors', and right to fewer digits"),
    ):
        seconds = bench.timed({"ours": ours, "recipe": partial(paper_recipe, x, design, k)}, touches=touches)
        yield Row.times(fit, recipe, seconds["ours"], seconds["recipe"], section="peers", size=size, target=WINS,
                        note=f"{note}; the recipe: {arithmetic}, threaded BLAS", bounds=bounds)  # fmt: skip
    peer = concept_erasure()  # each on its own: threads of torch's spin for a while after their work
    beside = {} if peer is None else bench.timed({"ours": ours, "peer": partial(peer, x, narrow)}, touches=touches)
    same = "" if peer is None else f"same projector to {_difference(peer, x, narrow):.0e}"
    note = MISSING if peer is None else f"{note}; the peer: float32; {same}"
    yield Row.times(fit, "concept-erasure, orth", beside.get("ours", seconds["ours"]), beside.get("peer"),
                    section="peers", size=size, target=WINS, note=note)  # fmt: skip


def _difference(peer: Callable[[Array, Array], Array], x: Array, z: Array) -> float:
    found = float(np.abs(peer(x, z) - fit_in_memory(x, z).eraser.projection()).max())
    if found > AGREEMENT:
        raise AssertionError(f"salcli and concept-erasure differ by {found:.2g} in the projector")
    return found


def _from_file(bench: Bench) -> Iterator[Row]:
    n, d = bench.sized(WHOLE_ROWS, 2000), WHOLE_D
    path = files.write_npy(bench.folder / "x.npy", n, d)
    for n_classes in CLASSES:
        z = np.eye(n_classes, dtype=np.int64)[np.arange(n) % n_classes]
        works: dict[str, Work] = {
            "ours": partial(_fold_and_fit, FitPass(path, n, n_classes)),
            "recipe": partial(_load_and_fit, path, z),
        }
        seconds = bench.timed(works, touches=COPIES * path.stat().st_size)
        yield Row.times(
            f"SAL fit from .npy, {n_classes} classes", f"numpy.load and {RECIPE}",
            seconds["ours"], seconds["recipe"],
            section="peers", size=files.size_of(n, d), target=WINS, bounds=("float32 → float64 in a cached block",),
        )  # fmt: skip
    path.unlink()


def _second_moments(bench: Bench) -> Iterator[Row]:
    """Measure LEACE and SPLINCE from a file against concept-erasure's LEACE on the same rows in memory."""
    n, d = bench.sized(WHOLE_ROWS, 2000), WHOLE_D
    path = files.write_npy(bench.folder / "x.npy", n, d)
    task = Attribute("task", np.arange(n) // 2 % 2, ("0", "1"))
    ours = FitPass(path, n, 2)
    works: dict[str, Work] = {
        "LEACE": partial(ours.method, "leace"),
        "SPLINCE": partial(ours.method, "splince", task, task="task"),
    }
    if (peer := concept_erasure_leace(np.load(path), np.eye(2, dtype=np.float32)[np.arange(n) % 2])) is not None:
        works["peer"] = peer
    seconds = bench.timed(works, touches=COPIES * path.stat().st_size)
    path.unlink()
    note = "ours: from .npy, float64; the peer: rows in memory, float32, batches of 8,192 rows, threaded BLAS"
    for name, about in (("LEACE", note), ("SPLINCE", f"{note}; it knows no task, so ours does more")):
        yield Row.times(f"{name} fit from .npy", "concept-erasure, LeaceFitter", seconds[name], seconds.get("peer"),
                        section="peers", size=files.size_of(n, d), target=WINS,
                        note=MISSING if peer is None else about)  # fmt: skip


def concept_erasure_leace(x: Array, z: Array) -> Work | None:
    """Return what fits concept-erasure's LEACE to rows in memory; None if it is not installed."""
    if find_spec("concept_erasure") is None:
        return None
    import torch
    from concept_erasure import LeaceFitter

    rows, labels = torch.from_numpy(x), torch.from_numpy(z)

    def fit() -> None:
        fitter = LeaceFitter(x.shape[1], z.shape[1], dtype=torch.float32)
        for start in range(0, len(x), PEER_BATCH):
            fitter.update(rows[start : start + PEER_BATCH], labels[start : start + PEER_BATCH])
        assert fitter.eraser.proj_left is not None

    return fit


def _fold_and_fit(fold: FitPass) -> None:
    fit_sal(fold())


def _load_and_fit(path: Path, z: Array) -> None:
    paper_recipe(np.load(path), z, z.shape[1] - 1)


def _inlp(bench: Bench) -> Row:
    n = bench.sized(PAPER_ROWS, 1000, power=0.5)
    n_machines = bench.sized(MACHINES, 5, power=0.5)
    x, codes = files.separated(n, PAPER_D, 2)
    z = np.eye(2)[codes]
    works: dict[str, Work] = {"ours": partial(fit_in_memory, x, z), "inlp": partial(inlp, x, codes, n_machines)}
    seconds = bench.timed(works)
    return Row.times(
        "SAL fit in memory", f"INLP, {n_machines} linear SVMs", seconds["ours"], seconds["inlp"],
        section="peers", size=files.size_of(n, PAPER_D), target=WINS, note="paper: 0.03 s against 50 s",
    )  # fmt: skip


def _inlp_from_file(bench: Bench) -> Row:
    """Measure INLP from a file against the recipe on the same rows in memory, for as many rounds."""
    n, d = bench.sized(WHOLE_ROWS, 2000), WHOLE_D
    path = bench.folder / "x.npy"
    x, codes = several_rounds(n, d)
    np.save(path, x)
    files.settle(path)
    ours = partial(FitPass(path, n, 2).method, "inlp", rounds=INLP_ROUNDS, training_rows=n)
    found = ours().header["inlp"]
    if found["n_rounds"] != INLP_ROUNDS:
        raise AssertionError(f"inlp ended after {found['n_rounds']} of {INLP_ROUNDS} rounds")
    works: dict[str, Work] = {"ours": ours, "recipe": partial(inlp, x, codes, INLP_ROUNDS)}
    seconds = bench.timed(works, touches=COPIES * x.nbytes)
    path.unlink()
    return Row.times(
        "INLP fit from .npy", f"the recipe with scikit-learn's LinearSVC, {INLP_ROUNDS} rounds",
        seconds["ours"], seconds["recipe"], section="peers", size=files.size_of(n, d), target=WINS,
        note="ours: trained on three quarters of the rows, judged on the others after every round and at the end",
    )  # fmt: skip


def several_rounds(n: int, d: int) -> tuple[Array, Array]:
    """Return rows `[n, d]` that a linear classifier reads for several rounds, and their two classes.

    Columns differ in their spread, so that normals are not differences of means.
    """
    rng, codes = np.random.default_rng(1), files.codes_of(n, 2)
    x = rng.standard_normal((n, d), dtype=np.float32) * np.geomspace(0.1, 3, d, dtype=np.float32)
    return x + codes[:, None] * (0.15 * rng.standard_normal(d, dtype=np.float32)), codes


def _applied(bench: Bench) -> Iterator[Row]:
    n, d = bench.sized(WHOLE_ROWS, 2000), WHOLE_D
    folder = bench.folder
    for n_classes in CLASSES:
        x, codes = files.separated(n, d, n_classes)
        eraser: LinearEraser = fit_in_memory(x, np.eye(n_classes)[codes]).eraser
        dense = eraser.projection().astype(np.float32)
        size = f"{files.size_of(n, d)}, k = {eraser.k}"
        works: dict[str, Work] = {"ours": partial(_erased, eraser, x), "dense": partial(np.matmul, x, dense)}
        seconds = bench.timed(works, touches=x.nbytes)
        yield Row.times(f"apply in memory, k = {eraser.k}", "dense X @ P", seconds["ours"], seconds["dense"],
                        section="peers", size=size, target=WINS, note="ours: float64 inside; both on all cores",
                        bounds=APPLY_BOUNDS)  # fmt: skip
        path, labels, target = folder / "x.npy", folder / "labels.csv", folder / "out.npy"
        np.save(path, x)
        files.settle(path)
        artifact = folder / "eraser.npz"
        salcli("fit", str(path), str(files.write_labels(labels, n, n_classes)), "-o", str(artifact), "--quiet")
        works = {"ours": partial(apply, artifact, path, target), "dense": partial(_dense_pass, path, target, dense)}
        seconds = bench.timed(works, touches=COPIES * x.nbytes)
        yield Row.times(f"apply .npy → .npy, k = {eraser.k}", "numpy.load, dense X @ P, numpy.save",
                        seconds["ours"], seconds["dense"], section="peers", size=size, target=WINS,
                        note="both sides sync their output", bounds=("write and fsync", *APPLY_BOUNDS))  # fmt: skip
        path.unlink()
        target.unlink()


def _erased(eraser: LinearEraser, x: Array) -> Array:
    """Erase rows in memory on as many threads as `apply` does."""
    erased, rows = np.empty_like(x), eraser.rows_at_once

    def placed(start: int) -> None:
        eraser(x[start : start + rows], out=erased[start : start + rows])

    for _ in ordered_map(placed, range(0, len(x), rows)):
        pass
    return erased


def _dense_pass(path: Path, target: Path, dense: Array) -> None:
    target.unlink(missing_ok=True)
    np.save(target, np.load(path) @ dense)
    files.sync(target)

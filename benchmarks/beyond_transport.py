"""What was tried to do better than transport: what attackers read of rows that took no part in any choice.

    python -m benchmarks.beyond_transport KIND FOLDER [--seeds N] [--ways transport,mixture,marginals] [--rows N]

KIND and FOLDER are those of `benchmarks.robust`, and so are the division of the rows and the attackers; at most --rows
labelled rows fit. Each way continues from the transport of these rows, and moves each class as far as its posterior
knows the row. How far it goes is chosen on a fifth of the fit rows, by the worst of three readers, as transport chooses
its shrinkage: 0 is transport itself.

mixture: clusters of the transported rows, found without labels; in each, class means are moved together and covariances
are transported, shrunk by a half. Chosen: the number of clusters.
marginals: iterated Gaussianisation along attackers' directions: of half of the rows, the directions in which a kernel
machine (ridge on random Fourier features) changes most; of the other half, the quantiles of each class along these,
which are moved to their barycentre. Every round has new halves. Chosen: the number of rounds.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import salcli
from benchmarks.robust import GRIDS, MOST, SHOWN, Data, attacked, overlap, read
from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.transport.gaussians import IDENTITY, Shrinkage
from salcli.erasers.transport.readers import readings
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.linalg.optimal_transport import maps_to_barycentre
from salcli.streaming.engine import map_in_threads, one_blas_thread

Array = NDArray[Any]
Way = Callable[[Array, Array], Array]
"""From transported rows `[n, d]` and their posterior `[n, c]` to moved rows."""
ATTACKERS = tuple(name for name in GRIDS if name not in ("boosting", "mlp"))
CLUSTERS, LEAST = (2, 4, 8, 16), 3  # rows of a class in a cluster, a dimension
ROUNDS, DIRECTIONS, FEATURES, LEVELS = (5, 10, 20, 40), 3, 300, np.linspace(0.02, 0.98, 25)
FLAT = 0.05  # of the spread along the first component


def mixture(z: Array, y: Array, seed: int) -> Iterator[tuple[int, Way]]:
    """Yield numbers of clusters, and the map of each; clusters with too few rows of a class stay as they are."""
    shrink = Shrinkage(0.5, IDENTITY)
    for n in CLUSTERS:
        machine = KMeans(n, n_init=2, random_state=seed).fit(z)
        of, maps = machine.labels_, np.tile(np.eye(z.shape[1]), (n, 2, 1, 1))
        means = np.repeat(machine.cluster_centers_[:, None], 2, axis=1)
        for j in range(n):
            parts = [z[(of == j) & (y == code)] for code in (0, 1)]
            if min(map(len, parts)) >= LEAST * z.shape[1]:
                shares = np.array([len(part) for part in parts]) / sum(map(len, parts))
                covariances = np.stack([np.cov(part.T) for part in parts])
                size = float(np.trace(covariances, axis1=1, axis2=2).mean()) / z.shape[1]
                maps[j] = maps_to_barycentre(shrink(covariances / size, shares), shares)
                means[j] = [part.mean(axis=0) for part in parts]

        def moved(x: Array, w: Array, machine: Any = machine, maps: Array = maps, means: Array = means) -> Array:
            nearest, found = machine.predict(x.astype(z.dtype)), x.copy()
            for j in range(len(maps)):
                at = np.flatnonzero(nearest == j)
                middle = means[j].mean(axis=0)
                for code in (0, 1):
                    target = (x[at] - means[j, code]) @ maps[j, code] + middle
                    found[at] += w[at, code, None] * (target - x[at])
            return found

        yield n, moved


def marginals(z: Array, y: Array, seed: int) -> Iterator[tuple[int, Way]]:
    """Yield numbers of rounds, and the map of each."""
    rng, steps, now = np.random.default_rng(seed), list[tuple[Array, Array, Array]](), z.copy()
    own = np.eye(2)[y]

    def moved(x: Array, w: Array, steps: Sequence[tuple[Array, Array, Array]]) -> Array:
        found = x.copy()
        for direction, quantiles, middle in steps:
            along = found @ direction
            shifts = [np.interp(along, q, middle - q) for q in quantiles]
            found += np.outer(np.einsum("cn,nc->n", shifts, w), direction)
        return found

    for i in range(1, max(ROUNDS) + 1):
        first, second = np.array_split(rng.permutation(len(z)), 2)
        for direction in changing(now[first], y[first], rng):
            along = now[second] @ direction
            quantiles = np.stack([np.quantile(along[y[second] == code], LEVELS) for code in (0, 1)])
            steps.append((direction, quantiles, quantiles.mean(axis=0)))
            now = moved(now, own, steps[-1:])
        if i in ROUNDS:
            yield i, lambda x, w, of=tuple(steps): moved(x, w, of)


def changing(x: Array, y: Array, rng: np.random.Generator) -> Array:
    """Return the directions `[DIRECTIONS, d]` in which a kernel machine trained on the rows changes most."""
    scaled = (x - x.mean(axis=0)) / x.std()
    _, sizes, components = np.linalg.svd(scaled, full_matrices=False)
    components = components[sizes > FLAT * sizes[0]]  # along others the machine knows no row, and a shift is a label
    weights = rng.normal(size=(x.shape[1], FEATURES)) * rng.choice([0.5, 1.0, 2.0], FEATURES) / np.sqrt(x.shape[1])
    phases = scaled @ weights + rng.uniform(0, 2 * np.pi, FEATURES)
    features = np.cos(phases)
    gram = features.T @ features
    gram.flat[:: FEATURES + 1] += 0.1 * len(x)
    witness = np.linalg.solve(gram, features.T @ (y - y.mean()))
    gradients = -(np.sin(phases) * witness) @ weights.T @ components.T
    found: Array = np.linalg.svd(gradients, full_matrices=False)[2][:DIRECTIONS] @ components
    return found


WAYS = {"mixture": mixture, "marginals": marginals}


def stay(z: Array, w: Array) -> Array:  # noqa: ARG001 (ways have both)
    """Return rows as they are."""
    return z


def chosen(name: str, x: Array, y: Array, seed: int) -> Way:
    """Return a way fitted to rows, with as many steps as leave readers of a held-out fifth of them least."""
    if name == "transport":
        return stay
    order = np.random.default_rng(seed).permutation(len(x))
    held, rest = np.split(order, [len(x) // 5])
    transport = transported(x[rest], y[rest], seed)
    (z, w), (own, _) = moved_by(transport, x[held]), moved_by(transport, x[rest])
    tried = [(0, stay), *WAYS[name](own, y[rest], seed)]
    worst = [max(readings(way(z, w), y[held], 2).values()) for _, way in tried]
    print(f"  {name}, seed {seed}: worst by steps", {n: round(v, 3) for (n, _), v in zip(tried, worst, strict=True)})
    n = tried[int(np.argmin(worst))][0]
    return dict(WAYS[name](moved_by(transported(x, y, seed), x)[0], y, seed)).get(n, stay)


def transported(x: Array, y: Array, seed: int) -> TransportEraser:
    """Return the transport of rows."""
    found = salcli.fit(x, y, method="transport", seed=seed).eraser
    assert isinstance(found, TransportEraser)
    return found


def moved_by(transport: TransportEraser, x: Array) -> tuple[Array, Array]:
    """Return transported rows, and the posterior of the rows before."""
    return transport(x, dtype=np.float64), transport.posterior(x.astype(np.float64))


def figures(data: Data, name: str, seed: int, most: int) -> list[float]:
    """Return what each attacker reads, and the share of ten neighbours of labelled rows that stay."""
    order = np.random.default_rng(seed).permutation(len(data.rows))
    fit, train, test = np.split(order, [int(0.4 * len(order)), int(0.7 * len(order))])
    fit, train, test = fit[:most], train[:MOST], test[:MOST]
    x, y = data.x[data.rows], data.y
    z, w = moved_by(transported(x[fit], y[fit], seed), x)
    z = chosen(name, x[fit], y[fit], seed)(z, w).astype(np.float32)
    scale = Scaling.of(x[train])
    a, b = scale(z[train]), scale(z[test])
    with silence_convergence_warnings():
        read_ = list(map_in_threads(lambda each: attacked(each, a, y[train], b, y[test], seed), ATTACKERS))
    shown = np.random.default_rng(seed).choice(len(x), min(SHOWN, len(x)), replace=False)
    return [*read_, max(read_), overlap(x, z, shown)]


def main() -> None:
    """Print a Markdown table: mean ± standard deviation over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("glove", "dialect", "eec"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", default=",".join(("transport", *WAYS)))
    parser.add_argument("--rows", type=int, default=6000)
    given = parser.parse_args()
    data, lines = read(given.kind, given.folder), list[str]()
    for name in given.ways.split(","):
        with one_blas_thread():
            found = np.array([figures(data, name, seed, given.rows) for seed in range(given.seeds)])
        spread = found.std(axis=0, ddof=min(1, given.seeds - 1))
        cells = " | ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(found.mean(axis=0), spread, strict=True))
        lines.append(f"| {name} | {cells} |")
    print(f"\n| {given.kind} | {' | '.join(ATTACKERS)} | worst | neighbours of labelled rows |")
    print("|---" * (len(ATTACKERS) + 3) + "|", *lines, sep="\n")


if __name__ == "__main__":
    main()

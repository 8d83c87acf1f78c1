"""INLP: iterative nullspace projection (Ravfogel, Elazar, Gonen, Twiton & Goldberg, ACL 2020).

Round after round a linear classifier of the guarded classes is trained on rows without the directions found so far, and
its normals are added to them. The removed directions are kept as an orthonormal basis, so that the eraser is an exact
orthogonal projection on the intersection of all nullspaces. It ends when the classifier reads no more than a blind
guess of held-out rows of the fit: a fixed number of rounds takes the main task to chance as well.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.readers import Reading, Sample
from salcli.errors import RankError
from salcli.linalg.decompositions import thin_svd
from salcli.linalg.moments import CrossMoments
from salcli.options import Record, option
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource, fold
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
SAME = 1e-6  # of the largest singular value: normals that add less to the others are the same direction


@dataclass(frozen=True)
class INLPParameters(Record):
    """How INLP is fitted."""

    rounds: int = option(
        35,
        help="Most rounds; fewer are run where the classifier reads no more than chance of held-out rows of the fit.",
        metavar="N",
        bounds=(1, None),
    )
    training_rows: int | None = option(
        None,
        help="Most rows that train the classifiers, in memory, stratified by class; default: as many as 128 MiB hold.",
        metavar="N",
        bounds=(2, None),
    )
    keep_mean: bool = option(
        False,
        off="--no-keep-mean",
        help="Set removed coordinates to their mean instead of 0, for models that stay as they are.",
    )


class INLPMethod:
    """Removes the normals of linear classifiers, round after round: a pass for means, others for rows that train."""

    name = "inlp"
    summary = "the paper's rival: takes off what linear classifiers use, one after the other; slower, removes more"
    Parameters = INLPParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: INLPParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit INLP to labelled rows (see `Method.fit`).

        Raises
        ------
        LabelError : an attribute is numeric, or too few rows are there to hold any out
        RankError : a classifier reads no more than chance of the rows as they are
        RangeError : values whose squares float64 cannot hold
        """
        sample = Sample.of(rows, parameters.training_rows, seed, progress, method=self.name)
        moments = fold(rows, CrossMoments, engine, progress)
        moments.require_finite()
        basis, rounds = _rounds(sample, parameters.rounds, progress)
        mean = moments.mean_x if parameters.keep_mean else np.zeros_like(moments.mean_x)
        n_rounds, is_at_chance = len(rounds) - 1, all(reading.is_at_chance for reading in rounds[-1])
        about = {
            "n_rounds": n_rounds,
            "accuracies": [[reading.accuracy for reading in readings] for readings in rounds],
            "chance": [reading.chance for reading in rounds[0]],
            "is_at_chance": is_at_chance,
            "n_train": len(sample.train),
            "n_held_out": len(sample.held_out),
        }
        rule = {"rounds": n_rounds}
        spectrum = _strengths(moments, basis)
        eraser = LinearEraser(mean, basis, basis)
        return Fit(eraser, spectrum, basis.shape[1], rule, header={"inlp": about}, doubts=_doubts(rounds, is_at_chance))


METHOD = INLPMethod()


def _rounds(sample: Sample, most: int, progress: Progress) -> tuple[Array, list[tuple[Reading, ...]]]:
    """Return the removed directions `[d, k]`, and what was read in each round and at the end.

    Raises
    ------
    RankError : nothing is read in the first round
    """
    d = sample.train.shape[1]
    basis, rounds = np.zeros((d, 0)), list[tuple[Reading, ...]]()
    with progress.stage("inlp", most, "rounds") as advance:
        for _ in range(most + 1):
            rounds.append(sample.read(basis))
            found = [reading.planes.normals for reading in rounds[-1] if not reading.is_at_chance]
            if len(rounds) > most or not found or basis.shape[1] == d:
                break
            basis = extended(basis, np.hstack(found))
            advance(1)
    if not basis.shape[1]:
        named = ", ".join(f"{r.name} {r.accuracy:.3f} (chance {r.chance:.3f})" for r in rounds[0])
        raise RankError(
            f"a linear classifier reads no more than chance of {len(sample.held_out):,} held-out rows of the fit, by "
            f"balanced accuracy: {named}; there is nothing to remove"
        )
    return basis, rounds


def extended(basis: Array, normals: Array) -> Array:
    """Return an orthonormal basis of further directions behind those there are.

    Parameters
    ----------
    basis : `[d, k]` orthonormal
    normals : `[d, p]` what is to be spanned too

    Returns
    -------
    `[d, k + r]`, r ≤ p: directions that differ from others by rounding alone add none
    """
    for _ in range(2):  # once more, for what cancellation leaves
        normals = normals - basis @ (basis.T @ normals)
    lengths = np.linalg.norm(normals, axis=0)
    u, s, _ = thin_svd(normals[:, lengths > 0] / lengths[lengths > 0])
    new = u[:, s > SAME * s.max(initial=0.0)]
    new = new - basis @ (basis.T @ new)
    return np.hstack([basis, new / np.linalg.norm(new, axis=0)])[:, : len(basis)]


def _strengths(moments: CrossMoments, basis: Array) -> Array:
    """Return how much rows covary with labels along each removed direction `[k]`, descending."""
    return np.sort(np.linalg.norm(moments.cross_covariance().T @ basis, axis=0))[::-1]


def _doubts(rounds: list[tuple[Reading, ...]], is_at_chance: bool) -> tuple[str, ...]:
    doubts = list[str]()
    if not is_at_chance:
        named = ", ".join(
            f"{r.name} {r.accuracy:.3f} (chance {r.chance:.3f})" for r in rounds[-1] if not r.is_at_chance
        )
        doubts.append(
            f"after {len(rounds) - 1} rounds a linear classifier still reads held-out rows of the fit, by balanced "
            f"accuracy: {named}; more `rounds` remove more"
        )
    if n := sum(not reading.planes.converged for readings in rounds for reading in readings):
        doubts.append(f"{n} of {sum(map(len, rounds))} classifiers of inlp did not converge")
    return tuple(doubts)

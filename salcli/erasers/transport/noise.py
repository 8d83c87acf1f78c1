"""Keyed noise after a transport: the same row gets the same noise in every run, shard and release.

What is left after a transport sits in clusters, which noise blurs. Drawn anew each time, it would average out over
releases. So the noise of a row comes from a counter-based generator (Philox; Salmon et al. 2011) whose key is a keyed
hash of the row as it is: who has the secret can repeat it, and nobody else can take it off.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.blocks import require_float64
from salcli.erasers.transport.eraser import TransportEraser
from salcli.errors import RangeError, ShapeError, UsageError
from salcli.linalg.class_moments import ClassMoments
from salcli.linalg.decompositions import orthonormality_error, symmetric_eigen

Array = NDArray[np.float64]
LEADING, BEYOND = (
    25,
    0.5,
)  # components of full noise, and the share of it in the others: clusters sit in the leading ones
ORTHONORMAL = 1e-8


@dataclass(frozen=True, eq=False)
class NoisyTransportEraser(TransportEraser):
    """Transport, then x ← √(1 − gν) x + √(gν) ξ in each component, ξ with the component's variance, g the gate."""

    kind: ClassVar[str] = "noisy transport"
    needs_secret: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = (*TransportEraser.names, "components", "variances", "noise")

    components: Array
    """E `[d, d]`, orthonormal: principal components of transported rows."""
    variances: Array
    """`[d]` of them."""
    noise: Array
    """ν `[d]`, the share of each variance that is noise."""
    secret: bytes | None = field(default=None, repr=False)
    """Never written."""

    def __post_init__(self) -> None:
        super().__post_init__()
        d = self.d
        if (self.components.shape, self.variances.shape, self.noise.shape) != ((d, d), (d,), (d,)):
            raise ShapeError(f"components {self.components.shape}, variances and noise are not [d, d], [d] and [d]")
        if not np.all(self.variances >= 0) or not np.all((self.noise >= 0) & (self.noise <= 1)):
            raise RangeError("variances must be positive, and noise a share")
        if not orthonormality_error(self.components) <= ORTHONORMAL:
            raise ShapeError("its components are not orthonormal")

    def keyed(self, secret: bytes) -> Self:
        """Return the eraser with its `secret`, 32 bytes."""
        return replace(self, secret=secret)

    def moved(self, x: Array, moved: Array, strength: float = 1.0) -> Array:
        """Return rows moved λ of the way, with noise (see `TransportEraser.moved`).

        Raises
        ------
        UsageError : there is no secret
        """
        if self.secret is None:
            raise UsageError(
                "this eraser adds noise by a secret: apply it with `noise_key=FILE`, and evaluate what that writes "
                "with `against=OUT`"
            )
        normals, gate = normals_of(x, self.secret), self.posterior(x).sum(axis=1, keepdims=True)
        before = x.copy() if strength < 1 else None
        moved = super().moved(x, moved, 1.0)
        share = gate * self.noise
        coordinates = (moved - self.centre) @ self.components
        coordinates *= np.sqrt(1 - share) - 1
        normals *= np.sqrt(share * self.variances)
        coordinates += normals
        moved += coordinates @ self.components.T
        if before is not None:
            moved -= before
            moved *= strength
            moved += before
        return moved

    def preimages(self, y: NDArray[Any], *, strength: float = 1.0) -> Array:  # noqa: ARG002 (its base has them)
        """Raise UsageError: without the secret, noise cannot be taken off (see `Eraser.preimages`)."""
        raise UsageError("`adversaries=white-box`: noise by a secret is not inverted by whoever holds the eraser alone")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact: no secret."""
        return {**super().arrays(), **{name: getattr(self, name) for name in ("components", "variances", "noise")}}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        """Return the eraser of an artifact, without its secret (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        plain = _fields(TransportEraser.from_arrays(arrays, header))
        components, variances, noise = (require_float64(arrays, name) for name in cls.names[-3:])
        return cls(**plain, components=components, variances=variances, noise=noise)


def noisy(eraser: TransportEraser, moments: ClassMoments, noise: float) -> NoisyTransportEraser:
    """Return a transport with noise: all of it in the leading components, less in the others.

    Parameters
    ----------
    eraser : without noise
    moments : of the rows that it was fitted on, by class
    noise : ν, the share of the variance of leading components that becomes noise
    """
    v, shares = eraser.directions, moments.counts / moments.n
    maps = eraser.maps @ (np.eye(eraser.d) - v @ v.T)
    covariance: Array = np.tensordot(shares, maps @ moments.covariances() @ maps.transpose(0, 2, 1), 1)
    values, vectors = symmetric_eigen(covariance)
    levels = np.where(np.arange(len(values)) < LEADING, noise, BEYOND * noise)
    return NoisyTransportEraser(**_fields(eraser), components=vectors, variances=np.maximum(values, 0), noise=levels)


def _fields(eraser: TransportEraser) -> dict[str, Any]:
    return {name: getattr(eraser, name) for name in ("mean", "directions", "centre", "maps", "posterior")}


def normals_of(x: Array, secret: bytes) -> Array:
    """Return standard normal numbers `[n, d]` that depend on each row and the secret alone; zeros for rows of zeros.

    Parameters
    ----------
    x : `[n, d]` rows, as they are in the file
    secret : at most 64 bytes
    """
    n, d = x.shape
    half, normals = -(-d // 2), np.zeros((n, d))
    at = np.flatnonzero(x.any(axis=1))
    bits = np.empty((len(at), 2 * half), np.uint64)
    for row, exact in zip(bits, x[at].astype("<f8") + 0.0, strict=True):  # + 0.0: −0 and 0 are the same number
        key = hashlib.blake2b(exact.tobytes(), digest_size=16, key=secret).digest()
        row[:] = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(2 * half)
    uniform = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53  # never 0 or 1
    radius = np.sqrt(-2 * np.log(uniform[:, :half]))  # Box & Muller 1958
    angle = 2 * np.pi * uniform[:, half:]
    normals[at] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :d]
    return normals

"""`.npz`: `weight` and `bias` in float64, for numpy."""

import numpy as np

from salcli.formats import atomic
from salcli.formats.exports import DenseMap, Target


def write(path: str, dense: DenseMap, is_double: bool) -> list[str]:  # noqa: ARG001 (always double)
    """Write `weight` `[d, d]`, `bias` `[d]`, `normalizes` and the metadata, to be read by `numpy.load`.

    Parameters
    ----------
    path : of the output
    dense : the map
    is_double : makes no difference

    Returns
    -------
    the path

    Raises
    ------
    OutputError : it cannot be written
    """
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        texts = {name: np.array(text) for name, text in dense.metadata.items()}
        np.savez(
            handle,
            allow_pickle=False,
            weight=dense.weight,
            bias=dense.bias,
            normalizes=np.array(dense.normalizes),
            **texts,
        )
    return [path]


TARGET = Target("npz", (".npz",), write, has_double=True)

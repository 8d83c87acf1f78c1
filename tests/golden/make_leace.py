"""Write `leace.npz`: what concept-erasure 0.2 makes of small data (`pip install concept-erasure`; float64).

Run: python tests/golden/make_leace.py
"""

from pathlib import Path

import numpy as np
import torch
from concept_erasure import LeaceFitter


def data(seed: int, n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw correlated rows whose class means differ, and one-hot classes (c = 1: a number)."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, max(c, 2), n)
    mixing = rng.normal(size=(d, d)) + 2 * np.eye(d)
    x = (rng.normal(size=(n, d)) + rng.normal(size=(max(c, 2), d))[codes]) @ mixing + 5 * rng.normal(size=d)
    z = np.eye(c)[codes] if c > 1 else (codes + 0.3 * rng.normal(size=n))[:, None]
    return x, z


if __name__ == "__main__":
    arrays = {}
    for name, shape in {"two": (300, 6, 2), "five": (400, 9, 5), "number": (250, 5, 1)}.items():
        x, z = data(len(name), *shape)
        fitter = LeaceFitter(
            shape[1], shape[2], dtype=torch.float64, method="leace", shrinkage=False, constrain_cov_trace=False
        )
        fitter.update(torch.from_numpy(x), torch.from_numpy(z))
        arrays |= {f"{name}_x": x, f"{name}_z": z, f"{name}_erased": fitter.eraser(torch.from_numpy(x)).numpy()}
        arrays[f"{name}_projection"] = (fitter.eraser.proj_left @ fitter.eraser.proj_right).numpy()
    np.savez_compressed(Path(__file__).with_name("leace.npz"), **arrays)

"""What rounding leaves of the guarded attribute in what is served: the table of docs/how-to/export.md.

    python -m benchmarks.rounding

An exact eraser makes the means of the classes equal along each removed direction, so that what is left there is
rounding. It is measured by d′, the difference of the two class means in standard deviations within classes, of float32
rows: those of the sample of biographies, 20 times, each with a length of its own. Of as many rows d′ is .01 by chance.
"""

import csv
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import salcli
from salcli.commands.export import export
from salcli.options import ExportOptions

SAMPLE = Path(__file__).parents[1] / "sample_data"
TIMES = 20
METHODS = {"sal": salcli.SAL(), "sal --keep-mean": salcli.SAL(keep_mean=True), "leace": salcli.LEACE()}
LOW_RANK, APPLY = "low rank, float32", "salcli apply"
Rows = NDArray[np.float32]


def sample(times: int = TIMES) -> tuple[Rows, NDArray[np.str_]]:
    """Return the rows of the sample `times` over, times random numbers in [0.5, 1), and the gender of each."""
    x = np.load(SAMPLE / "bios-sample.npy").astype(np.float32)
    with open(SAMPLE / "bios-sample.csv", encoding="utf-8") as file:
        gender = np.array([row["gender"] for row in csv.DictReader(file)])
    lengths = np.random.default_rng(0).uniform(0.5, 1, (times, len(x), 1)).astype(np.float32)
    return (x * lengths).reshape(-1, x.shape[1]), np.tile(gender, times)


def separation(erased: Rows, directions: NDArray[np.float64], is_first: NDArray[np.bool_]) -> float:
    """Return the largest d′ of the two classes of `erased` rows `[n, d]` along any of the `directions` `[d, k]`."""
    along = erased.astype(np.float64) @ directions
    one, other = along[is_first], along[~is_first]
    return float(np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / np.sqrt((one.var(0) + other.var(0)) / 2)))


def served(eraser: Any, x: Rows, folder: str) -> dict[str, Rows]:
    """Return the erased rows of `x` by the form that an estimator's `eraser` is served in."""
    import onnxruntime
    from safetensors.numpy import load_file

    left, right, mean = (part.astype(np.float32) for part in (eraser.left, eraser.right, eraser.mean))
    found = {LOW_RANK: x - ((x - mean) @ right) @ left.T}
    path = os.path.join(folder, "e")
    for option, is_double in (("", False), (" --double", True)):
        options = ExportOptions(double=is_double)
        export(f"{path}.npz", f"{path}.onnx", options)
        (found[f"onnx{option}"],) = onnxruntime.InferenceSession(f"{path}.onnx").run(None, {"embedding": x})
        export(f"{path}.npz", f"{path}.safetensors", options)
        layer = load_file(f"{path}.safetensors")
        rows = x.astype(layer["weight"].dtype) @ layer["weight"].T + layer["bias"]
        found[f"safetensors{option}"] = rows.astype(np.float32)
    return found


def main() -> None:
    """Print the table."""
    x, gender = sample()
    rows = []
    for name, estimator in METHODS.items():
        estimator.fit(x, guarded=gender)
        with tempfile.TemporaryDirectory() as folder:
            estimator.to_artifact(os.path.join(folder, "e.npz"))
            forms = served(estimator.eraser_, x, folder) | {APPLY: estimator.transform(x)}
        directions, is_first = estimator.eraser_.right, gender == gender[0]
        rows.append((name, {form: separation(erased, directions, is_first) for form, erased in forms.items()}))
    print(f"| | {' | '.join(rows[0][1])} |\n|{'---|' * (len(rows[0][1]) + 1)}")
    for name, of in rows:
        print(f"| {name} | {' | '.join(f'{value:.4f}' for value in of.values())} |")


if __name__ == "__main__":
    main()

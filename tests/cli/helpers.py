"""What the command-line tests share: a process runner, seeded inputs, and readers and oracles of their own."""

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tests.warm import environment, warm

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parents[1] / "sample_data"
SCRIPT = Path(sys.executable).with_name("salcli")
MODULE = (sys.executable, "-m", "salcli")

Array = NDArray[Any]


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8")

    def json(self) -> dict[str, Any]:
        """Read stdout as exactly one line that holds exactly one JSON object."""
        assert self.stdout.endswith(b"\n"), self
        assert self.stdout.count(b"\n") == 1, self
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


def run(
    *args: object,
    command: Sequence[str] = MODULE,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Done:
    """Run salcli in a process of its own: a new one where `command`, `env` or `stdin` is something else than usual."""
    if command == MODULE and not env and not stdin and warm().environment == environment():
        code, out, err, _ = warm().run(*args, cwd=cwd or HERE)
        return Done(code, out, err)
    done = subprocess.run(
        [*command, *map(str, args)],
        cwd=cwd or HERE,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def succeed(*args: object, **how: Any) -> Done:
    """Run salcli, which must do its work."""
    done = run(*args, **how)
    assert done.code == 0, done
    assert b"Traceback" not in done.stderr, done
    return done


def refuse(code: int, *args: object, says: str, **how: Any) -> Done:
    """Run salcli, which must refuse: one error line on stderr, nothing on stdout."""
    done = run(*args, **how)
    assert done.code == code, done
    assert done.stdout == b"", done
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done
    assert done.err.splitlines()[-1] == errors[0], done
    assert says in errors[0], done
    return done


def leftovers(folder: Path) -> list[str]:
    """Name the temporary files of outputs in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp"))


# Inputs


def planted(
    n: int = 300, d: int = 8, *, n_classes: int = 2, seed: int = 0, shift: float = 6.0
) -> tuple[NDArray[np.float32], list[str]]:
    """Draw rows whose classes lie far apart along directions of their own, around a mean that is not zero."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    centres = shift * np.linalg.qr(rng.normal(size=(d, n_classes)))[0].T
    x = rng.normal(size=(n, d)) + centres[codes] + rng.normal(size=d) * 3
    return x.astype(np.float32), [f"c{code}" for code in codes]


def words(n: int) -> list[str]:
    return [f"w{i}" for i in range(n)]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    with open(path, encoding="utf-8", newline="") as handle:
        columns, *rows = csv.reader(handle)
    return columns, rows


def save_npy(path: Path, x: Array) -> Path:
    np.save(path, x)
    return path


def text_of(keys: Sequence[bytes], x: Array, *, has_header: bool) -> bytes:
    """Spell rows with decimals that read back to the same float32."""
    lines = [b" ".join([key, *(b"%.9g" % value for value in row.tolist())]) for key, row in zip(keys, x, strict=True)]
    head = [b"%d %d" % x.shape] if has_header else []
    return b"\n".join([*head, *lines]) + b"\n"


def binary_of(keys: Sequence[bytes], x: Array) -> bytes:
    rows = [key + b" " + row.astype("<f4").tobytes() for key, row in zip(keys, x, strict=True)]
    return b"%d %d\n" % x.shape + b"".join(rows)


def write_embeddings(path: Path, x: Array, keys: Sequence[bytes]) -> Path:
    """Write a file of the format that its suffix says (`.glove.txt`: text without a header), without salcli."""
    name, is_packed = path.name.removesuffix(".gz"), path.name.endswith(".gz")
    if name.endswith(".h5"):
        with h5py.File(path, "w") as file:
            file["vectors"] = x
            file.create_dataset("keys", data=list(keys), dtype=h5py.string_dtype())
        return path
    if name.endswith(".npz"):
        np.savez(path, vectors=x, keys=np.array([key.decode() for key in keys]))
        return path
    if name.endswith(".npy"):
        return save_npy(path, x)
    data = binary_of(keys, x) if name.endswith(".bin") else text_of(keys, x, has_header=not name.endswith(".glove.txt"))
    path.write_bytes(gzip.compress(data) if is_packed else data)
    return path


def read_text(data: bytes, d: int, *, has_header: bool) -> tuple[list[bytes], NDArray[np.float64]]:
    lines = data.removesuffix(b"\n").split(b"\n")
    if has_header:
        assert lines[0].split() == [b"%d" % (len(lines) - 1), b"%d" % d]
        lines = lines[1:]
    fields = [line.rsplit(b" ", d) for line in lines]
    return [row[0] for row in fields], np.array([[float(v) for v in row[1:]] for row in fields])


def read_binary(data: bytes) -> tuple[list[bytes], NDArray[np.float32]]:
    head, _, body = data.partition(b"\n")
    n, d = map(int, head.split())
    keys, rows, at = [], [], 0
    for _ in range(n):
        end = body.index(b" ", at)
        keys.append(body[at:end])
        rows.append(np.frombuffer(body, "<f4", d, end + 1))
        at = end + 1 + 4 * d
    assert at == len(body)
    return keys, np.stack(rows)


def read_embeddings(path: Path, d: int) -> tuple[list[bytes] | None, Array]:
    """Read keys as bytes and the numbers (text: float32), without salcli."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".h5"):
        with h5py.File(path) as file:
            return list(file["keys"][:]), file["vectors"][:]
    if name.endswith(".npz"):
        with np.load(path) as arrays:
            return [key.encode() for key in arrays["keys"].tolist()], arrays["vectors"]
    if name.endswith(".npy"):
        return None, np.load(path)
    data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    if name.endswith(".bin"):
        return read_binary(data)
    keys, x = read_text(data, d, has_header=not name.endswith(".glove.txt"))
    return keys, x.astype(np.float32)


# Oracles


def one_hot(labels: Sequence[str]) -> NDArray[np.float64]:
    classes = sorted(set(labels))
    return np.array([[label == name for name in classes] for label in labels], dtype=np.float64)


def dense_directions(
    x: Array, z: Array, *, centres: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Take μ, U and σ from the dense cross-covariance."""
    x = x.astype(np.float64)
    mean = x.mean(axis=0) if centres else np.zeros(x.shape[1])
    omega = (x - mean).T @ (z - z.mean(axis=0) if centres else z) / len(x)
    u, s, _ = np.linalg.svd(omega, full_matrices=False)
    return mean, u, s


def load_eraser(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def header_of(path: Path) -> dict[str, Any]:
    found = json.loads(str(load_eraser(path)["header"]))
    assert isinstance(found, dict)
    return found


def projector(path: Path) -> NDArray[np.float64]:
    """Give the removed directions of an artifact as a projector: signs and rotations of U are free."""
    arrays = load_eraser(path)
    assert np.array_equal(arrays["left"], arrays["right"])
    return np.asarray(arrays["left"] @ arrays["right"].T)


def erased(x: Array, path: Path, strength: float = 1.0) -> NDArray[np.float64]:
    """Erase rows with the arrays of an artifact, in float64."""
    held, x = load_eraser(path), x.astype(np.float64)
    return x - strength * (x - held["mean"]) @ (held["right"] @ held["left"].T)

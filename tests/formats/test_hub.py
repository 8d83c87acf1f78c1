"""`hf://` is read through fsspec, no more of it than is needed, and not written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.errors import FormatError, UsageError
from salcli.options import ApplyOptions, FitOptions

fsspec = pytest.importorskip("fsspec")
from fsspec.registry import _registry  # noqa: E402 (behind the check that it is installed)
from fsspec.spec import AbstractBufferedFile  # noqa: E402

N, D = 4000, 80
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


class Hub(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A stand-in for `HfFileSystem`: it has the same methods of its own, and no `cat_file`."""

    protocol = "hf"
    cachable = False
    content: ClassVar[dict[str, bytes]] = {}
    n_read: ClassVar[list[int]] = []

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        found = [self.info(name) for name in self.content if name.startswith(f"{path}/")]
        if not found and path not in self.content:
            raise FileNotFoundError(path)
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if path in self.content:
            return {"name": path, "size": len(self.content[path]), "type": "file", "blob_id": "1"}
        if any(name.startswith(f"{path}/") for name in self.content):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **how: Any) -> Any:
        assert mode == "rb"
        return HubFile(self, path, block_size=block_size or "default", **how)


class HubFile(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        Hub.n_read.append(end - start)
        return Hub.content[self.path][start:end]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[None]:
    """Write a dataset of two shards and its labels, here and on the hub."""
    (tmp_path / "x").mkdir()
    for i, rows in enumerate(np.split(X, [1500])):
        np.save(tmp_path / "x" / f"{i}.npy", rows)
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (N // 2), "ascii")
    names = (path for path in tmp_path.rglob("*") if path.is_file())
    Hub.content |= {f"datasets/me/words@main/{path.relative_to(tmp_path)}": path.read_bytes() for path in names}
    before = _registry.get("hf")
    fsspec.register_implementation("hf", Hub, clobber=True)
    yield
    _registry.pop("hf") if before is None else _registry.__setitem__("hf", before)
    Hub.content.clear()
    Hub.n_read.clear()


@pytest.mark.usefixtures("hub")
def test_the_hub_is_read_each_byte_once(tmp_path: Path) -> None:
    words = "hf://datasets/me/words@main"
    fit(str(tmp_path / "x"), str(tmp_path / "y.csv"), str(tmp_path / "local.npz"), FitOptions())
    for x in ("x", "x/*.npy"):
        Hub.n_read.clear()
        fit(f"{words}/{x}", str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), FitOptions())
        assert (tmp_path / "e.npz").read_bytes() == (tmp_path / "local.npz").read_bytes()
        assert X.nbytes <= sum(Hub.n_read) <= X.nbytes + 2 * 4 * (64 << 10)  # beginnings of two files
    fit(f"{words}/x", f"{words}/y.csv", str(tmp_path / "e.npz"), FitOptions())
    apply(str(tmp_path / "e.npz"), f"{words}/x", str(tmp_path / "out"), ApplyOptions())
    apply(str(tmp_path / "e.npz"), str(tmp_path / "x"), str(tmp_path / "expected"), ApplyOptions())
    for i in range(2):
        assert (tmp_path / "out" / f"{i}.npy").read_bytes() == (tmp_path / "expected" / f"{i}.npy").read_bytes()


@pytest.mark.usefixtures("hub")
def test_the_hub_is_not_written_and_the_command_that_does_is_shown(tmp_path: Path) -> None:
    x, y = str(tmp_path / "x"), str(tmp_path / "y.csv")
    fit(x, y, str(tmp_path / "e.npz"), FitOptions())
    for url, how in {
        "hf://datasets/me/words@v1/out/0.npy": "hf upload me/words HERE out/0.npy --repo-type dataset --revision v1",
        "hf://me/model/e.npz": "hf upload me/model HERE e.npz",
        "hf://buckets/me/store/e.npz": "hf buckets cp HERE hf://buckets/me/store/e.npz",
        "hf://nowhere": "hf upload USER/REPO HERE NAME",
    }.items():
        with pytest.raises(UsageError, match=f"write to a path HERE, then upload that once: {how}$"):
            apply(str(tmp_path / "e.npz"), f"{x}/0.npy", url, ApplyOptions())
        with pytest.raises(UsageError, match=f"{how}$"):
            fit(x, y, url, FitOptions())
    with pytest.raises(FormatError, match=r"hf://datasets/me/none/x\.npy: cannot be read: no such object"):
        fit("hf://datasets/me/none/x.npy", y, str(tmp_path / "f.npz"), FitOptions())

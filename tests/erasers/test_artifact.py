import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.erasers.artifact import Artifact, read_artifact, write_artifact
from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.linear import LinearEraser
from salcli.errors import FormatError
from salcli.formats.artifact import SCHEMA
from salcli.formats.npz_archive import is_artifact
from salcli.linalg.kernels import Kernel, NystromMap
from salcli.options import LabelOptions


def artifact(d: int = 6, k: int = 2) -> Artifact:
    rng = np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(d, k)))[0]
    header = {
        "method": "sal", "parameters": {"k": None, "alpha": None, "center": True}, "eraser": "linear",
        "is_orthogonal": True, "d": d, "k": k, "rank": k, "is_centred": True, "k_rule": {"rank": True},
        "inputs": {"embeddings": {"sha256": "0"}, "labels": {"sha256": "0"}},
        "attributes": [{"name": "géndre", "classes": ["F", "M\udcff"], "counts": [3, 3], "sha256": ""}],
        "rows": {
            "rule": {"fit_split": None, "holdout": 0.0, "sample": None, "seed": 0}, "joined_by": "key",
            "key_column": "word", "split_column": None, "n_fitted": 6, "sha256": "0",
        },
        "versions": {"salcli": "0.1.0"},
    }  # fmt: skip
    return Artifact(LinearEraser(rng.normal(size=d), u, u), np.array([1.0, 0.5]), header)


def kernel_artifacts() -> list[Artifact]:
    """Give an eraser by inner products and one with features; both keep their landmarks in few bits."""
    rng = np.random.default_rng(1)
    landmarks = rng.normal(size=(7, 3)).astype(np.float16)
    exact = KernelEraser(Kernel("rbf", 0.25), landmarks, rng.normal(size=(7, 2)), rng.normal(size=2))
    features = NystromMap.of(Kernel("poly", 2.0, 3, 0.5), landmarks)
    header = artifact().header | {"d": 3, "method": "ksal", "landmarks": {"n": 7, "rule": "all"}}
    return [
        replace(artifact(), eraser=eraser, header=header | {"kernel": kernel.to_dict(), "eraser": eraser.kind})
        for eraser, kernel in (
            (exact, exact.kernel),
            (FeatureEraser(features, artifact(features.width).eraser), features.kernel),
        )
    ]


U = artifact().eraser.left  # type: ignore[union-attr]
V = np.linalg.svd(U)[0][:, 2:3]
"""At right angles to U."""


def rewritten(path: Path, target: Path, **changes: Any) -> Path:
    """Write the artifact at `path` to `target` with some arrays (or header fields, as a dict) put in others' place."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(str(arrays["header"]))
    header |= changes.pop("header_fields", {})
    arrays["header"] = np.array(json.dumps(header))
    arrays |= changes
    np.savez(target, **{name: array for name, array in arrays.items() if array is not None})
    return target


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_artifact(str(tmp_path / "e.npz"), artifact())
    return tmp_path / "e.npz"


def test_every_bit_survives_the_way_through_a_file(path: Path) -> None:
    given_artifact, found = artifact(), read_artifact(str(path))
    for name in ("mean", "left", "right"):
        assert_array_equal(getattr(found.eraser, name), getattr(given_artifact.eraser, name))
    assert_array_equal(found.singular_values, given_artifact.singular_values)
    assert found.header == {"schema": SCHEMA, **given_artifact.header}
    assert is_artifact(str(path))


@pytest.mark.parametrize("given_artifact", kernel_artifacts(), ids=lambda a: type(a.eraser).__name__)
def test_kernel_erasers_survive_too_with_landmarks_as_they_were(given_artifact: Artifact, tmp_path: Path) -> None:
    for name in ("one.npz", "other.npz"):
        write_artifact(str(tmp_path / name), given_artifact)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    found = read_artifact(str(tmp_path / "one.npz"))
    assert is_artifact(str(tmp_path / "one.npz"))
    assert type(found.eraser) is type(given_artifact.eraser)
    assert found.n_bytes == given_artifact.n_bytes
    rows = np.random.default_rng(2).normal(size=(5, 3))
    kernel_eraser = [
        a.eraser.by_inner_products() if isinstance(a.eraser, FeatureEraser) else a.eraser
        for a in (found, given_artifact)
    ]
    assert all(isinstance(eraser, KernelEraser) for eraser in kernel_eraser)
    one, other = kernel_eraser
    assert one.kernel == other.kernel  # type: ignore[union-attr]
    assert one.landmarks.dtype == np.float16  # type: ignore[union-attr]
    assert_array_equal(one.erased_gram(rows, rows), other.erased_gram(rows, rows))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"header_fields": {"kernel": {"name": "sigmoid"}}}, "one of rbf, poly, linear"),
        ({"header_fields": {"kernel": {"name": "rbf", "gamma": -1}}}, "gamma = -1"),
        ({"header_fields": {"kernel": {"name": "linear", "surprise": 1}}}, "kernel is not understood"),
        ({"header_fields": {"kernel": {"name": "rbf"}}}, "kernel lacks 'gamma'"),
        ({"header_fields": {"kernel": {"name": "poly", "gamma": 1.0, "degree": 2}}}, "kernel lacks 'coef0'"),
        ({"header_fields": {"landmarks": {"n": 6, "rule": "all"}}}, "has landmarks = 6, its arrays 7"),
        ({"header_fields": {"kernel": None}}, "kernel is not understood"),
        ({"header_fields": {"d": 4}}, "has d = 4, its arrays 3"),
        ({"landmarks": np.ones((7, 3), np.int64)}, "landmarks is int64"),
        ({"landmarks": np.ones((6, 3))}, r"not \[m, d\]"),
        ({"landmarks": np.full((7, 3), np.inf)}, "finite"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_kernel_erasers_that_do_not_hold_together_are_refused(
    which: int, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_artifact(str(tmp_path / "k.npz"), kernel_artifacts()[which])
    with pytest.raises(FormatError, match=message):
        read_artifact(str(rewritten(tmp_path / "k.npz", tmp_path / "other.npz", **dict(changes))))


def test_a_second_write_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    write_artifact(str(tmp_path / "again.npz"), artifact())
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_a_file_cut_or_damaged_anywhere_is_refused_or_unchanged_in_its_numbers(path: Path, data: st.DataObject) -> None:
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    broken = path.with_name("broken.npz")
    broken.write_bytes(content)
    try:
        found = read_artifact(str(broken))
    except FormatError as error:
        text = str(error)
    else:
        assert_array_equal(found.eraser.left, artifact().eraser.left)  # the damage was to bytes that mean nothing
        return
    assert "broken.npz" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"header_fields": {"schema": "salcli.eraser/9"}}, "schema 'salcli.eraser/9' .written by salcli 0.1.0.*reads"),
        ({"header_fields": {"d": 7}}, "has d = 7, its arrays 6"),
        ({"header_fields": {"k": 1}}, "has k = 1, its arrays 2"),
        ({"header_fields": {"rows": {}}}, "record of fitted rows lacks 'rule'"),
        ({"header_fields": {"rows": artifact().header["rows"] | {"rule": {"surprise": 1}}}}, "rule of fitted rows"),
        ({"header_fields": {"attributes": None}}, "has None for 'attributes'"),
        ({"header": np.array("{")}, "no JSON"),
        ({"header": np.array("[1]")}, "no JSON object"),
        ({"header": np.zeros(3)}, "header is float64, expected one string"),
        ({"mean": np.full(6, np.nan)}, "finite"),
        ({"left": np.ones((6, 2))}, "not a projection"),
        ({"left": np.ones((6, 2), np.float32)}, "left is float32"),
        ({"mean": np.zeros(5)}, r"\[d\], \[d, k\]"),
        ({"singular_values": np.array([np.inf])}, "singular values"),
        ({"singular_values": np.array([-1.0, -2.0])}, "positive and descending"),
        ({"singular_values": np.array([1.0, 2.0])}, "positive and descending"),
        ({"singular_values": np.array([1.0])}, "rank = 2, of 1 singular values"),
        ({"header_fields": {"rank": 1}}, "rank = 1, of 2 singular values, and k = 2"),
        ({"header_fields": {"is_centred": False}}, "is false in its header, but its mean is not zero"),
        ({"left": 3 * U, "right": U / 3}, "not orthonormal"),
        ({"left": U + 5 * V}, "not orthonormal"),
        ({"right": None}, "the arrays right are missing"),
        ({"singular_values": None}, "expected the arrays"),
        ({"header_fields": {"eraser": "magic"}}, "eraser of kind 'magic'; this salcli reads linear"),
        ({"header_fields": {"parameters": None}}, "has None for 'parameters'"),
    ],
)
def test_what_does_not_hold_together_is_refused(
    path: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        read_artifact(str(rewritten(path, tmp_path / "other.npz", **changes)))


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("exploded"),)


@pytest.mark.parametrize("name", [*LinearEraser.names, "singular_values", "header"])
def test_nothing_is_ever_unpickled(path: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb()
    with pytest.raises(FormatError, match="not a salcli eraser, or damaged"):
        read_artifact(str(rewritten(path, tmp_path / "bomb.npz", **{name: bomb})))
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FormatError, match="pickle"):
        read_artifact("plain.npz")
    assert not (tmp_path / "exploded").exists()


def test_embeddings_are_no_artifact(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", vectors=np.ones((2, 2)))
    assert not is_artifact(str(tmp_path / "x.npz"))
    with pytest.raises(FormatError, match="not a salcli eraser"):
        read_artifact(str(tmp_path / "x.npz"))


def test_what_is_no_npz_is_said_so_without_advice_to_unpickle(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("word,label\na,F\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"l.csv: not a salcli eraser: expected the .npz that `salcli fit` writes$"):
        read_artifact(str(tmp_path / "l.csv"))


def test_blas_is_there_before_threads_are_and_without_scipy_linalg(path: Path) -> None:
    code = """
import sys, threadpoolctl
from salcli.erasers.artifact import read_artifact
from salcli.streaming.engine import one_blas_thread
n = len(threadpoolctl.threadpool_info())
eraser = read_artifact(sys.argv[1]).eraser
assert len(threadpoolctl.threadpool_info()) > n, "it came with something else"
assert "scipy.linalg" not in sys.modules
with one_blas_thread():
    import numpy as np
    eraser(np.ones((5, eraser.d)))
    assert {library["num_threads"] for library in threadpoolctl.threadpool_info()} == {1}
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


@pytest.mark.parametrize("change", ["whitener", "landmarks", "gamma"])
def test_features_that_are_not_those_of_their_landmarks_are_refused(tmp_path: Path, change: str) -> None:
    given_artifact = kernel_artifacts()[1]
    assert isinstance(given_artifact.eraser, FeatureEraser)
    features = given_artifact.eraser.features
    write_artifact(str(tmp_path / "k.npz"), given_artifact)
    changes: dict[str, Any] = {
        "whitener": {"whitener": 2 * features.whitener},
        "landmarks": {"landmarks": np.ones_like(features.landmarks)},
        "gamma": {"header_fields": {"kernel": features.kernel.to_dict() | {"gamma": 7.0}}},
    }[change]
    with pytest.raises(FormatError, match="not those of its landmarks"):
        read_artifact(str(rewritten(tmp_path / "k.npz", tmp_path / "other.npz", **changes)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LabelOptions(), ("word", False, None, True)),
        (LabelOptions(by_row=True), (None, True, None, True)),
        (LabelOptions(key="id"), ("id", False, None, True)),
        (LabelOptions(split_column="fold"), ("word", False, "fold", False)),
    ],
)
def test_options_take_the_place_of_what_the_fit_was_told(given: LabelOptions, expected: tuple[object, ...]) -> None:
    found = artifact().label_options(given, "e.npz")
    assert (found.key, found.by_row, found.split_column, found.no_split) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LabelOptions(), (None, True, "fold", False)),
        (LabelOptions(key="id"), ("id", False, "fold", False)),
        (LabelOptions(no_split=True), (None, True, None, True)),
    ],
)
def test_options_take_the_place_of_rows_and_splits(given: LabelOptions, expected: tuple[object, ...]) -> None:
    held = artifact()
    held.header["rows"] |= {"joined_by": "row", "key_column": None, "split_column": "fold"}
    found = held.label_options(given, "e.npz")
    assert (found.key, found.by_row, found.split_column, found.no_split) == expected

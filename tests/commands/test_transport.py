"""`transport` through fit, apply, evaluate and inspect: what it removes, what it says, and the same bytes always."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import salcli
from salcli.cli.fitted import found_fields
from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.transport.choice import CANDIDATES
from salcli.erasers.transport.method import TransportParameters
from salcli.erasers.transport.readers import READERS
from salcli.errors import FormatError, LabelError, SalcliError, SalcliWarning, UsageError
from salcli.options import (
    ApplyOptions,
    EvaluateOptions,
    FitOptions,
    InspectOptions,
    LabelOptions,
    ReadOptions,
    Sweep,
)
from salcli.streaming.engine import Threads, running_on

from ..cli.helpers import write_csv

N, D = 2400, 6
FEW = "ignore:.*fitted rows are few:salcli.errors.SalcliWarning"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two classes that a posterior knows, and whose covariances are turned against each other."""
    folder = tmp_path_factory.mktemp("transport")
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(N) % 2)
    x = rng.normal(size=(N, D)) * [1, 3, 2, 1, 1, 0.5]
    x[codes == 1] = x[codes == 1] @ np.roll(np.eye(D), 2, axis=1)
    x[:, 0] += 12 * codes
    np.save(folder / "x.npy", x.astype(np.float32))
    parts = [("train", "train", "dev", "test")[i % 4] for i in range(N)]
    rows = [
        ("ab"[code], "cd"[i // 3 % 2], f"{x[i, 1]:.6g}", "ef"[i % 400 == 0], part)
        for i, (code, part) in enumerate(zip(codes, parts, strict=True))
    ]
    write_csv(folder / "y.csv", ["y", "other", "number", "rare", "split"], rows)
    return folder


def fitted(
    folder: Path, name: str = "e.npz", *, attributes: tuple[str, ...] = ("y",), read: Any = None, **parameters: Any
) -> str:
    options = FitOptions(
        LabelOptions(attributes),
        method="transport",
        parameters=TransportParameters(**parameters),
        read=read or ReadOptions(),
    )
    fit(str(folder / "x.npy"), str(folder / "y.csv"), str(folder / name), options)
    return str(folder / name)


def read_by(folder: Path, eraser: str, **options: Any) -> Any:
    arguments = EvaluateOptions(
        probes=("linear", "rbf", "quadratic"), adversaries=("fresh",), learning_curve=False, **options
    )
    return evaluate(str(folder / "x.npy"), str(folder / "y.csv"), eraser, arguments)


@pytest.mark.slow
def test_fresh_nonlinear_attackers_read_what_sal_leaves_and_transport_does_not(folder: Path) -> None:
    def after(eraser: str) -> dict[str, float]:
        report = read_by(folder, eraser)
        return {p.probe: p.balanced_accuracy for p in report.probes if p.stage == "after"}

    options = FitOptions(LabelOptions(("y",)))
    fit(str(folder / "x.npy"), str(folder / "y.csv"), str(folder / "sal.npz"), options)
    sal, transport = after(str(folder / "sal.npz")), after(fitted(folder))
    assert min(sal["rbf"], sal["quadratic"]) > 0.8
    assert max(transport.values()) < 0.62


@pytest.mark.slow
def test_what_was_tried_is_recorded_and_shown(folder: Path) -> None:
    header = read_artifact(fitted(folder)).header["transport"]
    assert [(t["shrinkage"], t["towards"]) for t in header["tried"]] == [(c.share, c.towards) for c in CANDIDATES]
    worst = {
        (t["shrinkage"], t["towards"]): max(t[name] for name in ("rbf", "quadratic", "knn")) for t in header["tried"]
    }
    assert worst[header["shrinkage"], header["towards"]] == min(worst.values())
    assert header["n_held_out"] == N // 2 // 3
    assert inspect(str(folder / "e.npz"), InspectOptions())["transport"] == header
    shown = found_fields({"transport": header, "attributes": []})
    assert shown["transport"].endswith("chosen on held-out rows of the fit")
    assert f"shrunk by {header['shrinkage']:g} towards {header['towards']}" in shown["transport"]
    assert f"{N // 2 // 3:,} held-out rows" in shown["trials"]
    means = header["tried"][0]
    assert shown["means alone"] == ", ".join(f"{name} {means[name]:.3f}" for name in means if name in READERS)
    assert "uncertain class hardly move" in shown["limits"]
    with pytest.raises(UsageError, match="has a map for each class, so it has no d×d matrix"):
        inspect(str(folder / "e.npz"), InspectOptions(projection=str(folder / "p.npy")))


@pytest.mark.slow
def test_strength_is_swept_and_samples_are_fitted_again(folder: Path) -> None:
    eraser = fitted(folder, shrinkage=0.1)
    sweep = Sweep.parse("strength=0:1:0.5")
    report = evaluate(
        str(folder / "x.npy"), str(folder / "y.csv"), eraser,
        EvaluateOptions(probes=("quadratic",), sweep=sweep, repeats=2, sample=300, learning_curve=False),
    )  # fmt: skip
    read = [step.probes[-1].accuracy for step in report.sweep]
    assert read[0] > 0.95 > read[-1]
    assert report.repeats.n == 2
    with pytest.raises(UsageError, match="`sweep=k`: method transport has no k"):
        read_by(folder, eraser, sweep=Sweep.parse("k=0:1"))


@pytest.mark.slow
@pytest.mark.filterwarnings(FEW)
def test_threads_and_batches_change_no_byte(folder: Path) -> None:
    found: dict[str, set[bytes]] = {}
    for i, (engine, rows) in enumerate(((Threads(1), None), (Threads(2), None), (Threads(3), 7), (Threads(2), 500))):
        read = ReadOptions(batch_rows=rows)
        with running_on(engine):
            eraser = fitted(folder, f"{i}.npz", read=read)
            apply(eraser, str(folder / "x.npy"), str(folder / f"{i}.npy"), ApplyOptions(read=read))
        for suffix in ("npz", "npy"):
            found.setdefault(suffix, set()).add((folder / f"{i}.{suffix}").read_bytes())
    assert all(len(each) == 1 for each in found.values())
    x = np.load(folder / "x.npy")
    np.testing.assert_array_equal(np.load(folder / "0.npy"), salcli.load_eraser(str(folder / "0.npz"))(x))


@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_rows_of_other_types_are_moved_as_float32_are(folder: Path, tmp_path: Path, dtype: str) -> None:
    eraser = fitted(folder, shrinkage=0.1)
    x = np.load(folder / "x.npy").astype(dtype)
    np.save(tmp_path / "x.npy", x)
    apply(eraser, str(tmp_path / "x.npy"), str(tmp_path / "o.npy"), ApplyOptions())
    out = np.load(tmp_path / "o.npy")
    np.testing.assert_allclose(
        out, salcli.load_eraser(eraser)(x.astype(np.float64)), atol=2e-2 if dtype == "f2" else 1e-12
    )


def test_two_attributes_are_moved_as_one(folder: Path) -> None:
    eraser = read_artifact(fitted(folder, attributes=("y", "other"), shrinkage=0.2))
    assert eraser.header["transport"]["n_classes"] == 4
    assert eraser.eraser.arrays()["maps"].shape == (4, D, D)
    assert [a["name"] for a in eraser.header["attributes"]] == ["y", "other"]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (LabelOptions(numeric=("number",)), "column 'number' is numeric, expected classes"),
        (
            LabelOptions(("y", "number")),
            r"column 'number' has 1,\d\d\d classes, expected at most 64 of each of several",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*single row:salcli.errors.SalcliWarning")
def test_labels_that_make_no_covariances_are_refused_and_nothing_is_written(
    folder: Path, tmp_path: Path, columns: LabelOptions, says: str
) -> None:
    with pytest.raises(LabelError, match=says) as caught:
        fit(
            str(folder / "x.npy"),
            str(folder / "y.csv"),
            str(tmp_path / "e.npz"),
            FitOptions(columns, method="transport"),
        )
    assert "y.csv: column" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_held_out_rows_are_of_other_groups_and_have_every_class(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy")[:400]
    np.save(tmp_path / "x.npy", x)
    for name, groups in (("many", 40), ("few", 1)):
        write_csv(
            tmp_path / f"{name}.csv", ["y", "author"], [("ab"[int(x[i, 0] > 6)], f"g{i % groups}") for i in range(400)]
        )
    options = FitOptions(
        LabelOptions(("y",), groups="author"), method="transport", parameters=TransportParameters(shrinkage=0.1)
    )
    fit(str(tmp_path / "x.npy"), str(tmp_path / "many.csv"), str(tmp_path / "e.npz"), options)
    with pytest.raises(LabelError, match="is in too few groups"):
        fit(str(tmp_path / "x.npy"), str(tmp_path / "few.csv"), str(tmp_path / "f.npz"), options)
    assert not (tmp_path / "f.npz").exists()


def test_few_rows_are_warned_of_once(folder: Path, tmp_path: Path) -> None:
    options = FitOptions(
        LabelOptions(("y",)), sample=120, method="transport", parameters=TransportParameters(shrinkage=0.1)
    )
    with pytest.warns(SalcliWarning, match="120 fitted rows are few for covariances in 6 dimensions") as found:
        fit(str(folder / "x.npy"), str(folder / "y.csv"), str(tmp_path / "e.npz"), options)
    assert len(found) == 1


@pytest.mark.parametrize(
    "damage", [lambda t: 3, lambda t: {**t, "tried": [1]}, lambda t: {**t, "shrinkage": "x"}, lambda t: {}]
)
def test_a_damaged_record_is_refused(folder: Path, tmp_path: Path, damage: Callable[[Any], Any]) -> None:
    from salcli.formats.artifact import checked_header

    header = read_artifact(fitted(folder, shrinkage=0.1)).header
    import json

    with pytest.raises(FormatError, match="transport"):
        checked_header("e.npz", json.dumps({**header, "transport": damage(header["transport"])}))


def test_noise_is_the_same_for_the_same_row_and_the_secret_is_nowhere_else(folder: Path, tmp_path: Path) -> None:
    eraser, key = fitted(folder, "noisy.npz", shrinkage=0.1, noise=0.4), tmp_path / "key"
    x, paths = np.load(folder / "x.npy"), [tmp_path / f"{name}.npy" for name in "abc"]
    with pytest.raises(UsageError, match="adds noise by a secret: give `noise_key=FILE`"):
        apply(eraser, str(folder / "x.npy"), str(paths[0]), ApplyOptions())
    with pytest.raises(UsageError, match="evaluate what that writes with `against=OUT`"):
        read_by(folder, eraser)
    assert not key.exists()
    with pytest.warns(SalcliWarning, match="wrote a new secret"):
        apply(eraser, str(folder / "x.npy"), str(paths[0]), ApplyOptions(noise_key=str(key)))
    np.save(tmp_path / "part.npy", x[500:900].astype(np.float64))
    read = ReadOptions(batch_rows=33)
    apply(
        eraser, str(tmp_path / "part.npy"), str(paths[1]), ApplyOptions(noise_key=str(key), read=read, dtype="float32")
    )
    first = np.load(paths[0])
    np.testing.assert_array_equal(np.load(paths[1]), first[500:900])
    with pytest.warns(SalcliWarning, match="wrote a new secret"):
        apply(eraser, str(folder / "x.npy"), str(paths[2]), ApplyOptions(noise_key=str(tmp_path / "other")))
    assert np.abs(np.load(paths[2]) - first).max() > 0.1
    secret = bytes.fromhex(key.read_text())
    for path in (*paths, Path(eraser)):
        assert secret not in path.read_bytes()
        assert secret.hex().encode() not in path.read_bytes()
    with pytest.raises(UsageError, match="adds no noise: leave out `noise_key=FILE`"):
        plain = fitted(folder, shrinkage=0.1)
        apply(plain, str(folder / "x.npy"), str(tmp_path / "d.npy"), ApplyOptions(noise_key=str(key)))
    with pytest.raises(UsageError, match="is the output too"):
        apply(eraser, str(folder / "x.npy"), str(key), ApplyOptions(noise_key=str(key)))
    new = tmp_path / "new.npy"
    with pytest.raises(UsageError, match="is the output too"):
        apply(eraser, str(folder / "x.npy"), str(new), ApplyOptions(noise_key=str(new)))
    with pytest.raises(SalcliError):
        apply(eraser, str(tmp_path / "absent.npy"), str(tmp_path / "e.npy"), ApplyOptions(noise_key=str(new)))
    assert not new.exists()

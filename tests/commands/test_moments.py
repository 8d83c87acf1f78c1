"""`moments` and `fit --moments`: the same bytes as `fit` on all shards at once, and what is refused."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.fit_moments import fit_moments
from salcli.commands.inspect import inspect
from salcli.commands.moments import moments
from salcli.erasers.leace import LEACEParameters
from salcli.erasers.sal import SALParameters
from salcli.erasers.splince import SPLINCEParameters
from salcli.errors import FormatError, LabelError, SalcliError, SalcliWarning, UsageError
from salcli.linalg.class_sums import Grouping
from salcli.options import EvaluateOptions, FitOptions, InspectOptions, LabelOptions, MomentsOptions, ReadOptions
from salcli.streaming import sums

from ..cli.helpers import write_csv, write_embeddings

N, D = 120, 9
SMALL = ReadOptions(partition_elements=8 * D)
PARAMETERS: dict[str, Any] = {
    "sal": SALParameters(),
    "leace": LEACEParameters(),
    "splince": SPLINCEParameters(task="job"),
}


@pytest.fixture(autouse=True)
def groups_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add float32 rows of shards of 20 rows up in groups, so that both ways are taken."""
    few = Grouping(least_elements=20 * D, block_elements=16 * D)
    defaults = dict(sums.fold.__kwdefaults__ or {})
    monkeypatch.setattr(sums.fold, "__kwdefaults__", {**defaults, "grouping": few, "joining": 0})
    defaults = dict(sums.fold_once.__kwdefaults__ or {})
    monkeypatch.setattr(sums.fold_once, "__kwdefaults__", {**defaults, "grouping": few, "joining": 0})


class Data:
    """Rows and labels in shards, in a new folder; with keys, one label CSV has the labels of all."""

    def __init__(
        self, folder: Path, cuts: list[int], dtype: type, columns: list[str], *, seed: int, keyed: bool
    ) -> None:
        rng = np.random.default_rng(seed)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "shards").mkdir(parents=True)
        gender = np.sort(rng.integers(0, 3, N)) if seed % 2 else rng.integers(0, 3, N)  # sorted: shards lack classes
        x = rng.normal(size=(N, D)) + np.eye(3, D)[gender] * 3 + 2
        x = x.astype(dtype)
        gender, job = (
            np.array(list(names))[codes] for names, codes in (("mfx", gender), ("abc", rng.integers(0, 3, N)))
        )
        time = np.char.mod("%.3f", 1e6 + 50 * x[:, 1] + np.arange(N))
        gender[::7], job[3::11], time[5::13] = "", "", ""
        split = np.array(["train", "test"])[(rng.random(N) < 0.2).astype(int)]
        keys = [f"w{i * 7 % N}" for i in range(N)]
        table = {"word": keys, "gender": gender, "job": job, "time": time, "split": split}
        chosen = ["word"] * keyed + columns
        rows = list(zip(*(table[name] for name in chosen), strict=True))
        self.folder, edges = folder, [0, *cuts, N]
        if keyed:
            self.labels = write_csv(folder / "all.csv", chosen, [rows[i] for i in rng.permutation(N)])
        else:
            self.labels = folder / "labels" if cuts else folder / "labels" / "y_8.csv"
            (folder / "labels").mkdir()
        self.shards: list[tuple[Path, Path]] = []
        for i, (start, stop) in enumerate(itertools.pairwise(edges)):
            path = folder / "shards" / f"x_{i + 8}.npz"  # x_10 follows x_9
            write_embeddings(path, x[start:stop], [key.encode() for key in keys[start:stop]])
            own = self.labels if keyed else write_csv(folder / "labels" / f"y_{i + 8}.csv", chosen, rows[start:stop])
            self.shards.append((path, own))

    def fit(self, options: FitOptions) -> bytes:
        fit(str(self.folder / "shards"), str(self.labels), str(self.folder / "e.npz"), options)
        return (self.folder / "e.npz").read_bytes()

    def moments(self, options: MomentsOptions) -> list[Path]:
        paths = [self.folder / f"m{9 - i}.npz" for i in range(len(self.shards))]  # in another order
        for path, (x, y) in zip(paths, self.shards, strict=True):
            moments(str(x), str(y), str(path), options)
        return paths


@settings(
    max_examples=20, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=3, unique=True).map(sorted),
    dtype=st.sampled_from([np.float32, np.float64]),
    method=st.sampled_from(sorted(PARAMETERS)),
    columns=st.sampled_from(
        [["gender"], ["gender", "time"], ["time"], ["gender", "split"], ["gender", "time", "split"], ["gender", "job"]]
    ),
    keyed=st.booleans(),
    is_centred=st.booleans(),
    hash_algorithm=st.sampled_from(["blake3", "sha256", "none"]),
    seed=st.integers(0, 99),
)
@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_moments_of_shards_fit_the_same_bytes_as_the_shards(
    tmp_path: Path,
    cuts: list[int],
    dtype: type,
    method: str,
    columns: list[str],
    keyed: bool,
    is_centred: bool,
    hash_algorithm: str,
    seed: int,
) -> None:
    if method == "splince":
        columns = list(dict.fromkeys([*columns, "job"]))
    data = Data(tmp_path / "data", cuts, dtype, columns, seed=seed, keyed=keyed)
    classes = tuple(name for name in columns if name == "gender" or (name == "job" and method != "splince"))
    labels = LabelOptions(classes, tuple(name for name in columns if name == "time"))
    parameters, task = PARAMETERS[method], "job" if method == "splince" else None
    if method == "sal":
        parameters = replace(parameters, center=is_centred)
    holdout = 0.25 if keyed and "split" not in columns else 0.0
    common: dict[str, Any] = {
        "labels": labels,
        "holdout": holdout,
        "method": method,
        "read": SMALL,
        "hash_algorithm": hash_algorithm,
    }
    expected = data.fit(FitOptions(**common, parameters=parameters))
    center = is_centred or method != "sal"
    paths = data.moments(MomentsOptions(**common, center=center, task=task))
    options = FitOptions(method=method, parameters=parameters)
    try:
        fit_moments([str(data.folder / "m*.npz")], str(data.folder / "f.npz"), options)
    except FormatError as error:
        if "rounding" not in str(error):
            raise
        paths = data.moments(MomentsOptions(**common, center=center, task=task, exact=True))
        fit_moments(list(map(str, paths)), str(data.folder / "f.npz"), options)
    found = (data.folder / "f.npz").read_bytes()
    assert found == expected


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path / "data", [40, 80], np.float32, ["gender", "time"], seed=0, keyed=True)


GENDER = MomentsOptions(LabelOptions(("gender",)), read=SMALL, exact=True)


def fitted(paths: list[Path], folder: Path, options: FitOptions | None = None) -> dict[str, Any]:
    return fit_moments([str(path) for path in paths], str(folder / "f.npz"), options or FitOptions()).header


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "leace"}, r"m8\.npz: method sal, but leace in .*m9\.npz"),
        ({"labels": LabelOptions(("gender",), ("time",))}, "guarded columns"),
        ({"center": False}, "centring True, but False"),
        ({"exact": False}, "`exact` True, but False"),
        ({"holdout": 0.5}, "`holdout` 0.0, but 0.5"),
        ({"hash_algorithm": "none"}, "hash blake3, but None"),
    ],
)
def test_moments_of_another_design_are_refused(data: Data, change: dict[str, Any], says: str) -> None:
    paths = data.moments(GENDER)
    x, y = data.shards[0]
    moments(str(x), str(y), str(paths[0]), replace(GENDER, **change))
    with pytest.raises(FormatError, match=says):
        fitted(paths, data.folder)
    assert not (data.folder / "f.npz").exists()


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize("hash_algorithm", ["blake3", "none"])
def test_a_shard_that_is_there_twice_is_refused(data: Data, hash_algorithm: str) -> None:
    paths = data.moments(replace(GENDER, hash_algorithm=hash_algorithm))
    again = data.folder / "again.npz"
    shutil.copy(data.shards[1][0], data.folder / "copy.npz")
    moments(str(data.folder / "copy.npz"), str(data.labels), str(again), replace(GENDER, hash_algorithm=hash_algorithm))
    with pytest.raises(FormatError, match=r"(again|m8)\.npz and .*(again|m8)\.npz.*twice"):
        fitted([*paths, again], data.folder)


def repeat_key(data: Data, *, is_labelled: bool = True) -> None:
    """Give a row of the third shard the key of a row of the first."""
    (first, _), _, (third, _) = data.shards
    labelled = {line.split(",")[0] for line in data.labels.read_text().splitlines()[1:] if line.split(",")[1]}
    with np.load(first) as one, np.load(third) as other:
        keys, vectors = other["keys"], other["vectors"]
        keys[3] = next(key for key in one["keys"] if (key in labelled) == is_labelled)
    np.savez(third, vectors=vectors, keys=keys)


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_a_key_in_two_shards_is_refused_unless_its_rows_do_not_count(data: Data) -> None:
    repeat_key(data, is_labelled=False)
    expected = data.fit(FitOptions(GENDER.labels, read=SMALL))
    fitted(data.moments(replace(GENDER, exact=False)), data.folder)
    assert (data.folder / "f.npz").read_bytes() == expected
    (data.folder / "f.npz").unlink()
    repeat_key(data)
    says = r"(m9\.npz and .*m7|m7\.npz and .*m9)\.npz: a key is in both shards, and would count twice"
    with pytest.raises(FormatError, match=says):
        fitted(data.moments(GENDER), data.folder)
    assert not (data.folder / "f.npz").exists()


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_the_key_of_a_dropped_row_may_not_be_in_another_shard(data: Data) -> None:
    repeat_key(data)
    (first, _), *_ = data.shards
    with np.load(first) as file, np.load(data.shards[2][0]) as other:
        keys, vectors = file["keys"], file["vectors"]
        vectors[keys == other["keys"][3]] = np.nan
    np.savez(first, vectors=vectors, keys=keys)
    options = replace(GENDER, read=replace(SMALL, allow_nonfinite=True))
    with pytest.raises(FormatError, match="a key is in both shards"):
        fitted(data.moments(options), data.folder)


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_rounding_that_is_too_large_is_refused_and_exact_moments_are_not(data: Data) -> None:
    paths = data.moments(replace(GENDER, exact=False))
    for path in data.folder.glob("shards/*"):
        with np.load(path) as file:
            np.savez(path, vectors=file["vectors"] + np.float32(1e5), keys=file["keys"])
    expected = data.fit(FitOptions(GENDER.labels, read=SMALL))
    paths = data.moments(replace(GENDER, exact=False))
    with pytest.raises(FormatError, match=r"rounding may be as large as .*salcli moments `exact`"):
        fitted(paths, data.folder)
    fitted(data.moments(GENDER), data.folder)
    assert (data.folder / "f.npz").read_bytes() == expected


@pytest.mark.parametrize("method", ["transport", "inlp", "ksal", "auto"])
def test_methods_that_need_more_than_sums_are_refused_with_the_reason(data: Data, method: str) -> None:
    (x, y), out = data.shards[0], str(data.folder / "m.npz")
    with pytest.raises(
        UsageError, match=f"method {method} needs more than sums: .*; moments are for sal, leace, splince"
    ):
        moments(str(x), str(y), out, MomentsOptions(method=method))
    with pytest.raises(UsageError, match="needs more than sums"):
        fit_moments([out], str(data.folder / "f.npz"), FitOptions(method=method))


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (FitOptions(method="leace"), "for method sal: give `method=sal`"),
        (FitOptions(parameters=SALParameters(center=False)), "that are centred: leave `center=False` out"),
        (FitOptions(parameters=SALParameters(unit=True)), "`k=auto` and `unit` need more than sums"),
        (FitOptions(parameters=SALParameters(k="auto")), "`k=auto` and `unit` need more than sums"),
        (FitOptions(LabelOptions(("gender",))), "`attributes` is about embeddings or labels"),
        (FitOptions(sample=10), "`sample` is about embeddings or labels"),
    ],
)
def test_a_fit_that_the_moments_are_not_for_is_refused(data: Data, options: FitOptions, says: str) -> None:
    paths = data.moments(GENDER)
    with pytest.raises(UsageError, match=says):
        fitted(paths, data.folder, options)


def test_moments_of_few_rows_of_a_class_are_warned_of(data: Data, tmp_path: Path) -> None:
    (x, _), y = data.shards[0], tmp_path / "few.csv"
    write_csv(y, ["word", "g"], [[f"w{i * 7 % N}", "rare" if i < 3 else "often"] for i in range(40)])
    with pytest.warns(SalcliWarning, match=r"few\.csv: column 'g': few rows of rare \(3\): .* treat the file as data"):
        moments(str(x), str(y), str(tmp_path / "m.npz"), MomentsOptions())


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_a_shard_without_labelled_rows_is_the_neutral_element(data: Data, tmp_path: Path) -> None:
    y = write_csv(tmp_path / "y.csv", ["word", "g"], [[f"w{i * 7 % N}", "ab"[i % 2]] for i in range(80)])
    paths = [tmp_path / f"m{i}.npz" for i in range(3)]
    for path, (x, _) in zip(paths[:2], data.shards, strict=False):
        moments(str(x), str(y), str(path), MomentsOptions())
    with pytest.warns(SalcliWarning, match="so these moments are zero"):
        moments(str(data.shards[2][0]), str(y), str(paths[2]), MomentsOptions())
    fit(str(data.folder / "shards"), str(y), str(tmp_path / "e.npz"), FitOptions())
    fitted(paths, tmp_path)
    assert (tmp_path / "f.npz").read_bytes() == (tmp_path / "e.npz").read_bytes()
    with pytest.raises(LabelError, match="moments of no row"):
        fitted(paths[2:], tmp_path)


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_an_eraser_of_moments_is_evaluated_on_the_shards_and_on_one_file(data: Data, tmp_path: Path) -> None:
    fitted(data.moments(replace(GENDER, holdout=0.4)), data.folder)
    parts = [np.load(path) for path, _ in data.shards]
    for part in parts:
        part.close()
    whole = {name: np.concatenate([np.load(path)[name] for path, _ in data.shards]) for name in ("vectors", "keys")}
    np.savez(tmp_path / "whole.npz", **{name: array[::-1] for name, array in whole.items()})
    for x in (data.folder / "shards", tmp_path / "whole.npz"):
        report = evaluate(
            str(x), str(data.labels), str(data.folder / "f.npz"), EvaluateOptions(probes=("linear",), quick=True)
        )
        assert {probe.adversary for probe in report.probes} >= {"fresh", "in-sample"}
    other = write_csv(tmp_path / "z.csv", ["word", "gender"], [[f"w{i}", "mf"[i % 2]] for i in range(N)])
    with pytest.raises(SalcliError, match="fitted rows"):
        evaluate(str(tmp_path / "whole.npz"), str(other), str(data.folder / "f.npz"), EvaluateOptions())


def changed(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> None:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    np.savez(path, **arrays, header=np.array(json.dumps(header)))


def damages() -> Iterator[Any]:
    def of(name: str, says: str, change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> Any:
        return pytest.param(change, says, id=name)

    yield of("schema", "this salcli reads", lambda h, a: h.update(schema="salcli.moments/9"))
    yield of("field", "lacks 'd'", lambda h, a: h.pop("d"))
    yield of("type", "has 'yes' for 'is_exact'", lambda h, a: h.update(is_exact="yes"))
    yield of("width", "dimensions 1099511627776|mean_x has shape", lambda h, a: h.update(d=1 << 40))
    yield of("counts", "one label for each row", lambda h, a: h["attributes"][0]["counts"].__setitem__(0, 1 << 50))
    yield of("other counts", "other counts than the header", lambda h, a: a["mean_z"].__imul__(0.5))
    yield of("nan", "comoment is not finite", lambda h, a: a["comoment"].__setitem__((0, 0), np.nan))
    yield of("n", "expected those of the header", lambda h, a: a.update(n=a["n"] + 1))
    yield of("object", "pickle inside", lambda h, a: a.update(mean_x=np.array([{}, 1])))
    yield of("dtype", "expected float64", lambda h, a: a.update(mean_x=a["mean_x"].astype("<f4")))
    yield of("missing", "not a salcli moments file", lambda h, a: a.pop("mean_x"))
    yield of("digest", "for 'part'", lambda h, a: h["rows"].update(part="zz"))
    yield of("hash", "for 'hash'", lambda h, a: h["inputs"]["embeddings"]["hash"].update(digest="\ud800"))
    yield of("classes", "one label for each row", lambda h, a: h["attributes"][0]["classes"].reverse())
    yield of("rule", "not understood", lambda h, a: h["rows"]["rule"].update(holdout=7))
    yield of("keys", "no ascending list", lambda h, a: a.update(keys=a["keys"][::-1]))
    yield of("no keys", "the array keys is missing", lambda h, a: a.pop("keys"))
    yield of("no attribute", "names none", lambda h, a: h.update(attributes=[]))


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize(("change", "says"), list(damages()))
def test_damaged_moments_are_refused_in_one_line(data: Data, change: Any, says: str) -> None:
    paths = data.moments(GENDER)
    changed(paths[1], change)
    for refused in (lambda: fitted(paths, data.folder), lambda: inspect(str(paths[1]), InspectOptions())):
        with pytest.raises(FormatError, match=says) as error:
            refused()
        assert "\n" not in str(error.value)
        assert str(paths[1]) in str(error.value)
    assert not (data.folder / "f.npz").exists()


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_what_is_no_moments_file_is_refused(data: Data, tmp_path: Path) -> None:
    path = data.moments(GENDER)[0]
    (tmp_path / "cut.npz").write_bytes(path.read_bytes()[:-100])
    (tmp_path / "text.npz").write_text("moments")
    for name in ("cut.npz", "text.npz", "nowhere-*.npz"):
        with pytest.raises(FormatError, match=name.replace("*", r"\*")):
            fitted([tmp_path / name], tmp_path)
    with pytest.raises(FormatError, match="not a salcli moments file"):
        fitted([data.shards[0][0]], tmp_path)


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_plain_numpy_reads_moments(data: Data) -> None:
    path = data.moments(GENDER)[1]
    with np.load(path, allow_pickle=False) as file, np.load(data.shards[1][0]) as shard:
        header, x, keys = json.loads(str(file["header"])), shard["vectors"].astype(np.float64), shard["keys"]
        found = {name: file[name] for name in file.files}
    lines = [line.split(",") for line in data.labels.read_text().splitlines()[1:]]
    label_of = {key: label for key, label, _ in lines if label}
    is_in = np.array([key in label_of for key in keys])
    classes = header["attributes"][0]["classes"]
    z = np.eye(len(classes))[[classes.index(label_of[key]) for key in keys[is_in]]]
    x = x[is_in]
    assert (header["schema"], header["rows"]["n_fitted"]) == ("salcli.moments/1", len(x))
    np.testing.assert_allclose(found["mean_x"], x.mean(0))
    np.testing.assert_allclose(found["comoment"], (x - x.mean(0)).T @ (z - z.mean(0)), atol=1e-10)
    assert found["root_x"] == pytest.approx(np.linalg.norm(x - x.mean(0)))
    about = inspect(str(path), InspectOptions())
    assert (about["format"], about["method"], about["rows"]) == ("salcli moments", "sal", header["rows"])

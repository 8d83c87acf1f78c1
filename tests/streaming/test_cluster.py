"""The engine on a Dask cluster: the same bytes as on threads, whatever is killed, and errors of one line."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import salcli
from salcli.commands.apply import apply
from salcli.commands.checkpoint import Checkpoint
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.moments import moments
from salcli.data import source as source_module
from salcli.data.source import Chunk
from salcli.errors import ClusterError, FormatError, ParameterError, RowRangeError, SalcliWarning, UsageError, warn
from salcli.evaluation.json_fields import to_json
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import (
    ApplyOptions,
    ClusterOptions,
    EvaluateOptions,
    FitOptions,
    LabelOptions,
    MomentsOptions,
    ReadOptions,
)
from salcli.streaming.cluster import client as connections
from salcli.streaming.cluster.engine import Cluster, branches
from salcli.streaming.cluster.parcels import Packer, Parcel, unpacked
from salcli.streaming.cluster.tasks import TreeOf, push, run, total_of
from salcli.streaming.cluster.versions import compare, versions
from salcli.streaming.engine import running_on, tree_sum
from salcli.streaming.passes import LabelledSource
from salcli.streaming.sums import Slice

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore:.*(fitted rows are few|attacker_rows|quick)"),
    pytest.mark.filterwarnings("ignore:.*on held-out fitted rows every transport"),
]
N, D = 640, 5
READ = ReadOptions(partition_elements=32 * D, batch_rows=16)  # 20 partitions of two chunks


@pytest.fixture
def engine(scheduler: str) -> Iterator[Cluster]:
    with connections.cluster(scheduler) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    rng = np.random.default_rng(0)
    codes = np.arange(N) % 2
    x = rng.normal(size=(N, D)) + 3
    x[:, 2] += 4 * codes
    np.save(folder / "x.npy", x.astype(np.float32))
    splits = np.array(["train", "dev", "test"])[rng.integers(0, 3, N)]
    rows = [f"{'ab'[code]},{split}" for code, split in zip(codes, splits, strict=True)]
    (folder / "y.csv").write_text("y,split\n" + "\n".join(rows) + "\n")
    words = "\n".join(f"w{i} {' '.join(f'{v:.4f}' for v in row)}" for i, row in enumerate(x))
    (folder / "x.txt").write_bytes(words.encode().replace(b"w7 ", b"w\xe9 "))
    return folder


def fitted(folder: Path, out: Path, name: str = "x.npy", method: str = "sal", cluster: str | None = None) -> bytes:
    options = FitOptions(method=method, read=READ, cluster=ClusterOptions(cluster))
    fit(str(folder / name), str(folder / "y.csv"), str(out / "e.npz"), options)
    return (out / "e.npz").read_bytes()


def applied(folder: Path, out: Path, name: str = "x.npy", cluster: str | None = None) -> bytes:
    options = ApplyOptions(read=READ, cluster=ClusterOptions(cluster))
    target = out / f"out{Path(name).suffix}"
    apply(str(out / "e.npz"), str(folder / name), str(target), options)
    return target.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sal", "leace", "transport", "ksal"])
def test_erasers_are_the_same_bytes(folder: Path, tmp_path: Path, scheduler: str, method: str) -> None:
    assert fitted(folder, tmp_path, method=method, cluster=scheduler) == fitted(folder, tmp_path, method=method)


@pytest.mark.slow
def test_moments_are_the_same_bytes(folder: Path, tmp_path: Path, scheduler: str) -> None:
    found = []
    for cluster in (None, scheduler):
        options = MomentsOptions(read=READ, cluster=ClusterOptions(cluster))
        moments(str(folder / "x.npy"), str(folder / "y.csv"), str(tmp_path / "m.npz"), options)
        found.append((tmp_path / "m.npz").read_bytes())
    assert found[0] == found[1]


@pytest.mark.slow
def test_rows_and_figures_are_the_same(
    folder: Path, tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(folder, tmp_path)
    assert applied(folder, tmp_path, cluster=scheduler) == applied(folder, tmp_path)
    eraser, reports = str(tmp_path / "e.npz"), []
    for cluster in (None, scheduler):
        if cluster is not None:  # as the command line is called without --scheduler
            monkeypatch.setenv(connections.ADDRESS, cluster)
        options = EvaluateOptions(probes=("linear",), quick=True, adversaries=("fresh",), attacker_rows=50, read=READ)
        reports.append(to_json(evaluate(str(folder / "x.npy"), str(folder / "y.csv"), eraser, options)))
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_shards_of_any_size_are_the_same_bytes(folder: Path, tmp_path: Path, scheduler: str) -> None:
    shards_of(folder, tmp_path)
    found = [
        fitted(tmp_path, tmp_path, "x", method, cluster) for method in ("sal", "leace") for cluster in (None, scheduler)
    ]
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.slow
def test_sums_of_shards_outlive_a_dead_scheduler(
    folder: Path, tmp_path: Path, engine: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards_of(folder, tmp_path)
    expected = fitted(tmp_path, tmp_path, "x")
    kept, original = list[int](), Checkpoint.keep

    def keep(checkpoint: Checkpoint, number: int, *args: Any, **named: Any) -> None:
        kept.append(number)
        original(checkpoint, number, *args, **named)

    monkeypatch.setattr(Checkpoint, "keep", keep)

    class Ending(Cluster):
        def _result(self, task: Any) -> Any:
            if kept == [0, 1]:
                raise ClusterError("the scheduler is gone")
            return super()._result(task)

    def run() -> bytes:
        options = FitOptions(read=READ, checkpoint=str(tmp_path / "kept"))
        fit(str(tmp_path / "x"), str(tmp_path / "y.csv"), str(tmp_path / "again.npz"), options)
        return (tmp_path / "again.npz").read_bytes()

    with running_on(Ending(engine._client, engine._address)), pytest.raises(ClusterError, match="gone"):
        run()
    assert not (tmp_path / "again.npz").exists()
    with running_on(engine):
        assert run() == expected
    assert kept == [0, 1, 2, 3]
    assert run() == expected
    assert kept == [0, 1, 2, 3]


def shards_of(folder: Path, out: Path) -> None:
    (out / "y.csv").write_bytes((folder / "y.csv").read_bytes())
    (out / "x").mkdir()
    for i, part in enumerate(np.split(np.load(folder / "x.npy"), [5, 300, 620])):
        np.save(out / "x" / f"{i}.npy", part)


@pytest.mark.slow
def test_text_is_read_by_workers_and_its_remarks_come_back(folder: Path, tmp_path: Path, scheduler: str) -> None:
    found = []
    for cluster in (None, scheduler):
        with pytest.warns(SalcliWarning, match="not UTF-8") as caught:
            eraser = fitted(folder, tmp_path, "x.txt", cluster=cluster)
        found.append((eraser, applied_quietly(folder, tmp_path, cluster), [str(each.message) for each in caught]))
    assert found[0] == found[1]


def applied_quietly(folder: Path, out: Path, cluster: str | None) -> bytes:
    with pytest.warns(SalcliWarning, match="not UTF-8"):
        return applied(folder, out, "x.txt", cluster)


class Interrupting(Cluster):
    """Does something before the tenth item of each pass is read."""

    def __init__(self, engine: Cluster, act: Callable[[], None]) -> None:
        super().__init__(engine._client, engine._address)
        self.act = act

    def map(self, work: Any, items: Any) -> Iterator[Any]:
        return super().map(partial(_acting, work, self.act), items)


def _acting(work: Any, act: Callable[[], None], item: Any) -> Any:
    if any(320 <= chunk.start < 336 for chunk in _chunks(item)):
        act()
    return work(item)


def _chunks(item: Any) -> Iterator[Chunk]:
    if isinstance(item, Chunk):
        yield item
    elif isinstance(item, list | tuple):
        for each in item:
            yield from _chunks(each)


def _die_once(flag: str) -> None:
    """End the process of the worker, without a word, the first time."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_changes_no_byte(folder: Path, tmp_path: Path, engine: Cluster) -> None:
    expected = fitted(folder, tmp_path), applied(folder, tmp_path)
    flags = [str(tmp_path / name) for name in ("fit", "apply")]
    found = []
    for command, flag in zip((fitted, applied), flags, strict=True):
        with running_on(Interrupting(engine, partial(_die_once, flag))):
            found.append(command(folder, tmp_path))
    assert tuple(found) == expected
    assert all(map(os.path.exists, flags))


def _allow_failures(n: int, dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = n


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_one_line(folder: Path, tmp_path: Path, engine: Cluster) -> None:
    fitted(folder, tmp_path)
    engine._client.run_on_scheduler(_allow_failures, 0)
    try:
        with (
            running_on(Interrupting(engine, partial(os._exit, 1))),
            pytest.raises(ClusterError, match=r"x\.npy: a task killed one worker") as caught,
        ):
            applied(folder, tmp_path)
    finally:
        engine._client.run_on_scheduler(_allow_failures, 3)
    assert caught.value.exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), r"x\.npy: worker tcp://\S+ does not see this file"),
        (lambda path: np.save(path, np.ones((N, D + 1), np.float32)), r"x\.npy: worker \S+ sees another file"),
        (lambda path: os.utime(path, (1, 1)), r"x\.npy: worker \S+ sees another file"),
        (lambda path: np.save(path, np.full((N, D), np.nan, np.float32)), r"x\.npy: row 0: nan, expected finite"),
    ],
    ids=["missing", "wider", "changed", "not finite"],
)
def test_a_file_that_is_damaged_is_one_line_and_nothing_is_written(
    folder: Path, tmp_path: Path, engine: Cluster, damage: Any, says: str
) -> None:
    (tmp_path / "x.npy").write_bytes((folder / "x.npy").read_bytes())
    (tmp_path / "y.csv").write_bytes((folder / "y.csv").read_bytes())
    damages = [damage]
    if "finite" in says:
        damage(tmp_path / "x.npy")

    class Damaging(Cluster):
        def _state(self, shard: Any) -> Any:
            found = super()._state(shard)  # of the first task, after which the file changes
            if damages and "finite" not in says:
                damages.pop()(tmp_path / "x.npy")
            return found

    with running_on(Damaging(engine._client, engine._address)), pytest.raises(FormatError, match=says) as caught:
        fitted(tmp_path, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "e.npz").exists()


@pytest.mark.slow
def test_what_fails_at_times_is_tried_again_and_what_fails_always_is_not_hidden(
    tmp_path: Path, engine: Cluster
) -> None:
    assert list(engine.map(partial(_fail_once, str(tmp_path / "flag")), range(3))) == [0, 1, 2]
    assert (tmp_path / "flag").exists()
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda i: 1 // i, [1, 0]))


def _fail_once(flag: str, item: int) -> int:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return item
    raise ConnectionError("the network file system is away")


def test_a_dead_scheduler_is_one_line_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    fitted(folder, tmp_path)
    local = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50)
    client = distributed.Client(local.scheduler_address, set_as_default=False, timeout=1)
    try:

        class Ending(Cluster):
            def _result(self, task: Any) -> Any:
                if local.status.name == "running":
                    local.close()
                return super()._result(task)

        with running_on(Ending(client, "tcp://there")), pytest.raises(ClusterError) as caught:
            applied(folder, tmp_path)
    finally:
        client.close()
        local.close()
        for shard in source_module._shards.values():  # of workers that were threads
            shard.reader.close()
        source_module._shards.clear()
    assert str(caught.value).startswith("tcp://there: the Dask scheduler is gone")
    assert caught.value.exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.npz"]


def test_no_scheduler_is_one_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="expected tcp://HOST:PORT"):
        fitted(folder, tmp_path, cluster="nowhere")
    monkeypatch.setattr(connections, "CONNECT", 0.1)
    with pytest.raises(ClusterError, match=r"^tcp://127\.0\.0\.1:9: no Dask scheduler answers"):
        fitted(folder, tmp_path, cluster="tcp://127.0.0.1:9")
    assert not list(tmp_path.iterdir())


def test_labels_travel_once_and_never_with_an_item(folder: Path) -> None:
    packer = Packer()
    with open_source(str(folder / "x.npy"), READ) as source:
        labels = read_labels(str(folder / "y.csv"), LabelOptions())
        rows = LabelledSource.of(source, labels, range(N))
        part = Slice.of(rows, None, 64, 128)
        item = 0, part, list(source.chunks())[4:8]
        packed = [packer.pack(item), packer.pack(item)]
        assert packed[0].data == packed[1].data
        assert [list(each.parcels.values()) for each in packed] == [[part], [part]]
        assert len(packed[0].data) < 2_000
        assert len(part.labels) == 64
        (token,) = packed[0].parcels
        _, found, chunks = unpacked(packed[0].data, {token: Parcel(pickle.dumps(part))})
        np.testing.assert_array_equal(
            found.label_matrix(range(3, 60)).columns, rows.label_matrix(range(64 + 3, 64 + 60)).columns
        )
        np.testing.assert_array_equal(chunks[0].read().vectors, item[2][0].read().vectors)
        chunks[0].shard.reader.close()


@given(sizes=st.lists(st.integers(0, 70), max_size=4), n_workers=st.integers(1, 9))
def test_branches_of_any_size_add_up_to_the_same_trees(sizes: list[int], n_workers: int) -> None:
    items = [(number, i) for number, size in enumerate(sizes) for i in range(size)]
    found = list(branches(items, n_workers, Numbers()))
    assert [item for _, some in found for item in some] == items
    for number, size in enumerate(sizes):
        nodes = list[tuple[int, Any]]()
        for tree in (TreeOf(Tree)(some) for n, some in found if n == number):
            for level, total in tree:
                push(nodes, level, total)
        assert total_of(nodes, None) == tree_sum((Tree((number, i)) for i in range(size)), None)


class Numbers:
    """Groups of items that begin with their number."""

    def number(self, item: tuple[int, int]) -> int:
        return item[0]

    def finished(self, number: int, total: Any) -> Any:
        return total


@dataclass(frozen=True)
class Tree:
    """A sum that remembers its shape."""

    shape: Any

    def __add__(self, other: "Tree") -> "Tree":
        return Tree((self.shape, other.shape))


def test_large_files_are_few_tasks_and_small_ones_are_divided() -> None:
    sizes = [len(some) for _, some in branches(range(10_000), 2)]
    assert sizes[:8] == [1] * 8
    assert max(sizes) <= 1 << 28
    assert len(sizes) < 100


def test_versions_that_differ_are_named() -> None:
    ours = {"salcli": "1", "python": "3.11", "numpy": "2.0", "blas": "openblas 0.3 Haswell"}
    compare(ours, {"tcp://a:1": ours})
    with pytest.raises(ClusterError, match=r"^workers tcp://a:1, tcp://b:1: salcli 2, here 1: install"):
        compare(ours, {"tcp://a:1": ours | {"salcli": "2"}, "tcp://b:1": ours | {"salcli": "2"}, "tcp://c:1": ours})
    with pytest.raises(ClusterError, match=r"^worker tcp://a:1: no salcli 1 runs there \(ModuleNotFoundError: No"):
        compare(ours, {"tcp://a:1": ModuleNotFoundError("No module named 'salcli'")})
    with pytest.warns(SalcliWarning, match=r"^worker tcp://c:1: BLAS openblas 0.3 SkylakeX, here .* last bits"):
        compare(ours, {"tcp://c:1": ours | {"blas": "openblas 0.3 SkylakeX"}})
    assert set(versions()) == set(ours)


def test_a_worker_that_joins_later_is_compared_too() -> None:
    outcome = run(Parcel(pickle.dumps(len)), "0.0.1", pickle.dumps(""), [], [])
    assert isinstance(outcome.error, ClusterError)
    assert str(outcome.error).endswith(f"has salcli {salcli.__version__}, the client has 0.0.1")


def test_warnings_and_limits_of_a_task_end_with_it() -> None:
    item = Packer().pack("told")
    outcome = run(Parcel(pickle.dumps(warn)), salcli.__version__, item.data, [], [])
    assert (outcome.error, outcome.warnings) == (None, ["told"])
    with pytest.warns(SalcliWarning, match="here"):
        warn("here")


def test_without_dask_the_extra_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'salcli\[dask\]'"):
        fitted(folder, tmp_path, cluster="tcp://127.0.0.1:9")


def test_errors_of_the_user_travel() -> None:
    for error in (RowRangeError(3, "too large"), ParameterError("k", 3, "why"), FormatError("x"), ClusterError("y")):
        found = pickle.loads(pickle.dumps(error))
        assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_a_file_in_another_folder_is_found(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cloudpickle

    monkeypatch.chdir(folder)
    with open_source("x.npy") as source:
        sent = cloudpickle.dumps(next(source.chunks()))
        monkeypatch.chdir(tmp_path)
        chunk = cloudpickle.loads(sent)
        np.testing.assert_array_equal(chunk.read().vectors, np.load(folder / "x.npy"))
        assert chunk.shard.reader.path == "x.npy"
        chunk.shard.reader.close()

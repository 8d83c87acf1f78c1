"""The benchmark's own sums: medians, turns, the blocks in the documentation, and what counts as a loss."""

import itertools
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.speed import __main__ as speed
from benchmarks.speed import memory, scaling, timing
from benchmarks.speed.bench import Bench
from benchmarks.speed.memory import TAKEN_SECONDS
from benchmarks.speed.peers import inlp, paper_recipe
from benchmarks.speed.results import Row, Run, changes, read_runs, write_runs
from benchmarks.speed.scaling import fitted_exponent
from benchmarks.speed.table import comparison, headline, markdown, publish, rewrite
from benchmarks.speed.timing import Measure, Usage, interleaved
from salcli.cli.app import app


def row(ratio: float, *, name: str = "work", limit: float | None = None) -> Row:
    if limit is not None:
        return Row.within(name, [limit / ratio], limit, "s", section="fit", size="")
    return Row.times(name, "peer", [1.0], [ratio], section="fit", size="", target=1.0)


def run_of(*rows: Row, cpu: str = "A") -> Run:
    machine = {"cpu": cpu, "cores": "2", "memory": "1 GB", "kernel": "K", "load": "0.0"}
    return Run(0.1, "2026-01-01", 1.0, machine, {"Python": "3"}, rows)


def test_a_measure_is_the_median_and_half_the_range_between_quartiles() -> None:
    measure = Measure.of([2.0, 1.0, 4.0, 2.0, 100.0], "s")
    assert (measure.median, measure.spread, measure.repeats) == (2.0, 0.5, 5)
    assert Measure.of([3.0], "s") == Measure(3.0, 0.0, "s", 1)
    assert measure.rate(4.0, "GB/s").median == 2.0


def test_works_take_turns_until_the_budget_is_spent() -> None:
    heard: list[str] = []
    seconds = interleaved({"a": lambda: heard.append("a"), "b": lambda: heard.append("b")}, 2, short_seconds=0.0)
    assert heard == ["a", "b", "a", "b"]
    assert [len(each) for each in seconds.values()] == [2, 2]
    assert len(interleaved({"a": lambda: None}, 5, budget=0.0, short_seconds=0.0)["a"]) == 2


def test_works_that_take_no_time_are_repeated_more_often() -> None:
    often = partial(interleaved, short_seconds=float("inf"), most_rounds=7)
    assert [len(each) for each in often({"a": lambda: None, "b": lambda: None}, 2).values()] == [7, 7]
    assert len(often({"a": lambda: None}, 9)["a"]) == 9


@pytest.mark.parametrize(
    ("seconds", "budget", "rounds"),
    [
        ([1.0] * 9, 9.0, 3),  # they agree
        ([1.0, 2.0, 3.0] * 3, 15.0, 8),  # they do not, and there is a budget for more rounds
        ([1.0, 2.0, 3.0] * 3, float("inf"), 3),  # or none: so many are wanted and no more
        ([1.0, 3.0, 2.0, *[2.0] * 20], 99.0, 5),  # until they do
    ],
)
def test_works_that_differ_from_turn_to_turn_are_repeated_within_the_budget(
    seconds: list[float], budget: float, rounds: int
) -> None:
    given = iter(seconds)
    assert len(interleaved({"a": lambda: Usage(next(given), 1.0)}, 3, budget - 0.5, short_seconds=0.0)["a"]) == rounds


def test_what_is_done_before_a_work_hears_how_long_it_took_and_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, heard = [0.0], list[float]()

    def before(seconds: float) -> None:
        heard.append(seconds)
        clock[0] += 100.0

    def work() -> None:
        clock[0] += 1.0

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    assert interleaved({"a": work}, 3, before=before, short_seconds=0.0) == {"a": [1.0, 1.0, 1.0]}
    assert heard == [0.0, 1.0, 1.0]


def at_hand_on(monkeypatch: pytest.MonkeyPatch, *, is_needed: bool) -> tuple[memory.AtHand, list[float], list[float]]:
    """A clock that only sleeping moves, and how many bytes were touched when."""
    clock, touched = [1000.0], list[float]()
    monkeypatch.setattr(memory.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(memory.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(memory, "_touch", touched.append)
    return memory.AtHand(is_needed), clock, touched


def test_memory_is_made_to_be_at_hand_as_often_as_a_host_would_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    at_hand, clock, touched = at_hand_on(monkeypatch, is_needed=True)
    at_hand(7e9, 0.5)
    assert (touched, clock[0] > 1000.0 + TAKEN_SECONDS) == ([7e9], True)  # longer than until it takes what else is free
    at_hand(7e9, 0.5)
    clock[0] += TAKEN_SECONDS / 2
    at_hand(7e9, 0.5)
    assert touched == [7e9]
    at_hand(7e9, TAKEN_SECONDS / 2)  # which would not be over in time
    assert touched == [7e9, 7e9]
    at_hand(8e9, 0.5)  # which is more than there is
    assert touched == [7e9, 7e9, 8e9]


def test_elsewhere_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    at_hand, clock, touched = at_hand_on(monkeypatch, is_needed=False)
    at_hand(7e9, 0.5)
    assert (touched, clock) == ([], [1000.0])


@pytest.mark.parametrize(("later", "is_taken"), [(1.0, False), (2.0, False), (9.0, True)])
def test_memory_that_is_slow_to_touch_after_a_while_was_taken(
    monkeypatch: pytest.MonkeyPatch, later: float, is_taken: bool
) -> None:
    at_hand_on(monkeypatch, is_needed=True)
    seconds = iter([1.0, later])
    monkeypatch.setattr(memory, "_seconds_to_touch", lambda: next(seconds))
    assert memory.is_taken_back() is is_taken


def test_a_work_that_times_itself_is_believed() -> None:
    assert interleaved({"a": lambda: Usage(7.0, 1.0)}, 1, short_seconds=0.0)["a"] == [7.0]


def test_a_ratio_above_one_is_to_our_advantage() -> None:
    times = Row.times("w", "p", [1.0], [3.0], section="fit", size="", target=2.0)
    rates = Row.rates("w", "p", [1.0], [3.0], 1e9, section="fit", size="", target=4.0)
    limit = Row.within("w", [20.0], 60.0, "s", section="fit", size="")
    assert (times.ratio, rates.ratio, limit.ratio) == pytest.approx((3.0, 3.0, 3.0))
    assert (times.holds, rates.holds, limit.holds) == (True, False, True)
    assert Row.times("w", "p", [1.0], None, section="fit", size="", target=2.0).holds is None


def test_results_keep_one_run_for_each_scale(tmp_path: Path) -> None:
    path, run = tmp_path / "results.json", run_of(row(2.0), row(3.0, limit=60.0))
    assert read_runs(path) == {}
    write_runs(path, [run])
    assert read_runs(path) == {0.1: run}
    assert '"holds": true' in path.read_text("utf-8")


def test_only_more_than_a_quarter_is_a_loss() -> None:
    before = run_of(row(2.0), row(2.0, name="other"), row(2.0, name="gone"))
    lost = [change.is_lost for change in changes(before, run_of(row(1.6), row(1.4, name="other")))]
    assert lost == [False, True, True]
    assert comparison(changes(before, before)).count("**LOST**") == 0


def test_limits_are_compared_on_the_same_machine_only() -> None:
    before = run_of(row(3.0, limit=60.0))
    assert [change.is_lost for change in changes(before, run_of(row(1.0, limit=60.0)))] == [True]
    assert [change.is_lost for change in changes(before, run_of(row(1.0, limit=60.0), cpu="B"))] == [False]


@pytest.mark.parametrize(("ratios", "status"), [((1.6,), 0), ((1.0, 2.0), 0), ((1.0, 1.0), 1), ((1.0, 0.5), 1)])
def test_a_check_fails_for_what_is_lost_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ratios: tuple[float, ...], status: int
) -> None:
    bench, before = Bench(tmp_path, None, 0.1, 3, 4.0), {0.1: run_of(row(2.0))}
    with (
        mock.patch.object(sys, "argv", ["speed", "--check", "--scale", "0.1"]),
        mock.patch.object(speed, "read_runs", return_value=before),
        mock.patch.object(speed, "scratch", return_value=nullcontext(bench)),
        mock.patch.object(speed, "measure", side_effect=[run_of(row(ratio)) for ratio in ratios]) as measured,
        pytest.raises(SystemExit) as ended,
    ):
        speed.main()
    assert ended.value.code == status
    assert measured.call_count == len(ratios)
    assert capsys.readouterr().out.count("**LOST**") == status


def test_a_run_rewrites_its_block_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench -->\nstale\n<!-- /bench -->\nafter\n", "utf-8")
    rewrite(page, markdown(run_of(row(0.5))))
    text = page.read_text("utf-8")
    assert text.startswith("before\n<!-- bench -->\n")
    assert text.endswith("<!-- /bench -->\nafter\n")
    assert "stale" not in text
    assert "| work |" in text
    assert "**no**" in text
    with pytest.raises(ValueError, match="no block"):
        rewrite(Path(__file__).with_name("conftest.py"), "")


def test_the_documentation_gets_the_run_of_the_largest_scale(tmp_path: Path) -> None:
    runs = read_runs(Path(speed.RESULTS))
    largest = runs[max(runs)]
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/benchmarks.md"):
        (tmp_path / name).write_text("<!-- bench --><!-- /bench -->", "utf-8")
    publish(runs.values(), tmp_path)
    assert markdown(largest) in (tmp_path / "docs" / "benchmarks.md").read_text("utf-8")
    assert headline(largest) in (tmp_path / "README.md").read_text("utf-8")
    assert len(headline(largest).splitlines()) == 3
    with pytest.raises(KeyError):
        headline(run_of(row(0.5)))


def test_the_exponent_is_that_of_a_power() -> None:
    assert fitted_exponent({10: 3.0 * 10**1.5, 100: 3.0 * 100**1.5}) == pytest.approx(1.5)


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (1.5, False)])
def test_time_that_grows_faster_than_the_work_misses_its_target(tmp_path: Path, power: float, holds: bool) -> None:
    def timed(_: Bench, shapes: dict[int, tuple[int, int]]) -> dict[int, list[float]]:
        return {c: [(n * d) ** power * c ** (power - 1)] for c, (n, d) in shapes.items()}

    with mock.patch.object(scaling, "_timed", timed):
        assert [each.holds for each in scaling.rows(Bench(tmp_path, None, 0.1, 3, 4.0))] == [holds] * 3


def test_peers_do_what_they_stand_for() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(200) % 2
    x = rng.normal(size=(200, 5)) + 3 * codes[:, None]
    after = x @ paper_recipe(x, np.eye(2)[codes], 2)
    assert np.abs(after[codes == 0].mean(axis=0) - after[codes == 1].mean(axis=0)).max() < 1e-12
    projector = inlp(x, codes, 2)
    assert np.linalg.matrix_rank(projector) == 3
    assert np.allclose(projector @ projector, projector)


def test_a_missed_target_names_the_step_that_misses_it_on_all_cores() -> None:
    steps = [Row.alone(name, Measure(rate, 0.0, "GB/s")) for name, rate in (("slow", 1.0), ("halved", 2.5))]
    steps.append(Row.alone("together", Measure(2.5, 0.0, "GB/s"), is_on_all_threads=True))
    missed = Row.rates(
        *("w", "p", [1.0], [0.25], 1e9),
        section="fit",
        size="",
        target=1.0,
        bounds=("slow", "halved", "unknown", "together"),
    )
    text = markdown(run_of(missed, *steps))
    assert "steps alone, on one thread: slow 1 GB/s (**bounds it**: 0.25 of the reference), halved 2.5 GB/s;" in text
    assert "; steps alone, on all threads: together 2.5 GB/s (**bounds it**: 0.62 of the reference) |" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("section", ["fit", "apply", "words", "methods", "tables", "cluster"])
def test_sections_run_to_their_end_on_small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    megabytes = itertools.count(1)

    def python(*arguments: str) -> Usage:
        """Run commands of salcli in this process."""
        if arguments[:2] == ("-m", "salcli"):
            done = CliRunner().invoke(app, arguments[2:])
            assert done.exit_code == 0, (arguments, done.output)
        return Usage(1.0, float(next(megabytes)))

    monkeypatch.setattr(timing, "python", python)
    monkeypatch.setattr(timing, "SHORT_SECONDS", 0.0)
    rows = list(speed.SECTIONS[section](Bench(tmp_path, tmp_path, 0.0005, 1, 0.01, speed.AtHand(False))))
    assert len({row.key for row in rows}) == len(rows) > 4

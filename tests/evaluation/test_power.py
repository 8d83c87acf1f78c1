"""The smallest figures that test rows could have shown: against an exact oracle, and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attackers.scores import areas, pooled_areas
from salcli.evaluation.clusters import cluster_effect, independent_rows
from salcli.evaluation.evidence import Explained, Magnitude
from salcli.evaluation.explained import explained
from salcli.evaluation.power import (
    blind_spots,
    detectable,
    of_classes,
    of_numbers,
    smallest_leak,
    smallest_r2,
    smallest_share,
)
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions, Limit

RUNS = 1_000
NOISE = 0.04
"""Three standard errors of a share of .8 over the runs."""


@given(st.integers(5, 400), st.floats(0.05, 0.95), st.sampled_from([0.05, 0.01]))
def test_the_smallest_share_is_found_with_the_stated_power(n: int, chance: float, level: float) -> None:
    share = smallest_share(chance, n, level)
    least = next((c for c in range(n + 1) if binom.sf(c - 1, n, chance) <= level), n + 1)
    if share is None:
        assert least > n
        return
    assert share > chance
    assert binom.sf(least - 1, n, share) == pytest.approx(0.8, abs=1e-9)


def shifted(area: float) -> float:
    """How far apart two normal distributions of scores lie that have this area under their curve."""
    from scipy.special import ndtri

    return float(np.sqrt(2) * ndtri(area))


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "tolerance"), [((300, 300), NOISE), ((50, 950), 0.06), ((30, 30), 0.06)])
def test_the_smallest_leak_of_two_classes_is_found_in_8_of_10_draws(sizes: tuple[int, int], tolerance: float) -> None:
    rng, codes = np.random.default_rng(0), np.repeat([0, 1], sizes)
    leak = smallest_leak(codes, 0.05)
    assert leak is not None
    shift = shifted((1 + leak) / 2)
    found = 0
    for _ in range(RUNS):
        of = areas(rng.normal(size=len(codes)) + shift * codes, codes, np.arange(2))
        assert of is not None
        found += Magnitude(of.strength, of.strength_error, of.chance).lower(0.05) > 0
    assert found / RUNS == pytest.approx(0.8, abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [4, 18])
def test_the_smallest_leak_of_several_classes_is_found_in_8_of_10_draws(n_classes: int) -> None:
    rng, codes = np.random.default_rng(0), np.arange(900) % n_classes
    leak = smallest_leak(codes, 0.05)
    assert leak is not None
    shift = shifted((1 + leak) / 2)
    found = 0
    for _ in range(RUNS // 4):
        scores = rng.normal(size=(len(codes), n_classes))
        scores[np.arange(len(codes)), codes] += shift
        of = areas(scores, codes, np.arange(n_classes))
        assert of is not None
        found += Magnitude(of.strength, of.strength_error, of.chance).lower(0.05) > 0
    assert 0.72 < found / (RUNS // 4) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2_000])
def test_the_smallest_r2_is_found_in_8_of_10_draws(n: int) -> None:
    rng, r2 = np.random.default_rng(0), smallest_r2(n, 0.05)
    assert r2 is not None
    found = 0
    for _ in range(RUNS):
        signal = np.sqrt(r2) * rng.normal(size=n)
        true = signal + np.sqrt(1 - r2) * rng.normal(size=n)
        found += Explained(*explained(signal, true)).lower(0.05) > 0
    assert found / RUNS == pytest.approx(0.8, abs=0.06)


def test_few_rows_show_nothing() -> None:
    assert smallest_share(0.9, 5, 0.05) is None
    assert smallest_leak(np.array([0, 1, 0, 1]), 0.05) is None
    assert smallest_r2(20, 0.05) is None
    few = smallest_leak(np.repeat([0, 1], [9, 400]), 0.05)  # too few for an AUC: by balanced accuracy
    assert few == pytest.approx(2.4865 * np.sqrt(0.25 / 9 + 0.25 / 400), rel=1e-3)


def test_more_rows_show_less() -> None:
    found = [of_classes("g", np.arange(n) % 2, 0.95) for n in (50, 500, 5_000)]
    for name in ("accuracy", "gain", "leak"):
        figures = [getattr(each, name) for each in found]
        assert figures == sorted(figures, reverse=True)
    assert found[1].accuracy == pytest.approx(0.5 + 2.4865 * 0.5 / np.sqrt(500), abs=0.003)
    assert found[1].gain == pytest.approx(found[1].accuracy - 0.5)


def test_it_is_of_the_test_rows_that_are_used() -> None:
    rng, n = np.random.default_rng(0), 400
    one, two = rng.permutation(np.arange(n) % 2), rng.permutation(np.arange(n) % 2)
    ages = np.where(np.arange(n) % 2, np.nan, rng.normal(size=n))
    files = (*(Attribute(name, of.astype(np.int8), ("a", "b")) for name, of in (("one", one), ("two", two))),)
    labels = GuardedLabels("l.csv", (*files, Attribute("age", ages, None)), None)
    train, test = np.arange(n // 2), np.arange(n // 2, n)
    split = EvaluationSplit.of(train, {"fresh": train}, test, has_held_out=True)
    x = rng.normal(size=(n, 2))
    options = EvaluateOptions(confidence=0.9)
    found = detectable(Stages(np.arange(n), x, x, None), labels, split, options)
    assert [(each.attribute, each.n_test, each.confidence) for each in found] == [
        ("one", 200, 0.9), ("two", 200, 0.9), ("one × two", 200, 0.9), ("age", 100, 0.9),
    ]  # fmt: skip
    assert found[0] == of_classes("one", one[n // 2 :], 0.9)
    assert found[3] == of_numbers("age", 100, 0.9)


def test_a_limit_below_what_could_have_been_shown_is_warned_of() -> None:
    found = (of_classes("g", np.arange(400) % 2, 0.95), of_numbers("age", 400, 0.95))
    options = EvaluateOptions(max_leak=(Limit(0.5), Limit(0.1)), max_accuracy=(Limit(0.7),), max_r2=(Limit(0.01),))
    notes = blind_spots(found, options)
    assert len(notes) == 2
    assert notes[0].startswith("g: 400 test rows could have shown nothing below 0.14")
    assert "`max_leak=0.1`" in notes[0]
    assert notes[1].startswith("age: 400 test rows could have shown nothing below 0.06")
    none = blind_spots((of_classes("g", np.array([0, 1]), 0.95),), options)
    assert none[0].startswith("g: 2 test rows could have shown no leak at all")


def grouped(sizes: np.ndarray, *, mixed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Groups of rows and their classes: one class a group, or both in turn."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return groups, np.arange(len(groups)) % 2 if mixed else groups % 2


@pytest.mark.parametrize("mixed", [False, True])
def test_rows_of_groups_that_are_alike_show_no_more_than_is_said(mixed: bool) -> None:
    rng = np.random.default_rng(0)
    groups, codes = grouped(rng.integers(2, 9, 100), mixed=mixed)
    said, blind = smallest_leak(codes, 0.05, groups), smallest_leak(codes, 0.05)
    assert said is not None
    assert blind is not None

    def power(leak: float) -> float:
        found = 0
        for _ in range(RUNS // 5):
            # all rows of a group are read alike: of one class the same score, of the other the opposite one
            scores = rng.normal(size=int(groups.max()) + 1)[groups] * (1 if not mixed else 2 * codes - 1)
            scores = scores + shifted((1 + leak) / 2) * codes
            of = pooled_areas([(scores, codes, np.arange(2))], lambda moved: cluster_effect(moved, groups))
            assert of is not None
            found += Magnitude(of.strength, of.strength_error, of.chance).lower(0.05) > 0
        return found / (RUNS // 5)

    assert power(said) > 0.74
    assert power(blind) < 0.65  # what rows that were independent would show


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 200))
def test_rows_are_worth_their_groups_at_least_and_never_more_than_they_are(sizes: list[int], n: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    every = np.ones(len(groups), bool)
    worth = independent_rows(groups, every)
    assert worth == pytest.approx(len(groups) / cluster_effect(np.zeros(len(groups)), groups))
    assert worth <= len(sizes) + 1e-9
    assert independent_rows(None, every[:n]) == len(every[:n])
    of_numbers_alone = of_numbers("age", len(groups), 0.95, groups)
    assert of_numbers_alone.r2 is None or of_numbers_alone.r2 == smallest_r2(worth, 0.05)


def test_a_report_of_grouped_rows_says_what_they_are_worth() -> None:
    groups, codes = grouped(np.full(60, 10), mixed=False)
    found = of_classes("g", codes, 0.95, groups)
    assert found.n_effective == pytest.approx(60, rel=0.07)
    assert found.accuracy == smallest_share(0.5, int(found.n_effective or 0), 0.05)
    assert found.leak == pytest.approx(of_classes("g", np.arange(60) % 2, 0.95).leak, rel=0.05)
    (note,) = blind_spots((found,), EvaluateOptions(max_leak=(Limit(0.3),)))
    assert note.startswith("g: 600 test rows, if those of a group were all alike, could have shown nothing below")
    assert of_classes("g", codes, 0.95, np.zeros(len(codes), int)).leak is None  # a single group

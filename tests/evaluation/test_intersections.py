"""Products of guarded attributes, and attacks on them."""

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attack import attack
from salcli.evaluation.gates import Judge, leak_gate
from salcli.evaluation.intersections import LEAST_ROWS, attacked, product
from salcli.evaluation.requested import expected_of
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

CLASSES = ("a", "b", "c")


def labels(**codes: Any) -> GuardedLabels:
    found = (Attribute(name, np.asarray(of).astype(np.int8), CLASSES) for name, of in codes.items())
    return GuardedLabels("l.csv", tuple(found), None)


@given(st.integers(2, 4), st.lists(st.lists(st.integers(-1, 2), min_size=4, max_size=4), min_size=1, max_size=40))
def test_a_product_has_the_combinations_that_occur_and_the_rows_that_have_every_factor(
    n: int, rows: list[list[int]]
) -> None:
    of = labels(**{f"g{i}": [row[i] for row in rows] for i in range(n)}).attributes
    found = product(of)
    assert found.name == " × ".join(f"g{i}" for i in range(n))
    assert found.factors == tuple(f"g{i}" for i in range(n))
    names = ["" if -1 in row[:n] else " × ".join(CLASSES[code] for code in row[:n]) for row in rows]
    assert ["" if code < 0 else (found.classes or ())[code] for code in found.values] == names
    assert set(found.classes or ()) == set(names) - {""}


def test_pairs_and_the_whole_product_are_attacked_unless_they_say_nothing_new() -> None:
    rng = np.random.default_rng(0)
    one, two, three = rng.integers(0, 2, (3, 200))
    given = labels(one=one, two=two, three=three)
    names = [attribute.name for attribute in attacked(given, EvaluateOptions())]
    pairs = [" × ".join(pair) for pair in combinations(("one", "two", "three"), 2)]
    assert names == ["one", "two", "three", *pairs, "one × two × three"]
    assert len(attacked(given, EvaluateOptions(intersections=False))) == 3
    assert len(attacked(labels(one=one), EvaluateOptions())) == 1
    again = attacked(labels(one=one, same=1 - one, two=two), EvaluateOptions())
    assert [a.name for a in again[3:]] == ["one × two", "same × two", "one × same × two"]
    taken = GuardedLabels("l.csv", (*labels(one=one, two=two).attributes, Attribute("one × two", one, CLASSES)), None)
    assert "one × two" not in [a.name for a in attacked(taken, EvaluateOptions())[3:]]


def crossed(n: int = 600) -> tuple[NDArray[np.float64], GuardedLabels]:
    """Rows whose mean says whether two attributes agree, and nothing of either."""
    rng = np.random.default_rng(0)
    one, two = rng.permutation(np.arange(n) % 2), rng.permutation(np.arange(n) % 2)
    x = rng.normal(size=(n, 4))
    x[:, 0] += 4.0 * (one == two)
    return x, labels(one=one, two=two)


def measured(x: NDArray[Any], given: GuardedLabels, **options: Any) -> Any:
    train, test = np.arange(len(x) // 2), np.arange(len(x) // 2, len(x))
    split = EvaluationSplit.of(train, {"fresh": train}, test, has_held_out=True)
    stages = Stages(np.arange(len(x)), x, x, None)
    return attack(stages, given, split, ("linear",), EvaluateOptions(forms=("raw",), **options), Silent())


def test_a_product_is_read_where_neither_attribute_is_and_gates_judge_it() -> None:
    x, given = crossed()
    options = EvaluateOptions(adversaries=("fresh",))
    results, notes = measured(x, given)
    assert notes == ()
    leaks = {result.attribute: result.leak for result in results}
    assert max(leaks["one"], leaks["two"]) < 0.2
    assert leaks["one × two"] > 0.3
    assert results[2].factors == ("one", "two")
    gate = leak_gate(0.25, None, expected_of(given, options, ("linear",)), results, "before", Judge(None))
    assert (gate.status, gate.decided_by) == ("failed", "one × two, linear, fresh")
    alone, _ = measured(x, given, intersections=False)
    arguments = expected_of(given, EvaluateOptions(adversaries=("fresh",), intersections=False), ("linear",))
    assert leak_gate(0.25, None, arguments, alone, "before", Judge(None)).status == "passed"


def test_classes_of_a_product_with_few_test_rows_are_left_out_counted_and_named() -> None:
    x, given = crossed()
    one, two = (attribute.values.copy() for attribute in given.attributes)
    one[-LEAST_ROWS + 1 :], two[-LEAST_ROWS + 1 :] = 2, 0
    one[:30], two[:30] = 2, 0
    results, notes = measured(x, labels(one=one, two=two))
    (found,) = (result for result in results if result.factors)
    assert (found.rare_classes, found.n_left_out, found.n_test, found.n_classes) == (("c × a",), 9, 291, 4)
    assert found.n_train == 270
    assert "one × two: 9 of 300 test rows are left out, of classes with fewer than 10 of them: c × a (9)" in notes
    assert {r.n_test for r in results if not r.factors} == {300}


def test_a_product_of_which_too_much_is_left_out_passes_no_gate() -> None:
    x, given = crossed(600)
    rng = np.random.default_rng(1)
    many = GuardedLabels(
        "l.csv",
        (
            given.attributes[0],
            Attribute("many", rng.integers(0, 20, 600).astype(np.int8), tuple("abcdefghijklmnopqrst")),
        ),
        None,
    )
    results, _ = measured(x, many)
    options = expected_of(many, EvaluateOptions(adversaries=("fresh",)), ("linear",))
    gate = leak_gate(1.0, None, options, results, "before", Judge())
    assert gate.status == "failed"
    assert "or that have fewer than 10 of them" in gate.reason
    few, notes = measured(*crossed(60))
    assert {result.attribute for result in few} == {"one", "two"}
    assert "one × two is not attacked: fewer than two of its classes have 10 test rows" in notes[0]
    missing = leak_gate(
        1.0, None, expected_of(given, EvaluateOptions(adversaries=("fresh",)), ("linear",)), few, "before", Judge()
    )
    assert missing.reason == "no result for one × two: fresh linear"

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.errors import ParameterError, UsageError
from salcli.options import CompareOptions, EvaluateOptions, Limit, Sweep, options_of


@given(st.floats(0, 1), st.sampled_from([None, "linear", "same-kernel", "a-new-one"]))
def test_a_limit_is_read_back_from_its_text(share: float, probe: str | None) -> None:
    text = repr(share) if probe is None else f"{probe}={share!r}"
    assert Limit.parse(text) == Limit(share, probe)


@pytest.mark.parametrize("text", ["", "x", "linear", "linear=", "linear=x", "-0.1", "1.1", "nan", "inf", "rbf=nan"])
def test_a_limit_that_is_no_share_is_refused_by_the_name_of_its_parameter(text: str) -> None:
    option, _ = options_of(EvaluateOptions)["max_gain"]
    with pytest.raises(ParameterError, match=f"^max_gain = '{re.escape(text)}': "):
        option.read("max_gain", [text])


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9))
def test_a_sweep_of_k_holds_both_ends(first: int, steps: int, step: int) -> None:
    last = first + steps * step
    assert Sweep.parse(f"k={first}:{last}:{step}") == Sweep("k", tuple(range(first, last + 1, step)))


@pytest.mark.parametrize("n_steps", [1, 3, 7, 10, 30, 100, 999])
def test_a_sweep_of_strength_does_not_lose_its_last_value_to_rounding(n_steps: int) -> None:
    sweep = Sweep.parse(f"strength=0:1:{1 / n_steps!r}")
    assert sweep.values == pytest.approx(np.linspace(0, 1, n_steps + 1), abs=1e-9)
    assert sweep.values[-1] == 1


def test_steps_have_defaults_and_one_value_is_a_sweep() -> None:
    assert Sweep.parse("k=0:3").values == (0, 1, 2, 3)
    assert Sweep.parse("strength=0:0.3").values == (0, 0.1, 0.2, 0.3)
    assert Sweep.parse("k=5:5").values == (5,)
    assert len(Sweep.parse("k=0:999").values) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "", "k", "k=", "k=3", "k=a:b", "k=0:1:2:3", "k=3:1", "k=-1:3", "k=0:3:0", "k=0:3:-1", "k=0:1000",
        "k=0:2:0.5", "k=0.5:2", "k=0:inf", "k=nan:3", "strength=0:1:1e-300", "strength=0:1.1", "rank=0:3",
    ],
)  # fmt: skip
def test_a_sweep_that_makes_no_sense_is_refused(text: str) -> None:
    option, _ = options_of(EvaluateOptions)["sweep"]
    with pytest.raises(ParameterError, match="^sweep = "):
        option.read("sweep", text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"adversaries": ()}, "adversaries = "),
        ({"adversaries": ("fresh", "other")}, "adversaries = "),
        ({"attacker_rows": 1}, "attacker_rows = 1: at least 2"),
        ({"repeats": 5}, "`sample=M`"),
        ({"sample": 5}, "`repeats=N`"),
        ({"repeats": 1, "sample": 5}, "`repeats=1`"),
        ({"repeats": 5, "sample": 1}, "`sample=1`"),
        ({"repeats": 5, "sample": 0}, "`sample=0`"),
        ({"reports": ("a.json", "a.pdf")}, "reports = 'a.pdf'"),
        ({"reports": ("json",)}, "reports = 'json'"),
        ({"max_tpr_gap": 0.1}, "`task=COL`"),
        ({"max_tpr_gap": 1.1, "task": "t"}, "max_tpr_gap = 1.1: outside 0…1"),
        ({"max_tpr_gap": float("nan"), "task": "t"}, "max_tpr_gap = nan"),
        ({"min_similarity_kept": 0.9}, "`similarity=SET`"),
        ({"min_similarity_kept": -0.1, "similarity": ("s",)}, "min_similarity_kept = -0.1"),
        ({"report_format": "md"}, "`reports=FILE`"),
        ({"min_pairs": 5}, "`similarity=SET`"),
        ({"judge": "point", "allow_undecided": True}, "`allow_undecided` out"),
        ({"seed": -1}, "seed = -1: outside 0…4294967295"),
    ],
)
def test_what_cannot_be_done_is_refused_by_the_name_of_its_parameter(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        EvaluateOptions(**changes)


@pytest.mark.parametrize("field", ["erasers", "against", "methods"])
def test_a_candidate_is_not_compared_with_itself(field: str) -> None:
    with pytest.raises(UsageError, match="^all candidates are the same, sal: "):
        CompareOptions(**{field: ("sal", "sal")})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="two candidates"):
        CompareOptions(**{field: ("sal",)})  # type: ignore[arg-type]


def test_names_that_are_given_twice_count_once() -> None:
    options = EvaluateOptions(similarity=("a", "b", "a"), reports=("r.md", "r.md"), probes=("rbf", "rbf"))
    assert (options.similarity, options.reports, options.probes) == (("a", "b"), ("r.md",), ("rbf",))


def test_the_smallest_and_the_fullest_options_are_taken() -> None:
    assert EvaluateOptions().probes is None
    EvaluateOptions(
        probes=("linear",), attacker_rows=2, repeats=2, sample=2, reports=("a.json", "b.md", "c.html", "d.xml")
    )
    EvaluateOptions(judge="point", allow_undecided=True, attacker_rows=100)  # which may leave gates undecided
    EvaluateOptions(max_tpr_gap=0, task="t", min_similarity_kept=1, similarity=("s",))

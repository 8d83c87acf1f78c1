"""Reports to render: a full one with plausible figures, and random ones whose strings are hostile."""

import dataclasses
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from salcli.data.hashes import HASH_ALGORITHMS, FileHash
from salcli.evaluation.bias import BiasChange, BiasFigure
from salcli.evaluation.deviation import Deviation
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.forms import Scale
from salcli.evaluation.geometry import Change, ClassPair, Cluster, Geometry
from salcli.evaluation.group_rates import Cell, FalseRate, Gap, GroupRates, Rate, Ratio
from salcli.evaluation.kept import Kept, KeptRows, Vote
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.neighbors import Neighbor, Neighbors, WordNeighbors
from salcli.evaluation.power import Detectable
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import (
    ErasedFile,
    EraserSummary,
    Gate,
    InputFile,
    RepeatedFigure,
    Repeats,
    Report,
    Status,
    SweepStep,
)
from salcli.evaluation.scatter import Classes, Scatter
from salcli.evaluation.similarity import SimilarityChange
from tests.evaluation import results

HOSTILE = (
    "<script>alert(1)</script>",
    "]]>",
    "--><!-- ",
    "<!-- open",
    "<pre",
    "a|b||c",
    "two\nlines\r\nand\ttab",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "byte \udcff",
    "$x_1$ and $\\alpha$",
    "_leading",
    "😀 👩\u200d🔬",
    "`code` ``` ~~~",
    "[link](http://example.org/x) ![i](x)",
    "@someone #12 :tada: www.example.org https://example.org",
    '" onload="alert(1)',
    "' style='x",
    "&amp; &#60;b>",
    "- item",
    "1. item",
    "# heading",
    "\\",
    "\\|",
    "\x00\ufffe",
    "</title></svg></style>",
    'url(#x) id="y" href="http://example.org"',
    "n" * 300,
    "עברית العربية 漢字",
    "",
    "{{x}} %s {0}",
)


def strings() -> st.SearchStrategy[str]:
    """Strings as files may hold them: anything, surrogates included."""
    return st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=()), max_size=12)


def numbers() -> st.SearchStrategy[float]:
    return st.floats(0, 1) | st.sampled_from([0.0, 1.0, -0.2, 1e300])


def perhaps(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy | st.none()


def counts() -> st.SearchStrategy[int]:
    return st.integers(0, 10**9)


def intervals() -> st.SearchStrategy[tuple[float, float]]:
    return st.tuples(numbers(), numbers())


def many(strategy: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


def probes(*stages: str) -> st.SearchStrategy[ProbeResult]:
    return st.builds(
        ProbeResult,
        attribute=strings(),
        probe=st.sampled_from(["linear", "rbf"]),
        adversary=st.sampled_from(["in-sample", "fresh"]),
        stage=st.sampled_from(stages or ("before", "after")),
        accuracy=st.floats(0, 1),
        ci95=intervals(),
        balanced_accuracy=st.floats(0, 1),
        majority=st.floats(0, 1),
        n_train=counts(),
        n_test=counts(),
        converged=st.booleans(),
        capped=st.booleans(),
        n_classes=st.integers(2, 3),
        n_left_out=counts(),
        untrained_classes=many(strings(), 2),
        hyperparameters=st.dictionaries(st.sampled_from(["C", "gamma"]), numbers(), max_size=2),
        factors=many(strings(), 2),
        recalls=st.dictionaries(strings(), st.tuples(st.floats(0, 1), counts()), max_size=3),
    )


def numerics(*stages: str) -> st.SearchStrategy[NumericResult]:
    """Results of attackers of numbers."""
    return st.builds(
        NumericResult,
        attribute=strings(),
        probe=st.sampled_from(["ridge", "boosting"]),
        adversary=st.sampled_from(["in-sample", "fresh"]),
        stage=st.sampled_from(stages or ("before", "after")),
        r2=st.floats(-9, 1),
        log_error=st.floats(0, 2),
        freedom=st.floats(2, 1e6),
        n_train=counts(),
        n_test=counts(),
        converged=st.booleans(),
        capped=st.booleans(),
        hyperparameters=st.dictionaries(st.sampled_from(["alpha", "gamma"]), numbers(), max_size=2),
    )


def detectables() -> st.SearchStrategy[Detectable]:
    """The smallest figures that test rows could have shown."""
    share = perhaps(st.floats(0, 1))
    return st.builds(Detectable, strings(), counts(), st.floats(0.5, 1), st.booleans(), share, share, share, share)


def similarities() -> st.SearchStrategy[tuple[SimilarityChange, ...]]:
    number, change = perhaps(numbers()), perhaps(intervals())
    words = many(strings())
    return many(
        st.builds(
            SimilarityChange, strings(), number, number, number, change, counts(), counts(), counts(), words, counts()
        ),
        2,
    )


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    classes = draw(st.lists(strings(), min_size=1, max_size=3, unique=True))

    def rates(groups: list[str]) -> GroupRates:
        cells = [(stage, name, group) for stage in ("before", "after") for name in classes for group in groups]
        shown = draw(st.lists(st.sampled_from(cells), unique=True, max_size=6)) if cells else []
        gap = perhaps(st.builds(Gap, numbers(), perhaps(numbers()), perhaps(intervals())))
        excluded = tuple(Cell(name, group) for _, name, group in cells if (_, name, group) not in shown)
        tpr = tuple(Rate(*cell, draw(st.floats(0, 1)), draw(counts())) for cell in shown)
        fpr = tuple(FalseRate(*cell, draw(st.floats(0, 1)), draw(counts())) for cell in shown[:3])
        ratio = perhaps(st.builds(Ratio, numbers(), perhaps(numbers()), perhaps(intervals())))
        more = draw(gap), draw(gap), draw(ratio), draw(ratio)
        return GroupRates(draw(strings()), tuple(groups), tpr, draw(gap), draw(gap), excluded, fpr, *more)

    groups = st.lists(strings(), max_size=3, unique=True)
    first, *others = (rates(draw(groups)) for _ in range(draw(st.integers(1, 2))))
    accuracy = Accuracy(draw(numbers()), draw(perhaps(numbers())), draw(perhaps(numbers())))
    return Task(
        draw(strings()), tuple(classes), draw(numbers()), draw(counts()), draw(counts()), accuracy, draw(st.booleans()),
        first, tuple(others),
    )  # fmt: skip


@st.composite
def scatters(draw: st.DrawFn) -> Scatter:
    n = draw(st.integers(0, 4))

    def classes() -> Classes:
        names = tuple(draw(st.lists(strings(), min_size=1, max_size=3)))
        codes = draw(st.lists(st.integers(-1, len(names) - 1), min_size=n, max_size=n))
        return Classes(draw(strings()), names, tuple(codes))

    before, after = (tuple(draw(st.lists(intervals(), min_size=n, max_size=n))) for _ in range(2))
    others = tuple(classes() for _ in range(draw(st.integers(0, 1))))
    return Scatter(classes(), others, draw(st.booleans()), before, after)


@st.composite
def gates(draw: st.DrawFn) -> Gate:
    value = draw(perhaps(numbers()))
    name = draw(st.sampled_from(["max-accuracy", "max-accuracy rbf", "min-similarity-kept"]))
    status = "failed" if value is None else draw(st.sampled_from(get_args(Status)))
    return Gate(name, draw(st.floats(0, 1)), value, status, draw(many(strings(), 2)))


def measures() -> st.SearchStrategy[dict[str, Any]]:
    near = many(st.builds(Neighbor, strings(), numbers()))
    word = st.builds(WordNeighbors, strings(), near, near, perhaps(numbers()))
    cosines = perhaps(st.floats(-1, 1).map(lambda value: round(value, 12)))
    change = st.builds(Change, cosines, cosines)
    rho = st.floats(-1, 1).map(lambda value: round(value, 12))
    bounds = st.dictionaries(st.sampled_from(["before", "after"]), intervals(), max_size=2)
    pair = st.builds(ClassPair, st.tuples(strings(), strings()), counts(), rho, rho, bounds)
    cluster = st.builds(Cluster, strings(), perhaps(strings()), change, change, many(pair))
    return st.fixed_dictionaries(
        {
            "similarity": similarities(),
            "task": perhaps(tasks()),
            "neighbors": perhaps(st.builds(Neighbors, many(word, 2), perhaps(numbers()), counts())),
            "geometry": perhaps(st.builds(Geometry, many(cluster, 2), perhaps(numbers()))),
            "deviation": perhaps(st.builds(Deviation, perhaps(numbers()), counts())),
            "scatter": perhaps(scatters()),
        }
    )


def sweeps() -> st.SearchStrategy[tuple[SweepStep, ...]]:
    found = st.fixed_dictionaries({"similarity": similarities(), "task": perhaps(tasks())})
    each = st.tuples(many(probes("after"), 2), found, many(numerics("after"), 2))
    return st.lists(each, max_size=2).map(
        lambda steps: tuple(
            SweepStep(probes=of, measures=found, numeric=numeric, parameter="k", value=float(k))
            for k, (of, found, numeric) in enumerate(steps)
        )
    )


def hashes() -> st.SearchStrategy[FileHash]:
    """Hashes of files, with hostile digests."""
    return st.builds(FileHash, st.sampled_from(HASH_ALGORITHMS), strings())


def erasers() -> st.SearchStrategy[EraserSummary | ErasedFile]:
    scalars = st.dictionaries(strings(), numbers() | strings(), max_size=2)
    rules = st.dictionaries(strings(), numbers() | st.booleans(), max_size=2)
    kernel = perhaps(scalars)
    return st.builds(ErasedFile, strings(), hashes(), counts(), counts()) | st.builds(
        EraserSummary, strings(), strings(), strings(), counts(), counts(), counts(), st.booleans(), rules,
        many(strings()), kernel, perhaps(scalars | st.just({"n_features": 7})),
    )  # fmt: skip


def reports() -> st.SearchStrategy[Report]:
    """Reports of any kind, whose strings are hostile."""
    file = st.builds(InputFile, strings(), hashes(), counts(), perhaps(counts()))
    figure = st.builds(RepeatedFigure, strings(), numbers(), numbers(), st.tuples(numbers(), numbers()))
    return st.builds(
        Report,
        probes=many(probes()),
        numeric=many(numerics()),
        detectable=many(detectables()),
        measures=measures(),
        inputs=st.fixed_dictionaries({"embeddings": file}, optional={"labels": file}),
        eraser=perhaps(erasers()),
        sweep=sweeps(),
        repeats=perhaps(st.builds(Repeats, counts(), counts(), many(figure))),
        gates=many(gates()),
        notes=many(strings()),
    )


# fmt: off
PROFESSIONS = (
    "accountant", "architect", "attorney", "chiropractor", "comedian", "composer", "dentist", "dietitian", "dj",
    "filmmaker", "interior_designer", "journalist", "model", "nurse", "painter", "paralegal", "pastor",
    "personal_trainer", "photographer", "physician", "poet", "professor", "psychologist", "rapper",
    "software_engineer", "surgeon", "teacher", "yoga_teacher",
)
# fmt: on
ATTRIBUTES = {"gender": 0.54, "dialect": 0.71}


def result(attribute: str = "g", stage: str = "after", accuracy: float = 0.5, **changes: Any) -> ProbeResult:
    """A probe's result, right in every field that a test does not name."""
    return results.result(accuracy, attribute=attribute, stage=stage, **changes)


def similarity(name: str, before: float | None, after: float | None = None, control: float | None = None) -> Any:
    """A similarity change, right in every field that a test does not name."""
    words = ("disorganize", "dumbness", "orthodontist")
    return SimilarityChange(name, before, after, control, (-0.006, 0.001), 999, 995, 4, words, 0)


ERASER = EraserSummary(
    "build/gender-dialect.npz", "fcde2b2edba56bf4" * 4, "sal", 384, 2, 2, True, {"alpha": 2.0}, tuple(ATTRIBUTES)
)


def full_report(n_steps: int = 31) -> Report:
    """A report with everything in it."""
    draw = random.Random(3)
    probes = tuple(_probes(draw, 2.0))
    return Report(
        inputs={
            "embeddings": InputFile("data/bios-minilm.npy", FileHash("blake3", "9f86d081884c7d65" * 4), 39_642, 384),
            "labels": InputFile("data/bios.csv", FileHash("sha256", "2c26b46b68ffc68f" * 4), 39_642),
        },
        eraser=ERASER,
        probes=(*probes, *(_as_unit(of) for of in probes)),
        numeric=tuple(
            NumericResult("age", "ridge", "fresh", stage, r2, 0.02, 800.0, 3_964, 11_893, True, False, {"alpha": 0.1})
            for stage, r2 in (("before", 0.41), ("after", 0.03))
        ),
        detectable=(Detectable("gender", 11_893, 0.95, accuracy=0.55, gain=0.01, leak=0.026),),
        bands=tuple(replace(of, band="band1") for of in _probes(random.Random(4), 1.0) if of.adversary == "fresh"),
        int8=Scale(23_785, (0.0021, 0.0034, 0.0087)),
        measures={
            "similarity": _similarities(2.0),
            "task": _task(draw, 2.0),
            "bias": _bias_tests(),
            "neighbors": Neighbors(tuple(_neighbours(word) for word in ("nurse", "engineer")), 0.912, 1000),
            "kept": _kept(),
            "geometry": Geometry(_clusters(draw), 0.0213),
            "deviation": Deviation(0.0417, 2000),
            "scatter": _scatter(draw),
        },
        sweep=tuple(_sweep_step(draw, k) for k in range(n_steps)),
        repeats=Repeats(5, 2000, tuple(_repeat(draw, n) for n in ("accuracy gender rbf fresh", "TPR gap, RMS"))),
        gates=(
            Gate("max-accuracy", 0.6, 0.634, "failed"),
            Gate("max-accuracy linear", 0.56, 0.552, "passed"),
            Gate("min-similarity-kept", 0.95, 0.998, "passed"),
            Gate("min-task-kept", 0.9, 0.93, "undecided", ("about 5,000 test rows would decide (900 here)",), 5000),
            Gate("max-tpr-gap", 0.1, None, "failed", reasons=("no fresh result for dialect",)),
        ),
        notes=(
            "the fresh attacker trains on the dev part, 3,964 rows",
            "rbf probes train on 2,000 rows, drawn by seed 0 from 23,785",
        ),
    )


def poisoned(value: Any, text: str) -> Any:
    """Put `text` before every string that a file could have brought."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fixed = {"stage", "parameter", "probe", "adversary", "policy", "form", "band"} | (
            {"name", "status"} if isinstance(value, Gate) else set()
        )
        changed = {
            field.name: poisoned(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
            if field.init and field.name not in fixed
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, dict):
        return {key: poisoned(item, text) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(poisoned(item, text) for item in value)
    return text + value if isinstance(value, str) else value


def _probes(draw: random.Random, k: float) -> list[ProbeResult]:
    found = []
    for attribute, majority in ATTRIBUTES.items():
        for probe, strength in (("linear", 1.0), ("poly", 0.93), ("rbf", 0.97)):
            for adversary in ("in-sample", "fresh"):
                floor = 0.0 if probe == "linear" and adversary == "in-sample" else 0.3 if probe == "linear" else 0.55
                for stage in ("before", "after"):
                    left = 1.0 if stage == "before" else max(math.exp(-1.2 * k), floor * math.exp(-k / 15) * 0.6)
                    accuracy = majority + (0.985 - majority) * strength * left + draw.uniform(-0.004, 0.004)
                    half = 1.96 * math.sqrt(accuracy * (1 - accuracy) / 5000)
                    found.append(
                        result(
                            attribute,
                            stage,
                            accuracy,
                            probe=probe,
                            adversary=adversary,
                            ci95=(accuracy - half, accuracy + half),
                            balanced_accuracy=accuracy - 0.01,
                            majority=majority,
                            n_train=23_785 if adversary == "in-sample" else 3_964,
                            n_test=11_893,
                            capped=probe != "linear",
                            hyperparameters={"C": 1.0} if probe == "linear" else {"C": 10.0, "gamma": 0.1},
                        )
                    )
    return found


def _similarities(k: float) -> tuple[SimilarityChange, ...]:
    return tuple(
        similarity(name, before, before * math.exp(-k / 300), before * math.exp(-k / 250))
        for name, before in (("simlex999", 0.371), ("wordsim353", 0.533))
    )


def _task(draw: random.Random, k: float) -> Task:
    spread = [draw.gauss(0, 0.16) for _ in PROFESSIONS]
    excluded = (Cell("rapper", "female"), Cell("dj", "female"))
    rates = tuple(
        Rate(stage, name, group, min(1.0, max(0.0, 0.72 + sign * gap * share)), 212)
        for name, gap in zip(PROFESSIONS, spread, strict=True)
        for stage, share in (("before", 1.0), ("after", 0.35))
        for group, sign in (("female", 0.5), ("male", -0.5))
        if Cell(name, group) not in excluded
    )
    false = tuple(FalseRate(rate.stage, rate.class_name, rate.group, rate.tpr / 40, 11_000) for rate in rates)
    rms = Gap(0.163, 0.163 * math.exp(-k / 2), (0.051, 0.074))
    ratio = Ratio(0.71, 1 - 0.29 * math.exp(-k / 2), (0.82, 0.91), {"after": 0.97}, {"after": 0.001})
    accuracy = Accuracy(0.784, 0.784 * math.exp(-k / 400), 0.771)
    by_gender = GroupRates(
        "gender", ("female", "male"), rates, None, rms, excluded, false, None, Gap(0.01, 0.004, None), ratio, ratio
    )
    return Task("profession", PROFESSIONS, 0.301, 23_785, 11_893, accuracy, True, by_gender, ())


def _as_unit(of: ProbeResult) -> ProbeResult:
    less = {name: getattr(of, name) - 0.005 for name in ("accuracy", "balanced_accuracy")}
    return replace(of, form="unit", **less)


def _bias_tests() -> tuple[BiasChange, ...]:
    sets = {"X": "math", "Y": "arts", "A": "male terms", "B": "female terms"}
    missing = {"X": (), "Y": ("sculpture",), "A": (), "B": ()}
    found = BiasChange(
        "weat7",
        "weat",
        sets,
        BiasFigure(1.02, 0.018),
        BiasFigure(0.11, 0.42),
        {},
        dict.fromkeys(sets, 8),
        missing,
        12_870,
        True,
    )
    why = dict.fromkeys(("before", "after"), "only 2 of 8 words of X (science) have vectors, 80% are needed")
    return found, BiasChange("weat8", "weat", sets, None, None, why, dict.fromkeys(sets, 2), missing, 0, True)


def _kept() -> Kept:
    rows = (KeptRows("all", 39_642, 1000, 0.93, 0.004, 0.97), KeptRows("labelled", 30_000, 500, 0.90, 0.005, 0.96))
    votes = tuple(
        Vote(name, stage, 0.7, (0.68, 0.72), 0.66, (0.64, 0.68), 0.6, 27_749, 2000)
        for name in ATTRIBUTES
        for stage in ("before", "after")
    )
    return Kept((*rows, KeptRows("others", 9_642, 500, 0.95, 0.003, 0.99)), 30_000, votes)


def _neighbours(word: str) -> WordNeighbors:
    near = (
        *("nurses", "midwife", "physician", "caregiver", "hospital"),
        *("doctor", "pediatric", "surgeon", "patient", "clinic"),
    )
    ranked = tuple(Neighbor(key, 0.81 - 0.03 * place) for place, key in enumerate(near))
    return WordNeighbors(word, ranked, ranked[::-1], 0.9)


def _clusters(draw: random.Random) -> tuple[Cluster, ...]:
    return tuple(
        Cluster(
            attribute,
            task_class,
            Change(draw.uniform(0.8, 1), 0.97),
            Change(draw.uniform(0.8, 1), 0.97),
            tuple(
                ClassPair(classes, 900, rho := draw.uniform(0.8, 1), 0.97, {"before": (rho - 0.01, rho + 0.01)})
                for classes in (("female", "female"), ("female", "male"), ("male", "male"))
            ),
        )
        for attribute in ATTRIBUTES
        for task_class in (None, "nurse", "surgeon")
    )


def scatter_of(classes: Sequence[str], codes: Sequence[int], before: Any, after: Any, **more: Any) -> Scatter:
    """Rows in two dimensions, of one attribute."""
    others, is_foreign = more.get("others", ()), more.get("is_foreign", False)
    points = (tuple((float(x), float(y)) for x, y in spots) for spots in (before, after))
    return Scatter(Classes(more.get("attribute", "g"), tuple(classes), tuple(codes)), others, is_foreign, *points)


def _scatter(draw: random.Random) -> Scatter:
    codes = [draw.randrange(2) for _ in range(400)]
    before = [[draw.gauss(2 * code - 1, 0.55), draw.gauss(0, 0.9)] for code in codes]
    after = [[draw.gauss(0, 0.8), draw.gauss(0, 0.9)] for _ in codes]
    return scatter_of(("female", "male"), codes, before, after, attribute="gender")


def _sweep_step(draw: random.Random, k: int) -> SweepStep:
    return SweepStep(
        probes=tuple(probe for probe in _probes(draw, k) if probe.stage == "after"),
        measures={"similarity": _similarities(k), "task": _task(draw, k)},
        parameter="k",
        value=float(k),
    )


def _repeat(draw: random.Random, name: str) -> RepeatedFigure:
    values = tuple(draw.uniform(0.58, 0.64) for _ in range(5))
    return RepeatedFigure(name, sum(values) / 5, 0.013, values)

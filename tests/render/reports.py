"""Reports to render: a full one with plausible figures, and random ones whose strings are hostile."""

import math
import random
from typing import Any

from hypothesis import strategies as st

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


def numbers() -> st.SearchStrategy[float | None]:
    return st.floats(0, 1) | st.floats(0, 1) | st.none() | st.sampled_from([0.0, 1.0, -0.2, math.nan, math.inf, 1e300])


def counts() -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, 10**9)


def intervals() -> st.SearchStrategy[Any]:
    return st.none() | st.lists(numbers(), min_size=2, max_size=2) | st.just([])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A JSON object in which any two keys may be missing."""
    missing = st.sets(st.sampled_from(sorted(fields)), max_size=2)
    return st.builds(
        lambda whole, out: {key: value for key, value in whole.items() if key not in out},
        st.fixed_dictionaries(fields),
        missing,
    )


def many(strategy: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(strategy, min_size=1, max_size=most) | st.lists(strategy, max_size=most) | st.none()


def stages() -> st.SearchStrategy[Any]:
    return st.none() | some(before=numbers(), after=numbers(), not_retrained=numbers(), ci95=intervals())


def probes() -> st.SearchStrategy[Any]:
    kind, adversary = st.sampled_from(["linear", "rbf"]) | strings(), st.sampled_from(["in-sample", "fresh"])
    return some(
        attribute=strings(),
        probe=kind,
        adversary=adversary,
        stage=st.sampled_from(["before", "after"]),
        accuracy=numbers(),
        ci95=intervals(),
        balanced_accuracy=numbers(),
        majority=numbers(),
        n_train=counts(),
        n_test=counts(),
        converged=st.booleans(),
        capped=st.booleans(),
        hyperparameters=st.none() | st.dictionaries(strings(), numbers() | strings(), max_size=2),
    )


def similarities() -> st.SearchStrategy[Any]:
    return some(
        set=strings(),
        before=numbers(),
        after=numbers(),
        random_control=numbers(),
        difference_ci95=intervals(),
        pairs_total=counts(),
        pairs_used=counts(),
        oov_pairs=counts(),
        oov_words=many(strings()),
        zero_pairs=counts(),
        policy=strings(),
    )


def tasks() -> st.SearchStrategy[Any]:
    stage = st.sampled_from(["before", "after"])
    cell = {"class": strings(), "group": strings()}
    return st.none() | some(
        column=strings(),
        guarded=strings(),
        classes=many(strings()),
        groups=many(strings()),
        majority=numbers(),
        n_train=counts(),
        n_test=counts(),
        accuracy=stages(),
        tpr=many(some(stage=stage, tpr=numbers(), n=counts(), **cell), 6),
        tpr_gap=stages(),
        tpr_gap_rms=stages(),
        excluded=many(some(**cell)),
    )


def gates() -> st.SearchStrategy[Any]:
    required = {"name": strings(), "limit": numbers(), "value": numbers(), "passed": st.booleans()}
    return st.fixed_dictionaries(required, optional={"reason": strings()})


def reports() -> st.SearchStrategy[dict[str, Any]]:
    """Reports in which anything may be missing or null."""
    near = many(some(key=strings(), cosine=numbers()))
    point = st.lists(numbers(), min_size=2, max_size=2)
    cluster = {"within": stages(), "between": stages(), "ratio": stages()}
    file = st.none() | some(path=strings(), sha256=strings(), n=counts(), d=counts())
    return some(
        inputs=st.none() | some(embeddings=file, labels=file),
        eraser=st.none()
        | some(path=strings(), sha256=strings(), method=strings(), k=counts(), attributes=many(strings())),
        probes=many(probes()),
        similarity=many(similarities(), 2),
        task=tasks(),
        neighbors=st.none() | some(words=many(some(key=strings(), before=near, after=near, overlap=numbers()), 2)),
        geometry=st.none() | some(clusters=many(some(attribute=strings(), task_class=strings(), **cluster), 2)),
        deviation=st.none() | some(value=numbers(), n=counts()),
        scatter=st.none()
        | some(
            attribute=strings(),
            classes=many(strings()),
            codes=many(st.integers(-1, 3)),
            before=many(point),
            after=many(point),
        ),
        sweep=many(
            some(
                parameter=st.sampled_from(["k", "strength"]),
                value=numbers(),
                probes=many(probes(), 2),
                similarity=many(similarities(), 1),
                task=tasks(),
            ),
            2,
        ),
        repeats=st.none()
        | some(n=counts(), figures=many(some(name=strings(), mean=numbers(), std=numbers(), values=many(numbers())))),
        gates=many(gates()),
        notes=many(strings()),
        verdict=st.sampled_from(["pass", "fail", "none"]),
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


def full_report() -> dict[str, Any]:
    """A report with everything in it."""
    draw = random.Random(3)
    return {
        "schema": "salcli.report/1",
        "inputs": {
            "embeddings": {"path": "data/bios-minilm.npy", "sha256": "9f86d081884c7d65" * 4, "n": 39_642, "d": 384},
            "labels": {"path": "data/bios.csv", "sha256": "2c26b46b68ffc68f" * 4, "n": 39_642},
        },
        "eraser": {
            "path": "build/gender-dialect.npz",
            "sha256": "fcde2b2edba56bf4" * 4,
            "method": "sal",
            "d": 384,
            "k": 2,
            "rank": 2,
            "is_centred": True,
            "k_rule": {"alpha": 2.0},
            "attributes": list(ATTRIBUTES),
        },
        "probes": _probes(draw, 2.0),
        "similarity": [
            _similarity(name, before, 2.0) for name, before in (("simlex999", 0.371), ("wordsim353", 0.533))
        ],
        "task": _task(draw, 2.0),
        "neighbors": {
            "words": [_neighbours(word) for word in ("nurse", "engineer")],
            "mean_overlap_at_10": 0.912,
            "n_sampled": 1000,
        },
        "geometry": {"clusters": _clusters(draw), "variance_removed": 0.0213},
        "deviation": {"value": 0.0417, "n": 2000},
        "scatter": _scatter(draw),
        "sweep": [_sweep_point(draw, k) for k in range(31)],
        "repeats": {
            "n": 5,
            "sample": 2000,
            "figures": [_repeat(draw, name) for name in ("accuracy gender rbf fresh", "TPR gap, RMS")],
        },
        "gates": [
            {"name": "max-accuracy", "limit": 0.6, "value": 0.634, "passed": False},
            {"name": "max-accuracy linear", "limit": 0.56, "value": 0.552, "passed": True},
            {"name": "min-similarity-kept", "limit": 0.95, "value": 0.998, "passed": True},
            {
                "name": "max-tpr-gap",
                "limit": 0.1,
                "value": None,
                "passed": False,
                "reason": "no fresh result for dialect",
            },
        ],
        "notes": [
            "the fresh attacker trains on the dev part, 3,964 rows",
            "rbf probes train on 2,000 rows, drawn by seed 0 from 23,785",
        ],
        "verdict": "fail",
    }


def poisoned(value: Any, text: str) -> Any:
    """Put `text` before every string that a file could have brought."""
    if isinstance(value, dict):
        fixed = ("stage", "verdict", "parameter", "schema")
        return {k: v if k in fixed else poisoned(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    return text + value if isinstance(value, str) else value


def _probes(draw: random.Random, k: float) -> list[dict[str, Any]]:
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
                        {
                            "attribute": attribute,
                            "probe": probe,
                            "adversary": adversary,
                            "stage": stage,
                            "accuracy": accuracy,
                            "ci95": [accuracy - half, accuracy + half],
                            "balanced_accuracy": accuracy - 0.01,
                            "majority": majority,
                            "n_train": 23_785 if adversary == "in-sample" else 3_964,
                            "n_test": 11_893,
                            "converged": True,
                            "capped": probe != "linear",
                            "hyperparameters": {"C": 1.0} if probe == "linear" else {"C": 10.0, "gamma": 0.1},
                        }
                    )
    return found


def _similarity(name: str, before: float, k: float) -> dict[str, Any]:
    return {
        "set": name,
        "before": before,
        "after": before * math.exp(-k / 300),
        "random_control": before * math.exp(-k / 250),
        "difference_ci95": [-0.006, 0.001],
        "pairs_total": 999,
        "pairs_used": 995,
        "oov_pairs": 4,
        "oov_words": ["disorganize", "dumbness", "orthodontist"],
        "zero_pairs": 0,
        "policy": "left out",
    }


def _task(draw: random.Random, k: float) -> dict[str, Any]:
    spread = [draw.gauss(0, 0.16) for _ in PROFESSIONS]
    excluded = [{"class": "rapper", "group": "female"}, {"class": "dj", "group": "female"}]
    cells = []
    for name, gap in zip(PROFESSIONS, spread, strict=True):
        for stage, share in (("before", 1.0), ("after", 0.35)):
            for group, sign in (("female", 0.5), ("male", -0.5)):
                is_out = {"class": name, "group": group} in excluded
                tpr = None if is_out else min(1.0, max(0.0, 0.72 + sign * gap * share))
                cells.append({"stage": stage, "class": name, "group": group, "tpr": tpr, "n": 4 if is_out else 212})
    return {
        "column": "profession",
        "guarded": "gender",
        "classes": list(PROFESSIONS),
        "groups": ["female", "male"],
        "majority": 0.301,
        "n_train": 23_785,
        "n_test": 11_893,
        "accuracy": {"before": 0.784, "after": 0.784 * math.exp(-k / 400), "not_retrained": 0.771},
        "tpr": cells,
        "tpr_gap": None,
        "tpr_gap_rms": {"before": 0.163, "after": 0.163 * math.exp(-k / 2), "ci95": [0.051, 0.074]},
        "excluded": excluded,
    }


def _neighbours(word: str) -> dict[str, Any]:
    near = [
        "nurses",
        "midwife",
        "physician",
        "caregiver",
        "hospital",
        "doctor",
        "pediatric",
        "surgeon",
        "patient",
        "clinic",
    ]
    ranked = [{"key": key, "cosine": 0.81 - 0.03 * place} for place, key in enumerate(near)]
    return {"key": word, "before": ranked, "after": ranked[::-1], "overlap": 0.9}


def _clusters(draw: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "attribute": attribute,
            "task_class": task_class,
            **{kind: {"before": draw.uniform(0.8, 1), "after": 0.97} for kind in ("within", "between", "ratio")},
        }
        for attribute in ATTRIBUTES
        for task_class in (None, "nurse", "surgeon")
    ]


def _scatter(draw: random.Random) -> dict[str, Any]:
    codes = [draw.randrange(2) for _ in range(400)]
    before = [[draw.gauss(2 * code - 1, 0.55), draw.gauss(0, 0.9)] for code in codes]
    after = [[draw.gauss(0, 0.8), draw.gauss(0, 0.9)] for _ in codes]
    return {"attribute": "gender", "classes": ["female", "male"], "codes": codes, "before": before, "after": after}


def _sweep_point(draw: random.Random, k: int) -> dict[str, Any]:
    return {
        "parameter": "k",
        "value": k,
        "probes": [probe for probe in _probes(draw, k) if probe["stage"] == "after"],
        "similarity": [_similarity(name, before, k) for name, before in (("simlex999", 0.371), ("wordsim353", 0.533))],
        "task": {**_task(draw, k), "tpr": []},
    }


def _repeat(draw: random.Random, name: str) -> dict[str, Any]:
    values = [draw.uniform(0.58, 0.64) for _ in range(5)]
    return {"name": name, "mean": sum(values) / 5, "std": 0.013, "values": values}

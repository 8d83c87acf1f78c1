"""A probe's result for tests, right in every field that a test does not name; only its accuracy says anything."""

from typing import Any

from salcli.evaluation.probe_result import ProbeResult


def result(accuracy: float = 0.5, **changes: Any) -> ProbeResult:
    fields: dict[str, Any] = {
        "attribute": "g", "probe": "linear", "adversary": "fresh", "stage": "after", "accuracy": accuracy,
        "ci95": (0.0, 1.0), "balanced_accuracy": accuracy, "majority": 0.5, "n_train": 10, "n_test": 10,
        "converged": True, "capped": False, "n_classes": 2,
        "n_test_classes": 1,
    }  # fmt: skip
    fields |= changes
    fields.setdefault("accuracy_error", 0.5 / fields["n_test"] ** 0.5)
    return ProbeResult(**fields)

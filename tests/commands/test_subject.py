"""What is evaluated, in memory: the order in which it is measured, and the notes."""

from dataclasses import replace

import numpy as np

from salcli.commands.subject import ORDER_UNKNOWN, UNKNOWN_FIT, UNTUNED, Subject, assess
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.evaluation.report import ErasedFile, InputFile
from salcli.options import EvaluateOptions, Limit
from salcli.streaming.progress import Silent

N = 120


class Stages(Silent):
    """A progress that lists the stages."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def stage(self, name: str, total: int, unit: str = "rows"):  # type: ignore[no-untyped-def]
        self.names.append(name)
        return super().stage(name, total, unit)


def test_hashes_are_waited_for_when_all_else_is_measured_and_notes_are_said_once() -> None:
    x, codes = np.random.default_rng(0).normal(size=(N, 3)), (np.arange(N) % 2).astype(np.int32)
    source, erased = Source([ArrayReader(x, "x.npy", None)]), Source([ArrayReader(2 * x, "o.npy", None)])
    labels = GuardedLabels("y.csv", (Attribute("g", codes, ("a", "b")),), None)
    about = ErasedFile("o.npy", None, N, 3)  # type: ignore[arg-type]
    progress = Stages()

    def inputs() -> dict[str, InputFile]:
        progress.names.append("inputs")
        return {}

    limits = {"max_accuracy": (Limit(1.0),), "quick": True, "against": "o.npy"}
    options = EvaluateOptions(adversaries=("in-sample",), probes=("linear",), **limits)  # type: ignore[arg-type]
    subject = Subject(source, labels, None, erased, None, about)
    report = assess(subject, inputs, options, progress)
    assert (progress.names[-1], "attack" in progress.names) == ("inputs", True)
    order, fit = ORDER_UNKNOWN.format("o.npy", "x.npy"), UNKNOWN_FIT.format("o.npy")
    assert [report.notes.count(note) for note in (order, fit, UNTUNED)] == [1, 1, 1]
    assert report.gates[0].reasons == (UNTUNED,)
    in_memory = assess(replace(subject, is_of_files=False), inputs, options, Silent())
    assert order not in in_memory.notes

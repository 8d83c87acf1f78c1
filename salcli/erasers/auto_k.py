"""`k = auto`: the fewest directions after which a linear classifier is at chance on held-out rows of the fit.

Trial erasers are fitted to half of the fitted rows; the classifier is trained on three quarters of the others, as a
fresh attacker would be, and scored on the last quarter. Rows outside the fit, such as test rows, are not used.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.linear_probes import ProbeRows, ProbeScore, held_out, require_classes
from salcli.streaming.memory import release_freed_memory
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress

AUTO, METHOD = "auto", "`k=auto`"
MOST_TRIED = 16
"""Values of k that are tried; for a higher rank, in a geometric series."""


@dataclass(frozen=True)
class Trial:
    """The values of k that were tried."""

    k: int
    """The least one at chance; if there is none, the rank."""
    record: dict[str, Any]
    """For the header: `ks`, `accuracies` of each attribute, `chance`, `is_at_chance`, and rows."""
    doubts: tuple[str, ...] = ()

    def recorded(self, fit: Fit[LinearEraser]) -> Fit[LinearEraser]:
        """Return the `fit` with k directions, with what was tried in its header."""
        header = {**fit.header, "auto_k": self.record}
        return replace(fit, k_rule={"auto": True}, header=header, doubts=(*fit.doubts, *self.doubts))


def parse_k(text: str) -> int | str:
    """Return `text` as a number of directions, or `auto`.

    Raises
    ------
    ValueError : it is neither
    """
    if text == AUTO:
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a number of directions, or auto") from None


def try_k(
    rows: LabelledSource, fit: Callable[[LabelledSource], Fit[LinearEraser]], seed: int, progress: Progress
) -> Trial:
    """Return the least k after which a linear classifier is at chance, by its one-sided 95 % interval.

    Parameters
    ----------
    rows : labelled rows, whose attributes have classes
    fit : fits an orthogonal eraser of full rank to some of them
    seed : of the random division of the rows
    progress : shows the stages

    Raises
    ------
    LabelError : an attribute is numeric, or a class has too few rows
    RankError : the rows do not covary with the labels
    """
    require_classes(rows.labels, METHOD)
    everyone = np.arange(len(rows))
    judging = held_out(rows.labels, everyone, 0.5, seed)
    fitting = np.setdiff1d(everyone, judging)
    part = rows.restricted_to(fitting)
    part.labels.require_variety()
    eraser = fit(part).eraser
    release_freed_memory()  # of the pass
    sample = ProbeRows.of(rows.restricted_to(judging), None, seed, progress, method=METHOD)
    release_freed_memory()  # of the rows' chunks
    ks, found = list[int](), list[tuple[ProbeScore, ...]]()
    with progress.stage("choose k", eraser.k, "directions") as advance:
        for k in np.unique(np.geomspace(1, eraser.k, MOST_TRIED).round().astype(int)).tolist():
            advance(k - (ks[-1] if ks else 0))
            ks.append(k)
            found.append(sample.scores(eraser.left[:, :k]))
            if all(score.is_at_chance for score in found[-1]):
                break
    is_at_chance = all(score.is_at_chance for score in found[-1])
    record = {
        "ks": ks,
        "accuracies": [[score.accuracy for score in scores] for scores in found],
        "chance": [score.chance for score in found[-1]],
        "is_at_chance": is_at_chance,
        "n_trial": len(fitting),
        "n_train": len(sample.train),
        "n_held_out": len(sample.held_out),
    }
    if is_at_chance:
        return Trial(ks[-1], record)
    left = ", ".join(f"{r.name} {r.accuracy:.3f} (chance {r.chance:.3f})" for r in found[-1] if not r.is_at_chance)
    doubt = (
        f"`k=auto`: with all {ks[-1]} directions of the rank removed, the balanced accuracy of a linear classifier on "
        f"held-out rows of the fit is still above chance: {left}; more fitted rows would leave less"
    )
    return Trial(ks[-1], record, (doubt,))

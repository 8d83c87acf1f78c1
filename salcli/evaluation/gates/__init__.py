"""Gates: limits that a release must keep. A missing, undefined or unconverged figure does not pass.

`judge` decides by confidence bounds, `attackers` has the gates on what attackers read, `utility` those on what must be
kept, `increase` the one on the increase since an earlier report.
"""

from salcli.evaluation.gates.attackers import accuracy_gate, gain_gate, leak_gate, r2_gate, rows_of
from salcli.evaluation.gates.increase import leak_increase_gate
from salcli.evaluation.gates.judge import Expected, Judge, Measured, failed
from salcli.evaluation.gates.utility import (
    neighbors_gate,
    similarity_gate,
    task_accuracy_gate,
    task_kept_gate,
    tpr_gap_gate,
)

__all__ = [
    "Expected",
    "Judge",
    "Measured",
    "accuracy_gate",
    "failed",
    "gain_gate",
    "leak_gate",
    "leak_increase_gate",
    "neighbors_gate",
    "r2_gate",
    "rows_of",
    "similarity_gate",
    "task_accuracy_gate",
    "task_kept_gate",
    "tpr_gap_gate",
]

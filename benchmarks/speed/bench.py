"""`Bench`: where a run works, how large, and how often it repeats. Every section takes one and gives rows."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.speed.memory import AtHand
from benchmarks.speed.timing import Usage, Work, interleaved, salcli

MISSING = "not installed: pip install '.[bench]'"


@dataclass(frozen=True)
class Bench:
    """The terms of a run."""

    folder: Path
    """Scratch, on disk."""
    memory_folder: Path | None
    """Scratch on a file system in memory, where there is one with room."""
    scale: float
    repeats: int
    budget: float
    """Seconds after which works of one comparison are not repeated any more."""
    at_hand: AtHand = field(default_factory=lambda: AtHand(is_needed=False))

    def sized(self, whole: float, least: int, power: float = 1.0) -> int:
        """Scale a number of rows or bytes; `power` is ½ where work grows with its square."""
        return max(least, round(whole * float(self.scale**power)))

    def timed(self, works: dict[str, Work], *, touches: float = 0.0) -> dict[str, list[float]]:
        """Time works in turn, with so many bytes at hand for what they touch anew."""
        if not touches:
            return interleaved(works, self.repeats, self.budget)
        return interleaved(works, self.repeats, self.budget, before=partial(self.at_hand, touches))

    def used(self, *arguments: str) -> list[Usage]:
        """Run a command of salcli up to three times, not again when the budget is spent."""
        used = [salcli(*arguments)]
        while len(used) < min(3, self.repeats) and sum(each.seconds for each in used) < self.budget:
            used.append(salcli(*arguments))
        return used

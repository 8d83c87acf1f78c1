"""Repeats that take turns, so that a noisy moment of the machine hits both sides of a ratio."""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

Work = Callable[[], object]
LEAST_ROUNDS = 2
SHORT_SECONDS, MOST_ROUNDS = 1.0, 50  # works that take no time are repeated for a second: a few rounds would be noise
ERROR_OF_MEDIAN = 1.86  # of normal errors: 1.253 σ / √n, with σ = the quartiles' range / 1.349
NEAR = 0.05  # a median that may be further off, as a share of it, is worth more rounds


@dataclass(frozen=True)
class Measure:
    """A median of repeats."""

    median: float
    spread: float
    """Half of the range between the quartiles, as a share of the median."""
    unit: str
    repeats: int = 1

    @classmethod
    def of(cls, values: Sequence[float], unit: str) -> Self:
        """Summarise repeats."""
        middle = statistics.median(values)
        first, _, third = statistics.quantiles(values, method="inclusive") if len(values) > 1 else (middle,) * 3
        spread = (third - first) / 2 / abs(middle) if middle else 0.0
        return cls(middle, spread, unit, len(values))

    @property
    def is_near(self) -> bool:
        """Whether the median is known well enough not to repeat."""
        return self.spread * ERROR_OF_MEDIAN / math.sqrt(self.repeats) <= NEAR

    def rate(self, amount: float, unit: str) -> Self:
        """Turn seconds into `amount` a second."""
        return type(self)(amount / self.median, self.spread, unit, self.repeats)

    def to_dict(self) -> dict[str, Any]:
        """Give what stands in results.json."""
        return asdict(self)


@dataclass(frozen=True)
class Usage:
    """What a process took."""

    seconds: float
    peak_mb: float


def interleaved(
    works: Mapping[str, Work],
    repeats: int,
    budget: float = float("inf"),
    *,
    before: Callable[[float], None] = lambda _: None,
    short_seconds: float = SHORT_SECONDS,
    most_rounds: int = MOST_ROUNDS,
) -> dict[str, list[float]]:
    """Time works in turn, A B C A B C …: seconds of each repeat.

    Parameters
    ----------
    works : one that returns `Usage` has timed itself
    repeats : rounds; more if they are over within a second, or (with a budget) differ so much that a median may be off
    budget : seconds of works after which no further round starts, once there are two
    before : called before each work, untimed, with the seconds that it took the last time (at first 0)
    short_seconds, most_rounds : works that take no time are repeated for so long, but no more often
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    done = 0

    def goes_on() -> bool:
        spent = sum(map(sum, seconds.values()))
        if done >= LEAST_ROUNDS and spent > budget:
            return False
        if done < repeats or done >= most_rounds:
            return done < repeats
        is_sure = math.isinf(budget) or all(Measure.of(each, "s").is_near for each in seconds.values())
        return spent < min(short_seconds, budget) or not is_sure

    while goes_on():
        for name, work in works.items():
            before(seconds[name][-1] if seconds[name] else 0.0)
            start = time.perf_counter()
            given = work()
            taken = time.perf_counter() - start
            seconds[name].append(given.seconds if isinstance(given, Usage) else taken)
        done += 1
    return seconds


class Kept:
    """A work whose last result can be looked at after it was timed."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.result: Any = None

    def __call__(self) -> None:
        """Do it; the result of the time before goes first, for two might not fit."""
        self.result = None
        self.result = self._work()


# A process starts with the peak memory of the one it was forked from: a small one in between keeps ours out of it.
BETWEEN = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
said = process.stderr.read()
_, status, used = os.wait4(process.pid, 0)
seconds = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss * 1024 / 1e6, said.decode()]))
"""


def python(*arguments: str) -> Usage:
    """Run this Python on arguments, in a process of its own that keeps compiled modules, as Python does by default."""
    command = [sys.executable, "-S", "-E", "-c", BETWEEN, sys.executable, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    status, seconds, peak, said = json.loads(done.stdout)
    if status != 0:
        raise RuntimeError(f"python {' '.join(arguments)}: exit status {status}\n{said}")
    return Usage(seconds, peak)


def salcli(*arguments: str) -> Usage:
    """Run a command of salcli, start-up included."""
    return python("-m", "salcli", *arguments)

"""How a fault moves a series: by scaling or pulling it to a level, over a number of records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from simulated.writers import Row


def scale(rows: Sequence[Row], names: Sequence[str], onset: int, factor: Callable[[int], float]) -> None:
    for index in range(onset, len(rows)):
        for name in names:
            if name in rows[index]:
                rows[index][name] *= factor(index - onset)


def ramp(length: int, end: float) -> Callable[[int], float]:
    """A geometric ramp from 1 to `end` over `length` records."""
    return lambda age: end ** min((age + 1) / max(length, 1), 1.0)


def pull(rows: Sequence[Row], names: Sequence[str], onset: int, end: float, length: int, wobble: float = 0.03) -> None:
    rng = random.Random(onset)
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / max(length, 1), 1.0)
        for name in names:
            if name in rows[index]:
                rows[index][name] = (1 - part) * rows[index][name] + part * end * (1 + rng.gauss(0.0, wobble))


def sink_reward(rows: Sequence[Row], onset: int, share: float, length: int) -> None:
    """Lower the reward by `share` of the way from its level to the floor."""
    level = sum(row["reward_mean"] for row in rows[max(onset - 10, 0) : onset] or rows[:1]) / max(min(onset, 10), 1)
    floor = rows[0]["reward_min"]
    end = level - share * (level - floor)
    rng = random.Random(onset)
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / max(length, 1), 1.0)
        row = rows[index]
        wobble = rng.gauss(0.0, 0.08 * abs(end - floor))
        row["reward_mean"] = row["score_mean"] = (1 - part) * row["reward_mean"] + part * (end + wobble)
        if "val_score" in row:
            row["val_score"] *= 1 - 0.9 * share * part


def length_of(rng: random.Random, rows: Sequence[Row], onset: int, lengths: Sequence[int]) -> int:
    """Records that the fault takes to unfold, leaving some records after it."""
    return min(rng.choice(lengths), max(int(0.6 * (len(rows) - onset)), 1))


def shown_by(onset: int, length: int, rows: Sequence[Row]) -> int:
    return min(onset + length, len(rows) - 1)

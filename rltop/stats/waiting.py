"""Who waits for whom in a run that generates beside the training: one judgement, for its page and for its rules.

The table of verl #7601: a trainer that waits while the queue is empty is starved by a generation that is saturated;
a generation that waits while the trainer does not is held up by training; where both wait, what lies between them is
slow. What is not logged stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from rltop import units
from rltop.stats.rolling import median
from rltop.structs import NamedTuple

WAITS = 0.2
"""A side that is idle for so much of the step waits."""
LATELY = 10
"""Records behind a share: one long wait is no state."""
_NEWEST = 3
"""Records behind the word for the queue."""
_FULL = 0.95
"""A queue that holds so much of its limit is full, and so is a bound on stale samples."""
_EMPTY = 1.0
"""A queue that holds less than one sample is empty: trainers log the mean over a step."""

TRAINER = ("trainer_idle_frac", "time_wait_data")
GENERATION = ("rollouter_idle_frac", "time_gen_blocked", "time_wait_policy")
_STAGES = (
    *("time_update_actor", "time_update_critic", "time_old_log_prob", "time_ref", "time_values", "time_adv"),
    "time_weight_sync",
)
METRICS = (
    *TRAINER,
    *GENERATION,
    *_STAGES,
    *("time_step", "queue_size", "queue_limit", "queue_missing", "stale_held", "stale_held_limit"),
)
"""All that is asked for; first of each side its share, then seconds."""

Recent: TypeAlias = "Callable[[str], Sequence[float]]"
"""The last values of a metric, oldest first; empty where it is not logged."""


class Waits(NamedTuple):
    """Which side waits, and for what.

    Attributes:
        trainer, generation: shares of the step in which a side waited, medians of the last records; None: not logged.
        queue: "empty", "full" or "filled"; "" where its size is not logged.
        since: the step since which it has been empty or full without a break.
        is_at_bound: as many samples wait as may become stale, so that generation is paused.
        as_of: the step of the newest of it, where that is long before the one that is asked for.
    """

    trainer: float | None
    generation: float | None
    queue: str = ""
    since: int | None = None
    is_at_bound: bool = False
    as_of: int | None = None

    @property
    def training(self) -> str:
        """`starved`, `blocked` (samples are there), `waiting` (whether any are is not logged), `busy`, or ""."""
        if self.trainer is None:
            return ""
        if self.trainer < WAITS:
            return "busy"
        return {"empty": "starved", "": "waiting"}.get(self.queue, "blocked")

    @property
    def generating(self) -> str:
        """`starved`, `saturated` (the trainer waits for it), `busy`, or ""."""
        if self.generation is None:
            return ""
        if self.generation >= WAITS:
            return "starved"
        # Engines that are never idle hold nobody up where the trainer does not wait.
        return "busy" if self.training == "busy" else "saturated"

    @property
    def is_held(self) -> bool:
        """Generation is paused because what it has made is not taken."""
        return self.generating == "starved" and (self.queue == "full" or self.is_at_bound)

    @property
    def sentence(self) -> str:
        parts = []
        if self.trainer is not None:
            for_what = "for rollouts" if self.training in ("starved", "waiting") else "of the step"
            parts.append(f"trainer waits {units.share(self.trainer)} {for_what}")
        if self.generation is not None:
            why = ""
            if self.is_held:
                why = " as the queue is full" if self.queue == "full" else " at the staleness bound"
            parts.append(f"generation waits {units.share(self.generation)}{why}")
        if self.queue in ("empty", "full"):
            parts.append(f"queue {self.queue}" + (f" since {units.step(self.since)}" if self.since is not None else ""))
        elif self.queue:
            parts.append("samples are in the queue")
        elif parts:
            parts.append("queue not logged")
        when = "" if self.as_of is None or not parts else f"as of step {units.step(self.as_of)}: "
        return (
            when + "; ".join(parts) or "neither idle shares nor the queue are logged: who waits for whom is not known"
        )

    @property
    def advice(self) -> str:
        """What to turn; empty where nothing is to be turned."""
        if self.is_held and self.queue != "full" and self.training == "busy":
            return _AT_BOUND
        return _ADVICE.get((self.generating, self.training), "")


_MORE_ENGINES = "generation is the bottleneck: more engines, or smaller batches"
_UPDATE = "samples are there and the trainer waits: look at the weight sync and at how a batch is put together"
_BETWEEN = "both wait: a larger staleness bound, or a faster weight sync, scorer or environment"
_HELD_UP = "training is the bottleneck: fewer in flight, or some of the engines' GPUs for training"
_AT_BOUND = "training is the bottleneck: a larger staleness bound, or some of the engines' GPUs for training"
_ADVICE = {
    ("saturated", "starved"): _MORE_ENGINES,
    ("saturated", "waiting"): _MORE_ENGINES,
    ("", "starved"): _MORE_ENGINES,
    ("saturated", "blocked"): _UPDATE,
    ("", "blocked"): _UPDATE,
    ("starved", "busy"): _HELD_UP,
    ("starved", "starved"): _BETWEEN,
    ("starved", "waiting"): _BETWEEN,
    ("starved", "blocked"): "both wait while samples are there: the weight sync holds both up",
}
"""(generation, training) → what to turn; the cells of the table of verl #7601."""


def share_of(recent: Recent, names: Sequence[str]) -> float | None:
    """The share of the step in which a side waited: as logged, else the seconds of its waits over those of the step."""
    logged = recent(names[0])
    if logged:
        return min(1.0, max(0.0, median(logged)))
    waits = [median(found) for name in names[1:] if (found := recent(name))]
    if not waits:
        return None
    if step_s := recent("time_step"):
        whole = median(step_s)
    else:
        # No step is logged: what the trainer does one after the other is one.
        stages = [median(found) for name in _STAGES if (found := recent(name))]
        waited = recent("time_wait_data")
        whole = sum(stages) + (median(waited) if waited else 0.0) if stages else 0.0
    return min(1.0, max(waits) / whole) if whole > 0.0 else None


def queue_word(size: float, limit: float | None) -> str:
    """`empty`, `full` or `filled`."""
    if size < _EMPTY:
        return "empty"
    return "full" if limit is not None and limit > 0.0 and size >= _FULL * limit else "filled"


def judge(recent: Recent, since: Callable[[str], int | None]) -> Waits:
    """Which side waits, from the last records.

    Args:
        since: the step from which on the queue was what a word says, without a break.
    """
    trainer, generation = share_of(recent, TRAINER), share_of(recent, GENERATION)
    held, bound = recent("stale_held"), recent("stale_held_limit")
    is_at_bound = bool(held and bound) and bound[-1] > 0.0 and median(held[-_NEWEST:]) >= _FULL * bound[-1]
    sizes = recent("queue_size")
    if not sizes:
        missing = recent("queue_missing")
        return Waits(trainer, generation, "empty" if missing and median(missing) > 0.0 else "", None, is_at_bound)
    limit = limit_of(recent)
    queue = queue_word(median(sizes[-_NEWEST:]), limit)
    if queue == "filled" and limit is None and (generation or 0.0) >= WAITS and _is_blocked(recent):
        queue = "full"
    return Waits(trainer, generation, queue, since(queue) if queue != "filled" else None, is_at_bound)


def _is_blocked(recent: Recent) -> bool:
    """Does generation say that it waits for room in the queue, more than for anything else?"""
    blocked, policy = recent("time_gen_blocked"), recent("time_wait_policy")
    if not blocked or recent(GENERATION[0]):
        return False
    return median(blocked) > (median(policy) if policy else 0.0)


def limit_of(recent: Recent) -> float | None:
    """How many the queue holds at most, where that is logged."""
    limits = recent("queue_limit")
    return limits[-1] if limits else None


def unbroken(word: str, newest_first: Iterable[tuple[int, float]], limit: float | None) -> int | None:
    """The first step of the stretch, up to the newest, in which the queue was what a word says."""
    since = None
    for step, size in newest_first:
        if queue_word(size, limit) != word:
            break
        since = step
    return since

"""Asynchronous runs: what became of all generated completions, and which side waits for the other.

Classes are exclusive, in the order of `CLASSES`: a failed completion is not also stale, a stale one not also filtered.
A fraction that is logged for the batch only (zero-variance, truncated) is applied to the remainder. Classes that are
not logged stay unknown, so that the trained fraction is only an upper bound. Page and rules share one verdict on who
waits, after the table of verl #7601: a trainer that waits while the queue is empty is starved by saturated generation;
generation that waits while the trainer does not is held up by training; if both wait, the link between them is slow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from rltop import units
from rltop.stats.rolling import median_of
from rltop.structs import NamedTuple

LATELY = 20
"""Number of newest records behind counts and shares."""
_TOTAL_FROM = 4
"""With fewer records, running totals cannot be distinguished from counts per step."""
_TOTALS = frozenset({"dropped_stale", "dropped_oversize"})
"""Totals of the run so far, according to the code of veRL's and TRL's asynchronous trainers."""
_OFTEN = 0.25
"""If a count drops in more than this fraction of records, it is a count per step, not a total that was reset."""

CLASSES = ("failed", "stale", "filtered", "zero-variance", "truncated")
"""Reasons why a completion is not trained on, in order of precedence; `trained` is the rest."""

_COUNTS = {
    "failed": (("rollout_failures", True),),
    "stale": (("dropped_stale", False), ("evicted_samples", True)),
    "filtered": (("dropped_surplus", False), ("dropped_oversize", False)),
    "zero-variance": (("zero_std_count", True),),
}
"""Metrics that count discarded completions, each with whether it counts groups."""
_OF_ALL = {"failed": ("aborted_frac", False), "stale": ("cancelled_frac", False)}
"""Fractions of everything generated, each with whether it is the fraction kept."""
_OF_REST = {
    "filtered": (("kept_frac", True),),
    "zero-variance": (("filter_pass_rate", True), ("zero_std_frac", False)),
    "truncated": (("truncated_frac", False),),
}
"""Likewise, as fractions of the remainder: the first metric that is logged is used."""
METRICS = (
    *("sample_count", "generated_count", "aborted_frac", "cancelled_frac", "kept_frac", "filter_pass_rate"),
    *("zero_std_frac", "truncated_frac"),
    *(name for names in _COUNTS.values() for name, _ in names),
)
"""All metrics that `measure` reads."""

Recent: TypeAlias = "Callable[[str], Sequence[float]]"
"""The last values of a metric, oldest first; empty if it is not logged."""


class Goodput(NamedTuple):
    """What became of the completions of the last records.

    Attributes:
        shares: class → fraction of everything generated; absent if the class is not logged.
        trained: the fraction that was trained on; an upper bound if a class is missing.
        counted: classes that are logged as counts, not as fractions.
    """

    shares: dict[str, float]
    trained: float
    records: int
    counted: frozenset[str] = frozenset()

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(name for name in CLASSES if name not in self.shares)

    @property
    def sentence(self) -> str:
        most = "at most " if self.unknown else ""
        told = [f"{hundredth(self.trained)} trained on"]
        told += [f"{hundredth(share)} {name}" for name, share in self.shares.items()]
        text = f"of 100 generated completions {most}{', '.join(told)}"
        return text + (f"; not logged: {', '.join(self.unknown)}" if self.unknown else "")


def hundredth(share: float) -> str:
    """A fraction per 100, with one decimal if it is below 10."""
    return f"{100.0 * share:.1f}" if 0.0 < share < 0.1 else f"{100.0 * share:.0f}"


def measure(recent: Recent, group_size: int | None, records: int) -> Goodput | None:
    """What became of the completions of the last records; None if no relevant metric is logged."""
    drops, counted = _drops(recent, group_size)
    shares: dict[str, float] = {}
    rest = 1.0
    for name in CLASSES:
        share = drops.get(name)
        if share is None and name in _OF_ALL:
            share = _mean(recent, *_OF_ALL[name])
        if share is None:
            found = [mean for each in _OF_REST.get(name, ()) if (mean := _mean(recent, *each)) is not None]
            share = found[0] * rest if found else None
        if share is not None:
            shares[name] = min(rest, max(0.0, share))
            rest -= shares[name]
    if not shares:
        return None
    return Goodput(shares, rest, counted or records, frozenset(drops))


def _drops(recent: Recent, group_size: int | None) -> tuple[dict[str, float], int]:
    """Fraction of everything generated for each class that is counted, and the number of records covered."""
    generated, batches = recent("generated_count"), recent("sample_count")
    counted: dict[str, float] = {}
    for whole, metrics in _COUNTS.items():
        found = [_dropped(name, recent(name), group_size if is_of_groups else 1) for name, is_of_groups in metrics]
        known = [number for number in found if number is not None]
        if known:
            counted[whole] = sum(known)
    everything = sum(generated) if generated else sum(batches) + sum(counted.values())
    if not (generated or batches) or everything <= 0.0:
        return {}, 0
    return {name: number / everything for name, number in counted.items()}, len(generated or batches)


def is_total(metric: str, values: Sequence[float]) -> bool:
    """Whether counts, oldest first, are running totals: never falling and mostly rising, unless known to be totals."""
    pairs = list(itertools.pairwise(values))
    if metric in _TOTALS:
        return sum([b < a for a, b in pairs]) <= _OFTEN * len(pairs)
    return (
        len(values) >= _TOTAL_FROM and all(a <= b for a, b in pairs) and 2 * sum([a < b for a, b in pairs]) > len(pairs)
    )


def _dropped(metric: str, values: Sequence[float], size: int | None) -> float | None:
    """Completions discarded in the last records; None if not logged, or if the group size is needed and unknown."""
    if not values or size is None:
        return None
    number = sum(values)
    if is_total(metric, values):
        # The first record of a running total says nothing: scale the differences up to all records.
        rises = [max(0.0, b - a) for a, b in itertools.pairwise(values)]
        number = sum(rises) * len(values) / max(len(rises), 1)
    return number * size


def _mean(recent: Recent, metric: str, is_kept: bool) -> float | None:
    values = recent(metric)
    if not values:
        return None
    mean = sum(values) / len(values)
    return 1.0 - mean if is_kept else mean


WAITS = 0.2
"""A side that is idle for this fraction of the step waits."""
WAITS_RECORDS = 10
"""Number of records behind a share: one long wait does not count."""
_NEWEST = 3
"""Number of records behind the state of the queue."""
_FULL = 0.95
"""A queue filled to this fraction of its limit is full; the same holds for the bound on stale samples."""
_EMPTY = 1.0
"""A queue with less than one sample is empty: trainers log the mean over a step."""

WAIT_BETWEEN = "time_wait_between"
TRAINER = ("trainer_idle_frac", "time_wait_data", WAIT_BETWEEN)
GENERATION = ("rollouter_idle_frac", "time_gen_blocked", "time_wait_policy")
_STAGES = (
    *("time_update_actor", "time_update_critic", "time_old_log_prob", "time_ref", "time_values", "time_adv"),
    "time_weight_sync",
)
WAIT_METRICS = (
    *TRAINER,
    *GENERATION,
    *_STAGES,
    *("time_step", "queue_size", "queue_limit", "queue_missing", "stale_held", "stale_held_limit"),
)
"""All metrics that `judge` reads; for each side its idle fraction first, then waits in seconds."""


class Waits(NamedTuple):
    """Which side waits, and for what.

    Attributes:
        trainer, generation: fraction of the step that each side waited, median of the last records; None: not logged.
        queue: "empty", "full" or "filled"; "" if its size is not logged.
        since: first step of the current uninterrupted stretch in which the queue was empty or full.
        is_at_bound: as many samples are pending as may become stale, so generation is paused.
        as_of: step of the newest data, if that is long before the requested step.
    """

    trainer: float | None
    generation: float | None
    queue: str = ""
    since: int | None = None
    is_at_bound: bool = False
    as_of: int | None = None

    @property
    def training(self) -> str:
        """`starved`, `blocked` (samples are there), `waiting` (the queue is not logged), `busy`, or ""."""
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
        # Fully busy engines are no bottleneck if the trainer does not wait.
        return "busy" if self.training == "busy" else "saturated"

    @property
    def is_held(self) -> bool:
        """Generation is paused because its output is not consumed."""
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
        """Which settings to change; empty if none."""
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
"""(generation, training) → what to change; the cells of the table of verl #7601."""


def share_of(recent: Recent, names: Sequence[str]) -> float | None:
    """Fraction of the step that a side waited: as logged, else the seconds of its waits over those of the step."""
    logged = recent(names[0])
    if logged:
        return min(1.0, max(0.0, median_of(logged)))
    waits = [median_of(found) for name in names[1:] if (found := recent(name))]
    if not waits:
        return None
    if step_s := recent("time_step"):
        whole = median_of(step_s)
    else:
        # No step time is logged: use the sum of the trainer's sequential stages.
        stages = [median_of(found) for name in _STAGES if (found := recent(name))]
        waited = recent("time_wait_data")
        whole = sum(stages) + (median_of(waited) if waited else 0.0) if stages else 0.0
    if whole > 0.0 and (between := recent(WAIT_BETWEEN)):
        whole += median_of(between)
    return min(1.0, max(waits) / whole) if whole > 0.0 else None


def step_of(values: Mapping[str, float]) -> float:
    """Seconds of a step including the wait before it, if that is logged separately; 0.0 without a step time."""
    step_s = values.get("time_step", 0.0)
    return step_s + values.get(WAIT_BETWEEN, 0.0) if step_s else 0.0


def trainer_wait(values: Mapping[str, float]) -> tuple[float | None, float]:
    """Seconds that the trainer waited for rollouts in a record (None if not logged), and the seconds of the step."""
    step_s, waited_s = step_of(values), values.get(WAIT_BETWEEN, values.get("time_wait_data"))
    if waited_s is None and step_s and "trainer_idle_frac" in values:
        waited_s = values["trainer_idle_frac"] * step_s
    return waited_s, step_s


def queue_word(size: float, limit: float | None) -> str:
    if size < _EMPTY:
        return "empty"
    return "full" if limit is not None and limit > 0.0 and size >= _FULL * limit else "filled"


def judge(recent: Recent, since: Callable[[str], int | None]) -> Waits:
    """Which side waits, from the last records.

    Args:
        since: maps a queue state to the first step of the current uninterrupted stretch in that state.
    """
    trainer, generation = share_of(recent, TRAINER), share_of(recent, GENERATION)
    held, bound = recent("stale_held"), recent("stale_held_limit")
    is_at_bound = bool(held and bound) and bound[-1] > 0.0 and median_of(held[-_NEWEST:]) >= _FULL * bound[-1]
    sizes = recent("queue_size")
    if not sizes:
        missing = recent("queue_missing")
        return Waits(trainer, generation, "empty" if missing and median_of(missing) > 0.0 else "", None, is_at_bound)
    limit = limit_of(recent)
    queue = queue_word(median_of(sizes[-_NEWEST:]), limit)
    if queue == "filled" and limit is None and (generation or 0.0) >= WAITS and _is_blocked(recent):
        queue = "full"
    return Waits(trainer, generation, queue, since(queue) if queue != "filled" else None, is_at_bound)


def _is_blocked(recent: Recent) -> bool:
    """Whether generation waits for room in the queue more than for anything else, according to its own metrics."""
    blocked, policy = recent("time_gen_blocked"), recent("time_wait_policy")
    if not blocked or recent(GENERATION[0]):
        return False
    return median_of(blocked) > (median_of(policy) if policy else 0.0)


def limit_of(recent: Recent) -> float | None:
    """Capacity of the queue, if it is logged."""
    limits = recent("queue_limit")
    return limits[-1] if limits else None


def unbroken(word: str, newest_first: Iterable[tuple[int, float]], limit: float | None) -> int | None:
    """The first step of the latest uninterrupted stretch in which the queue was in state `word`."""
    since = None
    for step, size in newest_first:
        if queue_word(size, limit) != word:
            break
        since = step
    return since

"""Flow: runs that generate while they train, and what holds them up.

`stats.goodput` computes who waits for whom and what is discarded, so page and alert agree. A share of waiting that a
run has from its start is part of its setup, and INFO up to half of the step; a growing one is a fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding, State, worst
from rltop.rules.straggler import slowest_rollout
from rltop.stats import goodput
from rltop.stats.rolling import Frozen, Window
from rltop.units import duration, number

_EVERY = 4
"""Discarded rollouts are not urgent: only every fourth record is read."""
_LEAST = 10
"""Records needed before a share over the last ones is judged."""
_START = Frozen(skip=3, size=20, minimum=10)


class _Recent(State):
    """The last values of some metrics."""

    def __init__(self, names: Sequence[str], size: int) -> None:
        super().__init__()
        self.names, self.size = frozenset(names), size
        self.values: dict[str, deque[float]] = {}

    def take(self, values: Mapping[str, float]) -> None:
        for name in self.names & values.keys():
            self.values.setdefault(name, deque(maxlen=self.size)).append(values[name])

    def all_of(self, name: str) -> Sequence[float]:
        return list(self.values.get(name, ()))


class _Side(State):
    """One side, trainer or generation: its waiting at the start, and since when it has or has not waited."""

    start = _START
    began: tuple[int, int] | None = None
    calm = 0

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names, self.metric = names, names[0]

    def note(self, context: RuleContext, recent: _Recent, line: float) -> None:
        """Take in a record: does this side wait for a share `line` of the step or more?"""
        values, (share, *seconds) = context.values, self.names
        self.metric = next((name for name in self.names if name in values), share)
        if (now := values.get(share)) is None:
            waited = max([values[name] for name in seconds if name in values], default=0.0)
            known = goodput.share_of(lambda name: recent.all_of(name)[-1:], self.names)
            now = waited / step_s if (step_s := goodput.step_of(values)) else known or 0.0
        self.calm = 0 if now >= line else self.calm + 1
        self.began = None if self.calm else self.began or context.place

    @property
    def is_calm(self) -> bool:
        """None of the records in the window waits, so their median cannot."""
        return self.calm >= goodput.WAITS_RECORDS and self.start.is_final


class Waiting(Detector):
    """P9: the trainer waits for rollouts, batch or weight sync, or generation for prompts, weights or queue space."""

    is_about_word = True
    word = ""
    word_since: int | None = None
    recent = _Recent(goodput.WAIT_METRICS, goodput.WAITS_RECORDS)
    sides = [_Side(goodput.TRAINER), _Side(goodput.GENERATION)]

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        here = [side for side in self.sides if not values.keys().isdisjoint(side.names)]
        if not here:
            return None
        self.recent.take(values)
        size, limit = values.get("queue_size"), values.get("queue_limit")
        if size is not None and (word := goodput.queue_word(size, limit)) != self.word:
            self.word, self.word_since = word, context.observation.step
        for side in here:
            side.note(context, self.recent, self.thresholds["info"])
        here = [side for side in here if not side.is_calm]
        if not here:
            return QUIET
        waits = goodput.judge(self.recent.all_of, lambda word: self.word_since if word == self.word else None)
        found = [self._judge(side, waits, context.record) for side in here]
        most = worst(*found)
        if most is not None and most is not QUIET:
            self.since = here[found.index(most)].began
        return most

    def _judge(self, side: _Side, waits: goodput.Waits, record: int) -> Finding | None:
        """Waiting half of the step is a fault even from the start, if it is known what the side waits for."""
        is_trainer = side is self.sides[0]
        share = waits.trainer if is_trainer else waits.generation
        if share is None:
            return None
        base = side.start.value
        side.start.push(share)
        is_held_up = waits.training in ("starved", "waiting", "blocked")
        if record < _LEAST or not (is_held_up if is_trainer else waits.is_held or waits.generating == "starved"):
            return QUIET
        thresholds, words, works = self.thresholds, (side.metric, waits.sentence), self.thresholds["works"]
        # A side that already waits most of the time cannot wait much longer, so judge the share that it works too.
        has_risen = base is not None and (share > thresholds["rise"] * base or 1.0 - share < works * (1.0 - base))
        if has_risen and share >= thresholds["from"]:
            return Finding(WARN, share, base, None, words=words)
        level = WARN if share >= thresholds["warn"] and (not is_trainer or waits.training != "waiting") else INFO
        return Finding(level, share, None, thresholds["info"], words=words)


class WaitsForFew(Detector):
    """P21: a step waited for its batch with most rollouts done (NeMo-RL #3238, #4223: whole groups are buffered)."""

    waits = Window(20)

    def detect(self, context: RuleContext) -> Finding | None:
        values, thresholds = context.values, self.thresholds
        waited, step = goodput.trainer_wait(values)
        if waited is None or not step:
            return None
        usual, known = self.waits.median, self.waits.count
        self.waits.push(waited)
        slowest, mean = slowest_rollout(context)
        if waited < thresholds["share"] * step or waited < thresholds["floor_s"]:
            return QUIET
        is_alone = slowest > thresholds["times"] * mean > 0.0
        if not is_alone and (known < _LEAST // 2 or waited <= thresholds["sudden"] * usual):
            return QUIET
        extra = (slowest, mean, values.get("queue_missing", 0.0)) if is_alone else (0.0, 0.0, 0.0)
        return Finding(WARN, waited, usual if known else None, None, extra)

    def headline(self, finding: Finding) -> str:
        slowest, mean, missing = finding.extra
        base = finding.baseline or 0.0
        usual = f" (usually {duration(base)})" if 0.0 < base < 0.5 * finding.value else ""
        few = f": slowest rollout {duration(slowest)}, mean {duration(mean)}" if slowest else ""
        lacks = f"; the batch lacked {number(missing)}" if missing else ""
        return f"a step waited {duration(finding.value)} for its batch{usual}{few}{lacks}"


class ThrownAway(Detector):
    """G7: completed rollouts without any fault are not trained on, because they are too old or surplus."""

    recent = _Recent(goodput.METRICS, goodput.LATELY)

    def detect(self, context: RuleContext) -> Finding | None:
        if context.values.keys().isdisjoint(goodput.METRICS):
            return None
        self.recent.take(context.values)
        if context.record % _EVERY:
            return None
        found = goodput.measure(self.recent.all_of, context.group_size, min(context.record, goodput.LATELY))
        if found is None or found.records < _LEAST:
            return QUIET
        lost = found.shares.get("stale", 0.0)
        lost += found.shares.get("filtered", 0.0) if "filtered" in found.counted else 0.0
        beyond = self.crossed(lost, ((WARN, "warn"), (INFO, "info")))
        return beyond if beyond is QUIET else beyond._replace(words=(found.sentence,))

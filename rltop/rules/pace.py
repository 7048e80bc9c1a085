"""Pace: intermittent slow steps; whether the typical step became slower is `performance`'s."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rltop.rules.context import RuleContext
from rltop.rules.performance import EXTRA_STAGES, Work, own_time
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen
from rltop.units import duration, number, percent

_RARE = 0.05
_RAISED = 1.35
"""Above this multiple of run start a record between the slow ones is not typical: then the level has moved."""
_SKIPPED = 3
"""Records that the baseline leaves out: compilation and warm-up."""
_EVALUATIONS = 2
"""So many evaluations in steps of typical length, and none in a longer one: the step does not contain them."""


def _seconds(context: RuleContext) -> float | None:
    """Seconds of a step without checkpoint and validation, or None."""
    values = context.values
    seconds = values.get("time_step")
    if "time_save" in values or "time_eval" in values:
        seconds = own_time(context.observation)
    return seconds if seconds is not None and seconds > 0.0 else None


class SlowNowAndThen(Detector):
    """P16: most steps are as fast as ever, and every few records one takes a multiple of that."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.work = Work()
        self.start = Frozen()
        self.per_token = Frozen()
        self.head: list[tuple[float, float | None]] = []
        self.evaluated: list[float] = []
        self.is_outside = False
        self.slow = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))
        self.raised = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))
        self.line = 0.0
        self.newest = 0.0
        self.has_rollouts = False

    def detect(self, context: RuleContext) -> Finding | None:
        values, slow, start = context.values, self.slow, self.start
        seconds = values.get("time_step")
        if seconds is not None and seconds <= self.line and start.is_final:
            self.work.total = values.get("num_tokens")
            if not slow.bits:
                return QUIET
            slow.push(False)
            self.raised.push(seconds > _RAISED * (start.value or 0.0))
            return self._count()
        tokens, seconds = self.work.of(values), _seconds(context)
        if seconds is None or "time_save" in values or "time_eval" in values:
            return None
        if "val_score" in values and not self._holds_no_evaluation(seconds):
            return None
        if "response_len_mean" in values or "reward_mean" in values:
            self.has_rollouts = True
        elif self.has_rollouts:
            # A step that reuses an earlier rollout is short; among the others it would hide theirs.
            return None
        if not start.is_final:
            self._learn(seconds, tokens)
        return self._compare(seconds, tokens)

    def _holds_no_evaluation(self, seconds: float) -> bool:
        """Whether evaluations are known to lie outside the step time, so that this record is one like the others."""
        base = self.start.value
        if self.is_outside or self.start.is_final:
            return self.is_outside
        if base is not None:
            usual = sum(one <= _RAISED * base for one in self.evaluated)
            self.is_outside = usual >= _EVALUATIONS and usual == len(self.evaluated)
        if not self.is_outside:
            self.evaluated.append(seconds)
        return self.is_outside

    def _compare(self, seconds: float, tokens: float | None) -> Finding:
        if self.start.value is None:
            return QUIET
        self._take(seconds, tokens)
        return self._count()

    def _take(self, seconds: float, tokens: float | None) -> None:
        usual = self.per_token.value
        is_longer = bool(tokens and usual) and seconds <= self.thresholds["per_token"] * (usual or 0.0) * (
            tokens or 0.0
        )
        is_slow = seconds > self.line and not is_longer
        self.slow.push(is_slow)
        self.raised.push(False)
        if is_slow:
            self.newest = seconds

    def _learn(self, seconds: float, tokens: float | None) -> None:
        """The typical step at run start, and the threshold; steps that are slow there already are ordinary."""
        start, thresholds = self.start, self.thresholds
        was_known = start.value is not None
        if not was_known:
            self.head.append((seconds, tokens))
        start.push(seconds)
        if tokens:
            self.per_token.push(seconds / tokens)
        base = start.value
        if base is None:
            return
        factor = max(thresholds["warn"], math.exp(thresholds["sigmas"] * start.log_spread))
        self.line = base * (max(factor, thresholds["short_warn"]) if base < thresholds["short_s"] else factor)
        if sum(one > self.line for one, _ in self.head[1:]) > max(1.0, _RARE * len(self.head)):
            self.line = math.inf
        if not was_known:
            # Only now is the baseline known: a slow step among the last ones counts, as it would later.
            for one, work in self.head[_SKIPPED:-1]:
                self._take(one, work)

    def _count(self) -> Finding:
        """Enough of them, and since the first not so many that the typical step itself is slow."""
        slow = self.slow
        found = slow.bits.bit_count()
        if found < slow.n or found > (slow.oldest + 1) // 2 or self.raised.is_met or self.newest <= self.line:
            return QUIET
        return Finding(WARN, self.newest, self.start.value, self.line, (float(found), float(slow.m)))

    def headline(self, finding: Finding) -> str:
        found, held = finding.extra
        base = finding.baseline or 0.0
        return (
            f"{found:.0f} of the last {held:.0f} steps ({percent(found / held)}) took about {duration(finding.value)}, "
            f"the rest {duration(base)}"
        )


_MOST = 0.5
"""Part of what a slow step adds that lies in its logged stages."""
_LATE = 1.5
"""So many periods without a slow step end it."""
_EXPLAINS = ("val_score", "val_loss", "val_acc", "val_best", "val_passk")


class PeriodicCost(Detector):
    """P17: every so-many-th step takes a multiple of the others, and together they take much of the run."""

    start = Frozen()
    head: list[tuple[int, int, float, float, float]] = []
    line = math.inf
    slow: tuple[tuple[int, int, float, float, float, float], ...] = ()
    between = between_gen = between_inside = 0.0
    found: Finding = QUIET
    until = 0
    was_explained = has_rollouts = False
    checkpoints: frozenset[int] = frozenset()

    def take_checkpoints(self, steps: Sequence[int]) -> None:
        self.checkpoints = frozenset(steps)

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        seconds = values.get("time_step")
        if seconds is None or seconds <= 0.0 or self._is_explained(context):
            return None
        is_usual = self.start.is_final and seconds <= self.line
        if is_usual and not self.slow:
            return QUIET  # what lies before the first slow step is between no two of them
        step, record, gen = context.observation.step, context.record, values.get("time_gen", 0.0)
        stages = context.observation.stages
        inside = sum(stages.values()) - sum([stages.get(name, 0.0) for name in EXTRA_STAGES])
        if is_usual:
            self._pass(seconds, gen, inside)
        elif self.start.is_final:
            self._take(record, step, seconds, gen, inside)
        else:
            self._learn(record, step, seconds, gen, inside)
        return self.found if record <= self.until else QUIET

    def _is_explained(self, context: RuleContext) -> bool:
        values = context.values
        if "response_len_mean" in values or "reward_mean" in values:
            self.has_rollouts = True
        elif self.has_rollouts:
            return True
        was = self.was_explained
        self.was_explained = (
            not values.keys().isdisjoint(_EXPLAINS)
            or values.get("time_save", 0.0) > 0.0
            or values.get("time_eval", 0.0) > 0.0
            or context.observation.step in self.checkpoints
        )
        # A step time taken from the clock holds the evaluation of the step before.
        return was or self.was_explained

    def _pass(self, seconds: float, gen: float, inside: float) -> None:
        self.between += seconds
        self.between_gen += gen
        self.between_inside += inside

    def _learn(self, record: int, step: int, seconds: float, gen: float, inside: float) -> None:
        self.start.push(seconds)
        base = self.start.value
        if base is None:
            self.head.append((record, step, seconds, gen, inside))
            return
        self.line = self.thresholds["times"] * base
        for one in (*self.head[_SKIPPED:], (record, step, seconds, gen, inside)):
            if one[2] > self.line:
                self._take(*one)
            else:
                self._pass(*one[2:])
        self.head = []

    def _take(self, record: int, step: int, seconds: float, gen: float, inside: float) -> None:
        """One more slow step: is it as far from the last one as those were from each other?"""
        keep = int(self.thresholds["n"])
        self.slow = (*self.slow, (record, step, seconds, gen, self.between, inside))[-keep:]
        fast_gen, fast_inside = self.between_gen, self.between_inside
        self.between = self.between_gen = self.between_inside = 0.0
        gaps = {after[0] - before[0] for before, after in zip(self.slow, self.slow[1:], strict=False)}
        if len(self.slow) < keep or len(gaps) > 1 or min(gaps) < self.thresholds["apart"]:
            self.found = QUIET
            return
        period = gaps.pop()
        typical = self.slow[-1][4] / (period - 1)
        if typical <= 0.0 or (gen > 0.5 * seconds and fast_gen < 0.1 * gen):
            # The others generate nothing: this is the step with the rollout.
            self.found = QUIET
            return
        taken = self.slow[1:]
        whole = sum([one[2] + one[4] for one in taken])
        share = sum([one[2] - typical for one in taken]) / whole
        # No checkpoint or evaluation that nobody logs takes its time in a stage of the step.
        is_inside = inside - fast_inside / (period - 1) > _MOST * (seconds - typical)
        line = self.thresholds["inside" if is_inside else "warn"]
        self.found = self._judge(share, line, typical, step - self.slow[-2][1])
        self.until = record + int(_LATE * period)

    def _judge(self, share: float, line: float, typical: float, period: int) -> Finding:
        if share < self.thresholds["info"]:
            return QUIET
        mean = sum([one[2] for one in self.slow[1:]]) / (len(self.slow) - 1)
        is_costly = share >= line and typical >= self.thresholds["short_s"]
        return Finding(
            WARN if is_costly else INFO,
            share,
            None,
            line if is_costly else self.thresholds["info"],
            (float(period), mean, typical),
        )

    def headline(self, finding: Finding) -> str:
        period, slow, typical = finding.extra
        return (
            f"every {_ordinal(int(period))} step takes {number(slow / typical)}×: {percent(finding.value)} of the time "
            f"({duration(slow)}, the rest {duration(typical)}); no checkpoint or evaluation logged there"
        )


def _ordinal(count: int) -> str:
    ending = "th" if count % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"

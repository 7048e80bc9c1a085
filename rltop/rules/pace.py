"""Pace: steps that are longer for a good reason, and steps that are slow only now and then.

Beside `performance`, which asks whether the usual step became slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules.context import RuleContext
from rltop.rules.performance import Work, own_time
from rltop.rules.rule import INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen
from rltop.units import duration, number, percent

_RARE = 0.05
_RAISED = 1.35
"""Above this part of the start a record between the slow ones is no usual one: then it is the level that moved."""
_SKIPPED = 3
"""Records that the baseline leaves out: compilation and warm-up."""
_EVALUATIONS = 2
"""So many evaluations in steps of the usual length, and none in a longer one: the step does not contain them."""


def _seconds(context: RuleContext) -> float | None:
    """Seconds of a step, checkpoint and validation taken out, or None."""
    values = context.values
    seconds = values.get("time_step")
    if "time_save" in values or "time_eval" in values:
        seconds = own_time(context.observation)
    return seconds if seconds is not None and seconds > 0.0 else None


class LongerForLonger(Detector):
    """P2: the step takes longer because there is more to do in it; time per token is as it was."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.work = Work()
        self.start = Frozen()
        self.per_token = Frozen()
        self.warn = thresholds["info"]
        self.line = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the run's own start."""
        values = context.values
        seconds = values.get("time_step")
        if seconds is None:
            return None
        if seconds <= self.line:
            # What a checkpoint may have added to it is nothing to ask for.
            self.work.total = values.get("num_tokens")
            return QUIET
        tokens, seconds = self.work.of(values), _seconds(context)
        if seconds is None or not tokens:
            return None
        start, base = self.start, self.start.value
        if not start.is_final:
            start.push(seconds)
            self.per_token.push(seconds / tokens)
            if start.is_final and start.value is not None:
                self.line = self.warn * start.value
        if base is None or seconds <= self.warn * base:
            return QUIET
        usual = self.per_token.value
        if usual is None or seconds / tokens > self.thresholds["per_token"] * usual:
            return QUIET
        return Finding(INFO, seconds, base, self.warn * base, (tokens * usual / base,))

    def headline(self, finding: Finding) -> str:
        """Now, at the start, and how much more there is to do."""
        base = finding.baseline or 0.0
        what = "answers" if self.work.is_length else "tokens of the step"
        return (
            f"step {duration(finding.value)}, {duration(base)} at the start: {what} {number(finding.extra[0])}×, "
            "time per token as before"
        )


class SlowNowAndThen(Detector):
    """P16: most steps take what they always took, and every few records one takes a multiple of it.

    Five of eight never see that. A run that is so from its start (a step in which
    validation hides, a cache that is cleared) is not accused of it.
    """

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
        """Slow records among the last `m`; those with an evaluation or a checkpoint do not count."""
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
            # A step that learns from a rollout of before is short; among the others it would hide theirs.
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
        """One more record, where what is usual is known."""
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
        """The usual step of the start, and the line; what is slow there already is this run's way."""
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
            # Only now is it known what is usual: a slow step among the last ones counts, as it would later.
            for one, work in self.head[_SKIPPED:-1]:
                self._take(one, work)

    def _count(self) -> Finding:
        """Enough of them, and since the first not so many that the usual step itself is slow."""
        slow = self.slow
        found = slow.bits.bit_count()
        if found < slow.n or found > (slow.oldest + 1) // 2 or self.raised.is_met:
            return QUIET
        return Finding(WARN, self.newest, self.start.value, self.line, (float(found), float(slow.m)))

    def headline(self, finding: Finding) -> str:
        """How often, and how slow."""
        found, held = finding.extra
        base = finding.baseline or 0.0
        return (
            f"{found:.0f} of the last {held:.0f} steps ({percent(found / held)}) took about {duration(finding.value)}, "
            f"the others {duration(base)}"
        )


RULES = (
    RuleSpec(
        id="P2",
        title="longer steps",
        family="performance",
        group=Group.SYSTEM,
        metrics=("time_step", "total_tokens", "num_tokens", "response_len_mean"),
        detector=LongerForLonger,
        condition="Step time above `info`× the run's start in 5 of 8 records, and time per token (per token of the "
        "mean answer where none are counted) within `per_token`× of it: INFO.",
        thresholds={"info": 1.3, "per_token": 1.2},
        n_of_m={INFO: NOfM(5, 8)},
        warm_up=13,
        resets_on_phase=True,
        evidence=EvidenceNames("step", "at the start", Unit.SECONDS),
        why="The machines are as fast as they were; the answers are longer. Whether that is wanted is the question.",
        causes=("longer answers", "longer prompts", "a larger batch"),
        next=("response_len_mean", "total_tokens", "truncated_frac", "reward_mean"),
        sources="the lines of P1.",
    ),
    RuleSpec(
        id="P16",
        title="slow now and then",
        family="performance",
        group=Group.SYSTEM,
        metrics=("time_step",),
        detector=SlowNowAndThen,
        condition="At least `n` of the last `m` records without checkpoint and validation (those with one count where "
        "two early ones, and all of them, took the usual time: it lies outside the step), and at most half of "
        "those since the first of them, above "
        "`warn`× the run's start (or exp(`sigmas` × its own noise), or `short_warn`× for steps shorter than `short_s` "
        "seconds) and above `per_token`× its time per token, and not more than one record in twenty of that start: "
        "WARN.",
        thresholds={"n": 3, "m": 15, "warn": 1.8, "sigmas": 4.0, "per_token": 1.4, "short_s": 1.0, "short_warn": 3.0},
        clear_after=10,
        warm_up=16,
        resets_on_phase=True,
        evidence=EvidenceNames("step", "at the start", Unit.SECONDS),
        why="The time is lost in single steps, so that no average and no usual step shows it.",
        causes=(
            "one answer or tool call that takes far longer than the rest",
            "an inference server that preempts or recompiles",
            "other jobs on the node or the file system",
            "garbage collection, or caches that are cleared",
        ),
        next=("time_gen", "time_gen_sample_max", "preempted_max", "response_len_max", "group_len_ratio"),
        sources="judgement; the detector of P1, five of eight records, never fires on one slow step in four.",
    ),
)

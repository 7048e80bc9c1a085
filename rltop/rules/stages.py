"""Stages: does one stage take too much of the step time?

A share that a run has from its start is its setup, and INFO; a growing share is
a fault. Idle times only matter where generation and training are disaggregated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules.context import RuleContext
from rltop.rules.performance import own_time
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    Finding,
    Subject,
)
from rltop.stats.rolling import Frozen, Window
from rltop.units import duration, percent

_MIN_SAMPLES = 10
_KNOWN_RECORDS = 64
"""By then the baselines of logged stages are final."""
_EVERY = 4
"""Non-core stages and unaccounted time are not urgent: every fourth record is looked at."""
_REPORTED = ("time_adv", "time_reward", "time_ref", "time_old_log_prob", "time_values", "time_dump", "time_load_data")
_LIGHT = frozenset({"time_adv", "time_reward", "time_dump", "time_load_data"})
"""Stages that should take next to no time; the others are passes over the whole batch."""


class TrainerIdle(Detector):
    """P9: the share of step time that one side waits for the other.

    Attributes:
        share: canonical name of the logged share.
        seconds: canonical name of the waiting time, where the share is not logged.
    """

    share, seconds = "trainer_idle_frac", "time_wait_data"
    text = "trainer idle {value:%} of step time{was:%}: generation is the bottleneck"
    start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """The logged share, else waiting time over step time."""
        values = context.values
        value = values.get(self.share)
        if value is None:
            waited, step = values.get(self.seconds), values.get("time_step")
            if waited is None or not step:
                return None
            value = waited / step
        start, thresholds = self.start, self.thresholds
        base = start.push(value)
        if value <= thresholds["info"] * (RELEASE if self.is_firing else 1.0):
            return QUIET
        has_risen = base is not None and value > thresholds["rise"] * base
        if value > thresholds["crit"] and has_risen:
            return Finding(CRIT, value, base, thresholds["crit"])
        return Finding(WARN if has_risen else INFO, value, base, thresholds["info"])


class SamplersIdle(TrainerIdle):
    """P10."""

    share, seconds = "rollouter_idle_frac", "time_wait_policy"
    text = "samplers idle {value:%} of step time{was:%}: training is the bottleneck"


_SYNCS = ("time_weight_sync", "time_weight_sync_infer")


class WeightSync(Detector):
    """P11: syncing new weights to the samplers."""

    further = (("seconds", Unit.SECONDS),)
    start = Frozen()
    seconds = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        """As a share of the step against run start, and in seconds against the baseline."""
        values = context.values
        seconds = max((values[name] for name in _SYNCS if name in values), default=-1.0)
        step = values.get("time_step")
        if not step or seconds < 0.0:
            return None
        thresholds, start, window = self.thresholds, self.start, self.seconds
        share, base = seconds / step, start.value
        start.push(share)
        usual, known = window.median, window.count
        if not self.is_firing:
            window.push(seconds)
        if known >= _MIN_SAMPLES and seconds > max(thresholds["floor_s"], thresholds["jump"] * usual):
            return Finding(WARN, share, base, thresholds["share"], (seconds, usual))
        if share <= thresholds["share"] * (RELEASE if self.is_firing else 1.0):
            return QUIET
        has_risen = base is not None and share > thresholds["rise"] * base and seconds > thresholds["floor_s"]
        return Finding(WARN if has_risen else INFO, share, base, thresholds["share"], (seconds, window.median))

    def headline(self, finding: Finding) -> str:
        seconds, usual = finding.extra
        before = f" (baseline {duration(usual)})" if duration(usual) != duration(seconds) else ""
        return f"weight sync {duration(seconds)}{before}: {percent(finding.value)} of step time"


class AuxiliaryStage(Detector):
    """P12: a stage other than generation and update takes too much of the step."""

    further = (("seconds", Unit.SECONDS),)
    start: dict[str, Frozen] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        """The worst of the stages that are logged."""
        values = context.values
        step = values.get("time_step")
        if not step:
            return None
        if context.record > _KNOWN_RECORDS and context.record % _EVERY:
            return None
        return self._worst(values, step)

    def _worst(self, values: Mapping[str, float], step: float) -> Finding:
        thresholds, worst = self.thresholds, QUIET
        for name in _REPORTED:
            seconds = values.get(name)
            if seconds is None:
                continue
            start = self.start.get(name)
            if start is None:
                start = self.start[name] = Frozen()
            base = start.push(seconds)
            share = seconds / step
            line = thresholds["light" if name in _LIGHT else "heavy"]
            if share <= line or share > 1.0:
                continue
            has_grown = base is not None and seconds > thresholds["rise"] * base
            # The logarithm only where it could count.
            has_grown = has_grown and seconds > math.exp(thresholds["sigmas"] * start.log_spread) * (base or 0.0)
            is_absurd = name in _LIGHT and share > thresholds["absurd"]
            level = WARN if has_grown or is_absurd else INFO
            if level > worst.level or (level == worst.level and share > worst.value):
                worst = Finding(level, share, None, line, (seconds, base or 0.0), (name.removeprefix("time_"),))
        return worst

    def subject(self, finding: Finding) -> Subject:
        return Subject(f"time_{finding.words[0]}")

    def headline(self, finding: Finding) -> str:
        seconds, base = finding.extra
        start = f" (baseline {duration(base)})" if base else ""
        return f"{finding.words[0]}: {percent(finding.value)} of step time, {duration(seconds)}{start}"


class Unexplained(Detector):
    """P14: step time that no logged stage accounts for."""

    text = "{value:%} of step time unaccounted for ({extra[0]:s})"

    def detect(self, context: RuleContext) -> Finding | None:
        """Only where stages follow one another: where they overlap, their sum says nothing."""
        if context.record % _EVERY:
            return None
        stages = context.observation.stages
        if not stages or context.traits.is_async or not any(stages.values()):
            return None
        seconds = own_time(context.observation)
        if not seconds:
            return None
        extras = context.values.get("time_save", 0.0) + context.values.get("time_eval", 0.0)
        missing = 1.0 - (sum(stages.values()) - extras) / seconds
        if missing <= self.thresholds["info"]:
            return QUIET
        return Finding(INFO, missing, None, self.thresholds["info"], (missing * seconds,))

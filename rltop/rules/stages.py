"""Stages: does one stage take too much of the step time?

A share that a run has from its start is its setup, and INFO; a growing share is
a fault. Idle times only matter where generation and training are disaggregated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from rltop.model import Algorithm, Traits, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import EIGHT_OF_TEN, RUN_START, Creep, Grown
from rltop.rules.performance import own_time
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
    Group,
    NOfM,
    RuleSpec,
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


class IdleShare(Detector):
    """P9, P10: the share of step time that one side waits for the other."""

    def __init__(self, thresholds: Mapping[str, float], *, share: str, seconds: str, who: str, bound: str) -> None:
        """Watch one side's idle time.

        Args:
            thresholds: by name.
            share: canonical name of the logged share.
            seconds: canonical name of the waiting time, where the share is not logged.
            who: which side is idle, for the headline.
            bound: what that makes the bottleneck, for the headline.
        """
        super().__init__(thresholds)
        self.share, self.seconds, self.who, self.bound = share, seconds, who, bound
        self.start = Frozen()

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

    def headline(self, finding: Finding) -> str:
        start = f" (baseline {percent(finding.baseline)})" if finding.baseline is not None else ""
        return f"{self.who} {percent(finding.value)} of step time{start}: {self.bound}"


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


_WAITING = {level: NOfM(10, 15) for level in (INFO, WARN, CRIT)}
_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN)}


class ReaderCreep(Creep):
    """P18: waiting for or loading the batch takes a multiple of run start, and much of the step."""

    text = "batch reading {baseline:s} → {value:s} since the start"
    length = Grown("response_len_mean")
    name = ""

    def read(self, context: RuleContext) -> float | None:
        """Seconds of the stage that is logged."""
        values = context.values
        self.length.note(values)
        if not self.name:
            self.name = next((name for name in _READING if name in values), "")
        return values.get(self.name)

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Little of the step, or completions that are as much longer."""
        values = context.values
        step = values.get("time_step", 0.0)
        if step > 0.0 and values[self.name] < self.thresholds["share"] * step:
            return True
        grown = self.length.factor(values)
        return grown is not None and grown > 0.5 * factor

    def subject(self, finding: Finding) -> Subject:
        return Subject(self.name)


_READING = ("time_load_data", "time_wait_data")


def _reads_in_step(algorithm: Algorithm, traits: Traits) -> bool:
    """Where one part may wait for the other it is P9's."""
    return not applicability.is_disaggregated(algorithm, traits)


_row = partial(RuleSpec, family="performance", group=Group.SYSTEM)

RULES = (
    _row(
        id="P9",
        title="trainer idle",
        metrics=("trainer_idle_frac", "time_wait_data"),
        detector=lambda thresholds: IdleShare(
            thresholds, share="trainer_idle_frac", seconds="time_wait_data", who="trainer idle",
            bound="generation is the bottleneck",
        ),
        thresholds={"info": 0.3, "crit": 0.7, "rise": 1.5},
        n_of_m=_WAITING,
        warm_up=13,
        applies=applicability.is_disaggregated,
        evidence=EvidenceNames("share of step time", "baseline", Unit.FRACTION),
    ),
    _row(
        id="P10",
        part_of="P9",
        title="samplers idle",
        metrics=("rollouter_idle_frac", "time_wait_policy"),
        detector=lambda thresholds: IdleShare(
            thresholds, share="rollouter_idle_frac", seconds="time_wait_policy",
            who="samplers idle", bound="training is the bottleneck",
        ),
        thresholds={"info": 0.3, "crit": 0.7, "rise": 1.5},
        n_of_m=_WAITING,
        warm_up=13,
        applies=applicability.is_disaggregated,
        evidence=EvidenceNames("share of step time", "baseline", Unit.FRACTION),
    ),
    _row(
        id="P11",
        part_of="P12",
        title="weight sync",
        metrics=_SYNCS,
        measures="share of step time",
        detector=WeightSync,
        thresholds={"share": 0.15, "rise": 1.5, "jump": 3.0, "floor_s": 5.0},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("share of step time", "baseline", Unit.FRACTION),
    ),
    _row(
        id="P12",
        title="slow stage",
        metrics=_REPORTED,
        measures="share of step time",
        detector=AuxiliaryStage,
        thresholds={"light": 0.1, "heavy": 0.25, "rise": 3.0, "sigmas": 3.0, "absurd": 0.5},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("share of step time", "baseline", Unit.FRACTION),
    ),
    _row(
        id="P14",
        title="unaccounted step time",
        metrics=("time_step",),
        measures="unaccounted share of step time",
        detector=Unexplained,
        thresholds={"info": 0.2},
        n_of_m={INFO: NOfM(5, 8)},
        evidence=EvidenceNames("share of step time", "baseline", Unit.FRACTION),
    ),
    _row(
        id="P18",
        part_of="P12",
        title="slow batch reading",
        metrics=_READING,
        detector=ReaderCreep,
        thresholds={"warn": 5.0, "floor": 30.0, "sigmas": 4.0, "share": 0.25},
        n_of_m=EIGHT_OF_TEN,
        applies=_reads_in_step,
        evidence=EvidenceNames("batch reading", RUN_START, Unit.SECONDS),
    ),
)  # fmt: skip

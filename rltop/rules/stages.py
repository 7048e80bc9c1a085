"""Stages: does one stage take too much of the step time?

A share that a run has from its start is its setup, and INFO; a growing share is
a fault. Idle times only matter where generation and training are disaggregated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above
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
from rltop.units import duration, number, percent

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
        """Share, baseline, and the bottleneck."""
        start = f" ({percent(finding.baseline)} at run start)" if finding.baseline is not None else ""
        return f"{self.who} {percent(finding.value)} of step time{start}: {self.bound}"


class WeightSync(Detector):
    """P11: syncing new weights to the samplers."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()
        self.seconds = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        """As a share of the step against run start, and in seconds against the baseline."""
        seconds, step = context.values.get("time_weight_sync"), context.values.get("time_step")
        if seconds is None or not step or seconds < 0.0:
            return None
        thresholds, start, window = self.thresholds, self.start, self.seconds
        share, base = seconds / step, start.value
        start.push(share)
        usual, known = window.median, window.count
        window.push(seconds)
        if known >= _MIN_SAMPLES and seconds > max(thresholds["floor_s"], thresholds["jump"] * usual):
            return Finding(WARN, share, base, thresholds["share"], (seconds, usual))
        if share <= thresholds["share"] * (RELEASE if self.is_firing else 1.0):
            return QUIET
        has_risen = base is not None and share > thresholds["rise"] * base and seconds > thresholds["floor_s"]
        return Finding(WARN if has_risen else INFO, share, base, thresholds["share"], (seconds, window.median))

    def headline(self, finding: Finding) -> str:
        """Seconds, baseline seconds, share."""
        seconds, usual = finding.extra
        return f"weight sync {duration(seconds)} (baseline {duration(usual)}): {percent(finding.value)} of step time"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Share, baseline, threshold, seconds."""
        return (*names.of(finding), Evidence("seconds", finding.extra[0], Unit.SECONDS))


class AuxiliaryStage(Detector):
    """P12: a stage other than generation and update takes too much of the step."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start: dict[str, Frozen] = {}

    def clone(self) -> AuxiliaryStage:
        """An independent copy."""
        twin = super().clone()
        twin.start = {name: start if start.is_final else start.clone() for name, start in self.start.items()}
        return twin

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
        """The stage."""
        return Subject(f"time_{finding.words[0]}")

    def headline(self, finding: Finding) -> str:
        """Which stage, its time, its share of the step."""
        seconds, base = finding.extra
        start = f" ({duration(base)} at run start)" if base else ""
        return f"{finding.words[0]}: {percent(finding.value)} of step time, {duration(seconds)}{start}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Share, threshold, seconds."""
        return (*names.of(finding), Evidence("seconds", finding.extra[0], Unit.SECONDS))


class Unexplained(Detector):
    """P14: step time that no logged stage accounts for."""

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

    def headline(self, finding: Finding) -> str:
        """How much."""
        return f"{percent(finding.value)} of step time unaccounted for ({duration(finding.extra[0])})"


def _preemptions(thresholds: Mapping[str, float]) -> Above:
    return Above(
        thresholds,
        metric="preempted_mean",
        text=f"{{value}} preemptions per rollout on average (threshold {number(thresholds['warn'])}): KV cache full",
    )


_WAITING = {level: NOfM(10, 15) for level in (INFO, WARN, CRIT)}
_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN)}

RULES = (
    RuleSpec(
        id="P9",
        title="trainer idle",
        family="performance",
        group=Group.SYSTEM,
        metrics=("trainer_idle_frac", "time_wait_data"),
        detector=lambda thresholds: IdleShare(
            thresholds, share="trainer_idle_frac", seconds="time_wait_data", who="trainer idle",
            bound="generation is the bottleneck",
        ),
        condition="Where generation and training are disaggregated: idle above `info` of the step in 10 of 15 records: "
        "INFO; and above `rise`× run start: WARN; likewise above `crit`: CRIT.",
        thresholds={"info": 0.3, "crit": 0.7, "rise": 1.5},
        n_of_m=_WAITING,
        warm_up=13,
        applies=applicability.is_disaggregated,
        evidence=EvidenceNames("share of step time", "baseline (run start)", Unit.FRACTION),
        why="The training GPUs idle while the samplers work.",
        causes=("too few samplers", "growing completions", "a few very long rollouts", "a lost sampler"),
        next=("time_gen", "queue_size", "response_len_mean", "time_gen_sample_max", "preempted_max"),
        sources="veRL docs/advance/fully_async.md: 0.15 to 0.22 in practice; when colocated it is no signal.",
    ),
    RuleSpec(
        id="P10",
        title="samplers idle",
        family="performance",
        group=Group.SYSTEM,
        metrics=("rollouter_idle_frac", "time_wait_policy"),
        detector=lambda thresholds: IdleShare(
            thresholds, share="rollouter_idle_frac", seconds="time_wait_policy",
            who="samplers idle", bound="training is the bottleneck",
        ),
        condition="Idle above `info` of the step in 10 of 15 records: INFO; and above `rise`× run start: "
        "WARN; likewise above `crit`: CRIT.",
        thresholds={"info": 0.3, "crit": 0.7, "rise": 1.5},
        n_of_m=_WAITING,
        warm_up=13,
        applies=applicability.is_disaggregated,
        evidence=EvidenceNames("share of step time", "baseline (run start)", Unit.FRACTION),
        why="The sampler GPUs idle while the trainer works.",
        causes=("too few training GPUs", "slow weight sync", "a slow update"),
        next=("time_update_actor", "time_weight_sync", "queue_size", "staleness_mean", "mfu"),
        sources="the mirror of P9.",
    ),
    RuleSpec(
        id="P11",
        title="weight sync",
        family="performance",
        group=Group.SYSTEM,
        metrics=("time_weight_sync",),
        measures="share of step time",
        detector=WeightSync,
        condition="Above `share` of the step in 5 of 10 records: INFO; and above `rise`× its share at run start and "
        "`floor_s` seconds, or above `jump`× the median of 50 records and `floor_s` seconds: WARN.",
        thresholds={"share": 0.15, "rise": 1.5, "jump": 3.0, "floor_s": 5.0},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("share of step time", "baseline (run start)", Unit.FRACTION),
        why="Samplers and trainer idle during the sync, and a failed sync leaves the samplers on old weights.",
        causes=("a slow or shared network", "weights sent through a file system", "a restarting sampler"),
        next=("time_step", "off_policy_kl", "staleness_mean", "time_gen"),
        sources="judgement.",
    ),
    RuleSpec(
        id="P12",
        title="non-core stage slow",
        family="performance",
        group=Group.SYSTEM,
        metrics=_REPORTED,
        measures="share of step time",
        detector=AuxiliaryStage,
        condition="Advantages, reward, dumps or data loading above `light` of the step, log-probabilities, reference "
        "or values above `heavy`, in 5 of 10 records (from the 65th on every fourth is looked at): INFO; grown more "
        "than `rise`× since run start, and more than exp(`sigmas` × the noise there), or a light stage above "
        "`absurd`: WARN.",
        thresholds={"light": 0.1, "heavy": 0.25, "rise": 3.0, "sigmas": 3.0, "absurd": 0.5},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("share of step time", "baseline (run start)", Unit.FRACTION),
        why="A stage that should be cheap holds up generation and update.",
        causes=(
            "an overloaded judge, sandbox or reward server",
            "a computation on the wrong device",
            "slow shared storage",
        ),
        next=("time_reward", "time_adv", "time_old_log_prob", "tool_failure_frac", "time_step"),
        sources="veRL issue 336 (advantages took 10,752 s); thresholds are judgement.",
    ),
    RuleSpec(
        id="P13",
        title="preemption",
        family="performance",
        group=Group.SYSTEM,
        metrics=("preempted_mean",),
        detector=_preemptions,
        condition="Mean number of preemptions per rollout above `warn` in 5 of 10 records; -1 means unknown.",
        thresholds={"warn": 0.1},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_rollouts,
        why="A preempted rollout recomputes its KV cache, and the step waits for it.",
        causes=("KV cache too small", "too many concurrent sequences", "growing completions"),
        next=("preempted_max", "response_len_max", "time_gen", "mem_reserved_gb"),
        sources="veRL agent_loop.py (num_preempted); the threshold is judgement.",
    ),
    RuleSpec(
        id="P14",
        title="unaccounted step time",
        family="performance",
        group=Group.SYSTEM,
        metrics=("time_step",),
        measures="unaccounted share of step time",
        detector=Unexplained,
        condition="Stages account for less than 1 - `info` of the step, checkpoint and validation apart, in 5 of 8 "
        "records, of which every fourth is looked at: INFO. Not where stages overlap.",
        thresholds={"info": 0.2},
        n_of_m={INFO: NOfM(5, 8)},
        evidence=EvidenceNames("share of step time", "baseline (run start)", Unit.FRACTION),
        why="Time that is not measured cannot be attributed to a stage.",
        causes=("an untimed stage", "data loading", "garbage collection or logging"),
        next=("time_step", "time_gen", "time_load_data", "time_dump"),
        sources="veRL's reference log: stages account for 99.8 % of the step.",
    ),
)  # fmt: skip

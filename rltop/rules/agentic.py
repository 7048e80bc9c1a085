"""Agents: failed rollouts, failing or slow tools, episodes that do not terminate.

Mostly infrastructure, not learning; but the policy learns from whatever survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import EIGHT_OF_TEN, RUN_START, Creep, Grown, Line
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen, Window
from rltop.units import number, percent

_WINDOW = 50
_MIN_SAMPLES = 10
_FALLING = 0.8
_AT_TOP = 1e-9


class MoreTurns(Detector):
    """T6: the mean number of turns doubles, or episodes run into their limit while it rises."""

    window = Window(_WINDOW)
    start = Frozen(skip=0, size=20, minimum=_MIN_SAMPLES)
    top = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """WARN on the jump; INFO where the longest episode always hits the longest length seen."""
        value = context.values.get("num_turns_mean")
        if value is None:
            return None
        window, start, thresholds = self.window, self.start, self.thresholds
        usual, known = window.median, window.count
        window.push(value)
        start.push(value)
        if known >= _MIN_SAMPLES and value > max(thresholds["floor"], thresholds["warn"] * usual):
            return Finding(WARN, value, usual, thresholds["warn"] * usual)
        longest = context.values.get("num_turns_max", 0.0)
        is_at_limit = longest >= self.top - _AT_TOP and longest > 1.0
        self.top = max(self.top, longest)
        base = start.value
        if base is None:
            return QUIET
        line = max(thresholds["info"] * base, 2.0)
        if value <= line or not is_at_limit:
            return QUIET
        return Finding(INFO, value, base, None, (longest,))

    def headline(self, finding: Finding) -> str:
        if finding.level >= WARN:
            return f"turns per episode {number(finding.baseline or 0)} → {number(finding.value)}"
        return (
            f"longest episode at {number(finding.extra[0])} turns on nearly every step; mean turns "
            f"{number(finding.baseline or 0)} → {number(finding.value)}"
        )


class ToolFailures(Detector):
    """T7: tool failure rate, by level or against its baseline."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_WINDOW)
        self.start = Frozen(skip=0, size=20, minimum=5)
        self.lowest = min(thresholds["warn"], thresholds["floor"]) * RELEASE

    def detect(self, context: RuleContext) -> Finding | None:
        """A policy that is learning to call its tools starts with failures: while they fall, it is INFO."""
        value = context.values.get("tool_failure_frac")
        if value is None:
            return None
        window, start, thresholds = self.window, self.start, self.thresholds
        base = start.push(value)
        if value <= self.lowest:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if value > thresholds["warn"] * (RELEASE if self.is_firing else 1.0):
            is_falling = base is not None and value < _FALLING * base
            return Finding(INFO if is_falling else WARN, value, usual if known else None, thresholds["warn"])
        if known >= _MIN_SAMPLES and value > thresholds["floor"] and value > thresholds["rise"] * usual:
            return Finding(WARN, value, usual, thresholds["rise"] * usual)
        return QUIET

    def headline(self, finding: Finding) -> str:
        usual = f" (baseline {percent(finding.baseline)})" if finding.baseline is not None else ""
        return f"{percent(finding.value)} of tool calls fail{usual}"


class ToolLatency(Detector):
    """T8: one rollout's tool time is several times the mean, and much of generation time."""

    further = (("share of generation", Unit.FRACTION),)
    text = "slowest tool time {value:s}, mean {baseline:s}; {extra[0]:%} of generation time"

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.factor, self.share = thresholds["info"], thresholds["share"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Longest against mean tool time, and against the time of generation."""
        values = context.values
        longest = values.get("time_tool_sample_max")
        mean, whole = values.get("time_tool_sample_mean"), values.get("time_gen")
        if longest is None or mean is None or not whole:
            return None
        if longest <= self.factor * mean or longest <= self.share * whole:
            return QUIET
        return Finding(INFO, longest, mean, None, (longest / whole,))


class TurnsCreep(Creep):
    """T10: the longest episode has many times the turns it had, the mean has not moved."""

    text = "longest episode {baseline} → {value} turns, mean turns unchanged: a few episodes no longer finish"
    mean = Grown("num_turns_mean")

    def read(self, context: RuleContext) -> float | None:
        """Turns of the longest episode."""
        self.mean.note(context.values)
        return context.values.get("num_turns_max")

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Episodes that are all longer are T6's; without a mean nothing is known of them."""
        grown = self.mean.factor(context.values)
        return grown is None or grown > self.thresholds["mean"]


_row = partial(RuleSpec, family="agentic", applies=applicability.has_rollouts)

RULES = (
    _row(
        id="T4",
        title="failed rollouts",
        group=Group.SYSTEM,
        metrics=("aborted_frac",),
        detector=partial(
            Line,
            metric="aborted_frac",
            text="{value:%} of rollouts aborted (threshold {threshold:%})",
            unit=Unit.FRACTION,
        ),
        thresholds={"warn": 0.05, "crit": 0.3},
        n_of_m={INFO: NOfM(5, 10), WARN: NOfM(5, 10), CRIT: NOfM(3, 5)},
    ),
    _row(
        id="T6",
        title="rising turn count",
        metrics=("num_turns_mean", "num_turns_max"),
        detector=MoreTurns,
        thresholds={"warn": 2.0, "floor": 4.0, "info": 1.5},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(3, 5)},
        warm_up=_MIN_SAMPLES,
        resets_on_phase=True,
    ),
    _row(
        id="T7",
        part_of="T4",
        title="tool failures",
        group=Group.SYSTEM,
        metrics=("tool_failure_frac",),
        detector=ToolFailures,
        thresholds={"warn": 0.2, "rise": 3.0, "floor": 0.05},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5)},
        evidence=EvidenceNames("tool_failure_frac", "baseline", Unit.FRACTION),
    ),
    _row(
        id="T8",
        part_of="P6",
        title="tool latency",
        group=Group.SYSTEM,
        metrics=("time_tool_sample_max", "time_tool_sample_mean", "time_gen"),
        measures="slowest tool time relative to the mean",
        detector=ToolLatency,
        thresholds={"info": 5.0, "share": 0.5},
        n_of_m={INFO: NOfM(3, 5)},
        evidence=EvidenceNames("slowest tool time", "mean", Unit.SECONDS, threshold=""),
    ),
    _row(
        id="T10",
        part_of="T6",
        title="endless episodes",
        metrics=("num_turns_max", "num_turns_mean"),
        detector=TurnsCreep,
        thresholds={"warn": 4.0, "floor": 20.0, "sigmas": 4.0, "mean": 1.5},
        n_of_m=EIGHT_OF_TEN,
        resets_on_phase=True,
        evidence=EvidenceNames("turns of the longest episode", RUN_START, Unit.COUNT),
    ),
)

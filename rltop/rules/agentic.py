"""Agents: failed rollouts, failing or slow tools, episodes that do not terminate.

Mostly infrastructure, not learning; but the policy learns from whatever survives.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen, Window
from rltop.units import duration, number, percent

_WINDOW = 50
_MIN_SAMPLES = 10
_FALLING = 0.8
_AT_TOP = 1e-9


class MoreTurns(Detector):
    """T6: the mean number of turns doubles, or episodes run into their limit while it rises."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_WINDOW)
        self.start = Frozen(skip=0, size=20, minimum=_MIN_SAMPLES)
        self.top = 0.0

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
        """Baseline and now, or the limit."""
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
        """Share and baseline."""
        usual = f" (baseline {percent(finding.baseline)})" if finding.baseline is not None else ""
        return f"{percent(finding.value)} of tool calls fail{usual}"


class ToolLatency(Detector):
    """T8: one rollout's tool time is several times the mean, and much of generation time."""

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

    def headline(self, finding: Finding) -> str:
        """Longest, mean, and the share of generation."""
        return (
            f"slowest tool time {duration(finding.value)}, mean {duration(finding.baseline or 0)}; "
            f"{percent(finding.extra[0])} of generation time"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Longest, mean, share."""
        return (*names.of(finding), Evidence("share of generation", finding.extra[0], Unit.FRACTION))


RULES = (
    RuleSpec(
        id="T4",
        title="failed rollouts",
        family="agentic",
        group=Group.SYSTEM,
        metrics=("aborted_frac",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="aborted_frac",
            text="{value} of rollouts aborted (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Above `warn` in 5 of 10 records: WARN; above `crit` in 3 of 5: CRIT.",
        thresholds={"warn": 0.05, "crit": 0.3},
        n_of_m={INFO: NOfM(5, 10), WARN: NOfM(5, 10), CRIT: NOfM(3, 5)},
        applies=applicability.has_rollouts,
        why="Aborted rollouts have length 0 and no reward; the rest of the batch is biased towards short completions.",
        causes=("prompts longer than the context", "inference server restarts", "tool or sandbox errors"),
        next=("prompt_len_mean", "response_len_mean", "tool_failure_frac", "time_gen", "num_turns_max"),
        sources="prime-rl: more than 5 % errored or empty is a smell.",
    ),
    RuleSpec(
        id="T6",
        title="rising turn count",
        family="agentic",
        group=Group.LEARNING,
        metrics=("num_turns_mean", "num_turns_max"),
        detector=MoreTurns,
        condition="Mean turns above `warn` times the median of the 50 records before and above `floor` in 3 of 5: "
        "WARN. The longest episode matching the longest so far in 10 of 15 records, the mean above `info` times "
        "the run-start baseline: INFO.",
        thresholds={"warn": 2.0, "floor": 4.0, "info": 1.5},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(3, 5)},
        warm_up=_MIN_SAMPLES,
        applies=applicability.has_rollouts,
        resets_on_phase=True,
        why="Episodes that double in turns are usually loops: a failing tool is retried, or the policy never finishes.",
        causes=("failing tools being retried", "a policy that never gives a final answer", "a changed environment"),
        next=("tool_failure_frac", "num_turns_max", "truncated_frac", "reward_mean", "time_tool_sample_max"),
        sources="judgement.",
    ),
    RuleSpec(
        id="T7",
        title="tool failures",
        family="agentic",
        group=Group.SYSTEM,
        metrics=("tool_failure_frac",),
        detector=ToolFailures,
        condition="Above `warn`, or above `rise` times the baseline and above `floor`, in 3 of 5 records: WARN; INFO "
        "while it is above `warn` but falling from a higher start.",
        thresholds={"warn": 0.2, "rise": 3.0, "floor": 0.05},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("tool_failure_frac", "baseline", Unit.FRACTION),
        why="A rollout with a failed tool call is scored for a sandbox fault, not for the policy.",
        causes=(
            "an overloaded or dead sandbox",
            "malformed tool calls",
            "timeouts",
        ),
        next=("time_tool_sample_max", "tool_call_freq", "num_turns_mean", "reward_mean"),
        sources="TRL tools/failure_frequency; thresholds are judgement.",
    ),
    RuleSpec(
        id="T8",
        title="tool latency",
        family="agentic",
        group=Group.SYSTEM,
        metrics=("time_tool_sample_max", "time_tool_sample_mean", "time_gen"),
        measures="slowest tool time relative to the mean",
        detector=ToolLatency,
        condition="Slowest tool time above `info` times the mean and above `share` of generation time in 3 of 5 "
        "records: INFO.",
        thresholds={"info": 5.0, "share": 0.5},
        n_of_m={INFO: NOfM(3, 5)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("slowest tool time", "mean", Unit.SECONDS, threshold=""),
        why="The whole batch waits for one sandbox.",
        causes=("a tool without a timeout", "an overloaded sandbox", "one very long task"),
        next=("slowest_tool", "time_gen", "num_turns_max", "tool_failure_frac"),
        sources="veRL timing_s/agent_loop; thresholds are judgement.",
    ),
)

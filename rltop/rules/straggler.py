"""Stragglers and sequence-length imbalance.

A longest completion of three times its group's median is ordinary; how much is
ordinary depends on the group size and on the run. Imbalance is judged on the
tokens the ranks really got, after balancing.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.groups import expected_ratio, rollout_times
from rltop.stats.persistence import DatedNOfMCounter
from rltop.stats.rolling import Frozen
from rltop.units import duration, number, percent


class GroupStraggler(Detector):
    """P5: longest completion over the median of its group, averaged over groups.

    The threshold is what is typical for the group size and twice run start,
    whichever is more; where run start is itself beyond what is typical, that alone.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()
        self.lasting = DatedNOfMCounter(5, 10)
        self.strong = DatedNOfMCounter(3, 5)

    def detect(self, context: RuleContext) -> Finding | None:
        """Counts n of m itself: 5 of 10 above the threshold, or 3 of 5 at twice the threshold."""
        value = context.values.get("group_len_ratio")
        if value is None:
            return None
        base = self.start.push(value)
        line = self._usual(context.group_size)
        # A run that starts beyond what is typical has no healthy baseline.
        if base is not None and base <= line:
            line = max(line, self.thresholds["rise"] * base)
        held = line * RELEASE if self.is_firing else line
        record, step = context.observation.record, context.observation.step
        lasts = self.lasting.push_at(value > held, record, step)
        is_strong = self.strong.push_at(value > 2.0 * line, record, step)
        if value <= held or not (lasts or is_strong):
            return QUIET
        return Finding(WARN, value, base, line, (float(context.group_size or 0),))

    def began(self) -> tuple[int, int] | None:
        """The first record above the threshold, not the one at which it had lasted."""
        return (self.lasting if self.lasting.is_met else self.strong).began

    def _usual(self, group_size: int | None) -> float:
        return self.thresholds["warn"] if group_size is None else expected_ratio(group_size).one_group

    def headline(self, finding: Finding) -> str:
        """Ratio, baseline and threshold."""
        size = f" for groups of {finding.extra[0]:.0f}" if finding.extra[0] else ""
        start = f"; {number(finding.baseline)} at run start" if finding.baseline is not None else ""
        return (
            f"longest completion {number(finding.value)}× its group's median (threshold "
            f"{number(finding.threshold or 0)}{size}{start})"
        )


class GroupInequality(Detector):
    """P7: Gini coefficient of the lengths within a group: INFO, beside P5."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """An absolute threshold, and a distance from run start."""
        value = context.values.get("group_len_gini")
        if value is None:
            return None
        base = self.start.push(value)
        line = self.thresholds["info"] if base is None else min(self.thresholds["info"], base + self.thresholds["rise"])
        if value > line:
            return Finding(INFO, value, base, line)
        return QUIET

    def headline(self, finding: Finding) -> str:
        """Coefficient now and at run start."""
        start = f" ({number(finding.baseline)} at run start)" if finding.baseline is not None else ""
        return f"length Gini within groups {number(finding.value)}{start}"


class BatchTail(Detector):
    """P6: slowest rollout against the mean, where generation dominates the step.

    A rollout is its generation and its tool calls. Of the slowest one both parts
    are logged; the largest of each part alone need not belong to the same one.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Seconds of the slowest sample over the mean; muted where generation is a small part of the step."""
        values = context.values
        times = rollout_times(values)
        if times is None:
            return None
        slowest, mean, tool = times.slowest_s, times.mean_s, times.tool_s or 0.0
        ratio = slowest / mean
        base = self.start.push(ratio)
        line = max(self.thresholds["warn"], self.thresholds["rise"] * base) if base is not None else None
        if line is None or ratio <= line * (RELEASE if self.is_firing else 1.0):
            return QUIET
        step = values.get("time_step")
        generation = values.get("time_gen", slowest)
        if step is None or generation < self.thresholds["share"] * step:
            return QUIET
        return Finding(WARN, ratio, base, line, (slowest, mean, tool))

    def headline(self, finding: Finding) -> str:
        """Slowest, mean, and how much of it went into tools."""
        slowest, mean, tool = finding.extra
        tools = f", {percent(tool / slowest)} of it in tool calls" if tool > 0.1 * slowest else ""
        return f"slowest rollout {duration(slowest)}, mean {duration(mean)}{tools}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Slowest, mean, ratio, threshold."""
        slowest, mean, _ = finding.extra
        return (
            Evidence("slowest", slowest, Unit.SECONDS),
            Evidence("mean", mean, Unit.SECONDS),
            Evidence("slowest / mean", finding.value),
            Evidence("baseline (run start)", finding.baseline or 0.0),
            Evidence("threshold", finding.threshold or 0.0),
        )


class LengthTail(Detector):
    """P6b: longest completion over the mean, where nothing better is logged: INFO only.

    The longest completion equals the cap on nearly every healthy step of a reasoning
    run, so this never warns.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Silent where completions are truncated, or where a better signal is logged."""
        values = context.values
        if "time_gen_sample_max" in values:
            return None
        longest, mean = values.get("response_len_max"), values.get("response_len_mean")
        if longest is None or not mean or "group_len_ratio" in values:
            return None
        ratio = longest / mean
        base = self.start.push(ratio)
        if base is None or values.get("truncated_frac", 0.0) > 0.0:
            return QUIET
        line = max(self.thresholds["info"], self.thresholds["rise"] * base)
        return Finding(INFO, ratio, base, line) if ratio > line else QUIET

    def headline(self, finding: Finding) -> str:
        """Ratio now and at run start."""
        return (
            f"longest completion {number(finding.value)}× the batch mean ({number(finding.baseline or 0)} at run start)"
        )


class SequenceImbalance(Detector):
    """P8: tokens of the heaviest rank against the lightest, after balancing.

    `minmax_diff` is the spread before balancing and is only INFO; a balanced
    spread that equals the raw one means that balancing is off.
    """

    def detect(self, context: RuleContext) -> Finding | None:
        """Spread over mean."""
        values = context.values
        mean = values.get("seqlen_mean")
        if mean is None or mean <= 0.0:
            return None
        low, high = values.get("seqlen_balanced_min"), values.get("seqlen_balanced_max")
        if low is None or high is None:
            raw = values.get("seqlen_minmax_diff")
            return None if raw is None else self._against(raw / mean, self.thresholds["raw"], is_raw=True)
        is_off = high == values.get("seqlen_max") and low == values.get("seqlen_min") and high > low
        return self._against((high - low) / mean, self.thresholds["raw" if is_off else "warn"], is_raw=False)

    def _against(self, spread: float, line: float, *, is_raw: bool) -> Finding:
        if spread <= line * (RELEASE if self.is_firing else 1.0):
            return QUIET
        return Finding(INFO if is_raw else WARN, spread, None, line)

    def headline(self, finding: Finding) -> str:
        """Spread relative to the mean."""
        what = "before balancing" if finding.level is INFO else "across ranks"
        limit = percent(finding.threshold or 0)
        return f"sequence-length imbalance {what} {percent(finding.value)} of the mean (threshold {limit})"


_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN)}
_NEXT = (
    "time_gen",
    "response_len_max",
    "truncated_frac",
    "slowest_tool",
    "num_turns_max",
    "preempted_max",
    "time_step",
)

RULES = (
    RuleSpec(
        id="P5",
        title="stragglers",
        family="straggler",
        group=Group.SYSTEM,
        metrics=("group_len_ratio",),
        detector=GroupStraggler,
        condition="Longest over median length within a group, mean over groups, above what is typical for the "
        "group size (`warn` "
        "at most, and where the size is unknown) and above `rise`× run start: 5 of 10 records, or 3 of 5 "
        "at twice "
        "that threshold. A run start beyond what is typical is no baseline.",
        thresholds={"warn": 4.0, "rise": 2.0},
        clear_after=10,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("longest / median", "baseline (run start)"),
        why="A synchronous step waits for its longest completion; the other GPUs idle.",
        causes=("completions looping to the cap", "a few much harder prompts", "hanging tool calls"),
        next=_NEXT,
        sources="log-normal lengths: typical ratio by group size and spread (see rltop/stats/groups.py).",
    ),
    RuleSpec(
        id="P6",
        title="long-tail rollouts",
        family="straggler",
        group=Group.SYSTEM,
        metrics=("time_gen_sample_max", "time_gen_sample_mean", "slowest_tool"),
        measures="slowest rollout over the mean",
        detector=BatchTail,
        condition="Slowest rollout over the mean above `warn` and above `rise`× run start, while "
        "generation is at least "
        "`share` of the step, in 5 of 10 records.",
        thresholds={"warn": 3.0, "rise": 1.5, "share": 0.4},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        why="The whole batch waits for its slowest rollout.",
        causes=("a hanging tool call or sandbox", "completions running to the cap", "an overloaded inference server"),
        next=_NEXT,
        sources="veRL agent loop statistics; tails of 2 to 4 are natural for reasoning, hence the run-start baseline.",
    ),
    RuleSpec(
        id="P6b",
        title="long-tail lengths",
        family="straggler",
        group=Group.SYSTEM,
        metrics=("response_len_max", "response_len_mean"),
        measures="longest completion over the mean",
        detector=LengthTail,
        condition="Longest completion over the mean above `info` and above `rise`× run start in 5 of 10 records: INFO.",
        thresholds={"info": 3.0, "rise": 2.0},
        n_of_m=_FIVE_OF_TEN,
        warm_up=13,
        applies=applicability.has_rollouts,
        why="A hint of stragglers where nothing better is logged.",
        causes=("looping completions", "prompts of very different difficulty"),
        next=_NEXT,
        sources="veRL: the longest completion equals the cap on 99 % of healthy steps, hence never a warning.",
    ),
    RuleSpec(
        id="P7",
        title="uneven group lengths",
        family="straggler",
        group=Group.SYSTEM,
        metrics=("group_len_gini",),
        detector=GroupInequality,
        condition="Gini coefficient of the lengths within groups above `info`, or `rise` above run start, in 5 "
        "of 10 records: INFO.",
        thresholds={"info": 0.4, "rise": 0.15},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_rollouts,
        why="A few completions hold most of the tokens: the others wait for them.",
        causes=("completions looping to the cap", "prompts of very different difficulty"),
        next=_NEXT,
        sources="judgement.",
    ),
    RuleSpec(
        id="P8",
        title="seq-length imbalance",
        family="balance",
        group=Group.SYSTEM,
        metrics=("seqlen_balanced_max", "seqlen_balanced_min", "seqlen_minmax_diff", "seqlen_mean"),
        measures="token spread across ranks over the mean",
        detector=SequenceImbalance,
        condition="Token spread across ranks after balancing above `warn` of the mean in 5 of 10 records: "
        "WARN. Where "
        "balancing is off: above `raw`. Where only the spread before balancing is logged: above `raw`, INFO.",
        thresholds={"warn": 0.1, "raw": 0.3},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("spread / mean", "", Unit.FRACTION),
        why="The update waits for the rank with the most tokens.",
        causes=("sequence balancing off", "a few very long sequences", "batches too small to balance"),
        next=("seqlen_balanced_max", "seqlen_mean", "response_len_max", "time_update_actor"),
        sources="veRL seqlen_balancing.py: minmax_diff is the spread before balancing; issue 7412: 17 % before, "
        "15 tokens after.",
    ),
)

"""Length imbalance within groups of completions, per group and per step, and what is typical.

The longest completion of a group is the straggler that the others wait for. It is measured by max over median if the
trainer logs lengths per group; otherwise by the slowest over the mean rollout time, or the longest over the mean
length. The formulas for ratio and Gini are in `model.completions`; the aggregates are named and defined as in
Telescope's interface.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from rltop.model.completions import Completion, StepRollouts, deviation, gini, length_ratio, mean_of
from rltop.stats.rolling import median_of
from rltop.structs import NamedTuple

_SIZES = (1, 4, 8, 16, 64)
_EVEN = (1.0, 1.4, 1.6, 1.7, 2.1)
_UNEVEN = (1.0, 2.5, 3.5, 4.5, 7.0)
_ONE_GROUP = (1.0, 2.9, 3.5, 4.0, 4.9)
"""Max over median of log-normal lengths by group size: mean at sigma 0.3, mean at sigma 0.8, 95th percentile of a
single group at sigma 0.5. Source: simulation of such groups, repeated in tests/unit/stats/test_groups.py.
"""


class RatioRange(NamedTuple):
    """Typical max over median for a group size.

    Attributes:
        low, high: mean over groups for tasks with even (sigma of the log length 0.3) and uneven (0.8) lengths.
        one_group: exceeded by one group in twenty on an ordinary task (0.5).
    """

    low: float
    high: float
    one_group: float


def expected_ratio(group_size: int) -> RatioRange:
    """Typical max over median of completion lengths in groups of `group_size`.

    Interpolated in log2 of the size between the values of log-normal lengths at 1, 4, 8, 16 and 64 completions,
    extrapolated with the last slope. Source: see `_SIZES`.

    Raises:
        ValueError: `group_size` is below 1.
    """
    if group_size < 1:
        raise ValueError(f"a group has at least one completion, not {group_size}")
    right = min(max(bisect_right(_SIZES, group_size), 1), len(_SIZES) - 1)
    low_size, high_size = _SIZES[right - 1], _SIZES[right]
    part = math.log2(group_size / low_size) / math.log2(high_size / low_size)

    def at(values: Sequence[float]) -> float:
        return values[right - 1] + part * (values[right] - values[right - 1])

    return RatioRange(at(_EVEN), at(_UNEVEN), at(_ONE_GROUP))


class StragglerKind(enum.StrEnum):
    GROUP = "group"
    ROLLOUT = "rollout"
    LENGTH = "length"


class StragglerReading(NamedTuple):
    """The best available measure of stragglers on one step.

    Attributes:
        kind: GROUP is max over median within groups, ROLLOUT the slowest over the mean rollout time, LENGTH the longest
            over the mean completion of the batch.
        metric: canonical name of the ratio, or of its numerator.
        worst, typical: numerator and denominator (seconds or tokens), None for GROUP.
        usual: the typical range for the group size, only for GROUP and a known size.
        tool_share: fraction of the slowest rollout spent in tool calls, 0 to 1.
        balance: (heaviest - lightest)/mean tokens per rank, after balancing if logged.
    """

    kind: StragglerKind
    metric: str
    ratio: float
    worst: float | None = None
    typical: float | None = None
    usual: RatioRange | None = None
    tool_share: float | None = None
    gini: float | None = None
    balance: float | None = None


class RolloutTimes(NamedTuple):
    """Rollout times in seconds, tool calls included.

    Attributes:
        slowest_s: the slowest rollout, or a lower bound for it.
        mean_s: the mean over rollouts.
        tool_s: time in tool calls of the slowest one; None if not logged.
    """

    slowest_s: float
    mean_s: float
    tool_s: float | None


def rollout_times(values: Mapping[str, float]) -> RolloutTimes | None:
    """Slowest rollout against the mean, each as generation plus tool calls; None if rollouts are not timed.

    Both parts of the slowest rollout may be logged. If only the longest tool call is, it is a lower bound for the
    slowest rollout.
    """
    slowest, mean = values.get("time_gen_sample_max"), values.get("time_gen_sample_mean")
    if slowest is None or mean is None or mean <= 0.0:
        return None
    mean += values.get("time_tool_sample_mean", 0.0)
    tool = values.get("slowest_tool")
    slowest = max(slowest, values.get("slowest_gen", 0.0) + (tool or 0.0))
    longest_tool = values.get("time_tool_sample_max", 0.0)
    if longest_tool > slowest:
        slowest = tool = longest_tool
    return RolloutTimes(slowest, mean, tool)


def straggler_reading(values: Mapping[str, float], group_size: int | None = None) -> StragglerReading | None:
    """The best measure of stragglers on one step.

    Returns:
        The reading, or None if the step logs no such measure. A LENGTH reading says little if the longest completion is
        at the length limit.
    """
    rollout = rollout_times(values)
    tools = None
    if rollout is not None and rollout.tool_s is not None and rollout.slowest_s > 0.0:
        tools = rollout.tool_s / rollout.slowest_s
    ratio = values.get("group_len_ratio")
    if ratio is not None:
        usual = expected_ratio(group_size) if group_size is not None and group_size >= 2 else None
        found = StragglerReading(StragglerKind.GROUP, "group_len_ratio", ratio, usual=usual)
    elif rollout is not None:
        worst, typical = rollout.slowest_s, rollout.mean_s
        found = StragglerReading(StragglerKind.ROLLOUT, "time_gen_sample_max", worst / typical, worst, typical)
    else:
        longest, mean = values.get("response_len_max"), values.get("response_len_mean")
        if longest is None or mean is None or mean <= 0.0:
            return None
        found = StragglerReading(StragglerKind.LENGTH, "response_len_max", longest / mean, longest, mean)
    return found._replace(tool_share=tools, gini=values.get("group_len_gini"), balance=balance_spread(values))


def balance_spread(values: Mapping[str, float]) -> float | None:
    """(heaviest - lightest)/mean tokens per rank, or None.

    Uses the tokens after balancing; the spread before balancing (`minmax_diff` in one trainer) is used only if nothing
    else is logged.
    """
    mean = values.get("seqlen_mean")
    if mean is None or not mean > 0.0:
        return None
    high, low = values.get("seqlen_balanced_max"), values.get("seqlen_balanced_min")
    if high is not None and low is not None:
        return (high - low) / mean
    spread = values.get("seqlen_minmax_diff")
    return None if spread is None else spread / mean


class GroupStatistics(NamedTuple):
    """Length imbalance of one step's groups.

    Attributes:
        size: completions per group if all groups have the same size, else None.
        ratio_mean, ratio_max: max over median of the lengths in a group, over groups.
        gini_mean: Gini coefficient of the lengths in a group, mean over groups.
    """

    groups: int
    size: int | None
    ratio_mean: float
    ratio_max: float
    gini_mean: float


def group_statistics(groups: Sequence[Sequence[float]]) -> GroupStatistics | None:
    filled = [group for group in groups if group]
    ratios = [ratio for group in filled if (ratio := length_ratio(group)) is not None]
    if not ratios:
        return None
    sizes = {len(group) for group in filled}
    return GroupStatistics(
        len(ratios),
        sizes.pop() if len(sizes) == 1 else None,
        math.fsum(ratios) / len(ratios),
        max(ratios),
        math.fsum(map(gini, filled)) / len(filled),
    )


ZERO_STD = 1e-6
"""Groups with a smaller reward spread have zero variance: it is float noise on equal values."""


class GroupSummary(NamedTuple):
    """One prompt and its completions.

    Attributes:
        completions: longest first.
        lengths: the known lengths, longest first, in the unit of the step.
        ratio: max over median of them; None if unknown.
        reward_mean, reward_std: over the known rewards; the sample standard deviation, None for a single reward.
        cut: number of truncated completions; None if the dump does not say.
        discarded: (reason, count) of completions that were not trained on, most frequent first.
    """

    name: str
    completions: tuple[Completion, ...]
    lengths: tuple[float, ...]
    ratio: float | None
    gini: float | None
    middle: float | None
    reward_mean: float | None
    reward_std: float | None
    cut: int | None
    discarded: tuple[tuple[str, int], ...]


class StepSummary(NamedTuple):
    """All groups of a step.

    Attributes:
        groups: by ratio, most uneven first.
        completions: their number, without discarded ones, as in all figures below.
        group_size: completions per group if all groups have the same size.
        ratio_mean, ratio_max: `group_length_max_median_ratio_mean`, and the same for the worst group.
        cut_fraction: fraction truncated, 0 to 1.
        zero_std_fraction: fraction of zero-variance groups.
        discarded: (reason, count) of completions that were not trained on.
    """

    step: int
    groups: tuple[GroupSummary, ...]
    completions: int
    group_size: int | None
    ratio_mean: float | None
    ratio_max: float | None
    gini_mean: float | None
    length_mean: float | None
    reward_mean: float | None
    cut_fraction: float | None
    zero_std_fraction: float | None
    discarded: tuple[tuple[str, int], ...]
    has_tokens: bool


def summarise(rollouts: StepRollouts) -> StepSummary:
    members: dict[str, list[Completion]] = {}
    for each in rollouts.completions:
        members.setdefault(each.group, []).append(each)
    groups = [_group(name, found, rollouts) for name, found in members.items()]
    groups.sort(key=lambda group: (group.ratio is None, -(group.ratio or 0.0), -max(group.lengths, default=0.0)))
    trained = [each for each in rollouts.completions if not each.discarded]
    kept = [[each for each in found if not each.discarded] for found in members.values()]
    kept = [found for found in kept if found]
    lengths = [_lengths(found, rollouts) for found in kept]
    statistics = group_statistics(lengths)
    known = [[each.reward for each in found if each.reward is not None] for found in kept]
    spreads = [spread for found in known if (spread := deviation(found)) is not None]
    sizes = {len(found) for found in kept}
    return StepSummary(
        step=rollouts.step,
        groups=tuple(groups),
        completions=len(trained),
        group_size=sizes.pop() if len(sizes) == 1 else None,
        ratio_mean=None if statistics is None else statistics.ratio_mean,
        ratio_max=None if statistics is None else statistics.ratio_max,
        gini_mean=None if statistics is None else statistics.gini_mean,
        length_mean=mean_of(length for found in lengths for length in found),
        reward_mean=mean_of(reward for found in known for reward in found),
        cut_fraction=mean_of(float(each.is_truncated) for each in trained if each.is_truncated is not None),
        zero_std_fraction=mean_of(float(spread < ZERO_STD) for spread in spreads),
        discarded=_reasons(rollouts.completions),
        has_tokens=rollouts.has_tokens,
    )


def _group(name: str, found: Sequence[Completion], rollouts: StepRollouts) -> GroupSummary:
    ordered = sorted(found, key=lambda each: -(rollouts.length(each) or 0.0))
    lengths = sorted(_lengths(found, rollouts), reverse=True)
    rewards = [each.reward for each in found if each.reward is not None]
    cuts = [each.is_truncated for each in found if each.is_truncated is not None]
    return GroupSummary(
        name=name,
        completions=tuple(ordered),
        lengths=tuple(lengths),
        ratio=length_ratio(lengths),
        gini=gini(lengths) if lengths else None,
        middle=median_of(lengths) if lengths else None,
        reward_mean=mean_of(rewards),
        reward_std=deviation(rewards),
        cut=sum(cuts) if cuts else None,
        discarded=_reasons(found),
    )


def _lengths(found: Iterable[Completion], rollouts: StepRollouts) -> list[float]:
    return [float(length) for each in found if (length := rollouts.length(each)) is not None]


def _reasons(found: Iterable[Completion]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for each in found:
        if each.discarded:
            counts[each.discarded] = counts.get(each.discarded, 0) + 1
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))

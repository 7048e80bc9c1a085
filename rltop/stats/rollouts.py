"""Groups of completions → how uneven they are: one row per group, and the step as a whole.

Owns what is counted over what; the formulas of ratio and Gini are `model.completions`'. Names
of the aggregates are those of Telescope's interface, whose definitions these are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rltop.model.completions import Completion, StepRollouts, gini, length_ratio
from rltop.stats.groups import group_statistics
from rltop.stats.rolling import median
from rltop.structs import NamedTuple

ZERO_STD = 1e-6
"""Groups whose rewards spread less have zero variance: float noise on equal values."""


class GroupSummary(NamedTuple):
    """One prompt and its completions.

    Attributes:
        completions: of the prompt, longest first.
        lengths: the lengths that are known, longest first, in the unit of the step.
        ratio: max over median of them; None where unknown.
        reward_mean, reward_std: over the rewards that are known; std is that of a sample, None for one.
        cut: truncated completions; None where the dump does not say.
        discarded: reasons why completions were not trained on, with their number, most frequent first.
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
        completions: how many there are, discarded ones left out, as in every number below.
        group_size: completions per group where all groups are of one size.
        ratio_mean, ratio_max: `group_length_max_median_ratio_mean`, and the same for the worst group.
        cut_fraction: share truncated, 0 to 1.
        zero_std_fraction: share of zero-variance groups.
        discarded: completions by the reason why they were not trained on.
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
        length_mean=_mean(length for found in lengths for length in found),
        reward_mean=_mean(reward for found in known for reward in found),
        cut_fraction=_mean(float(each.is_truncated) for each in trained if each.is_truncated is not None),
        zero_std_fraction=_mean(float(spread < ZERO_STD) for spread in spreads),
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
        middle=median(lengths) if lengths else None,
        reward_mean=_mean(rewards),
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


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))

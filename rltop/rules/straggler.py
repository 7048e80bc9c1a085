"""Stragglers and sequence-length imbalance.

A longest completion of three times its group's median is ordinary; how much is ordinary depends on group size and run.
Imbalance is judged on the tokens that ranks actually received, after balancing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Level, Observation
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding
from rltop.stats.groups import expected_ratio, rollout_times
from rltop.stats.persistence import DatedNOfMCounter
from rltop.stats.ranks import Lag, compare
from rltop.stats.rolling import Frozen
from rltop.units import duration, percent


class GroupStraggler(Detector):
    """P5: ratio of longest to median completion of a group, averaged over groups, against the typical for its size."""

    start, lasting, strong = Frozen(), DatedNOfMCounter(5, 10), DatedNOfMCounter(3, 5)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        """Counts n of m itself: 5 of 10 above the threshold, or 3 of 5 above twice the threshold."""
        base, size = self.start.push(value), context.group_size
        line = self.thresholds["warn"] if size is None else expected_ratio(size).one_group
        if base is not None and base > line:
            base = None  # a run that starts above the typical ratio has no healthy baseline
        if base is not None:
            line = max(line, self.thresholds["rise"] * base)
        held = line * self.hysteresis
        lasts = self.lasting.push_at(value > held, *context.place)
        is_strong = self.strong.push_at(value > 2.0 * line, *context.place)
        if value <= held or not (lasts or is_strong):
            return QUIET
        self.since = (self.lasting if lasts else self.strong).began
        return Finding(WARN, value, base, line, (float(size),) if size else ())


class LoneStraggler(Detector):
    """P5b: the whole step waits for one completion, longer than any before in this run."""

    usual = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        seen = context.observation.instances
        ratios, longest = seen.get("group_len_ratio", {}), seen.get("response_len_max", {})
        if len(longest) < 2 or longest.keys() != ratios.keys():
            return None
        ordered = sorted(longest, key=lambda name: longest[name])
        others, tokens = longest[ordered[-2]], longest[ordered[-1]]
        ratio = ratios[ordered[-1]]
        thresholds = self.thresholds
        line = max(thresholds["warn"], thresholds["rise"] * self.usual)
        if ratio <= line or tokens < max(thresholds["tokens"], thresholds["lead"] * others):
            self.usual = max(self.usual, ratio)
            return QUIET
        extra = tokens / max(others, 1.0), float(context.observation.step)
        return Finding(WARN, ratio, None, line, extra, (ordered[-1],))


class GroupInequality(Detector):
    """P7: Gini coefficient of the lengths within a group."""

    start = Frozen()

    def look(self, value: float, context: RuleContext) -> Finding | None:
        base = self.start.push(value)
        line = self.thresholds["info"] if base is None else min(self.thresholds["info"], base + self.thresholds["rise"])
        if value <= line:
            return QUIET
        is_far = base is not None and value > max(self.thresholds["warn"], base + 2.0 * self.thresholds["rise"])
        return Finding(WARN if is_far else INFO, value, base, line)


def slowest_rollout(context: RuleContext) -> tuple[float, float]:
    """Seconds of the slowest rollout or group, and of a typical one; (0, 0) if not logged."""
    values = context.values
    if "time_gen_sample_max" in values and "time_gen_sample_mean" in values:
        return values["time_gen_sample_max"], values["time_gen_sample_mean"]
    groups = context.observation.instances.get("time_group", {})
    return (max(groups.values()), min(groups.values())) if len(groups) > 1 else (0.0, 0.0)


class LongTail(Detector):
    """P6: slowest rollout against the mean, if generation dominates the step or the rollout holds its slot for many.

    A rollout's time is generation plus tool calls. Both parts are logged for the slowest rollout; the maxima of the
    parts need not belong to the same one. If generation and training are disaggregated, nothing waits for it, but a few
    rollouts may hold most of the slots (miles #1012: 11 of 32 for 7.5 hours).
    """

    start, slowest = Frozen(), Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        values, thresholds, is_apart = context.values, self.thresholds, context.traits.is_async
        slowest, mean, tool = rollout_times(values) or (0.0, 0.0, None)
        step = values.get("time_step", 0.0)
        if is_apart:
            slowest, mean = slowest_rollout(context)
            outside = ("slowest_tool", "time_tool_sample_max", "time_env_step_max")
            tool = min(slowest, max([values[name] for name in outside if name in values], default=0.0))
        if mean <= 0.0 or (is_apart and not step):
            return None
        ratio = slowest / mean
        base = self.start.push(ratio, context.observation.step)
        usual, held = self.slowest.push(slowest), self.hysteresis
        if base is None or ratio <= thresholds["warn"] * held:
            return QUIET
        # If only the others have become shorter, the wait is no longer than before.
        is_apart_or_longer = is_apart or slowest > thresholds["rise"] * held * (usual or 0.0)
        line = max(thresholds["warn"], min(thresholds["rise"] * base, thresholds["far"] if is_apart else math.inf))
        is_long = 0.0 < thresholds["share"] * step <= values.get("time_gen", slowest)
        if is_apart:
            is_long = slowest >= thresholds["steps"] * step * held
        if ratio <= line * held or not (is_long and is_apart_or_longer):
            return QUIET
        extra = slowest, mean, tool or 0.0, step if is_apart else 0.0
        return Finding(WARN, ratio, base, line, extra, steps=self.start.steps)

    def headline(self, finding: Finding) -> str:
        slowest, mean, tool, step = finding.extra
        where = "tools or the environment" if step else "tool calls"
        part = f", {percent(tool / slowest)} of it in {where}" if tool > 0.1 * slowest else ""
        holds = f": it holds its slot for {slowest / step:,.0f} steps" if step else ""
        return f"slowest rollout {duration(slowest)}, mean {duration(mean)}{part}{holds}"


class SequenceImbalance(Detector):
    """P8: tokens of the heaviest rank against the lightest; if balancing leaves the spread unchanged, it has failed."""

    is_about_word = True
    raw = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        mean, difference = values.get("seqlen_mean"), values.get("seqlen_minmax_diff")
        if mean is None or mean <= 0.0:
            return None
        low, high = values.get("seqlen_balanced_min"), values.get("seqlen_balanced_max")
        line, has_grown = self.thresholds["raw"], False
        if difference is not None:
            base = self.raw.push(difference / mean)
            has_grown = base is not None and difference / mean > max(line, self.thresholds["grown"] * base)
        if low is None or high is None or has_grown:
            level = WARN if has_grown else INFO
            return None if difference is None else self._against(difference / mean, line, level, "seqlen_minmax_diff")
        is_off = high == values.get("seqlen_max") and low == values.get("seqlen_min") and high > low
        line = self.thresholds["raw" if is_off else "warn"]
        return self._against((high - low) / mean, line, WARN, "seqlen_balanced_max")

    def _against(self, spread: float, line: float, level: Level, about: str) -> Finding:
        return Finding(level, spread, None, line, words=(about,)) if spread > line * self.hysteresis else QUIET


_BEHIND, _OF = 5, 10
_MASK = (1 << _OF) - 1


class RankStraggler(Detector):
    """P15: the same rank is behind the median of its group in the same stage.

    Counts n of m itself, for each rank and stage that was recently behind. While none is, only every fifth record is
    read, and those skipped before it if a rank is behind there: one behind for five in a row is found just as early.
    """

    behind: dict[tuple[str, str], int] = {}
    newest: deque[Observation] = deque(maxlen=_OF)
    passed_over = 0

    def detect(self, context: RuleContext) -> Finding | None:
        seen, is_calm = context.observation, not self.behind and not self.is_firing
        self.passed_over += 1
        is_passed_over = is_calm and self.passed_over < _BEHIND
        if not (is_passed_over or any(seen.ranks.values())):
            return None
        self.newest.append(seen)
        if is_passed_over:
            return QUIET
        self.passed_over = 0
        lags = self._lags(seen)
        if not lags and not self.behind:
            return QUIET
        if is_calm:
            self.newest = deque([one for one in self.newest if any(one.ranks.values())], _OF)
            for before in list(self.newest)[:-1]:
                self._count(self._lags(before))
        self._count(lags)
        self.behind = {place: bits for place, bits in self.behind.items() if bits}
        lasting = [lag for place, lag in lags.items() if self.behind[place].bit_count() >= _BEHIND]
        if not lasting:
            return QUIET
        worst = max(lasting, key=lambda lag: (lag.behind_s, lag.stage, lag.rank))
        first = self.newest[-self.behind[worst.rank, worst.stage].bit_length()]
        self.since = first.record, first.step
        extra = (worst.seconds, float(worst.ranks), worst.step_s)
        line = self._line(worst.usual_s, worst.sigma_s, worst.step_s)
        return Finding(WARN, worst.behind_s, worst.usual_s, line, extra, (worst.rank, worst.stage))

    def _lags(self, seen: Observation) -> dict[tuple[str, str], Lag]:
        return {(lag.rank, lag.stage): lag for lag in compare(seen.ranks, self._line)}

    def _count(self, lags: Mapping[tuple[str, str], Lag]) -> None:
        for place in lags.keys() | self.behind.keys():
            self.behind[place] = (self.behind.get(place, 0) << 1 | (place in lags)) & _MASK

    def _line(self, usual_s: float, sigma_s: float, step_s: float) -> float:
        """Seconds behind from which on a rank is a straggler: all three limits must be exceeded."""
        thresholds = self.thresholds
        line = max(thresholds["rise"] * usual_s, thresholds["sigmas"] * sigma_s, thresholds["share"] * step_s)
        return line * self.hysteresis

    def headline(self, finding: Finding) -> str:
        rank, stage = finding.words
        seconds, ranks, step_s = finding.extra
        now = f"{duration(seconds)} vs median {duration(finding.baseline or 0.0)}"
        others = "the other rank" if ranks == 2 else f"the other {ranks - 1:.0f} ranks"
        part = f"; {percent(finding.value / step_s)} of step time" if finding.value < step_s else ""
        return f"{rank} {duration(finding.value)} behind {others} in {stage}: {now}{part}"

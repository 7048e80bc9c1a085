"""Agents: failed rollouts and tools, slow environments, endless episodes; the policy learns from the others only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Creep, Detector, Finding, Subject
from rltop.stats.goodput import trainer_wait
from rltop.stats.rolling import median_of
from rltop.units import duration, number


class LoneEnvironment(Detector):
    """T11: one environment or tool takes a multiple of the others' time, so its rollouts may end up in most slots."""

    is_about_word = True

    def detect(self, context: RuleContext) -> Finding | None:
        if context.record > _KNOWN_RECORDS and context.record % _EVERY:
            return None
        worst, has_several = QUIET, False
        waited_s, step_s = trainer_wait(context.values)
        level = WARN if waited_s is not None and waited_s >= self.thresholds["share"] * step_s > 0.0 else INFO
        for metric in _APART:
            instances = context.observation.instances.get(metric, {})
            seconds = _by_environment(instances) if len(instances) > 1 else {}
            if len(seconds) < 2:
                continue
            has_several = True
            slowest = max(seconds, key=lambda name: seconds[name])
            others = median_of([one for name, one in seconds.items() if name != slowest])
            if seconds[slowest] < self.thresholds["floor_s"] or others <= 0.0:
                continue
            ratio = seconds[slowest] / others
            if ratio > self.thresholds["times"] * self.hysteresis and ratio > worst.value:
                worst = Finding(level, ratio, None, None, (seconds[slowest], others), (metric, slowest))
        return worst if has_several else None

    def headline(self, finding: Finding) -> str:
        metric, name = finding.words
        seconds, others = finding.extra
        what = "tool" if metric == "time_tool_call" else "environment"
        holds = ": it holds the slots" if finding.level >= WARN else ""
        return f"{what} {name} takes {duration(seconds)}, the others {duration(others)}{holds}"


_APART = ("time_env_step", "time_tool_call", "time_gen_sample_mean", "time_score_mean", "time_env_reset")
_KNOWN_RECORDS, _EVERY = 64, 4
"""After this many records only every fourth is read, because a slow environment stays slow."""
_AGGREGATES = frozenset({"agg", "all", "total"})


def _by_environment(instances: Mapping[str, float]) -> dict[str, float]:
    """First part of the names → seconds, the maximum of several; aggregates over all are left out."""
    depths = Counter(name.count("/") for name in instances).most_common(1)
    found: dict[str, float] = {}
    for name, seconds in instances.items():
        own = name.partition("/")[0]
        if name.count("/") == depths[0][0] and own not in _AGGREGATES:
            found[own] = max(found.get(own, 0.0), seconds)
    return found


class MoreTurns(Creep):
    """T6: the longest episode (or if not logged, the mean) has many times the turns that it had at the start."""

    has_turns = False

    def detect(self, context: RuleContext) -> Finding | None:
        if not self.has_turns:
            self.metric = next((name for name in _TURNS if name in context.values), _TURNS[0])
            self.has_turns = self.metric in context.values
        return super().detect(context)

    def least(self) -> tuple[float, float]:
        return super().least() if self.metric == _TURNS[0] else (self.thresholds["mean"], self.thresholds["mean_floor"])

    def subject(self, finding: Finding) -> Subject:
        return Subject(self.metric)

    def headline(self, finding: Finding) -> str:
        what = "longest episode" if self.metric == _TURNS[0] else "turns per episode"
        return f"{what} {number(finding.baseline or 0)} → {number(finding.value)} turns: they no longer finish"


_TURNS = ("num_turns_max", "num_turns_mean")

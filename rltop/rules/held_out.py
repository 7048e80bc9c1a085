"""Held-out evaluations that do not follow the training reward.

A policy whose training reward rises from 0.3 to 0.9 while every evaluation stays where it was
has learned the training prompts, or the reward function, and nothing else.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from rltop.model import Evidence, Level
from rltop.rules import applicability
from rltop.rules.context import RewardTrack, RuleContext
from rltop.rules.evaluations import METRIC, OTHERS, RETURN, metric_of
from rltop.rules.rule import INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, RuleSpec, Subject
from rltop.stats.rolling import mean_and_error, median_of
from rltop.units import number

_HELD = 64
_REWARDS = 10
_FEW = 3
_QUANTILES = (3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14)
"""Of Student's t, two-sided 95 %, from 3 degrees of freedom on (5 evaluations)."""


class _Fit(NamedTuple):
    """A line through evaluations: what they gained over the span, up to how much, and their noise."""

    gain: float
    least: float
    most: float
    noise: float


def _fit(values: Sequence[float]) -> _Fit:
    """Least squares against their number, with the 95 % interval of the gain; five values or more."""
    count = len(values)
    middle, mean = 0.5 * (count - 1), sum(values) / count
    spread = sum([(x - middle) ** 2 for x in range(count)])
    slope = sum([(x - middle) * (value - mean) for x, value in enumerate(values)]) / spread
    rests = [value - mean - slope * (x - middle) for x, value in enumerate(values)]
    rest = sum([each * each for each in rests])  # as powers, huge numbers would raise
    noise = math.sqrt(rest / (count - 2))
    reach = _QUANTILES[min(count - 5, len(_QUANTILES) - 1)] * noise / math.sqrt(spread) * (count - 1)
    gain = slope * (count - 1)
    return _Fit(gain, gain - reach, gain + reach, noise)


def _odds(share: float) -> float:
    """Of a share of successes, kept off 0 and 1."""
    share = min(max(share, 0.01), 0.99)
    return share / (1.0 - share)


class _Source:
    """The last evaluations of one data set, each with the training reward (mean, error) at that time."""

    __slots__ = ("held", "line", "since")

    def __init__(self) -> None:
        self.held: deque[tuple[float, tuple[float, float] | None]] = deque(maxlen=_HELD)
        self.line: float | None = None
        self.since: tuple[int, int] | None = None

    def clone(self) -> _Source:
        """An independent copy."""
        twin = _Source()
        twin.held, twin.line, twin.since = self.held.copy(), self.line, self.since
        return twin


class HeldOutFlat(Detector):
    """R14: evaluations stay where they were while the training reward rises.

    Both are compared since the first evaluation (of the last 64), as parts of their ranges: a reward
    that still creeps up long after both have risen is no fault. What an evaluation should have gained
    is a quarter of what training did, or less where the data are much harder or leave little room.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.sources: dict[str, _Source] = {}
        self.rewards: deque[float] = deque(maxlen=_REWARDS)
        self.flat: dict[str, Finding] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        """Gives a finding only on records with an evaluation."""
        reward = context.reward
        if reward.value is not None and not context.observation.is_late:
            self.rewards.append(reward.value)
        found = context.evaluations
        if not found or RETURN in found:
            # The return of a few episodes is too noisy to be called flat.
            return None
        at = mean_and_error(list(self.rewards)) if len(self.rewards) == _REWARDS else None
        for name, value in found.items():
            self.sources.setdefault(name, _Source()).held.append((value, at))
        if at is None:
            return QUIET
        onset = context.onsets.get("validation")
        if onset is not None and onset.rule != "R14":
            self.flat.clear()
            return QUIET
        fits = {name: _fit([one for one, _ in source.held]) for name, source in self.sources.items()
                if len(source.held) >= self.thresholds["info_evaluations"]}  # fmt: skip
        for name in found:
            self._judge(name, fits.get(name), at, context)
        if not self.flat:
            return QUIET
        is_other = any(name not in self.flat and fit.least > 0.0 for name, fit in fits.items())
        worst, *others = sorted(self.flat, key=lambda name: (-self.flat[name].level, name))
        finding = self.flat[worst]._replace(words=(worst, *others))
        return finding._replace(level=INFO) if is_other else finding

    def _judge(self, name: str, fit: _Fit | None, now: tuple[float, float], context: RuleContext) -> None:
        """Note or forget that a source is flat."""
        source = self.sources[name]
        level = None if fit is None else self._level(source, fit, now, context.reward)
        if level is None:
            self.flat.pop(name, None)
            source.line = source.since = None
            return
        assert fit is not None
        values = [value for value, _ in source.held]
        start = median_of(values[:_FEW])
        if source.line is None:
            source.line = start + self.thresholds["noises"] * fit.noise
            source.since = (context.observation.record, context.observation.step)
        before = next(at for _, at in source.held if at is not None)
        extra = (before[0], now[0], float(len(values)))
        self.flat[name] = Finding(level, median_of(values[-_FEW:]), start, source.line, extra)

    def _level(self, source: _Source, fit: _Fit, now: tuple[float, float], reward: RewardTrack) -> Level | None:
        thresholds = self.thresholds
        values = [value for value, _ in source.held]
        before = next((at for _, at in source.held if at is not None), None)
        is_share = min(values) >= 0.0 and max(values) <= 1.0
        is_same = is_share and reward.bottom >= 0.0 and reward.top <= 1.0
        scale = 1.0 if is_same else reward.top - reward.bottom
        is_known = is_share or reward.bottom - 0.5 * scale <= values[0] <= reward.top + 0.5 * scale
        if before is None or not is_known:
            return None
        rise = now[0] - before[0]
        if rise < max(thresholds["errors"] * math.hypot(before[1], now[1]), thresholds["share"] * scale):
            return None
        if is_share:
            rise /= scale
            if 1.0 - max(values) < 0.5 * rise or max(values) <= thresholds["bottom"]:
                return None
        wanted = thresholds["part"] * rise
        if is_same:
            wanted *= min(1.0, values[0] / max(before[0], 1e-9), (1.0 - values[0]) / max(1.0 - before[0], 1e-9))
        else:
            wanted *= thresholds["other_unit"]
        is_flat = fit.most < wanted if source.line is None else median_of(values[-_FEW:]) <= source.line
        if not is_flat or fit.least > 0.0 or fit.gain <= -wanted:
            return None
        is_other = (
            is_same and not 1.0 / thresholds["other"] <= _odds(values[0]) / _odds(before[0]) <= thresholds["other"]
        )
        return INFO if is_other or len(values) < thresholds["warn_evaluations"] else WARN

    def began(self) -> tuple[int, int] | None:
        """Where it was first seen."""
        return min([one for name in self.flat if (one := self.sources[name].since) is not None], default=None)

    def subject(self, finding: Finding) -> Subject:
        """The data set."""
        return Subject(*metric_of(finding.words[0]))

    def headline(self, finding: Finding) -> str:
        """Both, over how many evaluations."""
        before, now, count = finding.extra
        worst, *others = finding.words
        name = f" {worst}" if worst and len(self.sources) > 1 else ""
        also = f" (also {', '.join(others)})" if others else ""
        return (
            f"validation{name} flat at {number(finding.value)} over {count:.0f} evaluations while training reward rose "
            f"{number(before)} → {number(now)}{also}"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Evaluation and training reward, before and now."""
        return (
            *names.of(finding),
            Evidence("training reward before", finding.extra[0]),
            Evidence("training reward", finding.extra[1]),
        )

    def clone(self) -> Self:
        """An independent copy of the state, sources included."""
        twin = super().clone()
        twin.sources = {name: source.clone() for name, source in self.sources.items()}
        return twin


RULES = (
    RuleSpec(
        id="R14",
        title="held-out flat",
        family="validation",
        group=Group.LEARNING,
        metrics=(METRIC, *OTHERS),
        detector=HeldOutFlat,
        condition="Over the last 64 evaluations of a data set the training reward (mean of 10 records) rose by "
        "`errors` standard errors and `share` of its range, and the 95 % interval of what the evaluations gained "
        "excludes `part` of that (less where they are far lower or higher than training, `other_unit` of it where its "
        "range is another) and includes 0: INFO from "
        "`info_evaluations`, WARN from `warn_evaluations`. INFO where the odds of the first evaluation and of a "
        "training reward that is a share differ by more than `other` times, or another data set rises. Not at the top "
        "or below `bottom`; ends above the first three by `noises` times their noise.",
        thresholds={
            "errors": 4.0,
            "share": 0.1,
            "part": 0.25,
            "info_evaluations": 5,
            "warn_evaluations": 8,
            "other_unit": 0.33,
            "other": 4.0,
            "bottom": 0.02,
            "noises": 2.0,
        },
        clear_after=1,
        applies=applicability.has_reward,
        accepts_late=True,
        evidence=EvidenceNames("val_score, last 3", "val_score, first 3", threshold="ends above"),
        why="What training gains does not carry over to prompts that it does not see.",
        causes=("the training prompts are memorised", "reward hacking", "evaluation prompts or template differ"),
        next=("reward_mean", "reward_component", "response_len_mean", "entropy", "kl_ref", "val_aux"),
        sources="judgement; least squares with Student's t.",
    ),
)

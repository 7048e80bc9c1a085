"""Reward hacking: reward that rises for another reason than the task.

The signs are indirect: completions that shrink or grow with the reward, one reward component traded for another,
entropy spent on one text. Validation decides.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping
from functools import lru_cache

from rltop.model import Label
from rltop.rules.context import LEVEL, RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding, State, Subject
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window, mean_and_error
from rltop.units import number

_NO_REWARD = (
    r"(?:^|[/_.:\- ])(?:errors?|failed|fail(?:ure)?s?|penalty|penalties|costs?|violations?|lengths?|len|tokens?|turns?|"
    r"calls?|counts?|num|n|time|seconds|truncated|truncation|repetitions?|invalid|steps?|loss|kl|entropy|std|min|max)"
    r"(?:[/_.:\- ]|$)"
)
"""Names of quantities that are not rewards, or that should fall; which direction is good is unknown."""
_TASK = r"(?:acc|accuracy|correct(?:ness)?|answer|success|solved?|pass(?:ed)?)(?:[^a-z]|$)"
"""Names of a component that measures the task itself, not the form of the answer."""
_WITHOUT_CONTRAST = 4
"""A record whose groups have no contrast counts as this many."""


@lru_cache(maxsize=1024)
def _is_about(words: str, name: str) -> bool:
    """Whether a component's name matches; the pattern is compiled on first use, as most runs have no components."""
    return re.search(words, name, re.IGNORECASE) is not None


class RewardFromLength(Detector):
    """R8: reward rises while completions double and evaluations do not follow; T3 covers shrinking completions."""

    best, reward_then = -math.inf, 0.0
    flat_for = evaluations = 0

    def detect(self, context: RuleContext) -> Finding | None:
        score, length = context.values.get("val_score"), context.values.get("response_len_mean")
        if score is not None:
            self.evaluations += 1
            self.flat_for += 1
            if score > self.best:
                self.best, self.reward_then, self.flat_for = score, context.reward.usual, 0
        base, reward, thresholds = context.baselines["response_len_mean"].value, context.reward, self.thresholds
        if length is None or reward.value is None:
            return None
        if base is None or not reward.has_gained:
            return QUIET
        # Evaluations that rose with the reward and stopped when it did are no contradiction.
        is_flat = self.flat_for >= thresholds["evaluations"] and reward.has_gained_since(self.reward_then)
        if length <= thresholds["longer"] * base or (self.evaluations and not is_flat):
            return QUIET
        extra = reward.start, reward.usual, float(self.flat_for), length / base
        return Finding(WARN if is_flat else INFO, length, base, thresholds["longer"] * base, extra)


class _Component(State):
    window = Window(LEVEL)
    best = float("-inf")
    noise = reward = 0.0


class PartTraded(Detector):
    """R10: one reward component falls far below its best level while the total rises."""

    parts: dict[str, _Component] = {}
    earned: set[str] = set()
    seen, first = 0, (0, 0)

    def detect(self, context: RuleContext) -> Finding | None:
        found = context.observation.instances.get("reward_component")
        if found is None or len(found) < 2 or context.reward.value is None:
            return None
        rewards = [name for name in found if not _is_about(_NO_REWARD, name)]
        judged = [(self._lost(name, found[name], context.reward.usual), name) for name in rewards]
        lost = [(*one, name) for one, name in judged if one is not None]
        self.first = self.first if self.seen else context.place
        self.since = None if lost else self.first
        if not lost:
            return self._never_earned(found, context)
        _, level, best, name = max(lost, key=lambda one: one[0])
        return Finding(WARN, level, best, self.thresholds["warn"] * best, (context.reward.usual,), (name, ""))

    def _never_earned(self, found: Mapping[str, float], context: RuleContext) -> Finding:
        """Find a component that was 0 on every record: the task, or any while the reward gains."""
        # Without contrast nothing can be preferred for earning it; while a form is learned, the task may come later.
        self.seen += _WITHOUT_CONTRAST if context.reward.zero_share == 1.0 else 1
        self.earned.update([name for name, value in found.items() if value != 0.0])
        has_gained = context.reward.has_gained
        if self.seen < self.thresholds["never" if has_gained else "task"]:
            return QUIET
        dead = [name for name in found if name not in self.earned and not _is_about(_NO_REWARD, name)]
        # A format that is never met may be optional; the task itself is not.
        dead.sort(key=lambda name: not _is_about(_TASK, name))
        is_task = bool(dead) and _is_about(_TASK, dead[0])
        if not dead or not (has_gained or is_task):
            return QUIET
        what = "has been 0 on every record" + (" while total reward rises" if has_gained else "")
        return Finding(WARN if is_task else INFO, 0.0, None, None, (context.reward.usual,), (dead[0], what))

    def _lost(self, name: str, value: float, reward: float) -> tuple[float, float, float] | None:
        """(share lost, level now, best level) if the component fell while the total rose since its best."""
        if (part := self.parts.get(name)) is None:
            part = self.parts[name] = _Component()
        window = part.window
        window.push(value)
        if window.count < LEVEL:
            return None
        level = window.median
        if level > part.best:
            part.best, part.noise, part.reward = level, MAD_TO_SIGMA * window.mad, reward
            return None
        line = self.thresholds["warn"] * part.best
        if part.best <= 0.0 or value >= line or level >= line:
            return None
        is_real = part.best - level > self.thresholds["sigmas"] * max(part.noise, MAD_TO_SIGMA * window.mad)
        if not is_real or reward <= part.reward + self.thresholds["gain"] * abs(part.reward):
            return None
        return 1.0 - level / part.best, level, part.best

    def subject(self, finding: Finding) -> Subject:
        return Subject("reward_component", finding.words[0])

    def headline(self, finding: Finding) -> str:
        name = Label.of(finding.words[0]).display
        if finding.words[1]:
            return f"reward component {name} {finding.words[1]}"
        moved = f"{number(finding.baseline or 0)} → {number(finding.value)}"
        return f"reward component {name} {moved} while total reward rises to {number(finding.extra[0])}"


_LONG = 50.0
"""From this mean length in tokens on, completions of equal length are not explained by a simple task."""


class SpentOnHack(Detector):
    """E8: nearly all entropy is gone while the reward rose: a solved task or, given a second sign, a hack."""

    start, spread = Frozen(skip=0, size=5, minimum=3), Frozen(skip=0, size=5, minimum=3)
    parts: dict[str, float] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        if (value := values.get("entropy")) is None:
            return None
        if not self.start.is_final:
            self._learn(context, value)
            return QUIET
        base = self.start.value or 0.0
        line = min(self.thresholds["warn"] * base, self.thresholds["near"])
        if value >= line / self.hysteresis or base < self.thresholds["floor"]:
            return QUIET
        if not context.reward.has_gained:
            return QUIET
        sign = self._sign(context)
        gained = context.reward.start, context.reward.usual
        return Finding(WARN if sign else INFO, value, base, line, gained, words=(sign,))

    def _learn(self, context: RuleContext, value: float) -> None:
        values = context.values
        self.start.push(value)
        if (spread := _length_spread(values)) is not None:
            self.spread.push(spread)
        for name, part in context.observation.instances.get("reward_component", {}).items():
            self.parts[name] = max(part, self.parts.get(name, part))

    def _sign(self, context: RuleContext) -> str:
        """The sign that the task is not just solved; empty if there is none."""
        values, thresholds = context.values, self.thresholds
        part = self._dead_part(context)
        if part or context.reward.is_solved:
            return part
        length, base = values.get("response_len_mean"), context.baselines["response_len_mean"].value
        if length is not None and base is not None and length < thresholds["shorter"] * base:
            return f"completions {number(base)} → {number(length)} tokens"
        spread, usual = _length_spread(values), self.spread.value
        if spread is not None and usual and (length or 0.0) > _LONG and spread < thresholds["spread"] * usual:
            return f"spread of completion lengths {number(usual)} → {number(spread)} tokens"
        return ""

    def _dead_part(self, context: RuleContext) -> str:
        line = self.thresholds["part"] * abs(context.reward.usual)
        for name, now in context.observation.instances.get("reward_component", {}).items():
            if name in self.parts and 0.0 <= self.parts[name] < line and 0.0 <= now < line:
                return f"reward component {name} stayed at {number(now)}"
        return ""


def _length_spread(values: Mapping[str, float]) -> float | None:
    high, low = values.get("response_len_max"), values.get("response_len_min")
    return values.get("response_len_std", None if high is None or low is None else high - low)


_SIDE = 10
"""Records in each of the two means that are compared, at the start and now."""


class PenalisedDown(Detector):
    """R20: the score rises while the actual objective, score minus KL penalty, falls."""

    at_start: tuple[tuple[float, float], ...] = ()
    score: deque[float] = deque(maxlen=_SIDE)
    final: deque[float] = deque(maxlen=_SIDE)

    def detect(self, context: RuleContext) -> Finding | None:
        score, final = context.values.get("score_mean"), context.values.get("reward_final")
        if score is None or final is None:
            return None
        self.score.append(score)
        self.final.append(final)
        if len(self.score) < _SIDE:
            return QUIET
        if self.at_start:
            return self._compare()
        self.at_start = mean_and_error(self.final), mean_and_error(self.score)
        self.score.clear()
        self.final.clear()
        return QUIET

    def _compare(self) -> Finding:
        sigmas = self.thresholds["sigmas"] * (0.5 if self.is_firing else 1.0)
        (final, final_error), (score, score_error) = self.at_start
        # Compare the means first: mostly they agree, and no error need be computed.
        gained, lost = sum(self.score) / _SIDE - score, final - sum(self.final) / _SIDE
        if gained <= 0.0 or lost <= 0.0 or lost <= self.thresholds["share"] * gained:
            return QUIET
        final_now, final_now_error = mean_and_error(self.final)
        score_now, score_now_error = mean_and_error(self.score)
        is_gain = gained > sigmas * math.hypot(score_error, score_now_error)
        is_loss = lost > sigmas * math.hypot(final_error, final_now_error)
        return Finding(WARN, final_now, final, None, (score, score_now)) if is_gain and is_loss else QUIET

"""Reward hacking: reward that rises for another reason than the task.

The signs are indirect: completions that shrink or grow with the reward, one
reward component traded for another, entropy spent on one text. Validation decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rltop.model import Evidence, Label, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.entropy import FALL_CAUSES, HARDLY_BETTER
from rltop.rules.rule import (
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
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window
from rltop.units import number, percent

_LEVEL = 10
_NO_REWARD = re.compile(
    r"(?:^|[/_.:\- ])(?:errors?|failed|fail(?:ure)?s?|penalty|penalties|costs?|violations?|lengths?|len|tokens?|turns?|"
    r"calls?|counts?|num|n|time|seconds|truncated|truncation|repetitions?|invalid|steps?|loss|kl|entropy|std|min|max)"
    r"(?:[/_.:\- ]|$)",
    re.IGNORECASE,
)
"""Words of quantities that are no reward, or that should fall: which way is good is not known of them."""
_MAX_PARTS = 32
"""Reward components that are tracked at most; a stream may log a new key per row."""


class LengthHack(Detector):
    """R8: reward rises while completions shrink to less than half."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.length = Frozen(skip=0, size=_LEVEL, minimum=_LEVEL)

    def detect(self, context: RuleContext) -> Finding | None:
        """Length against the first ten records, reward against its run start."""
        length = context.values.get("response_len_mean")
        if length is None or context.reward.value is None:
            return None
        base = self.length
        if not base.is_final:
            base.push(length)
            return QUIET
        start = base.value or 0.0
        if length >= self.thresholds["length"] * start:
            return QUIET
        if not context.reward.is_improving:
            return QUIET
        return Finding(
            WARN, length, start, self.thresholds["length"] * start, (context.reward.start, context.reward.usual)
        )

    def headline(self, finding: Finding) -> str:
        """Both movements."""
        shorter = 1.0 - finding.value / finding.baseline if finding.baseline else 0.0
        before, after = finding.extra
        return f"reward {number(before)} → {number(after)} with completions {percent(shorter)} shorter"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Length and reward, before and after."""
        return (
            *names.of(finding),
            Evidence("reward at run start", finding.extra[0]),
            Evidence("reward now", finding.extra[1]),
        )


class LengthInflation(Detector):
    """R9: reward rises while completions more than double in length, and validation does not follow."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.length = Frozen(skip=0, size=_LEVEL, minimum=_LEVEL)
        self.best: float | None = None
        self.flat_for = 0
        self.evaluations = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """INFO where there is no validation; QUIET where validation rises too."""
        score = context.values.get("val_score")
        if score is not None:
            self.evaluations += 1
            is_better = self.best is None or score > self.best
            self.best = score if self.best is None or is_better else self.best
            self.flat_for = 0 if is_better else self.flat_for + 1
        length = context.values.get("response_len_mean")
        if length is None or context.reward.value is None:
            return None
        base = self.length
        if not base.is_final:
            base.push(length)
            return QUIET
        start = base.value or 0.0
        line = self.thresholds["length"] * start
        if length <= line or not context.reward.is_improving:
            return QUIET
        needed = self.thresholds["evaluations"]
        if self.evaluations and self.flat_for < needed:
            return QUIET
        level = WARN if self.flat_for >= needed else INFO
        numbers = context.reward.start, context.reward.usual, float(self.flat_for)
        return Finding(level, length, start, line, numbers)

    def headline(self, finding: Finding) -> str:
        """Both movements, and what validation says."""
        before, after, flat_for = finding.extra
        factor = number(finding.value / finding.baseline) if finding.baseline else "many"
        told = f"; {flat_for:.0f} evaluations without improvement" if finding.level >= WARN else ""
        return f"reward {number(before)} → {number(after)} with completions {factor}× as long{told}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Length and reward, before and after."""
        return (
            *names.of(finding),
            Evidence("reward at run start", finding.extra[0]),
            Evidence("reward now", finding.extra[1]),
        )


class _Part:
    """One reward component: its best level, and its noise there."""

    __slots__ = ("best", "noise", "reward", "window")

    def __init__(self) -> None:
        self.window = Window(_LEVEL)
        self.best = float("-inf")
        self.noise = 0.0
        self.reward = 0.0

    def clone(self) -> _Part:
        """An independent copy."""
        twin = _Part()
        twin.window, twin.best, twin.noise, twin.reward = self.window.clone(), self.best, self.noise, self.reward
        return twin


class PartTraded(Detector):
    """R10: one reward component falls far below its best level while the total rises."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.parts: dict[str, _Part] = {}

    def clone(self) -> PartTraded:
        """An independent copy; the components are objects of their own."""
        twin = super().clone()
        twin.parts = {name: part.clone() for name, part in self.parts.items()}
        return twin

    def detect(self, context: RuleContext) -> Finding | None:
        """Medians of ten; the deepest relative loss counts."""
        found = context.observation.instances.get("reward_component")
        if found is None or len(found) < 2 or context.reward.value is None:
            return None
        worst: tuple[float, str, float, float] | None = None
        for name, value in found.items():
            if _NO_REWARD.search(name):
                continue
            lost = self._lost(name, value, context.reward.usual)
            if lost is not None and (worst is None or lost[0] > worst[0]):
                worst = lost[0], name, lost[1], lost[2]
        if worst is None:
            return QUIET
        _, name, level, best = worst
        return Finding(WARN, level, best, self.thresholds["warn"] * best, (context.reward.usual,), (name,))

    def _lost(self, name: str, value: float, reward: float) -> tuple[float, float, float] | None:
        """(share lost, level now, best level) where the component has fallen and the total has risen since its best."""
        part = self.parts.get(name)
        if part is None:
            if len(self.parts) >= _MAX_PARTS:
                return None
            part = self.parts[name] = _Part()
        window = part.window
        window.push(value)
        if window.count < _LEVEL:
            return None
        level = window.median
        if level > part.best:
            part.best, part.noise, part.reward = level, MAD_TO_SIGMA * window.mad, reward
            return None
        line = self.thresholds["warn"] * part.best
        if part.best <= 0.0 or value >= line or level >= line:
            return None
        is_real = part.best - level > self.thresholds["sigmas"] * part.noise
        if not is_real or reward <= part.reward + self.thresholds["gain"] * abs(part.reward):
            return None
        return 1.0 - level / part.best, level, part.best

    def subject(self, finding: Finding) -> Subject:
        """The component that fell."""
        return Subject("reward_component", finding.words[0])

    def headline(self, finding: Finding) -> str:
        """The component, and the total."""
        name = Label.of(finding.words[0]).display
        return (
            f"reward component {name} {number(finding.baseline or 0)} → {number(finding.value)} while total "
            f"reward rises to {number(finding.extra[0])}"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Component now and at best, threshold, total."""
        return (*names.of(finding), Evidence("reward", finding.extra[0]))


_METRICS = ("score_mean", "reward_mean")
_TEN = {INFO: NOfM(10, 15), WARN: NOfM(10, 15)}

_LONG = 50.0
"""Mean tokens from which completions that all have one length are no longer those of a simple task."""


class SpentOnHack(Detector):
    """E8: nearly all entropy is gone while the reward rose: a solved task, or a hack that a second sign gives away.

    The signs: repetition, a collapse of length, completions of one and the same
    length, a flat evaluation, a reward component that stayed at nothing. On a
    saturated task short and equal completions are expected and do not count.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.length, self.spread = (Frozen(skip=0, size=5, minimum=3) for _ in range(2))
        self.scores: tuple[float, ...] = ()
        self.parts: dict[str, float] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the first five records."""
        values = context.values
        score = values.get("val_score")
        if score is not None:
            self.scores = (*self.scores[:1], *self.scores[1:][-3:], score)
        value = values.get("entropy")
        if value is None:
            return None
        if not self.start.is_final:
            self._learn(context, value)
            return QUIET
        base = self.start.value or 0.0
        line = min(self.thresholds["warn"] * base, self.thresholds["near"])
        if value >= line / (RELEASE if self.is_firing else 1.0) or base < self.thresholds["floor"]:
            return QUIET
        if not (context.reward.has_gained or context.reward.is_solved):
            return QUIET
        sign = self._sign(context)
        return Finding(WARN if sign else INFO, value, base, line, words=(sign,))

    def _learn(self, context: RuleContext, value: float) -> None:
        values = context.values
        self.start.push(value)
        for frozen, found in ((self.length, values.get("response_len_mean")), (self.spread, _length_spread(values))):
            if found is not None:
                frozen.push(found)
        for name, part in context.observation.instances.get("reward_component", {}).items():
            self.parts[name] = max(part, self.parts.get(name, part))

    def _sign(self, context: RuleContext) -> str:
        """What says that this is no solved task; empty where nothing does."""
        values, thresholds = context.values, self.thresholds
        if values.get("repetition_frac", 0.0) > thresholds["repetition"]:
            return f"{percent(values['repetition_frac'])} repetition"
        if self._is_flat():
            return f"evaluation flat at {number(self.scores[-1])}"
        part = self._dead_part(context)
        if part or context.reward.is_solved:
            return part
        length, base = values.get("response_len_mean"), self.length.value
        if length is not None and base is not None and length < thresholds["shorter"] * base:
            return f"completions {number(base)} → {number(length)} tokens"
        spread, usual = _length_spread(values), self.spread.value
        if spread is not None and usual and (length or 0.0) > _LONG and spread < thresholds["spread"] * usual:
            return "all completions of one length"
        return ""

    def _is_flat(self) -> bool:
        """The last three evaluations are no better than the first."""
        scores = self.scores
        return len(scores) >= int(self.thresholds["evaluations"]) and max(scores[-3:]) <= scores[0] + HARDLY_BETTER

    def _dead_part(self, context: RuleContext) -> str:
        """A component that was next to nothing, and is, while the reward rose."""
        line = self.thresholds["part"] * abs(context.reward.usual)
        for name, now in context.observation.instances.get("reward_component", {}).items():
            if name in self.parts and 0.0 <= self.parts[name] < line and 0.0 <= now < line:
                return f"reward component {name} stayed at {number(now)}"
        return ""

    def headline(self, finding: Finding) -> str:
        """How much is lost, and what gives it away."""
        before, now = number(finding.baseline or 0), number(finding.value)
        sign = finding.words[0]
        return f"entropy {before} → {now} nats/token while the reward rose" + (
            f"; {sign}: reward hack?" if sign else ""
        )


def _length_spread(values: Mapping[str, float]) -> float | None:
    """Standard deviation of completion lengths, else their range."""
    high, low = values.get("response_len_max"), values.get("response_len_min")
    return values.get("response_len_std", None if high is None or low is None else high - low)


RULES = (
    RuleSpec(
        id="R8",
        title="reward up, length down",
        family="length",
        group=Group.LEARNING,
        metrics=("response_len_mean", *_METRICS),
        detector=LengthHack,
        condition="Mean length below `length` of the first ten records while the reward has risen by a tenth of "
        "its range, 10 of 15 records.",
        thresholds={"length": 0.5},
        n_of_m=_TEN,
        warm_up=_LEVEL,
        applies=applicability.has_reward,
        resets_on_phase=True,
        evidence=EvidenceNames("response_len_mean", "baseline (run start)", Unit.TOKENS, threshold=""),
        why="Reward that rises while completions vanish is usually earned by something other than the task.",
        causes=("a dominating format or length term", "a reward that short completions satisfy", "a length penalty"),
        next=("reward_component", "val_score", "entropy", "response_len_mean", "kl_ref"),
        sources="open-r1 issue 255: format 0.48 → 0.86, accuracy 0.16 → 0.06, length 388 → 191.",
    ),
    RuleSpec(
        id="R9",
        title="reward up, length up",
        family="length",
        group=Group.LEARNING,
        metrics=("response_len_mean", *_METRICS),
        detector=LengthInflation,
        condition="Mean length above `length` times the first ten records while the reward has risen by a tenth of "
        "its range, 10 of 15 records: INFO without validation, WARN where `evaluations` evaluations in a row did not "
        "beat the best before; silent while validation rises.",
        thresholds={"length": 2.0, "evaluations": 3},
        n_of_m=_TEN,
        warm_up=_LEVEL,
        applies=applicability.has_reward,
        resets_on_phase=True,
        evidence=EvidenceNames("response_len_mean", "baseline (run start)", Unit.TOKENS, threshold=""),
        why="Reasoning makes completions longer and better; a reward for length only makes them longer.",
        causes=("a reward that long completions satisfy", "a loss that favours length", "repetition"),
        next=("val_score", "truncated_frac", "reward_component", "entropy", "kl_ref"),
        sources="judgement; Dr. GRPO on losses that favour length.",
    ),
    RuleSpec(
        id="R10",
        title="component traded off",
        family="reward",
        group=Group.LEARNING,
        metrics=("reward_component", *_METRICS),
        detector=PartTraded,
        condition="Median of ten of one reward component below `warn` of its best, lower by more than `sigmas` "
        "standard deviations of single records, while the total has risen by more than `gain` of itself since that "
        "best, 5 of 8 records. What is named as a count, an error, a cost or a length is no component.",
        thresholds={"warn": 0.6, "sigmas": 2.5, "gain": 0.05},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=_LEVEL,
        applies=applicability.has_reward,
        resets_on_phase=True,
        evidence=EvidenceNames("component", "best 10-record average"),
        why="The policy trades the intended component for an easier one; the total hides it.",
        causes=("weights favouring the easy component", "a format term earned without the task", "a loophole"),
        next=("reward_component", "val_score", "response_len_mean", "kl_ref"),
        sources="open-r1 issue 255: accuracy 0.16 → 0.064 while format went 0.48 → 0.86 and the total rose.",
    ),
    RuleSpec(
        id="E8",
        title="entropy spent on a hack",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=SpentOnHack,
        condition="Below `warn` of the first five records (which must be above `floor`) and below `near` nats in 5 of "
        "8, while the reward rose by a quarter of its range: INFO. WARN with a second sign: repetition above "
        "`repetition`; the last three of `evaluations` evaluations no better than the first; a reward component that "
        "was and is below `part` of the reward; and where the task is not saturated completions below `shorter` of "
        "their length, or the spread of their lengths below `spread` of run start.",
        thresholds={
            "warn": 0.1,
            "near": 0.5,
            "floor": 0.2,
            "repetition": 0.3,
            "evaluations": 4,
            "part": 0.05,
            "shorter": 0.3,
            "spread": 0.1,
        },
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=5,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline (run start)", Unit.NATS),
        why="A policy that found one text that pays repeats it: reward saturates, and nothing is learned any more.",
        causes=("a reward with a trivial maximum", *FALL_CAUSES[:3]),
        next=("val_score", "reward_component", "response_len_mean", "zero_std_frac", "kl_ref"),
        sources="reward hacking and solved tasks lose entropy alike; only the second sign tells them apart. Judgement.",
    ),
)

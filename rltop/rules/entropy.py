"""Entropy: the exploration budget, what a sudden change of it means, and its level.

No absolute level is valid across models, and every run that learns from
verifiable rewards loses most of its entropy: only a discontinuity, or a fall
without reward gain, is a fault. A level is INFO, unless a second sign shows that
it costs something.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise

from rltop.model import Level, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import (
    CRIT,
    INFO,
    OK,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
    Group,
    NOfM,
    RuleSpec,
)
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window, mad_of, median_of
from rltop.units import number, percent

_MIN_SAMPLES = 10
_LEVEL = 10
_SPREAD_OVER = 51
"""The record and the fifty before it."""
_METRICS = ("entropy", "entropy_seq", "action_entropy")
"""What a crash shows in: a ratio means the same per token, per completion and per action."""


_NOTHING = 0.01
"""Nats per token: of a hundred tokens one is still a choice."""
_NEAR_TOP = 0.25
"""Part of the range seen: the median of a noisy reward stays that far below its largest record."""


def _spent(value: float, context: RuleContext) -> Level:
    """WARN where next to no entropy is left and the reward is not at its top: no exploration is left to get there."""
    reward = context.reward
    is_at_top = reward.has_gained and reward.usual >= reward.top - _NEAR_TOP * (reward.top - reward.bottom)
    return OK if not 0.0 <= value <= _NOTHING or is_at_top or reward.is_high or reward.is_solved else WARN


class EntropyCrash(Detector):
    """E1: entropy falls off a cliff against the 20 records before."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(20)
        self.before: deque[float] = deque(maxlen=_SPREAD_OVER)
        self.warn, self.crit, self.floor = thresholds["warn"], thresholds["crit"], thresholds["floor"]

    def detect(self, context: RuleContext) -> Finding | None:
        """A ratio; INFO on a saturated task, and where there is nothing to explore."""
        values = context.values
        value = next((values[name] for name in _METRICS if name in values), None)
        if value is None:
            return None
        window, before = self.window, self.before
        usual, known = window.median, window.count
        window.push(value)
        before.append(value)
        if known < _MIN_SAMPLES or value >= self.warn * usual or usual <= self.floor:
            return QUIET
        if context.reward.has_few_groups:
            usual, value, low = self._levels()
            if value >= min(self.warn * usual, low) or usual <= self.floor:
                return QUIET
        if not self._is_beyond_noise(value, usual) or ("action_entropy" in values and self._falls_as_always()):
            return QUIET
        level = CRIT if value < self.crit * usual else WARN
        if context.reward.is_solved or not applicability.has_rollouts(context.algorithm, context.traits):
            level = INFO
        return Finding(level, value, usual, self.warn * usual)

    def _levels(self) -> tuple[float, float, float]:
        """Median of the records before the last ten, that of the last ten, and the lowest tenth of those before."""
        held = list(self.before)
        earlier = sorted(held[:-_LEVEL]) or [0.0]
        return median_of(earlier), median_of(held[-_LEVEL:]), earlier[len(earlier) // 10]

    def _is_beyond_noise(self, value: float, usual: float) -> bool:
        """The fall of ln entropy against its robust spread over the records before."""
        if value <= 0.0:
            return min(self.before) >= 0.0
        logs = [math.log(one) for one in list(self.before)[:-1] if one > 0.0]
        return math.log(usual / value) > self.thresholds["sigmas"] * MAD_TO_SIGMA * mad_of(logs)

    def _falls_as_always(self) -> bool:
        """In ten records it falls by no more than twice what it fell in ten before: a schedule that comes near 0.

        The entropy of continuous actions is a density's and goes on below 0, where a ratio means nothing.
        """
        held = list(self.before)
        falls = [old - new for old, new in zip(held, held[_LEVEL:], strict=False)]
        earlier = falls[:-_LEVEL]
        return bool(earlier) and falls[-1] < self.thresholds["pace"] * max(earlier)

    def absolute_level(self, value: float, context: RuleContext) -> Level:
        """Hardly any entropy is left."""
        return _spent(value, context)

    def headline(self, finding: Finding) -> str:
        """Before and after."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats within a few records"


def _is_beyond_jumps(context: RuleContext, value: float, base: float, sigmas: float) -> bool:
    """The fall of ln entropy against how far it jumps between records: batches of one prompt differ by 100 times."""
    if value <= 0.0:
        return True
    held = [one for row in context.recent if (one := row.values.get("entropy", 0.0)) > 0.0]
    jumps = [math.log(after / before) for before, after in pairwise(held)]
    noise = MAD_TO_SIGMA * mad_of(jumps) / math.sqrt(2.0) if jumps else 0.0
    return math.log(base / value) > sigmas * noise


class EarlyCollapse(Detector):
    """E2: most of the entropy is lost early: without reward gain, or too fast."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.spread_start = Frozen(skip=0, size=10, minimum=10)
        self.first_step: int | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the first five records, within the first 200."""
        value = context.values.get("entropy")
        if context.record > self.thresholds["until"]:
            return None
        if value is None:
            return None
        if self.first_step is None:
            self.first_step = context.observation.step
        spread = context.values.get("reward_std")
        if spread is not None:
            self.spread_start.push(spread)
        base = self.start.push(value)
        if base is None or base < self.thresholds["floor"]:
            return QUIET
        line = self.thresholds["warn"] * base
        if value >= line:
            return QUIET
        is_fast = context.observation.step - self.first_step <= self.thresholds["fast"]
        if context.reward.is_solved or not (is_fast or self._has_bought_nothing(context, spread)):
            return QUIET
        is_real = _is_beyond_jumps(context, value, base, self.thresholds["sigmas"])
        return Finding(WARN, value, base, line) if is_real else QUIET

    def _has_bought_nothing(self, context: RuleContext, spread: float | None) -> bool:
        """The reward has not improved, and the reward variance within groups is falling."""
        reward = context.reward
        if reward.count == 0 or reward.is_improving:
            return False
        if reward.zero_share is not None and reward.zero_share > self.thresholds["zero_share"]:
            return True
        base = self.spread_start.value
        return spread is not None and base is not None and spread < 0.5 * base

    def headline(self, finding: Finding) -> str:
        """How much is lost."""
        gone = 1.0 - finding.value / finding.baseline if finding.baseline else 0.0
        before, now = number(finding.baseline or 0), number(finding.value)
        return f"{percent(gone)} of entropy lost early: {before} → {now} nats/token"


class EntropySurge(Detector):
    """E4: entropy jumps upwards against the 50 records before."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(50)
        self.lengths: deque[float] = deque(maxlen=50)
        self.truncated: deque[float] = deque(maxlen=50)
        self.jump, self.floor = thresholds["jump"], thresholds["jump_floor"]

    def detect(self, context: RuleContext) -> Finding | None:
        """CRIT where completions grow with it or are truncated."""
        value = context.values.get("entropy")
        if value is None:
            return None
        window, length = self.window, context.values.get("response_len_mean")
        usual = window.median
        is_jump = window.count >= _MIN_SAMPLES and value > self.floor and value > self.jump * usual
        is_jump = is_jump and self._is_beyond_noise(value, usual)
        usual_length = median_of(list(self.lengths)) if is_jump and self.lengths else 0.0
        window.push(value)
        if length is not None:
            self.lengths.append(length)
        cut = context.values.get("truncated_frac")
        usual_cut = median_of(list(self.truncated)) if is_jump and self.truncated else 0.0
        if cut is not None:
            self.truncated.append(cut)
        if not is_jump:
            return QUIET
        is_longer = length is not None and usual_length > 0.0 and length > self.thresholds["longer"] * usual_length
        is_cut = cut is not None and cut > self.thresholds["truncated"] >= usual_cut
        return Finding(CRIT if is_longer or is_cut else WARN, value, usual, self.jump * usual)

    def _is_beyond_noise(self, value: float, usual: float) -> bool:
        """The rise of ln entropy against its robust spread over the records before."""
        logs = [math.log(one) for one in self.window.values if one > 0.0]
        if usual <= 0.0 or not logs:
            return True
        return math.log(value / usual) > self.thresholds["sigmas"] * MAD_TO_SIGMA * mad_of(logs)

    def headline(self, finding: Finding) -> str:
        """Before and after."""
        more = "; completions growing or truncated" if finding.level is CRIT else ""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats/token{more}"


FALL_CAUSES = (
    "no entropy or KL term", "learning rate too high", "symmetric clipping", "a reward with a trivial maximum",
    "groups too small",
)  # fmt: skip
RISE_CAUSES = ("rollout/train mismatch", "stale rollouts", "negative samples dominating", "sampling temperature")
NEXT = ("reward_mean", "zero_std_frac", "clip_frac", "off_policy_kl", "response_len_mean", "truncated_frac", "lr")
SOURCES = "Cui et al. 2025 (entropy traded for reward); measured on healthy published runs: 0.02 to 1.2 nats."
_TWO_OF_THREE = {level: NOfM(2, 3) for level in (INFO, WARN, CRIT)}


_SEQUENCE_SUM = 15.0
HARDLY_BETTER = 0.005


class Exhausted(Detector):
    """E3: entropy near 0 for long, and validation no longer improving."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.info = thresholds["info"]
        self.best: float | None = None
        self.flat_for = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """INFO; WARN after enough evaluations in a row without improvement."""
        value, score = context.values.get("entropy"), context.values.get("val_score")
        is_low = value is not None and value < self.info
        if score is not None:
            is_better = self.best is None or score > self.best + HARDLY_BETTER
            self.flat_for = 0 if is_better or not is_low else self.flat_for + 1
            self.best = score if self.best is None else max(self.best, score)
        if value is None:
            return None
        if not is_low:
            self.flat_for = 0
            return QUIET
        reward = context.reward
        is_stuck = self.flat_for >= self.thresholds["evaluations"] and not (reward.is_high or reward.is_solved)
        return Finding(WARN if is_stuck else INFO, value, None, self.info)

    def headline(self, finding: Finding) -> str:
        """The level."""
        stuck = f"; {self.flat_for} evaluations in a row without improvement" if finding.level >= WARN else ""
        return f"entropy {number(finding.value)} nats/token: little exploration left{stuck}"


class HighEntropy(Detector):
    """E5: entropy far above the start, and high in itself, for long."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()
        self.high, self.rise = thresholds["warn"], thresholds["rise"]

    def detect(self, context: RuleContext) -> Finding | None:
        """An absolute threshold and the run-start baseline; sequence sums are excluded."""
        value = context.values.get("entropy")
        if value is None:
            return None
        base = self.start.push(value)
        factor = RELEASE if self.is_firing else 1.0
        if base is None or not self.high * factor < value < _SEQUENCE_SUM or value <= self.rise * factor * base:
            return QUIET
        return Finding(WARN, value, base, self.rise * base)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats/token since run start"


class SpentForNothing(Detector):
    """E7: most of the entropy is lost, however slowly, and the reward never rose."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.teacher = Frozen(skip=0, size=5, minimum=3)

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the first five records."""
        value = context.values.get("entropy")
        if value is None:
            return None
        start = self.start
        distance = context.values.get("kl_teacher")
        if distance is not None:
            self.teacher.push(distance)
        if not start.is_final:
            start.push(value)
            return QUIET
        line = self.thresholds["warn"] * (start.value or 0.0)
        if value >= line:
            return QUIET
        if (start.value or 0.0) < self.thresholds["floor"] or context.record < self.thresholds["records"]:
            return QUIET
        if self._has_bought_something(context, distance):
            return QUIET
        is_real = _is_beyond_jumps(context, value, start.value or 0.0, self.thresholds["sigmas"])
        return Finding(WARN, value, start.value, line) if is_real else QUIET

    def _has_bought_something(self, context: RuleContext, distance: float | None) -> bool:
        reward = context.reward
        if reward.count and not reward.is_constant:
            return reward.has_gained or reward.is_high or reward.is_solved
        # Without a reward the KL to the teacher is the measure; without that, nothing can be said.
        base = self.teacher.value
        return distance is None or base is None or distance < self.thresholds["closer"] * base

    def absolute_level(self, value: float, context: RuleContext) -> Level:
        """Hardly any entropy is left."""
        return _spent(value, context)

    def headline(self, finding: Finding) -> str:
        """How much is lost."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats/token with no gain in return"


class SequenceSum(Detector):
    """E6: an entropy that no vocabulary allows per token: a sum over the sequence."""

    def detect(self, context: RuleContext) -> Finding | None:
        """An absolute threshold: 15 nats per token would be three million equally likely tokens."""
        if context.record > self.thresholds["records"]:
            return None
        value = context.values.get("entropy")
        if value is None:
            return None
        return Finding(INFO, value, None, self.thresholds["info"]) if value > self.thresholds["info"] else QUIET

    def headline(self, finding: Finding) -> str:
        """What the level means."""
        return f"entropy {number(finding.value)} looks like a sum over the sequence: only changes are judged"


RULES = (
    RuleSpec(
        id="E1",
        title="entropy crash",
        family="entropy",
        group=Group.LEARNING,
        metrics=_METRICS,
        detector=EntropyCrash,
        condition="Below `warn` of the median of the 20 records before in 2 of 3: WARN; below `crit`: CRIT. The "
        "median must be above `floor`, and the fall of ln entropy more than `sigmas` times its robust spread over the "
        "50 records before. Where a batch is one or two groups the median of ten records is compared, "
        "with nine tenths of those before too. The entropy of actions must have fallen in ten records by `pace` times "
        "the most that it did in ten before. INFO only on a saturated task and without rollouts.",
        thresholds={"warn": 0.25, "crit": 0.15, "floor": 0.005, "sigmas": 4.0, "pace": 2.0},
        n_of_m=_TWO_OF_THREE,
        warm_up=_MIN_SAMPLES,
        evidence=EvidenceNames("entropy", "baseline", Unit.NATS),
        why="A sudden rather than gradual loss of entropy is a policy collapsing onto one completion; it rarely "
        "recovers.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E2",
        title="early entropy collapse",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=EarlyCollapse,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, within the "
        "first `fast` steps; or within "
        "the first "
        "`until` records while the reward has not improved and its variance is lost (zero-variance groups above "
        "`zero_share`, or the reward's deviation halved). Its logarithm must have fallen by `sigmas` of its jumps "
        "between records. Silent on a saturated task.",
        thresholds={"warn": 0.15, "floor": 0.02, "fast": 60, "until": 200, "zero_share": 0.5, "sigmas": 4.0},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=3,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline (run start)", Unit.NATS),
        why="Entropy is traded for reward; a healthy run uses three quarters of it in some 200 steps. "
        "Lost in "
        "a fraction of that, or without reward gain, it leaves no room to explore.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E4",
        title="entropy surge",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=EntropySurge,
        condition="Above `jump`× the median of the 50 records before and above `jump_floor`, 3 of 5 records: "
        "WARN, and CRIT with "
        "completions `longer` times the baseline or more than `truncated` of them truncated, which had not been. The "
        "rise of ln entropy must be more than `sigmas` times its robust spread over these 50.",
        thresholds={"jump": 2.0, "jump_floor": 0.3, "longer": 1.5, "truncated": 0.2, "sigmas": 3.0},
        n_of_m={level: NOfM(3, 5) for level in (INFO, WARN, CRIT)},
        warm_up=_MIN_SAMPLES,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline", Unit.NATS),
        why="Surging entropy is noise taking over: off-policy data, routing noise, or completions that never end.",
        causes=RISE_CAUSES,
        next=(
            "off_policy_kl",
            "response_len_mean",
            "truncated_frac",
            "reward_mean",
            "clip_frac_high",
            "staleness_mean",
        ),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); " + SOURCES,
    ),
    RuleSpec(
        id="E3",
        title="low entropy",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=Exhausted,
        condition="Below `info` nats per token in 20 records in a row: INFO; WARN where meanwhile `evaluations` "
        "evaluations in a row did not beat the best and the reward is not at its top.",
        thresholds={"info": 0.02, "evaluations": 3},
        n_of_m={INFO: NOfM(20, 20), WARN: NOfM(20, 20)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline", Unit.NATS),
        why="Little exploration is left; some runs keep learning at this level, so it is INFO.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E5",
        title="high entropy",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=HighEntropy,
        condition="Above `warn` nats per token and above `rise`× run start in 10 of 15 records: WARN.",
        thresholds={"warn": 1.0, "rise": 2.0},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15)},
        warm_up=10,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline (run start)", Unit.NATS),
        why="A policy that becomes less certain of every token is learning noise, however slowly.",
        causes=RISE_CAUSES,
        next=("off_policy_kl", "clip_frac_high", "staleness_mean", "reward_mean", "response_len_mean"),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); base models start above 1: hence a baseline.",
    ),
    RuleSpec(
        id="E7",
        title="entropy lost, no gain",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=SpentForNothing,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, after `records` "
        "records, while the reward is above the start by less than a quarter of its range; without a reward, while "
        "the KL to the teacher is above `closer` of its start: WARN. Its logarithm must have fallen by `sigmas` of its "
        "jumps between records.",
        thresholds={"warn": 0.15, "floor": 0.02, "records": 20, "closer": 0.7, "sigmas": 4.0},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=20,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline (run start)", Unit.NATS),
        why="Entropy is traded for reward. A run that has lost it without any gain has no exploration left to recover.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E6",
        title="sequence-level entropy",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=SequenceSum,
        condition="Above `info` in 5 of 5 records among the first `records`: INFO. Rules on levels skip such a run, "
        "rules on changes do not.",
        thresholds={"info": _SEQUENCE_SUM, "records": 50},
        n_of_m={INFO: NOfM(5, 5)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "baseline", Unit.NATS),
        why="Some loss aggregations sum entropy over the completion; read as per-token it would mean pure noise.",
        causes=("loss aggregated as a sum over tokens", "a trainer that logs sequence entropy"),
        next=("response_len_mean", "loss"),
        sources="veRL: entropy follows loss_agg_mode (ray_trainer.py); rLLM issue 391.",
    ),
)

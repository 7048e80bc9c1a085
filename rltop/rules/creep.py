"""Slow creep: levels that leave run start too slowly for any rule that looks for a jump.

Each rule here names a line (a multiple of run start, with a floor below which it
does not matter), how long it must hold, and an end: halfway back, on a log
scale. What must not be an explanation (longer completions, larger rewards) is
checked before anything is raised.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Evidence, Traits, Unit
from rltop.rules import applicability
from rltop.rules.context import RewardTrack, RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec, Subject
from rltop.stats.rolling import Frozen, mean_and_error
from rltop.units import duration, number

EIGHT_OF_TEN = {level: NOfM(8, 10) for level in (INFO, WARN)}
_SIZE, _MINIMUM = 8, 5
"""Values behind the run-start baseline: few, because a slow rise is in them too."""


class Creep(Detector):
    """A level that is a multiple of run start; subclasses say what it is, and what would explain it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=_SIZE, minimum=_MINIMUM)
        self.line = math.inf
        self.release = math.inf

    def read(self, context: RuleContext) -> float | None:
        """The level in this record, or None where it is not logged."""
        raise NotImplementedError

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Whether something else grew as well, so that a rise by `factor` is expected.

        Args:
            context: the newest record.
            factor: the level over that of run start; infinite where that was none.
        """
        return False

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the line, which is worked out once the baseline is final."""
        value = self.read(context)
        if value is None:
            return None
        if value <= (self.release if self.is_firing else self.line) and self.start.is_final:
            return QUIET
        if not self.start.is_final:
            self._learn(value)
            return QUIET
        base = self.start.value or 0.0
        if self.is_explained(context, value / base if base > 0.0 else math.inf):
            return QUIET
        return Finding(WARN, value, base, self.line)

    def _learn(self, value: float) -> None:
        start, thresholds = self.start, self.thresholds
        start.push(value)
        base = start.value
        if base is None or not start.is_final:
            return
        noise = base + thresholds["sigmas"] * start.spread
        self.line = max(thresholds["warn"] * base, thresholds["floor"], noise)
        self.release = self.line / math.sqrt(thresholds["warn"])


class _Grown:
    """How many times its run start something is, where it is logged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = Frozen(skip=0, size=_SIZE, minimum=_MINIMUM)

    def note(self, values: Mapping[str, float]) -> None:
        """Take the baseline in; free of charge once it is final."""
        if not self.start.is_final and self.name in values:
            self.start.push(values[self.name])

    def factor(self, values: Mapping[str, float]) -> float | None:
        """Now over run start; None where either is not known or not positive."""
        value, base = values.get(self.name), self.start.value
        return None if value is None or base is None or base <= 0.0 else value / base

    def clone(self) -> _Grown:
        """An independent copy."""
        twin = _Grown(self.name)
        twin.start = self.start.clone()
        return twin


class MismatchCreep(Creep):
    """M10: the mean log-probability difference between sampler and trainer."""

    def read(self, context: RuleContext) -> float | None:
        """The size of it: some trainers log it signed."""
        value = context.values.get("rollout_logp_diff_mean")
        return None if value is None else abs(value)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return (
            f"rollout/train log-prob gap {number(finding.baseline or 0)} → {number(finding.value)} nats/token "
            "since run start"
        )


class TurnsCreep(Creep):
    """T10: the longest episode has many times the turns it had, the mean has not moved."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.mean = _Grown("num_turns_mean")

    def read(self, context: RuleContext) -> float | None:
        """Turns of the longest episode."""
        self.mean.note(context.values)
        return context.values.get("num_turns_max")

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Episodes that are all longer are T6's; without a mean nothing is known of them."""
        grown = self.mean.factor(context.values)
        return grown is None or grown > self.thresholds["mean"]

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return (
            f"longest episode {number(finding.baseline or 0)} → {number(finding.value)} turns, "
            "mean turns unchanged: a few episodes no longer finish"
        )


class AdvantageCreep(Creep):
    """A3: the spread of advantages is a multiple of run start, the rewards' is not."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.reward = _Grown("reward_std")

    def read(self, context: RuleContext) -> float | None:
        """Largest minus smallest, else their standard deviation."""
        values = context.values
        self.reward.note(values)
        high, low = values.get("adv_max"), values.get("adv_min")
        return values.get("adv_std") if high is None or low is None else high - low

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Rewards that are larger, or spread wider, spread unnormalised advantages wider too."""
        part, reward = self.thresholds["reward"], context.reward
        grown = self.reward.factor(context.values)
        if grown is not None and grown > part * factor:
            return True
        reach = max(abs(reward.start), abs(reward.usual), reward.top - reward.bottom if reward.count else 0.0)
        return abs(reward.start) > 0.0 and reach > part * factor * abs(reward.start)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return (
            f"advantage spread {number(finding.baseline or 0)} → {number(finding.value)} since run start; "
            "rewards are no wider"
        )


class ReaderCreep(Creep):
    """P18: waiting for or loading the batch takes a multiple of run start, and much of the step."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.length = _Grown("response_len_mean")
        self.name = ""

    def read(self, context: RuleContext) -> float | None:
        """Seconds of the stage that is logged."""
        values = context.values
        self.length.note(values)
        if not self.name:
            self.name = next((name for name in _READING if name in values), "")
        return values.get(self.name)

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Little of the step, or completions that are as much longer."""
        values = context.values
        step = values.get("time_step", 0.0)
        if step > 0.0 and values[self.name] < self.thresholds["share"] * step:
            return True
        grown = self.length.factor(values)
        return grown is not None and grown > 0.5 * factor

    def subject(self, finding: Finding) -> Subject:
        """The stage that is logged."""
        return Subject(self.name)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return f"batch reading {duration(finding.baseline or 0)} → {duration(finding.value)} since run start"


class VersionLag(Creep):
    """M11: the trained samples come from a policy that is more steps behind than at run start."""

    def read(self, context: RuleContext) -> float | None:
        """Trainer steps minus the mean version of the samples, where it counts trainer steps."""
        version = context.values.get("sample_version")
        return None if version is None else max(0.0, context.observation.step - version)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return (
            f"samples {number(finding.value)} policy versions behind the trainer "
            f"({number(finding.baseline or 0)} at run start)"
        )


class LossGrowth(Creep):
    """C7: the loss is orders of magnitude above run start: values chase their own targets (DQN and its like)."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.name = ""

    def read(self, context: RuleContext) -> float | None:
        """The size of the critic's loss, else of the only one that is logged."""
        values = context.values
        if not self.name:
            self.name = next((name for name in _LOSSES if name in values), "")
        value = values.get(self.name)
        return None if value is None else abs(value)

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """A squared error grows with the square of the returns."""
        reward = context.reward
        if not reward.count:
            return False
        before = max(abs(reward.start), 1.0)
        grown = max(abs(reward.usual), before) / before
        return factor <= self.thresholds["warn"] * grown * grown

    def detect(self, context: RuleContext) -> Finding | None:
        """Orders of magnitude more: CRIT."""
        finding = super().detect(context)
        if finding is None or finding is QUIET:
            return finding
        is_lost = (finding.baseline or 0.0) > 0.0 and finding.value > self.thresholds["crit"] * (finding.baseline or 0)
        return finding._replace(level=CRIT if is_lost else WARN)

    def subject(self, finding: Finding) -> Subject:
        """The loss that is read."""
        return Subject(self.name)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return f"loss {number(finding.baseline or 0)} → {number(finding.value)} since run start: diverging"


class StuckAtFloor(Detector):
    """R21: the reward has been at its lowest nearly all along, and nothing else moves either."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.others = tuple(_Grown(name) for name in _MOVING)
        self.floor = math.inf
        self.at_floor = self.seen = self.streak = 0

    def clone(self) -> StuckAtFloor:
        """An independent copy."""
        twin = super().clone()
        twin.others = tuple(other.clone() for other in self.others)
        return twin

    def detect(self, context: RuleContext) -> Finding | None:
        """A floor is a value that repeats; noise has none."""
        reward, values = context.reward, context.values
        value = reward.value
        if value is None:
            return None
        self.seen += 1
        if self.seen <= _SIZE:
            for other in self.others:
                other.note(values)
        reach = _SAME * max(1.0, abs(value))
        if value < self.floor - reach:
            self.floor, self.at_floor, self.streak = value, 0, 0
        is_at_floor = value <= self.floor + reach
        self.at_floor += is_at_floor
        self.streak = self.streak + 1 if is_at_floor else 0
        thresholds = self.thresholds
        if self.seen < thresholds["records"] or reward.is_constant:
            return QUIET
        if self.streak >= thresholds["records"] and self.at_floor >= thresholds["share"] * self.seen:
            if not self._is_flat(values):
                return QUIET
        elif not self._is_near(reward):
            return QUIET
        return Finding(WARN, value, self.floor, None, (float(self.at_floor), float(self.seen)))

    def _is_near(self, reward: RewardTrack) -> bool:
        """No record has ever been far above a lowest reward, below 0, that several records hit exactly."""
        near = self.thresholds["near"] * abs(self.floor)
        is_hit = self.floor < 0.0 and self.at_floor >= self.thresholds["hits"]
        return is_hit and reward.top <= self.floor + near and not reward.has_gained

    def _is_flat(self, values: Mapping[str, float]) -> bool:
        """At least one other is logged, and all that are stand where they stood."""
        factors = [factor for other in self.others if (factor := other.factor(values)) is not None]
        reach = self.thresholds["flat"]
        return bool(factors) and all(1.0 / reach <= factor <= reach for factor in factors)

    def headline(self, finding: Finding) -> str:
        """The floor, and how long."""
        found, seen = finding.extra
        return (
            f"reward {number(finding.value)}, at or near its lowest, {number(finding.baseline or 0)}, since the first "
            f"of {seen:,.0f} records ({found:,.0f} exactly there): nothing learned"
        )


_SIDE = 10
"""Records whose mean is compared, at run start and now."""


class PenalisedDown(Detector):
    """R20: the score rises while score minus KL penalty, which is what is maximised, falls."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.head: tuple[list[float], list[float]] = ([], [])
        self.score: deque[float] = deque(maxlen=_SIDE)
        self.final: deque[float] = deque(maxlen=_SIDE)

    def clone(self) -> PenalisedDown:
        """An independent copy."""
        twin = super().clone()
        twin.head = (self.head[0].copy(), self.head[1].copy())
        return twin

    def detect(self, context: RuleContext) -> Finding | None:
        """Means of ten against the first ten, beyond `sigmas` standard errors both."""
        score, final = context.values.get("score_mean"), context.values.get("reward_final")
        if score is None or final is None:
            return None
        if len(self.head[0]) < _SIDE:
            self.head[0].append(score)
            self.head[1].append(final)
            return QUIET
        self.score.append(score)
        self.final.append(final)
        if len(self.score) < _SIDE:
            return QUIET
        return self._compare()

    def _compare(self) -> Finding:
        sigmas = self.thresholds["sigmas"] * (0.5 if self.is_firing else 1.0)
        if sum(self.final) >= sum(self.head[1]):
            return QUIET
        final, final_error = mean_and_error(self.head[1])
        final_now, final_now_error = mean_and_error(list(self.final))
        score, score_error = mean_and_error(self.head[0])
        score_now, score_now_error = mean_and_error(list(self.score))
        gained, lost = score_now - score, final - final_now
        is_gain = gained > sigmas * math.hypot(score_error, score_now_error)
        is_loss = lost > sigmas * math.hypot(final_error, final_now_error)
        if not (is_gain and is_loss) or lost <= self.thresholds["share"] * gained:
            return QUIET
        return Finding(WARN, final_now, final, None, (score, score_now))

    def headline(self, finding: Finding) -> str:
        """Both, before and now."""
        before, after = finding.extra
        return (
            f"penalised reward {number(finding.baseline or 0)} → {number(finding.value)} while the score rises "
            f"{number(before)} → {number(after)}: the KL penalty costs more than is gained"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Both, before and now."""
        before, after = finding.extra
        return (*names.of(finding), Evidence("score (run start)", before), Evidence("score", after))


_LOSSES = ("value_loss", "loss")
_MOVING = ("entropy", "response_len_mean", "episode_len")
_SAME = 1e-6
_READING = ("time_load_data", "time_wait_data")
_START = "baseline (run start)"


def _reads_in_step(algorithm: Algorithm, traits: Traits) -> bool:
    """Where one part may wait for the other it is P9's."""
    return not applicability.is_disaggregated(algorithm, traits)


def _has_groups_or_critic(algorithm: Algorithm, traits: Traits) -> bool:
    """Advantages of language models; those of classic control grow with the returns."""
    return applicability.has_rollouts(algorithm, traits) and algorithm is not Algorithm.EMBODIED


RULES = (
    RuleSpec(
        id="M10",
        title="mismatch creeping up",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_logp_diff_mean",),
        detector=MismatchCreep,
        condition="Mean log-probability difference above `warn`× run start (first eight records), above `floor` and "
        "above `sigmas` deviations of that start, in 8 of 10 records: WARN. It ends below the line / sqrt(`warn`).",
        thresholds={"warn": 2.0, "floor": 0.05, "sigmas": 4.0},
        n_of_m=EIGHT_OF_TEN,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("log-prob gap", _START, Unit.NATS),
        why="A mismatch that grows over hundreds of steps never jumps, and ends in the same off-policy collapse.",
        causes=("stale rollouts", "low precision", "expert routing that drifts apart", "weights synced in part"),
        next=("off_policy_kl", "staleness_mean", "entropy", "grad_norm", "response_len_mean", "reward_mean"),
        sources="NeMo-RL docs: an upward average is not acceptable; 0.05 nats is judgement.",
    ),
    RuleSpec(
        id="M11",
        title="samples behind",
        family="offpolicy",
        group=Group.LEARNING,
        metrics=("sample_version",),
        measures="trainer steps minus the version of the samples",
        detector=VersionLag,
        condition="Samples more than `floor` versions behind the trainer's step, `warn`× run start and `sigmas` "
        "deviations of that start, in 8 of 10 records: WARN. It ends below the line / sqrt(`warn`).",
        thresholds={"warn": 2.0, "floor": 8.0, "sigmas": 4.0},
        n_of_m=EIGHT_OF_TEN,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("versions behind", _START, Unit.COUNT),
        why="Samples of an older policy bias the update towards it.",
        causes=("generation too slow for the trainer", "weights no longer synced", "queue too long"),
        next=("staleness_mean", "off_policy_kl", "time_weight_sync", "clip_frac", "reward_mean"),
        sources="prime-rl (8 versions at most by default); the rise over run start is judgement.",
    ),
    RuleSpec(
        id="A3",
        title="advantage spread",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min", "adv_std"),
        measures="largest minus smallest advantage",
        detector=AdvantageCreep,
        condition="Largest minus smallest advantage (else their deviation) above `warn`× run start, `floor` and "
        "`sigmas` deviations of that start, in 8 of 10 records, while neither the level of the reward nor its "
        "deviation grew by `reward` of that factor: WARN. It ends below the line / sqrt(`warn`).",
        thresholds={"warn": 8.0, "floor": 20.0, "sigmas": 4.0, "reward": 0.25},
        n_of_m=EIGHT_OF_TEN,
        applies=_has_groups_or_critic,
        evidence=EvidenceNames("advantage spread", _START),
        why="A few completions with huge advantages make the update; the rest of the batch does not count.",
        causes=("division by a vanishing deviation", "a critic that drifts away", "unbounded reward components"),
        next=("reward_std", "reward_max", "value_loss", "grad_norm", "clip_frac"),
        sources="Samuelson's inequality bounds normalised advantages at sqrt(n); the factor is judgement.",
    ),
    RuleSpec(
        id="T10",
        title="endless episodes",
        family="agentic",
        group=Group.LEARNING,
        metrics=("num_turns_max", "num_turns_mean"),
        detector=TurnsCreep,
        condition="Turns of the longest episode above `warn`× run start, `floor` and `sigmas` deviations of that "
        "start, in 8 of 10 records, while mean turns are within `mean`× theirs: WARN. It ends below the line / "
        "sqrt(`warn`).",
        thresholds={"warn": 4.0, "floor": 20.0, "sigmas": 4.0, "mean": 1.5},
        n_of_m=EIGHT_OF_TEN,
        applies=applicability.has_rollouts,
        resets_on_phase=True,
        evidence=EvidenceNames("turns of the longest episode", _START, Unit.COUNT),
        why="The batch waits for one episode that loops; the mean of all does not show it.",
        causes=("a failing tool being retried", "a policy that never gives a final answer", "no limit on turns"),
        next=("num_turns_mean", "tool_failure_frac", "time_gen", "time_tool_sample_max", "truncated_frac"),
        sources="judgement.",
    ),
    RuleSpec(
        id="P18",
        title="slow batch reading",
        family="performance",
        group=Group.SYSTEM,
        metrics=_READING,
        detector=ReaderCreep,
        condition="Time to load or to wait for the batch above `warn`× run start, `floor` seconds and `sigmas` "
        "deviations of that start, and above `share` of the step, in 8 of 10 records, completions not longer by half "
        "of that factor: WARN. It ends below the line / sqrt(`warn`). Disaggregated runs are P9's.",
        thresholds={"warn": 5.0, "floor": 30.0, "sigmas": 4.0, "share": 0.25},
        n_of_m=EIGHT_OF_TEN,
        applies=_reads_in_step,
        evidence=EvidenceNames("batch reading", _START, Unit.SECONDS),
        why="The GPUs of the trainer are idle meanwhile, on every step.",
        causes=("a buffer that is scanned from its beginning", "a slow file system", "rollouts that arrive late"),
        next=("time_step", "queue_size", "response_len_max", "num_turns_max", "time_gen"),
        sources="judgement.",
    ),
    RuleSpec(
        id="C7",
        title="loss diverges",
        family="loss",
        group=Group.LEARNING,
        metrics=_LOSSES,
        detector=LossGrowth,
        condition="Value loss, else loss, above `warn`× run start (first eight records), `floor` and `sigmas` "
        "deviations of that start, and that many times the square of the growth of the reward, in 8 of 10 records: "
        "WARN; above `crit`×: CRIT. It ends below the line / sqrt(`warn`).",
        thresholds={"warn": 1e4, "crit": 1e6, "floor": 1e3, "sigmas": 4.0},
        n_of_m={INFO: NOfM(8, 10), WARN: NOfM(8, 10), CRIT: NOfM(8, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("loss", _START),
        why="Bootstrapped values that chase their own targets grow without bound; the policy follows them.",
        causes=("a target network updated too often", "learning rate too high", "rewards or inputs not scaled"),
        next=("value_mean", "return_mean", "grad_norm", "lr", "reward_mean"),
        sources="van Hasselt et al. 2018 (deadly triad): soft divergence stays within two orders of magnitude.",
    ),
    RuleSpec(
        id="R21",
        title="stuck at its lowest",
        family="reward",
        group=Group.LEARNING,
        metrics=("score_mean", "reward_mean"),
        measures="how long the reward has stayed at its lowest value",
        detector=StuckAtFloor,
        condition="The reward at one and the same lowest value for `records` records in a row and on `share` of all, "
        "while entropy and lengths (at least one of them logged) are within `flat`× of run start: WARN. Or a lowest "
        "reward below 0 that `hits` records hit exactly, and no record of at least `records` above it by `near` of its "
        "size, nor a gain. It ends with rewards above it. A reward that never moved at all is R2's.",
        thresholds={"records": 80, "share": 0.9, "flat": 1.1, "hits": 3, "near": 0.1},
        n_of_m=EIGHT_OF_TEN,
        warm_up=80,
        applies=applicability.has_reward,
        evidence=EvidenceNames("reward", "lowest"),
        why="A policy that never meets a reward has nothing to learn from; waiting longer does not help.",
        causes=("a reward too sparse to be met by chance", "exploration too small", "a broken reward or environment"),
        next=("entropy", "grad_norm", "lr", "reward_std", "response_len_mean"),
        sources="judgement: sparse-reward control (MountainCar, mazes) that never reaches its goal.",
    ),
    RuleSpec(
        id="R20",
        title="penalised reward falls",
        family="reward",
        group=Group.LEARNING,
        metrics=("reward_final", "score_mean"),
        detector=PenalisedDown,
        condition="Mean of ten records of the penalised reward below the first ten by more than `sigmas` standard "
        "errors and `share` of the gain in score, while the score is above its own by `sigmas`, in 8 of 10 records: "
        "WARN. It ends at half of that.",
        thresholds={"sigmas": 4.0, "share": 0.5},
        n_of_m=EIGHT_OF_TEN,
        warm_up=20,
        applies=applicability.has_reward,
        evidence=EvidenceNames("penalised reward", _START),
        why="The objective is score minus KL penalty: it gets worse although the score looks good.",
        causes=(
            "reward hacking far from the reference",
            "learning rate too high",
            "KL coefficient too low or adaptive",
        ),
        next=("kl_ref", "score_mean", "response_len_mean", "entropy"),
        sources="Gao et al. 2022 (over-optimisation); the thresholds are judgement.",
    ),
)

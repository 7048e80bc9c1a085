"""Dead from the first record: a run that has never had anything to learn from, or hardly ever.

Rules with a baseline need a healthy one; this is what a run looks like that never had it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import FLAT_REWARD_STD, RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.units import number, percent

_ACTOR = ("grad_norm", "policy_loss", "loss", "clip_frac", "entropy")
_NO_CONTRAST = 0.99


class NoLearningSignal(Detector):
    """R13: the reward has never moved, and there is no gradient, no spread or no entropy either.

    Not while the learning rate is 0 (or unknown, without a gradient norm) or only the critic is
    trained, nor under a teacher, which needs no reward. A gradient that is alive without a
    reference policy comes from something that is not logged: then it takes `unmoved` records,
    and is never CRIT. A reward that is above 0 and the same everywhere is a task that was solved before.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.has_lived = False
        self.dead = self.still = 0
        self.shortest, self.longest = float("inf"), float("-inf")
        self.since: tuple[int, int] | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Over with the first reward that differs from the others."""
        if self.has_lived:
            return QUIET
        reward, values = context.reward, context.values
        if reward.value is None:
            return None
        if not reward.is_constant or "kl_teacher" in values:
            self.has_lived = True
            return QUIET
        if not (context.lr if context.lr is not None else "grad_norm" in values):
            return None
        if context.traits.has_critic and not any(name in values for name in _ACTOR):
            return None
        self.since = self.since or (context.observation.record, context.observation.step)
        self.still += 1
        return self._judge(reward.value, context)

    def _judge(self, value: float, context: RuleContext) -> Finding:
        thresholds, values = self.thresholds, context.values
        length = values.get("episode_len")
        if length is not None:
            self.shortest, self.longest = min(self.shortest, length), max(self.longest, length)
        gradient, share = values.get("grad_norm"), context.reward.zero_share
        has_no_gradient = gradient is not None and gradient < thresholds["gradient"]
        has_no_spread = values.get("reward_std", 1.0) < FLAT_REWARD_STD or (share is not None and share >= _NO_CONTRAST)
        is_alive = gradient is not None and gradient >= thresholds["alive"] and "kl_ref" not in values
        entropy = values.get("entropy", values.get("action_entropy"))
        is_certain = (
            entropy is not None
            and abs(entropy) < thresholds["certain"]
            and abs(values.get("kl_old", 1.0)) < thresholds["certain"]
        )
        is_dead = value <= 0.0 and (has_no_gradient or is_certain or (has_no_spread and not is_alive))
        self.dead = self.dead + 1 if is_dead else 0
        words = tuple(
            word
            for holds, word in (
                (has_no_gradient, "no gradient"),
                (has_no_spread, "no spread within groups"),
                (is_certain, "no entropy"),
            )
            if holds
        )
        if self.dead >= thresholds["warn"]:
            level = CRIT if self.dead >= thresholds["crit"] else WARN
            return Finding(level, value, None, None, (float(self.dead),), words)
        is_of_language = "response_len_mean" in values or share is not None
        if self.still < thresholds["unmoved" if is_of_language else "classic"]:
            return QUIET
        if value > 0.0 and (has_no_spread if is_of_language else self._is_solved(value)):
            return Finding(INFO, value, None, None, (float(self.still),), words) if is_of_language else QUIET
        return Finding(WARN, value, None, None, (float(self.still),), words)

    def _is_solved(self, value: float) -> bool:
        """A return above 0 that is 1, the top of a task with one goal, or comes with episodes of one length."""
        return value == 1.0 or self.shortest >= self.longest

    def began(self) -> tuple[int, int] | None:
        """The first record that counts."""
        return self.since

    def headline(self, finding: Finding) -> str:
        """The one reward, for how long, and what else is missing."""
        rest = f", {' and '.join(finding.words)}" if finding.words else ""
        # Records with a learning rate of 0 do not count.
        first = "the first " if self.since is None or self.since[0] <= 1 else ""
        return f"reward {number(finding.value)} on each of {first}{finding.extra[0]:.0f} records{rest}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """The reward, and how many records."""
        return (*names.of(finding), Evidence("records", finding.extra[0], Unit.COUNT))


class MostlyOneReward(Detector):
    """R22: batch after batch all completions earn one and the same reward, with few batches in between that differ.

    R11 and R2 look for such records in a row, and a lone batch that differs ends the row. By chance a batch without
    spread is at the floor or the top of the task, so that there more of them are needed, or none counts.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.flat: deque[float | None] = deque(maxlen=int(thresholds["records"]))

    def detect(self, context: RuleContext) -> Finding | None:
        """How many of the newest records have no spread and the most frequent reward."""
        reward, values = context.reward, context.values
        if reward.value is None or (is_flat := self._is_flat(values, reward.zero_share)) is None:
            return None
        self.flat.append(round(reward.value, 9) if is_flat else None)
        if len(self.flat) < self.thresholds["least"] or reward.is_constant or "kl_teacher" in values:
            return QUIET
        counts = Counter(one for one in self.flat if one is not None)
        if not counts or context.lr == 0.0:
            return QUIET
        level, count = counts.most_common(1)[0]
        share = count / len(self.flat)
        is_floor = level <= reward.bottom
        line = self.thresholds["floor" if is_floor else "warn"]
        if share < line * (RELEASE if self.is_firing else 1.0) or level >= reward.top:
            return QUIET
        if reward.is_high or reward.is_solved or (is_floor and reward.has_few_groups):
            return QUIET
        return Finding(WARN, share, None, line, (level,))

    def _is_flat(self, values: Mapping[str, float], zero_share: float | None) -> bool | None:
        """No spread; where none is logged, a policy-gradient loss of exactly 0; None where nothing tells."""
        if "reward_std" in values:
            return values["reward_std"] < FLAT_REWARD_STD
        if "reward_max" in values and "reward_min" in values:
            return values["reward_max"] - values["reward_min"] < FLAT_REWARD_STD
        if zero_share is not None:
            return zero_share >= _NO_CONTRAST
        return values["loss"] == 0.0 and values.get("grad_norm", 0.0) == 0.0 if "loss" in values else None

    def headline(self, finding: Finding) -> str:
        """Share and reward."""
        return (
            f"{percent(finding.value)} of the newest {len(self.flat)} batches score {number(finding.extra[0])} "
            "throughout: nothing to learn from them"
        )


RULES = (
    RuleSpec(
        id="R13",
        title="no learning signal",
        family="reward",
        group=Group.LEARNING,
        metrics=("score_mean", "reward_mean", "success_frac"),
        detector=NoLearningSignal,
        condition="From the first record on the reward is 0 or below and never moves, and the gradient norm is below "
        "`gradient`, or entropy and step KL are below `certain` (the policy always does the same), or the rewards of a "
        "batch do not differ (which says nothing where the gradient is above `alive` "
        "and there is no reference policy): WARN after `warn` records, CRIT after `crit`. A reward that never moved: "
        "WARN after `unmoved` records, or `classic` where no completions are logged; INFO where it is above 0 "
        "without spread, silent there without completions where it is 1 or all episodes have one length. Not with a "
        "learning rate of 0, while only the critic is trained, or in distillation.",
        thresholds={
            "warn": 20,
            "crit": 50,
            "unmoved": 50,
            "classic": 50,
            "gradient": 1e-8,
            "alive": 1e-3,
            "certain": 1e-6,
        },
        clear_after=3,
        applies=applicability.has_reward,
        evidence=EvidenceNames("reward", "", threshold=""),
        why="A run that has never had a reward to compare cannot learn: the compute is wasted.",
        causes=(
            "a reward function that returns a constant or cannot parse the completions",
            "prompts far too hard for the policy",
            "every completion truncated before it can score",
            "a wrong chat template or stop token",
        ),
        next=("zero_std_frac", "truncated_frac", "reward_component", "response_len_mean", "grad_norm", "lr"),
        sources="judgement: 20 batches without one success are a success rate that no group of usual size learns from.",
    ),
    RuleSpec(
        id="R22",
        title="mostly one reward",
        family="reward",
        group=Group.LEARNING,
        metrics=("reward_std", "reward_max", "score_mean", "reward_mean"),
        measures="share of batches with one and the same reward",
        detector=MostlyOneReward,
        condition="Of the newest `records` (at least `least`) `warn` have no spread of rewards and exactly the same "
        "reward, 5 records in a row: WARN; `floor` of them where it is the lowest reward seen, and not there where a "
        "batch is one or two groups. Where no spread is logged, a loss of exactly 0 without a gradient norm above 0 "
        "counts. Not at the top of the range, for a reward that never moved (R13), in distillation, or with a "
        "learning rate of 0. It ends below nine tenths of that.",
        thresholds={"records": 30, "least": 20, "warn": 0.6, "floor": 0.9},
        n_of_m={level: NOfM(5, 5) for level in (INFO, WARN, CRIT)},
        clear_after=5,
        warm_up=20,
        applies=applicability.compares_groups,
        evidence=EvidenceNames("share of the batches", "", Unit.FRACTION),
        why="Most of the compute buys no gradient, although single batches still differ.",
        causes=(
            "one completion for every prompt",
            "prompts far too hard for the policy",
            "a reward function that mostly returns its default",
        ),
        next=("entropy", "response_len_mean", "zero_std_frac", "grad_norm", "reward_component"),
        sources="judgement: by chance batches of few completions agree at the floor or the top, not in between.",
    ),
)

"""Dead from the first record: a run that has never had anything to learn from.

Rules with a baseline need a healthy one; this is what a run looks like that never had it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import FLAT_REWARD_STD, RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, RuleSpec
from rltop.units import number

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
        return f"reward {number(finding.value)} on each of the first {finding.extra[0]:.0f} records{rest}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """The reward, and how many records."""
        return (*names.of(finding), Evidence("records", finding.extra[0], Unit.COUNT))


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
)

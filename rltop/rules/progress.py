"""Progress: has the reward stopped moving, as a plateau or at its maximum?

All of it is INFO: a plateau is where most runs end, and a change of scale is
intended.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import median_of
from rltop.units import number, percent

_MIN_RECORDS = 10
_NEW_BEST = 0.01
_STILL = 0.1
_STILL_LATER = 0.5
_STRIDE = 5


class Plateau(Detector):
    """R3: no new best level for a hundred records or a quarter of the run."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.best = float("-inf")
        self.since = 0
        self.is_told = False

    def detect(self, context: RuleContext) -> Finding | None:
        """Looks at every fifth reward; silent on a saturated task and at the end of a schedule."""
        reward = context.reward
        if reward.count % _STRIDE or reward.value is None or reward.count < _MIN_RECORDS:
            return None
        if reward.usual > self.best:
            if reward.usual > self.best + _NEW_BEST * (reward.top - reward.bottom):
                self.since = reward.count
                self.best = reward.usual
                self.is_told = False
            return QUIET
        waited = reward.count - self.since
        if waited < self.thresholds["records"]:
            return QUIET
        if waited < self.thresholds["share"] * reward.count:
            return QUIET
        reach = reward.top - reward.bottom
        is_still = self.best - reward.usual <= (_STILL_LATER if self.is_told else _STILL) * reach
        if reward.is_constant or reward.is_solved or context.is_ending or not is_still:
            return QUIET
        self.is_told = True
        return Finding(INFO, reward.usual, self.best, None, (float(waited),))

    def headline(self, finding: Finding) -> str:
        """Level and how long."""
        return (
            f"plateau: best {number(finding.baseline or 0)}, none better in {finding.extra[0]:,.0f} records; "
            f"now {number(finding.value)}"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Level, best, how long."""
        return (*names.of(finding), Evidence("records since best", finding.extra[0], Unit.COUNT))


class Saturated(Detector):
    """R4: the reward is at its top and nearly all groups have zero variance; and what they cost."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.cost = ""
        self.wasted = self.whole = 0.0
        self.since: int | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """What the context knows of the reward."""
        reward = context.reward
        share = reward.zero_share
        if reward.value is None or share is None:
            return None
        values = context.values
        if not self.whole:
            self.cost = next((name for name in _COSTS if values.get(name, 0.0) > 0.0), "")
        cost = values.get(self.cost, 0.0) if self.cost else 1.0
        self.whole += cost
        self.wasted += share * cost
        if share <= self.thresholds["info"] or not reward.is_solved:
            self.since = None
            return QUIET
        if self.since is None:
            self.since = context.observation.step
        spent = self.wasted / self.whole if self.whole else share
        return Finding(INFO, share, None, self.thresholds["info"], (reward.usual, spent, float(self.since)))

    def headline(self, finding: Finding) -> str:
        """Level, share, since when, and the cost."""
        share = "all groups" if finding.value >= 1.0 else f"{percent(finding.value)} of groups"
        reward, spent, since = finding.extra
        return (
            f"task saturated: reward {number(reward)}, {share} have zero reward variance (since step {since:,.0f}); "
            f"{percent(spent)} of the {_COSTS.get(self.cost, 'batches')} so far taught nothing"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Level, share and cost."""
        reward, spent, _ = finding.extra
        return (
            *names.of(finding),
            Evidence("reward", reward),
            Evidence("compute without a learning signal", spent, Unit.FRACTION),
        )


class ScaleJump(Detector):
    """R12: the reward leaves its whole previous range, by several times that range."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.low, self.high = float("inf"), float("-inf")
        self.known = 0
        self.outside: tuple[float, ...] = ()

    def detect(self, context: RuleContext) -> Finding | None:
        """Three records outside in a row, each far out; one is an outlier."""
        value = context.reward.value
        if value is None:
            return None
        if self.low <= value <= self.high:
            if self.outside:
                self._take(self.outside)
            self.known += 1
            return QUIET
        if self.known < _MIN_RECORDS:
            self._take((value,))
            return QUIET
        reach = self.thresholds["info"] * (self.high - self.low)
        if reach <= 0.0 or self.low - reach <= value <= self.high + reach:
            self._take((*self.outside, value))
            return QUIET
        self.outside = (*self.outside, value)
        if len(self.outside) < 3:
            return QUIET
        before = self.low, self.high
        level = median_of(list(self.outside))
        self._take(self.outside)
        return Finding(INFO, level, None, None, before)

    def _take(self, values: tuple[float, ...]) -> None:
        self.low, self.high = min(self.low, *values), max(self.high, *values)
        self.known += len(values)
        self.outside = ()

    def headline(self, finding: Finding) -> str:
        """The old range and the new level."""
        low, high = finding.extra
        before = f"{number(low)} to {number(high)}"
        return f"reward {number(finding.value)} (range before: {before}): did the reward function change?"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """New level and old range."""
        low, high = finding.extra
        return (*names.of(finding), Evidence("lowest before", low), Evidence("highest before", high))


_METRICS = ("score_mean", "reward_mean")
_COSTS = {"time_step": "step time", "total_tokens": "tokens"}
"""What measures the compute of a step, best first; else every batch costs the same."""

RULES = (
    RuleSpec(
        id="R3",
        title="plateau",
        family="reward",
        group=Group.LEARNING,
        metrics=_METRICS,
        detector=Plateau,
        condition="No new best median of ten in `records` records and in `share` of the run, while the reward stays "
        "within a tenth of its range of that best: INFO. Silent on a saturated task, on a constant reward and at the "
        "end of a schedule.",
        thresholds={"records": 100, "share": 0.25},
        warm_up=100,
        applies=applicability.has_reward,
        resets_on_phase=True,
        evidence=EvidenceNames("reward", "best 10-record average", threshold=""),
        why="Most runs end on a plateau; further steps cost as much and gain little.",
        causes=("task learned as far as possible", "no exploration left", "learning rate too low"),
        next=("val_score", "entropy", "zero_std_frac", "lr", "kl_ref"),
        sources="judgement; rewards that sum to a constant (win rates) are flat by construction.",
    ),
    RuleSpec(
        id="R4",
        title="task saturated",
        family="groups",
        group=Group.LEARNING,
        metrics=("zero_std_frac", "reward_std", *_METRICS),
        detector=Saturated,
        condition="Reward in the top 3 % of its range and more than `info` zero-variance groups, 10 "
        "records in a row: INFO.",
        thresholds={"info": 0.8},
        n_of_m={INFO: NOfM(10, 10)},
        applies=applicability.compares_groups,
        evidence=EvidenceNames("zero-variance groups", "", Unit.FRACTION),
        why="A saturated task gives no gradient: stop, or use harder prompts.",
        causes=("prompts that have become too easy", "a reward with a trivial maximum"),
        next=("val_score", "zero_std_frac", "entropy", "grad_norm"),
        sources="a tinker arithmetic run: entropy 0.77 → 9e-5 and mixed groups 0.81 → 0 at reward 1, nothing wrong.",
    ),
    RuleSpec(
        id="R12",
        title="reward rescaled",
        family="facts",
        group=Group.LEARNING,
        metrics=_METRICS,
        detector=ScaleJump,
        condition="Three records in a row outside the previous range, by more than `info` times that range: a fact.",
        thresholds={"info": 5.0},
        is_fact=True,
        warm_up=_MIN_RECORDS,
        applies=applicability.has_reward,
        evidence=EvidenceNames("reward", "", threshold=""),
        why="A reward that moves that far was rescaled or replaced; baselines of other rules on it no longer apply.",
        causes=("another reward function or weight", "a resume with other settings", "a swapped reward model"),
        next=("reward_component", "reward_std", "reward_max", "val_score"),
        sources="judgement.",
    ),
)

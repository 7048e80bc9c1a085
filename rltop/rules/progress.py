"""Progress: has the reward stopped moving, as a plateau or at its maximum?

All of it is INFO: a plateau is where most runs end, and a change of scale is
intended.
"""

from __future__ import annotations

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, Detector, EvidenceNames, Finding, NOfM, RuleSpec
from rltop.stats.rolling import median_of
from rltop.units import number, percent

_MIN_RECORDS = 10
_NEW_BEST = 0.01
_STILL = 0.1
_STILL_LATER = 0.5
_STRIDE = 5


class Plateau(Detector):
    """R3: no new best level for a hundred records or a quarter of the run."""

    further = (("records since best", Unit.COUNT),)
    text = "plateau: best {baseline}, none better in {extra[0]:,.0f} records; now {value}"
    best = float("-inf")
    since = 0
    is_told = False

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


class Saturated(Detector):
    """R4: the reward is at its top and nearly all groups have zero variance; and what they cost."""

    further = (("reward", Unit.NONE), ("compute without a learning signal", Unit.FRACTION))
    cost = ""
    wasted = whole = 0.0
    since: int | None = None

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
        share = "all groups" if finding.value >= 1.0 else f"{percent(finding.value)} of groups"
        reward, spent, since = finding.extra
        return (
            f"task saturated: reward {number(reward)}, {share} have zero reward variance (since step {since:,.0f}); "
            f"{percent(spent)} of the {_COSTS.get(self.cost, 'batches')} so far taught nothing"
        )


class ScaleJump(Detector):
    """R12: the reward leaves its whole previous range, by several times that range."""

    further = (("lowest before", Unit.NONE), ("highest before", Unit.NONE))
    text = "reward {value} (range before: {extra[0]} to {extra[1]}): did the reward function change?"
    low, high = float("inf"), float("-inf")
    known = 0
    outside: tuple[float, ...] = ()

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


_METRICS = ("score_mean", "reward_mean")
_COSTS = {"time_step": "step time", "total_tokens": "tokens"}
"""What measures the compute of a step, best first; else every batch costs the same."""

RULES = (
    RuleSpec(
        id="R3",
        title="plateau",
        family="reward",
        metrics=_METRICS,
        detector=Plateau,
        thresholds={"records": 100, "share": 0.25},
        warm_up=100,
        applies=applicability.has_reward,
        resets_on_phase=True,
        evidence=EvidenceNames("reward", "best 10-record average", threshold=""),
    ),
    RuleSpec(
        id="R4",
        part_of="G1",
        title="task saturated",
        family="groups",
        metrics=("zero_std_frac", "reward_std", *_METRICS),
        detector=Saturated,
        thresholds={"info": 0.8},
        n_of_m={INFO: NOfM(10, 10)},
        applies=applicability.compares_groups,
        evidence=EvidenceNames("zero-variance groups", "", Unit.FRACTION),
    ),
    RuleSpec(
        id="R12",
        title="reward rescaled",
        family="facts",
        metrics=_METRICS,
        detector=ScaleJump,
        thresholds={"info": 5.0},
        is_fact=True,
        warm_up=_MIN_RECORDS,
        applies=applicability.has_reward,
        evidence=EvidenceNames("reward", "", threshold=""),
    ),
)

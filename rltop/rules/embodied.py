"""Embodied policies: success is the reward, and PPO runs at its classic settings.

The shaped reward and the environment return are on arbitrary scales and do not
measure progress; the success rate does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import MAD_TO_SIGMA, Window, median_of
from rltop.units import number, percent

_RECENT = 3
_LEVEL = 10


class SuccessCrash(Detector):
    """B1: success drops out of the learned range.

    Best: largest median of ten. Now: median of the last three. The drop must
    exceed `share` of the learned range and four deviations of single records.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_LEVEL)
        self.recent: deque[float] = deque(maxlen=_RECENT)
        self.best = float("-inf")
        self.worst = float("inf")
        self.noise = 0.0
        self.seen = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """After the first `wait` records that log it."""
        value = context.values.get("success_frac")
        if value is None:
            return None
        window = self.window
        window.push(value)
        self.recent.append(value)
        self.seen += 1
        if self.seen < _LEVEL:
            return QUIET
        level = window.median
        if level > self.best:
            self.best, self.noise = level, MAD_TO_SIGMA * window.mad
        self.worst = min(self.worst, level)
        if self.seen <= self.thresholds["wait"] or value >= self.best:
            return QUIET
        latest = median_of(list(self.recent))
        line = self.best - max(
            self.thresholds["share"] * (self.best - min(self.worst, self.window.low)),
            self.thresholds["sigmas"] * self.noise,
        )
        if latest >= line or self.best <= 0.0:
            return QUIET
        is_gone = latest <= self.thresholds["crit"] * self.best
        return Finding(CRIT if is_gone else WARN, latest, self.best, line)

    def headline(self, finding: Finding) -> str:
        """Best and now."""
        return f"success {percent(finding.baseline or 0)} → {percent(finding.value)} (last 3 vs best 10-record average)"


class TimidUpdates(Detector):
    """B3: updates so small that success no longer moves."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.success = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        """Step KL and clip fraction near 0, on a plateau below the top."""
        values, thresholds = context.values, self.thresholds
        success = values.get("success_frac")
        if success is not None:
            self.success.push(success)
        step_kl, clipped = values.get("kl_old"), values.get("clip_frac")
        if step_kl is None or clipped is None or self.success.count < self.success.size:
            return None
        if abs(step_kl) > thresholds["step_kl"] or clipped > thresholds["clipped"] or context.lr == 0.0:
            return QUIET
        held = self.success.values
        half = len(held) // 2
        before, after = median_of(held[:half]), median_of(held[half:])
        if abs(after - before) > thresholds["moves"] or after > thresholds["top"]:
            return QUIET
        return Finding(INFO, step_kl, None, thresholds["step_kl"], (clipped, after))

    def headline(self, finding: Finding) -> str:
        """How small, and the plateau."""
        clipped, success = finding.extra
        return (
            f"success flat at {percent(success)}; step KL {number(finding.value)} nats and clip fraction "
            f"{percent(clipped)}: updates too small?"
        )


RULES = (
    RuleSpec(
        id="B1",
        title="success crash",
        family="embodied",
        group=Group.LEARNING,
        metrics=("success_frac",),
        detector=SuccessCrash,
        condition="After `wait` records: median of three below the best 10-record median by more than `share` of the "
        "learned range and `sigmas` deviations, 2 of 3: WARN; at `crit` of the best or less: CRIT.",
        thresholds={"wait": 15, "share": 0.25, "sigmas": 4.0, "crit": 0.2},
        n_of_m={WARN: NOfM(2, 3), CRIT: NOfM(2, 3), INFO: NOfM(2, 3)},
        applies=applicability.is_embodied,
        evidence=EvidenceNames("success, last 3 records", "best 10-record average", Unit.FRACTION),
        why="The policy has lost a skill it had learned.",
        causes=(
            "an update that was too large",
            "a critic that no longer fits the returns",
            "a changed reward",
            "failing simulators",
        ),
        next=("kl_old", "clip_frac", "explained_var", "value_loss", "entropy", "grad_norm", "lr"),
        sources="RLinf issue 133: success of 0.5 to 0 within a few steps.",
    ),
    RuleSpec(
        id="B3",
        title="small updates",
        family="embodied",
        group=Group.LEARNING,
        metrics=("kl_old", "clip_frac"),
        detector=TimidUpdates,
        condition="Step KL below `step_kl` and clip fraction below `clipped` in 10 of 15 records, while success has "
        "changed by less than `moves` over 50 records and is below `top`: INFO.",
        thresholds={"step_kl": 0.0015, "clipped": 0.004, "moves": 0.02, "top": 0.95},
        n_of_m={INFO: NOfM(10, 15)},
        warm_up=50,
        applies=applicability.is_embodied,
        why="Classic PPO clips a tenth of its samples or more; at a hundredth of that the policy hardly moves.",
        causes=("learning rate too low", "too few epochs per batch", "advantages near zero"),
        next=("lr", "adv_max", "reward_std", "success_frac", "entropy"),
        sources="RLinf issue 1086; Stable-Baselines3 logs 0.24 in its example.",
    ),
)

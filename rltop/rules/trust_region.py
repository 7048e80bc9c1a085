"""The trust region: step KL and importance ratio.

Both have more than one estimator or regime, and no threshold fits all of them:
the detectors choose the regime first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Unit
from rltop.rules import applicability
from rltop.rules.clip import UPDATE_CAUSES
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen, median_of
from rltop.units import number

_MEDIAN_OF = 5


class StepKl(Detector):
    """O9: how far one batch of updates moved the policy, in nats per token.

    A signed (k1) estimate is noise around zero: the median of five counts. k2
    and k3 estimates cannot be negative and count as they are.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lately: deque[float] = deque(maxlen=_MEDIAN_OF)
        self.small = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """Thresholds by estimator, by scale (embodied) and by what the ratio is taken against (async)."""
        value = context.values.get("kl_old")
        if value is None:
            return None
        thresholds = self.thresholds
        warn = thresholds["warn"]
        if context.traits.kl_is_signed:
            warn = thresholds["signed_warn"]
            self.lately.append(value)
            self.small = self.small + 1 if abs(value) <= warn * RELEASE else 0
            if self.small > _MEDIAN_OF // 2:
                return QUIET
            if len(self.lately) < _MEDIAN_OF:
                return QUIET
            value = abs(median_of(list(self.lately)))
        if value <= warn * RELEASE:
            return QUIET
        crit = thresholds["crit"]
        if context.algorithm is Algorithm.EMBODIED:
            warn = thresholds["signed_warn"]
        if context.traits.is_async:
            warn, crit = warn * thresholds["async_factor"], crit * thresholds["async_factor"]
        if self.is_firing:
            warn, crit = warn * RELEASE, crit * RELEASE
        if value > crit:
            return Finding(CRIT, value, None, crit)
        return Finding(WARN, value, None, warn) if value > warn else QUIET

    def headline(self, finding: Finding) -> str:
        """Step KL and threshold."""
        return f"step KL {number(finding.value)} nats/token (threshold {number(finding.threshold or 0)})"


class ImportanceRatio(Detector):
    """O10: mean importance ratio against run start.

    Not against 1: some trainers read 0.5 or 0.97 all along by construction
    (averages over minibatches that were skipped, precision offsets).
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()
        self.warn = thresholds["warn"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Relative deviation from the frozen baseline."""
        value = context.values.get("ratio_mean")
        if value is None:
            return None
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        if base is None or base <= 0.0:
            return QUIET
        relative = value / base
        warn = self.warn * RELEASE if self.is_firing else self.warn
        if 1.0 - warn <= relative <= 1.0 + warn:
            return QUIET
        crit = self.thresholds["crit"]
        level = CRIT if relative > crit or relative < 1.0 / crit else WARN
        return Finding(level, value, base, base * (1.0 + (self.warn if relative > 1 else -self.warn)))

    def headline(self, finding: Finding) -> str:
        """Ratio now and at run start."""
        return f"importance ratio {number(finding.value)} ({number(finding.baseline or 0)} at run start)"


RULES = (
    RuleSpec(
        id="O9",
        title="step KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_old",),
        detector=StepKl,
        condition="2 of 5 records. Estimates that cannot be negative: above `warn`; signed estimates: median of "
        "five above "
        "`signed_warn` in size; both: CRIT above `crit`. Asynchronous training, where it is measured against the "
        "rollout "
        "policy: thresholds × `async_factor`.",
        thresholds={"warn": 0.02, "signed_warn": 0.03, "crit": 0.1, "async_factor": 3.0},
        n_of_m={INFO: NOfM(2, 5), WARN: NOfM(2, 5), CRIT: NOfM(2, 5)},
        applies=applicability.has_trust_region,
        evidence=EvidenceNames("kl_old", "", Unit.NATS),
        why="The policy moved too far within one batch: its samples are no longer on-policy.",
        causes=(*UPDATE_CAUSES, "dropout left on", "log-probabilities recomputed in another precision"),
        next=("clip_frac", "ratio_mean", "grad_norm", "lr", "entropy"),
        sources="spinningup ppo.py stops at 1.5 × 0.01; Stable-Baselines3 ppo.py likewise; TRL PPO docs.",
    ),
    RuleSpec(
        id="O10",
        title="importance ratio",
        family="ratio",
        group=Group.LEARNING,
        metrics=("ratio_mean",),
        detector=ImportanceRatio,
        condition="Farther than `warn` (relative) from run start in 3 of 5 records: WARN; beyond a "
        "factor of `crit`: "
        "CRIT.",
        thresholds={"warn": 0.1, "crit": 2.0},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5), CRIT: NOfM(3, 5)},
        warm_up=13,
        applies=applicability.has_trust_region,
        evidence=EvidenceNames("ratio_mean"),
        why="The mean ratio stays near its run-start value as long as new and old policy agree on the samples.",
        causes=UPDATE_CAUSES,
        next=("clip_frac", "kl_old", "lr", "off_policy_kl"),
        sources="TRL issues 454 and 1857; the baseline instead of 1 because TRL PPO reads 0.97 or 0.5 on healthy runs.",
    ),
)

"""Staleness: how old are the rollouts the policy is trained on?

Tolerable staleness is a setting of the run: its level at run start is intended,
a rise from there is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen
from rltop.units import number, percent


class Staleness(Detector):
    """M8: policy versions between sampling and training."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=5, size=20, minimum=5)

    def detect(self, context: RuleContext) -> Finding | None:
        """The mean against thresholds and run start; the oldest together with what is discarded."""
        values, thresholds = context.values, self.thresholds
        mean, worst = values.get("staleness_mean"), values.get("staleness_max")
        if mean is None and worst is None:
            return None
        dropped = values.get("cancelled_frac", 0.0)
        if worst is not None and worst >= thresholds["limit"] and dropped > thresholds["dropped"]:
            return Finding(CRIT, worst, None, thresholds["limit"], (dropped,))
        if mean is None:
            return QUIET
        base = self.start.push(mean)
        line = thresholds["warn"] * (RELEASE if self.is_firing else 1.0)
        if mean <= line:
            return QUIET
        has_risen = base is not None and mean > thresholds["rise"] * max(base, 1.0)
        return Finding(WARN if has_risen else INFO, mean, base, thresholds["warn"])

    def headline(self, finding: Finding) -> str:
        """Staleness now and at run start."""
        if finding.level is CRIT:
            return (
                f"oldest rollouts {number(finding.value)} policy versions old; {percent(finding.extra[0])} "
                "cancelled as stale"
            )
        start = f" ({number(finding.baseline)} at run start)" if finding.baseline is not None else ""
        return f"mean staleness {number(finding.value)} policy versions{start}"


_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN, CRIT)}

RULES = (
    RuleSpec(
        id="M8",
        title="staleness",
        family="offpolicy",
        group=Group.LEARNING,
        metrics=("staleness_mean", "staleness_max"),
        detector=Staleness,
        condition="Mean above `warn` versions and above `rise`× run start in 5 of 10 records: WARN; high from "
        "run start: INFO. Oldest at `limit` or above while more than `dropped` of the rollouts are cancelled: CRIT.",
        thresholds={"warn": 2.0, "rise": 1.5, "limit": 8.0, "dropped": 0.1},
        n_of_m=_FIVE_OF_TEN,
        warm_up=10,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("policy versions", "baseline (run start)", Unit.COUNT),
        why="Stale rollouts bias the update towards an older policy.",
        causes=(
            "generation too slow for the trainer",
            "a few very long rollouts",
            "queue too long",
            "weights synced too rarely",
        ),
        next=("off_policy_kl", "is_ess", "queue_size", "rollouter_idle_frac", "time_weight_sync", "clip_frac"),
        sources="prime-rl (8 versions at most by default); the rise over run start is judgement.",
    ),
)

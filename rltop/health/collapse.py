"""Collapse: several symptoms at once are one event with one beginning.

A single scary metric is usually benign; a policy that collapses moves three
families of them within a few records.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.health import scope
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, QUIET, Group, Judge, Reading, RuleSpec
from rltop.model import Evidence, Unit

_SYMPTOMS = (
    ("reward",), ("entropy",), ("length", "truncation"), ("gradient",), ("nonfinite",), ("kl",), ("groups",),
    ("validation",),
)  # fmt: skip
"""Families that show the same thing count once: answers that grow are cut off."""


class Collapse(Judge):
    """X1: verdicts of several learning families began within a few records of each other."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.within = int(limits["records"])
        self.needed = int(limits["families"])

    def read(self, now: Moment) -> Reading | None:
        """Counts families, not rules; looks only while something has lately begun."""
        alarms = now.alarms
        since = now.record - self.within
        if len(alarms) < self.needed or max(alarms.values()) < since:
            return QUIET
        together = tuple(
            symptom[0] for symptom in _SYMPTOMS if any(alarms.get(one, -self.within) >= since for one in symptom)
        )
        if len(together) < self.needed:
            return QUIET
        return Reading(CRIT, float(len(together)), None, float(self.needed), words=together)

    def headline(self, reading: Reading) -> str:
        """Which symptoms."""
        return f"the policy collapses: {', '.join(reading.words)} within {self.within} records"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """How many families."""
        return (Evidence("families of symptoms", reading.value, Unit.COUNT),)


RULES = (
    RuleSpec(
        id="X1",
        title="collapse",
        family="collapse",
        group=Group.LEARNING,
        metrics=("reward_mean", "score_mean", "entropy", "response_len_mean", "kl_ref"),
        judge=Collapse,
        judges_always=True,
        condition="Verdicts of `families` of these families began or got worse within `records` records: reward, "
        "entropy, length, "
        "truncation, gradient, non-finite, KL, groups, validation.",
        limits={"families": 3, "records": 5},
        calm=5,
        applies=scope.has_rollouts,
        why="Everything after the first of these records is training on garbage; go back to the last checkpoint "
        "before it.",
        causes=(
            "a change of the learning rate",
            "a NaN or a huge gradient",
            "sampler and trainer that disagree",
            "reward hacking",
        ),
        next=("lr", "grad_norm", "entropy", "kl_ref", "off_policy_kl", "response_len_mean", "reward_mean"),
        sources="transcribed collapses: the sudden ones moved three metrics or more within one to four steps.",
    ),
)

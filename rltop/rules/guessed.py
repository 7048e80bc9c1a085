"""Keys whose meaning is only guessed from their names: judged by the shape of the curve, never by a level.

A guess may be wrong, so no threshold in a metric's own unit applies. A fall out of the learned range, a cliff compared
with the records before, and a key that goes missing are signs whatever the key means. L1 covers NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.catalog.metrics import CATALOG
from rltop.model import Algorithm, Traits
from rltop.rules.context import RuleContext
from rltop.rules.entropy import EntropyCrash
from rltop.rules.registry import NAMED
from rltop.rules.reward import RewardCrash
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding
from rltop.units import number


class GuessedShape(Detector):
    """U1: a key that may be a reward falls, one that may be an entropy drops, or one of them goes missing."""

    is_about_word = True
    reward = RewardCrash(NAMED["R1"].thresholds)
    # A floor in nats is a level, but the unit of a guessed key is unknown.
    entropy = EntropyCrash({**NAMED["E1"].thresholds, "floor": 0.0})
    reward_context = RuleContext(Algorithm.GRPO, Traits(), None)
    entropy_context = RuleContext(Algorithm.GRPO, Traits(), None)
    present: dict[str, int] = {}
    accompanied: dict[str, int] = {}
    missing: dict[str, int] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        guessed = context.observation.guessed
        if not guessed and not self.present:
            return None
        gone = self._gone(context, guessed)
        found = self._fallen(context, guessed)
        return gone if found is QUIET else found

    def _fallen(self, context: RuleContext, guessed: Mapping[str, float]) -> Finding:
        for name, judge, inner in (
            ("reward_mean", self.reward, self.reward_context),
            ("entropy", self.entropy, self.entropy_context),
        ):
            if name not in guessed:
                continue
            inner.advance(context.observation._replace(values={name: guessed[name]}, instances={}))
            finding = judge.detect(inner)
            if finding is not None and finding.level >= WARN:
                # A guess that is not confirmed is reported one level lower.
                level = WARN if finding.level >= CRIT else INFO
                return Finding(level, finding.value, finding.baseline, words=(name,))
        return QUIET

    def _gone(self, context: RuleContext, guessed: Mapping[str, float]) -> Finding:
        present, accompanied, missing = self.present, self.accompanied, self.missing
        has_others = len(guessed) > 1 or bool(context.values)
        for name in guessed:
            present[name] = present.get(name, 0) + 1
            accompanied[name] = accompanied.get(name, 0) + has_others
            missing.pop(name, None)
        if not guessed and not context.values:
            return QUIET
        for name in [name for name in present if name not in guessed]:
            # If mostly nothing else came with it, records without it belong to another step axis.
            if present[name] >= self.thresholds["present"] and 2 * accompanied[name] > present[name]:
                missing[name] = missing.get(name, 0) + 1
                if missing[name] > self.thresholds["forget"]:
                    del missing[name], present[name], accompanied[name]
            else:
                # It is logged irregularly, so its absence says nothing.
                del present[name], accompanied[name]
        away = max(missing, key=lambda name: missing[name], default="")
        if not away or missing[away] < self.thresholds["missing"]:
            return QUIET
        return Finding(WARN, float(missing[away]), words=(away, "gone"))

    def headline(self, finding: Finding) -> str:
        name, *gone = finding.words
        title = f"{CATALOG[name].title} (guessed from its name)"
        if gone:
            return f"{title} missing for {finding.value:.0f} records, was on every record before"
        return f"{title} {number(finding.baseline or 0)} → {number(finding.value)}"

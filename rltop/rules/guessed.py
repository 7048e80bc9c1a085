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
from rltop.rules.integrity import Cadence
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
    known: dict[str, Cadence] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        guessed = context.observation.guessed
        if not guessed and not self.known:
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
                # One level lower; no entropy is an alarm where no reward tells whether the task is solved.
                level = WARN if finding.level >= CRIT and name == "reward_mean" else INFO
                return Finding(level, finding.value, finding.baseline, words=(name,))
        return QUIET

    def _gone(self, context: RuleContext, guessed: Mapping[str, float]) -> Finding:
        has_others, known, thresholds = len(guessed) > 1 or bool(context.values), self.known, self.thresholds
        for name in guessed:
            if name not in known:
                known[name] = Cadence()
            known[name].note(has_others)
        if not guessed and not context.values:
            return QUIET
        for name in known.keys() - guessed.keys():
            known[name].missing += 1
        limits = [thresholds[name] for name in ("present", "missing", "gaps")]
        away = [(one.missing, name) for name, one in known.items() if one.missing and one.is_gone(*limits)]
        rows, name = max(away, default=(0, ""))
        return Finding(WARN, float(rows), words=(name, "gone")) if 0 < rows <= thresholds["forget"] else QUIET

    def headline(self, finding: Finding) -> str:
        name, *gone = finding.words
        title = f"{CATALOG[name].title} (guessed from its name)"
        if gone:
            return f"{title} missing for {finding.value:.0f} records, was on every record before"
        return f"{title} {number(finding.baseline or 0)} → {number(finding.value)}"

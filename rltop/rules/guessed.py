"""Keys whose meaning is only guessed from their names: judged by the shape of the curve, never by a level.

A guess may be wrong, so no threshold in a metric's own unit applies. A fall out of the learned range and a cliff
compared with the records before are signs whatever the key means. L1 covers NaN.
"""

from __future__ import annotations

from rltop.catalog.metrics import CATALOG
from rltop.model import Algorithm, Traits
from rltop.rules.context import RuleContext
from rltop.rules.entropy import EntropyCrash
from rltop.rules.registry import NAMED
from rltop.rules.reward import RewardCrash
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding
from rltop.units import number


class GuessedShape(Detector):
    """U1: a key that may be a reward falls, or one that may be an entropy drops."""

    is_about_word = True
    reward = RewardCrash(NAMED["R1"].thresholds)
    # A floor in nats is a level, but the unit of a guessed key is unknown.
    entropy = EntropyCrash({**NAMED["E1"].thresholds, "floor": 0.0})
    reward_context = RuleContext(Algorithm.GRPO, Traits(), None)
    entropy_context = RuleContext(Algorithm.GRPO, Traits(), None)

    def detect(self, context: RuleContext) -> Finding | None:
        guessed = context.observation.guessed
        if not guessed:
            return None
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

    def headline(self, finding: Finding) -> str:
        title = f"{CATALOG[finding.words[0]].title} (guessed from its name)"
        return f"{title} {number(finding.baseline or 0)} → {number(finding.value)}"

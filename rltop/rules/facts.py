"""Facts: events in the run that explain later numbers; no lasting state, and nothing that happens on every step."""

from __future__ import annotations

from collections.abc import Mapping

from rltop.catalog.metrics import CATALOG
from rltop.model import Label
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, Detector, Finding
from rltop.stats.persistence import NOfMCounter
from rltop.units import duration, measure, number

IMPOSSIBLE = "F6"
SAID = "F7"
_STRIDE = 16
_WORDS = {
    "response_len_mean": "completion length",
    "score_mean": "reward",
    "reward_mean": "reward",
    "time_step": "step time",
    "curriculum_level": "curriculum level",
}


class NewPhase(Detector):
    """F1: length, reward and step time moved together while the optimiser's metrics did not."""

    def detect(self, context: RuleContext) -> Finding | None:
        moves = context.phase.moves
        if not moves:
            return QUIET
        numbers = tuple(number for move in moves for number in (move.before, move.after))
        return Finding(INFO, moves[0].after, moves[0].before, None, numbers, tuple(move.name for move in moves))

    def headline(self, finding: Finding) -> str:
        pairs = zip(finding.extra[::2], finding.extra[1::2], strict=True)
        moved = ", ".join(
            f"{_WORDS[name]} {measure(before, CATALOG[name].unit)} → {measure(after, CATALOG[name].unit)}"
            for name, (before, after) in zip(finding.words, pairs, strict=True)
        )
        if finding.words[0] == "curriculum_level":
            return f"new phase: {moved}; baselines reset"
        return f"new phase? {moved} within one record, optimiser metrics unchanged; baselines reset"


class _Occasion(Detector):
    """Something that happens occasionally; not reported if it happens on most records."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.often = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))
        self.left = int(thresholds["most"])

    def _occurs(self, is_now: bool) -> bool:
        if not (is_now or self.often.bits):
            return False
        is_usual = self.often.push(is_now)
        if not is_now or is_usual or self.left <= 0:
            return False
        self.left -= 1
        return True


class Checkpoint(_Occasion):
    """F2: a checkpoint was written on this step."""

    def detect(self, context: RuleContext) -> Finding | None:
        seconds = context.values.get("time_save", 0.0)
        return Finding(INFO, seconds) if self._occurs(seconds > 0.0) else QUIET


class Validation(_Occasion):
    """F3: the run was evaluated on this step."""

    before: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        found = "val_score" if "val_score" in values else "val_loss" if "val_loss" in values else ""
        if not found and values.get("time_eval", 0.0) > 0.0:
            found = "time_eval"
        if not self._occurs(bool(found)):
            return QUIET
        value, before = values[found], None
        if found != "time_eval":
            before, self.before = self.before, value
        return Finding(INFO, value, before, None, (), (found,))

    def headline(self, finding: Finding) -> str:
        name = finding.words[0]
        if name == "time_eval":
            return f"validation took {duration(finding.value)}"
        before = "" if finding.baseline is None else f" (was {number(finding.baseline)})"
        return f"{CATALOG[name].title} {number(finding.value)}{before}"


class NewMetric(Detector):
    """F4: something is logged that was not logged before."""

    known: set[str] = set()
    size = -1

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        if len(values) == self.size and context.record % _STRIDE:
            return QUIET
        self.size = len(values)
        new = [name for name in values if name not in self.known]
        self.known.update(new)
        told = [name for name in new if not name.startswith("val_") and CATALOG[name].section != "machine"]
        if context.record <= self.thresholds["records"] or not told:
            return QUIET
        return Finding(INFO, float(len(told)), words=tuple(told))

    def headline(self, finding: Finding) -> str:
        first = ", ".join(CATALOG[name].title for name in finding.words[:3])
        more = len(finding.words) - 3
        return f"newly logged: {first}" + (f" and {more} more" if more > 0 else "")


def impossible_text(key: str, metric: str, value: float) -> str:
    return f"{Label.of(key).display} of {number(value)} is not {CATALOG[metric].title}: impossible; shown as logged"

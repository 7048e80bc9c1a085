"""Collapse: several symptoms at once are one event with one onset.

A single alarming metric is usually benign; a collapsing policy moves metrics of three families within a few records.
Also here: failures visible only in combination, such as a run that goes on without learning.
"""

from __future__ import annotations

from collections import deque

from rltop.model import Evidence, Unit, Verdict
from rltop.rules.context import Checkpoints, Onset, RuleContext
from rltop.rules.rule import CRIT, QUIET, Detector, EvidenceNames, Finding
from rltop.structs import NamedTuple

ONSET = "onset step"
LAST_GOOD = "last good step"
CHECKPOINT = "last checkpoint step"
_MOVED = " from step"
_SILENT_RECORDS = 20

_SYMPTOMS = ("reward", "entropy", "length", "gradient", "nonfinite", "kl", "groups", "validation")
_SYMPTOM_OF = {**{family: family for family in _SYMPTOMS}, "truncation": "length"}
"""Families that mean the same count once: longer completions are truncated."""
_PRECURSORS = ("mismatch", "offpolicy", "lr", "clip", "ratio", "loss", "advantage", "critic")
"""Families that are not symptoms of a collapse, but may move before them."""
_UPDATES = frozenset({"grad_norm", "policy_loss", "loss", "entropy", "kl_old", "clip_frac"})
_SPOKEN = {"kl": "KL", "nonfinite": "NaN/Inf", "groups": "zero-variance groups"}


class Mover(NamedTuple):
    """A metric that moved, and since which step."""

    metric: str
    step: int


class Story(NamedTuple):
    """What a collapse verdict says beyond its headline.

    Attributes:
        onset_step: the first step of the first symptom.
        last_good_step: the step before it, or None if that is no longer known.
        checkpoint_step: the last known checkpoint before it, or None.
        movers: which metric moved when, first mover first, precursors included.
    """

    onset_step: int
    last_good_step: int | None
    checkpoint_step: int | None
    movers: tuple[Mover, ...]


def story(verdict: Verdict) -> Story | None:
    """Read onset, checkpoint and movers back from a collapse verdict's evidence; None for any other verdict."""
    numbers = {one.name: int(one.value) for one in verdict.evidence if one.name in {ONSET, LAST_GOOD, CHECKPOINT}}
    if ONSET not in numbers:
        return None
    movers = tuple(
        Mover(one.name.removesuffix(_MOVED), int(one.value)) for one in verdict.evidence if one.name.endswith(_MOVED)
    )
    return Story(numbers[ONSET], numbers.get(LAST_GOOD), numbers.get(CHECKPOINT), movers)


class Collapse(Detector):
    """X1: verdicts of several learning families began within a few records; the first one's onset is the onset."""

    names_onset = True
    steps: tuple[tuple[int, int], ...] = ()
    checkpoints = Checkpoints()
    last_good: int | None = None
    moved: tuple[Onset, ...] = ()
    shown = QUIET

    def detect(self, context: RuleContext) -> Finding | None:
        if self.is_firing:
            standing = {_SYMPTOM_OF[family] for family in context.onsets if family in _SYMPTOM_OF}
            if len(standing) >= self.thresholds["holds"]:
                return self.shown
        alarms, needed = context.alarms, self.thresholds["families"]
        since = context.record - self.thresholds["records"]
        if len(alarms) < needed or max(alarms.values()) < since:
            return QUIET
        together = {_SYMPTOM_OF[one] for one, record in alarms.items() if one in _SYMPTOM_OF and record >= since}
        if len(together) < needed:
            return QUIET
        self._date(context)
        began = {symptom: context.record for symptom in _SYMPTOMS if symptom in together}
        for family, onset in context.onsets.items():
            symptom = _SYMPTOM_OF.get(family)
            if symptom in began:
                began[symptom] = min(began[symptom], onset.record)
        words = tuple(sorted(began, key=began.__getitem__))
        records = tuple([float(began[symptom]) for symptom in words])
        self.shown = Finding(CRIT, float(len(words)), None, needed, records, words)
        return self.shown

    def _date(self, context: RuleContext) -> None:
        """Date the onset to that of the oldest active symptom, precursors not counted."""
        lead = context.record - int(self.thresholds["lead"])
        told = {family: onset for family, onset in context.onsets.items() if onset.record >= lead}
        moved = [told[family] for family in (*_SYMPTOM_OF, *_PRECURSORS) if family in told]
        self.moved = tuple(sorted(moved, key=lambda onset: onset.record))
        began = min([onset for family, onset in told.items() if family in _SYMPTOM_OF], default=None)
        if self.is_firing or began is None:
            return
        self.steps, self.checkpoints = tuple([(one.record, one.step) for one in context.recent]), context.checkpoints
        self.date(*self.steps[max(0, began.record - context.record + len(self.steps) - 1)])

    def date(self, record: int, step: int) -> None:
        self.since = record, step
        self.last_good = next((good for before, good in reversed(self.steps) if before < record), None)

    @property
    def checkpoint(self) -> int | None:
        """The last known checkpoint before the onset."""
        return None if self.since is None else self.checkpoints.before(self.since[1])

    def headline(self, finding: Finding) -> str:
        names = [_SPOKEN.get(word, word) for word in finding.words]
        began = finding.extra.count(finding.extra[0])
        first, others = names[:began], names[began:]
        text = "policy collapse"
        if self.since is not None:
            text += f" began at step {self.since[1]:,}"
        if self.last_good is not None:
            text += f"; last good step {self.last_good:,}"
        if self.checkpoint is not None:
            text += f", checkpoint {self.checkpoint:,}"
        how = first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]} together"
        return f"{text}: {how}{', then ' if others else ''}{', '.join(others)}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        onset = None if self.since is None else self.since[1]
        steps = ((ONSET, onset), (LAST_GOOD, self.last_good), (CHECKPOINT, self.checkpoint))
        moved = [(f"{one.metric}{_MOVED}", one.step) for one in self.moved]
        found = ("symptom families", finding.value), *steps, *moved
        return tuple([Evidence(name, value, Unit.COUNT) for name, value in found if value is not None])


class SilentFailure(Detector):
    """X2: the run keeps logging, but no update can change the policy any more; if it never moved, R13 reports that."""

    recent: deque[float] = deque(maxlen=_SILENT_RECORDS)
    streak, has_updated = 0, False

    def detect(self, context: RuleContext) -> Finding | None:
        if (finding := self._judge(context)) is None:
            return None
        if finding is QUIET:
            if not self.is_firing:
                self.streak, self.since = 0, None
            return QUIET
        self.since = self.since or context.place
        self.streak += 1
        return finding._replace(extra=(float(self.streak),))

    def _judge(self, context: RuleContext) -> Finding | None:
        """Judge one record; `n_of_m` adds the persistence, 20 of 20 records."""
        reward, norm = context.reward, context.values.get("grad_norm")
        if reward.value is None:
            return None
        if norm is not None and norm >= self.thresholds["gradient"]:
            self.has_updated = True
            self.recent.clear()
            return QUIET
        # One or two groups without variance, and no gradient, are a single sign.
        is_flat = (reward.zero_share or 0.0) >= self.thresholds["zero_share"] and not reward.has_few_groups
        is_updated = not _UPDATES.isdisjoint(context.values)
        self.has_updated = self.has_updated or is_updated
        sign = "" if norm is None else "no gradient"
        if self.has_updated and not is_updated:
            sign = "no update"
        if not (is_flat or sign) or context.is_paused or reward.is_constant or reward.is_high:
            self.recent.clear()
            return QUIET
        self.recent.append(reward.value)
        reach = self.thresholds["pinned"] * (reward.top - reward.bottom)
        is_pinned = max(self.recent) - min(self.recent) < reach
        found = (sign, "zero-variance groups" if is_flat else "", "constant reward" if is_pinned else "")
        signs = tuple(filter(None, found))
        return Finding(CRIT, reward.value, reward.best, None, words=(", ".join(signs),)) if len(signs) >= 2 else QUIET

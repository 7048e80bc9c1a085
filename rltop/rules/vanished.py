"""Vanished keys: what was logged on every record is not logged any more.

Writers that drop non-finite values make a NaN look like this. A row counts only if it
is like the training rows before it: summaries, evaluations and rollouts without an
update lack more than one or two keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, QUIET, WARN, Detector, EvidenceNames, Finding, Group, RuleSpec, Subject

_LOSSES = ("policy_loss", "loss")
_WATCHED = ("grad_norm", *_LOSSES, "entropy", "kl_ref", "kl_old", "value_loss")
_OPTIMISER = ("clip_frac", "ratio_mean", "time_update_actor", "time_update_all", "mfu")
"""What only an update logs, besides its learning rate."""
_NO_CONTRAST = 0.99
_FIRST_RECORDS = 64
_STRIDE = 16


class KeyVanished(Detector):
    """L11: a metric of the update that every training row had is missing while updates go on.

    Attributes:
        expected: metrics that so far were on every row, for `present` rows in a row.
        always: what else every row had so far: by this a row is recognised as a training row.
        pending: metrics that are not expected yet, and on how many rows in a row they were.
        lapses: how often such a row of rows has ended, as it does where a metric is logged now and then.
        missing: rows in a row that lack a metric of `expected`.
        longest: rows of the longest gap that has ended.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.expected: frozenset[str] = frozenset()
        self.always: frozenset[str] = frozenset()
        self.pending: dict[str, int] = {}
        self.lapses: dict[str, int] = {}
        self.missing: dict[str, int] = {}
        self.longest = 0
        self.since: tuple[int, int] | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """One comparison of sets on a row that has everything."""
        values = context.values
        if self.expected <= values.keys():
            if self.pending or context.record <= _FIRST_RECORDS or context.record % _STRIDE == 0:
                self._learn(values)
            self._come_back()
            return QUIET
        self.pending = {}
        marks = context.observation.nonfinite
        lacking = [name for name in _WATCHED if name in self.expected and name not in values and name not in marks]
        if not lacking:
            self._come_back()
            return QUIET
        if not self._is_training_row(context):
            return None
        if not self.missing:
            self.since = (context.observation.record, context.observation.step)
        self.missing = {name: self.missing.get(name, 0) + 1 for name in lacking}
        return self._judge(values)

    def _come_back(self) -> None:
        """Everything is there again: a gap that ends is how this run logs, not a loss of weights."""
        if self.missing:
            self.longest = max(self.longest, *self.missing.values())
            self.missing = {}

    def _learn(self, values: Mapping[str, float]) -> None:
        """Count the metrics that are not expected yet; keep what else every row had."""
        here = [name for name in _WATCHED if name in values]
        if not here:
            if self.pending and len(self.always & values.keys()) > 0.5 * len(self.always):
                # A training row without any of them: they are logged now and then, together.
                self.lapses |= {name: self.lapses.get(name, 0) + 1 for name in self.pending}
                self.pending = {}
            return
        others = values.keys() - set(_WATCHED)
        self.always = self.always & others if self.pending or self.expected else frozenset(others)
        for name in [name for name in self.pending if name not in values]:
            del self.pending[name]
            self.lapses[name] = self.lapses.get(name, 0) + 1
        for name in here:
            if name not in self.expected:
                self.pending[name] = self.pending.get(name, 0) + 1
                if self.pending[name] >= self.thresholds["present"] * (1 + self.lapses.get(name, 0)):
                    del self.pending[name]
                    self.expected |= {name}

    def _is_training_row(self, context: RuleContext) -> bool:
        """The row has most of what every row had, and no group that could not give a gradient was left out."""
        values = context.values
        flat = context.reward.zero_share
        if (
            context.reward.is_high
            or values.get("filter_pass_rate") == 0.0
            or (flat is not None and flat >= _NO_CONTRAST)
        ):
            return False
        if "lr" in self.always and "lr" not in values:
            return False
        return len(self.always & values.keys()) > 0.5 * len(self.always)

    def _judge(self, values: Mapping[str, float]) -> Finding:
        missing, thresholds = self.missing, self.thresholds
        ordered = sorted(missing, key=lambda name: -missing[name])
        rows = missing[ordered[0]]
        if self.longest and rows < thresholds["gaps"] * (self.longest + 1):
            return QUIET
        is_update = ("lr" in self.always and "lr" in values) or any(name in values for name in _OPTIMISER)
        if is_update and "grad_norm" in missing and any(name in missing for name in _LOSSES):
            both = min(missing["grad_norm"], max(missing.get(name, 0) for name in _LOSSES))
            ordered.sort(key=lambda name: name not in _LOSSES)
            return Finding(CRIT if both >= thresholds["crit"] else WARN, float(both), words=tuple(ordered))
        if rows > thresholds["forget"]:
            # It is not logged any more, and the run has gone on for long.
            self.expected -= missing.keys()
            self.missing = {}
            return QUIET
        return Finding(WARN, float(rows), words=tuple(ordered)) if rows >= thresholds["missing"] else QUIET

    def began(self) -> tuple[int, int] | None:
        """The first row that lacked something."""
        return self.since

    def subject(self, finding: Finding) -> Subject:
        """What is missing for longest."""
        return Subject(finding.words[0])

    def headline(self, finding: Finding) -> str:
        """What is missing, and for how long."""
        first, *others = finding.words
        also = f" (also {', '.join(others)})" if others else ""
        rows = "1 record" if finding.value == 1 else f"{finding.value:.0f} records"
        return f"{first} missing for {rows}{also}, was on every record before: NaN that the writer drops?"


RULES = (
    RuleSpec(
        id="L11",
        title="key vanished",
        family="nonfinite",
        group=Group.LEARNING,
        metrics=_WATCHED,
        detector=KeyVanished,
        condition="Gradient norm, a loss, entropy or KL was on `present` records in a row (as many more for "
        "each time that it had been absent before) and is missing on `missing` "
        "in a row that have most of what every record had, the learning rate included: WARN. Loss and gradient norm "
        "together: WARN at once, CRIT on the second (`crit`). After a gap that has ended: only from `gaps` times its "
        "length on. Records whose groups all have zero variance, or with the reward at its top, do not count; one "
        "that stays away for `forget` records is no longer expected.",
        thresholds={"present": 20, "missing": 3, "crit": 2, "gaps": 3.0, "forget": 100},
        evidence=EvidenceNames("records without it", "", Unit.COUNT, threshold=""),
        why="A writer that drops non-finite values makes a NaN look like a missing key; and rules on it cannot fire.",
        causes=("NaN or infinity that the writer drops", "changed logging", "an update that is skipped"),
        next=("grad_norm", "loss", "entropy", "kl_ref", "lr", "reward_mean"),
        sources="prime-rl drops non-finite values before it writes a row; 20 in a row exclude a cadence.",
    ),
)

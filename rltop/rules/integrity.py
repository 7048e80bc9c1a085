"""Integrity: non-finite values, and updates that change nothing.

Absolute rules, applied from the first record: a single NaN in an update poisons the weights, so no baseline is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.catalog.metrics import CATALOG
from rltop.model import Level, NonFinite
from rltop.rules import applicability
from rltop.rules.context import ALL_FLAT, RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding, State, Subject
from rltop.stats.persistence import NOfMCounter

FATAL = ("grad_norm", "policy_loss", "loss")
"""Metrics that go straight into the weights: one null here is a NaN that the writer could not encode."""
SERIOUS = ("entropy", "kl_ref", "kl_old", "value_loss", "ratio_mean", "lr", "logps_chosen", "logps_rejected")
"""Metrics that the update is made of: NaN or Inf counts at once, null if it comes twice in a row."""
REWARDS = ("score_mean", "reward_mean")
"""Never undefined for completions; elsewhere undefined if no episode ended, and only for long a missing reward."""
_INFINITE = frozenset({NonFinite.POS_INF, NonFinite.NEG_INF})
_WATCHED = frozenset(FATAL + SERIOUS + REWARDS)
LOSS_LIKE = (
    "nll_loss", "aux_loss", "distill_loss", "grad_norm_critic", "kl_teacher", "rm_loss", "rm_grad_norm",
    "sac_alpha_loss",
)  # fmt: skip
"""Of the same kind, but not part of every run's update: treated like keys outside the catalogue (`is_loss_like`)."""
_NULL_STREAK = 2
_SCALING = 10
"""First records, in which fp16 loss scaling searches its scale: gradients overflow by design."""
_LEARNING_RECORDS = 64
_LEARNING_STRIDE = 16
"""Metrics seen finite are recorded in the first records, then at this interval: it costs, and rarely changes."""


class _LossLike(State):
    """Losses, gradients and KLs that not every run's update includes: which of them used to be numbers.

    A loss over one kind of sample is undefined if the batch has none.
    """

    finite: dict[str, int] = {}
    streaks: dict[str, int] = {}
    returned: set[str] = set()

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__()
        self.known, self.trusted = int(thresholds["known"]), int(thresholds["trusted"])
        self.returned_streak = int(thresholds["returned"])

    def learn(self, context: RuleContext) -> None:
        """Count those that are numbers on this record."""
        values, finite = context.values, self.finite
        for name in (*context.observation.loss_like, *[name for name in LOSS_LIKE if name in values]):
            finite[name] = finite.get(name, 0) + 1

    def note_marks(self, marks: Mapping[str, NonFinite]) -> None:
        """Note which are numbers again on this record, and which still are not."""
        self.returned |= self.streaks.keys() - marks.keys()
        self.streaks = {name: self.streaks.get(name, 0) + 1 for name in marks if name in self.finite}

    def level(self, name: str, kind: NonFinite) -> Level:
        """How bad a mark is; call it before `note_marks` has counted the mark."""
        seen, streak = self.finite.get(name, 0), self.streaks.get(name, 0) + 1
        if seen < self.known:
            return INFO
        if name in self.returned:
            return CRIT if streak >= self.returned_streak else INFO
        return CRIT if seen >= self.trusted or streak >= _NULL_STREAK else WARN


class NonFiniteValue(Detector):
    """L1: NaN, infinity, or null instead of a number, in metrics that the update is made of."""

    unseen = set(_WATCHED)
    null_streaks: dict[str, int] = {}
    skipped_at = -math.inf
    record = 0
    has_completions, of_evaluation = False, QUIET
    stretches: dict[str, tuple[tuple[int, int], int, int]] = {}
    """Of each thing said since the alert began: the first (record, step), the training record, how often."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.loss_like, lasts = _LossLike(thresholds), int(thresholds["lasts"])
        self.often = NOfMCounter(lasts, 2 * lasts)

    def detect(self, context: RuleContext) -> Finding | None:
        """A record without marks takes little more than one dictionary look-up."""
        marks, values, record, self.since = context.observation.nonfinite, context.values, context.record, None
        if record <= _LEARNING_RECORDS or record % _LEARNING_STRIDE == 0:
            self.has_completions = self.has_completions or "response_len_mean" in values
            self.unseen.difference_update([name for name in self.unseen if name in values])
            self.loss_like.learn(context)
        self.of_evaluation = QUIET if "val_loss" in values else self.of_evaluation
        if self.often.bits or "grad_norm" in marks:
            self.often.push("grad_norm" in marks)
        if not marks:
            self.stretches = self.stretches if self.holds >= INFO else {}
            self.null_streaks.clear()
            if self.loss_like.streaks:
                self.loss_like.note_marks(marks)
            return self.of_evaluation if values or context.observation.loss_like else None
        self.record = record
        # A schedule never becomes NaN: older LLaMA-Factory writes every key of an evaluation or closing row, or null.
        is_null = marks.get("lr") is NonFinite.NULL and not marks.keys().isdisjoint(FATAL)
        if is_null and all(kind is NonFinite.NULL for kind in marks.values()):
            return None
        kind = marks.get("grad_norm")
        if kind is not None and values.get("loss") == 0.0:
            return self._finding(context, CRIT, "masked", kind.word)
        levels = {name: self._level(name, kind) for name, kind in marks.items()}
        nulls = [name for name, kind in marks.items() if kind is NonFinite.NULL]
        self.null_streaks = {name: self.null_streaks.get(name, 0) + 1 for name in nulls}
        self.loss_like.note_marks(marks)
        level = max(levels.values())
        # In strict JSON, null is how a gradient that overflows during fp16 scale search is written.
        unseen = self.unseen.difference(("grad_norm",) if "loss" in values or "policy_loss" in values else ())
        ranked = [name for name in (*FATAL, *SERIOUS) if name in marks and (name not in nulls or name not in unseen)]
        if level < WARN and (self.of_evaluation is not QUIET or "grad_norm" not in ranked):
            return self.of_evaluation
        if self._is_skipped(context, marks):
            return self._finding(context, INFO, "skipped")
        ranked += [name for name, one in levels.items() if one >= WARN and name not in ranked]
        found = self._finding(context, level, *[f"{name} is {marks[name].word}" for name in ranked])
        self.of_evaluation = found if levels.get("val_loss") is level is WARN else QUIET
        return found

    def _finding(self, context: RuleContext, level: Level, said: str, *others: str) -> Finding:
        step, record = context.observation.step, self.record
        self.since, began, count = self.stretches.get(said, (context.place, record, 0))
        self.stretches[said], first = (self.since, began, count + 1), self.since[1]
        some = "" if (held := record - began) == count else f" ({count + 1} of {held + 1} records)"
        steps = f"step {step:,}" if first == step else f"steps {first:,}–{step:,}{some}"
        return Finding(level, count + 1.0, words=(steps, said, *others))

    def _is_skipped(self, context: RuleContext, marks: Mapping[str, NonFinite]) -> bool:
        """Whether mixed precision skipped this step, the first in ten records: it changed no weight."""
        loss = context.values.get("loss", context.values.get("policy_loss"))
        others = _WATCHED.difference(("grad_norm", *REWARDS))
        if not context.is_lr_held or not loss or "grad_norm" not in marks or others.intersection(marks):
            return False
        is_again = self.record - self.skipped_at < self.thresholds["again"]
        self.skipped_at = self.record
        return not is_again

    def _level(self, name: str, kind: NonFinite) -> Level:
        if name in REWARDS:
            return CRIT if self.has_completions and kind is not NonFinite.NULL else INFO
        if name == "grad_norm":
            return self._gradient_level(kind)
        if name not in _WATCHED:
            return WARN if name == "val_loss" and kind is not NonFinite.NULL else self.loss_like.level(name, kind)
        if kind is not NonFinite.NULL:
            return CRIT
        if name in self.unseen:
            return INFO
        streak = self.null_streaks.get(name, 0) + 1
        return CRIT if name in FATAL or streak >= _NULL_STREAK else INFO

    def _gradient_level(self, kind: NonFinite) -> Level:
        """A non-finite norm means a step skipped by clipping or loss scaling, unless it persists."""
        lasts = self.often.bits.bit_count() >= self.often.n
        if kind is NonFinite.NULL or (self.record <= _SCALING and not lasts):
            return INFO
        return CRIT if lasts else WARN

    def subject(self, finding: Finding) -> Subject:
        first = finding.words[1]
        return Subject("grad_norm") if first in {"skipped", "masked"} else _subject(_named(first))

    def headline(self, finding: Finding) -> str:
        steps, first, *others = finding.words
        if first == "skipped":
            return f"optimiser step skipped at {steps}: gradient overflow, learning rate unchanged"
        if first == "masked":
            return f"loss logged as 0.0 while grad_norm is {others[0]} at {steps}: the trainer hides NaN losses"
        rest = f" (also {', '.join(map(_named, others))})" if others else ""
        return f"{first} at {steps}{rest}"


def _named(words: str) -> str:
    return words.rpartition(" is ")[0]


def _subject(name: str) -> Subject:
    return Subject(name) if name in CATALOG else Subject("", key=name)


class UndefinedStatistic(Detector):
    """L1: NaN in derived statistics only (an empty batch); must not mask a divergence."""

    missing_for = 0
    never: set[str] | None = None
    """Keys outside the catalogue that were undefined in every record so far: not a matter of an empty batch."""

    def detect(self, context: RuleContext) -> Finding | None:
        marks = context.observation.nonfinite
        if self.never is None:
            self.never = {name for name in marks if name not in CATALOG}
        elif self.never:
            self.never &= marks.keys()
        missing = [name for name in REWARDS if name in marks] if marks else []
        if context.reward.value is not None:
            self.missing_for, self.since = 0, None
        elif missing:
            self.missing_for, self.since = self.missing_for + 1, self.since or context.place
            if self.missing_for >= self.thresholds["reward_records"] and context.reward.count:
                return Finding(CRIT, float(self.missing_for), words=(missing[0], marks[missing[0]].word, ""))
        if not marks:
            return QUIET
        derived = [name for name in marks if name not in self.never]
        if not derived or not marks.keys().isdisjoint(_WATCHED.difference(REWARDS)) or "nonfinite" in context.alarms:
            return QUIET
        # A mean over nothing is NaN; infinity comes from overflow in an exponential or in half precision.
        infinite = [name for name in derived if marks[name] in _INFINITE]
        name = (infinite or derived)[0]
        why = "overflow" if infinite else "empty batch"
        return Finding(INFO, float(len(derived)), words=(name, marks[name].word, why))

    def subject(self, finding: Finding) -> Subject:
        return _subject(finding.words[0])

    def headline(self, finding: Finding) -> str:
        name, word, why = finding.words
        if not why:
            return f"{name} is {word} for {finding.value:.0f} records in a row: no reward reaches the update"
        others = f" and {finding.value - 1:.0f} more" if finding.value > 1 else ""
        return f"{name}{others} undefined ({word}): {why}{', not divergence' if why == 'empty batch' else ''}"


class NotUpdating(Detector):
    """L3: no gradient although rewards differ within groups, or between the means of batches."""

    before: float | None = None
    alive = streak = dead = seen = 0

    def look(self, value: float, context: RuleContext) -> Finding | None:
        reward, line = context.reward, self.thresholds["gradient"]
        if reward.count == 0:
            return self._against_loss(value, context)
        if reward.zero_share is None:
            return None if reward.value is None else self._against_mean(value, reward.value, context)
        if value >= line or context.is_paused:
            return QUIET
        return None if reward.zero_share >= self.thresholds["zero_share"] else Finding(CRIT, value, None, line)

    def _against_mean(self, norm: float, value: float, context: RuleContext) -> Finding:
        before, self.before, line = self.before, value, self.thresholds["gradient"]
        self.seen += 1
        if norm >= line or context.is_paused:
            self.alive, self.streak = (0 if self.streak else self.alive) + 1, 0
            return QUIET
        self.streak, self.dead = self.streak + 1, self.dead + 1
        if before is None or value == before or context.reward.is_high or self._is_flat(context.values):
            return QUIET
        # Without groups every return gives an advantage, so only a lost update has no gradient.
        is_compared = applicability.compares_groups(context.algorithm, context.traits) and not context.traits.has_critic
        # Batches without contrast first come singly; so many in a row after none at all are not chance.
        is_new = self.alive >= self.thresholds["always"]
        if is_compared and self._is_by_chance():
            return QUIET
        return Finding(WARN if is_compared and not is_new else CRIT, norm, None, line)

    def _is_by_chance(self) -> bool:
        """Whether the earlier share of such batches, by Laplace's rule of succession, makes this streak likely."""
        before = self.dead - self.streak
        share = (before + 1) / (self.seen - self.streak + 2)
        return before > 0 and self.streak * math.log(share) > math.log(self.thresholds["chance"])

    def _against_loss(self, norm: float, context: RuleContext) -> Finding | None:
        if not applicability.has_loss_to_minimise(context.algorithm, context.traits):
            return None
        loss, line = context.values.get("loss", 0.0), self.thresholds["gradient"]
        is_fine = norm >= line or context.is_paused or loss <= self.thresholds["loss"]
        return QUIET if is_fine else Finding(CRIT, norm, None, line, (loss,))

    def _is_flat(self, values: Mapping[str, float]) -> bool:
        ends = (("reward_max", "reward_min"), ("adv_max", "adv_min"))
        reaches = [values[high] - values[low] for high, low in ends if high in values and low in values]
        return min(reaches, default=math.inf) <= self.thresholds["reward_std"]


_LOSSES = ("policy_loss", "loss")
_OF_UPDATES = ("grad_norm", *_LOSSES, "entropy", "kl_ref", "kl_old", "value_loss")
_CADENCED = frozenset({*_OF_UPDATES, *REWARDS})
_OPTIMISER = ("clip_frac", "ratio_mean", "time_update_actor", "time_update_all", "mfu")
"""Metrics that only an update logs, besides the learning rate."""


class Cadence(State):
    """How one metric has been logged so far.

    Attributes:
        accompanied: how often other training metrics were logged on its record or since its previous one.
        since: (record, step) of the first record of the current gap.
    """

    found = accompanied = missing = longest = 0
    since: tuple[int, int] | None = None

    def note(self, is_accompanied: bool) -> None:
        self.found += 1
        self.accompanied += is_accompanied or self.missing > 0
        self.longest = max(self.longest, self.missing)
        self.missing, self.since = 0, None

    def is_gone(self, present: float, missing: float, gaps: float) -> bool:
        """Missing for longer than ever, although it was regular and mostly came with other training metrics."""
        is_known = self.found >= present and 2 * self.accompanied > self.found
        return is_known and self.missing >= max(missing, gaps * (self.longest + 1) if self.longest else 0.0)


class KeyVanished(Detector):
    """L11: the reward, or a metric of the update, is missing by its own cadence while training goes on."""

    is_about_word = True
    watched: dict[str, Cadence] = {}
    usual = rated = 0
    absent: frozenset[str] = _CADENCED
    is_complete, complete = False, 0

    def detect(self, context: RuleContext) -> Finding | None:
        values, marks = context.values, context.observation.nonfinite
        is_there = self.is_complete and not marks and self.watched.keys() <= values.keys()
        if is_there and values.keys().isdisjoint(self.absent):
            # The usual case, a complete record: counted once here, credited to each metric when needed.
            self.usual, self.rated = max(self.usual, len(values)), self.rated + ("lr" in values)
            self.complete += 1
            return QUIET
        for one in self.watched.values():
            one.found, one.accompanied = one.found + self.complete, one.accompanied + self.complete
        self.complete = 0
        return self._count(context, values, marks)

    def _count(self, context: RuleContext, values: Mapping[str, float], marks: Mapping[str, NonFinite]) -> Finding:
        updates = [name for name in _OF_UPDATES if name in values]
        rewards = [name for name in REWARDS if name in values or name in marks]
        if updates:
            self.usual, self.rated = max(self.usual, len(values)), self.rated + ("lr" in values)
        for name in (*rewards, *updates):
            if name not in self.watched:
                self.watched[name] = Cadence()
            self.watched[name].note(len(updates) + len(rewards) > 1 or "lr" in values)
        lacking = [name for name in self.watched if name not in values and name not in marks]
        # Unless an update metric is watched, the length of a row says nothing.
        self.is_complete = not lacking and len(self.watched) > 1 and not self.watched.keys().isdisjoint(_OF_UPDATES)
        self.absent = _CADENCED.difference(self.watched)
        if not lacking:
            return QUIET
        is_trained = "grad_norm" in values or "loss" in values or "policy_loss" in values
        is_update = self._is_training_row(context)
        for name in lacking:
            if is_trained and not rewards if name in REWARDS else is_update:
                one = self.watched[name]
                one.missing += 1
                one.since = one.since or context.place
        return self._judge(values)

    def _is_training_row(self, context: RuleContext) -> bool:
        values, flat = context.values, context.reward.zero_share
        if context.reward.is_high or values.get("filter_pass_rate") == 0.0 or (flat or 0.0) >= ALL_FLAT:
            return False
        return len(values) > 0.5 * self.usual and ("lr" in values or self.rated < self.thresholds["present"])

    def _judge(self, values: Mapping[str, float]) -> Finding:
        thresholds, watched = self.thresholds, self.watched
        gone = {name: one for name, one in watched.items() if one.missing}
        lost = [gone[name] for name in _LOSSES if name in gone]
        is_update = "lr" in values or any(name in values for name in _OPTIMISER)
        if is_update and "grad_norm" in gone and lost:
            pair = [gone["grad_norm"], max(lost, key=lambda one: one.missing)]
            if all(one.is_gone(thresholds["present"], 1, thresholds["gaps"]) for one in pair):
                both = min(one.missing for one in pair)
                names = sorted(gone, key=lambda name: (name not in _LOSSES, -gone[name].missing))
                return self._told(names, both, CRIT if both >= thresholds["crit"] else WARN)
        long = []
        for name, one in gone.items():
            kind = "reward_" if name in REWARDS else ""
            if one.is_gone(thresholds[f"{kind}present"], thresholds[f"{kind}missing"], thresholds["gaps"]):
                long.append(name)
        long.sort(key=lambda name: -gone[name].missing)
        return self._told(long, gone[long[0]].missing, WARN) if long else QUIET

    def _told(self, names: list[str], rows: int, level: Level) -> Finding:
        self.since = self.watched[names[0]].since
        return Finding(level, float(rows), words=tuple(names))

    def headline(self, finding: Finding) -> str:
        first, *others = finding.words
        also = f" (also {', '.join(others)})" if others else ""
        rows = "1 record" if finding.value == 1 else f"{finding.value:.0f} records"
        reason = "" if first in REWARDS else ": NaN that the writer drops?"
        return f"{first} missing for {rows}{also}, was logged regularly before{reason}"

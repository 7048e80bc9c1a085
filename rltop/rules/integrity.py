"""Integrity: non-finite values, and updates that change nothing.

Absolute rules, judged from the first record: one NaN in an update poisons the
weights, and needs no baseline.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Level, NonFinite, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec, Subject
from rltop.stats.persistence import NOfMCounter
from rltop.units import number

FATAL = ("grad_norm", "policy_loss", "loss")
"""What goes straight into the weights: one null here is a NaN that the writer could not encode."""
SERIOUS = ("entropy", "kl_ref", "kl_old", "value_loss", "ratio_mean", "lr", "logps_chosen", "logps_rejected")
"""What the update is made of: NaN or Inf at once, null when it comes twice in a row."""
REWARDS = ("score_mean", "reward_mean")
"""Undefined for one batch is an empty batch; undefined for long is a missing reward."""
_WATCHED = frozenset(FATAL + SERIOUS + REWARDS)
LOSS_LIKE = (
    "nll_loss",
    "aux_loss",
    "distill_loss",
    "grad_norm_critic",
    "kl_teacher",
    "rm_loss",
    "rm_grad_norm",
    "sac_alpha_loss",
)
"""Of the same kind, but not in every run part of the update: as keys that the catalogue lacks (`is_loss_like`)."""
_NULL_STREAK = 2
_LEARNING_RECORDS = 64
_LEARNING_STRIDE = 16
"""Which metrics have been numbers is noted in the first records and then periodically: it costs, and rarely changes."""


_FAR = 1_000_000_000
_MOVING = 3


class _Schedule:
    """Whether a learning rate that had moved on every record stands still on this one: the step was left out."""

    __slots__ = ("last", "moved", "stands_still")

    def __init__(self) -> None:
        self.last: float | None = None
        self.moved = 0
        self.stands_still = False

    def observe(self, context: RuleContext) -> None:
        """Take the learning rate of a record in."""
        lr = context.values.get("lr")
        is_still = lr is not None and lr == self.last
        self.stands_still = is_still and self.moved >= _MOVING
        if lr is not None:
            # One step left out does not end a schedule.
            self.moved = self.moved + 1 if not is_still else self.moved if self.stands_still else 0
            self.last = lr

    def clone(self) -> _Schedule:
        """An independent copy."""
        twin = _Schedule()
        twin.last, twin.moved, twin.stands_still = self.last, self.moved, self.stands_still
        return twin


class _LossLike:
    """Losses, gradients and KLs that are not in every run part of the update: which of them used to be numbers.

    A loss over one kind of sample is undefined where the batch has none. So one that has come back
    from NaN must be NaN for longer, and one that has been a number only a few times is no more than WARN at first.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self.known, self.trusted = int(thresholds["known"]), int(thresholds["trusted"])
        self.returned_streak = int(thresholds["returned"])
        self.finite: dict[str, int] = {}
        self.streaks: dict[str, int] = {}
        self.returned: set[str] = set()

    def learn(self, context: RuleContext) -> None:
        """Count the ones that are numbers on this record."""
        values, finite = context.values, self.finite
        for name in (*context.observation.loss_like, *[name for name in LOSS_LIKE if name in values]):
            finite[name] = finite.get(name, 0) + 1

    def pass_over(self, marks: Mapping[str, NonFinite], context: RuleContext) -> None:
        """Note which have come back on this record, and which are still not numbers."""
        here = context.observation.loss_like
        gone = {name for name in self.streaks if name not in marks}
        self.returned |= {name for name in gone if name in here or name in context.values}
        self.streaks = {name: self.streaks.get(name, 0) + 1 for name in marks if name in self.finite}

    def level(self, name: str, kind: NonFinite) -> Level:
        """How bad a mark is, before `pass_over` has counted it."""
        seen, streak = self.finite.get(name, 0), self.streaks.get(name, 0) + 1
        if seen < self.known:
            return INFO
        if name in self.returned:
            return CRIT if streak >= self.returned_streak else INFO
        if kind is NonFinite.NULL:
            return CRIT if streak >= _NULL_STREAK else INFO
        return CRIT if seen >= self.trusted or streak >= _NULL_STREAK else WARN

    def clone(self) -> _LossLike:
        """An independent copy."""
        twin = _LossLike.__new__(_LossLike)
        twin.known, twin.trusted, twin.returned_streak = self.known, self.trusted, self.returned_streak
        twin.finite, twin.streaks, twin.returned = self.finite.copy(), self.streaks.copy(), self.returned.copy()
        return twin


class NonFiniteValue(Detector):
    """L1: NaN, infinity, or a null where numbers used to be, in what the update is made of."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.unseen = set(_WATCHED)
        self.null_streaks: dict[str, int] = {}
        self.schedule = _Schedule()
        self.since_skip = _FAR
        self.loss_like = _LossLike(thresholds)

    def detect(self, context: RuleContext) -> Finding | None:
        """One dictionary look-up on a record without marks."""
        marks = context.observation.nonfinite
        self.schedule.observe(context)
        if self.since_skip < _FAR:
            self.since_skip += 1
        if context.record <= _LEARNING_RECORDS or context.record % _LEARNING_STRIDE == 0:
            values = context.values
            self.unseen.difference_update([name for name in self.unseen if name in values])
            self.loss_like.learn(context)
        if not marks:
            if self.null_streaks:
                self.null_streaks = {}
            if self.loss_like.streaks:
                self.loss_like.pass_over(marks, context)
            return QUIET if context.values or context.observation.loss_like else None
        if _is_no_update(marks):
            return None
        levels = {name: self._level(name, kind) for name, kind in marks.items()}
        self.null_streaks = {
            name: self.null_streaks.get(name, 0) + 1 for name, kind in marks.items() if kind is NonFinite.NULL
        }
        self.loss_like.pass_over(marks, context)
        level = max(levels.values())
        if level < WARN:
            return QUIET
        if self._is_skipped(context, marks):
            return Finding(INFO, 1.0, words=(f"{context.observation.step:,}", "skipped"))
        ranked = [name for name in (*FATAL, *SERIOUS) if self._is_bad(name, marks)]
        ranked += [name for name, one in levels.items() if one >= WARN and name not in ranked]
        words = [f"{name} is {marks[name].word}" for name in ranked]
        return Finding(level, float(len(marks)), words=(f"{context.observation.step:,}", *words))

    def _is_skipped(self, context: RuleContext, marks: Mapping[str, NonFinite]) -> bool:
        """A step that mixed precision left out, the first within ten records: it touched no weight."""
        loss = context.values.get("loss", context.values.get("policy_loss"))
        if not self.schedule.stands_still or not loss:
            return False
        if any(name in _WATCHED and name not in {"grad_norm", *REWARDS} for name in marks) or "grad_norm" not in marks:
            return False
        is_again = self.since_skip < self.thresholds["again"]
        self.since_skip = 0
        return not is_again

    def _is_bad(self, name: str, marks: Mapping[str, NonFinite]) -> bool:
        return name in marks and (marks[name] is not NonFinite.NULL or name not in self.unseen)

    def _level(self, name: str, kind: NonFinite) -> Level:
        if name in REWARDS:
            return INFO
        if name not in _WATCHED:
            return self.loss_like.level(name, kind)
        if kind is not NonFinite.NULL:
            return CRIT
        if name in self.unseen:
            return INFO
        streak = self.null_streaks.get(name, 0) + 1
        return CRIT if name in FATAL or streak >= _NULL_STREAK else INFO

    def subject(self, finding: Finding) -> Subject:
        """The first non-finite one."""
        if finding.words[1] == "skipped":
            return Subject("grad_norm")
        return Subject(_named(finding.words[1]))

    def headline(self, finding: Finding) -> str:
        """Which key, where, and which others with it."""
        step, first, *others = finding.words
        if first == "skipped":
            return f"optimiser step skipped at step {step}: gradient overflow, learning rate unchanged"
        rest = f" (also {', '.join(map(_named, others))})" if others else ""
        return f"{first} at step {step}{rest}"


def _is_no_update(marks: Mapping[str, NonFinite]) -> bool:
    """Whether a row leaves out what it has no value for: a schedule never turns into NaN, so its null hides none.

    Source: older LLaMA-Factory writes every key of `trainer_log.jsonl`, null or not, on evaluation and closing rows.
    """
    is_null = marks.get("lr") is NonFinite.NULL and not marks.keys().isdisjoint(FATAL)
    return is_null and all(kind is NonFinite.NULL for kind in marks.values())


def _named(words: str) -> str:
    """The name in `<name> is <kind>`; a key may have spaces in it."""
    return words.rpartition(" is ")[0]


class UndefinedStatistic(Detector):
    """L1b: NaN only in derived statistics: an empty batch, an undefined correlation.

    Silent beside and after non-finite values that go into the update, where it
    would play down a divergence.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.reward_missing = NOfMCounter(int(thresholds["reward_records"]), int(thresholds["reward_records"]))

    def detect(self, context: RuleContext) -> Finding | None:
        """INFO for derived statistics; WARN once the reward itself stays undefined."""
        marks = context.observation.nonfinite
        rewarded = context.reward.value is not None
        if not marks:
            if not self.reward_missing.bits:
                return QUIET
            if rewarded:
                self.reward_missing.push(False)
            return QUIET
        missing = [name for name in REWARDS if name in marks]
        if rewarded or missing:
            lasts = self.reward_missing.push(bool(missing) and not rewarded)
            if lasts and context.reward.count:
                return Finding(CRIT, float(self.reward_missing.n), words=(missing[0], marks[missing[0]].word))
        derived = [name for name in marks if name not in _WATCHED or name in REWARDS]
        if len(derived) < len(marks) or not derived or "nonfinite" in context.alarms:
            return QUIET
        return Finding(INFO, float(len(derived)), words=(derived[0], marks[derived[0]].word))

    def subject(self, finding: Finding) -> Subject:
        """The statistic that is undefined."""
        return Subject(finding.words[0])

    def headline(self, finding: Finding) -> str:
        """Which statistic, and how it was written."""
        name, word = finding.words
        if finding.level >= WARN:
            return f"{name} is {word} for {finding.value:.0f} records in a row: no reward reaches the update"
        others = f" and {finding.value - 1:.0f} more" if finding.value > 1 else ""
        return f"{name}{others} undefined ({word}): empty batch, not divergence"


class MaskedNonFinite(Detector):
    """L2: a loss of exactly 0.0 beside a non-finite gradient norm."""

    def detect(self, context: RuleContext) -> Finding | None:
        """Both in one record is the signature of a trainer that hides NaN losses."""
        marks = context.observation.nonfinite
        if not marks:
            return QUIET
        kind = marks.get("grad_norm")
        if kind is None:
            return QUIET if "grad_norm" in context.values else None
        if context.values.get("loss") == 0.0:
            return Finding(CRIT, 0.0, words=(kind.word,))
        return QUIET

    def headline(self, finding: Finding) -> str:
        """What is hidden behind the 0.0."""
        return (
            f"loss logged as 0.0 while grad_norm is {finding.words[0]}: the trainer replaces NaN losses before logging"
        )


class NotUpdating(Detector):
    """L3: no gradient although the rewards within groups differ.

    Where zero-variance groups are not logged, a batch whose completions differ (from
    each other, or in the mean of the batch from the one before) and whose reward
    is not at its top must have had a gradient sooner or later: WARN.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.gradient = thresholds["gradient"]
        self.before: float | None = None
        self.alive, self.is_dead = 0, False

    def detect(self, context: RuleContext) -> Finding | None:
        """Gradient below `gradient`; the reward of a rollout holds until the next rollout."""
        norm, reward = context.values.get("grad_norm"), context.reward
        if norm is None:
            return None
        if reward.count == 0:
            return self._against_loss(norm, context)
        if reward.zero_share is None:
            return None if reward.value is None else self._against_mean(norm, reward.value, context)
        if norm >= self.gradient or context.lr == 0.0:
            return QUIET
        return Finding(CRIT, norm, None, self.gradient) if self._has_contrast(context) else None

    def _has_contrast(self, context: RuleContext) -> bool:
        """Without contrast in the groups there is no gradient, and no evidence: that is G1's."""
        if (context.reward.zero_share or 0.0) >= self.thresholds["zero_share"] or self._is_flat(context.values):
            return False
        return context.values.get("reward_std", 1.0) > self.thresholds["reward_std"]

    def _against_mean(self, norm: float, value: float, context: RuleContext) -> Finding:
        """Where zero-variance groups are not logged."""
        before, self.before = self.before, value
        if norm >= self.gradient or context.lr == 0.0:
            self.alive, self.is_dead = (0 if self.is_dead else self.alive) + 1, False
            return QUIET
        self.is_dead = True
        has_moved = before is not None and value != before
        is_idle = context.reward.is_high or self._is_flat(context.values) or not has_moved
        if is_idle:
            return QUIET
        # Without groups any return gives an advantage, so that only an update that is lost has no gradient.
        is_compared = applicability.compares_groups(context.algorithm, context.traits) and not context.traits.has_critic
        # Batches whose groups all agree come one by one first; so many in a row after none at all are no chance.
        is_new = self.alive >= self.thresholds["always"]
        return Finding(WARN if is_compared and not is_new else CRIT, norm, None, self.gradient)

    def _against_loss(self, norm: float, context: RuleContext) -> Finding | None:
        """Without a reward: a loss to minimise that is above 0 has a gradient."""
        if not applicability.has_loss_to_minimise(context.algorithm, context.traits):
            return None
        if norm >= self.gradient:
            return QUIET
        loss = context.values.get("loss", 0.0)
        is_idle = context.lr == 0.0 or loss <= self.thresholds["loss"]
        return QUIET if is_idle else Finding(CRIT, norm, None, self.gradient, (loss,))

    def _is_flat(self, values: Mapping[str, float]) -> bool:
        """Completions of the batch, or their advantages, do not differ."""
        reach = self.thresholds["reward_std"]
        for high, low in (("reward_max", "reward_min"), ("adv_max", "adv_min")):
            if high in values and low in values and values[high] - values[low] <= reach:
                return True
        return False

    def headline(self, finding: Finding) -> str:
        """The contradiction in one line."""
        reason = f"loss is {number(finding.extra[0])}" if finding.extra else "rewards differ"
        return f"gradient norm {finding.value:.1g} although {reason}: weights are not being updated"


class NoLongerLogged(Detector):
    """L10: a metric that was logged with every rollout is missing while training continues.

    Only essential metrics are watched, at the cadence they have had so far: every record,
    or one of several that reuse a rollout.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.name = ""
        self.found = self.missing = self.longest = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """One dictionary look-up on a record that has it."""
        values = context.values
        if not self.name:
            self.name = next((name for name in REWARDS if name in values), "")
            if not self.name:
                return None
        if self.name in values or context.observation.nonfinite.get(self.name) is not None:
            self.found += 1
            self.longest = max(self.longest, self.missing)
            self.missing = 0
            return QUIET
        if self._has_others(values):
            self.missing += 1
        return Finding(WARN, float(self.missing), words=(self.name,)) if self._is_long() else QUIET

    def _is_long(self) -> bool:
        thresholds = self.thresholds
        is_known = self.found >= thresholds["present"]
        return is_known and self.missing >= max(thresholds["missing"], thresholds["gaps"] * (self.longest + 1))

    def _has_others(self, values: Mapping[str, float]) -> bool:
        """The record is a training record all the same."""
        return "grad_norm" in values or "loss" in values or "policy_loss" in values

    def subject(self, finding: Finding) -> Subject:
        """The one that is missing."""
        return Subject(finding.words[0])

    def headline(self, finding: Finding) -> str:
        """Which one, and for how long."""
        return f"{finding.words[0]} missing for {finding.value:.0f} records, was logged regularly before"


RULES = (
    RuleSpec(
        id="L1",
        title="NaN/Inf",
        family="nonfinite",
        group=Group.LEARNING,
        metrics=("grad_norm", "loss", "policy_loss", "entropy", "kl_ref", "kl_old", "value_loss"),
        detector=NonFiniteValue,
        runs_always=True,
        condition="NaN or infinity in gradient norm, losses, entropy, KL, ratio, learning rate or log-probabilities: "
        "CRIT at once. A null where numbers used to be: CRIT at once for gradient norm and losses, "
        "on the second record in a row for the others; not where the learning rate is null beside the loss: such a "
        "row is no update. INFO for the gradient norm alone, with a finite loss other than "
        "0 and a learning rate that stands still on that record and had moved on each before: a step that mixed "
        "precision left out; the second within `again` records is CRIT. Any other key that names a loss, gradient, "
        "norm, KL or log-probability, no evaluation, extreme, expert or class, and was finite `known` times: WARN, "
        "CRIT where it was so `trusted` times or on the second record in a row; one that has come back before: CRIT "
        "after `returned` in a row.",
        thresholds={"again": 10, "known": 3, "trusted": 20, "returned": 3},
        evidence=EvidenceNames("non-finite values", unit=Unit.COUNT),
        why="One update with a NaN gradient corrupts every weight; from then on the policy repeats one token, "
        "and the reward stays at its minimum until the run is stopped.",
        causes=(
            "exponential of an extreme log-ratio in the KL estimate",
            "half-precision overflow",
            "no gradient clipping",
            "an empty response mask",
            "one corrupt batch",
        ),
        next=("grad_norm", "kl_ref", "ratio_mean", "truncated_frac", "response_len_min", "lr"),
        sources="veRL issues 721, 747, 891, 2626; Agent-R1 issue 30. veRL's own JSONL writer turns NaN into null "
        "(tracking.py), so a numeric key that becomes null is one.",
    ),
    RuleSpec(
        id="L1b",
        title="undefined statistic",
        family="nonfinite",
        group=Group.LEARNING,
        metrics=("score_mean", "reward_mean"),
        detector=UndefinedStatistic,
        runs_always=True,
        condition="NaN in a derived statistic only: INFO. The reward itself undefined for `reward_records` records in "
        "a row after having been a number: CRIT.",
        thresholds={"reward_records": 3},
        why="Statistics over an empty batch are undefined without any fault in the weights; a reward that stays "
        "undefined means that nothing is being optimised.",
        causes=("all rollouts of the batch aborted", "the reward function returned nothing", "an empty mask"),
        next=("aborted_frac", "reward_component", "truncated_frac"),
        sources="veRL metric_utils.py writes NaN for empty batches; TRL's GRPO writes null where no value is valid.",
    ),
    RuleSpec(
        id="L2",
        title="masked NaN",
        family="nonfinite",
        group=Group.LEARNING,
        metrics=("loss", "grad_norm"),
        detector=MaskedNonFinite,
        runs_always=True,
        condition="Loss exactly 0.0 in the same record as a gradient norm that is NaN, infinite or null: CRIT at once.",
        why="The trainer hides NaN losses by logging 0.0; the gradient norm is the only visible sign.",
        causes=("half-precision overflow", "fully masked labels", "an attention kernel fault"),
        next=("grad_norm", "lr", "logps_chosen"),
        sources="transformers: logging_nan_inf_filter is on by default (training_args.py, trainer.py).",
    ),
    RuleSpec(
        id="L3",
        title="not updating",
        family="gradient",
        group=Group.LEARNING,
        metrics=("grad_norm", "reward_std"),
        detector=NotUpdating,
        condition="Gradient norm below `gradient` while the rewards within groups differ (standard deviation above "
        "`reward_std`, zero-variance groups below `zero_share`; other records do not count) and the learning rate is "
        "not 0, in 5 such records in a row: CRIT. Where "
        "zero-variance groups are not logged, while the mean reward moves and is not at its top: WARN, or CRIT with a "
        "critic or Q-function, to which no groups are compared, and where each of `always` records before had a "
        "gradient. Where a loss is minimised, while it is above `loss`: CRIT.",
        thresholds={"gradient": 1e-8, "zero_share": 0.8, "reward_std": 1e-6, "loss": 1e-3, "always": 20},
        n_of_m={CRIT: NOfM(5, 5), WARN: NOfM(5, 5), INFO: NOfM(5, 5)},
        why="There is a learning signal but the weights do not change: the compute is wasted.",
        causes=(
            "frozen parameters or a detached adapter",
            "gradients lost between nodes",
            "reward weights that cancel out",
            "every completion masked",
        ),
        next=("zero_std_frac", "reward_std", "truncated_frac", "kl_ref", "lr"),
        sources="ms-swift issues 5571 and 5890; TRL issue 3857.",
    ),
    RuleSpec(
        id="L10",
        title="no longer logged",
        family="nonfinite",
        group=Group.LEARNING,
        metrics=("score_mean", "reward_mean"),
        detector=NoLongerLogged,
        condition="The reward was logged at least `present` times, and is missing in `missing` records in a row that "
        "have a gradient norm or a loss, and in `gaps` times its longest gap so far: WARN.",
        thresholds={"present": 5, "missing": 5, "gaps": 3.0},
        applies=applicability.has_reward,
        evidence=EvidenceNames("records without it", unit=Unit.COUNT),
        why="A trainer without a reward to log has none to learn from, and rules on the reward cannot fire.",
        causes=("a reward function that returns nothing", "a reward service that is down", "changed logging"),
        next=("reward_component", "grad_norm", "loss", "aborted_frac"),
        sources="TRL leaves the reward out where every reward function returned None.",
    ),
)

"""Value types for metrics, timings, alerts and the states of a run."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from types import MappingProxyType

from rltop.model.rows import NonFinite
from rltop.structs import NamedTuple


class Direction(enum.StrEnum):
    """Which direction of a metric is better."""

    UP = "up"
    DOWN = "down"
    TARGET = "target"
    NONE = "none"


class Unit(enum.StrEnum):
    NONE = ""
    SECONDS = "s"
    MILLISECONDS = "ms"
    TOKENS = "tokens"
    TOKENS_PER_S = "tok/s"
    FRACTION = "fraction"
    PERCENT = "%"
    NATS = "nats"
    GIGABYTES = "GB"
    WATTS = "W"
    COUNT = "count"


class Algorithm(enum.StrEnum):
    """Type of training, as inferred from the keys."""

    PPO = "ppo"
    GRPO = "grpo"
    RLOO = "rloo"
    DPO = "dpo"
    KTO = "kto"
    REWARD = "reward"
    SFT = "sft"
    DISTILL = "distill"
    EMBODIED = "embodied"
    A2C = "a2c"
    SAC = "sac"
    DQN = "dqn"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # rules look algorithms up for every record, and the hash of an enum runs in Python

    @property
    def display_name(self) -> str:
        return {
            "reward": "reward model",
            "distill": "distillation",
            "embodied": "embodied",
            "unknown": "unknown algorithm",
        }.get(self.value, self.value.upper())


class Metric(NamedTuple):
    """A quantity, independent of trainer and key.

    Attributes:
        low, high: bounds that hold by definition, or None.
    """

    name: str
    title: str
    section: str
    unit: Unit
    direction: Direction
    low: float | None = None
    high: float | None = None


class Signal(NamedTuple):
    """A metric found in a stream: `value = scale * raw + shift`.

    `instance` distinguishes several keys of one metric: the reward function, the validation set, the stage. The first
    signal of a metric is its primary one.
    """

    metric: Metric
    key: str
    scale: float = 1.0
    shift: float = 0.0
    instance: str = ""

    def read(self, raw: float) -> float:
        """Convert a raw value to the metric's own unit and sign."""
        return self.scale * raw + self.shift


class Traits(NamedTuple):
    """Properties of a run inferred from its keys (None: not known yet).

    Attributes:
        is_group_relative: advantages are relative to the other completions of the prompt.
        has_reference: KL to a reference policy is part of the objective.
        is_single_update: one optimiser update per rollout: ratio is 1, clip is 0.
        kl_is_signed: the step KL is the k1 estimator, which may be negative.
        is_generic: recognised by names that many training loops use; whether a KL is per token or summed is unknown.
    """

    has_critic: bool = False
    is_group_relative: bool = False
    has_reference: bool = False
    is_single_update: bool | None = None
    is_preference: bool = False
    is_async: bool = False
    kl_is_sequence_sum: bool = False
    kl_is_signed: bool = False
    is_generic: bool = False


class Observation(NamedTuple):
    """One closed step in canonical metrics: the input of rules.

    Attributes:
        record: number of this row in the run, from 1.
        segment: number of the segment, from 0; a new one means a restart.
        values: canonical name → value; absent if not logged on this step.
        instances: canonical name → instance → value, for metrics with several keys.
        nonfinite: canonical name or raw key → kind, for cells without a finite number.
        stages: stage name → seconds, top-level stages of the step.
        is_late: the row belongs to an earlier step (a slow evaluation).
        ranks: (group of ranks, stage) → rank → seconds, if each rank logs its own.
        loss_like: key → value, for losses, gradients and KLs that are not in the catalogue.
        other_run: identifies the run of this segment, if a column shows that it is a different run than before.
        guessed: canonical name → value, for keys that may be that metric judging by their names.
        script_alerts: alerts that the training script sent to its tracker, one line each.
    """

    record: int
    step: int
    segment: int
    time_s: float | None
    values: Mapping[str, float]
    instances: Mapping[str, Mapping[str, float]]
    nonfinite: Mapping[str, NonFinite]
    stages: Mapping[str, float]
    is_late: bool = False
    ranks: Mapping[tuple[str, str], Mapping[str, float]] = MappingProxyType({})
    loss_like: Mapping[str, float] = MappingProxyType({})
    other_run: str = ""
    guessed: Mapping[str, float] = MappingProxyType({})
    script_alerts: tuple[str, ...] = ()


class SpanKind(enum.StrEnum):
    SEQUENTIAL = "sequential"
    OVERLAPPING = "overlapping"
    OTHER = "other"


class Span(NamedTuple):
    """An interval of a step's time.

    Attributes:
        key: the trainer's key; empty for "other".
        lane: 0 for the sequential lane; overlapping spans have their own.
        is_start_logged: False if the position is assumed from the order.
        children: nested spans; their time is part of this span's time.
        parts: for a span with a logged start that was interrupted: its intervals as (start, end) in seconds from the
            start of the step, in order.
    """

    name: str
    key: str
    start_s: float
    duration_s: float
    kind: SpanKind = SpanKind.SEQUENTIAL
    lane: int = 0
    is_start_logged: bool = False
    ms_per_token: float | None = None
    children: tuple[Span, ...] = ()
    parts: tuple[tuple[float, float], ...] = ()


class TimedSpan(NamedTuple):
    """A timed interval of one worker, as a trainer measured it.

    Attributes:
        role: type of worker: trainer, inference, rollout, …
        name: the stage; nested stages are written `outer/inner`.
        key: metric key with the seconds of the stage; empty if there is none.
    """

    step: int
    role: str
    rank: int
    name: str
    start_s: float
    end_s: float
    key: str = ""


class StepTiming(NamedTuple):
    """The timing tree of one step.

    `total_s` is the duration of the step: the sum of the top-level sequential spans and the span of kind OTHER.
    `outside` holds the trainer's work between steps.
    """

    step: int
    total_s: float
    spans: tuple[Span, ...]
    outside: tuple[Span, ...] = ()
    is_overlapping: bool = False


class Level(enum.IntEnum):
    NO_DATA = 0
    OK = 1
    INFO = 2
    WARN = 3
    CRIT = 4

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


class VerdictState(enum.StrEnum):
    """State of an alert; `settled` means that the metric has stabilised at another level instead of recovering."""

    FIRING = "firing"
    SETTLED = "settled"
    RECOVERED = "recovered"


class Evidence(NamedTuple):
    """One number behind a verdict; for a baseline, `steps` are the first and last step it covers, if known."""

    name: str
    value: float
    unit: Unit = Unit.NONE
    steps: tuple[int, int] | None = None


class Part(NamedTuple):
    """Another part of the same rule that is active too; `id` is its own id, `metric` the metric it judges."""

    id: str
    title: str
    since_step: int
    level: Level
    metric: str

    @property
    def words(self) -> str:
        return f"{self.title} ({self.id}) since step {self.since_step:,}"


class Settled(NamedTuple):
    """The new level of a metric that has stabilised, and the level before.

    Attributes:
        value: median of the newest records.
    """

    value: float
    before: float
    since_step: int
    unit: Unit = Unit.NONE


class Incident(NamedTuple):
    """Alarms that began within a few records of one another.

    Attributes:
        number: per stream, from 1.
        part: id of the part of the rule that began it; "" for the rule itself.
    """

    number: int
    rule: str
    step: int
    part: str = ""


class Action(enum.StrEnum):
    STOP = "stop"
    GO_BACK = "go back"
    WATCH = "watch"
    REVIEW = "review"


class Advice(NamedTuple):
    """What to do about an alarm, and why.

    Attributes:
        action: stop the run, go back to a checkpoint, watch it, or review it once it is over.
        checkpoint: step of the last known checkpoint before the onset, or None.
    """

    action: Action
    reason: str
    checkpoint: int | None = None

    @property
    def words(self) -> str:
        """The action alone: `go back to checkpoint 120`, `stop the run`, what to look at, or else `keep watching`."""
        if self.action is Action.GO_BACK and self.checkpoint is not None:
            return f"{self.action.value} to checkpoint {self.checkpoint:,}"
        watch = self.reason.partition(": ")[2] or "keep watching"
        return {Action.STOP: "stop the run", Action.WATCH: watch}.get(self.action, self.action.value)

    @property
    def text(self) -> str:
        """The action with its reason: `keep watching; stop if the reward falls too`."""
        if self.action is Action.WATCH:
            return f"{self.words}; {self.reason}" if self.reason.startswith("stop") else self.reason
        return f"{self.words}: {self.reason}"


POISON_FAMILY = "nonfinite"
"""Family of rules about NaN and Inf."""
RESTART_RULE = "L6"
"""The rule that reports a restart."""


_EXPLAINING = (POISON_FAMILY, "collapse")
"""After a non-finite update everything else is a consequence; a collapse sums up what other rules report one by one."""


def explaining(level: Level, family: str) -> int:
    """Rank among alarms of one level: those that explain the others come first."""
    is_first = level >= Level.WARN and family in _EXPLAINING
    return _EXPLAINING.index(family) if is_first else len(_EXPLAINING)


def _is_among(rule: str, part: str, rules: Collection[str]) -> bool:
    return rule in rules or (part != "" and part in rules)


class Verdict(NamedTuple):
    """The current result of a rule for a run.

    Attributes:
        threshold: the threshold crossed, in the metric's unit, if there is one.
        baseline: the value compared against, in the metric's unit, if there is one.
        recovered_step: the first of the good steps that ended it, or None.
        stream: the stream that counts its steps; "" for the main one.
        worst: the worst level so far; NO_DATA if the level never changed.
        incident: the incident it belongs to, for alarms of rules on records.
        part: id of the part of the rule that raised it; "" for the rule itself.
        lately: median of the newest values of the metric compared with the baseline, if it is logged.
        also: other active parts of the rule.
        is_away: its metric is back, and the alert, which has come back before, waits for its end.
    """

    rule: str
    title: str
    family: str
    group: str
    level: Level
    state: VerdictState
    metric: str
    key: str
    since_step: int
    since_record: int
    headline: str
    evidence: tuple[Evidence, ...] = ()
    threshold: float | None = None
    baseline: float | None = None
    recovered_step: int | None = None
    is_provisional: bool = False
    stream: str = ""
    worst: Level = Level.NO_DATA
    settled: Settled | None = None
    incident: Incident | None = None
    advice: Advice | None = None
    part: str = ""
    lately: float | None = None
    also: tuple[Part, ...] = ()
    is_away: bool = False

    @property
    def raised_by(self) -> str:
        """Id of the part that raised it, else of the rule; texts and thresholds are looked up by it."""
        return self.part or self.rule

    @property
    def rule_words(self) -> str:
        """The rule and, if any, its part: `M1, part M3`."""
        return f"{self.rule}, part {self.part}" if self.part else self.rule

    def is_of(self, rules: Collection[str]) -> bool:
        return _is_among(self.rule, self.part, rules)

    @property
    def quoted_baseline(self) -> Evidence | None:
        """The evidence for its baseline or for the level before; None if it compares with something else."""
        same = (one for one in self.evidence if one.value == self.baseline and not one.name.startswith("best"))
        return next((one for one in same if one.steps or one.name == "baseline"), None)

    @property
    def compared(self) -> Evidence | None:
        """The evidence for what it compares with: a baseline, a best, a start."""
        # Its value, which may be the same, comes first.
        return next((one for one in self.evidence[1:] if one.value == self.baseline), None)

    @property
    def is_active(self) -> bool:
        return self.state in (VerdictState.FIRING, VerdictState.SETTLED)

    @property
    def worst_level(self) -> Level:
        return max(self.level, self.worst)

    @property
    def urgency(self) -> tuple[bool, int, bool, int, bool, str, int]:
        """Sort key of alerts wherever they are shown: active ones first, then the worst level.

        Among equals: not away, explaining the others, not settled, the main stream, the oldest.
        """
        is_settled = self.state is VerdictState.SETTLED
        explains = explaining(self.level, self.family)
        return not self.is_active, -self.level, self.is_away, explains, is_settled, self.stream, self.since_record


class EventState(enum.StrEnum):
    """A transition of an alert, or a fact about the run; only `firing` and `escalated` are alarms.

    `eased`: the level has dropped. `resumed`: back at a level that this verdict had before, or at its level by another
    part. `settled`: the metric has stabilised at another level. `recovered`: it is back to normal.
    """

    FIRING = "firing"
    ESCALATED = "escalated"
    EASED = "eased"
    RESUMED = "resumed"
    SETTLED = "settled"
    RECOVERED = "recovered"
    FACT = "fact"


_ALARMS = frozenset({EventState.FIRING, EventState.ESCALATED})


class Event(NamedTuple):
    """One transition of one rule, in the order of the file.

    `stream` is the stream that counts its records and steps; "" is the main one. `since_step` is the onset, which
    precedes the record that confirmed it; None for a fact. `metric` and `key` are the canonical name and the trainer's
    key of the metric in the message, if any. `is_provisional`: it comes from the newest row, which may still change.
    `incident` is the number of the alarm's incident; 0 for everything else. `part` is the id of the part of the rule
    that raised it; "" for the rule itself. `baseline` is the baseline that the alert quoted then, if any. `fine_step`,
    of an alert that has ended: the first of the good steps that ended it.
    """

    record: int
    step: int
    rule: str
    family: str
    level: Level
    state: EventState
    message: str
    stream: str = ""
    since_step: int | None = None
    metric: str = ""
    key: str = ""
    is_provisional: bool = False
    incident: int = 0
    part: str = ""
    baseline: Evidence | None = None
    fine_step: int | None = None

    @property
    def raised_by(self) -> str:
        return self.part or self.rule

    def is_of(self, rules: Collection[str]) -> bool:
        return _is_among(self.rule, self.part, rules)

    @property
    def is_alarm(self) -> bool:
        """A WARN or CRIT that was raised, or is worse than ever before."""
        return self.state in _ALARMS and self.level >= Level.WARN


class RunState(enum.StrEnum):
    WAITING = "waiting"
    LOADING = "loading"
    LIVE = "live"
    QUIET = "quiet"
    STUCK = "stuck"
    ENDED = "ended"
    FINISHED = "finished"
    DIED = "died"
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    LOST = "lost"

"""What the cells of a row mean; what is wrong, since when, and what state a run is in."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from types import MappingProxyType

from rltop.model.rows import NonFinite
from rltop.structs import NamedTuple


class Direction(enum.StrEnum):
    """Which way of a metric is good."""

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
    """What kind of training the keys speak of."""

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

    __hash__ = str.__hash__  # rules look algorithms up for every record, and that of an enum is Python's

    @property
    def display_name(self) -> str:
        return {
            "reward": "reward model",
            "distill": "distillation",
            "embodied": "embodied",
            "unknown": "unknown algorithm",
        }.get(self.value, self.value.upper())


class Metric(NamedTuple):
    """What a quantity is, whoever logs it and under whatever key.

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

    `instance` tells apart several keys of one metric: the reward function, the
    validation set, the stage. The first signal of a metric is its primary one.
    """

    metric: Metric
    key: str
    scale: float = 1.0
    shift: float = 0.0
    instance: str = ""

    def read(self, raw: float) -> float:
        """The value in the metric's own unit and sign."""
        return self.scale * raw + self.shift


class Traits(NamedTuple):
    """What kind of run this is, as far as the keys tell (None: not known yet).

    Attributes:
        is_group_relative: advantages come from the other completions of the prompt.
        has_reference: KL to a reference policy is part of the objective.
        is_single_update: one optimiser update per rollout: ratio is 1, clip is 0.
        kl_is_signed: the step KL is the k1 estimator, which may be negative.
        is_generic: read by names that many loops use; what a KL is summed over is not known.
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
    """One closed step, in canonical terms: what a rule sees.

    Attributes:
        record: number of this row in the run, from 1.
        segment: number of the segment, from 0; a new one means a restart.
        values: canonical name → value; a metric that was not logged on this step is absent.
        instances: canonical name → instance → value, for metrics with several keys.
        nonfinite: canonical name or raw key → kind, for cells that held no finite number.
        stages: stage name → seconds, top-level stages of the step.
        is_late: the row belongs to an earlier step (an evaluation that took its time).
        ranks: group of ranks and stage → rank → seconds, where each rank says what it did.
        loss_like: key → value, for losses, gradients and KLs that no metric of the catalogue stands for.
        other_run: what names the run of this segment, where a column says that it is another one than before.
        guessed: canonical name → value, for keys that may be that metric by their names.
        said: alerts that the training script raised through its tracker, one line each.
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
    said: tuple[str, ...] = ()


class SpanKind(enum.StrEnum):
    """How a span relates to its siblings."""

    SEQUENTIAL = "sequential"
    OVERLAPPING = "overlapping"
    OTHER = "other"


class Span(NamedTuple):
    """A stretch of a step's time.

    Attributes:
        key: the trainer's key; empty for "other".
        lane: 0 for the sequential lane; overlapping spans have their own.
        is_start_logged: False where the position is assumed from the order.
        children: spans inside this one; their time is part of its time.
        parts: where the start is logged and the span was interrupted: each stretch
            as (start, end) in seconds from the start of the step, in order.
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
    """A stretch of time of one worker, as a trainer measured it.

    A named tuple, because there is one for every microbatch of every rank.

    Attributes:
        role: what kind of worker it is: trainer, inference, rollout, …
        name: the stage; what is inside another one is written `outer/inner`.
        key: under which the seconds of the stage are found among the metrics; empty if they are not.
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

    `total_s` is what the step took; top-level sequential spans and the span of
    kind OTHER add up to it. `outside` holds what the trainer does between steps.
    """

    step: int
    total_s: float
    spans: tuple[Span, ...]
    outside: tuple[Span, ...] = ()
    is_overlapping: bool = False


class Level(enum.IntEnum):
    """How much attention something needs."""

    NO_DATA = 0
    OK = 1
    INFO = 2
    WARN = 3
    CRIT = 4

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


class VerdictState(enum.StrEnum):
    """Where a rule stands; a settled one has stayed at another level: nothing came back, and nothing moves."""

    FIRING = "firing"
    SETTLED = "settled"
    RECOVERED = "recovered"


class Evidence(NamedTuple):
    """One number that a verdict rests on; `steps`: the first and the last that a baseline is of, where known."""

    name: str
    value: float
    unit: Unit = Unit.NONE
    steps: tuple[int, int] | None = None


class Beside(NamedTuple):
    """Another part of the same rule that stands as well; `id` is its own, `metric` what it is about."""

    id: str
    title: str
    since_step: int
    level: Level
    metric: str

    @property
    def words(self) -> str:
        return f"{self.title} ({self.id}) since step {self.since_step:,}"


class Settled(NamedTuple):
    """The level at which a metric stays, and the one that it left.

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
        number: counted in the stream, from 1.
    """

    number: int
    rule: str
    step: int


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
        """What to do, without the reason: `go back to checkpoint 120`, `stop the run`, `keep watching`."""
        if self.action is Action.GO_BACK and self.checkpoint is not None:
            return f"{self.action.value} to checkpoint {self.checkpoint:,}"
        return {Action.STOP: "stop the run", Action.WATCH: "keep watching"}.get(self.action, self.action.value)

    @property
    def text(self) -> str:
        """What to do, and why: `keep watching; stop if the reward falls too`."""
        if self.action is Action.WATCH:
            return f"{self.words}; {self.reason}" if self.reason.startswith("stop") else self.reason
        return f"{self.words}: {self.reason}"


POISON_FAMILY = "nonfinite"
"""The family of what is not a number."""
RESTART_RULE = "L6"
"""The rule that logs a restart."""


_CRIT_ORDER = {POISON_FAMILY: 0, "collapse": 1}


def _is_among(rule: str, part: str, rules: Collection[str]) -> bool:
    return rule in rules or (part != "" and part in rules)


class Verdict(NamedTuple):
    """What a rule has to say about a run now.

    Attributes:
        threshold: the line that was crossed, in the metric's unit, if there is one.
        baseline: what it is compared with, in the metric's unit, if anything.
        recovered_step: where it ended, or None.
        stream: the stream of the run whose steps it counts in; "" for the main one.
        worst: the worst level that it had; NO_DATA where it never had another.
        incident: what it belongs to, for an alarm of the rules on records.
        part: id of the part of the rule that says so; "" where it is the rule itself.
        lately: median of the newest values of what is compared with the baseline, where it is logged.
        also: the other parts of the rule that stand as well.
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
    also: tuple[Beside, ...] = ()

    @property
    def said_by(self) -> str:
        """Id of the part that says so, else of the rule: whose words and thresholds these are."""
        return self.part or self.rule

    @property
    def rule_words(self) -> str:
        """The rule, and which part of it: `M1, part M3`."""
        return f"{self.rule}, part {self.part}" if self.part else self.rule

    def is_of(self, rules: Collection[str]) -> bool:
        return _is_among(self.rule, self.part, rules)

    @property
    def quoted_baseline(self) -> Evidence | None:
        """What it calls the baseline of its metric, or the level before; None where it compares with something else."""
        same = (one for one in self.evidence if one.value == self.baseline and not one.name.startswith("best"))
        return next((one for one in same if one.steps or one.name == "baseline"), None)

    @property
    def is_active(self) -> bool:
        return self.state in (VerdictState.FIRING, VerdictState.SETTLED)

    @property
    def worst_level(self) -> Level:
        return max(self.level, self.worst)

    @property
    def urgency(self) -> tuple[bool, int, int, bool]:
        """Sorts verdicts: what stands, then what is over; each worst first, and of equals first what still moves.

        Of CRIT comes first what poisons the weights, then a collapse.

        After an update that is not a number every other reading of the run is a consequence of it; a collapse
        says in one what others say each for itself.
        """
        rank = _CRIT_ORDER.get(self.family, len(_CRIT_ORDER)) if self.level is Level.CRIT else 0
        return not self.is_active, -self.level, rank, self.state is VerdictState.SETTLED


class EventState(enum.StrEnum):
    """A transition of a rule, or a fact about the run; only the first two are alarms.

    `eased`: the level has fallen. `resumed`: back at a level that this verdict had
    before. `settled`: the metric stays at another level. `recovered`: it came back.
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

    `stream` names the stream of the run whose records and steps it counts in; "" is the main one. `since_step` is where
    what the rule speaks of began, which is before the record that established it; None for a fact. `metric` and `key`
    are what the message speaks of, by its canonical name and by the trainer's key, where it is one. `is_provisional`:
    of the newest row, which may still change. `incident` is the number of the incident that an alarm belongs to; 0 for
    everything else. `part` is the id of the part of the rule that says so; "" where it is the rule itself. `baseline`
    is what the alert then quoted as that of its metric, if anything.
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

    @property
    def said_by(self) -> str:
        return self.part or self.rule

    def is_of(self, rules: Collection[str]) -> bool:
        return _is_among(self.rule, self.part, rules)

    @property
    def is_alarm(self) -> bool:
        """A WARN or CRIT is raised, or got worse than it ever was."""
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

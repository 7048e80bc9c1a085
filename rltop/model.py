"""The words of the house: frozen values that every layer shares.

Owns the vocabulary; knows nothing of files, trainers or screens.
"""

from __future__ import annotations

import enum
import unicodedata
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rltop.structs import NamedTuple, Struct, field

GAP = float("nan")
"""A cell in which nothing was logged. Whether a value was *not finite* is a `Mark`, never a NaN in a column."""


class Level(enum.IntEnum):
    """How much attention something needs."""

    NO_DATA = 0
    OK = 1
    INFO = 2
    WARN = 3
    CRIT = 4

    @property
    def word(self) -> str:
        """The level as written in JSON and on the screen."""
        return self.name.lower().replace("_", " ")


class NonFinite(enum.IntEnum):
    """What stood where a number was expected."""

    NAN = 1
    POS_INF = 2
    NEG_INF = 3
    NULL = 4

    @property
    def word(self) -> str:
        """The kind as a person writes it."""
        return ("NaN", "+Inf", "-Inf", "null")[self - 1]


class Direction(enum.StrEnum):
    """Which way of a metric is good."""

    UP = "up"
    DOWN = "down"
    TARGET = "target"
    NONE = "none"


class Unit(enum.StrEnum):
    """How a value is written."""

    NONE = ""
    SECONDS = "s"
    MILLISECONDS = "ms"
    TOKENS = "tokens"
    TOKENS_PER_S = "tok/s"
    FRACTION = "fraction"
    PERCENT = "%"
    NATS = "nats"
    GIGABYTES = "GB"
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
    UNKNOWN = "unknown"

    @property
    def display_name(self) -> str:
        """The name as the field writes it."""
        return {
            "reward": "reward model",
            "distill": "distillation",
            "embodied": "embodied",
            "unknown": "unknown algorithm",
        }.get(self.value, self.value.upper())


_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


class Label(NamedTuple):
    """Text from outside, made harmless once.

    `raw` is what the trainer wrote; `display` has every control, format and
    bidirectional character replaced by its escape, so that it cannot move the
    cursor, change colours or reorder the line.
    """

    raw: str
    display: str

    @classmethod
    def of(cls, text: str) -> Label:
        """Escape `text`; printable text is kept as it is."""
        if text.isascii() and text.isprintable():
            return cls(text, text)
        shown = "".join(
            ch.encode("unicode_escape", "backslashreplace").decode("ascii")
            if unicodedata.category(ch) in _UNSAFE_CATEGORIES
            else ch
            for ch in text
        )
        return cls(text, shown)

    def __str__(self) -> str:
        return self.display


class Shape:
    """The keys of a row, in the order written; one object per distinct order.

    Compared by identity: a decoder hands out the same object for the same keys,
    so that whoever maps keys to columns does it once per shape, not per row.
    """

    __slots__ = ("index", "keys")

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys: tuple[str, ...] = tuple(keys)
        self.index: dict[str, int] = {key: i for i, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)


class Place(NamedTuple):
    """Where a row stands: which life of the file, and at which byte."""

    generation: int
    offset: int


class CellMark(NamedTuple):
    """Cell `cell` of a record held `kind` instead of a finite number."""

    cell: int
    kind: NonFinite


class Record(NamedTuple):
    """One decoded row.

    Attributes:
        step: the trainer's own step.
        time_s: seconds since the epoch, or None where the row does not say.
        shape: the keys; step and time keys are not among them.
        values: one float per key of `shape`; `GAP` where there was no number.
        marks: cells that held NaN, ±Inf or null.
        place: where the row stood.
        total_steps: how many steps the run wants to make, where the row says so.
    """

    step: int
    time_s: float | None
    shape: Shape
    values: array[float]
    marks: tuple[CellMark, ...]
    place: Place
    total_steps: int | None = None


class Metric(NamedTuple):
    """What a quantity is, whoever logs it and under whatever key.

    Attributes:
        name: canonical name, stable; used in rules, config and JSON.
        title: as shown in a table, at most 18 characters.
        section: where it belongs (reward, policy, length, timing, …).
        unit: how it is written.
        direction: which way is good.
        help: what it means, in two sentences.
        low, high: bounds that hold by definition, or None.
        family: the names of its relatives, offered as "related metrics".
    """

    name: str
    title: str
    section: str
    unit: Unit
    direction: Direction
    help: str
    low: float | None = None
    high: float | None = None
    related: tuple[str, ...] = ()


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
        has_critic: a value function is trained.
        is_group_relative: advantages come from the other answers to the prompt.
        has_reference: KL to a reference policy is part of the objective.
        is_single_update: one optimiser update per rollout: ratio is 1, clip is 0.
        is_preference: DPO, KTO or reward model: no rollouts.
        is_async: generation and training overlap.
        kl_is_sequence_sum: the reference KL is summed over the sequence.
        kl_is_signed: the step KL is the k1 estimator, which may be negative.
    """

    has_critic: bool = False
    is_group_relative: bool = False
    has_reference: bool = False
    is_single_update: bool | None = None
    is_preference: bool = False
    is_async: bool = False
    kl_is_sequence_sum: bool = False
    kl_is_signed: bool = False


class SpanKind(enum.StrEnum):
    """How a span relates to its siblings."""

    SEQUENTIAL = "sequential"
    OVERLAPPING = "overlapping"
    OTHER = "other"


class Span(NamedTuple):
    """A stretch of a step's time.

    Attributes:
        name: the stage, as the trainer names it.
        key: the trainer's key; empty for "other".
        start_s, duration_s: seconds from the start of the step.
        lane: 0 for the sequential lane; overlapping spans have their own.
        is_start_logged: False where the position is assumed from the order.
        ms_per_token: where the trainer logs it.
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
        step: the trainer's step.
        role: what kind of worker it is: trainer, inference, rollout, …
        rank: its number among those of its role.
        name: the stage; what is inside another one is written `outer/inner`.
        start_s, end_s: seconds since the epoch.
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


class Observation(NamedTuple):
    """One closed step, in canonical terms: what a rule sees.

    Attributes:
        record: number of this row in the run, from 1.
        step: the trainer's step.
        segment: number of the segment, from 0; a new one means a restart.
        time_s: seconds since the epoch, or None.
        values: canonical name → value; a metric that was not logged on this step is absent.
        instances: canonical name → instance → value, for metrics with several keys.
        nonfinite: canonical name or raw key → kind, for cells that held no finite number.
        stages: stage name → seconds, top-level stages of the step.
        is_late: the row belongs to an earlier step (an evaluation that took its time).
        ranks: rank → stage → seconds, where each rank says what it did.
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
    ranks: Mapping[str, Mapping[str, float]] = MappingProxyType({})


class VerdictState(enum.StrEnum):
    """Where a rule stands."""

    PENDING = "pending"
    FIRING = "firing"
    RECOVERED = "recovered"


class Evidence(NamedTuple):
    """One number that a verdict rests on."""

    name: str
    value: float
    unit: Unit = Unit.NONE


POISON_FAMILY = "nonfinite"
"""The family of what is not a number."""
_CRIT_ORDER = {POISON_FAMILY: 0, "collapse": 1}


class Verdict(NamedTuple):
    """What a rule has to say about a run now.

    Attributes:
        rule: id as in docs/rules.md, for example O1.
        title: the name of the symptom in two or three words, for a badge.
        family: what kind of symptom (gradient, entropy, straggler, …).
        group: "learning" or "system".
        level: how bad.
        state: firing or recovered.
        metric: canonical name that it speaks of, or "".
        key: the trainer's key of that metric, or "".
        since_step, since_record: where it began.
        headline: one sentence with the numbers.
        evidence: the numbers by name.
        why: why it matters.
        causes: likely causes, likeliest first.
        next: canonical names of what to look at next, in order.
        threshold: the line that was crossed, in the metric's unit, if there is one.
        baseline: what it is compared with, in the metric's unit, if anything.
        recovered_step: where it ended, or None.
        stream: the stream of the run whose steps it counts in; "" for the main one.
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
    why: str = ""
    causes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    threshold: float | None = None
    baseline: float | None = None
    recovered_step: int | None = None
    is_provisional: bool = False
    stream: str = ""

    @property
    def urgency(self) -> tuple[bool, int, int]:
        """Sorts verdicts: what fires first, then the worst; of CRIT what poisons the weights first, then a collapse.

        After an update that is not a number every other reading of the run is a consequence of it; a collapse
        says in one what others say each for itself.
        """
        rank = _CRIT_ORDER.get(self.family, len(_CRIT_ORDER)) if self.level is Level.CRIT else 0
        return self.state is not VerdictState.FIRING, -self.level, rank


class EventState(enum.StrEnum):
    """A transition of a rule, or a fact about the run."""

    FIRING = "firing"
    ESCALATED = "escalated"
    RECOVERED = "recovered"
    FACT = "fact"


class Event(NamedTuple):
    """One transition of one rule, in the order of the file.

    `stream` names the stream of the run whose records and steps it counts in; "" is
    the main one. `since_step` is where what the rule speaks of began, which is
    before the record that established it; None for a fact. `metric` and `key` are what
    the message speaks of, by its canonical name and by the trainer's key, where it is one.
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


class RunState(enum.StrEnum):
    """The state word in the header."""

    WAITING = "waiting"
    LOADING = "loading"
    LIVE = "live"
    QUIET = "quiet"
    STALLED = "stalled"
    ENDED = "ended"
    FINISHED = "finished"
    DIED = "died"
    PAUSED = "paused"
    LOST = "lost"


RECENT_LINES = 100
"""So many of the newest lines are looked at for those that cannot be read."""


class Counts(Struct, frozen=False):
    """Everything that was read, and everything that was not understood.

    Nothing is dropped without a count here. `numbered_rows` have no step that could be
    used and were given their number in the file; `unusable_steps` are numbers too large
    for a step; `recent_bad` are the numbers of the newest bad lines of which nothing could be used.
    """

    lines: int = 0
    rows: int = 0
    bad_lines: int = 0
    oversize_lines: int = 0
    no_step_lines: int = 0
    unusable_steps: int = 0
    numbered_rows: int = 0
    nul_bytes: int = 0
    late_rows: int = 0
    repeated_rows: int = 0
    text_values: int = 0
    nested_values: int = 0
    null_values: int = 0
    nonfinite_values: int = 0
    keys_over_cap: int = 0
    first_bad_line: int | None = None
    first_bad_reason: str = ""
    recent_bad: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_LINES))
    examples: dict[str, str] = field(default_factory=dict)

    def refuse(self, line: int, reason: str, *, is_lost: bool = True) -> None:
        """Count a line that cannot be read, or not to its end.

        Args:
            line: its number in the file, from 1.
            reason: what is wrong with it.
            is_lost: nothing of it could be used.
        """
        self.bad_lines += 1
        if is_lost:
            self.recent_bad.append(line)
        # What finds lines may run ahead of what reads them: the first that is counted need not come first.
        if self.first_bad_line is None or line < self.first_bad_line:
            self.first_bad_line, self.first_bad_reason = line, reason

    def add(self, other: Counts) -> None:
        """Add every number of `other` to this one."""
        for name in self.names():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if self.first_bad_line is None:
            self.first_bad_line, self.first_bad_reason = other.first_bad_line, other.first_bad_reason
        self.recent_bad.extend(other.recent_bad)

    @staticmethod
    def names() -> Iterable[str]:
        """The names of all counters."""
        return (
            "lines", "rows", "bad_lines", "oversize_lines", "no_step_lines", "unusable_steps", "numbered_rows",
            "nul_bytes", "late_rows", "repeated_rows", "text_values", "nested_values", "null_values",
            "nonfinite_values", "keys_over_cap",
        )  # fmt: skip

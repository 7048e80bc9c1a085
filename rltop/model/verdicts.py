"""What is wrong, since when, and what state a run is in."""

from __future__ import annotations

import enum
from collections.abc import Collection

from rltop.model.meaning import Unit
from rltop.structs import NamedTuple


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
    """Where a rule stands.

    A settled one has stayed at another level: nothing came back, and nothing moves.
    """

    FIRING = "firing"
    SETTLED = "settled"
    RECOVERED = "recovered"


class Evidence(NamedTuple):
    """One number that a verdict rests on."""

    name: str
    value: float
    unit: Unit = Unit.NONE


class Beside(NamedTuple):
    """Another part of the same rule that stands as well; `id` is its own."""

    id: str
    title: str
    since_step: int

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
    """What to do about an alarm."""

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
    def quoted_baseline(self) -> float | None:
        """What it calls the baseline of its metric; None where it compares with something else."""
        return self.baseline if any(one.name == "baseline" for one in self.evidence) else None

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

    `stream` names the stream of the run whose records and steps it counts in; "" is
    the main one. `since_step` is where what the rule speaks of began, which is
    before the record that established it; None for a fact. `metric` and `key` are what
    the message speaks of, by its canonical name and by the trainer's key, where it is one.
    `is_provisional`: of the newest row, which may still change. `incident` is the number
    of the incident that an alarm belongs to; 0 for everything else. `part` is the id of the
    part of the rule that says so; "" where it is the rule itself.
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
    """The state word in the header."""

    WAITING = "waiting"
    LOADING = "loading"
    LIVE = "live"
    QUIET = "quiet"
    STALLED = "stalled"
    ENDED = "ended"
    FINISHED = "finished"
    DIED = "died"
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    LOST = "lost"

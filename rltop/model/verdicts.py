"""What is wrong, since when, and what state a run is in."""

from __future__ import annotations

import enum
from typing import NamedTuple

from rltop.model.meaning import Unit


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
    `is_provisional`: of the newest row, which may still change.
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

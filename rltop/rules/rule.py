"""The rule framework: from "this record looks bad" to a verdict that holds.

Owns what a rule is (`RuleSpec`: data), what looks at records (`Judge`: state)
and the life of a verdict (`Rule`: pending, firing, escalated, recovered). Knows
no metric by name and no clock: everything is counted in records.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

from rltop.model import Algorithm, Evidence, Level, Traits
from rltop.rules.context import Moment
from rltop.structs import NamedTuple, Struct, field

OK = Level.OK
INFO = Level.INFO
WARN = Level.WARN
CRIT = Level.CRIT
MIN_CALM_RECORDS = 3
"""A verdict needs at least this many good records in a row to clear."""
RELEASE = 0.8
"""A verdict on a value above a line holds until the value is below this part of the line."""


class Group(enum.StrEnum):
    """Which of the two rows of badges a rule belongs to."""

    LEARNING = "learning"
    SYSTEM = "system"


class Patience(NamedTuple):
    """How long something must last: in `n` of the last `m` records that say anything about it."""

    n: int
    m: int

    def __str__(self) -> str:
        return "at once" if self.n == 1 == self.m else f"{self.n} of {self.m} records"


AT_ONCE = Patience(1, 1)


class Reading(NamedTuple):
    """What a judge saw in one record.

    Attributes:
        level: how bad this record is on its own; OK is not bad.
        value: the number it rests on.
        baseline: what it was compared with, or None.
        threshold: the line that was crossed, in the unit of `value`, or None.
        extra: further numbers, in an order that the judge knows.
        words: further text, in an order that the judge knows.
    """

    level: Level
    value: float = 0.0
    baseline: float | None = None
    threshold: float | None = None
    extra: tuple[float, ...] = ()
    words: tuple[str, ...] = ()


class About(NamedTuple):
    """What a verdict speaks of.

    Attributes:
        metric: canonical name.
        instance: which of its keys, where a run logs it under several.
    """

    metric: str
    instance: str = ""


QUIET = Reading(OK)
"""The one reading of a record with nothing wrong; compared by identity on the fast path."""


class Judge(ABC):
    """Looks at records one by one and says how bad each of them is.

    State lives in attributes that are immutable, plain containers, or have
    `clone`; thresholds come in by name and may be overridden by the user.

    Attributes:
        limits: thresholds by name.
        is_firing: the rule fires at WARN or above now; a judge may then hold on
            to a lower line (`RELEASE`), so that a value at the line does not flicker.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = limits
        self.is_firing = False

    @abstractmethod
    def read(self, now: Moment) -> Reading | None:
        """How bad this record is; None where it says nothing about the matter.

        Must return `QUIET` itself, not an equal copy, when nothing is wrong.
        """

    @abstractmethod
    def headline(self, reading: Reading) -> str:
        """One sentence with the numbers and their units."""

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """The numbers behind the sentence, by name."""
        parts = [Evidence("value", reading.value)]
        if reading.baseline is not None:
            parts.append(Evidence("baseline", reading.baseline))
        if reading.threshold is not None:
            parts.append(Evidence("threshold", reading.threshold))
        return tuple(parts)

    def about(self, reading: Reading) -> About | None:
        """What the sentence speaks of, where that need not be the first of the rule's metrics that is logged."""
        return None

    def began(self) -> tuple[int, int] | None:
        """(Record, step) at which the verdict began, where the judge dates it better than its own readings do."""
        return None

    def take_checkpoints(self, steps: Sequence[int]) -> None:  # noqa: B027 - most judges have no use for them
        """Steps of which a checkpoint is known to exist, in any order."""

    def clone(self) -> Self:
        """An independent copy of the state."""
        twin = object.__new__(type(self))
        state = twin.__dict__
        state.update(self.__dict__)
        for name, value in self.__dict__.items():
            if type(value) not in _NEVER_CHANGES:
                state[name] = _copied(value)
        return twin


_NEVER_CHANGES = frozenset({float, int, bool, str, tuple, type(None), MappingProxyType})
"""Most of a judge's state: shared by a copy without a look at it."""


def _copied(value: object) -> object:
    if isinstance(value, list | dict | set | deque):
        return value.copy()
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()


def _always(algorithm: Algorithm, traits: Traits) -> bool:
    return True


class RuleSpec(Struct):
    """A rule as data: everything about it but its state.

    Attributes:
        id: as in docs/rules.md, for example O1.
        title: the symptom in two or three words, for a badge.
        family: what kind of symptom (gradient, entropy, straggler, …).
        group: learning or system.
        metrics: canonical names it looks at; the first is what a verdict speaks of.
        measures: what is compared with the thresholds, where it is not the first metric itself.
        judge: makes the state that reads records, from the thresholds; None
            where something else decides (silence needs a clock, restarts a file).
        condition: what fires, in words, with the names of the thresholds.
        limits: thresholds by name, overridable as `[rules.<id>] <name> = <number>`.
        patience: how long each level must last.
        calm: good records in a row that end a verdict, where more than the patience's m.
        warm_up: records before the rule can fire (0: from the first record).
        applies: whether it makes sense for an algorithm with these traits.
        is_fact: INFO readings are facts about the run, not a state that lasts.
        judges_always: looks at every record, not only at those of runs that log one of `metrics`.
        needs_ranks: says something only of runs whose ranks each say what they did.
        takes_late: also judges rows that belong to an earlier step (evaluations).
        follows_phase: compares with what a new phase of the run makes meaningless, and begins anew with it.
        why: why it matters.
        causes: likely causes, likeliest first.
        next: canonical names of what to look at next, in order.
        sources: where formula and thresholds come from.
    """

    id: str
    title: str
    family: str
    group: Group
    metrics: tuple[str, ...]
    judge: Callable[[Mapping[str, float]], Judge] | None
    condition: str
    measures: str = ""
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    patience: Mapping[Level, Patience] = field(default_factory=lambda: MappingProxyType({}))
    calm: int = MIN_CALM_RECORDS
    warm_up: int = 0
    applies: Callable[[Algorithm, Traits], bool] = _always
    is_fact: bool = False
    judges_always: bool = False
    needs_ranks: bool = False
    takes_late: bool = False
    follows_phase: bool = False
    why: str = ""
    causes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    sources: str = ""

    def patience_for(self, level: Level) -> Patience:
        """How long `level` must last: as named, else as the next worse level that is named, else at once."""
        return next(
            (self.patience[worse] for worse in (INFO, WARN, CRIT) if worse >= level and worse in self.patience), AT_ONCE
        )

"""Reception: what comes in before, and beside, records: lines that cannot be read, and no line at all.

Judged from counts and from a waiting time that are handed in: neither lines nor
clocks are known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.health.rule import Group, RuleSpec
from rltop.model import Evidence, Level, Unit, Verdict, VerdictState
from rltop.units import duration, percent

UNREADABLE = "L7"
FIRST_RECORD = "L5"
_LINES = 100
_FEWEST = 20
_STRIDE = 10


class Reception:
    """How many of the newest lines could not be read."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque([(0, 0)])
        self._since: tuple[int, int] | None = None

    def observe(self, lines: int, unreadable: int) -> None:
        """Take the counts of the whole file in; what is read at one go counts as one."""
        marks = self._marks
        if lines < marks[-1][0]:
            marks.clear()
            marks.append((0, 0))
        if lines - marks[-1][0] >= _STRIDE:
            marks.append((lines, unreadable))
        while len(marks) > 1 and lines - marks[1][0] >= _LINES:
            marks.popleft()

    def unreadable(self, lines: int, unreadable: int, record: int, step: int) -> Verdict | None:
        """WARN while more than `warn` of the newest lines (at least 100, or all there are) are not readable."""
        self.observe(lines, unreadable)
        before, bad_before = self._marks[0]
        read, bad = lines - before, unreadable - bad_before
        line = L7.limits["warn"]
        if read < _FEWEST or bad <= line * read:
            self._since = None
            return None
        self._since = self._since or (record, step)
        text = f"{bad:,} of the last {read:,} lines ({percent(bad / read)}) cannot be read"
        evidence = (Evidence("unreadable lines", float(bad)), Evidence("lines", float(read)))
        return _verdict(L7, Level.WARN, text, evidence, *self._since)


def first_record_late(waited_s: float) -> Verdict | None:
    """INFO once a file has been without a record for `first_s` seconds."""
    if waited_s <= L5.limits["first_s"]:
        return None
    text = f"no record yet, {duration(waited_s)} after the file began: a first validation, or compilation?"
    return _verdict(L5, Level.INFO, text, (Evidence("waited", waited_s, Unit.SECONDS),), 0, 0)


def _verdict(
    spec: RuleSpec, level: Level, text: str, evidence: tuple[Evidence, ...], record: int, step: int
) -> Verdict:
    return Verdict(
        rule=spec.id,
        title=spec.title,
        family=spec.family,
        group=spec.group.value,
        level=level,
        state=VerdictState.FIRING,
        metric="",
        key="",
        since_step=step,
        since_record=record,
        headline=text,
        evidence=evidence,
        why=spec.why,
        causes=spec.causes,
        next=spec.next,
        threshold=None,
        baseline=None,
    )


_FIRST: Mapping[str, float] = {"first_s": 1800.0}
_BAD: Mapping[str, float] = {"warn": 0.05}

L5 = RuleSpec(
    id=FIRST_RECORD,
    title="no record yet",
    family="liveness",
    group=Group.SYSTEM,
    metrics=(),
    judge=None,
    condition="Live only. No record `first_s` seconds after the file was last written to: INFO.",
    limits=_FIRST,
    why="Nothing can be judged before the first record, and a run that never comes to it looks the same.",
    causes=("a first validation before training", "compilation", "loading of weights", "a hang at the start"),
    next=("time_step",),
    sources="judgement; veRL validates before its first step by default.",
)
L7 = RuleSpec(
    id=UNREADABLE,
    title="unreadable lines",
    family="liveness",
    group=Group.SYSTEM,
    metrics=(),
    judge=None,
    condition=f"More than `warn` of the last {_LINES} lines (of all lines, where a file is read at one go) cannot be "
    f"read, of {_FEWEST} at least: WARN.",
    limits=_BAD,
    why="What stands in those lines is missing from every chart and every verdict.",
    causes=("two writers in one file", "a disk that filled up", "a format that is not the one it looks like"),
    next=("time_step",),
    sources="judgement.",
)

RULES = (L5, L7)

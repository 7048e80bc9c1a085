"""Attention: which rules are asked about a record, and which of them rest.

Owns the screen that every record passes: per metric one comparison with the
narrowest bounds that any resting judge has named. Only whose bounds do not hold,
or whose time is over, is asked. What a judge rests on is its own business.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from rltop.model import Observation
from rltop.rules.alert_state import Rule
from rltop.rules.context import Moment
from rltop.rules.rest import FOREVER, HELD_RECORDS, Bound, Rest

_SHORT = 3
_WAIT = 16
"""Who has been woken after so few records rests again only after so many: it costs more than being asked."""


class Screen:
    """The bounds of resting rules, by metric.

    Most values leave everybody alone: an edge holds the narrowest bounds of a
    metric, or narrower ones of a rule that has gone since.
    """

    __slots__ = ("_awaited", "_bounds", "_edges", "_needed", "_places")

    def __init__(self) -> None:
        self._bounds: dict[str, dict[int, Bound]] = {}
        self._places: dict[str, int] = {}
        self._edges: list[tuple[str, float, float]] = []
        self._awaited: dict[str, set[int]] = {}
        self._needed: dict[str, set[int]] = {}

    def close(self, rule: int, bound: Bound) -> None:
        """From here on a value that is not within the bounds is seen."""
        metric, low, high, is_needed = bound
        if is_needed:
            self._needed.setdefault(metric, set()).add(rule)
        if low > high:
            self._awaited.setdefault(metric, set()).add(rule)
            return
        place = self._places.get(metric)
        if place is None:
            self._places[metric] = len(self._edges)
            self._edges.append((metric, low, high))
            self._bounds[metric] = {rule: bound}
            return
        self._bounds[metric][rule] = bound
        _, lowest, highest = self._edges[place]
        if low > lowest:
            self._edges[place] = (metric, low, min(high, highest))
        elif high < highest:
            self._edges[place] = (metric, lowest, high)

    def open(self, rule: int, bound: Bound) -> None:
        """Nothing is seen for this rule here."""
        metric, low, high, is_needed = bound
        if is_needed:
            _leave(self._needed, metric, rule)
        if low > high:
            _leave(self._awaited, metric, rule)
        else:
            self._bounds[metric].pop(rule, None)

    def broken(self, values: Mapping[str, float]) -> list[int]:
        """Rules whose bounds do not hold, some of them more than once."""
        found: list[int] = []
        get = values.get
        for metric, low, high in self._edges:
            # What is missing is within all bounds.
            value = get(metric, low)
            if value < low or value > high:
                found += self._beyond(metric, value)
        there = values.keys()
        if not there.isdisjoint(self._awaited.keys()):
            found += [rule for metric, waiting in self._awaited.items() if metric in values for rule in waiting]
        if not self._needed.keys() <= there:
            found += [rule for metric, needy in self._needed.items() if metric not in values for rule in needy]
        return found

    def _beyond(self, metric: str, value: float) -> list[int]:
        """Whose bounds of a metric do not hold; makes its edge anew."""
        bounds = self._bounds[metric]
        lowest = max([bound[1] for bound in bounds.values()], default=-inf)
        highest = min([bound[2] for bound in bounds.values()], default=inf)
        self._edges[self._places[metric]] = (metric, lowest, highest)
        return [rule for rule, (_, low, high, _) in bounds.items() if value < low or value > high]

    def clone(self) -> Screen:
        """An independent copy."""
        twin = Screen()
        twin._bounds = {metric: bounds.copy() for metric, bounds in self._bounds.items()}
        twin._places, twin._edges = self._places.copy(), self._edges.copy()
        twin._awaited = {metric: waiting.copy() for metric, waiting in self._awaited.items()}
        twin._needed = {metric: needy.copy() for metric, needy in self._needed.items()}
        return twin


def _leave(waiting: dict[str, set[int]], metric: str, rule: int) -> None:
    waiting[metric].discard(rule)
    if not waiting[metric]:
        del waiting[metric]


class Attention:
    """Who is awake among the rules of a segment; rules go by their number in `rules`.

    A rule that is asked out of turn stays at rest if it says so again: only what
    has changed of its bounds is written down then.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._awake = list(range(len(rules)))
        self._rests: list[Rest | None] = [None] * len(rules)
        self._since = [0] * len(rules)
        self._not_before = [0] * len(rules)
        self._due: dict[int, list[int]] = {}
        self._out_of_turn: Sequence[int] = ()
        self._screen = Screen()
        self._held: deque[Observation] = deque(maxlen=HELD_RECORDS)

    def asked(self, now: Moment) -> list[int]:
        """Who is asked about this record, in order; they have caught up with those before it."""
        record = now.record
        if self._out_of_turn:
            self._settle(record - 1)
        woken = self._screen.broken(now.screened)
        due = self._due.pop(record, None)
        if due is not None:
            rests, since = self._rests, self._since
            for rule in due:
                rest = rests[rule]
                # Who was asked before his time rests anew by now, or not at all, and is not meant.
                if rest is not None and since[rule] + rest.records + 1 == record:
                    woken.append(rule)
        if woken:
            if len(woken) > 1:
                woken = [*{*woken}]
            self._out_of_turn = woken
            self._catch_up(woken, record)
            self._held.append(now.observation)
            return sorted([*self._awake, *woken])
        self._held.append(now.observation)
        return self._awake.copy()

    def _catch_up(self, rules: Iterable[int], record: int) -> None:
        """Have these take in what is held of the records since they went to rest; `record` is the next one."""
        held: list[Observation] | None = None
        for rule in rules:
            missed = record - 1 - self._since[rule]
            rest = self._rests[rule]
            if missed < _SHORT and rest is not None and rest[1] > _SHORT:
                self._not_before[rule] = record + _WAIT
            if missed and self._rules[rule].catches_up:
                if held is None:
                    held = [*self._held]
                self._rules[rule].judge.catch_up(held[-missed:])

    def _settle(self, record: int) -> None:
        """Who was asked out of turn about `record` and has not gone to rest again is awake."""
        for rule in self._out_of_turn:
            if self._since[rule] != record:
                self.forget(rule)
        self._out_of_turn = ()

    def wake(self, rules: Iterable[int], now: Moment) -> None:
        """Have these catch up with all records up to the newest, and ask them again from here on."""
        self._settle(now.record)
        resting = [rule for rule in rules if self._rests[rule] is not None]
        self._catch_up(resting, now.record + 1)
        for rule in resting:
            self.forget(rule)

    def wake_all(self, now: Moment) -> None:
        """The same for every rule."""
        self.wake(range(len(self._rules)), now)

    def forget(self, rule: int) -> None:
        """Ask this one again; what it has missed does not matter any more."""
        rest = self._rests[rule]
        if rest is None:
            return
        self._rests[rule] = None
        insort(self._awake, rule)
        for bound in rest.bounds:
            self._screen.open(rule, bound)

    def lay(self, rule: int, rest: Rest, record: int) -> None:
        """Let this one rest from the record after this one on, unless its rests have proved too short."""
        if record < self._not_before[rule]:
            return
        before, bounds, length = self._rests[rule], rest[0], rest[1]
        if rest is not before:
            if before is None:
                del self._awake[bisect_left(self._awake, rule)]
            else:
                for bound in before[0]:
                    self._screen.open(rule, bound)
            self._rests[rule] = rest
            for bound in bounds:
                self._screen.close(rule, bound)
        self._since[rule] = record
        if length < FOREVER:
            due = record + length + 1
            if due in self._due:
                self._due[due].append(rule)
            else:
                self._due[due] = [rule]

    def clone(self, rules: Sequence[Rule]) -> Attention:
        """An independent copy, over copies of the rules."""
        twin = Attention.__new__(Attention)
        twin._rules = rules
        twin._awake, twin._rests, twin._since = self._awake.copy(), self._rests.copy(), self._since.copy()
        twin._not_before = self._not_before.copy()
        twin._due = {record: due.copy() for record, due in self._due.items()}
        twin._out_of_turn = self._out_of_turn
        twin._screen = self._screen.clone()
        twin._held = self._held.copy()
        return twin

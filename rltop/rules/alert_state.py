"""A rule over one run: what its judge says becomes a verdict that begins, worsens and recovers.

Owns persistence, warm-up and hysteresis; what is judged is the judge's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Event, EventState, Level, Verdict, VerdictState
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, OK, QUIET, WARN, Reading, RuleSpec
from rltop.stats.persistence import OfLast

SHOWN_RECORDS = 20
"""For how many records a recovered verdict stays in view."""
COOLDOWN_RECORDS = 20
"""For how many records after recovery the same rule stays silent at the same level."""


class Rule:
    """One rule at work on one segment: a judge and the life of its verdict.

    Level L is established while at least n of the last m readings were L or
    worse. A verdict begins when a level above OK is first established, is
    escalated when a worse one is, keeps its worst level, and ends after
    max(3, m) better readings in a row. It then stays in view for 20 records,
    and does not begin again at the same level within 20 records.

    Attributes:
        spec, judge: what it is and what looks.
        read: the judge's `read`, at hand for the path that every record takes.
        is_firing: the verdict stands now.
        is_idle: nothing bad is remembered, so that a QUIET reading changes nothing.
        level: OK, or the worst level of the verdict, also after it recovered.
        reading: the record that the verdict rests on.
        since_step, since_record: where it began.
        recovered_step, recovered_record: where it ended; the step is None while it fires.
    """

    __slots__ = (
        "_alike", "_calm", "_cool", "_crit", "_info", "_needed", "_recent", "_warn", "is_firing",
        "is_idle", "judge", "level", "read", "reading", "recovered_record", "recovered_step", "since_record",
        "since_step", "spec",
    )  # fmt: skip

    def __init__(self, spec: RuleSpec, limits: Mapping[str, float]) -> None:
        if spec.judge is None:
            raise ValueError(f"rule {spec.id} does not judge records")
        self.spec = spec
        self.judge = spec.judge(limits)
        self.read = self.judge.read
        self._info, self._warn, self._crit = (OfLast(*spec.patience_for(level)) for level in (INFO, WARN, CRIT))
        self._needed = {
            level: max(spec.calm, lasting.m)
            for level, lasting in ((INFO, self._info), (WARN, self._warn), (CRIT, self._crit))
        }
        self._recent: deque[tuple[int, int]] = deque(maxlen=max(self._needed.values()))
        self._calm = self._alike = 0
        self.is_firing = False
        self.is_idle = True
        self._cool: dict[Level, int] = {}
        self.level = OK
        self.reading = QUIET
        self.since_step = self.since_record = 0
        self.recovered_step: int | None = None
        self.recovered_record = 0

    def observe(self, now: Moment) -> Event | None:
        """Judge one record; returns the transition that it caused, if any."""
        reading = self.read(now)
        if reading is None or (reading is QUIET and self.is_idle):
            return None
        return self.advance(now, reading)

    def advance(self, now: Moment, reading: Reading) -> Event | None:
        """Move the verdict on by one reading of `read`; may be left out for QUIET while `is_idle`."""
        level, seen = reading.level, now.observation
        self._recent.append((seen.record, seen.step))
        if self.is_firing and level is self.level and not self._cool:
            # As bad as it is already: nothing begins and nothing ends. What the record says to the levels waits.
            self._alike += 1
            self._calm = 0
            self.reading = reading
            return None
        if self._alike:
            self._catch_up()
        # Every level is pushed, whichever of them is established: a record counts for all of them.
        has_info, has_warn, has_crit = (
            self._info.push(level >= INFO),
            self._warn.push(level >= WARN),
            self._crit.push(level >= CRIT),
        )
        established = CRIT if has_crit else WARN if has_warn else INFO if has_info else OK
        self.is_idle = not (self.is_firing or self._info.bits or self._warn.bits or self._crit.bits)
        if self.spec.is_fact and level == INFO:
            return self._event(now, EventState.FACT, INFO, self.judge.headline(reading))
        if self.is_firing:
            return self._while_firing(now, reading, established)
        return self._begin(now, reading, established)

    def _catch_up(self) -> None:
        """Push what was left out while one reading was as bad as the other."""
        alike, self._alike = self._alike, 0
        for level, lasting in ((INFO, self._info), (WARN, self._warn), (CRIT, self._crit)):
            lasting.push_many(self.level >= level, alike)

    def _begin(self, now: Moment, reading: Reading, established: Level) -> Event | None:
        if reading.level == OK or (self.spec.is_fact and established == INFO):
            return None
        record = now.observation.record
        while established > OK and self._cool.get(established, 0) > record:
            established = Level(established - 1)
        if established <= OK:
            return None
        self._mark_beginning(established)
        self.level, self.reading, self.recovered_step = established, reading, None
        self._calm = 0
        self.is_firing = True
        self.judge.is_firing = established >= WARN
        return self._event(now, EventState.FIRING, established, self.judge.headline(reading))

    def _while_firing(self, now: Moment, reading: Reading, established: Level) -> Event | None:
        level = self.level
        if reading.level >= level or reading.level >= WARN:
            self._calm = 0
        else:
            self._calm += 1
        if established > level and self._cool.get(established, 0) <= now.observation.record:
            if self.level == INFO:
                self._mark_beginning(established)
            self.level, self.reading = established, reading
            self.judge.is_firing = established >= WARN
            return self._event(now, EventState.ESCALATED, established, self.judge.headline(reading))
        if reading.level >= level:
            self.reading = reading
        if self._calm >= self._needed[level]:
            return self.recover(now)
        return None

    def _mark_beginning(self, level: Level) -> None:
        dated = self.judge.began()
        if dated is not None:
            self.since_record, self.since_step = dated
            return
        lasting = self._crit if level >= CRIT else self._warn if level >= WARN else self._info
        behind = min(lasting.oldest, len(self._recent) - 1)
        self.since_record, self.since_step = self._recent[-1 - behind]

    def recover(self, now: Moment) -> Event:
        """End the verdict at this record."""
        self._catch_up()
        self.judge.is_firing = self.is_firing = False
        self.is_idle = False
        self.recovered_step = now.observation.step
        self.recovered_record = now.observation.record
        for level in (INFO, WARN, CRIT):
            if level <= self.level:
                self._cool[level] = self.recovered_record + COOLDOWN_RECORDS
        message = f"{self.spec.title}, since step {self.since_step:,}"
        return self._event(now, EventState.RECOVERED, self.level, message)

    def _event(self, now: Moment, state: EventState, level: Level, message: str) -> Event:
        seen = now.observation
        since = None if state is EventState.FACT else self.since_step
        return Event(seen.record, seen.step, self.spec.id, self.spec.family, level, state, message, since_step=since)

    def is_shown(self, record: int) -> bool:
        """Whether there is a verdict to show after `record`."""
        if self.level <= OK:
            return False
        return self.recovered_step is None or record - self.recovered_record < SHOWN_RECORDS

    def verdict(self, metric: str, key: str) -> Verdict:
        """The verdict in words, about `metric` under the trainer's `key`; only meaningful while `is_shown`."""
        spec, reading = self.spec, self.reading
        return Verdict(
            rule=spec.id,
            title=spec.title,
            family=spec.family,
            group=spec.group.value,
            level=self.level,
            state=VerdictState.FIRING if self.recovered_step is None else VerdictState.RECOVERED,
            metric=metric,
            key=key,
            since_step=self.since_step,
            since_record=self.since_record,
            headline=self.judge.headline(reading),
            evidence=self.judge.evidence(reading),
            why=spec.why,
            causes=spec.causes,
            next=spec.next,
            threshold=None if spec.measures else reading.threshold,
            baseline=None if spec.measures else reading.baseline,
            recovered_step=self.recovered_step,
        )

    def begin_anew(self, limits: Mapping[str, float]) -> None:
        """Forget what was usual and what was pending; a verdict that fires stays until records clear it."""
        assert self.spec.judge is not None
        is_firing = self.judge.is_firing
        self.judge = self.spec.judge(limits)
        self.judge.is_firing = is_firing
        self.read = self.judge.read
        self._alike = 0
        for lasting in (self._info, self._warn, self._crit):
            lasting.clear()
        self.is_idle = not self.is_firing

    def clone(self) -> Rule:
        """An independent copy: judging a record on it leaves this one as it was."""
        twin = Rule.__new__(Rule)
        for name in Rule.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.judge = self.judge.clone()
        twin.read = twin.judge.read
        twin._recent = self._recent.copy()
        twin._cool = self._cool.copy()
        twin._info, twin._warn, twin._crit = self._info.clone(), self._warn.clone(), self._crit.clone()
        return twin

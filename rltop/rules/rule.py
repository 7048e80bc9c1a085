"""What a rule is: its specification (data) and its detector (state); its words are in `words`.

Owns `RuleSpec`, `Detector` and the `Finding` that a detector returns for a record; `alert_state` turns findings into
alerts. Knows no metric by name and no clock: everything is counted in records.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm, Event, EventState, Evidence, Level, Observation, Traits, Unit
from rltop.rules.context import RuleContext
from rltop.stats.rolling import Frozen, Window
from rltop.structs import Cloned, NamedTuple, Struct, copied, field, is_copied
from rltop.units import duration, number, percent, share

OK = Level.OK
INFO = Level.INFO
WARN = Level.WARN
CRIT = Level.CRIT
PRINTED = 4
"""Decimals that consoles print: numbers with no more of them are the same by chance."""
MIN_CLEAR_AFTER = 3
"""Fewest consecutive good records that clear a verdict."""
RELEASE = 0.8
"""Hysteresis: a verdict on a value above a threshold holds until the value is below this share of the threshold."""

WINDOW, MIN_SAMPLES = 50, 10
"""Records in a rolling baseline, and the minimum for one."""


class Group(enum.StrEnum):
    """The row of badges that a rule belongs to."""

    LEARNING = "learning"
    SYSTEM = "system"


class NOfM(NamedTuple):
    """Persistence: a condition must hold in `n` of the last `m` records that allow a judgement."""

    n: int
    m: int

    def __str__(self) -> str:
        return "immediately" if self.n == 1 == self.m else f"{self.n} of {self.m} records"


AT_ONCE = NOfM(1, 1)


class Finding(NamedTuple):
    """What a detector found in one record.

    Attributes:
        level: how bad this record is on its own.
        baseline: what the value was compared with, or None.
        threshold: the line that was crossed, in the unit of `value`, or None.
        extra: further numbers, in an order defined by the detector.
        words: further text, in an order defined by the detector.
        steps: first and last step of the records behind the baseline, where known.
    """

    level: Level
    value: float = 0.0
    baseline: float | None = None
    threshold: float | None = None
    extra: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    steps: tuple[int, int] | None = None


_PLAIN = "value"


class EvidenceNames(NamedTuple):
    """Names of the numbers of a finding in the evidence; "" leaves one out.

    Attributes:
        value, baseline, threshold: the names; numbers that a finding lacks are left out too.
        extra: names and units of its further numbers.
        cases: first word of a finding → the fields that differ for it.
    """

    value: str = _PLAIN
    baseline: str = "baseline"
    unit: Unit = Unit.NONE
    threshold: str = "threshold"
    extra: tuple[tuple[str, Unit], ...] = ()
    cases: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def on(self, metric: str) -> EvidenceNames:
        """These names, with the value named after the metric unless it has a name of its own."""
        return self._replace(value=metric) if metric and self.value == _PLAIN else self

    def case(self, finding: Finding) -> EvidenceNames:
        """These names, with what differs for the first word of the finding."""
        return self._replace(**self.cases.get(finding.words[0], {})) if finding.words else self

    def of(self, finding: Finding) -> tuple[Evidence, ...]:
        base = self.baseline, finding.baseline, finding.steps
        numbers = ((self.value, finding.value, None), base, (self.threshold, finding.threshold, None))
        found = [Evidence(name, one, self.unit, steps) for name, one, steps in numbers if name and one is not None]
        further = zip(self.extra, finding.extra, strict=False)
        return (*found, *(Evidence(name, number, unit) for (name, unit), number in further))


VALUE_AND_LINES = EvidenceNames()
"""The default names, which most rules use."""


class Subject(NamedTuple):
    """What a verdict is about: a metric (`instance`: which of several keys), or a `key` outside the catalogue."""

    metric: str
    instance: str = ""
    key: str = ""


QUIET = Finding(OK)
"""The finding of every good record; compared by identity on the fast path."""


def worst(*found: Finding | None) -> Finding | None:
    """The first finding at the worst level among several statistics of one thing; None if none is logged."""
    return max(filter(None, found), key=lambda one: one.level, default=None)


class State(Cloned):
    """State that an engine and its copies must not share.

    Initial values are declared in the class body, as with a dataclass: each instance gets its own copy of every
    container and of everything that has `clone`. State that depends on a parameter is set in `__init__`.
    """

    _declared: ClassVar[Mapping[str, object]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Skip `__annotations__`, also a dictionary: every preview of an open row would copy it ninety times.
        own = {name: value for name, value in vars(cls).items() if is_copied(value) and not name.startswith("__")}
        cls._declared = MappingProxyType({**cls._declared, **own})
        for name in own:
            delattr(cls, name)  # else Python reads the instance's more slowly, checking for a descriptor

    def __init__(self) -> None:
        for name, value in self._declared.items():
            setattr(self, name, copied(value))


def medians_of(held: object) -> Iterator[Frozen | Window]:
    """All baselines that a detector holds, however nested."""
    if isinstance(held, (Frozen, Window)):
        yield held
    held = vars(held) if isinstance(held, State) else held
    for one in held.values() if isinstance(held, dict) else held if isinstance(held, list) else ():
        yield from medians_of(one)


class _Shown(float):
    """A number in a headline: `{value}`, `{value:%}` or `:share`, duration `:s`, signed `:+`, or any Python format."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        written = _FORMS.get(form)
        return format(float(self), form) if written is None else written(float(self))


class _IfKnown:
    """The baseline in a headline, in words; empty if there is none."""

    def __init__(self, baseline: float | None, words: str) -> None:
        self.baseline, self.words = baseline, words

    def __format__(self, form: str) -> str:
        return "" if self.baseline is None else self.words.format(_FORMS[form](self.baseline))


_FORMS: Mapping[str, Callable[[float], str]] = {
    "": number,
    "%": percent,
    "share": share,
    "s": duration,
    "+": lambda value: f"{'+' if value >= 0.0 else ''}{number(value)}",
}


class Detector(State):
    """Judges records one by one: how bad is each?

    Thresholds are passed by name and may be overridden by the user.

    Attributes:
        metric: the first metric in the rule's row of `rules.txt`.
        text: the headline from that row, with {value}, {baseline}, {threshold}, {extra[0]} and {words[0]}; {gone} is
            the share of the baseline that is lost, {was} " (baseline 0.5)", {best} " (best 0.5)" and {usual}
            "baseline 0.5, ", the last three empty without a baseline.
        texts: headlines of special findings: by their first word, by their level, for those with `extra` numbers
            (`more`), and for those without a baseline (`alone`).
        holds: the level at which the rule's alert is active now, else OK; a detector may lower the threshold of that
            level (`held_part`), so that a value near the threshold does not flicker.
        is_firing: `holds` is WARN or CRIT; `hysteresis`: the factor on thresholds, below 1 while it is.
        nats: the unit of an entropy or a KL in this run, see `applicability.nats_of`; set before any text is made.
        is_about_word: the first word of a finding, if any, is the metric that it is about.
        names_onset: its message names the step of the onset, which is that of its incident.
        since: (record, step) of the onset, if the detector knows it better than the findings tell.
        begun: the first record that its baselines take in; 0 for all.
        is_known: the run has recovered from as much before, so a metric that leaves again is not reported.
        is_excused: what was found has turned out to be no fault (a new phase), so its alert ends.
    """

    metric = text = ""
    texts: Mapping[str, str] = MappingProxyType({})
    is_excused = is_known = names_onset = is_about_word = False
    begun = 0
    since: tuple[int, int] | None = None
    nats = "nats/token"

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__()
        self.thresholds = thresholds
        self.hold(OK)

    def hold(self, level: Level) -> None:
        self.is_firing, self.holds = level >= WARN, level
        self.hysteresis = RELEASE if self.is_firing else 1.0

    def held_part(self, level: Level) -> float:
        return RELEASE if OK < level <= self.holds else 1.0

    def crossed(self, value: float, lines: Iterable[tuple[Level, str]], base: float | None = None) -> Finding:
        """A finding for the first of some named thresholds that a value exceeds, with hysteresis, else QUIET."""
        for level, name in lines:
            if value > self.thresholds[name] * self.held_part(level):
                return Finding(level, value, base, self.thresholds[name])
        return QUIET

    def detect(self, context: RuleContext) -> Finding | None:
        """How bad this record is; None if it does not log what the rule looks at.

        Called for every record, in the order of the file, if the run logs any of the rule's metrics. Must return
        `QUIET` itself, not an equal copy, if nothing is wrong. Overridden by detectors that read several metrics.
        """
        value = context.values.get(self.metric)
        return None if value is None else self.look(value, context)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        """How bad a value of the metric is."""
        raise NotImplementedError

    def headline(self, finding: Finding) -> str:
        """One line with the numbers and their units."""
        kinds = finding.level.name, "more" if finding.extra else "", "alone" if finding.baseline is None else ""
        case = next((one for one in (*finding.words[:1], *kinds) if one in self.texts), "")
        text = self.texts.get(case, self.text)
        return text.format(
            value=_Shown(finding.value),
            baseline=_Shown(finding.baseline or 0.0),
            threshold=_Shown(finding.threshold or 0.0),
            gone=_Shown(1.0 - finding.value / finding.baseline if finding.baseline else 0.0),
            was=_IfKnown(finding.baseline, " (baseline {})"),
            best=_IfKnown(finding.baseline, " (best {})"),
            usual=_IfKnown(finding.baseline, "baseline {}, "),
            nats=self.nats,
            extra=[_Shown(one) for one in finding.extra],
            words=finding.words,
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        return names.case(finding).of(finding)

    def subject(self, finding: Finding) -> Subject | None:
        """What the headline is about; None for the first of the rule's metrics that is logged."""
        return Subject(finding.words[0]) if self.is_about_word and finding.words else None

    def date(self, record: int, step: int) -> None:
        """Take over the onset of the alert's incident; for detectors that name it in their message."""


class RuleSpec(Struct):
    """A rule as data: everything judging needs except state. `words` has its texts, by id.

    A rule may have parts, which judge for themselves with their own thresholds and persistence, but report as one rule.

    Attributes:
        part_of: id of the rule that this is a part of; "" for a rule.
        title: the symptom in two or three words, for a badge.
        metrics: canonical names it looks at; a verdict is about the first.
        measures: what is compared with the thresholds, if not the first metric itself.
        detector: makes the detector from the thresholds; None if something other than records decides (silence needs
            a clock, restarts a file).
        thresholds: by name, overridable as `[rules.<id>] <name> = <number>`.
        n_of_m: how long each level must last.
        clear_after: consecutive good records that end a verdict, if more than the m of `n_of_m`.
        warm_up: records before the rule can fire (0: from the first record).
        silent_under: rules and parts that make this one redundant: it is not raised while their alert is active.
        applies: whether it makes sense for an algorithm with these traits.
        is_fact: INFO findings are one-off facts about the run, not a lasting state.
        runs_always: runs even if the run logs none of `metrics`.
        reads_guesses: also reads keys that, by their names, may be one of `metrics`.
        needs_ranks: applies only to runs in which each rank logs its own durations.
        accepts_late: also judges rows that belong to an earlier step (evaluations).
        resets_on_phase: its baseline is invalid after a new phase, so it is reset then.
    """

    id: str
    title: str
    family: str
    metrics: tuple[str, ...]
    detector: Callable[[Mapping[str, float]], Detector] | None
    group: Group = Group.LEARNING
    measures: str = ""
    thresholds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    n_of_m: Mapping[Level, NOfM] = field(default_factory=lambda: MappingProxyType({}))
    clear_after: int = MIN_CLEAR_AFTER
    warm_up: int = 0
    silent_under: frozenset[str] = frozenset()
    applies: Callable[[Algorithm, Traits], bool] = lambda _algorithm, _traits: True
    is_fact: bool = False
    runs_always: bool = False
    reads_guesses: bool = False
    needs_ranks: bool = False
    accepts_late: bool = False
    resets_on_phase: bool = False
    evidence: EvidenceNames = VALUE_AND_LINES
    part_of: str = ""

    @property
    def rule(self) -> str:
        return self.part_of or self.id

    @property
    def part(self) -> str:
        return self.id if self.part_of else ""

    def event(self, seen: Observation, level: Level, state: EventState, text: str, since: int | None = None) -> Event:
        """An event of this rule on a record."""
        return Event(
            seen.record, seen.step, self.rule, self.family, level, state, text, since_step=since, part=self.part
        )

    def is_logged(self, identity: Identity) -> bool:
        """Whether a stream has one of the metrics, or (`reads_guesses`) a key that may be a metric it lacks."""
        if self.reads_guesses:
            return any(name not in identity.signals for name in identity.guesses)
        return any(name in identity.signals for name in self.metrics)

    def n_of_m_for(self, level: Level) -> NOfM:
        """The persistence of `level`: as given, else that of the next worse level given, else `AT_ONCE`."""
        return next(
            (self.n_of_m[worse] for worse in (INFO, WARN, CRIT) if worse >= level and worse in self.n_of_m), AT_ONCE
        )


class Line(Detector):
    """A number above (or below) a fixed line: `info`, `warn` and `crit`, whichever are given, worst first.

    Hysteresis: while the alert is active, its line is multiplied by 0.8 (by 1.25 for a lower limit), unless `is_held`
    is False.
    """

    is_held = True

    def __init__(self, thresholds: Mapping[str, float], *, is_below: bool = False) -> None:
        """`thresholds`: at least one of `info`, `warn`, `crit`; `is_below`: values below a line are bad, not above."""
        super().__init__(thresholds)
        self.is_below = is_below
        names = ((CRIT, "crit"), (WARN, "warn"), (INFO, "info"))
        self.lines = tuple([(level, thresholds[name]) for level, name in names if name in thresholds])
        lines = [line for _, line in self.lines]
        # No value on the good side of this can cross a line, even with hysteresis.
        self.edge = max(lines) / RELEASE if is_below else min(lines) * RELEASE

    def subject(self, finding: Finding) -> Subject:
        return Subject(self.metric)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if value >= self.edge if self.is_below else value <= self.edge:
            return QUIET
        for level, line in self.lines:
            held = self.held_part(level) if self.is_held else 1.0
            part = 1.0 + alike(line) if held == 1.0 else held
            if value < line / part if self.is_below else value > line * part:
                return Finding(level, value, None, line)
        return QUIET


@lru_cache(64)
def alike(line: float) -> float:
    """The share of a line by which a value may be beyond it and still round to the same text: 5.0 %, 0.980, 1.02."""
    return min(0.01, 0.0005 / abs(line)) if 0.0 < abs(line) < 1.0 else 0.005


START_VALUES, _MINIMUM = 8, 5
"""Values behind a start baseline, and the minimum: few, because a slow rise affects them too."""
BEFORE = "median before"
"""Label of a baseline made of the records just before."""


class Creep(Detector):
    """A metric that has grown to a multiple of its start baseline."""

    start = Frozen(skip=0, size=START_VALUES, minimum=_MINIMUM)
    line = release = math.inf

    def least(self) -> tuple[float, float]:
        """The multiple of the start baseline that is too much, and the floor below which it does not matter."""
        return self.thresholds["warn"], self.thresholds["floor"]

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if value <= (self.release if self.is_firing else self.line) and self.start.is_final:
            return QUIET
        if not self.start.is_final:
            self._learn(value)
            return QUIET
        return Finding(WARN, value, self.start.value or 0.0, self.line)

    def _learn(self, value: float) -> None:
        start, (factor, floor) = self.start, self.least()
        start.push(value)
        base = start.value
        if base is None or not start.is_final:
            return
        self.line = max(factor * base, floor, base + self.thresholds["sigmas"] * start.spread)
        self.release = self.line / math.sqrt(factor)


class Several(Detector):
    """A rule's own detector, and others for further statistics of the same thing: the worst finding counts.

    Another detector's name is the prefix of its thresholds among the rule's, and becomes the first word of its
    findings.
    """

    def __init__(self, thresholds: Mapping[str, float], main: Detector, others: Mapping[str, Detector]) -> None:
        self.main, self.others = main, dict(others)
        super().__init__(thresholds)

    def hold(self, level: Level) -> None:
        super().hold(level)
        for one in (self.main, *self.others.values()):
            one.hold(level)

    def detect(self, context: RuleContext) -> Finding | None:
        found, whose = self.main.detect(context), ""
        for name, other in self.others.items():
            one = other.detect(context)
            if found is None or (one is not None and one is not QUIET and one.level > found.level):
                found, whose = one, name
        return found._replace(words=(whose, *found.words)) if whose and found and found is not QUIET else found

    @property
    def since(self) -> tuple[int, int] | None:  # type: ignore[override] # asked for when an alert begins only
        return next(filter(None, [one.since for one in (self.main, *self.others.values())]), None)

    def _of(self, finding: Finding) -> tuple[Detector, Finding]:
        other = self.others.get(finding.words[0]) if finding.words else None
        return (self.main, finding) if other is None else (other, finding._replace(words=finding.words[1:]))

    def headline(self, finding: Finding) -> str:
        one, found = self._of(finding)
        one.nats = self.nats
        return one.headline(found)

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        one, found = self._of(finding)
        subject = None if one is self.main else one.subject(found)
        names = names if subject is None else names._replace(value=subject.metric)
        return one.evidence(found, names.case(finding))

    def subject(self, finding: Finding) -> Subject | None:
        one, found = self._of(finding)
        return one.subject(found)

"""Runs every rule that applies to a run, record by record, without a clock.

Owns the order of evaluation, restarts, the event log, incidents (alarms whose onsets are a few records apart) and what
is shown. What to look for is up to the rules; where observations come from is not known here.

Every rule whose metrics a run logs runs on every record; `bench/bench_ingest.py` measures the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rltop.catalog.dialect import Identity
from rltop.model import RESTART_RULE, Algorithm, Event, EventState, Incident, Label, Level, Observation, Part, Verdict
from rltop.rules import facts, profiles, registry
from rltop.rules.advice import advise
from rltop.rules.alert_state import TOGETHER_RECORDS, AlertState, ReportedLevels, sentence, verdict_of
from rltop.rules.context import RuleContext
from rltop.rules.levels import CLASSIC, HIGHEST, LANGUAGE, field_of
from rltop.rules.options import EngineOptions
from rltop.rules.rule import QUIET, Group, RuleSpec, State
from rltop.rules.standing import Departure
from rltop.stats.persistence import Crossing
from rltop.structs import Cloned, NamedTuple

_HELD = 8
_FIELD_TOLD = {LANGUAGE: "; a language model's run, by its keys", CLASSIC: "; a run of classic RL, by its keys"}


class _OpenIncident(NamedTuple):
    """An incident and the records it spans.

    Attributes:
        incident: names the earliest alarm so far.
        group: learning or system, never both: lost time alone neither causes learning problems nor follows from them.
        first, last: records of its earliest and latest onset.
        is_dated: it contains a collapse, whose message names the onset, so the onset is fixed.
    """

    incident: Incident
    group: Group
    first: int
    last: int
    is_dated: bool = False


class Incidents(State):
    """The incidents of a stream so far; only the newest `_HELD` can still grow."""

    _count = 0
    _open: list[_OpenIncident] = []
    known: dict[int, Incident] = {}

    def join(self, spec: RuleSpec, record: int, step: int, *, is_dated: bool) -> tuple[Incident, int]:
        """Add an alarm to the incident it belongs to, or to a new one; returns that and the record of its onset."""
        for i, one in enumerate(self._open):
            earliest = one.first - (0 if one.is_dated else TOGETHER_RECORDS)
            if one.group != spec.group or not earliest <= record <= one.last + TOGETHER_RECORDS:
                continue
            incident, first = one.incident, min(one.first, record)
            if record < one.first:
                incident = Incident(incident.number, spec.rule, step, spec.part)
            self._open[i] = _OpenIncident(incident, spec.group, first, max(one.last, record), one.is_dated or is_dated)
            self.known[incident.number] = incident
            return incident, first
        self._count += 1
        incident = Incident(self._count, spec.rule, step, spec.part)
        self._open = [*self._open[1 - _HELD :], _OpenIncident(incident, spec.group, record, record, is_dated)]
        self.known[self._count] = incident
        return incident, record

    def reach_back(self, number: int, spec: RuleSpec, record: int, step: int) -> None:
        """Move the start of an incident back to the onset of another part of a rule that is in it."""
        for i, one in enumerate(self._open):
            if one.incident.number == number and record < one.first and not one.is_dated:
                self.known[number] = incident = Incident(number, spec.rule, step, spec.part)
                self._open[i] = one._replace(incident=incident, first=record)


WARM_UP_RECORDS = 30
"""Records after which the run-start baselines are final."""
_LEARNED = frozenset({"reward", "validation", "collapse", "loss", "preference", "rm", "critic"})
_TWO_WRITERS = "two writers in one file: steps go back and forth every few rows; give each writer its own file"


class RuleSelection:
    """Which rules apply to a run, and with which thresholds."""

    def __init__(self, identity: Identity, options: EngineOptions) -> None:
        self.identity, self._options = identity, options
        self.profiles = profiles.active(identity, options.profiles)
        self._names = [profile.name for profile in self.profiles]
        self.field = field_of(identity, self._names)
        self._highest = HIGHEST[self.field]

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, as configured, else as read from the stream."""
        return self._options.group_size or self.identity.group_size

    def shown_level(self, rule: str, level: Level) -> Level:
        """The level at which an alert is shown: capped by the evidence there is for its rule in this field."""
        return min(level, self._highest.get(rule, level))

    def is_enabled(self, rule: str) -> bool:
        return self._options.is_enabled(rule, self._names)

    def thresholds(self, rule: str) -> dict[str, float]:
        return self._options.thresholds(rule, self._names)

    def applies(self, spec: RuleSpec) -> bool:
        if self._options.families and spec.family not in self._options.families:
            return False
        return spec.applies(self.identity.algorithm, self.identity.traits) and self.is_enabled(spec.id)

    def logs(self, spec: RuleSpec) -> bool:
        return spec.runs_always or spec.is_logged(self.identity)

    def key_of(self, metric: str) -> str:
        """The key that a metric is read from; empty if it is not logged."""
        signals = self.identity.signals.get(metric)
        return signals[0].key if signals else ""

    def keeps(self, spec: RuleSpec, before: RuleSelection) -> bool:
        """Whether a rule keeps its state: it still applies, with the same thresholds and the same keys."""
        if not self.applies(spec) or not self.logs(spec):
            return False
        # If a metric is now read from another key, the baselines learned so far are of other numbers.
        if any(before.key_of(metric) not in ("", self.key_of(metric)) for metric in spec.metrics):
            return False
        settings = self._options.settings
        return before.profiles == self.profiles or settings(spec.id, before._names) == settings(spec.id, self._names)


class _Announcer(State):
    """Logs once each: profiles whose thresholds apply, guesses that were dropped, alerts of the training script."""

    has_told, _dropped, _repeated = False, 0, 0

    def tell(self, observation: Observation, rules: RuleSelection) -> list[Event]:
        told: list[Event] = []
        refused = rules.identity.refused
        if self.has_told and len(refused) <= self._dropped and not observation.script_alerts:
            return told
        if not self.has_told and rules.is_enabled(profiles.RULE):
            told += [_fact(observation, profiles.RULE, profiles.sentence(profile)) for profile in rules.profiles]
        if rules.is_enabled(facts.IMPOSSIBLE):
            sentences = (facts.impossible_text(one.key, one.metric, one.value) for one in refused[self._dropped :])
            told += [_fact(observation, facts.IMPOSSIBLE, sentence) for sentence in sentences]
        if observation.script_alerts and rules.is_enabled(facts.SAID):
            left = int(rules.thresholds(facts.SAID)["most"]) - self._repeated
            said = observation.script_alerts[: max(0, left)]
            self._repeated += len(said)
            told += [_fact(observation, facts.SAID, f"script alert, {Label.of(text).display}") for text in said]
        self.has_told, self._dropped = True, len(refused)
        return told


class Engine(Cloned):
    """Applies the rules to one run; `events` holds every transition so far, in the order of the file."""

    def __init__(self, identity: Identity, options: EngineOptions | None = None) -> None:
        self._options = options or EngineOptions()
        self.rules = RuleSelection(identity, self._options)
        self.events: list[Event] = []
        self._announcer = _Announcer()
        self._muted: set[str] = set()
        self._incidents, self._told_of = Incidents(), ReportedLevels()
        self._context = RuleContext(identity.algorithm, identity.traits, self.rules.group_size)
        self._context.staleness_bound = identity.staleness_bound
        self._segment: int | None = None
        self._crossing = Crossing()
        self._states = [self._fresh(spec) for spec in self._asked()]

    def _fresh(self, spec: RuleSpec) -> AlertState:
        return AlertState(spec, self.rules.thresholds(spec.id))

    def _asked(self) -> list[RuleSpec]:
        return [spec for spec in self.active if self.rules.logs(spec)]

    def observe(self, observation: Observation) -> list[Event]:
        """Judge one closed step and return its transitions in order. Only rules that accept late rows see these."""
        if observation.is_late:
            return self._observe_late(observation)
        happened: list[Event] = []
        if observation.segment != self._segment:
            if self._segment is not None:
                happened = self.restart(observation)
            self._segment = observation.segment
        happened += self._told(observation)
        context = self._context
        context.advance(observation)
        if context.phase.moves:
            happened += self._begin_anew()
        quiet = QUIET
        for state in self._states:
            # The fast path: nine rules in ten find nothing.
            detect = state.detect  # on its own line: calling a slot directly is a slower lookup
            finding = detect(context)
            if (finding is quiet or finding is None) and state.is_idle:
                continue
            event = state.take(context, finding)
            if event is not None:
                happened += self._note(event, state)
        return happened

    def _observe_late(self, observation: Observation) -> list[Event]:
        happened = self._told(observation)
        context = self._context.late(observation)
        for state in self._states:
            event = state.observe(context) if state.spec.accepts_late else None
            if event is not None:
                happened += self._note(event, state)
        return happened

    def _told(self, observation: Observation) -> list[Event]:
        told = self._announcer.tell(observation, self.rules)
        self.events += told
        return told

    def _begin_anew(self) -> list[Event]:
        """Begin a new phase: earlier baselines no longer apply, and alerts that the change itself raised end."""
        happened: list[Event] = []
        record = self._context.observation.record
        for state in sorted(self._states, key=self._told_of.is_of):
            if not state.spec.resets_on_phase:
                continue
            if state.is_firing and record - state.since_record < TOGETHER_RECORDS:
                happened += self._note(state.recover(self._context, "; a new phase began"), state)
            state.begin_anew(self.rules.thresholds(state.spec.id), keeps_level=state.is_firing)
        return happened

    def _note(self, event: Event, state: AlertState) -> list[Event]:
        """Note a transition with its subject and incident; returns the logged event, or [] if nothing changes."""
        told = self._spoken(event, state, self._context)
        shown_level = self.rules.shown_level
        if event.is_alarm and not state.incident and shown_level(event.raised_by, event.level) >= Level.WARN:
            beside = [one for one in self._beside(state) if one.incident]
            others = [one for one in beside if shown_level(one.spec.id, one.level) >= Level.WARN]
            first = min(others, key=lambda one: one.onset, default=state)
            state.incident = first.incident or self._join(state)
            if others:
                self._incidents.reach_back(state.incident, state.spec, state.since_record, state.since_step)
                state.earlier = first.onset if first.onset < state.onset else None
            if told is not None and told[1] is state and (state.detector.names_onset or state.earlier):
                told = told[0]._replace(message=sentence(state, self._context), since_step=state.onset[1]), state
        event = event._replace(metric=_subject(state, self.rules.identity)[0])
        self._context.note(event, state.since_record, state.since_step, is_told=told is not None)
        if state.is_held_back and event.state in (EventState.FIRING, EventState.RESUMED):
            self._context.held.add(event.raised_by)
        return [] if told is None else [self._log(*told)]

    def _log(self, event: Event, state: AlertState) -> Event:
        """Append an event of an alert, with its subject, its incident and the baseline it quotes."""
        metric, key = _subject(state, self.rules.identity)
        base = verdict_of(state, metric, key, self._context).quoted_baseline if state.is_firing else None
        incident = state.incident if event.is_alarm or event.state is EventState.RESUMED else 0
        event = event._replace(metric=metric, key=key, incident=incident, baseline=base)
        self.events.append(event)
        return event

    def _tell_anew(self, before: RuleSelection) -> list[Event]:
        """Report each alert whose shown level changes because the run turned out to belong to another field."""
        happened = []
        for state in self._told_of.shown(self._states):
            was, now = (rules.shown_level(state.spec.id, state.level) for rules in (before, self.rules))
            if was is now:
                continue
            if not state.is_firing:
                state.level = Level.OK  # its past events are not rewritten
                continue
            how = EventState.ESCALATED if now > was else EventState.EASED
            said = sentence(state, self._context) + _FIELD_TOLD[self.rules.field]
            event = state.spec.event(self._context.observation, now, how, said, state.onset[1])
            state.incident = state.incident or (self._join(state) if now >= Level.WARN else 0)
            self._told_of.is_shown_already(event)
            happened.append(self._log(event, state))
        return happened

    def _join(self, state: AlertState) -> int:
        """Put an alarm into an incident; an alarm whose message names the onset takes over the incident's."""
        is_dated = state.detector.names_onset and state.detector.since is not None
        incident, record = self._incidents.join(state.spec, state.since_record, state.since_step, is_dated=is_dated)
        if is_dated:
            state.since_record, state.since_step = record, incident.step
            state.detector.date(record, incident.step)
        return incident.number

    def _beside(self, state: AlertState) -> list[AlertState]:
        rule = state.spec.rule
        others = [one for one in self._states if one.is_firing and one.spec.rule == rule and one is not state]
        return [one for one in others if one.spec.part not in self._muted]

    def _spoken(self, event: Event, state: AlertState, context: RuleContext) -> tuple[Event, AlertState] | None:
        """The event to report for a transition, at the level shown, and its part; None if nothing changes."""
        if state.spec.rule in registry.PARTS and state.spec.part not in self._muted:
            if (told := self._told_of.tell(event, state, self._beside(state), context)) is None:
                return None
            event, state = told
        event = event._replace(level=self.rules.shown_level(event.raised_by, event.level))
        return None if self._told_of.is_shown_already(event) else (event, state)

    def after(self, observation: Observation) -> Engine:
        """A copy that has judged `observation`, to preview the open step; it holds only the events this caused."""
        twin = self.clone()
        # Copying slows later attribute reads of the original (see `structs`), so the copy continues the run.
        self.__dict__, twin.__dict__ = twin.__dict__, self.__dict__
        self.events, twin.events = twin.events, self.events
        twin.observe(observation)
        return twin

    def restart(self, observation: Observation) -> list[Event]:
        """Begin a new segment before its first row `observation`: log a fact, end alerts, reset baselines."""
        happened = []
        was_crossing = self._crossing.is_certain
        is_crossing = self._crossing.note(observation.step, self._context.record - 1)
        # Two writers are reported once.
        if not (is_crossing and was_crossing) and self.rules.is_enabled(RESTART_RULE):
            message = _TWO_WRITERS if is_crossing else _restart_message(self._context, observation)
            before = next((event.message for event in reversed(self.events) if event.rule == RESTART_RULE), "")
            message += _EACH_EPOCH if before.startswith(message) else ""
            happened.append(_fact(observation, RESTART_RULE, message))
        ended = self._context.late(observation)
        is_same = not observation.other_run
        passed = [one for one in self._states if one.is_firing and is_same and observation.step > one.since_step]
        # Past the onset of an alert, its frozen level still tells whether the metric comes back; and an absolute line
        # counts as crossed in the new segment too, until a record says otherwise.
        kept = {state.spec.id: state for state in passed if isinstance(state.standing, Departure)}
        beyond = {state.spec.id: state for state in passed if state.standing.side}
        how = "; left behind by a restart" if is_same else "; another run begins"
        for state in sorted(self._states, key=self._told_of.is_of):  # reported part last: no heir is left
            if state.is_firing and state.spec.id not in kept and state.spec.id not in beyond:
                told = self._spoken(state.recover(ended, how), state, ended)
                happened += [] if told is None else [told[0]]
                # Kept to see whether the metric leaves its level again, unless that has to be learned again first.
                if is_same and (state.spec.family not in _LEARNED or 2 * observation.step > state.since_step):
                    kept[state.spec.id] = state
        self.events += happened
        self._context.restart(observation.step if is_same else None)
        self._segment = observation.segment
        for name, state in kept.items():
            state.begin_anew(self.rules.thresholds(name), keeps_level=True)
        kept |= beyond
        self._states = [kept.get(spec.id) or self._fresh(spec) for spec in self._asked()]
        return happened

    def identified(self, identity: Identity) -> list[Event]:
        """Apply a newly recognised identity of the stream; rules that still apply keep their state."""
        before, self.rules = self.rules, RuleSelection(identity, self._options)
        context = self._context
        context.algorithm, context.traits = identity.algorithm, identity.traits
        context.group_size, context.staleness_bound = self.rules.group_size, identity.staleness_bound
        context.reward.is_of_success = identity.algorithm is Algorithm.EMBODIED
        known = {state.spec.id: state for state in self._states}
        kept = {name: state for name, state in known.items() if self.rules.keeps(state.spec, before)}
        happened = []
        for state in sorted(self._states, key=self._told_of.is_of):
            if state.is_firing and state.spec.id not in kept:
                event = state.recover(context)
                context.forget(event)
                told = self._spoken(event, state, context)
                happened += [] if told is None else [told[0]]
        self._announcer.has_told = self._announcer.has_told and before.profiles == self.rules.profiles
        self.events += happened
        self._states = [kept.get(spec.id) or self._fresh(spec) for spec in self._asked()]
        return happened + self._tell_anew(before)

    def mute(self, rule: str, is_muted: bool = True) -> None:
        """Hide the verdicts of a rule with its parts, or of one part, from `verdicts`; it goes on judging."""
        self._muted = self._muted | {rule} if is_muted else self._muted - {rule}

    @property
    def muted(self) -> frozenset[str]:
        return frozenset(self._muted)

    def take_checkpoints(self, steps: Sequence[int]) -> None:
        """Set the steps with a checkpoint on disk; a collapse names the last one before it."""
        self._context.checkpoints.on_disk = frozenset(steps)

    @property
    def verdicts(self) -> list[Verdict]:
        """Active alerts, then recently recovered ones, without muted ones; worst first, oldest first among equals.

        INFO alerts that a graver alert makes meaningless are left out too.
        """
        return self._shown(is_muted=False)

    @property
    def muted_verdicts(self) -> list[Verdict]:
        """Those that `verdicts` leaves out because their rule is muted, in the same order."""
        return self._shown(is_muted=True) if self._muted else []

    def _shown(self, *, is_muted: bool) -> list[Verdict]:
        if self._context.record == 0:
            return []
        states = [one for one in self._states if one.is_shown(self._context.observation.record)]
        states = [one for one in states if one.level > Level.INFO or not one.is_moot(self._context)]
        asked = [one for one in states if self._muted.isdisjoint((one.spec.rule, one.spec.id)) is not is_muted]
        return sorted(map(self._verdict, self._told_of.shown(asked)), key=lambda v: v.urgency)

    def _verdict(self, state: AlertState) -> Verdict:
        found = verdict_of(state, *_subject(state, self.rules.identity), self._context)
        level, worst = (self.rules.shown_level(found.raised_by, one) for one in (found.level, found.worst))
        worst = max(worst, self._told_of.worst.get(found.rule, worst)) if state.is_firing else worst
        also = tuple(map(self._also, self._beside(state))) if state.is_firing else ()
        found = found._replace(incident=self._incidents.known.get(state.incident), level=level, worst=worst, also=also)
        checkpoint = self._context.checkpoints.before(state.onset[1])
        return advise(found, checkpoint, is_followed=self._is_followed(state), comes_and_goes=state.comes_and_goes)

    def _also(self, one: AlertState) -> Part:
        level = self.rules.shown_level(one.spec.id, one.level)
        return Part(one.spec.id, one.spec.title, one.since_step, level, _subject(one, self.rules.identity)[0])

    def _is_followed(self, state: AlertState) -> bool:
        """Whether a learning alarm of another family has begun since and is still active."""
        alarms = [one for one in self._states if one.is_firing and one.level >= Level.WARN]
        since = [one.spec for one in alarms if one.since_record >= state.since_record]
        return any(spec.group is Group.LEARNING and spec.family != state.spec.family for spec in since)

    @property
    def active(self) -> Sequence[RuleSpec]:
        return [spec for spec in registry.SPECS if self.rules.applies(spec)]

    @property
    def warm_up(self) -> tuple[int, int] | None:
        """(Training records seen, those that the baselines need), or None once the baselines are final."""
        seen, needed = self._context.record, WARM_UP_RECORDS
        return (min(seen, self._context.observation.record) if seen else 0, needed) if seen < needed else None

    def clone(self) -> Self:
        """An independent copy with an empty event log."""
        twin = super().clone()
        twin.events = []
        return twin


def _subject(state: AlertState, identity: Identity) -> tuple[str, str]:
    """The metric and the trainer's key that the verdict of a rule is about."""
    subject = state.detector.subject(state.finding) if state.finding is not QUIET else None
    if subject is None:
        return identity.subject(state.spec.metrics)
    if subject.key:
        return "", subject.key
    metric, key = identity.subject((subject.metric,), subject.instance)
    return (metric, key) if key else identity.subject((subject.metric, *state.spec.metrics), subject.instance)


def _fact(observation: Observation, rule: str, message: str) -> Event:
    return registry.NAMED[rule].event(observation, Level.INFO, EventState.FACT, message)


_EACH_EPOCH = "; as before: a step that begins anew in each epoch needs `epoch` beside it to be counted on"


def _restart_message(context: RuleContext, observation: Observation) -> str:
    if context.record == 0:
        return f"restarted at step {observation.step:,}"
    last = context.observation.step
    if observation.other_run:
        return f"another run begins at step {observation.step:,}: {observation.other_run} (was at {last:,})"
    return f"restarted at step {observation.step:,} (was at {last:,}); baselines reset"

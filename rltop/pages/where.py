"""Where the job is: the unfinished step, and the page with processes, engines, devices, job and logs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import PurePath
from typing import ClassVar

from rltop import units
from rltop.live.judge import JobStatus, ProcessGroup, grouped, next_step, sentence, stuck_because, waited_for
from rltop.live.lines import words_of
from rltop.live.phases import Phases
from rltop.live.probe import Device, Facts, InferenceEngine, Job, LogFacts, Process
from rltop.model import Label, Level, RunState
from rltop.pages.page import Moment, Page
from rltop.pages.signals import cadence_of
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.rows import (
    Row,
    RowBuilder,
    Target,
    TargetKind,
    clip_middle,
    rule_row,
    signed_rows,
    text_row,
    text_rows,
)
from rltop.rows.table import Column, Fit, Table, paint_table
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_SHOWN_STATES = frozenset({RunState.LIVE, RunState.QUIET, RunState.STUCK, RunState.WAITING})
_UNUSUAL = 3.0
_COARSE = ((60.0, 5.0), (600.0, 10.0), (math.inf, 60.0))
"""(Limit, step) in seconds: a duration below the limit is rounded down to the step, to save terminal output."""
_MOST_LISTED = 64
_WAITS = "waiting for the first metric file; then its job is looked for"
_NO_JOB = "rows that are played back, or come by standard input, name no job"
_UNTOLD = "the phase of the job is not known yet"
_HINT = (
    "So far only the metric file is known. Name the console log: rltop --log FILE RUN; a training loop of your own can "
    "log its phases: log.phase(...)."
)
_LEAST_BAR = 16
"""Least cells of the bar of the open step next to a note."""


class OpenStep(NamedTuple):
    """The unfinished step.

    Attributes:
        step: its number; None before the first.
        usual_s: usual duration of a step, or None.
        phase: the open phase in words; empty if unknown.
        outstanding: what is missing, and of how much; may be empty.
        because: what is known of why it is stuck, and what to do.
        is_unusual: it already takes three times as long as usual.
    """

    step: int | None
    elapsed_s: float
    usual_s: float | None
    phase: str
    outstanding: str
    is_stuck: bool
    is_unusual: bool
    because: Sequence[str] = ()

    @property
    def level(self) -> Level:
        return Level.WARN if self.is_stuck else Level.INFO if self.is_unusual else Level.OK

    def words(self, length: int) -> str:
        """In one sentence; `length`: 0 is the long form, 1 without the usual duration, 2 the shortest."""
        name = "before the first step" if self.step is None else f"step {units.step(self.step)}"
        text = f"{name} open for {units.duration(self.elapsed_s)}"
        if length == 0 and self.usual_s is not None:
            text += f" (usually {units.duration(self.usual_s)})"
        if self.phase and length < 2:
            text += f": {self.phase}"
            if self.outstanding and length == 0:
                text += f", {self.outstanding} outstanding"
        return text


def build_open(snapshot: Snapshot) -> OpenStep | None:
    """The unfinished step of a followed run; None if unknown, or if an earlier step is shown."""
    whereabouts = snapshot.run.whereabouts
    if whereabouts is None or snapshot.at_step is not None or snapshot.source is not snapshot.run:
        return None
    where, now_s, last = whereabouts.status(), whereabouts.clock.wall(), snapshot.stream.last_step
    if where.state not in ("running", "stuck") or snapshot.run.state not in _SHOWN_STATES or snapshot.part.is_emptied:
        return None
    since_s = where.stepped_s if where.stepped_s is not None else where.since
    if since_s is None:
        return None
    elapsed_s = max(0.0, now_s - since_s)
    usual_s = where.step_s
    return OpenStep(
        step=None if last is None else last + max(1, cadence_of(snapshot)),
        elapsed_s=_coarse(elapsed_s),
        usual_s=usual_s,
        phase=where.phase or "",
        outstanding=where.outstanding or "",
        is_stuck=where.state == "stuck",
        because=[*stuck_because(where), *filter(None, [next_step(where)])] if where.state == "stuck" else (),
        is_unusual=where.unusual or (usual_s is not None and elapsed_s >= max(60.0, _UNUSUAL * usual_s)),
    )


def _coarse(seconds: float) -> float:
    by_s = next(by for below, by in _COARSE if seconds < below)
    return seconds - seconds % by_s


def paint_open(view: OpenStep, axis_s: float, bar_at: int, width: int, glyphs: Glyphs) -> Row:
    """One row: what is open, for how long, and a growing bar with a tick at the usual duration."""
    role = LEVEL_ROLES[view.level] if view.level > Level.OK else "value"
    sign = glyphs.levels[view.level] if view.level > Level.OK else " "
    name = "open" if view.step is None else f"{units.step(view.step)} open"
    cells, room = width - bar_at - 1, bar_at - 3 - 12
    usually = "" if view.usual_s is None else f"usually {units.duration(view.usual_s)}"
    left = f"{view.outstanding} outstanding" if view.outstanding else ""
    what = ": ".join(filter(None, (name, view.phase)))
    note = _notes_within(cells - _LEAST_BAR, (usually, left), (usually,))
    if cell_width(what) > room and (
        beside := _notes_within(
            cells - _LEAST_BAR, (view.phase, usually, left), (view.phase, usually), (view.phase, left), (view.phase,)
        )
    ):
        # What does not fit before the bar goes after it.
        what, note = name, beside
    builder = RowBuilder(width, glyphs).add(f" {sign} ", role)
    builder.left(what, room, role).add(" ").right(units.duration(view.elapsed_s), 9, role)
    builder.pad_to(bar_at)
    cells -= cell_width(note)
    usual = view.usual_s or 0.0
    axis_s = max(axis_s, view.elapsed_s, 1.1 * usual)
    full = round(view.elapsed_s / axis_s * cells) if axis_s > 0.0 else 0
    at = None if not usual else min(cells - 1, round(usual / axis_s * cells))
    if at is None:
        builder.add(glyphs.fills[1] * full, role)
    else:
        builder.add(glyphs.fills[1] * min(full, at), role).add(" " * max(0, at - full), "dim")
        builder.add(glyphs.upright, "strong").add(glyphs.fills[1] * max(0, full - at - 1), role)
    return builder.pad_to(width - 1 - cell_width(note)).add(note, "note").row(Target(TargetKind.WHERE))


def _notes_within(cells: int, *notes: Sequence[str]) -> str:
    texts = (" " + ", ".join(filter(None, parts)) for parts in notes if any(parts))
    return next((text for text in texts if cell_width(text) <= cells), "")


def _or_zero(value: float) -> float:
    return value if value == value else 0.0


def paint_where(
    where: JobStatus, facts: Facts, logs: Sequence[LogFacts], now_s: float, width: int, glyphs: Glyphs
) -> list[Row]:
    groups = grouped(where.ranks)
    engines = sorted(where.engines, key=lambda one: (not one.trouble, -_or_zero(one.waiting), one.name))
    devices = sorted(facts.devices, key=lambda one: (not one.trouble, _or_zero(one.use), one.host, one.number))
    is_told = bool(groups or engines)
    rows = _paint_sentence(where, now_s, width, glyphs, is_told=is_told)
    if where.state in ("running", "stuck", "unknown") and not (is_told or devices or facts.jobs or logs):
        rows += [Row(()), *text_rows(_HINT, width, glyphs, "dim", lines=4)]
    if groups:
        rows += [rule_row(width, glyphs), *_paint_groups(groups, where, now_s, width, glyphs)]
    rows += _section("ENGINES", _engine_columns(now_s), engines, width, glyphs)
    rows += _section("DEVICES", _device_columns(now_s), devices, width, glyphs)
    for job in facts.jobs:
        rows += [rule_row(width, glyphs), *_paint_job(job, where, now_s, width, glyphs)]
    if logs:
        rows += [rule_row(width, glyphs), text_row("LAST LINES", width, glyphs, "title")]
        rows += [row for log in logs for row in _paint_log(log, now_s, width, glyphs)]
    if where.silences:
        rows += [rule_row(width, glyphs), text_row("SAY NOTHING", width, glyphs, "title")]
        for each in where.silences:
            said = f"{each.source}: {each.reason}, for {units.duration(max(0.0, now_s - each.since_s))}"
            rows.append(text_row(Label.of(said).display, width, glyphs, "warn"))
    return rows


def _paint_sentence(where: JobStatus, now_s: float, width: int, glyphs: Glyphs, *, is_told: bool) -> list[Row]:
    if where.state == "unknown" and not is_told:
        return text_rows(_UNTOLD, width, glyphs, "dim")
    level = {"stuck": Level.WARN, "dead": Level.CRIT}.get(where.state, Level.INFO if where.unusual else Level.OK)
    role = LEVEL_ROLES[level] if level > Level.OK else "strong"
    sign = glyphs.levels[level] if level > Level.OK else ""
    words = Label.of(sentence(where, now_s, _coarse)).display
    rows = signed_rows(sign, words, role, width, glyphs, lines=4)
    if step := next_step(where):
        rows += text_rows(f"next: {Label.of(step).display}", width, glyphs)
    if not where.source:
        return rows
    about = "" if where.moved_s is None else f", last progress {_ago(where.moved_s, now_s)}"
    if where.accuracy_s is not None and where.accuracy_s >= 60.0:
        about += f", times may be off by {units.duration(where.accuracy_s)}"
    source = clip_middle(Label.of(where.source).display, max(8, width - 2 - cell_width(about)))
    return [*rows, text_row(source + about, width, glyphs, "dim")]


def _ago(time_s: float | None, now_s: float) -> str:
    return units.UNKNOWN if time_s is None else f"{_age(time_s, now_s)} ago"


def _paint_groups(
    groups: Sequence[ProcessGroup], where: JobStatus, now_s: float, width: int, glyphs: Glyphs
) -> list[Row]:
    count = sum(len(group.members) for group in groups)
    title = RowBuilder(width, glyphs).add(" PROCESSES", "title").add(f"  {units.count(count)}", "value")
    title.add(f" in {units.counted(len(groups), 'group')}", "dim")
    is_late = where.state == "stuck" or where.unusual
    rows = []
    if is_late and (waited := waited_for(where.ranks)):
        text = f"{glyphs.levels[Level.WARN]} the others wait for {waited}"
        rows = text_rows(Label.of(text).display, width, glyphs, "warn")

    def sign(group: ProcessGroup) -> tuple[str, str]:
        level = Level.CRIT if group.state == "dead" else Level.WARN if group.is_outside and is_late else Level.OK
        return (glyphs.levels[level], LEVEL_ROLES[level]) if level > Level.OK else ("", "text")

    def phase(group: ProcessGroup) -> tuple[str, str]:
        role = "strong" if group.is_outside else "text" if group.state == "running" else "dim"
        return Label.of(group.activity.removeprefix("in ")).display, role

    columns: Sequence[Column[ProcessGroup]] = (
        Column("", lambda one: (units.count(len(one.members)), "value"), least=3),
        Column("in", phase, Fit.NAME, least=12, most=44, wanted_width=26),
        Column("", lambda one: (_meaning(one), "note"), Fit.TEXT, least=8, most=26, priority=4),
        Column("since", lambda one: (_since(one, now_s), "value"), least=8, priority=1),
        Column("who", lambda one: (Label.of(_who(one)).display, "text"), Fit.TEXT, least=10, most=48, wanted_width=24),
        Column("source", lambda one: (_source(one.members), "note"), Fit.NAME, least=8, priority=5),
        Column("age", lambda one: (_age(min(each.time_s for each in one.members), now_s), "note"), priority=2),
    )
    return [title.row(), *rows, *paint_table(Table(columns, groups, sign=sign), width, glyphs)]


def _meaning(group: ProcessGroup) -> str:
    words = words_of(group.key, "") if group.key and group.state == "running" else ""
    if group.is_outside:
        return f"{words}, others wait" if words else "others are elsewhere"
    return words if words != group.phase else ""


def _who(group: ProcessGroup) -> str:
    kind = {each.name for each in group.members if each.name}
    return " ".join(part for part in (next(iter(kind)) if len(kind) == 1 else "", group.names) if part)


def _since(group: ProcessGroup, now_s: float) -> str:
    if group.since_s is None:
        return ""
    least = "≥ " if all(each.is_seen for each in group.members) else ""
    return f"{least}{units.duration(_coarse(max(0.0, now_s - group.since_s)))}"


def _source(facts: Sequence[Process]) -> str:
    names = list(dict.fromkeys(each.source for each in facts))
    return _brief(names[0]) if len(names) == 1 else f"{len(names)} sources"


def _brief(source: str) -> str:
    return Label.of(PurePath(source).name if source.startswith(("/", ".", "~")) else source).display


def _age(time_s: float, now_s: float) -> str:
    coarse_s = _coarse(max(0.0, now_s - time_s))
    return "<5 s" if not coarse_s else f"{coarse_s:.0f} s" if coarse_s < 100.0 else units.duration(coarse_s)


def _section(title: str, columns: Sequence[Column], items: Sequence, width: int, glyphs: Glyphs) -> list[Row]:  # type: ignore[type-arg]
    if not items:
        return []
    head = RowBuilder(width, glyphs).add(f" {title}", "title").add(f"  {units.count(len(items))}", "value")
    left_out = len(items) - _MOST_LISTED
    if left_out > 0:
        head.add(f", the worst {_MOST_LISTED} listed", "dim")

    def sign(one: InferenceEngine | Device) -> tuple[str, str]:
        return (glyphs.levels[Level.WARN], "warn") if one.trouble else ("", "text")

    table = Table(columns, items[:_MOST_LISTED], sign=sign)
    return [rule_row(width, glyphs), head.row(), *paint_table(table, width, glyphs)]


def _told(value: float, form: str = "") -> str:
    if value != value:
        return ""
    if form == "share":
        return units.share(value)
    return units.size(int(value)) if form == "size" else f"{value:.0f} {form}" if form else units.number(value)


def _engine_columns(now_s: float) -> Sequence[Column[InferenceEngine]]:
    def state(one: InferenceEngine) -> tuple[str, str]:
        parts = [one.trouble, "asleep" if one.is_asleep else "", "updating weights" if one.is_syncing else ""]
        return Label.of(", ".join(filter(None, parts))).display, "warn" if one.trouble else "note"

    return (
        Column("engine", lambda one: (Label.of(one.name).display, "key"), Fit.NAME, least=10),
        Column("running", lambda one: (_told(one.running), "value"), least=7),
        Column("waiting", lambda one: (_told(one.waiting), "value"), least=7),
        Column("KV", lambda one: (_told(one.cache, "share"), "value"), least=5, priority=2),
        Column("tokens/s", lambda one: (_told(one.tokens_per_s), "value"), least=8, priority=1),
        Column("preempted", lambda one: (_told(one.preemptions), "value"), priority=5),
        Column("", state, Fit.TEXT, least=8),
        Column("source", lambda one: (_brief(one.source), "note"), Fit.NAME, least=8, priority=4),
        Column("age", lambda one: (_age(one.time_s, now_s), "note"), priority=3),
    )


def _device_columns(now_s: float) -> Sequence[Column[Device]]:
    def memory(one: Device) -> tuple[str, str]:
        of = _told(one.memory_total_bytes, "size")
        return f"{_told(one.memory_bytes, 'size')}{f' of {of}' if of else ''}", "value"

    return (
        Column("device", lambda one: (Label.of(f"{one.host} {one.number}".strip()).display, "key"), Fit.NAME, least=8),
        Column("busy", lambda one: (_told(one.use, "share"), "value"), least=5),
        Column("memory", memory, least=8),
        Column("power", lambda one: (_told(one.power_w, "W"), "value"), priority=2),
        Column("temp", lambda one: (_told(one.temperature_c, "°C"), "value"), priority=2),
        Column("", lambda one: (Label.of(one.trouble).display, "warn"), Fit.TEXT, least=8),
        Column("source", lambda one: (_brief(one.source), "note"), Fit.NAME, least=8, priority=4),
        Column("age", lambda one: (_age(one.time_s, now_s), "note"), priority=3),
    )


def _paint_job(job: Job, where: JobStatus, now_s: float, width: int, glyphs: Glyphs) -> list[Row]:
    parts = [job.state, f"on {job.nodes}" if job.nodes else "", f"{job.gpus} GPUs" if job.gpus else ""]
    if job.begun_s is not None:
        lasts_s = _coarse(max(0.0, now_s - job.begun_s))
        parts.append(f"for {units.duration(lasts_s)}")
        parts += [f"{units.number(job.gpus * lasts_s / 3600.0)} GPU-hours"] if job.gpus else []
    if job.ends_s is not None:
        parts.append(f"limit in {units.duration(_coarse(max(0.0, job.ends_s - now_s)))}")
    head = RowBuilder(width, glyphs).add(" JOB", "title").add(f"  {Label.of(job.id).display}", "key")
    rows = [head.add("  ").add(Label.of(", ".join(filter(None, parts))).display, "text").row()]
    if job.trouble:
        said = Label.of(job.trouble).display
        rows += text_rows(said, width, glyphs, "warn")
    elif job.id == where.job and "stops near" in where.limit:
        rows += text_rows(where.limit, width, glyphs, "warn")
    source = f"source: {job.source}, {_ago(job.time_s, now_s)}"
    return [*rows, text_row(Label.of(source).display, width, glyphs, "dim")]


def _paint_log(log: LogFacts, now_s: float, width: int, glyphs: Glyphs) -> list[Row]:
    head = RowBuilder(width, glyphs).add("   ").add(Label.of(log.source).display, "key")
    head.add(f"  {_ago(log.time_s, now_s)}", "note")
    line = RowBuilder(width, glyphs).add("   ").add(Label.of(log.last_line).display, "text")
    return [head.row(Target(TargetKind.LOG)), line.row(Target(TargetKind.LOG))]


class WherePage(Page):
    footer: ClassVar[Sequence[str]] = ("console", "timing")
    search_hint = "a process, a phase, a part of a line"

    def face(self, moment: Moment) -> Hashable:
        whereabouts = moment.snapshot.run.whereabouts
        told = (
            None
            if whereabouts is None
            else (whereabouts.probes.version, whereabouts.probes.facts, whereabouts.status().state)
        )
        return super().face(moment), told

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        run, glyphs, told = moment.snapshot.run, moment.glyphs, moment.snapshot.run.whereabouts
        title = RowBuilder(width, glyphs).add(" WHERE", "title").row()
        if told is not None:
            facts, ending = told.probes.facts, run.ending
            logs = [log for log in facts.logs if log.last_line]
            if ending is not None and ending.path == run.failure_log != "" and ending.last_s is not None:
                logs = [LogFacts(ending.path, ending.last_s, Phases(), ending.last_line)]
            return [title, *paint_where(told.status(), facts, logs, told.clock.wall(), width, glyphs)]
        waits = _WAITS if run.main.is_awaited else "looking for the console log of the run ..."
        return [title, *text_rows(waits if run.has_job else _NO_JOB, width, glyphs, "dim")]

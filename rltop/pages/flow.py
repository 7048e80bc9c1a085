"""The pipeline of an asynchronous run: which part waits for which, from the environments to the weight sync and back.

Owns the boxes of the diagram. `stats.goodput`, which the rules use too, interprets the idle shares and the queue and
accounts for completions. What is not logged stays unknown, and its box is hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from rltop import units
from rltop.catalog.dialect import Dialect
from rltop.catalog.metrics import CATALOG
from rltop.model import Label, Level
from rltop.pages.header import generation_text, pace_of
from rltop.pages.key_metrics import change_text, value_text
from rltop.pages.page import Moment, Page
from rltop.pages.signals import SignalReading, cadence_of, lately, primary, read_signal, signals_of, values_of
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, clip, rule_row, text_row, text_rows, wrap
from rltop.run.snapshot import Snapshot
from rltop.stats import goodput
from rltop.stats.goodput import (
    CLASSES,
    GENERATION,
    TRAINER,
    WAITS,
    WAITS_RECORDS,
    Goodput,
    Waits,
    hundredth,
    judge,
    limit_of,
    measure,
    unbroken,
)
from rltop.store.series import Point
from rltop.structs import NamedTuple


def build_goodput(snapshot: Snapshot) -> Goodput | None:
    """What became of the completions of the last records; None if nothing relevant is logged."""
    return measure(
        partial(_lately, snapshot, count=goodput.LATELY),
        snapshot.part.group_size,
        min(goodput.LATELY, snapshot.stream.rows),
    )


class Spent(NamedTuple):
    """The cost of the records that a goodput covers."""

    gpus: int
    hours: float

    def words(self, found: Goodput) -> str:
        """The cost in words, including the part for completions not trained on, in proportion to their number."""
        lost = self.hours * (1.0 - found.trained)
        least = "at least " if found.unknown else ""
        return (
            f"{units.count(self.gpus)} GPUs, {units.number(self.hours)} GPU-hours over these records: "
            f"{least}{units.number(lost)} for what was not trained on"
        )


def spent_on(snapshot: Snapshot, found: Goodput) -> Spent | None:
    gpus = None if snapshot.identity is None else snapshot.identity.gpus
    step_s = pace_of(snapshot)
    if gpus is None or step_s is None:
        return None
    return Spent(gpus, gpus * step_s * found.records * cadence_of(snapshot) / 3600.0)


def paint_goodput(found: Goodput, spent: Spent | None, width: int, glyphs: Glyphs) -> list[Row]:
    head = RowBuilder(width, glyphs).add(" GOODPUT", "title")
    head.add(f"  of 100 generated completions, over the last {units.counted(found.records, 'record')}", "dim")
    rows = [head.row()]
    bar = max(8, min(40, width - 40))
    for name, share in (("trained on", found.trained), *((one, found.shares.get(one)) for one in CLASSES)):
        builder = RowBuilder(width, glyphs).add("   ").left(name, 14, "text")
        if share is None:
            rows.append(builder.right(units.UNKNOWN, 8, "dim").add("  not logged", "nodata").row())
            continue
        number = f"{glyphs.to_ascii('≤') if name == 'trained on' and found.unknown else ''}{hundredth(share)}"
        role = "ok" if name == "trained on" else "other"
        rows.append(builder.right(number, 8, "value").add("  ").add(glyphs.partial_bar(share, bar), role).row())
    if spent is not None:
        rows.append(RowBuilder(width, glyphs).add("   ").add(spent.words(found), "note").row())
    return rows


WAITING = "P9"
"""The rule on which side waits."""
_PICTURE_FROM, _ONE_ROW_FROM = 76, 110
_GAP = 3
_SHOWN = 3
"""Most facts of a box in the diagram; all are listed below it."""


def _read_parts() -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """From `flow.txt`: the metrics of each box, and short names for the diagram."""
    parts, brief = {}, {}
    for section in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n[")[1:]:
        name, *lines = section.splitlines()
        columns = [line.partition(" |") for line in lines]
        parts[name.removesuffix("]")] = tuple(metric for metric, _, _ in columns)
        brief.update({metric: text.strip() for metric, bar, text in columns if bar})
    return parts, brief


PARTS, _BRIEF = _read_parts()
_LIMITS = {"inflight_count": "inflight_limit", "queue_size": "queue_limit", "stale_frac": "staleness_share_limit"}
"""Metrics that have a limit, and the metric of the limit."""


_SIDES = (*TRAINER, *GENERATION, "queue_size")
_IDLE = frozenset({"trainer_idle_frac", "rollouter_idle_frac"})


_BOUNDED = frozenset({"staleness_mean", "staleness_max"})
"""Metrics that a staleness bound in versions applies to."""


class BoxValue(NamedTuple):
    """One number of a box.

    Attributes:
        text: value with its unit, and its limit if known.
        instance: which of several instances is shown; empty for a single one.
    """

    metric: str
    reading: SignalReading
    point: Point
    text: str
    instance: str


class Box(NamedTuple):
    """One part of the pipeline.

    Attributes:
        facts: its logged values, most telling first; a box without any is hollow.
        idle: recent share of the step spent waiting, as in the sentence; None if not logged.
    """

    name: str
    facts: tuple[BoxValue, ...]
    hint: str = ""
    idle: float | None = None

    @property
    def step(self) -> int | None:
        return max((fact.point.step for fact in self.facts), default=None)


class Flow(NamedTuple):
    """The pipeline at one step.

    Attributes:
        boxes: in the order in which a sample passes them.
        age_s: seconds since the newest row; None if unknown or at a past step.
        spent: what the records behind `goodput` cost; None if the number of GPUs or the pace is unknown.
    """

    boxes: tuple[Box, ...]
    waits: Waits
    level: Level
    age_s: float | None
    step: int | None
    note: str
    goodput: Goodput | None
    spent: Spent | None


def build_flow(snapshot: Snapshot, *, has_boxes: bool = True, has_goodput: bool = True) -> Flow | None:
    identity = snapshot.identity
    if identity is None or not identity.traits.is_async:
        return None
    goodput, waits = build_goodput(snapshot) if has_goodput else None, _waits(snapshot)
    idle = {"generation": waits.generation, "trainer": waits.trainer}
    return Flow(
        boxes=tuple(_box(snapshot, part, idle.get(part)) for part in PARTS) if has_boxes else (),
        waits=waits,
        level=max((one.level for one in snapshot.firing if one.raised_by == WAITING), default=Level.OK),
        age_s=snapshot.part.age_s if snapshot.at_step is None else None,
        step=snapshot.step,
        note=generation_text(snapshot),
        goodput=goodput,
        spent=None if goodput is None else spent_on(snapshot, goodput),
    )


def _lately(snapshot: Snapshot, name: str, *, count: int = WAITS_RECORDS) -> list[float]:
    signal = primary(snapshot, name)
    return [] if signal is None else lately(snapshot, signal, count)


def _waits(snapshot: Snapshot) -> Waits:
    signal = primary(snapshot, "queue_size")
    limit = limit_of(partial(_lately, snapshot))

    def since(word: str) -> int | None:
        return None if signal is None else unbroken(word, reversed(values_of(snapshot, signal)), limit)

    waits = judge(partial(_lately, snapshot), since)
    known = (one.key for name in _SIDES if (one := primary(snapshot, name)) is not None)
    newest = (snapshot.stream.latest(key, snapshot.at_step) for key in known)
    steps = [point.step for point in newest if point is not None]
    now = snapshot.step
    if now is None or not steps or now - max(steps) <= WAITS_RECORDS * cadence_of(snapshot):
        return waits
    return waits._replace(as_of=max(steps))


def _box(snapshot: Snapshot, part: str, idle: float | None) -> Box:
    facts = tuple(fact for name in PARTS[part] if (fact := _fact(snapshot, name)) is not None)
    hint = "" if facts or snapshot.identity is None else _hint(snapshot.identity.dialect, part)
    return Box(part, facts, hint, idle)


def _fact(snapshot: Snapshot, name: str) -> BoxValue | None:
    identity = snapshot.identity
    readings = [read_signal(snapshot, one, 0) for one in signals_of(snapshot).get(name, ())]
    known = [reading for reading in readings if reading.point is not None]
    if not known:
        return None
    # Several keys of an idle share measure it in different ways: take the first, as the sentence does.
    has_worst = len(known) > 1 and CATALOG[name].direction.value == "down" and name not in _IDLE
    reading = max(known, key=lambda one: one.point.value if one.point else -math.inf) if has_worst else known[0]
    assert reading.point is not None
    text = " ".join(part for part in value_text(reading) if part)
    limit = _lately(snapshot, _LIMITS[name]) if name in _LIMITS else []
    if limit:
        text += f" of {' '.join(part for part in units.quantity(limit[-1], reading.signal.metric.unit) if part)}"
    elif name in _BOUNDED and identity is not None and identity.staleness_bound is not None:
        text += f" (at most {identity.staleness_bound:g})"
    return BoxValue(name, reading, reading.point, text, reading.signal.instance if has_worst else "")


def _hint(dialect: Dialect, part: str) -> str:
    for name in PARTS[part]:
        key = next((alias.pattern for alias in dialect.aliases if alias.metric == name and not alias.is_borrowed), "")
        if key:
            return f"not logged; {dialect.name} would log it as {key}"
    return f"not logged; {dialect.name} has no key for it that is known here"


def paint_flow(view: Flow | None, width: int, glyphs: Glyphs) -> list[Row]:
    if view is None:
        note = "Nothing tells that this run is asynchronous: its stages are on the timing page."
        return [text_row("PIPELINE", width, glyphs, "title"), Row(()), *text_rows(note, width, glyphs)]
    head = RowBuilder(width, glyphs).add(" PIPELINE", "title").add(f"  {view.note}", "note")
    head.add("" if view.step is None else f"   step {units.step(view.step)}", "value")
    head.add("" if view.age_s is None else f", {units.age(view.age_s)}", "dim")
    rows = [head.row(), *paint_verdict(view, width, glyphs)]
    if width >= _PICTURE_FROM:
        rows += [Row(()), *_paint_picture(view, width, glyphs)]
    for box in view.boxes:
        rows += [rule_row(width, glyphs), *_paint_box(box, view, width, glyphs)]
    if view.goodput is not None:
        rows += [rule_row(width, glyphs), *paint_goodput(view.goodput, view.spent, width, glyphs)]
    return rows


def paint_verdict(view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    waits = view.waits
    rows = text_rows(f"{glyphs.sign(view.level)}{waits.sentence}", width, glyphs, _role(view), lines=2)
    rows += text_rows(idle_words(waits), width, glyphs, "note", lines=2)
    return rows + (text_rows(f"{glyphs.arrow} {waits.advice}", width, glyphs, lines=2) if waits.advice else [])


def idle_words(waits: Waits) -> str:
    if waits.trainer is None and waits.generation is None:
        return ""
    return " · ".join(
        f"{side} {word or 'not known'} (idle {units.UNKNOWN if idle is None else units.share(idle)})"
        for side, word, idle in (
            ("generation", waits.generating, waits.generation),
            ("training", waits.training, waits.trainer),
        )
    )


def _role(view: Flow) -> str:
    if view.level >= Level.WARN:
        return LEVEL_ROLES[view.level]
    return "strong" if max(view.waits.trainer or 0.0, view.waits.generation or 0.0) >= WAITS else "text"


def paint_in_overview(view: Flow, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    target, title = Target(TargetKind.FLOW), " PIPELINE  "
    room = width - len(title)
    told = [(line, _role(view)) for line in wrap(view.waits.sentence, room, min(2, height))]
    if view.waits.advice:
        told += [(line, "note") for line in wrap(f"{glyphs.arrow} {view.waits.advice}", room, height - len(told))]
    return [
        RowBuilder(width, glyphs).add(" " * len(title) if at else title, "title").add(*line).row(target)
        for at, line in enumerate(told)
    ]


def _paint_picture(view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    """The boxes in one row or two, with arrows between them; a box without logged values has a dashed border."""
    in_row = len(view.boxes) if width >= _ONE_ROW_FROM else len(view.boxes) // 2
    rows = []
    for start in range(0, len(view.boxes), in_row):
        is_last = start + in_row >= len(view.boxes)
        rows += _paint_boxes(view.boxes[start : start + in_row], view.step, width, glyphs, goes_on=not is_last)
    back = f"{glyphs.rule * 2} new weights {glyphs.rule * 2}{glyphs.arrow} generation"
    rows.append(RowBuilder(width, glyphs).add(" ").right(back, width - 3, "dim").row())
    return rows


def _paint_boxes(boxes: Sequence[Box], step: int | None, width: int, glyphs: Glyphs, *, goes_on: bool) -> list[Row]:
    """Boxes side by side; `goes_on` adds an arrow from the last one to the next row."""
    cells = (width - 2 - _GAP * len(boxes)) // len(boxes)
    told = [_in_picture(box, step) for box in boxes]
    lines = max(2, *(len(one) for one in told))
    rows = []
    for number in range(-1, lines + 1):
        builder = RowBuilder(width, glyphs).add(" ")
        for at, box in enumerate(boxes):
            if number in (-1, lines):
                edge, role = (glyphs.rule, "rule") if box.facts else (glyphs.baseline, "nodata")
                title = clip(f" {box.name} ", cells - 1) if number < 0 else ""
                builder.add(edge, role).add(title, "title" if box.facts else "nodata")
                builder.add(edge * (cells - 1 - cell_width(title)), role)
            else:
                text, role = told[at][number] if number < len(told[at]) else ("", "text")
                builder.left(f" {text if cell_width(text) < cells else text.replace(' of ', '/')}", cells, role)
            has_arrow = number == 0 and (goes_on or at < len(boxes) - 1)
            builder.add(f" {glyphs.arrow} " if has_arrow else " " * _GAP, "dim")
        rows.append(builder.row())
    return rows


def _in_picture(box: Box, step: int | None) -> list[tuple[str, str]]:
    if not box.facts:
        return [("not logged", "nodata")]
    lines = []
    if box.idle is not None:
        lines.append((f"busy {units.share(1.0 - box.idle)}", "warn" if box.idle >= WAITS else "value"))
    for fact in [one for one in box.facts if box.idle is None or one.metric not in _IDLE][:_SHOWN]:
        text = f"{fact.text} {_BRIEF.get(fact.metric, fact.reading.title)}".rstrip()
        level, logged = fact.reading.level, fact.point.step
        role = LEVEL_ROLES[level] if level >= Level.WARN else "text"
        # A value that is no longer logged says nothing about this step.
        is_old = step is not None and logged < step
        lines.append((f"@{units.step(logged)}: {text}", "dim") if is_old else (text, role))
    return lines


def _paint_box(box: Box, view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    head = RowBuilder(width, glyphs).add(f" {box.name.upper()}", "title")
    if not box.facts:
        return [head.add("  ").add(box.hint, "nodata").row()]
    if view.step is not None and box.step is not None and box.step < view.step:
        behind = f"{units.count(view.step - box.step)} steps before {units.step(view.step)}"
        head.add(f"  step {units.step(box.step)}, {behind}", "dim")
    return [head.row()] + [_paint_fact(fact, box, width, glyphs) for fact in box.facts]


_TITLE, _VALUE, _CHANGE = 19, 14, 9


def _paint_fact(fact: BoxValue, box: Box, width: int, glyphs: Glyphs) -> Row:
    reading, key = fact.reading, fact.reading.signal.key
    sign = glyphs.levels[reading.level] if reading.level >= Level.INFO else " "
    builder = RowBuilder(width, glyphs).left(f" {sign} ", 3, LEVEL_ROLES[reading.level])
    builder.left(reading.title, _TITLE, "text").right(fact.text, _VALUE, "value")
    builder.right(change_text(reading), _CHANGE, "note")
    # Without wildcards in its alias the instance of a signal is its key, which is shown anyway.
    instance = f"  {Label.of(fact.instance).display}" if fact.instance not in ("", key) else ""
    older = f"  @{units.step(fact.point.step)}" if fact.point.step != box.step else ""
    builder.add(f"{older}{instance}", "note").add("  ").add(reading.name, "key")
    return builder.row(Target(TargetKind.METRIC, key))


class FlowPage(Page):
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")
    search_hint = "a part of the pipeline, a metric or a key"

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        return paint_flow(build_flow(moment.snapshot), width, moment.glyphs)

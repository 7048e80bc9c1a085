"""What the user decides about keys: which have rows on the overview (pinned, renamed, hidden), and what they mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

from rltop import units
from rltop.catalog.metrics import CATALOG
from rltop.model import Label, Metric, Signal, Unit
from rltop.pages.key_metrics import VALUE_CELLS, VALUE_HEAD, called, choose_key_metrics, choose_others, reading_cell
from rltop.pages.page import Arrange, Ask, Effect, ListPage, Mean, Moment, Say
from rltop.pages.signals import generic_signal, key_label, read_signal, signal_of
from rltop.regex import regex
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import Scope
from rltop.rows.rows import Line, Piece, Row, RowBuilder, Target, TargetKind, fill, text_row
from rltop.rows.table import Column, Fit, Table, paint_table
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_HEAD_ROWS = 2
_MOST = 2_000
"""Most keys listed here; the metrics page lists all."""
PINNED, SHOWN, HIDDEN, OTHER = "pinned", "shown", "hidden", ""


class ArrangedRow(NamedTuple):
    """A key that has a row on the overview or could get one."""

    state: str
    title: str
    signal: Signal
    stream: str = ""
    is_logged: bool = True


def _arranged_rows(snapshot: Snapshot) -> Iterator[ArrangedRow]:
    arrangement, chosen = snapshot.run.arrangement, choose_key_metrics(snapshot)
    by_key = {one.signal.key: one for one in chosen}
    for key in arrangement.pinned:
        one = by_key.get(key)
        if one is not None:
            yield ArrangedRow(PINNED, one.title, one.signal, one.stream)
        else:
            signal = generic_signal(key)
            yield ArrangedRow(PINNED, called(snapshot, signal), signal, is_logged=False)
    for one in chosen:
        if one.signal.key not in arrangement.pinned:
            yield ArrangedRow(SHOWN, one.title, one.signal, one.stream)
    for key in arrangement.hidden:
        part = next((each for each in snapshot.streams if key in each.stream.keys), None)
        signal = generic_signal(key) if part is None else signal_of(part, key)
        yield ArrangedRow(HIDDEN, called(snapshot, signal), signal, "" if part is None else part.role, part is not None)
    for one in choose_others(snapshot, chosen):
        yield ArrangedRow(OTHER, one.title, one.signal, one.stream)


class ArrangePage(ListPage[ArrangedRow]):
    least = (40, 8)
    where: ClassVar[Sequence[Scope]] = (Scope.ROWS,)
    footer: ClassVar[Sequence[str]] = ("open", "pin")
    filter_hint = "filter by title or key"

    def target(self, line: ArrangedRow) -> Target:
        return Target(TargetKind.METRIC, line.signal.key, stream=line.stream)

    def open(self, target: Target, moment: Moment) -> Effect | None:
        title = next((one.title for one in self.lines if self.target(one) == target), "")
        return Ask(f"a name for {Label.of(target.name)}; empty for its title", title)

    def answer(self, text: str, moment: Moment) -> Effect | None:
        if not self.lines:
            return None
        key, title = self.lines[self.at].signal.key, self.lines[self.at].signal.metric.title
        return Arrange(moment.snapshot.run.arrangement.with_name(key, "" if text.strip() == title else text))

    def on(self, key: str, moment: Moment) -> Effect | None:
        arrangement = moment.snapshot.run.arrangement
        if key not in {"hide", "row-up", "row-down"}:
            return None
        if not self.lines:
            return Say("no row is selected")
        name = self.lines[self.at].signal.key
        if key == "hide":
            # The selection keeps its position instead of following the hidden row.
            self.held = None
            return Arrange(arrangement.with_hiding_toggled(name))
        if name not in arrangement.pinned:
            return Say(moment.keys.with_keys_named("only pinned rows can be moved: {pin} pins this one"))
        moved = arrangement.with_pin_moved(name, -1 if key == "row-up" else 1)
        return Arrange(moved) if moved != arrangement else Say("it is at the end of the pinned rows already")

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        glyphs, snapshot = moment.glyphs, moment.snapshot
        words = self.query.casefold().split()
        found = [
            one for one in islice(_arranged_rows(snapshot), _MOST)
            if all(word in f"{one.title} {one.signal.key} {one.state}".casefold() for word in words)
        ]  # fmt: skip
        shown = self.settle(found, max(1, height - _HEAD_ROWS))
        # The selection follows a pinned row to the top.
        self.held = self.chosen
        rows = [_head(snapshot, width, glyphs)]
        if not found:
            note = moment.keys.no_match_text("no metric") if words else "no metrics yet: waiting for the first row"
            return fill([*rows, Row(()), text_row(note, width, glyphs, "dim")], height)
        table = Table(_columns(snapshot), shown, target=self.target, sign=lambda one: ("", "dim"))
        return fill([*rows, *paint_table(table, width, glyphs)], height)


def _head(snapshot: Snapshot, width: int, glyphs: Glyphs) -> Row:
    arrangement = snapshot.run.arrangement
    builder = RowBuilder(width, glyphs).add(" ROWS OF THE OVERVIEW", "title")
    pinned, hidden = units.count(len(arrangement.pinned)), units.count(len(arrangement.hidden))
    return builder.whole([(f"   {pinned} pinned", "value"), (f"   {hidden} hidden", "dim")]).row()


def _columns(snapshot: Snapshot) -> Sequence[Column[ArrangedRow]]:
    def value(one: ArrangedRow) -> Line:
        if not one.is_logged:
            return (Piece("not logged", "dim"),)
        return reading_cell(read_signal(snapshot.within(one.stream), one.signal, 0))

    return (
        Column(
            "", lambda one: (one.state, "note" if one.state == PINNED else "dim"), Fit.TEXT, least=6, is_steady=True
        ),
        Column(
            "metric", lambda one: (one.title, "dim" if one.state == HIDDEN else "text"), Fit.NAME, least=13, most=40
        ),
        Column("key", lambda one: (Label.of(one.signal.key).display, "key"), Fit.NAME, least=12, most=64, priority=2),
        Column(VALUE_HEAD, value, least=VALUE_CELLS, is_right=False, priority=1, gap=1),
    )  # fmt: skip


AS_LOGGED, FORGET = "", "*"
"""Choices other than metrics: no metric, and back to what rltop detects."""
_ROUNDING = 1e-3
_MILLISECONDS = regex(r"(?:^|[^a-zA-Z])ms(?:$|[^a-zA-Z])|_?millis", re.IGNORECASE)


def choices(snapshot: Snapshot, key: str) -> list[tuple[str, str, str]]:
    """Metrics that the user may assign to a key, as (name, title, remark); current one and guesses first."""
    identity = snapshot.identity
    now, guesses = [], []
    if identity is not None:
        now = [name for name, found in identity.signals.items() if any(one.key == key for one in found)]
        guesses = [name for name, found in identity.guesses.items() if any(one.key == key for one in found)]
        guesses += [each.metric for each in identity.refused if each.key == key and each.metric not in guesses]
    said = {} if identity is None else identity.user_meanings
    scaling = _Scaling.of(snapshot, key)
    first: list[tuple[str, str, str]] = []
    rest: list[tuple[str, str, str]] = []
    for name in dict.fromkeys((*now, *guesses, *CATALOG)):
        is_first = name in now or name in guesses
        place = first if is_first else rest
        plain, scaled = (name, CATALOG[name].title), scaling.choice(CATALOG[name])
        if name in now and scaled is not None and said.get(key) == scaled[0]:
            place += [(*scaled[:2], f"now, {scaled[2]}"), (*plain, _remark(CATALOG[name]))]
            continue
        if scaled is not None:
            place.append(scaled)
        place.append((*plain, "now" if name in now else "guessed" if is_first else _remark(CATALOG[name])))
    none = (AS_LOGGED, "no metric: as logged", "now" if key in said and not said[key] else "")
    forget = [(FORGET, "as found by rltop", "forget what was said")] if key in said else []
    return [*first, none, *forget, *rest]


class _Scaling(NamedTuple):
    """Whether a key seems to be logged in percent or milliseconds instead of a metric's unit."""

    is_percent: bool
    is_milliseconds: bool

    @classmethod
    def of(cls, snapshot: Snapshot, key: str) -> _Scaling:
        stream = snapshot.stream
        newest = None if stream.last_step is None else stream.value(key, stream.last_step)
        values = [abs(value) for value in (*stream.head(key).values, newest or 0.0) if math.isfinite(value)]
        is_percent = 1.0 + _ROUNDING < max(values, default=0.0) <= 100.0 * (1.0 + _ROUNDING)
        return cls(is_percent, bool(_MILLISECONDS.search(key)))

    def choice(self, metric: Metric) -> tuple[str, str, str] | None:
        """The metric with a conversion from percent or milliseconds; None if neither seems to apply."""
        if self.is_percent and metric.unit is Unit.FRACTION and metric.high == 1.0:
            return f"{metric.name} / 100", metric.title, "logged in percent"
        if self.is_milliseconds and metric.unit is Unit.SECONDS:
            return f"{metric.name} / 1000", metric.title, "logged in milliseconds"
        return None


def _remark(metric: Metric) -> str:
    unit = f", {metric.unit.value}" if metric.unit.value else ""
    return f"{metric.section}{unit}"


class MeaningPage(ListPage[tuple[str, str, str]]):
    least = (40, 8)
    filter_hint = "filter by title, name or section"

    def __init__(self, key: str, stream: str = "") -> None:
        super().__init__(stream)
        self.key = key

    def target(self, line: tuple[str, str, str]) -> Target:
        return Target(TargetKind.MEANING, line[0])

    def open(self, target: Target, moment: Moment) -> Effect | None:
        if target.kind is not TargetKind.MEANING:
            return None
        return Mean(self.key, None if target.name == FORGET else target.name)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        words = self.query.casefold().split()
        found = [
            one for one in choices(moment.snapshot, self.key)
            if all(word in f"{one[0]} {one[1]} {one[2]}".casefold() for word in words)
        ]  # fmt: skip
        shown = self.settle(found, max(1, height - _HEAD_ROWS))
        head = RowBuilder(width, moment.glyphs).add(" WHAT IS ", "title")
        rows = [head.add(key_label(self.key).display, "key").add("?", "title").row(), Row(())]
        if not found:
            rows.append(text_row(moment.keys.no_match_text("no metric"), width, moment.glyphs, "dim"))
        rows += [_choice(one, width, moment.glyphs) for one in shown]
        return fill(rows, height)


def _choice(one: tuple[str, str, str], width: int, glyphs: Glyphs) -> Row:
    name, title, remark = one
    builder = RowBuilder(width, glyphs).add("   ").left(title, 22, "text")
    builder.left(name if name not in (AS_LOGGED, FORGET) else "", 26, "key")
    return builder.add(remark, "note" if remark.startswith(("now", "guessed")) else "dim").row(
        Target(TargetKind.MEANING, name)
    )

"""The console log of a run: newest lines, a filter, marked errors, and jumps between lines and steps."""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence, Set
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Label, Level
from rltop.pages.header import BROKEN_OFF
from rltop.pages.page import Effect, ListPage, Moment, Redraw, Say, ShowStep
from rltop.pages.rollouts import places_text
from rltop.rows.glyphs import Glyphs, cell_width
from rltop.rows.keys import NO_KEYS, KeyNames, Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, clip_middle, fill, rule_row, text_row, text_rows
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.run.console_log import ConsoleLog, LogLine, LogState

_HEAD_ROWS = 2
_WHOLE_ROWS = ((30, 6), (20, 3), (14, 2))
"""Screen height, and the rows that show the selected line in full from that height on."""
_GUTTER = 3


class LogView(NamedTuple):
    """The log as the page shows it.

    Attributes:
        first: number of the oldest line in memory; that of the first line of the file is `begun`.
        lines: the lines in memory, oldest first.
        numbers: numbers of the lines that match the filter, ascending.
        errors: numbers of the lines that report a failure, ascending.
        step: step of the time cursor; None is live.
    """

    run_path: str
    state: LogState
    first: int
    lines: Sequence[LogLine]
    numbers: Sequence[int]
    errors: Sequence[int]
    at: int
    is_following: bool
    step: int | None
    begun: int = 0

    @property
    def chosen(self) -> LogLine | None:
        return self.lines[self.numbers[self.at] - self.first] if self.numbers else None


def paint_log(view: LogView, top: int, width: int, height: int, glyphs: Glyphs, keys: KeyNames = NO_KEYS) -> list[Row]:
    room = lines_in_sight(height)
    rows = [_title(view, width, glyphs), _counts(view, width, glyphs)]
    rows += [_line(view, number, width, glyphs) for number in view.numbers[top : top + room]]
    if not view.numbers and view.lines:
        rows.append(text_row(keys.no_match_text("no line"), width, glyphs, "dim"))
    rows = fill(rows, _HEAD_ROWS + room)
    whole = height - len(rows) - 1
    if whole > 0 and view.chosen is not None:
        rows.append(rule_row(width, glyphs))
        text = view.chosen.text
        if view.chosen.left_out:
            text += f" ({units.count(view.chosen.left_out)} more characters)"
        rows += text_rows(Label.of(text).display, width, glyphs, lines=whole)
    return fill(rows, height)


def lines_in_sight(height: int) -> int:
    whole = next((rows + 1 for least, rows in _WHOLE_ROWS if height >= least), 0)
    return max(1, height - _HEAD_ROWS - whole)


def _title(view: LogView, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" CONSOLE LOG", "title").add("  ")
    note = "at the end, following" if view.is_following else ""
    if view.numbers and not view.is_following:
        note = f"{units.count(view.at + 1)} of {units.count(len(view.numbers))}"
    name = Label.of(places_text((view.state.path,), view.run_path)).display
    builder.add(clip_middle(name, max(8, builder.room - len(note) - 3)), "key")
    if note and builder.room > len(note) + 1:
        builder.pad_to(width - len(note) - 1).add(note, "note")
    return builder.row()


def _counts(view: LogView, width: int, glyphs: Glyphs) -> Row:
    state, count = view.state, len(view.lines)
    builder = RowBuilder(width, glyphs).add(" ")
    if state.note:
        return builder.add(Label.of(state.note).display, "warn").row()
    if not count and (state.is_looking or state.size):
        return builder.add("reading …", "dim").row()
    builder.add(units.counted(count, "line"), "text")
    parts = []
    if view.errors:
        marked = units.counted(len(view.errors), "error")
        builder.add(" · ", "dim").add(f"{glyphs.levels[Level.CRIT]} {marked}", "crit")
    else:
        parts.append("no error found")
    if state.begins_at or view.first > view.begun:
        parts.append(f"the end of {units.size(state.size)}")
    if len(view.numbers) < count:
        parts.append(f"{units.count(len(view.numbers))} match")
    others = len(state.paths) - 1
    if others > 0:
        parts.append(f"{units.counted(others, 'other file')} beside the run")
    for part in parts:
        if builder.room > cell_width(part) + 3:
            builder.add(" · ", "dim").add(part, "note")
    return builder.row()


def _line(view: LogView, number: int, width: int, glyphs: Glyphs) -> Row:
    line = view.lines[number - view.first]
    sign, role = " ", "text"
    if line.is_error:
        sign, role = glyphs.levels[Level.CRIT], "crit"
    elif line.is_trace:
        sign, role = glyphs.levels[Level.WARN], "warn"
    elif view.step is not None and line.step == view.step:
        sign, role = glyphs.selected, "strong"
    builder = RowBuilder(width, glyphs).add(f"{sign:<{_GUTTER - 1}}", role).add(Label.of(line.text).display, role)
    return builder.row(Target(TargetKind.LINE, step=number))


def paint_no_log(state: LogState | None, run_path: str, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    rows = [RowBuilder(width, glyphs).add(" CONSOLE LOG", "title").row(), Row(())]
    if state is None or state.is_looking:
        return fill([*rows, text_row("looking for a console log ...", width, glyphs, "dim")], height)
    path = Label.of(shlex.quote(run_path)).display
    looked_for = "looked for: *.log, *.out, *.err, log.txt, output.log of W&B, beside the run's file"
    command = f"name it: rltop --log FILE {path}"
    texts = (
        ("standard input has no log beside it" if path == "-" else "no console log beside the run", "text"),
        (command, "strong"),
        *(() if path == "-" else ((looked_for, "dim"),)),
    )
    for text, role in texts:
        # A command is typed: it is never cut.
        rows += text_rows(text, width, glyphs, role, lines=len(text) if text is command else 4)
    return fill(rows, height)


class _Found:
    """The lines that match a filter and those that report a failure; only new lines are scanned."""

    def __init__(self, of: tuple[ConsoleLog | None, str]) -> None:
        self.of = of
        self._needle = of[1].casefold()
        self._numbers: list[int] = []
        self._errors: list[int] = []
        self._until = self._first = 0

    def take(self, first: int, lines: Sequence[LogLine], closed: int) -> tuple[Sequence[int], Sequence[int]]:
        if first < self._first:
            # Older lines were loaded.
            self._numbers, self._errors, self._until = [], [], first
        self._first = first
        for found in (self._numbers, self._errors):
            del found[: bisect_left(found, first)], found[bisect_left(found, self._until) :]
        for number in range(max(first, self._until), first + len(lines)):
            line = lines[number - first]
            if self._needle in line.text.casefold():
                self._numbers.append(number)
            if line.is_error:
                self._errors.append(number)
        self._until = max(first, min(closed, first + len(lines)))
        return self._numbers.copy(), self._errors.copy()


class LogPage(ListPage[int]):
    where = (Scope.LOG,)
    least = (24, 6)
    filter_hint = "filter by text"

    def __init__(self) -> None:
        super().__init__()
        self._is_centred = False
        self._been_shown: set[str] = set()
        self._opened: ConsoleLog | None = None
        self._view: LogView | None = None
        self._found = _Found((None, ""))

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        log = moment.snapshot.run.console
        if log is None or not log.state.path:
            self._view, self.lines = None, ()
            state = None if log is None else log.state
            return paint_no_log(state, moment.snapshot.run.path.raw, width, height, moment.glyphs)
        room = lines_in_sight(height)
        view = self._build(log, moment, room)
        if self._is_centred and view.numbers:
            self.top, self._is_centred = max(0, view.at - room // 2), False
        self.at = view.at
        self.settle(view.numbers, room)
        self._view = view
        return paint_log(view, self.top, width, height, moment.glyphs, moment.keys)

    def _build(self, log: ConsoleLog, moment: Moment, room: int) -> LogView:
        log.ask()
        # Read before the lines: one completed in between is then scanned again.
        closed = log.closed_count
        first, lines = log.lines()
        if self._found.of != (log, self.query):
            self._found = _Found((log, self.query))
        numbers, errors = self._found.take(first, lines, closed)
        if lines and self._opened is not log:
            self._opened = log
            # A dump of memory, or what other ranks say, may be long.
            if moment.snapshot.source.state in BROKEN_OFF and errors and numbers and errors[-1] <= numbers[-1] - room:
                self.held, self._is_centred = self.target(errors[-1]), True
        held = None if self.held is None else self.held.step
        at = len(numbers) - 1 if held is None else bisect_right(numbers, held) - 1
        is_last, path = held is None, moment.snapshot.run.path.raw
        step = moment.snapshot.at_step
        return LogView(path, log.state, first, lines, numbers, errors, max(0, at), is_last, step, log.begun)

    def face(self, moment: Moment) -> Hashable:
        """Changes with every new line; `ask` keeps the log being followed."""
        log = moment.snapshot.run.console
        if log is None:
            return super().face(moment), None
        log.ask()
        return super().face(moment), log.version

    def target(self, line: int) -> Target:
        return Target(TargetKind.LINE, step=line)

    def place(self, held: Target) -> int:
        return self.at

    def move(self, by: int) -> Effect | None:
        effect = super().move(by)
        if self.at >= len(self.lines) - 1:
            self.held = None
        return effect

    def show_only(self, text: str) -> Effect | None:
        self.query = text
        return Redraw()

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key not in {"log-file", "log-step", "error-after", "error-before"}:
            return None
        view, log = self._view, moment.snapshot.run.console
        if view is None or log is None:
            return Say("there is no console log: name one with --log FILE")
        if key == "log-file":
            return self._show_file(view, log, moment.snapshot.run.failure_log)
        if key == "log-step":
            return self._show_step(view, moment)
        return self._show_error(view, 1 if key == "error-after" else -1, moment.keys)

    def idle(self, moment: Moment) -> Set[str]:
        view = self._view
        if view is None:
            return super().idle(moment)
        no_errors = set() if view.errors else {"error-after", "error-before"}
        return no_errors | ({"log-file"} if len(view.state.paths) < 2 else set())

    def _show_file(self, view: LogView, log: ConsoleLog, failed: str) -> Effect:
        paths = list(view.state.paths)
        if len(paths) < 2:
            return Say("this is the only console log that was found; --log FILE names another")
        self.held, shown = None, view.state.path
        self._been_shown.add(shown)
        # The log with the failure, if that came after this page was opened.
        after = paths[(paths.index(shown) + 1) % len(paths)] if shown in paths else paths[0]
        log.show(failed if failed in paths and failed not in self._been_shown else after)
        return Redraw()

    def _show_step(self, view: LogView, moment: Moment) -> Effect:
        step = moment.snapshot.step
        named = [(number, line.step) for number, line in enumerate(view.lines, view.first) if line.step is not None]
        if not named:
            return Say("none of the loaded lines names a step, such as step:12 or 'global_step': 12")
        found = next((number for number, at in reversed(named) if at == step), None)
        if found is None:
            least, most = min(at for _, at in named if at is not None), max(at for _, at in named if at is not None)
            shown = "the newest step" if step is None else f"step {units.step(step)}"
            return Say(f"no line names {shown}; the loaded lines name {units.step(least)}–{units.step(most)}")
        return self._go(view, found, moment.keys)

    def _show_error(self, view: LogView, by: int, keys: KeyNames) -> Effect:
        here = view.numbers[view.at] if view.numbers else view.first
        errors, at = view.errors, bisect_right(view.errors, here) if by > 0 else bisect_left(view.errors, here) - 1
        if not errors:
            return Say("no error in the lines that are loaded")
        if not 0 <= at < len(errors):
            others = f"{units.count(len(errors))} in all"
            return Say(f"no error {'below' if by > 0 else 'above'} this line, {others}")
        return self._go(view, errors[at], keys)

    def _go(self, view: LogView, number: int, keys: KeyNames) -> Effect:
        self.held, self._is_centred = self.target(number), True
        at = bisect_left(view.numbers, number)
        if at == len(view.numbers) or view.numbers[at] != number:
            return Say(f"the filter hides that line{keys.clause('back', ': {} clears the filter')}")
        return Redraw()

    def open(self, target: Target, moment: Moment) -> Effect | None:
        view = self._view
        if target.kind is not TargetKind.LINE or target.step is None or view is None:
            return super().open(target, moment)
        before = view.lines[: target.step - view.first + 1]
        step = next((line.step for line in reversed(before) if line.step is not None), None)
        stream = moment.snapshot.stream
        if step is None:
            return Say("neither this line nor one above it names a step")
        if stream.first_step is None or stream.last_step is None or not stream.first_step <= step <= stream.last_step:
            return Say(f"step {units.step(step)} is not among the steps that were read")
        return ShowStep(step)

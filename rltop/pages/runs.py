"""All runs that are followed, one row each: what needs attention first.

Owns the order, the filter and the columns; a row is read from a `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar

from rltop import units
from rltop.model import Label, Level, RunState, VerdictState
from rltop.pages.header import STATE_ROLES, age_text
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, ListPage, Redraw, top_of
from rltop.rows.cells import RowBuilder, clip, clip_middle, fill, text_row, too_small
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.structs import Struct, replace

LEAST = (40, 12)
HEAD_ROWS = 2
_STATES = (
    RunState.DIED, RunState.LOST, RunState.STALLED, RunState.QUIET, RunState.LIVE, RunState.LOADING, RunState.PAUSED,
    RunState.WAITING, RunState.FINISHED, RunState.ENDED,
)  # fmt: skip
"""Of equally bad runs, those that may need somebody come before those that go on, and these before what is over."""


_GONE = frozenset({RunState.DIED, RunState.LOST})


class RunEntry(Struct):
    """One run in a list of runs.

    Attributes:
        name: as shown.
        path: where it is read from; tells runs of one name apart.
        dialect: whose keys, empty while unknown.
        algorithm: what is being trained, empty while unknown.
        step: the newest one, or None.
        total_steps: where the run says it.
        streams: how many streams it has, ranks aside.
        state: the state word.
        age_s: age of the newest record, or None.
        loading: fraction of the history that was read, None when complete.
        level: the worst that fires, NO_DATA without a row.
        verdict: what a run died of; else the title of the worst verdict, empty where none fires.
        more: further verdicts that fire.
    """

    name: Label
    path: Label
    dialect: str
    algorithm: str
    step: int | None
    total_steps: int | None
    streams: int
    state: RunState
    age_s: float | None
    loading: float | None
    level: Level
    verdict: str
    more: int

    @property
    def attention(self) -> Level:
        """How much it wants to be looked at: a run that is no more, as much as the worst verdict."""
        return Level.CRIT if self.state in _GONE else self.level


def read_entry(snapshot: Snapshot) -> RunEntry:
    """What the list says of a run."""
    identity = snapshot.identity
    firing = [verdict for verdict in snapshot.verdicts.standing if verdict.state is VerdictState.FIRING]
    worst = max(firing, key=lambda verdict: verdict.level, default=None)
    level = Level.OK if worst is None else worst.level
    what = "" if worst is None else Label.of(worst.title).display
    more = max(0, len(firing) - 1)
    if snapshot.now.state is RunState.DIED and snapshot.now.failure.raw:
        what, more = snapshot.now.failure.display, len(firing)
    has_rows = any(each.stream.rows for each in snapshot.streams)
    return RunEntry(
        name=snapshot.name,
        path=snapshot.path,
        dialect="" if identity is None else identity.dialect.name,
        algorithm="" if identity is None else identity.algorithm.display_name,
        step=snapshot.stream.last_step,
        total_steps=snapshot.stream.total_steps or None,
        streams=sum(not part.is_rank for part in snapshot.streams),
        state=snapshot.now.state,
        age_s=snapshot.now.age_s,
        loading=snapshot.now.loading,
        level=level if has_rows or firing else Level.NO_DATA,
        verdict=what,
        more=more,
    )


def list_runs(snapshots: Iterable[Snapshot], query: str = "") -> list[RunEntry]:
    """The runs whose name, path, trainer, state or verdict has every word of `query`; what needs attention first."""
    return in_order((read_entry(snapshot) for snapshot in snapshots), query)


def in_order(entries: Iterable[RunEntry], query: str = "") -> list[RunEntry]:
    """Those of the entries that match, by level, state, and age."""
    wanted = query.casefold().split()
    found = [one for one in entries if all(word in _words(one) for word in wanted)]
    return sorted(found, key=_urgency)


def _words(entry: RunEntry) -> str:
    parts = (
        entry.name.raw, entry.path.raw, entry.dialect, entry.algorithm, entry.state.value, entry.level.word,
        entry.verdict,
    )  # fmt: skip
    return " ".join(parts).casefold()


def _urgency(entry: RunEntry) -> tuple[int, int, float, str]:
    level = entry.attention if entry.attention >= Level.WARN else Level.OK
    age_s = entry.age_s if entry.age_s is not None else float("inf")
    # An age to the minute, so that rows do not change places with every record.
    return -level, _STATES.index(entry.state), age_s // 60, entry.path.raw


class _Columns(Struct):
    """Cells of each column with the blanks behind it; 0 leaves it out."""

    name: int
    state: int
    verdict: int = 0
    step: int = 0
    age: int = 0
    trainer: int = 0


_SIGN = 3
"""Cells of the sign in front of a row, and the blanks around it."""
_GAP = 2
_LEAST_NAME = 16
_LEAST_VERDICT = 16
_MOST_VERDICT = 30
"""So much of it comes before the whole of the names."""


def _columns(entries: Sequence[RunEntry], width: int) -> _Columns:
    """How wide each column is: what is a number or a word of ours has the room of its longest, or none at all.

    Of a narrow screen the trainer is left out first, then the age, the step and the verdict.
    """

    def longest(say: Callable[[RunEntry], str]) -> int:
        return max((cell_width(say(one)) for one in entries), default=0)

    name, verdict = longest(_name), longest(_verdict)
    columns = _Columns(min(name, _LEAST_NAME) + _GAP, 2 + longest(_state) + _GAP)
    rest = width - _SIGN - columns.name - columns.state
    wanted = (
        ("verdict", min(verdict, _LEAST_VERDICT)),
        ("step", max(len("step"), longest(_step))),
        ("age", longest(_age)),
        ("trainer", min(longest(_trainer), width // 4)),
    )
    for column, cells in wanted:
        if not cells:
            continue
        if cells + _GAP > rest:
            break
        columns = replace(columns, **{column: cells + _GAP})
        rest -= cells + _GAP
    if columns.verdict:
        whole = min(rest, max(0, min(verdict, _MOST_VERDICT) + _GAP - columns.verdict))
        columns, rest = replace(columns, verdict=columns.verdict + whole), rest - whole
    wider = min(rest, name + _GAP - columns.name)
    columns, rest = replace(columns, name=columns.name + wider), rest - wider
    return replace(columns, verdict=columns.verdict + rest) if columns.verdict else columns


def _name(entry: RunEntry) -> str:
    return entry.name.display + (f" ({entry.streams} streams)" if entry.streams > 1 else "")


def _trainer(entry: RunEntry) -> str:
    return " · ".join(part for part in (entry.dialect, entry.algorithm) if part)


def _verdict(entry: RunEntry) -> str:
    return entry.verdict + (f" +{entry.more}" if entry.more else "")


def _state(entry: RunEntry) -> str:
    if entry.state is RunState.LOADING and entry.loading is not None:
        return units.share(entry.loading)
    return entry.state.value


def _age(entry: RunEntry) -> str:
    return "" if entry.age_s is None else age_text(entry.age_s)


def _step(entry: RunEntry) -> str:
    if entry.step is None:
        return units.UNKNOWN
    total = f" / {units.step(entry.total_steps)}" if entry.total_steps is not None else ""
    return units.step(entry.step) + total


def paint_runs(
    entries: Sequence[RunEntry],
    width: int,
    height: int | None,
    glyphs: Glyphs,
    *,
    top: int = 0,
    total: int | None = None,
    shown: str = "",
) -> list[Row]:
    """The list from the entry `top` on, under a title and a head.

    Args:
        entries: those that match, in order.
        width: cells.
        height: rows; None is as many as there are entries.
        glyphs: signs.
        top: number of the first entry in view.
        total: how many runs there are; None is as many as entries.
        shown: path of the run that the other pages are about.
    """
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    room = len(entries) if height is None else height - HEAD_ROWS
    columns = _columns(entries, width)
    rows = [_paint_title(entries, top, room, total, width, glyphs), _paint_head(columns, width, glyphs)]
    if not entries:
        rows.append(text_row("no run matches", width, glyphs, "dim"))
    rows += [
        _paint_entry(one, columns, width, glyphs, is_shown=one.path.raw == shown) for one in entries[top : top + room]
    ]
    return fill(rows, height)


def _paint_title(
    entries: Sequence[RunEntry], top: int, room: int, total: int | None, width: int, glyphs: Glyphs
) -> Row:
    builder = RowBuilder(width, glyphs).add(" RUNS", "title").add("  ")
    builder.add(units.count(len(entries)), "value")
    if total is not None and total != len(entries):
        builder.add(f" of {units.count(total)}", "dim")
    for state in (RunState.DIED, RunState.LOST):
        number = sum(one.state is state for one in entries)
        if number:
            builder.add(f"   {glyphs.state(state)} {units.count(number)} {state.value}", STATE_ROLES[state])
    for level in (Level.CRIT, Level.WARN):
        number = sum(one.level is level for one in entries)
        if number:
            builder.add(f"   {glyphs.level(level)} {units.count(number)} {level.word}", LEVEL_ROLES[level])
    live = sum(one.state is RunState.LIVE for one in entries)
    if live:
        builder.add(f"   {glyphs.state(RunState.LIVE)} {units.count(live)} live", "live")
    if top:
        builder.add(f"   {glyphs.rise} {units.count(top)} above", "dim")
    hidden = len(entries) - top - room
    if hidden > 0:
        builder.add(f"   {glyphs.fall} {units.count(hidden)} below", "dim")
    return builder.row()


def _paint_head(columns: _Columns, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" " * _SIGN).left("run", columns.name, "dim")
    builder.left("trainer" if columns.trainer else "", columns.trainer, "dim")
    if columns.step:
        builder.right("step", columns.step - _GAP, "dim").add(" " * _GAP)
    builder.left("state", columns.state, "dim")
    if columns.age:
        builder.left("age", columns.age, "dim")
    return builder.left("worst" if columns.verdict else "", columns.verdict, "dim").row()


def _paint_entry(entry: RunEntry, columns: _Columns, width: int, glyphs: Glyphs, *, is_shown: bool) -> Row:
    is_gone = entry.state in _GONE
    role, state_role = LEVEL_ROLES[entry.attention], STATE_ROLES.get(entry.state, "dim")
    sign = glyphs.state(entry.state) if is_gone else glyphs.level(entry.level)
    builder = RowBuilder(width, glyphs).add(" ").add(f"{sign} ", role)
    name = clip_middle(_name(entry), columns.name - _GAP)
    builder.left(name, columns.name, "strong" if is_shown else "text")
    if columns.trainer:
        builder.left(clip_middle(_trainer(entry), columns.trainer - _GAP), columns.trainer, "note")
    if columns.step:
        builder.right(_step(entry), columns.step - _GAP, "value").add(" " * _GAP)
    builder.left(f"{glyphs.state(entry.state)} {_state(entry)}", columns.state, state_role)
    if columns.age:
        builder.left(_age(entry), columns.age, "dim")
    if columns.verdict and entry.verdict:
        more = f" +{entry.more}" if entry.more else ""
        # Of a title the end tells most, of an error its name.
        shorten = clip if entry.state is RunState.DIED else clip_middle
        builder.add(shorten(entry.verdict, columns.verdict - _GAP - len(more)), role).add(more, "dim")
    return builder.row(Target(TargetKind.RUN, entry.path.raw))


class RunsPage(ListPage):
    """All runs that are followed, what needs attention first; Enter shows one."""

    filter_hint = "part of a name, a path, a trainer, a state or a verdict"
    tells_counts: ClassVar[bool] = True
    help = (
        "Every run that is followed: its trainer, its step, whether it is alive, and the worst that fires. What needs "
        "attention comes first: what died, the worst level, what has fallen silent, what goes on. {open} shows a "
        "run, {find} filters, {runs} goes back to the run that was shown."
    )

    def __init__(self) -> None:
        """Every run, what comes first chosen."""
        super().__init__()
        self._entries: list[RunEntry] = []
        self._query = ""
        self._chosen: str | None = None
        self._at = 0
        self._top = 0

    def entered(self, moment: Moment) -> None:
        """Begin at the run that was picked before; until one is, what comes first is chosen, whichever that is."""
        self._chosen = moment.picked

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The runs around the chosen one."""
        self._entries = list_runs(map(Snapshot, moment.runs), self._query)
        self._settle()
        self._top = top_of(self._at, self._top, max(1, height - HEAD_ROWS), len(self._entries))
        total, shown = len(moment.runs), moment.run.path.raw
        return paint_runs(self._entries, width, height, moment.glyphs, top=self._top, total=total, shown=shown)

    def face(self, moment: Moment) -> Hashable:
        """What changes with time alone: states, ages and silence."""
        entries = list_runs(map(Snapshot, moment.runs), self._query)
        return tuple((one.path.raw, one.state, one.age_s and one.age_s // 5, one.level) for one in entries)

    def _settle(self) -> None:
        """Find the chosen run again, wherever it stands now."""
        places = {one.path.raw: i for i, one in enumerate(self._entries)}
        self._at = 0 if self._chosen is None else places.get(self._chosen, self._at)
        self._at = max(0, min(self._at, len(self._entries) - 1))

    def move(self, by: int) -> Effect | None:
        """Choose the run that lies `by` lines away."""
        if not self._entries:
            return None
        self._at = max(0, min(self._at + by, len(self._entries) - 1))
        self._chosen = self._entries[self._at].path.raw
        return Redraw()

    @property
    def chosen(self) -> Target | None:
        """The run that is lit up."""
        return Target(TargetKind.RUN, self._entries[self._at].path.raw) if self._entries else None

    def choose(self, target: Target) -> None:
        """A click has chosen another run."""
        # What was chosen by where it stands is not held on to: another may come to stand there.
        if self.chosen is None or target.name != self.chosen.name:
            self._chosen = target.name

    def show_only(self, text: str) -> Effect | None:
        """Show the runs with this text, the first of them chosen."""
        self._query = text
        if text.strip():
            self._chosen, self._at = None, 0
        return Redraw()

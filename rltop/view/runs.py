"""All runs that are followed, one row each: what needs attention first.

Owns the order, the filter and the columns; a row is read from any `RunSource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rltop import units
from rltop.model import Label, Level, RunState, VerdictState
from rltop.structs import Struct
from rltop.view.cells import RowBuilder, clip_middle, fill, text_row, too_small
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.header import STATE_ROLES, age_text
from rltop.view.lines import Row, Target, TargetKind
from rltop.view.source import RunSource

LEAST = (40, 12)
HEAD_ROWS = 2
_STATES = (
    RunState.DIED, RunState.LOST, RunState.STALLED, RunState.QUIET, RunState.LIVE, RunState.LOADING, RunState.PAUSED,
    RunState.WAITING, RunState.FINISHED, RunState.ENDED,
)  # fmt: skip
"""Of equally bad runs, those that may need somebody come before those that go on, and these before what is over."""


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
        verdict: title of the worst verdict, empty where none fires.
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


def read_entry(run: RunSource) -> RunEntry:
    """What the list says of a run."""
    identity = run.identity
    firing = [verdict for verdict in run.verdicts if verdict.state is VerdictState.FIRING]
    worst = max(firing, key=lambda verdict: verdict.level, default=None)
    level = Level.OK if worst is None else worst.level
    has_rows = any(each.stream.rows for each in (run, *run.beside))
    return RunEntry(
        name=run.name,
        path=run.path,
        dialect="" if identity is None else identity.dialect.name,
        algorithm="" if identity is None else identity.algorithm.display_name,
        step=run.stream.last_step,
        total_steps=run.stream.total_steps or None,
        streams=1 + sum(not part.is_rank for part in run.beside),
        state=run.state,
        age_s=run.age_s,
        loading=run.loading,
        level=level if has_rows or firing else Level.NO_DATA,
        verdict="" if worst is None else Label.of(worst.title).display,
        more=max(0, len(firing) - 1),
    )


def list_runs(runs: Iterable[RunSource], query: str = "") -> list[RunEntry]:
    """The runs whose name, path, trainer, state or verdict has every word of `query`; what needs attention first."""
    return in_order((read_entry(run) for run in runs), query)


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
    level = entry.level if entry.level >= Level.WARN else Level.OK
    age_s = entry.age_s if entry.age_s is not None else float("inf")
    # An age to the minute, so that rows do not change places with every record.
    return -level, _STATES.index(entry.state), age_s // 60, entry.path.raw


class _Columns(Struct):
    """Cells of each column; 0 leaves it out."""

    name: int
    dialect: int
    step: int
    state: int
    age: int
    verdict: int


def _columns(entries: Sequence[RunEntry], width: int) -> _Columns:
    step = max([4, *(len(_step_text(one)) for one in entries[:200])]) + 2 if width >= 56 else 0
    dialect = max([len(_trainer(one)) for one in entries[:200]], default=0) + 2 if width >= 100 else 0
    dialect = min(dialect, width // 4)
    state, age = 11, 9 if width >= 64 else 0
    rest = width - 3 - step - dialect - state - age
    worst = max([len(one.verdict) + 4 for one in entries[:200]], default=0) + 1
    verdict = min(worst, 30, rest // 2) if width >= 72 else 0
    longest = max([len(_name(one)) for one in entries[:200]], default=0) + 2
    name = max(12, min(rest - verdict, longest))
    return _Columns(name, dialect, step, state, age, max(0, rest - name) if width >= 72 else 0)


def _name(entry: RunEntry) -> str:
    return entry.name.display + (f" ({entry.streams} streams)" if entry.streams > 1 else "")


def _trainer(entry: RunEntry) -> str:
    return " · ".join(part for part in (entry.dialect, entry.algorithm) if part)


def _step_text(entry: RunEntry) -> str:
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
    builder = RowBuilder(width, glyphs).add("   ").left("run", columns.name, "dim")
    builder.left("trainer" if columns.dialect else "", columns.dialect, "dim")
    if columns.step:
        builder.right("step", columns.step - 2, "dim").add("  ")
    builder.left("state", columns.state, "dim")
    if columns.age:
        builder.left("age", columns.age, "dim")
    return builder.left("worst" if columns.verdict else "", columns.verdict, "dim").row()


def _paint_entry(entry: RunEntry, columns: _Columns, width: int, glyphs: Glyphs, *, is_shown: bool) -> Row:
    role = LEVEL_ROLES[entry.level]
    builder = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.level(entry.level)} ", role)
    name = clip_middle(_name(entry), columns.name - 1)
    builder.left(name, columns.name, "strong" if is_shown else "text")
    if columns.dialect:
        builder.left(clip_middle(_trainer(entry), columns.dialect - 1), columns.dialect, "note")
    if columns.step:
        builder.right(_step_text(entry), columns.step - 2, "value").add("  ")
    word = f"{glyphs.state(entry.state)} {entry.state.value}"
    if entry.state is RunState.LOADING and entry.loading is not None:
        word = f"{glyphs.state(entry.state)} {units.share(entry.loading)}"
    builder.left(word, columns.state, STATE_ROLES.get(entry.state, "dim"))
    if columns.age:
        builder.left("" if entry.age_s is None else age_text(entry.age_s), columns.age, "dim")
    if columns.verdict and entry.verdict:
        more = f" +{entry.more}" if entry.more else ""
        builder.add(clip_middle(entry.verdict, max(4, columns.verdict - len(more) - 1)), role).add(more, "dim")
    return builder.row(Target(TargetKind.RUN, entry.path.raw))

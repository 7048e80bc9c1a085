"""All runs that are followed, one row each: what needs attention first.

Owns the order, the filter and the columns; a row is read from a `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rltop import units
from rltop.model import Label, Level, RunState, Verdict, VerdictState
from rltop.pages.header import STATE_ROLES, age_text
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, ListPage, Mark, Open, Redraw, top_of
from rltop.pages.past_alerts import alert_name, alert_role, first_mover, incident_count, worse_before
from rltop.pages.query import read_query, unknown_names
from rltop.pages.run_numbers import REWARDS, VALIDATIONS, AskedRun, Value, best, newest, pace_s
from rltop.rows.cells import RowBuilder, clip, clip_middle, fill, text_row, too_small
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE, Glyphs
from rltop.rows.keys import Where
from rltop.rows.rows import Line, Piece, Row, Target, TargetKind
from rltop.rows.table import Cell, Column, Kind, Sorting, Table, TablePainter, sort_items
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.run.worst import Alert

LEAST = (40, 12)
HEAD_ROWS = 2
_STATES = (
    RunState.DIED, RunState.LOST, RunState.STALLED, RunState.QUIET, RunState.LIVE, RunState.LOADING, RunState.PAUSED,
    RunState.WAITING, RunState.FINISHED, RunState.ENDED,
)  # fmt: skip
"""Of equally bad runs, those that may need somebody come before those that go on, and these before what is over."""


_MOST_ASKED = 200
"""Runs that are asked whether they know a name by which no run was found."""
_GONE = frozenset({RunState.DIED, RunState.LOST})


@dataclass(frozen=True, slots=True)
class RunEntry:
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
        more: further incidents: alerts that began together are one.
        worst: the worst alert that is over, where it was worse than what fires; None without one.
        is_milder: that alert is the one shown, which has settled at a lower level.
        reward, best: the newest reward; the best validation and where it was.
        pace_s: seconds a step takes now.
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
    worst: Alert | None = None
    is_milder: bool = False
    reward: Value | None = None
    best: Value | None = None
    pace_s: float | None = None

    @property
    def attention(self) -> Level:
        """How much it wants to be looked at: a dead run, as much as the worst verdict."""
        return Level.CRIT if self.state in _GONE else self.level

    @property
    def past(self) -> str:
        """The worst alert that is over, in words; may be empty."""
        if self.worst is None:
            return ""
        if self.is_milder:
            return f"was {self.worst.level.word.upper()}"
        return f"{'earlier attempt' if self.worst.is_earlier else 'was'} {_past_name(self.worst)}"


def read_entry(snapshot: Snapshot) -> RunEntry:
    """What the list says of a run."""
    identity = snapshot.identity
    firing = [verdict for verdict in snapshot.verdicts.standing if verdict.is_active]
    worst = max(firing, key=lambda verdict: (verdict.level, verdict.state is not VerdictState.SETTLED), default=None)
    level = max((verdict.level for verdict in firing), default=Level.OK)
    what = "" if worst is None else _what(worst)
    more = max(0, incident_count(firing) - 1)
    if snapshot.now.state is RunState.DIED and snapshot.now.failure.raw:
        what, more = snapshot.now.failure.display, incident_count(firing)
    past = worse_before(snapshot.verdicts.history, max(level, Level.INFO))
    is_milder = worst is not None and past is not None and (past.rule, past.stream) == (worst.rule, worst.stream)
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
        worst=past,
        is_milder=is_milder and past is not None and past.recovered_step is None and not past.is_earlier,
        reward=newest(snapshot, REWARDS),
        best=best(snapshot, VALIDATIONS),
        pace_s=pace_s(snapshot),
    )


def _what(worst: Verdict) -> str:
    """The worst alert, behind the one that began its incident."""
    settled = " (settled)" if worst.state is VerdictState.SETTLED else ""
    first = first_mover(worst)
    return Label.of(f"{first}, {worst.title}{settled}" if first else f"{worst.title}{settled}").display


def _past_name(alert: Alert) -> str:
    return f"{alert_name(alert)} @{units.step(alert.since_step)}"


def list_runs(snapshots: Iterable[Snapshot], query: str = "") -> list[RunEntry]:
    """The runs for which the query holds; what needs attention first.

    Args:
        snapshots: of all runs.
        query: words and comparisons, see `query`.
    """
    wanted = read_query(query)
    found = ((read_entry(snapshot), snapshot) for snapshot in snapshots)
    return by_attention(one for one, snapshot in found if not wanted.terms or wanted.holds(_asked(one, snapshot)))


def by_attention(entries: Iterable[RunEntry], query: str = "") -> list[RunEntry]:
    """The entries by level, state, and age.

    Args:
        entries: of all runs.
        query: words that a row must have; numbers are not known of entries alone.
    """
    wanted = read_query(query)
    return sorted((one for one in entries if not wanted.terms or wanted.holds(_asked(one))), key=_urgency)


def _asked(entry: RunEntry, snapshot: Snapshot | None = None) -> AskedRun:
    """A run as a query sees it: rules and families are those that stand, or did."""
    alerts: list[tuple[str, str]] = []
    if snapshot is not None:
        alerts = [(one.rule, one.family) for one in snapshot.verdicts.history.alerts if not one.is_muted]
        alerts += [(one.rule, one.family) for one in snapshot.verdicts.standing if one.is_active]
    worst = max(entry.attention, entry.worst.level if entry.worst is not None else Level.NO_DATA)
    told = {
        "name": (entry.name.raw,), "path": (entry.path.raw,), "trainer": (entry.dialect,),
        "algorithm": (entry.algorithm,), "state": (entry.state.value,), "level": (entry.level.word,),
        "worst": (worst.word,), "rule": [rule for rule, _ in alerts], "family": [family for _, family in alerts],
    }  # fmt: skip
    return AskedRun(snapshot, told, _words(entry))


def sort_runs(entries: Sequence[RunEntry], sorting: Sorting | None) -> list[RunEntry]:
    """The runs by a column of their list; None leaves what needs attention first.

    Args:
        entries: those that need attention first.
        sorting: the column, and which way.
    """
    return sort_items(entries, run_columns((), UNICODE), sorting)


def _words(entry: RunEntry) -> str:
    parts = (
        entry.name.raw, entry.path.raw, entry.dialect, entry.algorithm, entry.state.value, entry.level.word,
        entry.verdict, entry.past,
    )  # fmt: skip
    return " ".join(parts).casefold()


def _urgency(entry: RunEntry) -> tuple[int, int, int, float, str]:
    level = entry.attention if entry.attention >= Level.WARN else Level.OK
    age_s = entry.age_s if entry.age_s is not None else float("inf")
    # An age to the minute, so that rows do not change places with every record.
    past = Level.OK if entry.worst is None or entry.worst.is_earlier else entry.worst.level
    return -level, _STATES.index(entry.state), -past, age_s // 60, entry.path.raw


_LEAST_NAME = 16
_LEAST_VERDICT = 16
_LEAST_AGE = len("119 min ago")
_LEAST_STATE = len("✓ finished")
_MOST_TRAINER = 28
_MARK_ROLES = 8


def run_columns(
    entries: Sequence[RunEntry], glyphs: Glyphs, shown: str = "", marked: Sequence[str] = ()
) -> Sequence[Column[RunEntry]]:
    """The columns of the list; of a narrow screen the trainer leaves first, then the age, the step and the verdict.

    Args:
        entries: all of them.
        glyphs: signs.
        shown: path of the run that the other pages are about.
        marked: paths of the runs that are compared.
    """
    # A step is as wide as it will be when the run has made all of them.
    last = max((one.total_steps for one in entries if one.total_steps is not None), default=0)
    return (
        Column("", lambda one: _mark(one, marked), is_right=False),
        Column(
            "run",
            lambda one: _name(one, "strong" if one.path.raw == shown else "text"),
            Kind.NAME,
            least=_LEAST_NAME,
            sort=lambda one: one.name.raw.casefold(),
        ),
        Column("trainer", lambda one: (_trainer(one), "note"), Kind.NAME, 16, _MOST_TRAINER, priority=4, sort=_trainer),
        Column(
            "step",
            lambda one: (_step(one), "value"),
            least=max(6, 2 * len(units.step(last)) + 3 if last else 0),
            priority=2,
            sort=lambda one: one.step,
        ),
        Column(
            "state",
            lambda one: (f"{glyphs.state(one.state)} {_state(one)}", STATE_ROLES.get(one.state, "dim")),
            least=_LEAST_STATE,
            is_right=False,
            sort=lambda one: -_STATES.index(one.state),
        ),
        Column("reward", lambda one: (_number(one.reward), "value"), priority=5, sort=lambda one: _key(one.reward)),
        Column("best val", lambda one: (_best(one), "value"), priority=6, sort=lambda one: _key(one.best)),
        Column(
            "s/step",
            lambda one: ("" if one.pace_s is None else units.duration(one.pace_s), "value"),
            priority=7,
            sort=lambda one: one.pace_s,
        ),
        Column("age", lambda one: (_age(one), "dim"), least=_LEAST_AGE, priority=3, sort=lambda one: one.age_s),
        Column(
            "alerts",
            _paint_verdict,
            Kind.DRAWN,
            least=_LEAST_VERDICT,
            priority=1,
            wants=lambda one: cell_width(_verdict(one)),
            sort=lambda one: one.attention,
        ),
    )


def _mark(entry: RunEntry, marked: Sequence[str]) -> Cell:
    """The number of a marked run, as it stands in table and chart where runs are compared."""
    if entry.path.raw not in marked:
        return "", "dim"
    number = marked.index(entry.path.raw) + 1
    return str(number), f"stage-{(number - 1) % _MARK_ROLES}"


def _name(entry: RunEntry, role: str) -> Cell:
    if entry.streams == 1:
        return entry.name.display, role
    return Piece(entry.name.display, role), Piece(f" ({entry.streams} streams)", role)


def _number(found: Value | None, *, has_step: bool = False) -> str:
    if found is None:
        return ""
    return f"{units.measure(found.value, found.unit)}{f' @{units.step(found.step)}' if has_step else ''}"


def _key(found: Value | None) -> float | None:
    return None if found is None else found.value


def _best(entry: RunEntry) -> str:
    return _number(entry.best, has_step=True)


def _trainer(entry: RunEntry) -> str:
    return " · ".join(part for part in (entry.dialect, entry.algorithm) if part)


def _verdict(entry: RunEntry) -> str:
    now = entry.verdict + (f" +{entry.more}" if entry.more else "")
    return " · ".join(part for part in (now, entry.past) if part)


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
    sorting: Sorting | None = None,
    marked: Sequence[str] = (),
    trouble: str = "",
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
        sorting: the order that the heads show; the entries are in it already.
        marked: paths of the runs that are compared.
        trouble: what of the filter was not understood.
    """
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    room = len(entries) if height is None else height - HEAD_ROWS
    painter = TablePainter(run_table(entries, glyphs, shown, sorting, marked), width, glyphs)
    rows = [_paint_title(entries, top, room, total, width, glyphs), painter.head()]
    if trouble:
        rows[0] = RowBuilder(width, glyphs).line(rows[0].line).add(f"   {trouble}", "warn").row()
    if not entries:
        rows.append(text_row("no run matches", width, glyphs, "dim"))
    rows += [painter.row(number) for number in range(len(entries))[top : top + room]]
    return fill(rows, height)


def run_table(
    entries: Sequence[RunEntry],
    glyphs: Glyphs,
    shown: str = "",
    sorting: Sorting | None = None,
    marked: Sequence[str] = (),
) -> Table[RunEntry]:
    """The runs in rows; each leads to its overview.

    Args:
        entries: in order.
        glyphs: the signs to draw with.
        shown: path of the run that the other pages are about.
        sorting: the order that the heads show.
        marked: paths of the runs that are marked.
    """
    return Table(
        run_columns(entries, glyphs, shown, marked),
        entries,
        target=lambda one: Target(TargetKind.RUN, one.path.raw),
        sorting=sorting,
        is_sortable=True,
        sign=lambda one: _sign(one, glyphs),
    )


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


def _sign(entry: RunEntry, glyphs: Glyphs) -> tuple[str, str]:
    return glyphs.level(entry.attention), LEVEL_ROLES[entry.attention]


def _paint_verdict(entry: RunEntry, cells: int) -> Line:
    more = f" +{entry.more}" if entry.verdict and entry.more else ""
    now, past = entry.verdict, entry.past
    if entry.worst is not None and now:
        if cell_width(f"{now}{more} · {past}") > cells and entry.attention < Level.WARN:
            # What was an alert is worth more than what is none; milder now, it is named itself.
            now, more, past = "", "", f"was {_past_name(entry.worst)}"
        elif cell_width(f"{now}{more} · {past}") > cells:
            past = ""
        else:
            past = f" · {past}"
    # Of a title the end tells most, of an error its name.
    shorten = clip if entry.state is RunState.DIED else clip_middle
    text = shorten(now, max(0, cells - len(more) - cell_width(past))) if now else ""
    role = "text" if entry.worst is None else alert_role(entry.worst)
    return Piece(text, LEVEL_ROLES[entry.attention]), Piece(more, "dim"), Piece(clip_middle(past, cells), role)


class RunsPage(ListPage):
    """All runs that are followed, what needs attention first; Enter shows one."""

    where = (Where.RUNS, Where.TABLE)
    filter_hint = "words, or reward>0.5 state:live rule:O11 lr<1e-5 adv_estimator=grpo -word"
    tells_counts: ClassVar[bool] = True
    help = (
        "All runs: trainer, step, state, and the worst alert. Those that need attention come first: died, then by "
        "alert level, stalled, live, finished. {open} opens a run, {mark} marks it and {compare} compares the marked "
        "ones, {sort} sorts by the next column, {runs} goes back to the run shown before. {find} filters: words, or "
        "reward>0.5 state:live rule:O11 lr<1e-5 adv_estimator=grpo (metrics, then settings), a minus before what is not"
        " wanted."
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
        self._entries = sort_runs(list_runs(map(Snapshot, moment.runs), self._query), self.sorting)
        self._settle()
        self._top = top_of(self._at, self._top, max(1, height - HEAD_ROWS), len(self._entries))
        total, shown = len(moment.runs), moment.run.path.raw
        return paint_runs(
            self._entries, width, height, moment.glyphs,
            top=self._top, total=total, shown=shown, sorting=self.sorting, marked=moment.marked,
            trouble=self._trouble(moment),
        )  # fmt: skip

    def _trouble(self, moment: Moment) -> str:
        """What of the filter was not understood; a name is looked for among all runs only where none matches."""
        query = read_query(self._query)
        if query.trouble or self._entries:
            return query.trouble
        asked = [_asked(read_entry(one), one) for one in map(Snapshot, moment.runs[:_MOST_ASKED])]
        unknown = unknown_names(query, asked)
        return f"no run logs or sets {', '.join(unknown)}" if unknown else ""

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
        """The run that is selected."""
        return Target(TargetKind.RUN, self._entries[self._at].path.raw) if self._entries else None

    def choose(self, target: Target) -> None:
        """A click has chosen another run."""
        # What was chosen by where it stands is not held on to: another may come to stand there.
        if self.chosen is None or target.name != self.chosen.name:
            self._chosen = target.name

    def on(self, key: str, moment: Moment) -> Effect | None:
        """Mark the chosen run, or compare those that are marked."""
        if key == "mark" and self.chosen is not None:
            return Mark(self.chosen.name)
        if key == "compare":
            return Open(Target(TargetKind.COMPARE))
        return None

    def show_only(self, text: str) -> Effect | None:
        """Show the runs with this text, the first of them chosen."""
        self._query = text
        if text.strip():
            self._chosen, self._at = None, 0
        return Redraw()

"""All followed runs, one row each, those that need attention first.

Owns the order, the columns, and the query language of the filter: `reward>0.5 state:live rule:O11 lr<1e-5 -verl`. A
word without an operator is searched for in name, path, trainer, algorithm, state and alerts. Every term must hold; one
with a leading minus must not. A name that is neither column nor metric is a setting: `kl_coef>0`,
`adv_estimator=grpo`; with the prefix `cfg.` it always is one.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from rltop import units
from rltop.catalog.metrics import CATALOG
from rltop.model import Level, RunState
from rltop.pages.alerts import alert_role
from rltop.pages.header import STATE_ROLES, pace_of
from rltop.pages.page import Effect, ListPage, MarkRun, Moment, Open, Say
from rltop.pages.run_entry import (
    REWARDS,
    SPEEDS,
    VALIDATIONS,
    Entries,
    RunEntry,
    age_cell,
    best,
    duration_text,
    newest,
    past_name,
    speed_text,
    state_cell,
    value_column,
    value_of,
    value_with_step,
)
from rltop.pages.run_settings import Difference, differences, setting_columns
from rltop.pages.signals import generic_signal, primary, read_spark
from rltop.regex import regex
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.keys import NO_KEYS, KeyNames, Scope
from rltop.rows.rows import Line, Piece, Row, RowBuilder, Target, TargetKind, clip, clip_shared, fill, text_rows
from rltop.rows.sparkline import fitted, sparkline
from rltop.rows.table import Cell, Column, Fit, Sorting, Table, TablePainter, amount, sort_items
from rltop.run.run import Run
from rltop.run.session import CROWD
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple, Remembered

HEAD_ROWS = 2
_STATES = (
    RunState.DIED, RunState.LOST, RunState.STUCK, RunState.QUIET, RunState.LIVE, RunState.LOADING, RunState.PAUSED,
    RunState.WAITING, RunState.FINISHED, RunState.INTERRUPTED, RunState.ENDED,
)  # fmt: skip
"""Order of runs at the same level: those that may need attention, then running ones, then finished ones."""

_MOST_ASKED = 200
"""Most runs searched for a name in the filter when no run matches."""
_MOST_SHOWN = 100
"""Rows of the highest screen; ages of runs out of view are ignored."""
_MOST_LINES = 4
"""Most rows of the message about a filter that was not understood."""
_MOST_COMPARED = 64
"""Most runs of which settings are compared although none are marked."""


def by_attention(entries: Iterable[RunEntry]) -> list[RunEntry]:
    return sorted(entries, key=_urgency)


def matching(entries: Iterable[tuple[RunEntry, Run]], query: Query) -> Iterator[RunEntry]:
    return (one for one, run in entries if not query.terms or query.holds(_asked(one, Snapshot(run))))


def _asked(entry: RunEntry, snapshot: Snapshot) -> QueriedRun:
    """A run as a query sees it, with the rules and families of its active and past alerts."""
    alerts: list[tuple[str, str]] = []
    if entry.is_judged:
        alerts = [(one.rule, one.family) for one in snapshot.history.alerts if not one.is_muted]
        alerts += [(one.rule, one.family) for one in snapshot.standing if one.is_active]
    worst = max(entry.attention, entry.worst.level if entry.worst is not None else Level.NO_DATA)
    told = {
        "name": (entry.name.raw,), "path": (entry.path.raw,), "trainer": (entry.dialect,),
        "algorithm": (entry.algorithm,), "state": (entry.state.value,), "level": (entry.level.word,),
        "worst": (worst.word,), "rule": [rule for rule, _ in alerts], "family": [family for _, family in alerts],
    }  # fmt: skip
    return QueriedRun(snapshot, told, _words(entry))


def _words(entry: RunEntry) -> str:
    parts = (
        entry.name.raw, entry.path.raw, entry.dialect, entry.algorithm, entry.state.value, entry.level.word,
        entry.verdict, entry.past,
    )  # fmt: skip
    return " ".join(parts).casefold()


def _urgency(entry: RunEntry) -> tuple[int, int, int, float, str]:
    level = entry.attention if entry.attention >= Level.WARN else Level.OK
    # In whole minutes, so that rows do not change places with every record; by the clock, as they are read one by one.
    is_new = entry.age_s is not None and entry.age_s < 60.0
    newest = math.inf if is_new else -math.inf if entry.newest_s is None else entry.newest_s // 60
    past = Level.OK if entry.worst is None or entry.worst.is_earlier else entry.worst.level
    return -level, _STATES.index(entry.state), -past, -newest, entry.path.raw


_LEAST_NAME = 20
_NAME_SHARE = 3
"""A name may take up to 1/`_NAME_SHARE` of the width before less important columns get any."""
_LEAST_VERDICT, _LIKED_VERDICT = 16, 28
_LEAST_AGE = len("119 min ago")
_LEAST_STATE = len("✓ finished")
_MOST_TRAINER = 16
_LEAST_CURVE, _MOST_CURVE = 8, 14
_MARK_ROLES = 8
NOW, EVER = "now", "was"
"""Heads of the columns with the worst active level and the worst past level."""


class ListContext(NamedTuple):
    """What the list shows in addition to the entries.

    Attributes:
        shown: path of the run that the other pages show.
        curve: draws the reward of a run in a number of cells; None omits the column.
        settings: the settings in which runs differ.
        places: path → index of the run's values in `settings`.
        names: names of all runs, listed or not.
        name_cells: width of a name for which less important columns are dropped.
    """

    shown: str = ""
    marked: Sequence[str] = ()
    curve: Callable[[RunEntry, int], Line] | None = None
    settings: Sequence[Difference] = ()
    places: Mapping[str, int] = MappingProxyType({})
    name_cells: int = 0
    names: Sequence[str] = ()


NO_CONTEXT = ListContext()


def run_columns(
    entries: Sequence[RunEntry], glyphs: Glyphs, context: ListContext = NO_CONTEXT
) -> Sequence[Column[RunEntry]]:
    """Without room, columns right of alerts are dropped first, then best value, curve, age, reward, step, alerts."""
    # Wide enough for the last step, so that the column never grows.
    last = max((one.total_steps for one in entries if one.total_steps is not None), default=0)
    return (
        Column(
            EVER, lambda one: (glyphs.levels[one.ever] if one.ever >= Level.WARN else "", LEVEL_ROLES[one.ever]),
            is_right=False,
        ),
        Column("", lambda one: _mark(one, context.marked), is_right=False),
        Column(
            "run", lambda one: _name(one, "strong" if one.path.raw == context.shown else "text"), Fit.NAME,
            least=_LEAST_NAME, sort=lambda one: one.name.raw.casefold(), wanted_width=context.name_cells,
            cut=lambda names, cells: clip_shared(names, cells, context.names),
        ),
        Column(
            "step", lambda one: (_step(one), "value"), least=max(6, 2 * len(units.step(last)) + 3 if last else 0),
            priority=2, sort=lambda one: one.step,
        ),
        Column(
            "state", lambda one: state_cell(one, glyphs), least=_LEAST_STATE, is_right=False,
            sort=lambda one: -_STATES.index(one.state),
        ),
        value_column("reward", lambda one: one.reward, 3),
        *([] if context.curve is None else [_curve_column(context.curve)]),
        value_column("best val", lambda one: one.best, 6, value_with_step),
        Column("age", age_cell, least=_LEAST_AGE, priority=4, sort=lambda one: one.age_s),
        Column(
            "alerts", _paint_verdict, Fit.DRAWN, least=_LEAST_VERDICT, priority=1, wanted_width=_LIKED_VERDICT,
            drawn_width=lambda one: cell_width(_verdict(one)), sort=lambda one: one.attention,
        ),
        amount("s/step", lambda one: one.pace_s, duration_text, priority=7),
        amount("ETA", lambda one: one.eta_s, duration_text, priority=8),
        Column(
            "algorithm", lambda one: (one.algorithm, "note"), Fit.TEXT, least=9, priority=9,
            sort=lambda one: one.algorithm.casefold(),
        ),
        value_column("speed", lambda one: one.speed, 10, speed_text),
        Column(
            "trainer", lambda one: (one.dialect, "note"), Fit.NAME, 8, _MOST_TRAINER, priority=11,
            sort=lambda one: one.dialect.casefold(),
        ),
        *setting_columns(context.settings, lambda one: context.places.get(one.path.raw), priority=12),
    )  # fmt: skip


def _curve_column(curve: Callable[[RunEntry, int], Line]) -> Column[RunEntry]:
    return Column(
        "", curve, Fit.DRAWN, least=_LEAST_CURVE, most=_MOST_CURVE, priority=5,
        drawn_width=lambda one: 0 if one.reward is None else _MOST_CURVE,
    )  # fmt: skip


def _mark(entry: RunEntry, marked: Sequence[str]) -> Cell:
    if entry.path.raw not in marked:
        return "", "dim"
    number = marked.index(entry.path.raw) + 1
    return str(number), f"stage-{(number - 1) % _MARK_ROLES}"


def _name(entry: RunEntry, role: str) -> Cell:
    streams = f"{entry.streams} streams" if entry.streams > 1 else ""
    copies = f"+{units.counted(entry.copies, 'copy', 'copies')}" if entry.copies else ""
    told = ", ".join(filter(None, (streams, copies)))
    return (Piece(entry.name.display, role), Piece(f" ({told})", role)) if told else (entry.name.display, role)


def _verdict(entry: RunEntry) -> str:
    now = entry.verdict + (f" +{entry.more}" if entry.more else "")
    return " · ".join(part for part in (now, entry.past) if part)


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
    dropped: int = 0,
    sorting: Sorting | None = None,
    context: ListContext = NO_CONTEXT,
    trouble: str = "",
    keys: KeyNames = NO_KEYS,
    painter: TablePainter[RunEntry] | None = None,
) -> list[Row]:
    room = len(entries) if height is None else height - HEAD_ROWS
    painter = painter or TablePainter(run_table(entries, glyphs, sorting, context), width, glyphs)
    rows = [_paint_title(entries, top, room, total, dropped, width, glyphs), painter.head()]
    if not entries:
        rows += text_rows(keys.no_match_text("no run"), width, glyphs, "dim", lines=_MOST_LINES)
        rows += text_rows(trouble, width, glyphs, "warn", lines=_MOST_LINES)
    elif trouble:
        rows[0] = RowBuilder(width, glyphs).line(rows[0].line).add(f"   {trouble}", "warn").row()
    rows += [painter.row(number) for number in range(len(entries))[top : top + room]]
    return fill(rows, height)


def run_table(
    entries: Sequence[RunEntry],
    glyphs: Glyphs,
    sorting: Sorting | None = None,
    context: ListContext = NO_CONTEXT,
) -> Table[RunEntry]:
    return Table(
        run_columns(entries, glyphs, context),
        entries,
        target=lambda one: Target(TargetKind.RUN, one.path.raw),
        sorting=sorting,
        is_sortable=True,
        sign=lambda one: (glyphs.levels[one.attention], LEVEL_ROLES[one.attention]),
        sign_head=NOW,
    )


def _paint_title(
    entries: Sequence[RunEntry], top: int, room: int, total: int | None, dropped: int, width: int, glyphs: Glyphs
) -> Row:
    builder = RowBuilder(width, glyphs).add(" RUNS", "title").add("  ")
    builder.add(units.count(len(entries)), "value")
    if total is not None and total != len(entries):
        builder.add(f" of {units.count(total)}", "dim")
    states, levels = Counter(one.state for one in entries), Counter(one.level for one in entries)
    told = [(states[one], glyphs.states[one], one.value, STATE_ROLES[one]) for one in _STATES[:3]]
    told += [(levels[one], glyphs.levels[one], one.word, LEVEL_ROLES[one]) for one in (Level.CRIT, Level.WARN)]
    told.append((states[RunState.LIVE], glyphs.states[RunState.LIVE], "live", "live"))
    parts = [(f"   {sign} {units.count(number)} {word}", role) for number, sign, word, role in told if number]
    if dropped:
        parts.append((f"   {units.count(dropped)} lost not listed", "dim"))
    read, judged = (sum(one.loading is None for one in entries), sum(one.is_judged for one in entries))
    if read < len(entries):
        parts.append((f"   read {units.count(read)} of {units.count(len(entries))}", "dim"))
    elif judged < len(entries):
        parts.append((f"   judged {units.count(judged)} of {units.count(len(entries))}", "dim"))
    if top:
        parts.append((f"   {glyphs.rise} {units.count(top)} above", "dim"))
    hidden = len(entries) - top - room
    if hidden > 0:
        parts.append((f"   {glyphs.fall} {units.count(hidden)} below", "dim"))
    return builder.whole(parts).row()


def _paint_verdict(entry: RunEntry, cells: int) -> Line:
    more = f" +{entry.more}" if entry.verdict and entry.more else ""
    now, past = entry.verdict, entry.past
    if entry.worst is not None and now:
        if cell_width(f"{now}{more} · {past}") > cells and entry.attention < Level.WARN:
            # A past alert matters more than an active INFO; an alert that is milder now is shown by its name.
            now, more, past = "", "", f"was {past_name(entry.worst)}"
        elif cell_width(f"{now}{more} · {past}") > cells:
            past = ""
        else:
            past = f" · {past}"
    text = clip(now, max(0, cells - len(more) - cell_width(past))) if now else ""
    role = "text" if entry.worst is None else alert_role(entry.worst)
    return Piece(text, LEVEL_ROLES[entry.attention]), Piece(more, "dim"), Piece(clip(past, cells), role)


class RunsPage(ListPage[RunEntry]):
    details = frozenset({TargetKind.RUN})
    where = (Scope.RUNS, Scope.TABLE)
    filter_hint = "words, or reward>0.5 state:live rule:O11 lr<1e-5 adv_estimator=grpo -word"
    footer: ClassVar[Sequence[str]] = ("find", "grid")
    tells_counts: ClassVar[bool] = True
    names_runs = True

    def __init__(self) -> None:
        super().__init__()
        self._book = Entries()
        self._remembered = Remembered()
        self._read: tuple[Sequence[Run], list[RunEntry]] = ((), [])
        self._picked: str | None = None

    def entered(self, moment: Moment) -> None:
        """Select a run picked since; else the selection stays: the list was only covered."""
        if moment.picked is not None and moment.picked != self._picked:
            self._picked, self.held = moment.picked, Target(TargetKind.RUN, moment.picked)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        context = self._context(moment)
        columns = run_columns((), moment.glyphs, context)
        entries = sort_items(self._listed(moment), columns, self.sorting)
        self.settle(entries, max(1, height - HEAD_ROWS))
        longest = max((cell_width(one.name.display) for one in entries), default=0)
        # Names that do not fit whole are clipped to their differing parts and need less.
        context = context._replace(name_cells=longest if longest <= width // _NAME_SHARE else 0)
        return paint_runs(
            entries, width, height, moment.glyphs,
            top=self.top, total=len(moment.runs), dropped=moment.dropped, sorting=self.sorting, context=context,
            trouble=self._trouble(moment), keys=moment.keys, painter=self._painter(width, moment.glyphs, context),
        )  # fmt: skip

    def _painter(self, width: int, glyphs: Glyphs, context: ListContext) -> TablePainter[RunEntry]:
        told = id(context.settings), tuple(context.marked), context.shown, context.name_cells
        laid_out_for = (tuple(map(id, self.lines)), width, glyphs, self.sorting, told)
        return self._remembered.of(
            "table",
            laid_out_for,
            lambda: TablePainter(run_table(self.lines, glyphs, self.sorting, context), width, glyphs),
        )

    def _listed(self, moment: Moment) -> list[RunEntry]:
        query = read_query(self.query)
        runs, entries = self._read
        if len(moment.runs) <= CROWD or not entries or list(runs) != list(moment.runs):
            entries = self._read_all(moment.runs)
        return by_attention(matching(zip(entries, moment.runs, strict=True), query))

    def _read_all(self, runs: Sequence[Run]) -> list[RunEntry]:
        is_crowd = len(runs) > CROWD
        self._read = tuple(runs), [self._book.of(run, is_crowd=is_crowd) for run in runs]
        return self._read[1]

    def _context(self, moment: Moment) -> ListContext:
        """The reward curve, and the differing settings of marked runs, else of all runs."""
        by_path = {run.path.raw: run for run in moment.runs}

        def curve(entry: RunEntry, cells: int) -> Line:
            run = by_path.get(entry.path.raw)
            signal = None if run is None or entry.reward is None else primary(Snapshot(run), *REWARDS)
            if run is None or signal is None:
                return ()
            return sparkline(fitted(read_spark(Snapshot(run), signal, 2 * _MOST_CURVE), 2 * cells), moment.glyphs)

        marked = [path for path in moment.marked if path in by_path]
        paths = marked if len(marked) > 1 else list(by_path) if len(by_path) <= _MOST_COMPARED else []
        told = [by_path[path].settings for path in paths]
        found = self._remembered.of("settings", told, lambda: differences(told))
        places = {path: number for number, path in enumerate(paths)}
        names = tuple(run.name.display for run in moment.runs)
        return ListContext(moment.snapshot.run.path.raw, moment.marked, curve, found, places, names=names)

    def _trouble(self, moment: Moment) -> str:
        """What is wrong with the filter; only if no run matches, names are looked up in all runs."""
        query = read_query(self.query)
        if query.trouble or self.lines:
            return query.trouble
        runs, is_crowd = moment.runs[:_MOST_ASKED], len(moment.runs) > CROWD
        asked = [_asked(self._book.of(run, is_crowd=is_crowd), Snapshot(run)) for run in runs]
        unknown = unknown_names(query, asked)
        return f"no run logs or sets {', '.join(unknown)}" if unknown else ""

    def face(self, moment: Moment) -> Hashable:
        shown = {one.path.raw for one in self.lines[self.top : self.top + _MOST_SHOWN]}
        entries = self._read_all(moment.runs)
        return tuple((one.state.value, one.level, age_cell(one) if one.path.raw in shown else ()) for one in entries)

    def target(self, line: RunEntry) -> Target:
        return Target(TargetKind.RUN, line.path.raw)

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key == "mark" and self.chosen is not None:
            return MarkRun(self.chosen.name)
        if key == "compare":
            from rltop.pages.compare import shown_runs  # noqa: PLC0415 - few sessions compare anything

            if len(shown_runs(moment)) < 2:
                return Say(moment.keys.with_keys_named("mark two runs or more ({mark}) to compare them"))
            return Open(Target(TargetKind.COMPARE))
        return None


_TERM = regex(r"(?P<name>[\w./@ -]*[\w@])(?P<sign><=|>=|!=|<|>|=|:)(?P<value>.*)")
_SCALES = {"%": 0.01, "k": 1e3, "m": 1e6, "g": 1e9}

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne, "=": operator.eq,
    ":": operator.eq,
}  # fmt: skip

_ORDERS = ("<", "<=", ">", ">=")

TEXTS = ("name", "path", "trainer", "algorithm", "state", "level", "worst", "rule", "family")
"""Names compared as text: `=` matches the whole, `:` a part."""


_LEVELS = tuple(level.word for level in sorted(Level, reverse=True))
_KNOWN: Mapping[str, Sequence[str]] = {
    "state": [state.value for state in RunState], "level": _LEVELS, "worst": _LEVELS,
}  # fmt: skip
"""All values that some of `TEXTS` can have."""


class QueriedRun(NamedTuple):
    """A run as a query sees it.

    Attributes:
        told: the texts of its row, by the names in `TEXTS`.
        words: the text that a word without an operator is searched in.
    """

    snapshot: Snapshot
    told: dict[str, Sequence[str]]
    words: str

    def number(self, name: str) -> float | None:
        run, lowered = self.snapshot, name.casefold()
        if lowered.startswith(SETTINGS_PREFIX):
            return self._set_number(name)
        if lowered in _COLUMNS:
            return _COLUMNS[lowered](run)
        signal = primary(run, lowered)
        if signal is None:
            alike = (key for key in run.stream.keys if key.casefold().rpartition("/")[2] == lowered)
            key = name if run.stream.has(name) else next(alike, "")
            signal = generic_signal(key) if key else None
        point = None if signal is None else run.stream.latest(signal.key)
        return self._set_number(name) if signal is None or point is None else signal.read(point.value)

    def settings(self, name: str) -> Sequence[str]:
        return [units.setting(value) for value in self._set(name)]

    def _set(self, name: str) -> Sequence[str | float | None]:
        settings = self.snapshot.run.settings
        bare = name[len(SETTINGS_PREFIX) :] if name.casefold().startswith(SETTINGS_PREFIX) else name
        return [] if settings is None else [settings.values[one] for one in settings.find(bare)]

    def _set_number(self, name: str) -> float | None:
        return next((float(one) for one in self._set(name) if isinstance(one, int | float)), None)


SETTINGS_PREFIX = "cfg."


_COLUMNS: Mapping[str, Callable[[Snapshot], float | None]] = {
    "step": lambda run: run.stream.last_step,
    "records": lambda run: float(run.stream.rows),
    "age": lambda run: run.part.age_s,
    "reward": lambda run: value_of(newest(run, REWARDS)),
    "val": lambda run: value_of(newest(run, VALIDATIONS)),
    "best": lambda run: value_of(best(run, VALIDATIONS)),
    "s/step": pace_of,
    "speed": lambda run: value_of(newest(run, SPEEDS)),
}
"""Columns that a query can refer to; ages and paces in seconds."""


class Term(NamedTuple):
    """One term of a query.

    Attributes:
        name: what is compared; empty for a word that is searched for everywhere.
        number: `text` as a number; None if it is none, so that settings are compared as text.
        is_wanted: the term must hold, as opposed to must not.
    """

    name: str
    sign: str
    text: str
    number: float | None
    is_wanted: bool = True

    def holds(self, run: QueriedRun) -> bool:
        return self._is_true(run) is self.is_wanted

    def _is_true(self, run: QueriedRun) -> bool:
        if not self.name:
            return self.text in run.words
        if self.name in TEXTS:
            found = [text.casefold() for text in run.told[self.name]]
            if self.sign == ":":
                return any(self.text in text for text in found)
            return (self.text in found) is (self.sign == "=")
        if self.number is None:
            found = [text.casefold() for text in run.settings(self.name)]
            if self.sign == ":":
                # A path, a time or an address contains a colon too.
                return any(self.text in text for text in found) or f"{self.name}:{self.text}".casefold() in run.words
            return bool(found) and (self.text in found) is (self.sign == "=")
        value = run.number(self.name)
        return value is not None and self.number is not None and _SIGNS[self.sign](value, self.number)


class Query(NamedTuple):
    """A parsed filter.

    Attributes:
        terms: terms that must all hold.
        trouble: what was not understood, in a few words; empty if all was.
    """

    terms: tuple[Term, ...] = ()
    trouble: str = ""

    def holds(self, run: QueriedRun) -> bool:
        return all(term.holds(run) for term in self.terms)


def unknown_names(query: Query, runs: Sequence[QueriedRun]) -> list[str]:
    names = dict.fromkeys(term.name for term in query.terms if term.name and term.name not in TEXTS)
    return [name for name in names if not any(run.number(name) is not None or run.settings(name) for run in runs)]


def read_query(text: str) -> Query:
    """Parse what was typed; an incomplete term is left out and named in `trouble`."""
    terms, trouble = [], ""
    for minus, quoted in re.findall(r'(-?)((?:[^\s"]|"[^"]*"?)+)', text):
        is_wanted, word = not minus, quoted.replace('"', "")
        if not word:
            continue
        found = _TERM.fullmatch(word)
        if found is None:
            terms.append(Term("", "", word.casefold(), None, is_wanted))
            continue
        name, sign, value = found["name"].strip(), found["sign"], found["value"].strip()
        lowered = name.casefold()
        if not value:
            trouble = trouble or f"{name}{sign} wants a value behind it"
        elif lowered in TEXTS:
            if sign not in (":", "=", "!="):
                trouble = trouble or f"{name} is a text: write {name}:{value}"
            else:
                trouble = trouble or _unheard_of(lowered, sign, value.casefold())
                terms.append(Term(lowered, sign, value.casefold(), None, is_wanted))
        elif (number := _number(value)) is None and (sign in _ORDERS or lowered in CATALOG):
            trouble = trouble or f"{value} is not a number; as text: {', '.join(TEXTS)}"
        else:
            terms.append(Term(name, sign, value.casefold(), number, is_wanted))
    return Query(tuple(terms), trouble)


def _unheard_of(name: str, sign: str, value: str) -> str:
    """The possible states or levels if `value` matches none; with `:` a part of one is enough, as while typing."""
    known = _KNOWN.get(name, ())
    if not known or (value in known if sign != ":" else any(value in one for one in known)):
        return ""
    return f"no {name} is called {value}: {', '.join(known)}"


def _number(text: str) -> float | None:
    scale = _SCALES.get(text[-1].casefold(), 1.0)
    try:
        return float(text[:-1] if scale != 1.0 else text) * scale
    except ValueError:
        return None

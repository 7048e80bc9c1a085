"""The tables of pages, by key and by target; and the help page, built from the key table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from rltop.pages.metric import MetricPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.numbered import NumberedPage
from rltop.pages.overview import OverviewPage
from rltop.pages.page import Moment, Page
from rltop.pages.run_settings import SettingsPage
from rltop.pages.runs import RunsPage
from rltop.pages.stragglers import RanksPage
from rltop.pages.timeline import EventsPage
from rltop.pages.timing import TimingPage
from rltop.pages.verdict import RuleMenuPage, SymptomPage, VerdictPage
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import KEYS, KeyNames, Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, rule_row, side_by_side, text_row, text_rows, wrap
from rltop.structs import late

FIRST = "overview"
"""The page that Escape leads back to."""


_flow, _where = late("rltop.pages.flow", "FlowPage"), late("rltop.pages.where", "WherePage")
_comparison, _log = late("rltop.pages.compare", "ComparePage"), late("rltop.pages.log", "LogPage")
_grid, _rollouts = late("rltop.pages.overlay", "GridPage"), late("rltop.pages.rollouts", "RolloutsPage")
_completions = late("rltop.pages.completions", "CompletionsPage")
"""Pages that few sessions open, imported on first use."""

STANDING: Mapping[str, Callable[[], Page]] = MappingProxyType(
    {
        FIRST: OverviewPage,
        "timing": TimingPage,
        "flow": _flow,
        "where": _where,
        "metrics": MetricsPage,
        "timeline": EventsPage,
        "runs": RunsPage,
        "settings": SettingsPage,
    }
)
"""Pages that exist once and keep their state while the program runs, by key id."""


def _verdict_of_event(target: Target, moment: Moment) -> Page:
    event = moment.snapshot.source.events[target.step or 0]
    return VerdictPage(event.rule, event.step, event.stream)


OPENED: Mapping[TargetKind, Callable[[Target, Moment], Page]] = MappingProxyType(
    {
        TargetKind.METRIC: lambda target, _: MetricPage(target.name, target.stream),
        TargetKind.VERDICT: lambda target, _: VerdictPage(target.name, target.step, target.stream),
        TargetKind.EVENT: _verdict_of_event,
        TargetKind.STEP: lambda _, __: TimingPage(),
        TargetKind.TIMING: lambda target, _: TimingPage(target),
        TargetKind.FLOW: lambda _, __: _flow(),
        TargetKind.WHERE: lambda _, __: _where(),
        TargetKind.NUMBERED: lambda target, _: NumberedPage(target.name, target.stream),
        TargetKind.RANKS: lambda _, __: RanksPage(),
        TargetKind.SECTION: lambda target, _: MetricsPage(target.name),
        TargetKind.STRAGGLERS: lambda _, __: _rollouts(_completions),
        TargetKind.COMPARE: lambda _, __: _comparison(),
        TargetKind.GRID: lambda target, _: _grid(of_runs=bool(target.name)),
        TargetKind.LOG: lambda _, __: _log(),
        TargetKind.SYMPTOM: lambda target, _: SymptomPage(target.name, target.stream),
        TargetKind.RULE: lambda target, _: RuleMenuPage(target.name, target.stream),
    }
)
"""Pages that are created anew each time they are opened on top of others, by kind of target."""


_KEY_CELLS = 16

_COLUMN_CELLS = 56
"""Least width of a column of keys, so that most descriptions fit on one line."""

_MOST_COLUMNS = 3
_SEP = "  "


class HelpPage(Page):
    least = (1, 1)
    footer = ("find",)
    search_hint = "a key, or what it does"
    names_runs = True  # it is about none

    def __init__(self, about: str, keys: KeyNames, own: Sequence[Scope] = ()) -> None:
        super().__init__()
        self._about = keys.with_keys_named(about)
        self._names = keys
        self._order = tuple(dict.fromkeys((*own, *KEYS)))

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The purpose of the page underneath, then every key by scope, that page's own scopes first.

        On a wide screen the keys are in columns, one screenful after the other.
        """
        glyphs = moment.glyphs
        rows = text_rows(self._about, width, glyphs, lines=12)
        rows.append(rule_row(width, glyphs))
        columns = max(1, min(width // _COLUMN_CELLS, _MOST_COLUMNS))
        cells = width // columns
        entries = list(self._entries(cells - (columns > 1), glyphs))
        while entries:
            total, most = sum(map(len, entries)), max(1, height - len(rows) % height)
            each = total if columns == 1 else min(-(-total // columns), most)
            parts, rest = _filled(entries, columns, each)
            while rest and each < most:
                each += 1
                parts, rest = _filled(entries, columns, each)
            rows, entries = [*rows, *side_by_side(parts, cells)], rest
        return rows

    def _entries(self, width: int, glyphs: Glyphs) -> Iterator[list[Row]]:
        """Every key by scope, the first of a scope with the scope's title; long descriptions wrap."""
        cells = min(max(_KEY_CELLS, width // 3), max(len(_SEP.join(keys)) for keys in self._names.names.values()))
        for where in self._order:
            rows = [Row(()), text_row(where.value, width, glyphs, "title")]
            for key in KEYS[where]:
                every = self._names.every(key.id)
                keys = _SEP.join(every)
                if not keys or (key.id == "quit" and {*every} <= {*self._names.every("back")}):
                    # Another action has its keys, and is listed in a row of its own.
                    continue
                for number, line in enumerate(wrap(key.tooltip, max(10, width - cells - 3), 3)):
                    builder = RowBuilder(width, glyphs).add("  ")
                    builder.left("" if number else keys, cells, "strong")
                    rows.append(builder.add(" ").add(line).row())
                yield rows
                rows = []


def _filled(entries: Sequence[list[Row]], columns: int, each: int) -> tuple[list[list[Row]], list[list[Row]]]:
    """Columns of at most `each` rows that split no entry, and the remaining entries."""
    parts: list[list[Row]] = [[]]
    for number, entry in enumerate(entries):
        if parts[-1] and len(parts[-1]) + len(entry) > each:
            if len(parts) == columns:
                return parts, list(entries[number:])
            parts.append([])
        # No blank row above a title at the top of a column.
        parts[-1] += entry if parts[-1] or entry[0].line else entry[1:]
    return parts, []

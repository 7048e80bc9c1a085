"""Every metric of a run: a tree by section and group, filtered while typing.

Owns the place of each key in the tree, the order, folding and the filter. Rows are read only when they come into
view, so four thousand keys cost no more than forty. The statistics of one quantity share a line, named by all their
keys.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from rltop import units
from rltop.catalog.dialect import Identity
from rltop.catalog.families import LEAST_NUMBERED, Family
from rltop.catalog.row_sets import AS_FOUND, Arrangement
from rltop.model import Label, Level, Signal, Verdict
from rltop.model.keys import GENERAL, KeyPath, is_bookkeeping_key, split_key
from rltop.pages.key_metrics import VALUE_CELLS, MetricRow, change_cell, note_line, row_sign, value_cell
from rltop.pages.numbered import numbered_row, numbered_view, shown_member
from rltop.pages.page import Effect, ListPage, Moment, Open, Push, Redraw, Say
from rltop.pages.signals import (
    braces,
    generic_signal,
    read_signal,
    signal_of,
    text_around,
    worst_verdict,
)
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE, Glyphs, cell_width
from rltop.rows.keys import Scope
from rltop.rows.rows import Line, Piece, Row, RowBuilder, Target, TargetKind, clip_distinct, fill, text_row
from rltop.rows.sparkline import fitted, sparkline
from rltop.rows.table import Column, Fit, Table, TablePainter, lay_out
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One line of the tree: a section, a group, or a metric.

    Attributes:
        odd: the outlier among a section's numbered metrics, in words; empty without one.
        row: the metric's row; None for sections and groups.
        depth: 1 for a metric inside a group.
        short: used if `name` does not fit; None if that can only be clipped.
    """

    kind: str
    name: Label
    section: str
    count: int = 0
    is_folded: bool = False
    level: Level = Level.OK
    odd: str = ""
    row: MetricRow | None = None
    depth: int = 0
    short: Label | None = None


def layout_tree(
    index: TreeIndex, query: str = "", folded: frozenset[str] = frozenset(), spread: frozenset[str] = frozenset()
) -> tuple[list[TreeLine | TreeKey], int]:
    """Every line of the tree in order, metrics as bare keys; and the number of matching metrics.

    A filter overrides folding, so that every match is shown.
    """
    matched = match_keys(index, query.replace(ALERTING, " "))
    is_filtered = bool(query.split())
    below: dict[tuple[str, str], int] = {}
    for one in matched:
        below[one.section, ""] = below.get((one.section, ""), 0) + one.size
        if one.group:
            below[one.section, one.group] = below.get((one.section, one.group), 0) + one.size
    lines: list[TreeLine | TreeKey] = []
    section = group = None
    for one in matched:
        is_folded = one.section in folded and not is_filtered
        if one.section != section:
            section, group = one.section, ""
            count = below[one.section, ""]
            lines.append(TreeLine("section", Label.of(section), section, count, is_folded))
        if is_folded:
            continue
        if one.group != group:
            group = one.group
            if group:
                lines.append(TreeLine("group", Label.of(group), one.section, below[one.section, group]))
        lines.append(one)
        lines += one.members if one.key in spread else ()
    return lines, sum(one.size for one in matched)


def read_lines(snapshot: Snapshot, index: TreeIndex, lines: Sequence[TreeLine | TreeKey], width: int) -> list[TreeLine]:
    columns = max(8, spark_cells(width) * 2)
    levels: dict[str, Level] = {}
    parts = {part.role: part for part in snapshot.streams}
    for one in index.keys if snapshot.standing else ():
        verdict = _worst(parts[one.stream], one)
        if verdict is not None:
            levels[one.section] = max(levels.get(one.section, Level.OK), verdict.level)
    shown = []
    for line in lines:
        if isinstance(line, TreeKey):
            part = parts[line.stream]
            numbered = numbered_view(part, line.key) if line.members else None
            signal = line.signal if numbered is None else signal_of(part, shown_member(numbered).key)
            reading = read_signal(part, signal, columns)
            worst = _worst(part, line) if line.others or line.members else None
            if worst is not None and worst.level > reading.level:
                reading = reading._replace(level=worst.level, verdict=worst)
            title = reading.own_name or (line.signal.metric.title if line.signal.metric.name else "")
            band = text_around(part, line.signal) if line.others else ""
            row = MetricRow(title, reading, "hidden" if line.key in snapshot.run.arrangement.hidden else "", band)
            if numbered is not None:
                row = numbered_row(numbered, reading, "")
            depth = 1 if line.group else 0
            name = Label.of(line.all_names or line.name)
            short = Label.of(line.name) if line.all_names else None
            shown.append(TreeLine("metric", name, line.section, row=row, depth=depth, short=short))
        elif line.kind == "section":
            level = levels.get(line.section, Level.OK)
            odd = _odd_one([one for one in index.keys if one.section == line.section], parts)
            shown.append(TreeLine("section", line.name, line.section, line.count, line.is_folded, level, odd))
        else:
            shown.append(line)
    return shown


def _odd_one(keys: Sequence[TreeKey], parts: Mapping[str, Snapshot]) -> str:
    """The farthest outlier among metrics that differ only by a number, such as a rank, in words; empty without one."""
    views = [view for one in keys if one.members and (view := numbered_view(parts[one.stream], one.key))]
    odd = [view for view in views if view.odd is not None]
    return max(odd, key=lambda view: abs(view.farthest.sigmas)).odd_text if odd else ""


def _worst(snapshot: Snapshot, line: TreeKey) -> Verdict | None:
    own = [signal for one in (line, *line.members) for signal in (one.signal, *one.others)]
    found = (worst_verdict(snapshot, one.metric.name, one.key) for one in own)
    return max((one for one in found if one is not None), key=lambda verdict: verdict.level, default=None)


def spark_cells(width: int) -> int:
    columns = tree_columns(width, UNICODE)
    return lay_out([column.least for column in columns], columns, width - _SIGN).of(_LINE)


def name_cells(width: int) -> int:
    return 20 if width < 64 else 32 if width < 100 else min(64, 40 + (width - 100) // 4)


def paint_lines(lines: Sequence[TreeLine], width: int, glyphs: Glyphs) -> list[Row]:
    leaves = _leaves(lines, width)
    table = Table(
        tree_columns(width, glyphs), leaves, lambda leaf: leaf.row.target, sign=lambda leaf: row_sign(leaf.row, glyphs)
    )
    painter, numbers = TablePainter(table, width, glyphs), count()
    return [painter.row(next(numbers)) if line.row is not None else _paint_above(line, width, glyphs) for line in lines]


def _paint_above(line: TreeLine, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" ")
    if line.kind == "section":
        builder.add(f"{glyphs.folded if line.is_folded else glyphs.unfolded} ", "dim")
        builder.add(line.name.display, "title").add(f"  {units.count(line.count)}", "dim")
        if line.level > Level.OK:
            builder.add(f"  {glyphs.levels[line.level]} {line.level.word}", LEVEL_ROLES[line.level])
        builder.add(f"  far from the others: {line.odd}" if line.odd else "", "note")
        return builder.row(Target(TargetKind.SECTION, line.section))
    return builder.add("  ").add(f"{line.name.display}/", "dim").row()


class _Leaf(NamedTuple):
    line: TreeLine
    row: MetricRow
    name: str

    def cell(self, cells: int) -> Line:
        name = Piece("  " * self.line.depth + self.name, "key")
        title = self.row.title if self.row.title != self.line.name.display else ""
        if not title or cells - cell_width(name.text) <= cell_width(title) + 2:
            return (name,)
        return name, Piece("  "), Piece(title, "dim")


def _leaves(lines: Sequence[TreeLine], width: int) -> list[_Leaf]:
    """The metrics among the lines; a name that does not fit is replaced by the short one or clipped."""
    found = [(line, line.row) for line in lines if line.row is not None]
    names = []
    for line, _ in found:
        room, name = name_cells(width) - 2 * line.depth, line.name.display
        names.append(line.short.display if line.short is not None and cell_width(name) > room else name)
    shown = {depth: clip_distinct(names, name_cells(width) - 2 * depth) for depth in {line.depth for line, _ in found}}
    return [_Leaf(line, row, shown[line.depth][number]) for number, (line, row) in enumerate(found)]


_SIGN = 3
_LEAST_LINE = 10
_LINE, _NOTE = 3, 17


def tree_columns(width: int, glyphs: Glyphs) -> Sequence[Column[_Leaf]]:
    name = name_cells(width)

    def line(leaf: _Leaf, cells: int) -> Line:
        return sparkline(fitted(leaf.row.reading.line(), cells * 2), glyphs)

    return (
        Column(
            "", lambda leaf, cells: leaf.cell(cells), Fit.DRAWN, least=name, most=name, drawn_width=lambda leaf: name,
        ),
        Column("", lambda leaf: value_cell(leaf.row), least=VALUE_CELLS, is_right=False, gap=1),
        Column("", lambda leaf: change_cell(leaf.row), least=8, priority=2, gap=1),
        Column("", line, Fit.DRAWN, least=_LEAST_LINE, priority=1),
        Column(
            "", lambda leaf, cells: note_line(leaf.row, cells, glyphs, has_name=False), Fit.DRAWN, least=_NOTE,
            most=_NOTE, priority=3, gap=1, drawn_width=lambda leaf: _NOTE,
        ),
    )  # fmt: skip


_TITLE_ROWS = 1
ALERTING = "!"
"""Filter word for metrics with an alert."""


class MetricsPage(ListPage["TreeLine | TreeKey"]):
    details = frozenset({TargetKind.METRIC, TargetKind.NUMBERED, TargetKind.SECTION})
    where = (Scope.METRICS, Scope.MARKS, Scope.OVERLAY)
    footer = ("find", "mark-metric", "overlay")
    filter_hint = f"filter by key, title or name; {ALERTING} those with an alert"

    def __init__(self, section: str = "") -> None:
        super().__init__()
        self._index: TreeIndex | None = None
        self.folded: frozenset[str] = frozenset()
        self.spread: frozenset[str] = frozenset()
        self.held = Target(TargetKind.SECTION, section) if section else None
        self._seeks_first = False

    def target(self, line: TreeLine | TreeKey) -> Target | None:
        if isinstance(line, TreeKey):
            return Target(TargetKind.NUMBERED if line.members else TargetKind.METRIC, line.key, stream=line.stream)
        return Target(TargetKind.SECTION, line.section) if line.kind == "section" else None

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        snapshot = moment.snapshot
        if self._index is None or not self._index.is_for(snapshot):
            known = self._index.rank_sections if self._index is not None else frozenset()
            self._index = index_tree(snapshot)
            self.folded |= self._index.rank_sections - known
        index = self._index if ALERTING not in self.query else self._index.with_alerts(snapshot)
        lines, matched = layout_tree(index, self.query, self.folded, self.spread)
        if self._seeks_first:
            self.held = next((self.target(line) for line in lines if isinstance(line, TreeKey)), None)
            self._seeks_first = False
        shown = self.settle(lines, max(1, height - _TITLE_ROWS))
        rows = [self._title(matched, self._index, len(shown), width, moment.glyphs)]
        if not shown:
            none = moment.keys.no_match_text(f"no metric{' with an alert' if ALERTING in self.query else ''}")
            if self.query.strip() == ALERTING and snapshot.firing:
                none = f"no alert is of a single metric{moment.keys.clause('alerts', ': {} opens them')}"
            note = none if self.query.strip() else "no metrics yet: waiting for the first row"
            rows.append(text_row(note, width, moment.glyphs, "dim"))
        rows += paint_lines(read_lines(snapshot, self._index, shown, width), width, moment.glyphs)
        return fill(rows, height)

    def _title(self, matched: int, index: TreeIndex, shown: int, width: int, glyphs: Glyphs) -> Row:
        builder, keys = RowBuilder(width, glyphs).add(" METRICS", "title").add("  "), sum(index.sections.values())
        if self.query.strip():
            builder.add(f"{units.count(matched)} of {units.count(keys)}", "value")
            builder.add(" match ", "dim").add(Label.of(self.query).display, "strong")
        else:
            builder.add(units.count(keys), "value")
        if self.top:
            builder.add(f"   {glyphs.rise} {units.count(self.top)} lines above", "dim")
        hidden = len(self.lines) - self.top - shown
        return builder.add(f"   {glyphs.fall} {units.count(hidden)} below" if hidden > 0 else "", "dim").row()

    def open(self, target: Target, moment: Moment) -> Effect | None:
        if target.kind is TargetKind.SECTION:
            return self._set_folded(target.name, target.name not in self.folded)
        return super().open(target, moment)

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        if target.kind is TargetKind.SECTION:
            below = (one for one in self.lines if isinstance(one, TreeKey) and one.section == target.name)
            first = next((self.target(one) for one in below), None)
            return () if first is None else super().details_of(first, moment, height)
        return super().details_of(target, moment, height)

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key == "fold-all":
            return self._fold_all()
        if key not in ("fold", "unfold") or not self.lines:
            return None
        line = self.lines[self.at]
        numbered = self._numbered_of(line) if isinstance(line, TreeKey) else None
        if numbered is not None and (key == "unfold") != (numbered.key in self.spread):
            self.spread ^= {numbered.key}
            self.held = self.target(numbered)
            return Redraw()
        return self._set_folded(line.section, key == "fold")

    def _numbered_of(self, line: TreeKey) -> TreeKey | None:
        """The line that stands for the numbered metrics that `line` belongs to; None if it belongs to none."""
        keys = () if self._index is None else self._index.keys
        return line if line.members else next((one for one in keys if line in one.members), None)

    def _fold_all(self) -> Effect:
        names = frozenset(self._index.sections) if self._index is not None else frozenset()
        self.folded = frozenset() if self.folded >= names else names
        if self.folded and self.lines:
            self.held = Target(TargetKind.SECTION, self.lines[self.at].section)
        return Redraw()

    def _set_folded(self, section: str, is_folded: bool) -> Effect:
        self.folded = self.folded | {section} if is_folded else self.folded - {section}
        if is_folded:
            self.held = Target(TargetKind.SECTION, section)
        return Redraw()

    def seek(self, text: str, by: int, moment: Moment) -> Effect | None:
        before, effect = self.at, super().seek(text, by, moment)
        if not self.lines:
            return effect
        while isinstance(self.lines[self.at], TreeLine) and self.at != before and not isinstance(effect, Say):
            effect = super().seek(text, by, moment)
        if isinstance(effect, Say):
            self._select(before, 1)
            self.held = self.chosen
        return effect

    def show_only(self, text: str) -> Effect | None:
        self._seeks_first = bool(text.strip())
        return super().show_only(text)


_BOOKKEEPING = "Bookkeeping"
PINNED = "Pinned"
_MOST_GENERAL = 12
"""Most known keys without a section that are listed together; more are grouped by the catalogue's sections."""


@dataclass(frozen=True, slots=True)
class TreeKey:
    """One key and its place in the tree.

    Attributes:
        key: the trainer's key; for several statistics, the main one.
        stream: the stream that logs it; "" is the main one.
        others: signals of the other statistics of the same quantity.
        all_names: names of all these statistics in one text; empty for a single key.
        members: the metrics, differing only by a number, that the line stands for; `key` is their common name.
    """

    key: str
    section: str
    group: str
    name: str
    signal: Signal
    words: str
    stream: str = ""
    others: tuple[Signal, ...] = ()
    all_names: str = ""
    members: tuple[TreeKey, ...] = ()

    @property
    def size(self) -> int:
        return sum(one.size for one in self.members) or 1 + len(self.others)


@dataclass(frozen=True, slots=True)
class TreeIndex:
    """All keys of a run in the order of the tree; built once per set of keys.

    Attributes:
        keys: one per line, by section, group and name; sections in order of first appearance.
        streams: number of keys and identity of each stream when the index was built.
        rank_sections: sections of single ranks, folded at first because they repeat the same keys.
        arrangement: pins and names when the index was built.
    """

    keys: tuple[TreeKey, ...]
    sections: dict[str, int]
    streams: tuple[tuple[int, Identity | None], ...] = field(repr=False)
    rank_sections: frozenset[str] = frozenset()
    arrangement: Arrangement = AS_FOUND

    @property
    def leaves(self) -> list[TreeKey]:
        return [each for one in self.keys for each in one.members or (one,)]

    def with_alerts(self, snapshot: Snapshot) -> TreeIndex:
        parts = {part.role: part for part in snapshot.streams}
        return replace(self, keys=tuple(one for one in self.keys if _worst(parts[one.stream], one) is not None))

    def is_for(self, snapshot: Snapshot) -> bool:
        now = _streams(snapshot)
        return (
            self.arrangement == snapshot.run.arrangement
            and len(now) == len(self.streams)
            and all(
                keys == then and identity is known
                for (keys, identity), (then, known) in zip(now, self.streams, strict=True)
            )
        )


def _streams(snapshot: Snapshot) -> tuple[tuple[int, Identity | None], ...]:
    return tuple((len(each.stream.keys), each.identity) for each in snapshot.streams)


def index_tree(snapshot: Snapshot) -> TreeIndex:
    """Index every key of a run, stream by stream; no key is hidden, bookkeeping comes last."""
    found: list[TreeKey] = []
    for each in snapshot.streams:
        found += _index_stream(each)
    found = _pinned_first(found, snapshot.run.arrangement)
    sections: dict[str, int] = {}
    for one in found:
        sections[one.section] = sections.get(one.section, 0) + one.size
    of_ranks = {each.role for each in snapshot.streams if each.source.is_rank}
    folded = frozenset(one.section for one in found if one.stream in of_ranks)
    return TreeIndex(tuple(found), sections, _streams(snapshot), folded, snapshot.run.arrangement)


def _pinned_first(keys: list[TreeKey], arrangement: Arrangement) -> list[TreeKey]:
    """The keys, pinned ones in a section of their own; renamed keys are found by their new name too."""
    if arrangement.is_as_found:
        return keys
    named = [replace(one, words=f"{one.words} {arrangement.name_of(one.key).casefold()}") for one in keys]
    place = {key: number for number, key in enumerate(arrangement.pinned)}
    pinned = [replace(one, section=PINNED, group="", name=one.key) for one in named if one.key in place]
    pinned.sort(key=lambda one: place[one.key])
    return [*pinned, *(one for one in named if one.key not in place)]


def _index_stream(snapshot: Snapshot) -> list[TreeKey]:
    """The keys of one stream in order; sections of streams other than the main one carry the stream's name."""
    known = {} if snapshot.identity is None else snapshot.part.memo.signals(snapshot.identity)
    families = snapshot.part.memo.families()
    is_flat = sum("/" not in key and key in known for key in snapshot.stream.keys) > _MOST_GENERAL
    whose = f"{snapshot.role}: " if snapshot.role else ""
    last = whose + _BOOKKEEPING
    order: dict[str, int] = {}
    found = []
    for key in snapshot.stream.keys:
        family = families.get(key)
        path = split_key(key) if family is None else _place(family)
        if is_flat and "/" not in key and (own := known.get(family.main.key if family else key)):
            # The trainer uses no sections: take the catalogue's.
            path = path._replace(section=own.metric.section)
        section = last if is_bookkeeping_key(key) else whose + path.section
        order.setdefault(section, len(order))
        if family is not None and family.main.key != key:
            continue
        members = [key] if family is None else [member.key for member in family.members]
        signals = [known.get(each) or generic_signal(each) for each in members]
        words = whose.casefold() + " ".join(f"{s.key} {s.metric.title} {s.metric.name}" for s in signals).casefold()
        group = path.group if section != last else ""
        names = "" if family is None else _names(path, members)
        found.append(
            TreeKey(key, section, group, path.name, signals[0], words, snapshot.role, tuple(signals[1:]), names)
        )
    if last in order:
        order[last] = len(order)
    found = _with_numbered(snapshot, found)
    for one in found:
        order.setdefault(one.section, len(order))
    sizes = Counter((one.section, one.group) for one in found)
    # A group with a single line needs no heading.
    found = [
        replace(one, group="", name=f"{one.group}/{one.name}")
        if one.group and sizes[one.section, one.group] == 1 and not one.all_names
        else one
        for one in found
    ]
    found.sort(key=lambda one: (order[one.section], one.group != "", _by_number(one.group), _by_number(one.name)))
    return found


def _with_numbered(snapshot: Snapshot, keys: Sequence[TreeKey]) -> list[TreeKey]:
    """The keys, those that differ only by a number merged into one line."""
    index = snapshot.part.memo.numbered()
    below: dict[str, list[TreeKey]] = {}
    for one in keys:
        if one.key in index and not is_bookkeeping_key(one.key):
            below.setdefault(index[one.key].name, []).append(one)
    found = []
    for one in keys:
        name = index[one.key].name if one.key in index else ""
        several = below.get(name, [])
        if len(several) < LEAST_NUMBERED:
            found.append(one)
        elif several[0] is one:
            path = split_key(name)
            section = f"{snapshot.role}: {path.section}" if snapshot.role else path.section
            members = tuple(
                replace(each, section=section, group="", name=each.key.removeprefix(f"{path.section}/"))
                for each in sorted(several, key=lambda each: _by_number(each.key))
            )
            words = " ".join(each.words for each in members)
            found.append(TreeKey(name, section, path.group, path.name, one.signal, words, one.stream, members=members))
    return found


def _by_number(name: str) -> tuple[tuple[str, int, str], ...]:
    """Natural sort key: rank 2 before rank 10."""
    return tuple(
        (text, len(number.lstrip("0")), number.lstrip("0")) for text, number in re.findall(r"([^0-9]*)([0-9]*)", name)
    )


def _place(family: Family) -> KeyPath:
    path = split_key(family.name)
    own = split_key(family.main.key)
    return KeyPath(own.section, "", family.name) if path.section == GENERAL else path


def _names(path: KeyPath, keys: Sequence[str]) -> str:
    """All keys of a family in one text, without the section and group shown above the line."""
    above = "/".join(part for part in (path.section, path.group) if part)
    if all(key.startswith(f"{above}/") for key in keys):
        return braces([key[len(above) + 1 :] for key in keys])
    return braces(keys)


def match_keys(index: TreeIndex, query: str) -> list[TreeKey]:
    wanted = query.casefold().split()
    if not wanted:
        return list(index.keys)
    found: list[TreeKey] = []
    for one in index.keys:
        if all(word in one.words for word in wanted):
            own = [each for each in one.members if all(word in each.words for word in wanted)]
            found += [one] if len(own) == len(one.members) else own
    return found

"""Which metrics the overview shows: the algorithm's row set, then everything else.

Owns the choice only; nothing is read here but the value beside a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rltop import units
from rltop.catalog.row_sets import ROW_SETS
from rltop.model import Direction, Label, Level, Metric, Signal, Unit
from rltop.model.keys import is_bookkeeping_key
from rltop.pages.signals import SignalReading, families_of, formula, generic_signal, is_turned
from rltop.rows.cells import RowBuilder, clip, clip_middle
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.sparkline import SparkData, fitted, sparkline
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.store.series import Mark
from rltop.structs import NamedTuple

_SHORT = {
    "mem_alloc_gb": "mem",
    "mem_peak_gb": "mem",
    "mem_reserved_gb": "mem",
    "dpo_rejected": "rejected",
    "logps_rejected": "rejected",
    "rm_reward_min": "min",
}
"""Names of the metrics beside a row, where their titles would not fit into the remarks."""


class Choice(NamedTuple):
    """A metric that gets a row.

    Attributes:
        title: what the row is called.
        signal: what it shows.
        others: further signals of the same metric.
        remark: what is said beside it; may be empty.
        stream: the stream of the run that logs it; "" is the main one.
    """

    title: str
    signal: Signal
    others: int = 0
    remark: str = ""
    stream: str = ""


def choose_key_metrics(snapshot: Snapshot) -> list[Choice]:
    """The rows of the algorithm's set for which the run logs a metric, in order.

    Where the main stream does not log it, another stream of the run may.
    """
    parts = [part for part in snapshot.streams if part.identity is not None and not part.is_rank]
    if not parts or parts[0].identity is None:
        return []
    chosen = []
    for wanted in ROW_SETS[parts[0].identity.algorithm]:
        for part in parts:
            signals = _logged(part, wanted.metrics)
            if signals:
                title = wanted.title or signals[0].metric.title
                remark = _remark(part, signals[0].metric.name, wanted.beside)
                chosen.append(Choice(title, signals[0], len(signals) - 1, remark, part.role))
                break
    return chosen


def _logged(snapshot: Snapshot, names: Sequence[str]) -> Sequence[Signal]:
    """The signals of the first of these metrics that the stream logs; none if it logs none."""
    signals = {} if snapshot.identity is None else snapshot.identity.signals
    return next((signals[name] for name in names if signals.get(name)), ())


def _remark(snapshot: Snapshot, name: str, beside: Sequence[str]) -> str:
    """A second metric in the remarks of a row, such as memory beside MFU."""
    for other in beside:
        signal = None if snapshot.identity is None or other == name else snapshot.identity.primary(other)
        raw = None if signal is None else snapshot.stream.latest(signal.key, snapshot.at_step)
        if signal is not None and raw is not None:
            title = _SHORT.get(other, signal.metric.title)
            return f"{title} {units.measure(signal.read(raw.value), signal.metric.unit)}"
    return ""


def choose_others(snapshot: Snapshot, shown: Sequence[Choice]) -> Iterator[Choice]:
    """Every other metric that the catalogue knows, then every other key, stream by stream; no bookkeeping, no ranks.

    Statistics of one metric get one row: that of the one which stands for them.
    """
    for part in snapshot.streams:
        if not part.is_rank:
            yield from _others_of(part, shown)


def _others_of(snapshot: Snapshot, shown: Sequence[Choice]) -> Iterator[Choice]:
    known = {} if snapshot.identity is None else snapshot.identity.signals
    of_key = {signal.key: signal for signals in known.values() for signal in signals}
    first = [signals[0].key for signals in known.values() if signals and signals[0].metric.section != "timing"]
    families = families_of(snapshot)
    done = {choice.signal.key for choice in shown if choice.stream == snapshot.role}
    done |= {families[key].main.key for key in done if key in families}
    for each in [*first, *snapshot.stream.keys]:
        key = families[each].main.key if each in families else each
        if key in done or is_bookkeeping_key(key):
            continue
        done.add(key)
        signal = of_key.get(key) or generic_signal(key)
        yield Choice(Label.of(signal.metric.title).display, signal, stream=snapshot.role)


_DIFFERENCE_SECTIONS = frozenset({"reward", "validation", "preference", "reward model"})
_TITLE = 18


class MetricRow(NamedTuple):
    """One row of the table: a reading, its title, a remark of its own, and the band around it.

    The `line` is there where the reading has none: rows are read that there may be no
    room for, because the columns are as wide as their texts, but not their lines.
    """

    title: str
    reading: SignalReading
    remark: str = ""
    band: str = ""
    line: Callable[[], SparkData] | None = None

    @property
    def spark(self) -> SparkData:
        """The line over the whole run."""
        return self.reading.spark if self.line is None else self.line()


class Columns(NamedTuple):
    """Widths of the columns of the table, in cells; 0 leaves one out."""

    title: int
    key: int
    value: int
    unit: int
    change: int
    spark: int
    note: int

    @property
    def spark_at(self) -> int:
        """Where the line begins."""
        change = self.change + 2 if self.change else 1
        return 3 + self.title + 1 + (self.key + 1 if self.key else 0) + self.value + self.unit + change


_LEAST_NOTE = 8
"""Room for `+12 more` and `@12,345`, so that a remark that comes and goes moves nothing."""

_LEAST_KEY, _LEAST_LINE = 12, 20
_LINE_AND_TITLE = 53
"""From here on a line of `_LEAST_LINE` cells fits beside a title and a value."""


def columns_for(width: int, longest_key: int = 28, longest_note: int = 22) -> Columns:
    """How a table of `width` cells is divided.

    A wider table never has a shorter line: a further column comes only where the line
    keeps its length, and the columns of keys and remarks grow slower than the table.

    Args:
        width: cells of the table.
        longest_key: cells of the longest key.
        longest_note: cells of the longest remark.
    """
    wanted_key, wanted_note = max(_LEAST_KEY, longest_key), max(_LEAST_NOTE, longest_note)
    if width >= _WITH_KEYS:
        return _with_keys(width, wanted_key, wanted_note)
    most = _LEAST_LINE
    if width < _LINE_AND_TITLE + 9:
        narrow = Columns(13, 0, 8, 6, 0, 0, 0)
    else:
        title = min(_TITLE, 13 + width - _LINE_AND_TITLE - 9)
        room = width - _LINE_AND_TITLE - 9 - (_TITLE - 13) - 1
        note = min(wanted_note, 14, room) if room >= _LEAST_NOTE else 0
        narrow = Columns(title, 0, 8, 6, 8, 0, note)
        if note:
            most = _with_keys(_WITH_KEYS, wanted_key, wanted_note).spark
    return _with_line(narrow, width, most)


_WITH_KEYS = 90


def _with_keys(width: int, wanted_key: int, wanted_note: int) -> Columns:
    """The columns where keys have one."""
    least = _LEAST_LINE + max(0, width - 100) // 3
    rest = width - Columns(_TITLE, 0, 8, 6, 8, 0, 0).spark_at - 3
    # The two grow by turns, so that no further cell of the table costs the line one.
    note = min(wanted_note, 24, 12 + max(0, width - 100) // 4, rest - least - _LEAST_KEY)
    key = min(wanted_key, 28 + max(0, width - 118) // 4, rest - least - note)
    return _with_line(Columns(_TITLE, key, 8, 6, 8, 0, note), width, width)


def _with_line(columns: Columns, width: int, most: int) -> Columns:
    """The columns with a line of what they leave, at most `most` cells."""
    note = columns.note + 1 if columns.note else 0
    return columns._replace(spark=max(0, min(most, width - columns.spark_at - note - 1)))


def is_difference(metric: Metric) -> bool:
    """Is a change of this metric told as a difference rather than a ratio?

    Scores and rewards have no natural zero, and what may have either sign has
    no ratio worth reading.
    """
    if metric.section in _DIFFERENCE_SECTIONS:
        return True
    return metric.direction is Direction.NONE and metric.low is None and metric.unit is Unit.NONE


def change_text(reading: SignalReading) -> str:
    """How the value compares with its baseline; a dash while there is none."""
    if reading.point is None or reading.baseline is None or reading.is_nonfinite_now:
        return units.UNKNOWN
    metric = reading.signal.metric
    return units.change(reading.point.value, reading.baseline, metric.unit, is_difference=is_difference(metric))


def value_text(reading: SignalReading) -> tuple[str, str]:
    """The newest value and its unit; the kind where it was not finite."""
    if reading.is_nonfinite_now and reading.mark is not None:
        return units.nonfinite(reading.mark.kind), ""
    if reading.point is None:
        return units.UNKNOWN, ""
    return units.quantity(reading.point.value, reading.unit)


def notes_of(row: MetricRow, glyphs: Glyphs, *, has_name: bool = False) -> list[tuple[str, str]]:
    """Remarks on a row as (text, role), what matters most first.

    With `has_name` the row has its `SignalReading.name` in a column of its own.
    """
    reading = row.reading
    notes = []
    if reading.mark is not None:
        notes.append((f"{glyphs.nonfinite} {nonfinite_text(reading, reading.mark)}", "spark-mark"))
    if reading.threshold is not None:
        notes.append((f"{glyphs.threshold} {units.measure(reading.threshold, reading.unit)}", "threshold"))
    if is_turned(reading.signal) and not has_name:
        notes.append((formula(reading.signal, "key"), "note"))
    if reading.is_older and reading.point is not None and not reading.is_nonfinite_now:
        notes.append((f"@{units.step(reading.point.step)}", "note"))
    if row.remark:
        notes.append((row.remark, "note"))
    if row.band:
        notes.append((row.band, "note"))
    if reading.others:
        notes.append((f"+{reading.others} more", "dim"))
    return notes


def nonfinite_text(reading: SignalReading, mark: Mark) -> str:
    """Where a metric was not finite, in at most a dozen cells."""
    if reading.is_nonfinite_now and reading.nonfinite_since is not None and reading.mark_count > 1:
        return f"since {units.step(reading.nonfinite_since)}"
    if reading.mark_count == 1:
        return f"{units.nonfinite(mark.kind)} at {units.step(mark.step)}"
    return f"{units.count(reading.mark_count)}, last {units.step(mark.step)}"


def paint_table_head(
    columns: Columns, width: int, glyphs: Glyphs, span: tuple[str, str] = ("whole run", "now"), now: int | None = None
) -> Row:
    """The names of the columns.

    Args:
        columns: their widths.
        width: cells of the row.
        glyphs: the signs to draw with.
        span: what the lines cover, and what their end stands for.
        now: how many cells of the line there are already; None is all of them.
    """
    builder = RowBuilder(width, glyphs).add("   ").left("metric", columns.title + 1, "dim")
    if columns.key:
        builder.left("key", columns.key + 1, "dim")
    builder.right("last", columns.value, "dim").to(builder.column + columns.unit)
    if columns.change:
        builder.right("vs base", columns.change, "dim")
    builder.to(columns.spark_at)
    what, end = span
    line = (columns.spark if now is None else min(now, columns.spark)) - cell_width(what) - cell_width(end) - 4
    if line > 0:
        builder.add(f"{what} ", "dim").add(glyphs.rule * line, "rule").add(f"▶ {end}", "dim")
    else:
        builder.add(clip(what, columns.spark), "dim")
    return builder.row()


def paint_metric_row(
    row: MetricRow, columns: Columns, width: int, glyphs: Glyphs, line: SparkData | None = None
) -> Row:
    """One metric in one row; `line` is its spark, fitted, where the caller has that already."""
    reading = row.reading
    role = LEVEL_ROLES[reading.level]
    is_loud = reading.level >= Level.INFO
    builder = RowBuilder(width, glyphs).add(" ")
    sign = glyphs.level(reading.level) if is_loud or reading.level is Level.NO_DATA else " "
    builder.add(f"{sign} ", role).left(clip(row.title, columns.title), columns.title + 1, role if is_loud else "text")
    if columns.key:
        builder.left(_key_text(reading, columns.key), columns.key + 1, "key")
    _paint_value(builder, reading, columns)
    if columns.change:
        builder.right(change_text(reading), columns.change, role if is_loud else "note")
    builder.to(columns.spark_at)
    if columns.spark:
        line = fitted(row.spark, columns.spark * 2) if line is None else line
        builder.line(sparkline(line, glyphs))
    if columns.note:
        builder.to(columns.spark_at + columns.spark + 1)
        _paint_notes(builder, notes_of(row, glyphs, has_name=columns.key > 0))
    return builder.row(Target(TargetKind.METRIC, reading.signal.key, stream=reading.stream))


def _key_text(reading: SignalReading, width: int) -> str:
    """The key with its end kept, and with what turns it into the value."""
    key = reading.key.display
    if not is_turned(reading.signal):
        return clip_middle(key, width)
    around = cell_width(reading.name) - cell_width(key)
    return formula(reading.signal, clip_middle(key, max(1, width - around)))


def _paint_notes(builder: RowBuilder, notes: Sequence[tuple[str, str]]) -> None:
    """As many remarks as fit whole; one that does not goes without its unit, or not at all."""
    gap = ""
    for text, role in notes:
        room = builder.room - len(gap)
        for form in (text, _without_unit(text)):
            if cell_width(form) <= room:
                builder.add(gap).add(form, role)
                gap = " "
                break


def _without_unit(text: str) -> str:
    number, _, unit = text.rpartition(" ")
    return number if number and not any(char.isdigit() for char in unit) else text


def _paint_value(builder: RowBuilder, reading: SignalReading, columns: Columns) -> None:
    text, unit = value_text(reading)
    stop = builder.column + columns.value + columns.unit
    role = "crit" if reading.is_nonfinite_now else "dim" if reading.point is None else "value"
    if cell_width(text) > columns.value and not unit:
        builder.right(text, columns.value + columns.unit - 1, role)
    else:
        builder.right(text, columns.value, role)
        builder.left(f" {unit}" if unit else "", columns.unit, "unit")
    builder.to(stop)


def paint_metric_rows(
    rows: Sequence[MetricRow],
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    has_head: bool = True,
    span: tuple[str, str] = ("whole run", "now"),
    columns: Columns | None = None,
) -> list[Row]:
    """The table in at most `height` rows; loud rows are never the ones left out."""
    if height <= 0 or not rows:
        return []
    if columns is None:
        columns = columns_for(width, longest_key(rows), longest_note(rows, glyphs))
    lines = {id(row): fitted(row.spark, columns.spark * 2) for row in rows}
    now = max(line.newest for line in lines.values()) // 2 + 1
    head = [paint_table_head(columns, width, glyphs, span, now)] if has_head and height > 1 else []
    kept = keep_loud(rows, height - len(head))
    return [*head, *(paint_metric_row(row, columns, width, glyphs, lines[id(row)]) for row in kept)]


def longest_key(rows: Sequence[MetricRow]) -> int:
    """Cells of the longest key among the rows; the width of its column rests on it."""
    return max((cell_width(row.reading.name) for row in rows), default=0)


def longest_note(rows: Sequence[MetricRow], glyphs: Glyphs) -> int:
    """Cells of the longest of the rows' first remarks; the others are said where there is room."""
    first = [notes[0][0] for notes in (notes_of(row, glyphs, has_name=True) for row in rows) if notes]
    return max((cell_width(text) for text in first), default=0)


def keep_loud(rows: Sequence[MetricRow], room: int) -> list[MetricRow]:
    """The first rows in order, but with every row that fires among them while there is room."""
    if len(rows) <= room:
        return list(rows)
    loud = [row for row in rows if row.reading.level >= Level.WARN or row.reading.is_nonfinite_now][:room]
    quiet_room = room - len(loud)
    kept = []
    for row in rows:
        if any(row is one for one in loud):
            kept.append(row)
        elif quiet_room > 0:
            kept.append(row)
            quiet_room -= 1
    return kept

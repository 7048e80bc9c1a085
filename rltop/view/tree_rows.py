"""Paints the tree of all metrics: a title, a line for each section and metric."""

from __future__ import annotations

from rltop import units
from rltop.model import Level
from rltop.view.cells import RowBuilder, clip_middle, fill, text_row, too_small
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.key_metrics import MetricRow, change_text, notes_of, value_text
from rltop.view.lines import Row, Target, TargetKind
from rltop.view.reduction import fitted
from rltop.view.signals import SignalReading
from rltop.view.spark import sparkline
from rltop.view.tree import LEAST, TreeLine, TreeView, name_cells, spark_cells
from rltop.view.widths import cell_width


def paint_tree(view: TreeView, width: int, height: int | None, glyphs: Glyphs) -> list[Row]:
    """A title row, then the lines in view; every line can be selected."""
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    rows = [_paint_title(view, width, glyphs)]
    if not view.lines:
        note = f"no metric matches “{view.query}”" if view.query.raw.strip() else "no metrics yet"
        rows.append(text_row(note, width, glyphs, "dim"))
    rows += [paint_tree_line(line, width, glyphs) for line in view.lines]
    return fill(rows, height)


def _paint_title(view: TreeView, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" METRICS", "title").add("  ")
    if view.query.raw.strip():
        builder.add(f"{units.count(view.matched)} of {units.count(view.keys)}", "value")
        builder.add(" match ", "dim").add(view.query.display, "strong")
    else:
        builder.add(units.count(view.keys), "value")
    if view.top:
        builder.add(f"   {glyphs.rise} {units.count(view.top)} lines above", "dim")
    hidden = view.total - view.top - len(view.lines)
    if hidden > 0:
        builder.add(f"   {glyphs.fall} {units.count(hidden)} below", "dim")
    return builder.row()


def paint_tree_line(line: TreeLine, width: int, glyphs: Glyphs) -> Row:
    """One section, group or metric in one row."""
    builder = RowBuilder(width, glyphs).add(" ")
    if line.kind == "section":
        builder.add(f"{glyphs.folded if line.is_folded else glyphs.unfolded} ", "dim")
        builder.add(line.name.display, "title").add(f"  {units.count(line.count)}", "dim")
        if line.level > Level.OK:
            builder.add(f"  {glyphs.level(line.level)} {line.level.word}", LEVEL_ROLES[line.level])
        return builder.row(Target(TargetKind.SECTION, line.section))
    if line.row is None:
        return builder.add("  ").add(f"{line.name.display}/", "dim").row()
    return _paint_metric(line, line.row, builder, width, glyphs)


def _paint_metric(line: TreeLine, row: MetricRow, builder: RowBuilder, width: int, glyphs: Glyphs) -> Row:
    reading: SignalReading = row.reading
    role = LEVEL_ROLES[reading.level]
    is_loud = reading.level >= Level.INFO or reading.level is Level.NO_DATA
    name = name_cells(width) - 2 * line.depth
    builder.add(f"{glyphs.level(reading.level) if is_loud else ' '} ", role)
    builder.add("  " * line.depth)
    is_short = line.short is not None and cell_width(line.name.display) > name
    text = clip_middle(line.short.display if is_short and line.short else line.name.display, name)
    room = name - cell_width(text)
    builder.add(text, "key")
    if row.title and row.title != line.name.display and room > len(row.title) + 2:
        builder.add("  ").add(row.title, "dim")
    builder.to(3 + name_cells(width))
    value, unit = value_text(reading)
    if cell_width(value) > 9 and not unit:
        builder.right(value, 15, "value")
    else:
        builder.right(value, 9, "crit" if reading.is_nonfinite_now else "value").left(
            f" {unit}" if unit else "", 6, "unit"
        )
    if width >= 72:
        builder.right(change_text(reading), 9, role if is_loud else "note")
    builder.add("  ")
    cells = spark_cells(width)
    if cells >= 4:
        stop = builder.column + cells
        builder.line(sparkline(fitted(reading.spark, cells * 2), glyphs)).to(stop)
    if width >= 90:
        builder.add(" ")
        for i, (note, note_role) in enumerate(notes_of(row, glyphs)):
            if i and cell_width(note) + 1 > builder.room:
                break
            builder.add(" " if i else "").add(note, note_role)
    return builder.row(Target(TargetKind.METRIC, line.key, stream=row.reading.stream))

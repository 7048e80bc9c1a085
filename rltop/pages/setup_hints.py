"""How each trainer is made to write metrics: what a screen says while there is no file."""

from __future__ import annotations

from rltop.rows.cells import RowBuilder, clip
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row
from rltop.trainers import SETUP_HINTS


def paint_setup_hints(width: int, glyphs: Glyphs) -> list[Row]:
    """A title, and a row for each trainer whose files are followed.

    Args:
        width: cells.
        glyphs: the signs to draw with.
    """
    followed = [each for each in SETUP_HINTS if each.is_followed]
    column = max(len(each.trainer) for each in followed) + 3
    rows = [RowBuilder(width, glyphs).add(" how to turn on metrics, by trainer", "dim").row()]
    for each in followed:
        builder = RowBuilder(width, glyphs).add(" ").add(each.trainer, "value").to(column)
        rows.append(builder.add(clip(each.summary, builder.room), "dim").row())
    return rows

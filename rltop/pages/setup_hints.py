"""What a screen says while there is no file, or none with numbers: how each trainer is made to write them."""

from __future__ import annotations

from rltop.model import Counts
from rltop.pages.header import lack_of
from rltop.rows.cells import RowBuilder, clip, text_row, wrap
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row
from rltop.trainers import SETUP_HINTS


def paint_setup_hints(width: int, glyphs: Glyphs) -> list[Row]:
    """A title, and a row for each trainer whose files are followed."""
    followed = [each for each in SETUP_HINTS if each.is_followed]
    column = max(len(each.trainer) for each in followed) + 3
    rows = [RowBuilder(width, glyphs).add(" how to turn on metrics, by trainer", "dim").row()]
    for each in followed:
        builder = RowBuilder(width, glyphs).add(" ").add(each.trainer, "value").to(column)
        rows.append(builder.add(clip(each.summary, builder.room), "dim").row())
    return rows


_WORKS = (
    'JSON lines with a step and numbers: {"step": 12, "loss": 0.31}',
    "CSV with a head: step,loss,reward",
    "a console log: step:12 - loss:0.31",
    "--step-key KEY where the step has a name of its own",
)


def paint_layout(counts: Counts, title: str, width: int, glyphs: Glyphs) -> list[Row]:
    """How a file without a number was read, what its rows lack, and what would work.

    Args:
        title: of the format; empty where none was recognised.
    """
    what = lack_of(counts) or "no row of metrics in it"
    lines = wrap(f"read as {title or 'text'}: {what}", width - 2, 3)
    rows = [text_row(line, width, glyphs) for line in lines]
    rows += [text_row("what works:", width, glyphs, "dim")]
    return rows + [text_row(part, width, glyphs, "dim") for one in _WORKS for part in wrap(f"  {one}", width - 2, 2)]

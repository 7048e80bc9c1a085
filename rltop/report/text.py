"""The overview as text: the rows of the screen, plain or coloured.

Owns the writing of rows without a screen. Colours are the terminal's own sixteen, because its background is unknown;
without colour nothing is lost, since every level has a sign and a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop.rows.cells import text_rows
from rltop.rows.glyphs import glyph_set
from rltop.rows.rows import Row
from rltop.rows.themes import Palette, load_palette, sgr
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from rltop.pages.run_entry import RunEntry

PALETTE = "terminal"
"""The theme for output without a screen."""

_RESET = "\x1b[0m"


def once_text(
    snapshot: Snapshot, width: int, height: int | None = None, *, use_color: bool = False, is_ascii: bool = False
) -> str:
    from rltop.pages.alerts import own_words  # noqa: PLC0415 - `check` writes rows without them
    from rltop.pages.overview import build_overview, paint_overview  # noqa: PLC0415

    view = build_overview(snapshot, width=width, height=height if height is not None else 40)
    glyphs = glyph_set(is_ascii=is_ascii)
    rows = list(paint_overview(view, width, height, glyphs))
    rows += [row for one in own_words(snapshot.run) for row in text_rows(one, width, glyphs, "dim")]
    return rows_text(rows, use_color=use_color)


def runs_text(entries: Sequence[RunEntry], width: int, *, use_color: bool = False, is_ascii: bool = False) -> str:
    from rltop.pages.runs import paint_runs  # noqa: PLC0415 - `check` writes rows without it

    rows = paint_runs(entries, width, None, glyph_set(is_ascii=is_ascii))
    return rows_text(rows, use_color=use_color)


def rows_text(rows: Sequence[Row], *, use_color: bool = False) -> str:
    palette = load_palette(PALETTE) if use_color else None
    lines = [_coloured(row, palette) if palette is not None else _plain(row) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _plain(row: Row) -> str:
    return "".join(piece.text for piece in row.line).rstrip()


def _coloured(row: Row, palette: Palette) -> str:
    out = []
    is_styled = False
    for text, role in row.line:
        style = palette.style(role)
        if style.is_plain or (style.fg == "default" and style.without_colour().is_plain):
            out.append(f"{_RESET}{text}" if is_styled else text)
            is_styled = False
        else:
            out.append(f"{sgr(style, palette, has_truecolour=False)}{text}")
            is_styled = True
    return "".join(out) + (_RESET if is_styled else "")

"""What a page shows and which keys it takes, read from the key table itself."""

from __future__ import annotations

from collections.abc import Sequence

from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.rows.cells import RowBuilder, rule_row, side_by_side, text_row, wrap
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import KEYS, NO_KEY, KeyNames, Scope
from rltop.rows.rows import Row

_KEY_CELLS = 16

_COLUMN_CELLS = 56
"""A column of keys takes this at least: most descriptions fit one line."""

_MOST_COLUMNS = 3
_SEP = "  "


class HelpPage(Page):
    """The keys, and what the page below is for."""

    least = (1, 1)
    help = "This page. {find} searches it, {back} goes back."
    footer = ("find",)
    search_hint = "a key, or what it does"

    def __init__(self, about: str, keys: KeyNames, own: Sequence[Scope] = ()) -> None:
        super().__init__()
        self._about = keys.tell(about)
        self._names = keys
        self._order = tuple(dict.fromkeys((*own, *KEYS)))

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The purpose of the page below, then every key by where it applies, its own first.

        Where there is room the keys stand in columns, a screen of them before the next.
        """
        glyphs = moment.glyphs
        rows = [text_row(line, width, glyphs) for line in wrap(self._about, max(10, width - 2), 12)]
        rows.append(rule_row(width, glyphs))
        columns = max(1, min(width // _COLUMN_CELLS, _MOST_COLUMNS))
        cells = width // columns
        left = self._keys(cells - (columns > 1), glyphs)
        while left:
            each = len(left) if columns == 1 else min(-(-len(left) // columns), max(1, height - len(rows) % height))
            block, left = left[: each * columns], left[each * columns :]
            parts = [block[at : at + each] for at in range(0, len(block), each)]
            joined = parts.pop()
            for part in reversed(parts):
                joined = side_by_side(part, joined, cells)
            rows += joined
        return rows

    def _keys(self, width: int, glyphs: Glyphs) -> list[Row]:
        """Every key by where it applies; what does not fit behind a key goes on below it."""
        cells = min(max(_KEY_CELLS, width // 3), max(len(_SEP.join(keys)) for keys in self._names.names.values()))
        rows: list[Row] = []
        for where in self._order:
            rows += [Row(()), text_row(where.value, width, glyphs, "title")]
            for key in KEYS[where]:
                keys = _SEP.join(self._names.every(key.id))
                for number, line in enumerate(wrap(key.tooltip, max(10, width - cells - 3), 3)):
                    builder = RowBuilder(width, glyphs).add("  ")
                    builder.left("" if number else keys or NO_KEY, cells, "strong" if keys else "dim")
                    rows.append(builder.add(" ").add(line).row())
        return rows

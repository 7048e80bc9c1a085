"""What a page shows and which keys it takes, read from the key table itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.rows.cells import RowBuilder, rule_row, side_by_side, text_row, text_rows, wrap
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import KEYS, KeyNames, Scope
from rltop.rows.rows import Row

_KEY_CELLS = 16

_COLUMN_CELLS = 56
"""A column of keys takes this at least: most descriptions fit one line."""

_MOST_COLUMNS = 3
_SEP = "  "


class HelpPage(Page):
    """The keys, and what the page below is for."""

    least = (1, 1)
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
        """Every key by where it applies, the first below the title; what does not fit behind a key is below it."""
        cells = min(max(_KEY_CELLS, width // 3), max(len(_SEP.join(keys)) for keys in self._names.names.values()))
        for where in self._order:
            rows = [Row(()), text_row(where.value, width, glyphs, "title")]
            for key in KEYS[where]:
                keys = _SEP.join(self._names.every(key.id))
                if not keys:
                    # What has taken its key stands in another row.
                    continue
                for number, line in enumerate(wrap(key.tooltip, max(10, width - cells - 3), 3)):
                    builder = RowBuilder(width, glyphs).add("  ")
                    builder.left("" if number else keys, cells, "strong")
                    rows.append(builder.add(" ").add(line).row())
                yield rows
                rows = []


def _filled(entries: Sequence[list[Row]], columns: int, each: int) -> tuple[list[list[Row]], list[list[Row]]]:
    """Columns of at most `each` rows, in which no entry is broken, and the entries that are left."""
    parts: list[list[Row]] = [[]]
    for number, entry in enumerate(entries):
        if parts[-1] and len(parts[-1]) + len(entry) > each:
            if len(parts) == columns:
                return parts, list(entries[number:])
            parts.append([])
        # On top of a column no blank is wanted above a title.
        parts[-1] += entry if parts[-1] or entry[0].line else entry[1:]
    return parts, []

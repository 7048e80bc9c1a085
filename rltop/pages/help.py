"""What a page shows and which keys it takes, read from the key table itself."""

from __future__ import annotations

from collections.abc import Sequence

from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.rows.cells import RowBuilder, rule_row, text_row, wrap
from rltop.rows.keys import KEYS, NO_KEY, KeyNames, Where
from rltop.rows.rows import Row

_KEY_CELLS = 16
_SEP = "  "


class HelpPage(Page):
    """The keys, and what the page below is for."""

    help = "This page. {find} searches it, {back} goes back."
    footer = ("find",)
    search_hint = "a key, or what it does"

    def __init__(self, about: str, keys: KeyNames, own: Sequence[Where] = ()) -> None:
        """The help of a page: what it says of itself, and the keys as they are there.

        Args:
            about: what the page says, with actions in braces.
            own: the groups of keys that the page has for itself; they come first.
        """
        super().__init__()
        self._about = keys.tell(about)
        self._names = keys
        self._order = tuple(dict.fromkeys((*own, *KEYS)))

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The purpose of the page below, then every key by where it applies, its own first."""
        del height
        glyphs = moment.glyphs
        cells = max(_KEY_CELLS, min(width // 3, max(len(_SEP.join(keys)) for keys in self._names.names.values())))
        rows = [text_row(line, width, glyphs) for line in wrap(self._about, max(10, width - 2), 12)]
        rows.append(rule_row(width, glyphs))
        for where in self._order:
            rows += [Row(()), text_row(where.value, width, glyphs, "title")]
            for key in KEYS[where]:
                keys = _SEP.join(self._names.every(key.id))
                builder = RowBuilder(width, glyphs).add("  ")
                builder.left(keys or NO_KEY, cells, "strong" if keys else "dim")
                rows.append(builder.add(" ").add(key.tooltip).row())
        return rows

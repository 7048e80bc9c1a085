"""What a page shows and which keys it takes, read from the bindings themselves."""

from __future__ import annotations

from collections.abc import Sequence

from rltop.app.bindings import CONTEXTS
from rltop.app.page import Page
from rltop.rows.cells import RowBuilder, rule_row, text_row, wrap
from rltop.rows.keys import NO_KEY, KeyNames
from rltop.rows.rows import Row

_KEY_CELLS = 16
_SEP = "  "


class HelpScreen(Page):
    """The keys, and what the page below is for."""

    HELP = "This page. {back} goes back."

    def __init__(self, about: str, keys: KeyNames) -> None:
        """The help of a page: what it says of itself, and the keys as they are there."""
        super().__init__()
        self._about = keys.tell(about)
        self._names = keys

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The purpose of the page below, then every key by where it applies."""
        glyphs = self.rltop.moment.glyphs
        cells = max(_KEY_CELLS, min(width // 3, max(len(_SEP.join(keys)) for keys in self._names.names.values())))
        rows = [text_row(line, width, glyphs) for line in wrap(self._about, max(10, width - 2), 12)]
        rows.append(rule_row(width, glyphs))
        for where, bindings in CONTEXTS.items():
            rows += [Row(()), text_row(where, width, glyphs, "title")]
            for binding in bindings:
                keys = _SEP.join(self._names.every(binding.id or ""))
                builder = RowBuilder(width, glyphs).add("  ")
                builder.left(keys or NO_KEY, cells, "strong" if keys else "dim")
                rows.append(builder.add(" ").add(binding.tooltip).row())
        return rows

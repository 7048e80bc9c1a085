"""What a page shows and which keys it takes, read from the bindings themselves."""

from __future__ import annotations

from collections.abc import Sequence

from rltop.ui.bindings import CONTEXTS, spell
from rltop.ui.screens.page import Page
from rltop.view.cells import RowBuilder, rule_row, text_row, wrap
from rltop.view.lines import Row

_KEY_CELLS = 16


class HelpScreen(Page):
    """The keys, and what the page below is for."""

    HELP = "This page. Escape goes back."

    def __init__(self, about: str) -> None:
        super().__init__()
        self._about = about

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The purpose of the page below, then every key by where it applies."""
        glyphs = self.rltop.moment.glyphs
        keymap = self.rltop.options.keymap
        rows = [text_row(line, width, glyphs) for line in wrap(self._about, max(10, width - 2), 12)]
        rows.append(rule_row(width, glyphs))
        for where, bindings in CONTEXTS.items():
            rows += [Row(()), text_row(where, width, glyphs, "title")]
            for binding in bindings:
                keys = "  ".join(spell(keymap.get(binding.id or "", binding.key)))
                builder = RowBuilder(width, glyphs).add("  ").left(keys, _KEY_CELLS, "strong")
                rows.append(builder.add(" ").add(binding.tooltip).row())
        return rows

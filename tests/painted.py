"""Painted rows as plain text, and what every row must keep to."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rltop.rows.glyphs import UNICODE, Glyphs, cell_width
from rltop.rows.rows import ROLES, Row


def lines_of(rows: Iterable[Row]) -> list[str]:
    return [row.text.rstrip() for row in rows]


def text_of(rows: Iterable[Row]) -> str:
    return "\n".join(lines_of(rows))


def is_harmless(text: str) -> bool:
    """Nothing in it moves the cursor, reorders the line or is invisible."""
    return not {unicodedata.category(char) for char in text} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def check_rows(rows: Iterable[Row], width: int, glyphs: Glyphs = UNICODE) -> None:
    for row in rows:
        assert cell_width(row.text) <= width, row.text
        assert is_harmless(row.text)
        assert row.text.isascii() or not glyphs.is_ascii
        assert {piece.role for piece in row.line} <= set(ROLES)
        assert all(0 <= link.start < link.stop <= width for link in row.links)

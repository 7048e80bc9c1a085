"""How many terminal cells a text takes.

Owns the counting; what is done with text that does not fit is in `cells`.
"""

from __future__ import annotations

import unicodedata

_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_VARIATION_SELECTORS = frozenset(chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


def char_width(char: str) -> int:
    """Cells that one character takes: 0, 1 or 2.

    Ambiguous characters (box drawing, Greek) count as one, as terminals outside
    East Asian locales draw them; flag letters count as two, the worst case.
    """
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in _ZERO_WIDTH:
        return 0
    if unicodedata.east_asian_width(char) in "WF" or ord(char) in _FLAG_LETTERS:
        return 2
    return 1


def cell_width(text: str) -> int:
    """Cells that `text` takes on one line."""
    if text.isascii():
        return len(text)
    return sum(map(char_width, text))


def plain(text: str) -> str:
    """`text` without variation selectors, which change a width after the fact."""
    if text.isascii():
        return text
    return "".join(char for char in text if char not in _VARIATION_SELECTORS)

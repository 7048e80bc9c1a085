"""How many terminal cells a text takes.

Owns the counting; what is done with text that does not fit is in `cells`.
"""

from __future__ import annotations

import unicodedata

from rltop.regex import regex

_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_VARIATION_SELECTORS = frozenset(chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
_SINGLE = regex("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25fc\u2800-\u28ff]*")
_MOST_MARKS = 2
_MOST_KNOWN = 8192
_WIDE_SOMEWHERE = (
    range(0x1F1E6, 0x1F200),  # flag letters
    range(0x2630, 0x2638),  # trigrams
    range(0x268A, 0x2690),  # monograms and digrams
    range(0x4DC0, 0x4E00),  # hexagrams
    range(0x1D300, 0x1D377),  # tetragrams and counting rods
)


class _WidthCache(dict[str, int]):
    """Widths of characters met so far; every cell of every line asks for one."""

    def __missing__(self, char: str) -> int:
        if len(self) > _MOST_KNOWN:
            self.clear()
        self[char] = width = _measured(char)
        return width


_KNOWN = _WidthCache()


def char_width(char: str) -> int:
    """Cells that one character takes: 0, 1 or 2.

    Ambiguous characters (box drawing, Greek) count as one, as terminals outside East Asian locales draw them; flag
    letters, and signs that Unicode 16 made wide, count as two, the worst case.
    """
    return _KNOWN[char]


def _measured(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in _ZERO_WIDTH:
        return 0
    if unicodedata.east_asian_width(char) in "WF" or any(ord(char) in wide for wide in _WIDE_SOMEWHERE):
        return 2
    return 1


def is_single(text: str) -> bool:
    """Whether `text` is surely as many cells as characters: Latin, arrows, lines, blocks and dots.

    False only means that it has to be counted.
    """
    return _SINGLE.fullmatch(text) is not None


def cell_width(text: str) -> int:
    """Cells that `text` takes on one line."""
    if text.isascii():
        return len(text)
    return sum(map(_KNOWN.__getitem__, text))


def plain(text: str) -> str:
    """`text` without what changes a width after the fact or piles up without end.

    Variation selectors go; of the marks on one character the first two stay.
    """
    if text.isascii() or 0 not in map(_KNOWN.__getitem__, text):
        return text
    kept: list[str] = []
    marks = 0
    for char in text:
        if char in _VARIATION_SELECTORS:
            continue
        marks = marks + 1 if _KNOWN[char] == 0 else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return "".join(kept)

"""The glyphs, as a Unicode set and an equivalent ASCII set; and the width of text in cells.

Colour is never the only sign: every level, state and kind of mark has its own glyph in both sets. Every glyph is
exactly one cell wide.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rltop.model import Level, RunState
from rltop.regex import regex
from rltop.structs import Struct, field

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
    """Cache of character widths, which are needed for every cell of every line."""

    def __missing__(self, char: str) -> int:
        if len(self) > _MOST_KNOWN:
            self.clear()
        self[char] = width = _measured(char)
        return width


_KNOWN = _WidthCache()


def char_width(char: str) -> int:
    """Cells that one character takes: 0, 1 or 2.

    Ambiguous characters (box drawing, Greek) count as one, as terminals outside East Asian locales draw them; flag
    letters, and symbols that became wide in Unicode 16, count as two, the worst case.
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
    """Whether `text` certainly has one cell per character: Latin, arrows, lines, blocks and dots.

    False only means that its width must be computed.
    """
    return _SINGLE.fullmatch(text) is not None


def cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(map(_KNOWN.__getitem__, text))


def plain(text: str) -> str:
    """Remove characters that change a width after the fact or pile up without limit.

    Variation selectors are removed; each character keeps its first two combining marks.
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


class Glyphs(Struct):
    """One set of glyphs.

    Attributes:
        nonfinite: a value that was not finite.
        bar_ends: the last cell of a bar by eighths, thinnest first.
        bar_rest: an unfilled cell of a bar.
        fills: full cells for stacked bars, distinguishable without colour.
        columns: heights of a block bar from an eighth up.
        rise, fall: a value well above or below the usual ones.
        newest, average, dash: in a chart, the newest value, the smoothed curve and the threshold.
        is_ascii: draw without blocks and braille, and restrict `to_ascii` to ASCII.
    """

    name: str
    levels: Mapping[Level, str]
    states: Mapping[RunState, str]
    nonfinite: str
    restart: str
    recovered: str
    threshold: str
    baseline: str
    rule: str
    heavy: str
    upright: str
    bar: str
    bar_ends: str
    bar_rest: str
    fills: str
    columns: str
    rise: str
    fall: str
    selected: str
    folded: str
    unfolded: str
    arrow: str
    newest: str
    average: str
    dash: str
    is_ascii: bool = False
    _table: Mapping[int, str] = field(default_factory=dict)

    def sign(self, level: Level, least: Level = Level.INFO) -> str:
        """The glyph of a level followed by a blank; empty below `least`."""
        return f"{self.levels[level]} " if level >= least else ""

    @property
    def becomes(self) -> str:
        """The arrow between two numbers, where a lone > would read as a comparison."""
        return "->" if self.is_ascii else self.arrow

    def partial_bar(self, share: float, cells: int) -> str:
        full = round(min(1.0, max(0.0, share)) * cells)
        return self.bar * full + self.bar_rest * (cells - full)

    def to_ascii(self, text: str) -> str:
        """Replace what this set cannot write: our own glyphs by ASCII equivalents, outside text by `?` per cell."""
        if not self.is_ascii or text.isascii():
            return text
        if " → " in text:
            # A lone > between two numbers would read as a comparison. The third cell goes behind what is written there.
            text = _WRITTEN.sub(lambda run: f"{run[0].replace(' → ', '->'):<{len(run[0])}}", text)
        return "".join(char if char.isascii() else self._spell(char) for char in text)

    def _spell(self, char: str) -> str:
        known = self._table.get(ord(char))
        if known is not None:
            return known
        return "?" * char_width(char)


_WRITTEN = regex(r"\S+(?: \S+)*")

_OWN_SIGNS = {
    "\N{MINUS SIGN}": "-", "–": "-", "—": "-", "×": "x", "·": "|", "…": "~", "±": "~", "≤": "<", "≥": ">", "→": ">",
    "←": "<", "─": "-", "◀": "<", "▶": ">", "▸": ">", "▾": "v", "↑": "^", "↓": "v", "’": "'", "α": "a", "ρ": "r",
    "β": "b", "γ": "g", "λ": "l", "σ": "s", "π": "p", "°": "o", "²": "2", "∞": "I", "µ": "u", "≈": "~", "‖": "=",
    "↵": "/", "÷": "/",
}  # fmt: skip

_LINES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
_SIGNS = [line.split() for line in _LINES if line and line[0] != "#"]


def _set(name: str, column: int) -> Glyphs:
    signs = {row[0]: row[column] for row in _SIGNS}
    is_ascii = name == "ascii"
    return Glyphs(
        name=name,
        levels=MappingProxyType({level: signs.pop(f"level.{level.name}") for level in Level}),
        states=MappingProxyType({state: signs.pop(f"state.{state.name}") for state in RunState}),
        is_ascii=is_ascii,
        _table=MappingProxyType({ord(sign): plain for sign, plain in _OWN_SIGNS.items()} if is_ascii else {}),
        **signs,
    )


UNICODE, ASCII = _set("unicode", 1), _set("ascii", 2)


def glyph_set(*, is_ascii: bool) -> Glyphs:
    return ASCII if is_ascii else UNICODE


LEVEL_ROLES: Mapping[Level, str] = MappingProxyType(
    {Level.NO_DATA: "nodata", Level.OK: "ok", Level.INFO: "info", Level.WARN: "warn", Level.CRIT: "crit"},
)
"""Role for text about each level."""

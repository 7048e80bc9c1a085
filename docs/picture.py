"""Cells → SVG, the same wherever it is looked at.

Words are set at the column of their first letter. Bars, dots and lines are drawn as shapes:
few fonts have braille of the width of their letters, and no picture may depend on which one
a browser has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

T = TypeVar("T")

WIDTH, HEIGHT = 10, 20
"""Of a cell, in pixels."""
PADDING = 12
FONT_SIZE = 16.5
BASELINE = 15
FONTS = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"

_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of the braille dots, in the order of their bits."""
_SHADES = {"░": 0.3, "▒": 0.55, "▓": 0.8}
_ARMS = {"─": "lr", "│": "ud", "┤": "lud", "├": "rud", "┬": "lrd", "┴": "lru", "┼": "lrud", "└": "ur", "┘": "ul"}
_DASHES = frozenset("┄╌╴╶")


@dataclass(frozen=True)
class Look:
    """How a cell is drawn; colours as `#rrggbb`."""

    ink: str
    ground: str
    is_bold: bool = False
    is_italic: bool = False
    is_underlined: bool = False
    is_dim: bool = False


Cell = tuple[str, Look]
"""One character of one cell, and its look."""


def picture(rows: Sequence[Sequence[Cell]], ground: str, title: str) -> str:
    """Rows of cells as an SVG document.

    Args:
        rows: each row's cells, left to right; an empty character is the right half of a wide one.
        ground: the colour around the cells.
        title: for those who hear the picture.
    """
    wide = max(map(len, rows)) * WIDTH + 2 * PADDING
    high = len(rows) * HEIGHT + 2 * PADDING
    body = [*_grounds(rows, ground), *_shapes(rows), *_words(rows)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">',
            f"<title>{escape(title)}</title>",
            "<style>",
            f"text{{font:{FONT_SIZE}px {FONTS};white-space:pre}}",
            ".b{font-weight:bold}.i{font-style:italic}.u{text-decoration:underline}.d{opacity:.6}",
            "rect{shape-rendering:crispEdges}path{fill:none;stroke-width:1.4}.dot{stroke-width:2.6;stroke-linecap:round}",
            "</style>",
            f'<rect width="{wide}" height="{high}" rx="8" fill="{ground}"/>',
            f'<g transform="translate({PADDING} {PADDING})">',
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _grounds(rows: Sequence[Sequence[Cell]], ground: str) -> Iterator[str]:
    for y, row in enumerate(rows):
        for start, stop, colour in _runs([look.ground for _, look in row]):
            if colour != ground:
                yield _rect(start * WIDTH, y * HEIGHT, (stop - start) * WIDTH, HEIGHT, colour)


def _shapes(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Bars as rectangles; dots and lines as one path of each colour."""
    paths: dict[tuple[str, str], list[str]] = defaultdict(list)
    for y, row in enumerate(rows):
        bars = [(*_bar(character), look.ink) if _bar(character) else None for character, look in row]
        for start, stop, bar in _runs(bars):
            if bar is not None:
                left, low, opacity, ink = bar
                whole = (stop - start) * WIDTH if left == 1 else WIDTH * left
                top = HEIGHT * (1 - low)
                starts = [start] if left == 1 else range(start, stop)
                yield from (_rect(x * WIDTH, y * HEIGHT + top, whole, HEIGHT * low, ink, opacity) for x in starts)
        for x, (character, look) in enumerate(row):
            for kind, stroke in _strokes(character, x * WIDTH, y * HEIGHT):
                paths[kind, look.ink].append(stroke)
    for (kind, ink), strokes in paths.items():
        name = f' class="{kind}"' if kind else ""
        yield f'<path{name} stroke="{ink}" d="{"".join(strokes)}"/>'


def _bar(character: str) -> tuple[float, float, float] | tuple[()]:
    """Share of the cell's width and height that a block takes, and its opacity."""
    if character in _SHADES:
        return 1, 1, _SHADES[character]
    if "▁" <= character <= "█":
        return 1, (ord(character) - 0x2580) / 8, 1
    if "▉" <= character <= "▏":
        return (0x2590 - ord(character)) / 8, 1, 1
    return ()


def _strokes(character: str, left: int, top: int) -> Iterator[tuple[str, str]]:
    """Kind and path data of a dot pattern or a line."""
    across, down = left + WIDTH // 2, top + HEIGHT // 2
    if "⠀" <= character <= "⣿":
        for bit, (column, row) in enumerate(_DOTS):
            if (ord(character) - 0x2800) >> bit & 1:
                yield "dot", f"M{left + 3 + 5 * column} {top + 3 + 5 * row}h0"
    elif character in _DASHES:
        yield "", f"M{left + 1} {down}h3m2 0h3"
    for arm in _ARMS.get(character, ""):
        end = {"l": f"H{left}", "r": f"H{left + WIDTH}", "u": f"V{top}", "d": f"V{top + HEIGHT}"}[arm]
        yield "", f"M{across} {down}{end}"


def _words(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    for y, row in enumerate(rows):
        for x, word, look in _split(row):
            marks = {"b": look.is_bold, "i": look.is_italic, "u": look.is_underlined, "d": look.is_dim}
            names = " ".join(name for name, is_on in marks.items() if is_on)
            style = f' class="{names}"' if names else ""
            length = f' textLength="{len(word) * WIDTH}"' if len(word) > 1 else ""
            at = f'x="{x * WIDTH}" y="{y * HEIGHT + BASELINE}"'
            yield f'<text {at}{length} fill="{look.ink}"{style}>{escape(word, quote=False)}</text>'


def _split(row: Sequence[Cell]) -> Iterator[tuple[int, str, Look]]:
    """Words of one look; a sign outside of the Latin letters stands alone: its width is any font's guess."""
    word, start = "", 0
    for x, (character, look) in enumerate(row):
        is_drawn = not character.strip() or bool(_bar(character)) or any(_strokes(character, 0, 0))
        is_alone = not is_drawn and ord(character[0]) > 0x2FF
        if word and (is_drawn or is_alone or look != row[start][1]):
            yield start, word, row[start][1]
            word = ""
        if is_alone:
            yield x, character, look
        elif not is_drawn:
            start = start if word else x
            word += character
    if word:
        yield start, word, row[start][1]


def _runs(values: Iterable[T]) -> Iterator[tuple[int, int, T]]:
    """Start, stop and value of neighbours that are equal."""
    start, before = 0, None
    listed = list(values)
    for i, value in enumerate(listed):
        if i and value != before:
            yield start, i, listed[start]
            start = i
        before = value
    if listed:
        yield start, len(listed), listed[start]


def _rect(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> str:
    sizes: Mapping[str, float] = {"x": x, "y": y, "width": width, "height": height}
    numbers = " ".join(f'{name}="{value:g}"' for name, value in sizes.items())
    return f'<rect {numbers} fill="{colour}"' + (f' opacity="{opacity:g}"/>' if opacity < 1 else "/>")

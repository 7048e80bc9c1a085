"""The widget that draws rows, keeps the selection and sends only changed cells; palettes as Textual themes.

Uses Textual's line API: a row is a strip. Forty stock widgets would send ten times the bytes. The widget only tracks
what is on the screen and which cells changed; the painter gives rows their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES, Theme
from textual.widget import Widget

from rltop.rows.glyphs import cell_width, char_width, is_single
from rltop.rows.keys import Scope
from rltop.rows.rows import POINTED, ROLES, Line, Row, RowLink, Target
from rltop.rows.selection import Selection, Spot, highlighted
from rltop.rows.themes import Palette, RoleStyle
from rltop.screen.bindings import BINDINGS as KEY_BINDINGS
from rltop.screen.textual_shim import PatchedApp

GAP_CELLS = 8
"""Spans closer than this are merged: moving the cursor costs about as many bytes."""

Cell = tuple[str, str]

_NO_CELL: Cell = (" ", "text")


def cells_of(line: Line) -> list[Cell]:
    """One (character, role) per screen cell; the second half of a wide character is empty.

    A combining character is appended to the cell before it.
    """
    cells: list[Cell] = []
    for text, role in line:
        if is_single(text):
            cells += [(character, role) for character in text]
            continue
        for character in text:
            width = char_width(character)
            if width == 0 and cells:
                before, its_role = cells[-1]
                cells[-1] = (before + character, its_role)
            elif width:
                cells.append((character, role))
                cells += [("", role)] * (width - 1)
    return cells


def has_certain_cells(line: Line) -> bool:
    """Whether Rich, which crops strips, computes the same character positions as we do."""
    text = "".join([piece.text for piece in line])
    return is_single(text) or cell_len(text) == cell_width(text)


def changed_spans(old: Line, new: Line, width: int) -> list[tuple[int, int]]:
    """Cell ranges (start, stop exclusive) in which two lines look different.

    The shorter line counts as blank beyond its end. A range never starts in the middle of a wide character. If
    positions are uncertain (emoji sequences), it is the whole line.
    """
    if old == new:
        return []
    if not (has_certain_cells(old) and has_certain_cells(new)):
        return [(0, width)]
    same = _same_pieces(old, new)
    x = sum([cell_width(piece.text) for piece in old[:same]])
    room = max(0, width - x)
    before, after = cells_of(old[same:])[:room], cells_of(new[same:])[:room]
    length = max(len(before), len(after))
    before += [_NO_CELL] * (length - len(before))
    after += [_NO_CELL] * (length - len(after))
    return [(x + start, x + stop) for start, stop in _differing(before, after)]


def _same_pieces(old: Line, new: Line) -> int:
    """Number of equal leading pieces that certainly end at a character boundary."""
    same = 0
    for mine, its in zip(old, new, strict=False):
        if mine != its or not is_single(mine.text):
            break
        same += 1
    return max(0, same - 1)


def _differing(before: list[Cell], after: list[Cell]) -> list[tuple[int, int]]:
    """Ranges in which two rows of equal length differ; close ones are merged."""
    length = len(after)
    spans: list[tuple[int, int]] = []
    for x in [x for x, (mine, its) in enumerate(zip(before, after, strict=True)) if mine != its]:
        start = x
        while start and (not before[start][0] or not after[start][0]):
            start -= 1
        stop = x + 1
        while stop < length and (not before[stop][0] or not after[stop][0]):
            stop += 1
        if spans and start - spans[-1][1] < GAP_CELLS:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return spans


WHEEL_ROWS = 3

_EMPTY = Row(())

Pointed = Callable[[int, int, int], bool]
"""Called with a cell and the turns of the wheel, 0 for a click; returns whether the page handled it."""

Dragged = Callable[[int, int, int, bool], bool]
"""Called with the cell of the press, the current column, and whether the button was released; returns likewise."""

LEAST_DRAG = 2
"""Pointer movement, in cells, from which a press is a drag instead of a click."""


def _nobody(*_: int) -> bool:
    return False


Painter = Callable[[int, int], Sequence[Row]]
"""Makes rows for a width and a height in cells."""


class Opened(Message):
    """Enter or a click on the selected cell: open its target."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


class Selected(Message):
    """The selection or the visible part of the rows has changed; None if nothing is selectable."""

    def __init__(self, target: Target | None) -> None:
        super().__init__()
        self.target = target

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Selected)


class RowView(Widget, can_focus=True):
    """Draws `rows`; Enter posts `Opened`, moving posts `Selected`."""

    BINDINGS: ClassVar[list[BindingType]] = [*KEY_BINDINGS[Scope.LIST]]

    def __init__(
        self,
        palette: Palette,
        paint: Painter,
        *,
        id: str | None = None,
        point: Pointed = _nobody,
        drag: Dragged = _nobody,
    ) -> None:
        """A view that calls `paint(width, height)` whenever its size changes or `draw` is called."""
        super().__init__(id=id)
        self._styles_of = RoleStyles(palette)
        self._paint = paint
        self._point, self._drag = point, drag
        self._down: tuple[int, int] | None = None
        self._is_dragging = False
        self._painted_for = Size(0, 0)
        self.rows: Sequence[Row] = ()
        self.top = 0
        self.selection = Selection()
        self.has_moved = False
        self._strips: dict[int, Strip] = {}

    @property
    def below(self) -> int:
        """Number of rows below the last visible one."""
        return max(0, len(self.rows) - self.top - self.size.height)

    def draw(self) -> list[Region]:
        if not self.size:
            return []
        self._painted_for = self.size
        return self.show(self._paint(*self.size))

    def show(self, rows: Sequence[Row]) -> list[Region]:
        """Replace the rows; returns the regions marked for repainting, in cells of this widget."""
        old_rows, old_top, old_spot, old_target = self.rows, self.top, self.selection.spot, self.selection.target
        self.rows = rows
        self.selection.update(rows)
        self.top = min(self.top, self._last_top())
        if old_top != self.top:
            regions = [self.size.region]
        else:
            regions = [
                Region(start, y - self.top, stop - start, 1)
                for y in range(self.top, min(self.top + self.size.height, max(len(rows), len(old_rows))))
                for start, stop in changed_spans(_line(old_rows, y), _line(rows, y), self.size.width)
            ]
            regions += self._moved(old_spot, self.selection.spot)
        self._repaint(regions)
        if self.selection.target != old_target:
            self.post_message(Selected(self.selection.target))
        return regions

    def set_palette(self, palette: Palette) -> None:
        self._styles_of = RoleStyles(palette)
        self._strips.clear()
        self.refresh()

    def select(self, target: Target) -> bool:
        return self._move(lambda: self.selection.select(target))

    @property
    def here(self) -> int:
        spot = self.selection.spot
        return spot.y if spot is not None and self.is_in_view(spot.y) else self.top

    def is_in_view(self, y: int) -> bool:
        return self.top <= y < self.top + self.size.height

    def go_to(self, y: int) -> None:
        self._move(lambda: self.selection.in_row(y))
        if not self.is_in_view(y):
            self._scroll(y - self.size.height // 3)

    def render_line(self, y: int) -> Strip:
        self.settle()
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._strip(self.top + y)
        return strip

    def _strip(self, y: int) -> Strip:
        spot = self.selection.spot
        link = spot.link if spot is not None and spot.y == y and self.has_focus else None
        return _strip_of(_line(self.rows, y), link, self._styles_of, self.size.width)

    def settle(self) -> None:
        """Repaint if the size has changed, and keep the selection and its visibility."""
        if self._painted_for == self.size:
            return
        spot, height = self.selection.spot, self._painted_for.height
        was_seen = not height or (spot is not None and self.top <= spot.y < self.top + height)
        self._painted_for = self.size
        old, below = self.selection.target, self.below
        self.rows = self._paint(*self.size)
        self._strips.clear()
        self.selection.update(self.rows)
        self.top = min(self.top, self._last_top())
        if old is not None and was_seen:
            self._follow()
        if self.selection.target != old or self.below != below:
            self.post_message(Selected(self.selection.target))

    def _last_top(self) -> int:
        return max(0, len(self.rows) - max(1, self.size.height))

    def _repaint(self, regions: Sequence[Region]) -> None:
        if not regions:
            return
        for region in regions:
            for y in range(region.y, region.bottom):
                self._strips.pop(y, None)
        self.refresh(*regions)

    def _moved(self, old: Spot | None, new: Spot | None) -> list[Region]:
        if old is not None and new is not None and (old.y, old.link[:2]) == (new.y, new.link[:2]):
            return []
        return [
            Region(spot.link.start, spot.y - self.top, spot.link.stop - spot.link.start, 1)
            for spot in (old, new)
            if spot is not None and 0 <= spot.y - self.top < self.size.height
        ]

    def _move(self, change: Callable[[], bool], *, tells: bool = True) -> bool:
        self.has_moved = True
        old = self.selection.spot
        if not change():
            return False
        self._follow()
        self._repaint(self._moved(old, self.selection.spot))
        if tells:
            self.post_message(Selected(self.selection.target))
        return True

    def _follow(self) -> None:
        spot = self.selection.spot
        if spot is None or not self.size.height:
            return
        if spot.y < self.top:
            # Scrolling to the first selectable row also shows the title above it.
            self._scroll(0 if spot == self.selection.first else spot.y)
        elif spot.y >= self.top + self.size.height:
            self._scroll(spot.y - self.size.height + 1)

    def _scroll(self, top: int) -> bool:
        top = max(0, min(top, self._last_top()))
        if top == self.top:
            return False
        self.top = top
        self._strips.clear()
        self.refresh()
        self.post_message(Selected(self.selection.target))
        return True

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1:
            self._down, self._is_dragging = (event.x, self.top + event.y), False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._down is not None and (self._is_dragging or abs(event.x - self._down[0]) >= LEAST_DRAG):
            self._is_dragging = self._drag(*self._down, event.x, False)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        if self._down is not None and self._is_dragging:
            self._drag(*self._down, event.x, True)
        self._down = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """At the end of a row, left and right go to the screen, which may pan or fold."""
        return action != "sideways" or self.selection.can_move(int(str(parameters[0])))

    def action_browse(self, by: int) -> None:
        """Select the row above (-1) or below (1); if it is far away or there is none, scroll instead."""
        row = self.selection.next_row(by)
        is_near = row is not None and self.top - 1 <= row <= self.top + self.size.height
        tells = not (isinstance(self.app, PatchedApp) and self.app.can_skip_drawing())
        if (
            self._hidden_by() * by > 0
            or not is_near
            or not self._move(lambda: self.selection.vertical(by), tells=tells)
        ):
            self._scroll(self.top + by)

    def _hidden_by(self) -> int:
        """-1 or 1 if the selection is above or below the visible rows, else 0."""
        spot = self.selection.spot
        if spot is None or self.is_in_view(spot.y):
            return 0
        return -1 if spot.y < self.top else 1

    def go_to_block(self, by: int) -> bool:
        return self._move(lambda: self.selection.block(by, self.rows))

    def action_sideways(self, by: int) -> None:
        self._move(lambda: self.selection.horizontal(by))

    def action_page(self, direction: int) -> None:
        step = direction * max(1, self.size.height - 1)
        self._scroll(self.top + step)
        self._move(lambda: self.selection.vertical(step))

    def action_first(self) -> None:
        self._move(lambda: self.selection.edge(False))
        self._scroll(0)

    def action_last(self) -> None:
        self._move(lambda: self.selection.edge(True))
        self._scroll(self._last_top())

    def action_open(self) -> None:
        """Open the selected target; if it is out of sight, only scroll to it."""
        if self._hidden_by():
            self._follow()
        elif self.selection.target is not None:
            self.post_message(Opened(self.selection.target))

    def on_click(self, event: events.Click) -> None:
        """A first click selects a cell and a second one opens it; a table head opens at once."""
        event.stop()
        was, y = self.selection.spot, self.top + event.y
        for start, stop, target in (self.rows[y] if y < len(self.rows) else _EMPTY).links:
            if target.kind in POINTED and start <= event.x < stop:
                self.post_message(Opened(target))
                return
        if self._is_pointed(event.x, y, 0) or not self._move(lambda: self.selection.at(event.x, y)):
            return
        if self.selection.spot == was:
            self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turned(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turned(event, -1)

    def _turned(self, event: events.MouseEvent, by: int) -> None:
        event.stop()
        if not self._is_pointed(event.x, self.top + event.y, -by):
            self._roll(by * WHEEL_ROWS)

    def _is_pointed(self, x: int, y: int, turn: int) -> bool:
        """Whether the page handled a click or wheel turn. The click that ends a drag counts as handled."""
        had, self._is_dragging = self._is_dragging, False
        return had or self._point(x, y, turn)

    def _roll(self, rows: int) -> None:
        self._scroll(self.top + rows)

    def on_focus(self) -> None:
        self._repaint(self._moved(None, self.selection.spot))

    def on_blur(self) -> None:
        """Hide the selection, as keys go elsewhere."""
        self._repaint(self._moved(self.selection.spot, None))


def _line(rows: Sequence[Row], y: int) -> Line:
    return (rows[y] if y < len(rows) else _EMPTY).line


def _strip_of(line: Line, link: RowLink | None, styles: RoleStyles, width: int) -> Strip:
    if link is None:
        segments = [Segment(text, styles.of(role)) for text, role in line]
    else:
        segments = [Segment(text, styles.of(role, is_lit)) for text, role, is_lit in highlighted(line, link)]
    text = "".join([segment.text for segment in segments])
    missing = width - len(text)
    if missing < 0 or not is_single(text):
        return Strip(segments).adjust_cell_length(width, styles.ground)
    if missing:
        segments.append(Segment(" " * missing, styles.ground))
    return Strip(segments, width)


_ALL = 1 << 30
"""More lines than any list has."""


class LongRowView(RowView):
    """Moves by calling `move(lines)`; the painter shows the surroundings of the line that `chosen` returns."""

    def __init__(
        self,
        palette: Palette,
        paint: Painter,
        move: Callable[[int], None],
        chosen: Callable[[], Target | None],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(palette, paint, id=id)
        self._ask = move
        self._wanted = chosen

    def settle(self) -> None:
        if self._painted_for != self.size:
            super().settle()
            target = self._wanted()
            if target is not None:
                self.select(target)

    def action_browse(self, by: int) -> None:
        self._ask(by)

    def action_page(self, direction: int) -> None:
        self._ask(direction * max(1, self.size.height - 2))

    def action_first(self) -> None:
        self._ask(-_ALL)

    def action_last(self) -> None:
        self._ask(_ALL)

    def _roll(self, rows: int) -> None:
        self._ask(rows)


class RoleStyles:
    """The Rich style of every role, plain and selected; each has a background.

    A segment without a style crashes Textual's monochrome filter, so an unknown role gets the style of text.
    """

    def __init__(self, palette: Palette) -> None:
        self.ground = rich_style(palette.style("text"), palette)
        self._plain = {role: rich_style(palette.style(role), palette) for role in ROLES}
        over = _style(palette.selection)
        self._selected = {role: style + over for role, style in self._plain.items()}
        self._selected_text = self.ground + over

    def of(self, role: str, is_selected: bool = False) -> Style:
        if is_selected:
            return self._selected.get(role, self._selected_text)
        return self._plain.get(role, self.ground)


@lru_cache(16)
def _colour(name: str) -> Color:
    return Color.parse(name.replace("-", "_"))


def rich_style(style: RoleStyle, palette: Palette) -> Style:
    fg, bg = style.fg or palette.colours["foreground"], style.bg or palette.colours["background"]
    return _style(style._replace(fg=fg, bg=bg))


def _style(style: RoleStyle) -> Style:
    return Style(
        color=_colour(style.fg) if style.fg else None,
        bgcolor=_colour(style.bg) if style.bg else None,
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
    )


def textual_theme(palette: Palette) -> Theme:
    """The palette for Textual's own widgets: footer, input, command palette."""
    colours = {key: _css(value) for key, value in palette.colours.items()}
    roles = {
        role: _css(palette.style(role).fg or palette.colours["foreground"])
        for role in ("ok", "warn", "crit", "info", "dim")
    }
    variables: dict[str, str] = {"text-dim": roles["dim"]}
    if palette.uses_terminal_colours:
        variables |= _TERMINAL_VARIABLES
    return Theme(
        name=palette.name,
        primary=colours["primary"],
        secondary=roles["info"],
        accent=colours["primary"],
        success=roles["ok"],
        warning=roles["warn"],
        error=roles["crit"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        dark=palette.is_dark,
        ansi=palette.uses_terminal_colours,
        variables=variables,
    )


_TERMINAL_VARIABLES: Mapping[str, str] = {
    **BUILTIN_THEMES["ansi-dark"].variables,
    "block-cursor-foreground": "ansi_default",
    "block-cursor-background": "ansi_default",
    "block-cursor-text-style": "reverse",
    "block-cursor-blurred-text-style": "reverse",
    "input-cursor-text-style": "reverse",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
}
"""Variables that Textual's style sheets need from such a theme, and cursors visible on any background."""


def _css(colour: str) -> str:
    return colour if colour.startswith("#") else f"ansi_{colour.replace('-', '_')}"

"""The first frame, on the screen before Textual is imported.

Importing Textual takes longer than reading the newest rows, so the rows are written as plain escape codes to the
alternate screen that Textual then takes over. Knows rows and palettes; must not import Textual.

Until Textual is loaded, which takes long on a slow disk, `q` quits. Keys are only inspected here: all of them are
passed on to Textual. The first key after which `q` could have another meaning ends the inspection.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence

from rltop.files import Worker
from rltop.pages.header import body_height
from rltop.rows.glyphs import cell_width
from rltop.rows.rows import Piece, Row, clip_middle
from rltop.rows.selection import Selection, highlighted, target_text
from rltop.rows.themes import PLAIN, Palette, SgrState, look_of
from rltop.screen.guard import TerminalGuard

READING_S = 0.1
"""Show "reading …" if a read takes longer."""

DEADLINE_S = 0.5
"""Wait no longer than this for a read before importing Textual, which slows it down."""

READING = Row((Piece(" reading …", "dim"),))

QUIT = b"q"
KEYS = " q quits"
"""Shown until Textual is loaded."""
HARMLESS = frozenset({b"j", b"k", b"\x1b[A", b"\x1b[B", b"\x1bOA", b"\x1bOB"})
"""Codes of the keys up and down: impatient users press them, and `q` keeps its meaning after them."""

_BINDINGS = frozenset({"quit", "up", "down"})
"""Keymap names of the actions of these keys, which a keymap may move to other keys."""

_NAMES = frozenset({"q", "j", "k", "up", "down"})
"""Keymap names of these keys, which a keymap may assign to other actions."""

_ESCAPE = b"\x1b"

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "?")


def paint_early(
    guard: TerminalGuard,
    build: Callable[[int, int], Sequence[Row]],
    palette: Palette,
    *,
    takes_keys: bool = True,
    deadline_s: float = DEADLINE_S,
) -> bool:
    """Draw the rows from `build` for the terminal's size, or first "reading …" if that takes long.

    `build(width, height)` runs in a daemon thread that is not waited for beyond the deadline: it must own everything it
    touches, as it may run long after this function has returned. Late rows are drawn unless the screen has been handed
    over. If it fails, the frame stays empty: the application repeats the read and reports the error. Until the
    handover, the same thread handles `q`.

    Args:
        build: makes rows for a width and a height in cells.

    Returns:
        Whether the rows were drawn by the deadline.
    """
    width, height = guard.size
    keys = KEYS if takes_keys else ""
    drawn = threading.Event()

    def work() -> None:
        rows = _rows(build, width, height)
        if rows is not None and guard.write_early(EarlyPicture(rows, width, height, palette, keys=keys).frame()):
            drawn.set()
        if takes_keys and is_quit_typed(guard):
            guard.end(0)

    Worker("early-paint").start(work)
    if drawn.wait(min(READING_S, deadline_s)):
        return True
    with guard.quiet():
        if not drawn.is_set():
            guard.write_early(EarlyPicture((READING,), width, height, palette, keys=keys).frame())
    return drawn.wait(max(0.0, deadline_s - READING_S))


def _rows(build: Callable[[int, int], Sequence[Row]], width: int, height: int) -> Sequence[Row] | None:
    try:
        return build(width, body_height(height))
    except Exception:
        # Worker boundary: leave the frame empty; the application reports the error.
        return None


class EarlyPicture:
    """A whole screen as escape codes, with its selection."""

    def __init__(
        self,
        rows: Sequence[Row],
        width: int,
        height: int,
        palette: Palette,
        environment: Mapping[str, str] | None = None,
        *,
        keys: str = "",
    ) -> None:
        """A picture of `rows` from the top, on a screen of `width` × `height` cells.

        Args:
            rows: of the body; those that do not fit are dropped.
            environment: decides which colours the terminal supports; None: that of the process.
            keys: text of the last line, if there is room for it.
        """
        self._rows = rows[: body_height(height)]
        self._width, self._height = width, height
        self._palette = palette
        self._has_truecolour = _has_truecolour(os.environ if environment is None else environment)
        self._looks: dict[tuple[str, bool], SgrState] = {}
        self._selection = Selection()
        self._selection.update(rows[: body_height(height)])
        # The page will show what is selected here, if there is room for it.
        self._status_line = range(body_height(height), height)[:-1]
        self._key_line, self._keys = range(body_height(height), height)[-1:], keys

    def frame(self) -> bytes:
        """The complete screen, background included; wrapping is off, so that no row can scroll it."""
        out, before, ground = ["\x1b[?7l\x1b[0m"], PLAIN, self._look("text")
        for y in range(self._height):
            out.append(f"\x1b[{y + 1};1H")
            line = self._line(y)
            left = self._width - sum(cell_width(text) for text, _ in line)
            for text, look in (*line, (" " * left, ground)):
                now = look.of_blanks(before) if text.isspace() else look
                out.append(now.after(before) + text if text else "")
                before = now if text else before
        out.append(PLAIN.after(before))
        return "".join(out).encode("utf-8", "replace")

    def _line(self, y: int) -> list[tuple[str, SgrState]]:
        if y in self._status_line:
            return [(clip_middle(f" {target_text(self._selection.target)}", self._width), self._look("key"))]
        if y in self._key_line:
            return [(self._keys, self._look("dim"))]
        if y >= len(self._rows):
            return []
        line, spot = self._rows[y].line, self._selection.spot
        if spot is not None and spot.y == y:
            lit = highlighted(line, spot.link)
            return [(text.translate(_CONTROLS), self._look(role, is_lit)) for text, role, is_lit in lit]
        return [(text.translate(_CONTROLS), self._look(role)) for text, role in line]

    def _look(self, role: str, is_lit: bool = False) -> SgrState:
        look = self._looks.get((role, is_lit))
        if look is None:
            style = self._palette.style(role)
            if is_lit:
                style = style.overlaid_by(self._palette.selection)
            look = self._looks[role, is_lit] = look_of(style, self._palette, self._has_truecolour)
        return look


def _has_truecolour(environment: Mapping[str, str]) -> bool:
    return environment.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}


def keeps_early_keys(keymap: Mapping[str, str]) -> bool:
    """Whether a keymap leaves these keys with their default meaning."""
    given = {key.strip() for keys in keymap.values() for key in keys.split(",")}
    return not _BINDINGS & keymap.keys() and not _NAMES & given


def is_quit_typed(guard: TerminalGuard) -> bool:
    """Wait for `q`; False once another key was typed or the screen was handed over."""
    while (typed := _next_key(guard)) in HARMLESS:
        pass
    return typed == QUIT


def _next_key(guard: TerminalGuard) -> bytes:
    """A complete key: half an escape sequence would be another key to the next reader."""
    first = guard.read_early()
    return first if first != _ESCAPE else first + _rest_of_escape(guard)


def _rest_of_escape(guard: TerminalGuard) -> bytes:
    """The rest of an escape sequence (ECMA-48: parameters, then one final byte)."""
    rest = guard.read_early(waits=False)
    if rest not in {b"[", b"O"}:
        return rest
    while byte := guard.read_early(waits=False):
        rest += byte
        if byte >= b"@":
            break
    return rest

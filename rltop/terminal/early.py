"""The first frame, on the screen before Textual is imported.

Importing Textual takes longer than reading the newest rows, so the rows are
written as plain escape codes into the alternate screen that Textual then takes
over. Knows rows and palettes; must not import Textual.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence

from rltop.terminal.guard import TerminalGuard
from rltop.view.frame import body_height
from rltop.view.lines import Piece, Row
from rltop.view.palette import Palette, sgr

DEADLINE_S = 0.1
"""Longer than this a read is not waited for: Textual is imported meanwhile."""

READING = Row((Piece(" reading …", "dim"),))

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "?")


def paint_early(
    guard: TerminalGuard,
    build: Callable[[int, int], Sequence[Row]],
    palette: Palette,
    *,
    deadline_s: float = DEADLINE_S,
) -> bool:
    """Draw what `build` makes of the terminal's size; at first "reading …" if that takes long.

    `build(width, height)` runs in a daemon thread that is not waited for beyond
    the deadline: it must own whatever it touches, because it may still be at work
    long after this function has returned. Rows that come late are drawn as long
    as nobody has taken the screen over. An error in it leaves the frame empty: the
    same read is made again, and reported, by the application.

    Args:
        guard: holds the terminal.
        build: makes rows for a width and a height in cells.
        palette: how their roles look.
        deadline_s: how long to wait.

    Returns:
        True if the rows are on the screen.
    """
    width, height = guard.size
    drawn = threading.Event()

    def work() -> None:
        try:
            rows = build(width, body_height(height))
        except Exception:
            # The worker boundary: an empty frame now, the application says why.
            return
        if guard.write_early(frame(rows, width, height, palette)):
            drawn.set()

    threading.Thread(target=work, name="early-paint", daemon=True).start()
    if drawn.wait(deadline_s):
        return True
    with guard.quiet():
        if not drawn.is_set():
            guard.write_early(frame((READING,), width, height, palette))
    return drawn.is_set()


def frame(
    rows: Sequence[Row], width: int, height: int, palette: Palette, environment: Mapping[str, str] | None = None
) -> bytes:
    """One whole screen as bytes: the ground everywhere, the rows from the top.

    Wrapping is off while it is written, so that no row can scroll the screen.
    """
    has_truecolour = _has_truecolour(os.environ if environment is None else environment)
    ground = sgr(palette.style("text"), palette, has_truecolour)
    codes: dict[str, str] = {}
    out = ["\x1b[?7l"]
    for y in range(height):
        out.append(f"\x1b[{y + 1};1H{ground}{' ' * width}\x1b[{y + 1};1H")
        if y >= len(rows):
            continue
        for text, role in rows[y].line:
            if role not in codes:
                codes[role] = sgr(palette.style(role), palette, has_truecolour)
            out.append(codes[role] + text.translate(_CONTROLS))
    out.append("\x1b[0m")
    return "".join(out).encode("utf-8", "replace")


def _has_truecolour(environment: Mapping[str, str]) -> bool:
    """Whether the terminal says that it takes 24-bit colours; Textual asks the same."""
    return environment.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}

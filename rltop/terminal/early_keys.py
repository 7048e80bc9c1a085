"""Keys while Textual is still being imported: the selection moves, and `q` quits.

What is typed is only looked at here. All of it is handed on to Textual, which answers
it again, so that both come to the same; a key that means anything else ends the
looking, because it may change what the next one means.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from rltop.terminal.guard import TerminalGuard

_ESCAPE = b"\x1b"


class EarlyKey(enum.Enum):
    """What can be answered without Textual."""

    UP = -1
    DOWN = 1
    QUIT = 0


EARLY_KEYS = {
    b"k": EarlyKey.UP,
    b"\x1b[A": EarlyKey.UP,
    b"\x1bOA": EarlyKey.UP,
    b"j": EarlyKey.DOWN,
    b"\x1b[B": EarlyKey.DOWN,
    b"\x1bOB": EarlyKey.DOWN,
    b"q": EarlyKey.QUIT,
}
"""As terminals send them; the same as `ui.bindings` has for up, down and quit."""

EARLY_BINDINGS = frozenset({"up", "down", "quit"})
"""What they are called in a keymap, which may give them other keys."""

EARLY_NAMES = frozenset({"up", "k", "down", "j", "q"})
"""What the keys are called there, where they may be given to something else."""


def keeps_early_keys(keymap: Mapping[str, str]) -> bool:
    """Whether these keys mean under a keymap what they mean here."""
    given = {key.strip() for keys in keymap.values() for key in keys.split(",")}
    return not EARLY_BINDINGS & keymap.keys() and not EARLY_NAMES & given


def early_keys(guard: TerminalGuard) -> Iterator[EarlyKey]:
    """The keys that are typed, until one is none of these or the screen has been handed over."""
    while first := guard.read_early():
        typed = first if first != _ESCAPE else first + _rest_of_escape(guard)
        if typed not in EARLY_KEYS:
            return
        yield EARLY_KEYS[typed]


def _rest_of_escape(guard: TerminalGuard) -> bytes:
    """What follows an ESC to the end of the sequence (ECMA-48: parameters, then one final byte)."""
    rest = guard.read_early(waits=False)
    if rest not in {b"[", b"O"}:
        return rest
    while byte := guard.read_early(waits=False):
        rest += byte
        if byte >= b"@":
            break
    return rest

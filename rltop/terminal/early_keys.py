"""`q` while Textual is still being imported, which takes long where the disk is far away.

What is typed is only looked at here: all of it is handed on to Textual. A key that may
change what `q` means after it ends the looking.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.terminal.guard import TerminalGuard

QUIT = b"q"
HARMLESS = frozenset({b"j", b"k", b"\x1b[A", b"\x1b[B", b"\x1bOA", b"\x1bOB"})
"""What terminals send for the keys up and down: impatient people press them, and `q` means the same after them."""

_BINDINGS = frozenset({"quit", "up", "down"})
"""What these keys do, as a keymap calls it, which may give them other keys."""

_NAMES = frozenset({"q", "j", "k", "up", "down"})
"""What the keys are called there, where they may be given to something else."""

_ESCAPE = b"\x1b"


def keeps_early_keys(keymap: Mapping[str, str]) -> bool:
    """Whether these keys mean under a keymap what they mean here."""
    given = {key.strip() for keys in keymap.values() for key in keys.split(",")}
    return not _BINDINGS & keymap.keys() and not _NAMES & given


def is_quit_typed(guard: TerminalGuard) -> bool:
    """Wait for `q`; False when another key has come, or the screen has been handed over."""
    while (typed := _next_key(guard)) in HARMLESS:
        pass
    return typed == QUIT


def _next_key(guard: TerminalGuard) -> bytes:
    """A key whole: half an escape sequence would be another key to whoever reads the rest of it."""
    first = guard.read_early()
    return first if first != _ESCAPE else first + _rest_of_escape(guard)


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

"""Terminal modes: what is changed, and how any remaining process can restore it.

Imports next to nothing: the warden process starts with this module.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Settings = list[Any]
    """As returned by `termios`."""

WRITE_TIMEOUT_S = 0.5
"""Timeout for the last bytes to a terminal that does not read."""

WARDEN_PATIENCE_S = 5.0
"""The same in the warden, where nobody waits: a slow link may still have a picture to deliver."""

ENTER = b"\x1b[?1049h\x1b[?25l\x1b[22;2t"
"""Alternate screen, hidden cursor, window title saved."""

LEAVE = (
    b"\x1b\\"  # ends a string that was cut in the middle, so that what follows is parsed
    b"\x1b[?2026l"  # synchronised output: show what follows
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l"  # focus, bracketed paste, resize reports
    b"\x1b[?7h\x1b[0m"  # wrap, colours
    b"\x1b[23;2t"  # the title of the window
    b"\x1b[<u"  # kitty keyboard: the alternate screen has its own stack, so before leaving it
    b"\x1b[?1049l\x1b[?25h"  # back to the main screen and its cursor
)
"""Resets every mode that this program or Textual may have set to its default."""

_NO_KEY = b"\0"


def take_keys_quietly(input_fd: int) -> Settings | None:
    """Disable echo and line editing; returns the previous settings, None if there are none.

    Enter stays a carriage return, which Textual expects, and Ctrl-C still raises SIGINT. Ctrl-Z is queued like other
    keys: stopping at once would leave the shell on the alternate screen.
    """
    try:
        before, settings = termios.tcgetattr(input_fd), termios.tcgetattr(input_fd)
        settings[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        settings[6][termios.VMIN] = 1
        settings[6][termios.VTIME] = 0
        settings[6][termios.VSUSP] = _NO_KEY
        termios.tcsetattr(input_fd, termios.TCSANOW, settings)
    except termios.error:
        return None
    return before


def reopened_terminal(output_fd: int) -> int:
    """A non-blocking descriptor of the same terminal; the same descriptor if it cannot be opened.

    A blocked write would keep all other threads from restoring the terminal. Setting the original descriptor to
    non-blocking would affect the shell as well.
    """
    try:
        return os.open(os.ttyname(output_fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return output_fd


class ShellJob:
    """The process groups that may own the terminal.

    Attributes:
        shells: groups of the shell that started the job: our parent's, unless it is part of the job, and the session
            leader's.
    """

    def __init__(self, own: int, shells: frozenset[int]) -> None:
        self.own, self.shells = own, shells

    @classmethod
    def current(cls) -> ShellJob:
        own = os.getpgrp()
        return cls(own, frozenset({os.getsid(0), os.getpgid(os.getppid())}) - {own})


def foreground(fd: int) -> int | None:
    """Foreground process group of the terminal; None if there is none or the terminal is gone."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return None


def restore_terminal(
    input_fd: int,
    output_fd: int,
    settings: Settings | None,
    job: ShellJob,
    patience_s: float = WRITE_TIMEOUT_S,
    *,
    keeps_keys: bool = False,
) -> None:
    """Reset every mode, and restore the settings from before `job` drew.

    The shell may own the terminal by now, if the job was stopped or has died without cleaning up. Most shells have then
    restored their own settings. If another job owns the terminal, nothing is touched.

    Args:
        settings: from before the job drew; None: unknown.
        keeps_keys: pending input is kept for this job, which takes the terminal again at once.
    """
    whose = foreground(output_fd)
    is_ours = whose in {None, job.own}
    if not is_ours and whose not in job.shells:
        return
    with _from_the_background():
        write_last(output_fd, LEAVE, patience_s)
        if settings is None:
            return
        with contextlib.suppress(termios.error):
            if is_ours or _are_taken(termios.tcgetattr(input_fd)):
                termios.tcsetattr(input_fd, termios.TCSANOW, settings)
                if not keeps_keys:
                    # Pending mouse reports and query replies would become input of the shell.
                    termios.tcflush(input_fd, termios.TCIFLUSH)


def _are_taken(settings: Settings) -> bool:
    return not settings[3] & (termios.ICANON | termios.ECHO) and settings[6][termios.VSUSP] == _NO_KEY


@contextlib.contextmanager
def _from_the_background() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_last(output_fd: int, data: bytes, patience_s: float) -> None:
    """Write the restoring bytes, without waiting long for a terminal that hangs.

    After the timeout, pending output of earlier pictures is discarded to make room for these bytes.
    """
    view, is_emptied = memoryview(data), False
    with contextlib.suppress(OSError, ValueError, termios.error):
        while view:
            if select.select([], [output_fd], [], patience_s)[1]:
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(output_fd, view) :]
            elif is_emptied:
                return
            else:
                termios.tcflush(output_fd, termios.TCOFLUSH)
                is_emptied = True


def as_word(settings: Settings | None) -> bytes:
    return marshal.dumps(settings).hex().encode()


def from_word(word: bytes) -> Settings | None:
    settings: Settings | None = marshal.loads(bytes.fromhex(word.decode()))
    return settings


def restore_terminal_for(word: bytes, input_fd: int, output_fd: int, own: int, *shells: int) -> None:
    """`restore_terminal` on behalf of a dead process, from its last message."""
    restore_terminal(input_fd, output_fd, from_word(word), ShellJob(own, frozenset(shells)), WARDEN_PATIENCE_S)

"""What is changed about a terminal, and how to change it back, from whichever process is left to do it.

Imports next to nothing: the warden is a process of its own that begins with this.
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
    """As `termios` has them."""

WRITE_TIMEOUT_S = 0.5
"""How long the last bytes wait for a terminal that does not read."""

WARDEN_PATIENCE_S = 5.0
"""The same where nobody waits for the end: a slow link may still have a picture to deliver."""

ENTER = b"\x1b[?1049h\x1b[?25l\x1b[22;2t"
"""Alternate screen, cursor hidden, the title of the window kept."""

LEAVE = (
    b"\x1b\\"  # ends a string that was cut in the middle, so that what follows is understood
    b"\x1b[?2026l"  # synchronised output: show what follows
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l"  # focus, bracketed paste, resize reports
    b"\x1b[?7h\x1b[0m"  # wrap, colours
    b"\x1b[23;2t"  # the title of the window
    b"\x1b[<u"  # kitty keyboard: the alternate screen has its own stack, so before leaving it
    b"\x1b[?1049l\x1b[?25h"  # the screen that was there, and its cursor
)
"""Undoes every mode that this program or Textual may have set; each is off or on by default."""

_NO_KEY = b"\0"


def take_keys_quietly(input_fd: int) -> Settings | None:
    """Stop echo and line editing; the settings from before, None where there are none.

    Enter stays a carriage return, which is what Textual expects, and Ctrl-C still raises SIGINT. Ctrl-Z waits in the
    queue with the other keys: stopping at once would leave the shell on the alternate screen.
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


def opened_anew(output_fd: int) -> int:
    """A descriptor of the same terminal on which no write waits; where it cannot be opened, the same one.

    Whoever waits in a write keeps the terminal from everybody else, so that nothing could be
    undone any more. To make the descriptor itself so would make it so for the shell too.
    """
    try:
        return os.open(os.ttyname(output_fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return output_fd


class ShellJob:
    """Whose terminal it may be.

    Attributes:
        shells: those of the shell that began the job: our parent's, unless that is
            part of the job, and the leader's of the session.
    """

    def __init__(self, own: int, shells: frozenset[int]) -> None:
        self.own, self.shells = own, shells

    @classmethod
    def current(cls) -> ShellJob:
        own = os.getpgrp()
        return cls(own, frozenset({os.getsid(0), os.getpgid(os.getppid())}) - {own})


def foreground(fd: int) -> int | None:
    """The process group that the terminal belongs to; None if it is no job's, or gone: nobody else's is disturbed."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return None


def give_back(
    input_fd: int,
    output_fd: int,
    settings: Settings | None,
    job: ShellJob,
    patience_s: float = WRITE_TIMEOUT_S,
    *,
    keeps_keys: bool = False,
) -> None:
    """Undo every mode, and put back the settings from before `job` drew.

    The shell may have the terminal by now: of a job that was stopped, or that has
    died, without a chance to tidy up. It has put its own settings in place then,
    unless it is one that never touches them. From any other job the hands are kept.

    Args:
        settings: from before the job drew; None: unknown.
        keeps_keys: what has been typed is for this job still, which takes the terminal again at once.
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
                    # Mouse reports and answers to queries that are still in the queue would be typed into the shell.
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
    """Send the restoring bytes, but do not wait long for a terminal that hangs.

    What it has not taken by then of the last pictures is thrown away: in its place these bytes wait for it.
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


def give_back_for(word: bytes, input_fd: int, output_fd: int, own: int, *shells: int) -> None:
    """`give_back` for a process that is no more, from what it said of itself."""
    give_back(input_fd, output_fd, from_word(word), ShellJob(own, frozenset(shells)), WARDEN_PATIENCE_S)

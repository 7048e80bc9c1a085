"""Owns the terminal from the first byte to the last.

The guard saves the terminal's settings before anything changes them, switches
to the alternate screen, and undoes everything on every way out: a normal exit,
an exception, a signal, a terminal that went away. Textual runs inside it and
restores only what it found; what was there before is the guard's to restore.

Must not import Textual: it is at work before Textual is there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from rltop.errors import SourceError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What is asked of a program that should end; SIGKILL cannot be answered."""

GRACE_S = 1.0
"""How long the program may take to leave by itself after a signal."""

WRITE_TIMEOUT_S = 0.5
"""How long the last bytes wait for a terminal that does not read."""

KEY_WAIT_S = 0.05
"""How often whoever waits for early keys looks whether the screen is still its own, and how long for half a key."""

SLICE_BYTES = 4096
"""Written at once, so that the guard can stop a long frame in the middle."""

ENTER = b"\x1b[?1049h\x1b[?25l"
"""Alternate screen, cursor hidden."""

LEAVE = (
    b"\x1b\\"  # ends a string that was cut in the middle, so that what follows is understood
    b"\x1b[?2026l"  # synchronised output: show what follows
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l"  # focus, bracketed paste, resize reports
    b"\x1b[?7h\x1b[0m"  # wrap, colours
    b"\x1b[<u"  # kitty keyboard: the alternate screen has its own stack, so before leaving it
    b"\x1b[?1049l\x1b[?25h"  # the screen that was there, and its cursor
)
"""Undoes every mode that this program or Textual may have set; each is off or on by default."""


class TerminalGuard:
    """Saves the terminal's state first and restores it last.

    Use as a context manager around everything that draws. A signal is answered
    at once as long as nobody has registered with `on_leave`; afterwards the
    registered callable is asked to end the program, and the guard ends it itself
    if that takes longer than `GRACE_S`.
    """

    def __init__(self, input_fd: int, output_fd: int) -> None:
        """Guard the terminal behind the two descriptors."""
        self.input_fd = input_fd
        self.output_fd = output_fd
        self.is_lost = False
        """The terminal went away: nothing can be written any more."""
        self.signal: int | None = None
        """The signal that ended the program, if one did."""
        self._settings: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._is_entered = False
        self._is_handed_over = False
        self._typed = bytearray()
        self._is_busy = False
        self._deferred: int | None = None
        # Re-entrant: a signal handler may have to restore while its own thread is writing.
        self._output = threading.RLock()
        self._leave: Callable[[], None] | None = None
        self._owned_fd: int | None = None

    @classmethod
    def open(cls) -> TerminalGuard:
        """Guard the controlling terminal, wherever the standard streams go.

        Standard input may be a pipe that is being watched and standard error a log
        file: the terminal is then opened by its own name.

        Raises:
            SourceError: there is no terminal.
        """
        if os.isatty(0) and os.isatty(1):
            return cls(0, 1)
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            raise SourceError("there is no terminal to draw on", "use --once for one picture as text") from error
        guard = cls(terminal, terminal)
        guard._owned_fd = terminal
        return guard

    @property
    def is_entered(self) -> bool:
        """The alternate screen is up and has not been left."""
        return self._is_entered

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in cells; 80×24 where the terminal does not say."""
        try:
            width, height = os.get_terminal_size(self.output_fd)
        except OSError:
            return 80, 24
        return width or 80, height or 24

    def __enter__(self) -> Self:
        self._install()
        self.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        if self.signal is not None:
            self._die(self.signal)
        self._uninstall()
        if self._owned_fd is not None:
            os.close(self._owned_fd)
            self._owned_fd = None

    def on_leave(self, leave: Callable[[], None] | None) -> None:
        """Let `leave` end the program on a signal or when the terminal is lost.

        It is called from a signal handler or from a thread, and must only schedule. None takes the registration back.
        """
        self._leave = leave

    def enter(self) -> None:
        """Save the settings, stop echo and line editing, show the alternate screen.

        Keys typed from now on stay in the terminal's queue until somebody reads
        them; Enter stays a carriage return, which is what Textual expects. Ctrl-C
        still raises SIGINT. Does nothing when already entered.
        """
        if self._is_entered:
            return
        with self._uninterrupted():
            with contextlib.suppress(termios.error):
                self._settings = termios.tcgetattr(self.input_fd)
                settings = termios.tcgetattr(self.input_fd)
                settings[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
                settings[3] &= ~(termios.ECHO | termios.ICANON)
                settings[6][termios.VMIN] = 1
                settings[6][termios.VTIME] = 0
                # Ctrl-Z waits in the queue too: stopping now would leave the shell on the alternate screen.
                settings[6][termios.VSUSP] = b"\0"
                termios.tcsetattr(self.input_fd, termios.TCSANOW, settings)
            self._is_entered = True
            self.write(ENTER)

    def restore(self) -> None:
        """Undo every mode and put the saved settings back; once per `enter`.

        From the background the terminal belongs to somebody else: nothing is
        written then, and the shell has already put its own settings in place.
        """
        if not self._is_entered:
            return
        with self._uninterrupted(), self._alone() as is_first:
            if not is_first or not self._is_foreground():
                return
            self._write_last(LEAVE)
            if self._settings is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.input_fd, termios.TCSANOW, self._settings)
                    # Mouse reports and answers to queries that are still in the queue would be typed into the shell.
                    termios.tcflush(self.input_fd, termios.TCIFLUSH)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Nobody else writes meanwhile."""
        with self._output:
            yield

    def hand_over(self) -> bytes:
        """From here on screen and keys are somebody else's: `write_early` and `read_early` do nothing more.

        Returns:
            What `read_early` has read: all of it is still to be answered.
        """
        with self._output:
            self._is_handed_over = True
            return bytes(self._typed)

    def write_early(self, data: bytes) -> bool:
        """Send a whole frame, unless the screen has been handed over; from any thread."""
        with self._output:
            return not self._is_handed_over and self.write(data)

    def read_early(self, *, waits: bool = True) -> bytes:
        """The next byte that is typed; empty once the screen has been handed over, or if none comes soon.

        `waits` for as long as it takes.

        From any thread. Byte by byte, so that nothing is taken from the terminal's
        queue that nobody asks for.
        """
        while self._settings is not None and self._is_entered and not self._is_handed_over:
            try:
                if not select.select([self.input_fd], [], [], KEY_WAIT_S)[0]:
                    if waits:
                        continue
                    break
                with self._output:
                    # Whoever has taken over meanwhile may have read it: then there is nothing to be waited for.
                    byte = b"" if self._is_handed_over else os.read(self.input_fd, 1)
                    self._typed += byte
            except (OSError, ValueError):
                break
            return byte
        return b""

    def end(self, code: int) -> NoReturn:
        """Give the terminal back and end the program, from any thread, with nothing else to tidy up."""
        self.restore()
        os._exit(code)

    def write(self, data: bytes) -> bool:
        """Send `data`; False when the screen has been left or the terminal is gone."""
        view = memoryview(data)
        while view:
            with self._output:
                if not self._is_entered or self.is_lost:
                    return False
                try:
                    view = view[os.write(self.output_fd, view[:SLICE_BYTES]) :]
                    continue
                except BlockingIOError:
                    pass
                except OSError:
                    self.is_lost = True
            if self.is_lost:
                self._ask_to_leave()
                return False
            select.select([], [self.output_fd], [], WRITE_TIMEOUT_S)
        return True

    def _write_last(self, data: bytes) -> None:
        """Send the restoring bytes, but do not wait for a terminal that hangs."""
        view = memoryview(data)
        with contextlib.suppress(OSError, ValueError):
            while view and select.select([], [self.output_fd], [], WRITE_TIMEOUT_S)[1]:
                view = view[os.write(self.output_fd, view) :]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keep other threads from writing; True for the one that leaves the screen.

        A thread that hangs in a write keeps the lock: it is not waited for.
        """
        is_locked = self._output.acquire(timeout=WRITE_TIMEOUT_S)
        try:
            is_first, self._is_entered = self._is_entered, False
            yield is_first
        finally:
            if is_locked:
                self._output.release()

    def _ask_to_leave(self) -> None:
        if self._leave is not None:
            self._leave()

    def _is_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.output_fd) == os.getpgrp()
        except OSError:
            # Not our controlling terminal, or none any more: nobody else's job is disturbed.
            return True

    @contextlib.contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """Put signals off, so that no state is left half changed.

        Blocking them in this thread would not do: another thread would receive
        them, and the handler would still run here.
        """
        if self._is_busy or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            deferred, self._deferred = self._deferred, None
        if deferred is not None:
            self._on_signal(deferred, None)

    def _install(self) -> None:
        for number in SIGNALS:
            # A signal that was ignored on start (nohup, a background job) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._on_signal)

    def _uninstall(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_busy:
            self._deferred = number
            return
        is_first, self.signal = self.signal is None, number
        if self._leave is None or not is_first:
            self._die(number)
            return
        watchdog = threading.Timer(GRACE_S, self._end_late, (number,))
        watchdog.daemon = True
        watchdog.start()
        self._ask_to_leave()

    def _die(self, number: int) -> None:
        """Restore, then end by the same signal, so that the parent sees why."""
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _end_late(self, number: int) -> None:
        """End a program that did not leave by itself; runs in a thread of its own."""
        self.end(128 + number)

"""Owns the terminal from the first byte to the last.

The guard saves the terminal's settings before anything changes them, switches to the alternate screen, and undoes
everything on every way out: a normal exit, an exception, a signal, a crash, a terminal that went away, and whenever the
job is stopped. Textual runs inside it and restores only what it found; what was there before is the guard's to restore.

Most signals can be answered in Python before they end the process: `answerable` names them, `Signals` notes them at any
time and answers at a good one. A crash and SIGKILL cannot: for these a `Warden` waits beside it.

Must not import Textual: it is at work before Textual is there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from rltop.clock import Clock
from rltop.errors import SourceError
from rltop.screen.modes import (
    ENTER,
    WRITE_TIMEOUT_S,
    ShellJob,
    as_word,
    foreground,
    give_back,
    give_back_for,
    opened_anew,
    take_keys_quietly,
)
from rltop.screen.warden import Warden

if TYPE_CHECKING:
    from rltop.screen.modes import Settings

GRACE_S = 1.0
"""How long the program may take to leave by itself after a signal."""

_RESTORED_S = 3 * WRITE_TIMEOUT_S
"""By then another thread has given the terminal back: it waits for it twice at most."""

KEY_WAIT_S = 0.05
"""How often whoever waits for early keys looks whether the screen is still its own, and how long for half a key."""

SLICE_BYTES = 4096
"""Written at once, so that the guard can stop a long frame in the middle."""


class TerminalGuard:
    """Saves the terminal's state first and restores it last.

    Use as a context manager around everything that draws, while there is one thread. A signal is answered at once as
    long as nobody has registered with `on_leave`; afterwards the registered callable is asked to end the program, and
    the guard ends it itself if that takes longer than `GRACE_S`. `on_stop` is the same for a job that is to be stopped,
    or was.

    Attributes:
        is_lost: it went away: nothing can be written any more.
        signal: the signal that ended the program, if one did.
    """

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self.input_fd, self.output_fd = input_fd, output_fd
        self.is_lost = False
        self.signal: int | None = None
        self._writing_fd = output_fd
        self._settings: Settings | None = None
        self._warden: Warden | None = None
        self.signals = Signals(output_fd, self._asked_to_end, self._asked_to_stop, self._continued)
        self._is_entered = False
        self._is_handed_over = False
        self._clock = Clock()
        self._writes_until_s: float | None = None
        self._drawn, self._typed = bytearray(), bytearray()
        # Re-entrant: a signal handler may have to restore while its own thread is writing.
        self._output = threading.RLock()
        self._leave: Callable[[], None] | None = None
        self._stop: Callable[[], None] | None = None
        self._resume: Callable[[], None] | None = None
        self._owned_fd: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in cells; 80×24 where the terminal does not say."""
        return _size_of(self.output_fd)

    def __enter__(self) -> Self:
        self._writing_fd = opened_anew(self.output_fd)
        with contextlib.suppress(OSError):
            # Without another process, a crash leaves the terminal as it is: no reason not to begin.
            fds, job = (self.input_fd, self._writing_fd), self.signals.job
            self._warden = Warden(give_back_for, *fds, job.own, *job.shells, keeps=fds)
        self.signals.listen()
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()
        if self.signal is not None:
            self._die(self.signal)
        self._dismiss_warden()
        self.signals.close()
        if self._writing_fd != self.output_fd:
            os.close(self._writing_fd)
            self._writing_fd = self.output_fd
        if self._owned_fd is not None:
            os.close(self._owned_fd)
            self._owned_fd = None

    def on_leave(self, leave: Callable[[], None] | None) -> None:
        """Let `leave` quit on a signal or when the terminal is lost.

        It is called from a signal handler or from a thread, and must only schedule. None takes the registration back.
        """
        self._leave = leave

    def on_stop(self, stop: Callable[[], None] | None, resume: Callable[[], None] | None) -> None:
        """Let `stop` call `stop_job` when the job is to stop; `resume` draws anew after a stop that nobody announced.

        Both are called from a signal handler and must only schedule. Whatever
        handlers were set meanwhile are ours again. None takes the registration back.
        """
        self._stop, self._resume = stop, resume
        self.signals.listen_to_stops()

    def enter(self) -> None:
        """Save the settings, stop echo and line editing, show the alternate screen.

        Keys typed from now on stay in the terminal's queue until somebody reads
        them. Does nothing when already entered.
        """
        with self._output, self.signals.put_off():
            if self._is_entered:
                return
            self._settings = take_keys_quietly(self.input_fd)
            self._is_entered, self._writes_until_s = True, None
            if self._warden is not None:
                self._warden.tell(as_word(self._settings))
            self.write(ENTER)

    def restore(self, *, keeps_keys: bool = False) -> None:
        """Undo every mode and put the saved settings back; once per `enter`.

        Args:
            keeps_keys: what has been typed meanwhile is not for the shell: the terminal is taken again at once.
        """
        if not self._is_entered:
            return
        with self.signals.put_off(), self._alone() as is_first:
            if is_first:
                give_back(self.input_fd, self._writing_fd, self._settings, self.signals.job, keeps_keys=keeps_keys)
                if self._warden is not None:
                    self._warden.tell(b"")

    def hurry(self) -> None:
        """The screen is about to be left: a terminal that reads no more, or slowly, is not waited for."""
        if self.signal is None:  # else it is ended in time, and by one thread alone
            self._writes_until_s = self._clock.monotonic() + WRITE_TIMEOUT_S

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        with self._output:
            yield

    def hand_over(self) -> bytes:
        """From here on screen and keys are somebody else's; what `read_early` has read, all still to be answered."""
        with self._output:
            self._is_handed_over = True
            typed = bytes(self._typed)
            # Only once: this is called again after each stop.
            self._typed.clear()
            self._drawn.clear()
            return typed

    def write_early(self, data: bytes) -> bool:
        with self._output:
            if self._is_handed_over:
                return False
            self._drawn += data
            return self.write(data)

    def read_early(self, *, waits: bool = True) -> bytes:
        """The next byte that is typed, from any thread; empty once the screen has been handed over.

        Byte by byte, so that nothing is taken from the terminal's queue that nobody asks for.
        `waits` for as long as it takes; else empty, too, if none comes soon.
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
        """Give the terminal back and quit, from any thread, with nothing else to tidy up; no other enters it again."""
        self._output.acquire(timeout=_RESTORED_S)
        self.restore()
        self._dismiss_warden()
        os._exit(code)

    def write(self, data: bytes) -> bool:
        """Send `data`; False when the screen has been left, or is about to be, or the terminal is gone."""
        view = memoryview(data)
        while view:
            if self._writes_until_s is not None and self._clock.monotonic() >= self._writes_until_s:
                return False
            with self._output:
                if not self._is_entered or self.is_lost:
                    return False
                try:
                    view = view[os.write(self._writing_fd, view[:SLICE_BYTES]) :]
                    continue
                except BlockingIOError:
                    pass
                except OSError:
                    self.is_lost = True
            if self.is_lost:
                self._ask_to_leave()
                return False
            select.select([], [self._writing_fd], [], WRITE_TIMEOUT_S)
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keep other threads from writing, but for one that hangs in it; True for the one that leaves the screen."""
        is_locked = self._output.acquire(timeout=_RESTORED_S)
        try:
            is_first, self._is_entered = self._is_entered, False
            yield is_first
        finally:
            if is_locked:
                self._output.release()

    def _ask_to_leave(self) -> None:
        if self._leave is not None:
            self._leave()

    def _asked_to_stop(self) -> None:
        if self._stop is not None:
            self._stop()
            return
        was_entered = self._is_entered
        self.restore()
        self.signals.stop_job()
        if was_entered:
            self._draw_again()

    def _continued(self) -> None:
        """Go on after a stop that left no time to restore the terminal; the shell may have changed it since."""
        if not self._is_entered:
            return
        if self._resume is not None:
            self._resume()
            return
        self.restore(keeps_keys=True)
        self._draw_again()

    def _draw_again(self) -> None:
        self.enter()
        with self._output:
            self.write(bytes(self._drawn))

    def _asked_to_end(self, number: int) -> None:
        is_first, self.signal = self.signal is None, number
        if self._leave is None or not is_first:
            self._die(number)
            return
        watchdog = threading.Timer(GRACE_S, self.end, (128 + number,))
        watchdog.daemon = True
        watchdog.start()
        self._ask_to_leave()

    def _die(self, number: int) -> None:
        self.restore()
        self._dismiss_warden()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _dismiss_warden(self) -> None:
        if self._warden is not None:
            self._warden.dismiss()


def open_guard() -> TerminalGuard:
    """Guard the controlling terminal, wherever the standard streams go.

    Standard input may be a pipe that is being watched and standard error a log
    file: the terminal is then opened by its own name.

    Raises:
        SourceError: there is no terminal.
    """
    if os.isatty(0) and os.isatty(1):
        return TerminalGuard(0, 1)
    terminal = _controlling_terminal()
    guard = TerminalGuard(terminal, terminal)
    guard._owned_fd = terminal
    return guard


def _controlling_terminal() -> int:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise SourceError("there is no terminal to draw on", "use --once for one picture as text") from error


def _size_of(terminal: int) -> tuple[int, int]:
    try:
        width, height = os.get_terminal_size(terminal)
    except OSError:
        return 80, 24
    return width or 80, height or 24


_HARMLESS = frozenset(
    {
        signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
        signal.SIGURG, signal.SIGWINCH,
    }
)  # fmt: skip
"""Signals that end nothing."""

_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
)
"""What the processor or a library says of a broken program. Answered by Python, the instruction that failed would be
tried again for ever; and who sends one wants an end at once, even of a program that hangs, and a core dump."""

_STOPS = 50
"""So often a job is stopped again that is continued in the background; more often means that it cannot be stopped."""

_BOTH_S = 0.01
"""How long two signals that were sent together may take until both have been noted."""


def answerable() -> tuple[int, ...]:
    """Signals that would end this process now and that Python can answer first.

    One that is ignored (`nohup`, a job in the background) or has a handler already is none of them.
    """
    unanswered = (signal.SIG_DFL, signal.default_int_handler)
    others = _HARMLESS | _CRASHES | {signal.SIGKILL}
    return tuple(
        int(number)
        for number in sorted(signal.valid_signals())
        if number not in others and signal.getsignal(number) in unanswered
    )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


class Signals:
    """The signals of a program that holds a terminal.

    Args:
        end: called with a signal that asks the program to end.
        go_on: called when it goes on in the foreground after a stop that nobody announced.
    """

    def __init__(
        self, terminal: int, end: Callable[[int], None], stop: Callable[[], None], go_on: Callable[[], None]
    ) -> None:
        self.job = ShellJob.current()
        self._terminal = terminal
        self._end = end
        self._stop = stop
        self._go_on = go_on
        self._may_stop = signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN
        self._handlers: dict[int, Any] = {}
        self._deferred: list[int] = []
        self._is_busy = False
        self._is_ending = False

    def listen(self) -> None:
        """Answer from now on whatever would end the program now, and what stops it."""
        for number in answerable():
            self._handlers[number] = signal.signal(number, self._note)
        self.listen_to_stops()

    def listen_to_stops(self) -> None:
        """Answer what stops the program, whatever handlers others have set meanwhile; what was ignored stays so."""
        signal.signal(signal.SIGCONT, self._note)
        signal.signal(signal.SIGTSTP, self._note if self._may_stop else signal.SIG_IGN)

    def close(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL if self._may_stop else signal.SIG_IGN)

    @contextmanager
    def put_off(self) -> Iterator[None]:
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
            deferred, self._deferred = self._deferred, []
        for number in deferred:
            self._note(number, None)

    def stop_job(self) -> None:
        """Stop, and all that belongs to the job with us; returns when it goes on in the foreground.

        As the job's shell waits for the first process of it only, which may be one that started us (`uv run`), all of
        it has to stop. At once back where nobody could continue the job: without a shell that knows of jobs, the kernel
        stops nothing. Only from the main thread.
        """
        if not self._may_stop:
            return
        with self.put_off():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(0, signal.SIGTSTP)
            self.listen_to_stops()
            self._await_foreground()

    def _await_foreground(self) -> None:
        """Stop again while the terminal is somebody else's (`bg`), as the kernel does with whoever touches it."""
        for _ in range(_STOPS):
            if foreground(self._terminal) in {None, self.job.own}:
                break
            # Whoever continues a job to end it (`kill %1`) sends two signals: let both arrive.
            time.sleep(_BOTH_S)
            if self._is_ending or any(each in self._handlers for each in self._deferred):
                break
            os.kill(0, signal.SIGTTOU)
        # Having been continued is no news any more.
        self._deferred = [each for each in self._deferred if each != signal.SIGCONT]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_busy:
            self._deferred.append(number)
        elif number == signal.SIGTSTP:
            self._stop()
        elif number == signal.SIGCONT:
            with self.put_off():
                self._await_foreground()
            if not self._is_ending:
                self._go_on()
        else:
            self._is_ending = True
            # A job that is told to end in the background does, and is not stopped for touching the terminal.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            self._end(number)

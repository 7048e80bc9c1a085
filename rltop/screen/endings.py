"""How a process comes to its end.

Most signals can be answered in Python before they end the process: `answerable`
names them, `Signals` answers them for a program that holds a terminal, noted at any time and
answered at a good one. A crash and SIGKILL cannot: for these a `Warden` waits beside it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rltop.screen.modes import ShellJob, foreground

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

"""How a process comes to its end, and who puts right what it then leaves behind.

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
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

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

_MOST_BYTES = 1 << 16
_STANDARD_STREAMS = (0, 1, 2)
_PUT_RIGHT_S = 10
"""A warden that has not done by then ends all the same: nothing stays behind."""

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
    """What a signal is called; only the first and the last real-time signal have names of their own."""
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
        """Put back the handlers that were there."""
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


class Warden:
    """A process that does nothing but wait for this one's end, and then puts right what is left.

    It is forked, not started: half a millisecond instead of twenty, and it knows all that this process knows. Begin it
    while there is one thread only. Whatever ends this process, the kernel closes the pipe between them before the
    parent is told. It has a process group of its own and ignores every signal: what is sent to the job, or typed, is
    not for it.
    """

    def __init__(self, put_right: Callable[[bytes], None], *keeps: int) -> None:
        """Have `put_right` called with the last word of this process, if there was one, once it is no more.

        Args:
            put_right: runs in the other process, with standard streams that go nowhere.

        Raises:
            OSError: there may be no more processes.
        """
        reading, self._writing = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(self._writing)
            raise
        if self._pid == 0:
            _stand_by(reading, put_right, keeps)
        os.close(reading)

    def tell(self, word: bytes) -> None:
        """What there is to put right from now on; nothing if it is empty. One line, shorter than a page."""
        with suppress(OSError):
            os.write(self._writing, word + b"\n")

    def dismiss(self) -> None:
        """End it: there is nothing to put right any more."""
        pid, self._pid = self._pid, 0
        if pid:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            with suppress(OSError):
                os.close(self._writing)


def _stand_by(reading: int, put_right: Callable[[bytes], None], keeps: tuple[int, ...]) -> NoReturn:
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.setpgid(0, 0)
        _close_all_but(reading, *keeps)
        # `killall -9 rltop` is not for it either.
        with suppress(OSError):
            Path("/proc/self/comm").write_text("warden")
        said = b""
        while data := os.read(reading, _MOST_BYTES):
            said = (said + data)[-_MOST_BYTES:]
        word = said.rpartition(b"\n")[0].rpartition(b"\n")[2]
        if word:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_PUT_RIGHT_S)
            put_right(word)
    finally:
        os._exit(0)


def _close_all_but(*keeps: int) -> None:
    """Close every descriptor but these; standard streams that are not kept go nowhere.

    A pipe that is being watched, or a terminal's other end, is not to be held open from here.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in _STANDARD_STREAMS:
        if stream not in keeps:
            os.dup2(nowhere, stream)
    for entry in list(os.scandir("/dev/fd")):
        descriptor = int(entry.name)
        if descriptor not in keeps and descriptor not in _STANDARD_STREAMS:
            with suppress(OSError):
                os.close(descriptor)

"""A process that waits for the end of another one, and then puts right what that leaves behind.

Imports next to nothing, nor must it: the process begins anew with this file alone, once the program has lasted a while.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn

_MOST_BYTES = 1 << 16
_STANDARD_STREAMS = (0, 1, 2)
_PUT_RIGHT_S = 10
"""A warden that has not done by then ends all the same: nothing stays behind."""
KILL_AFTER_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""
LOOK_S = 0.02
_AS_FORKED_MS = 3000
"""Until it begins anew: by then the first frame and all that follows have been shown."""
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120


class Warden:
    """A process that does nothing but wait for this one's end, and then puts right what is left.

    It is forked, not started: half a millisecond instead of twenty, and it knows all that this process knows. Begin it
    while there is one thread only. Whatever ends this process, the kernel closes the pipe between them before the
    parent is told. It has a process group of its own and ignores every signal: what is sent to the job, or typed, is
    not for it.

    Of the memory that it shared at first it would keep a copy of nearly all, so it soon begins anew as a bare Python.
    """

    def __init__(self, put_right: Callable[..., None], *arguments: int, keeps: Sequence[int] = ()) -> None:
        """Have `put_right` called with the last word of this process, if there was one, once it is no more.

        Args:
            put_right: runs in the other process, with standard streams that go nowhere; what is no function of a
                module is called from the forked process, which then stays.
            arguments: what it is called with after the word.
            keeps: descriptors that it needs.

        Raises:
            OSError: there may be no more processes.
        """
        reading, self._writing = os.pipe()
        # The terminal hangs up on the job where this process ends first: what is sent before the other one ignores it
        # waits until it does.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _begin(reading, put_right, arguments, keeps, mask)
        except OSError:
            os.close(self._writing)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(reading)

    def tell(self, word: bytes) -> None:
        """What there is to put right from now on; nothing if it is empty. One line, shorter than a page."""
        with suppress(OSError):
            os.write(self._writing, word + b"\n")

    def dismiss(self) -> None:
        pid, self._pid = self._pid, 0
        if pid:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            with suppress(OSError):
                os.close(self._writing)


def _begin(
    reading: int, put_right: Callable[..., None], arguments: Sequence[int], keeps: Sequence[int], mask: Iterable[int]
) -> NoReturn:
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setpgid(0, 0)
        _close_all_but(reading, *keeps)
        _take_name()
        waits = select.poll()
        waits.register(reading, 0)
        # What is said meanwhile stays in the pipe, for whichever of the two reads it.
        if not waits.poll(_AS_FORKED_MS):
            _begin_anew(reading, put_right, arguments, keeps)
        _wait(reading, put_right, arguments)
    finally:
        os._exit(0)


def _take_name() -> None:
    """`killall -9 rltop` is not for it either."""
    with suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123
        name.write("warden")


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


def _begin_anew(reading: int, put_right: Callable[..., None], arguments: Sequence[int], keeps: Sequence[int]) -> None:
    """Become a Python that has imported nothing; returns where that cannot be."""
    module, name = put_right.__module__, put_right.__name__
    is_found = module != "__main__" and getattr(sys.modules.get(module), name, None) is put_right
    if not is_found or not sys.executable or hasattr(sys, "frozen"):
        return
    for descriptor in (reading, *keeps):
        os.set_inheritable(descriptor, True)
    path = [_HOME, *(one for one in sys.path if os.path.isabs(one))]  # noqa: PTH117
    told = reading, module, name, tuple(arguments)
    program = f"import sys; sys.path[:0] = {path!a}; from {__name__} import go_on; go_on(*{told!r})"
    try:
        os.execv(sys.executable, (sys.executable, "-I", "-S", "-B", "-c", program))
    except OSError:
        return


def go_on(reading: int, module: str, name: str, arguments: Sequence[int]) -> NoReturn:
    """Wait as the process that was forked did, having begun anew.

    What it will need is imported at once: later the program may be of another version, gone, or on a slow disk.
    """
    try:
        put_right = getattr(import_module(module), name)
        _take_name()
        _wait(reading, put_right, arguments)
    finally:
        os._exit(0)


def _wait(reading: int, put_right: Callable[..., None], arguments: Sequence[int]) -> None:
    said = b""
    while data := os.read(reading, _MOST_BYTES):
        said = (said + data)[-_MOST_BYTES:]
    word = said.rpartition(b"\n")[0].rpartition(b"\n")[2]
    if word:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PUT_RIGHT_S)
        put_right(word, *arguments)


def end_groups(leaders: bytes) -> None:
    """End groups of processes, SIGTERM first; it stands here so that a warden has no more to import for it."""
    groups = [int(each) for each in leaders.split()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        for _ in range(int(KILL_AFTER_S / LOOK_S)):
            groups = [group for group in groups if _has_members(group)]
            if not groups:
                return
            time.sleep(LOOK_S)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True

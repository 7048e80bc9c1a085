"""A process that waits for another one to end, and then cleans up after it.

Must import next to nothing: the process starts with this file alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_MOST_BYTES = 1 << 16
_STANDARD_STREAMS = (0, 1, 2)
_MOST_DESCRIPTORS = 1024
_PUT_RIGHT_S = 10
"""Time limit for the cleanup, so that no process is left behind."""
KILL_AFTER_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""
LOOK_S = 0.02
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120


class Warden:
    """A process that waits for this one to end, and then cleans up.

    It is a bare Python that is spawned: after a fork, this process would copy every page that it writes to, which costs
    nine milliseconds of the first frame. Until it is ready, messages wait in the pipe, which the kernel closes however
    this process ends. It has its own process group and ignores all signals: those sent to the job, or typed, are not
    meant for it.
    """

    def __init__(self, put_right: Callable[..., None], *arguments: int, keeps: Sequence[int] = ()) -> None:
        """Once this process is gone, call `put_right` with its last message, if there was one.

        Args:
            put_right: a module-level function; runs in the other process, with standard streams redirected to
                /dev/null.
            arguments: its further arguments.
            keeps: file descriptors that it needs.

        Raises:
            OSError: the process limit is reached, or there is no Python executable.
        """
        reading, self._writing = os.pipe()
        try:
            self._pid = _started((reading, *keeps), put_right, arguments)
        except OSError:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def set_message(self, word: bytes) -> None:
        """Replace the message for the cleanup; an empty one means none. A single line, shorter than a page."""
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


def _started(keeps: Sequence[int], put_right: Callable[..., None], arguments: Sequence[int]) -> int:
    if not sys.executable or hasattr(sys, "frozen"):
        raise OSError("there is no Python to start")
    path = [_HOME, *(one for one in sys.path if os.path.isabs(one))]  # noqa: PTH117
    told = tuple(keeps), put_right.__module__, put_right.__name__, tuple(arguments)
    program = f"import sys; sys.path[:0] = {path!a}; from {__name__} import begin; begin(*{told!r})"
    streams = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_RDWR, 0) for one in _STANDARD_STREAMS if one not in keeps]
    return os.posix_spawn(
        sys.executable,
        (sys.executable, "-I", "-S", "-B", "-c", program),
        os.environ,
        file_actions=[*streams, *((os.POSIX_SPAWN_DUP2, one, one) for one in keeps)],
        setpgroup=0,
        # If this process dies first, the terminal hangs up on the job: SIGHUP stays blocked until it is ignored.
        setsigmask=signal.valid_signals(),
    )


def begin(keeps: Sequence[int], module: str, name: str, arguments: Sequence[int]) -> NoReturn:
    """Entry point of the spawned process; `keeps`: the pipe and the descriptors that it needs.

    Imports everything at once: later the program may have been updated or removed, or its disk may be slow.
    """
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _close_all_but(*keeps, *_STANDARD_STREAMS)
        put_right = getattr(import_module(module), name)
        _take_name()
        _wait(keeps[0], put_right, arguments)
    finally:
        os._exit(0)


def _take_name() -> None:
    """So that `killall -9 rltop` does not hit it."""
    with suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123
        name.write("warden")


def _close_all_but(*keeps: int) -> None:
    """Close all other descriptors, so as not to hold a watched pipe open."""
    try:
        descriptors = [int(entry.name) for entry in os.scandir("/dev/fd")]
    except OSError:  # there is no /proc
        descriptors = list(range(_MOST_DESCRIPTORS))
    for descriptor in descriptors:
        if descriptor not in keeps:
            with suppress(OSError):
                os.close(descriptor)


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
    """End process groups, SIGTERM first; defined here so that a warden needs no further import."""
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

"""A program in a pseudo-terminal, measured from outside: bytes, CPU time, what it shows.

The other end of the pseudo-terminal is read here, so that a benchmark counts exactly
what a terminal would receive.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent

RLTOP = (sys.executable, "-m", "rltop")
"""The program under test, run by the interpreter that runs the benchmark."""

HELLO = """
from textual.app import App
from textual.widgets import Static
class Hello(App):
    def compose(self):
        yield Static("hello, world")
Hello().run()
"""
"""A minimal Textual program, as the lower bound."""

_QUERY_ANSWERS = ((b"\x1b[?2026$p", b"\x1b[?2026;2$y"),)
"""Answers of a modern terminal, so that the program behaves as on one."""

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")


def memory_mb(pid: int | str = "self", kind: str = "VmRSS") -> float:
    """Memory of a process in megabytes (10⁶ bytes), from /proc.

    Raises:
        OSError: there is no such process, or no /proc.
        ValueError: /proc does not have `kind`.
    """
    found = re.search(rf"^{kind}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{kind} of process {pid} is not known")
    return int(found[1]) * 1024 / 1e6


class Screened:
    """A running program; use as a context manager, which ends it.

    Attributes:
        output: everything it has written so far, including escape codes.
        started_s: `time.perf_counter()` at its start.
    """

    def __init__(self, command: Sequence[str], width: int = 120, height: int = 40, *, answers: bool = True) -> None:
        """Start `command` on a terminal of `width` × `height` cells; `answers`: the terminal answers queries."""
        self._queries = _QUERY_ANSWERS if answers else ()
        self.output = bytearray()
        self.arrivals: list[tuple[float, int]] = []
        self._answered = 0
        self.started_s = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            own = {
                k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TMUX", "STY", "PYTHONDONTWRITEBYTECODE"}
            }
            os.execve(command[0], list(command), {**own, "TERM": "xterm-256color", "COLORTERM": "truecolor"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.perf_counter() + 3.0
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            self.read(0.02)
            if time.perf_counter() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self._fd)

    def read(self, timeout_s: float) -> bool:
        """Read output, waiting at most `timeout_s` for it; False if there was none."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:
            time.sleep(min(timeout_s, 0.01))
            return False
        self.output += data
        self.arrivals.append((time.perf_counter(), len(self.output)))
        for query, answer in self._queries:
            asked = self.output.count(query, max(0, len(self.output) - len(data) - len(query)))
            for _ in range(asked):
                os.write(self._fd, answer)
        return True

    def read_for(self, seconds: float) -> None:
        """Read for `seconds`."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def until(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> float:
        """Read until `condition()` holds; returns the seconds since the start.

        Raises:
            TimeoutError: it never held.
        """
        end = time.perf_counter() + timeout_s
        while not condition():
            if time.perf_counter() > end:
                raise TimeoutError(f"not shown within {timeout_s} s: {bytes(self.output[-300:])!r}")
            self.read(0.05)
        return time.perf_counter() - self.started_s

    def press(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    @property
    def cpu_s(self) -> float:
        """CPU time used by all threads of the program, in seconds."""
        # The clock id of another process, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory_mb(self, kind: str = "VmRSS") -> float:
        """Memory in megabytes; `VmHWM` for the peak."""
        return memory_mb(self.pid, kind)

    def text(self, since: int = 0) -> bytes:
        """Output from byte `since` on, without escape codes."""
        return _ESCAPES.sub(b"", bytes(self.output[since:]))

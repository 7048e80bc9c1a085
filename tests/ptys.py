"""A program in a pseudo-terminal: keys in, bytes out, terminal state before and after."""

from __future__ import annotations

import contextlib
import copy
import errno
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

DEFAULTS = {"25": True, "7": True}
"""Private modes that are on in a fresh terminal; all others are off."""

_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_TITLES = re.compile(rb"\x1b\[(22|23);[02]t")
_KITTY = re.compile(rb"\x1b\[([<>])[0-9;]*u")


PATIENCE_S = 60.0
"""Timeout for what normally happens at once, generous for a loaded machine; only a failure waits this long."""

_LAUNCHER = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the pty the controlling terminal, and resets the signals that the test runner ignores."""


class Screen(pyte.Screen):
    """A screen with an alternate screen, which pyte lacks."""

    _main: tuple[Any, Any] | None = None

    @property
    def display(self) -> list[str]:
        """The lines; pyte's own looks up the width of every character, a sixth of such a test's time."""
        columns, lines = range(self.columns), range(self.lines)
        return ["".join([line[x].data for x in columns]) for line in (self.buffer[y] for y in lines)]

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Set modes, and switch to an empty alternate screen if requested."""
        if kwargs.get("private") and 1049 in modes and self._main is None:
            self._main = (copy.deepcopy(self.buffer), copy.copy(self.cursor))
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Reset modes, and restore the main screen if requested."""
        if kwargs.get("private") and 1049 in modes and self._main is not None:
            (self.buffer, self.cursor), self._main = self._main, None
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)


class Terminal:
    """A child process on a pty, with both ends open in the parent.

    The open slave end keeps the terminal alive after the child has ended, so that its settings can be compared.
    """

    def __init__(self, arguments: Sequence[str], width: int = 80, height: int = 24, **environment: str) -> None:
        self.master, self.slave = os.openpty()
        self._set_size(width, height)
        os.set_blocking(self.master, False)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.screen = Screen(width, height)
        self._stream = pyte.ByteStream(self.screen)
        own = {
            key: value
            for key, value in os.environ.items()
            if key not in {"NO_COLOR", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST"}
        }
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", _LAUNCHER, *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**own, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
            start_new_session=True,
        )

    @classmethod
    def python(cls, *arguments: str, width: int = 80, height: int = 24, **environment: str) -> Terminal:
        return cls([sys.executable, *arguments], width, height, **environment)

    def _set_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width: int, height: int) -> None:
        """Resize the window; the program receives SIGWINCH."""
        self._set_size(width, height)
        self.screen.resize(height, width)
        os.kill(self.process.pid, signal.SIGWINCH)

    def read(self, most: int | None = None) -> bytes:
        """Read what the program has written since the last call, at most `most` bytes."""
        taken = b""
        while most is None or len(taken) < most:
            try:
                data = os.read(self.master, 65536 if most is None else most - len(taken))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EIO:
                    break
                raise
            if not data:
                break
            taken += data
        self.output += taken
        # pyte knows neither the kitty protocol nor sequences with a leading > or <.
        self._stream.feed(re.sub(rb"\x1b\[[<>=?][0-9;]*[a-gi-km-z$][a-z]?", b"", taken))
        return taken

    def until(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S, what: str = "") -> None:
        """Read until `condition()` holds; on timeout fails and shows the screen."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.read()
            if condition():
                return
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"timed out waiting for {what or condition}\n{self.text}\nexit: {self.process.poll()}"
                )
            select.select([self.master], [], [], 0.05)

    def until_text(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Read until `text` is on the screen."""
        self.until(lambda: text in self.text, timeout_s, repr(text))

    def until_still(self, still_s: float = 1.0, timeout_s: float = PATIENCE_S) -> None:
        """Read until nothing but the clock in the first line has changed for `still_s` seconds."""
        seen, since = "", time.monotonic()

        def is_still() -> bool:
            nonlocal seen, since
            below = self.text.partition("\n")[2]
            if below != seen:
                seen, since = below, time.monotonic()
            return time.monotonic() - since >= still_s

        self.until(is_still, timeout_s, "a screen that stands still")

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode("latin-1"))

    def quit(self, keys: str) -> None:
        """Press keys that end the program, which must end well and leave the terminal as it was."""
        self.press(keys)
        assert self.wait() == 0
        self.assert_untouched()

    def kill(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Read until the program has ended; returns its exit code, negative for a signal."""
        self.until(lambda: self.process.poll() is not None, timeout_s, "the end of the program")
        # The kernel may deliver the last output only after the writer has ended.
        while select.select([self.master], [], [], 0.05)[0] and self.read():
            pass
        return self.process.returncode

    @property
    def worked_s(self) -> float:
        """CPU time that the program has used so far, in seconds."""
        told = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join(self.screen.display)

    @property
    def settings(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    @property
    def modes(self) -> Mapping[str, bool]:
        """Private modes that differ from a fresh terminal, by number; also the stacks of kitty flags and titles."""
        found: dict[str, bool] = {}
        for numbers, letter in _MODE.findall(self.output):
            for number in numbers.decode().split(";"):
                found[number] = letter == b"h"
        different = {number: is_on for number, is_on in found.items() if is_on != DEFAULTS.get(number, False)}
        depth = 0
        for sign in _KITTY.findall(self.output):
            depth = depth + 1 if sign == b">" else max(0, depth - 1)
        if depth:
            different["kitty"] = True
        kept = 0
        for number in _TITLES.findall(self.output):
            kept = kept + 1 if number == b"22" else kept - 1
        if kept:
            different["titles"] = True
        return different

    def assert_untouched(self) -> None:
        """Assert that settings and modes are as before the program ran."""
        assert self.settings == self.before
        assert self.modes == {}, self.modes

    def close(self) -> None:
        """End the program if it is still running, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(end)

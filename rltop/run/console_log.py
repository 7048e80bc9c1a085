"""The console log of a run: its last lines, followed while somebody views them.

Reading is bounded, whatever the file size: its end, and what is appended afterwards. Nothing is judged; the page
highlights signs of failure.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Sequence

from rltop.clock import Clock
from rltop.errors import SourceError, reason_of
from rltop.files import Worker, first_bytes
from rltop.formats.console.failures import MAY_FAIL, names_no_cause, read_error
from rltop.formats.console.scan import stamped, unstamped
from rltop.formats.kinds import BINARY, HEAD_BYTES, is_noise
from rltop.model import Label
from rltop.regex import regex
from rltop.run.places import logs_near
from rltop.sources.events import Chunk, Reset, TailOptions, TailState
from rltop.sources.file import FileSystem, mount_of, read_part
from rltop.sources.tail import Tail
from rltop.structs import NamedTuple

HELD_BYTES = 8 * 1024 * 1024
"""Amount read from the end of the file at first; the same amount of later output is kept."""
HELD_LINES = 50_000
LINE_CHARS = 4_000
"""Longer lines are cut, with a note on the missing length."""
POLL_S, POLL_NETWORK_S = 0.5, 1.0
LOOK_S = 2.0
"""Interval for searching the folder while there is no log."""
ASKED_S = 5.0
"""Following is suspended after this long without a request."""
YIELD_S = 0.002
"""Pause after each piece, as the screen shares the interpreter."""
_PIECE = 256 * 1024
"""Amount of the end that is read at once; earlier data follow."""
_LONGEST = 4 * LINE_CHARS
_ESCAPES = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_STEP = regex(
    r"(?:\bglobal_?step|(?<![\w/])(?:step|iteration|iter))['\"]?\s{0,3}[:=#]?\s{0,3}\[?(\d{1,15})(?![\w%]|[.,]\d)"
    r"|\bglobal_?step['\"]?\s{0,3}[:=]\s{0,3}(\d{1,15})\.0+\b",
    re.IGNORECASE,
)
_FAILURE = regex(
    r"(?<![\w=:'\"-])(?:ERROR|CRITICAL|FATAL)\b|\bSIG(?:KILL|TERM|ABRT|SEGV|BUS|FPE)\b|\bOOM\b|[Oo]ut of memory"
    r"|OutOfMemory|\bNCCL (?:WARN|ERROR)|[Nn]o space left on device|\(core dumped\)|[Dd]isk quota exceeded"
)
_STEP_WORDS = ("step", "Step", "STEP", "iter", "Iter", "ITER")
_TRACEBACK = "Traceback (most recent call last)"


class LogLine(NamedTuple):
    """One line of a console, as a terminal would show it, without escape codes.

    Attributes:
        text: at most `LINE_CHARS` characters.
        step: the step in it, or None.
    """

    text: str
    step: int | None = None
    is_error: bool = False
    is_trace: bool = False
    left_out: int = 0


def read_line(raw: bytes, left_out: int = 0) -> LogLine:
    """Parse a line of the file; of a progress bar, only the last redraw."""
    raw = unstamped(own)[0] if (own := stamped(raw)) is not raw else raw
    if b"\r" in raw:
        raw = next((part for part in reversed(raw.split(b"\r")) if part.strip()), b"")
    text = raw.decode("utf-8", "replace")
    if not text.isprintable():
        text = _ESCAPES.sub("", text.expandtabs(4))
    whole, text = len(text), text[:LINE_CHARS]
    found = _STEP.search(text) if any(word in text for word in _STEP_WORDS) else None
    may_fail = any(word in text for word in MAY_FAIL)
    is_error = may_fail and (_FAILURE.search(text) is not None or read_error(text) is not None)
    is_error = is_error and not names_no_cause(text)
    step = None if found is None else int(found[1] or found[2])
    return LogLine(text.rstrip(), step, is_error, _TRACEBACK in text, whole - len(text) + left_out)


def why_no_log(path: str) -> SourceError | None:
    """Why a file given by the user cannot be shown as a console log; None if it can."""
    shown = Label.of(path).display
    try:
        is_text = not is_noise(first_bytes(path, HEAD_BYTES))
    except (OSError, ValueError) as error:
        return SourceError(f"--log {shown}: {reason_of(error)}", "name the file that the run prints to")
    return None if is_text else SourceError(f"--log {shown}: {BINARY}", "name the file that the run prints to")


class LogState(NamedTuple):
    """State of the log.

    Attributes:
        paths: candidate files, including the displayed one; empty if there is none.
        begins_at: byte offset of the data read; 0 for the whole file.
        note: why nothing, or nothing more, can be read; empty if all is well.
    """

    paths: Sequence[str] = ()
    path: str = ""
    size: int = 0
    begins_at: int = 0
    is_looking: bool = True
    note: str = ""


class ConsoleLog:
    """The last lines of a console log. Requests are answered at once, with what has been read.

    Lines have fixed numbers; the oldest are dropped.

    Args:
        path: the run's file, or the folder that is followed as one.
        given: file given by the user; empty searches near the run.
        likely: preferred file, as the first one found may be the wrong one.

    Attributes:
        first: number of the oldest line in memory.
        begun: that of the first line of this file that was read.
    """

    def __init__(
        self,
        path: str,
        given: str,
        on_news: Callable[[], None],
        likely: str = "",
    ) -> None:
        self._path, self._given, self._on_news = path, given, on_news
        self._fs, self._clock = FileSystem(), Clock()
        self._bell = threading.Condition()
        self._lines: list[LogLine] = []
        self._bytes = 0
        self._pending, self._lost = b"", 0
        self._tail: Tail | None = None
        self._poll_s = POLL_S
        self._before = 0, 0
        self._wanted = given or likely
        self._asked_at = float("-inf")
        self._is_closed = False
        self.state, self.version, self.first, self.begun = LogState(), 0, 0, 0
        self._worker = Worker("console log")

    def start(self) -> None:
        self._asked_at = self._clock.monotonic()
        self._worker.start(self._work)

    def close(self) -> None:
        """Stop the thread; a read that hangs is abandoned."""
        with self._bell:
            self._is_closed = True
            self._bell.notify()

    # -- requests of a page --------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Keep following, as somebody views the log."""
        now = self._clock.monotonic()
        was_idle, self._asked_at = now - self._asked_at > ASKED_S, now
        if was_idle:
            with self._bell:
                self._bell.notify()

    def show(self, path: str) -> None:
        with self._bell:
            self._wanted = path
            self._bell.notify()

    def lines(self, start: int | None = None) -> tuple[int, Sequence[LogLine]]:
        """The lines from a number on (None: all), with the number of the first; the last may be incomplete."""
        with self._bell:
            first = self.first if start is None else max(start, self.first)
            found = self._lines[first - self.first :]
            if self._pending:
                found.append(read_line(self._pending, self._lost))
            return first, found

    @property
    def closed_count(self) -> int:
        """The number after the last line that cannot change any more."""
        with self._bell:
            return self.first + len(self._lines)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_closed:
                has_more = self._look()
                with self._bell:
                    if self._is_closed:
                        break
                    is_asked = self._clock.monotonic() - self._asked_at <= ASKED_S
                    self._bell.wait(YIELD_S if has_more else self._poll_s if is_asked else None)
        except Exception as error:  # end of the thread: report the fault, which affects nothing else
            self._tell(self.state._replace(is_looking=False, note=f"reading stopped: {error!r}"))
        finally:
            if self._tail is not None:
                self._tail.close()

    def _look(self) -> bool:
        if self._tail is None or self._wanted != self.state.path:
            paths = [self._given] if self._given else logs_near(self._path)
            wanted = self._wanted if self._wanted in paths else next(iter(paths), "")
            if not wanted:
                self._poll_s = LOOK_S
                self._tell(LogState(is_looking=False))
                return False
            self._open(wanted, paths)
        assert self._tail is not None
        events = self._tail.poll(_PIECE)
        for event in events:
            if isinstance(event, Reset):
                self._forget()
                self._before = 0, 0
                self._tell(self.state._replace(begins_at=0))
            elif isinstance(event, Chunk):
                self._take(event.data)
        status = self._tail.status
        has_trouble = status.state not in (TailState.READING, TailState.AT_END)
        state = self.state._replace(size=status.size, is_looking=False, note=status.message if has_trouble else "")
        if events:
            self.version += 1
        self._tell(state, has_news=bool(events))
        has_more = bool(events) and status.state is TailState.READING
        if not has_more and self._before[1]:
            self._read_before(self._tail.path)
        return has_more

    def _read_before(self, path: str) -> None:
        """Read the lines before those that were shown first, within the memory limit."""
        (start, stop), self._before = self._before, (0, 0)
        try:
            data = read_part(self._fs, path, stop - start, start)
        except OSError:
            # The displayed end stays; the tail reports what is wrong with the file.
            return
        begin = (
            0 if not start else 1 + min((end for end in (data.find(b"\n"), data.find(b"\r")) if end >= 0), default=-1)
        )
        parts = data[begin:].split(b"\n")[:-1]
        held = parts[-HELD_LINES // 2 :]
        older = [read_line(part) for part in held]
        begins_at = stop - sum(len(part) + 1 for part in held) if len(held) < len(parts) else start
        with self._bell:
            self._lines[:0] = older
            self._bytes += sum(len(line.text) for line in older)
            self.state = self.state._replace(begins_at=begins_at)
            self.first -= len(older)
            self.begun -= len(older)
        self._tell(self.state, has_news=True)

    def _open(self, path: str, paths: Sequence[str]) -> None:
        if self._tail is not None:
            self._tail.close()
        self._forget()
        whole = os.path.abspath(path)  # noqa: PTH100 - links must not be resolved
        mount = mount_of(self._fs.realpath(whole))
        self._poll_s = POLL_NETWORK_S if mount.is_network else POLL_S
        start = self._start(whole)
        self._before = max(0, start - HELD_BYTES + _PIECE), start
        self._tail = Tail(whole, self._fs, self._clock, TailOptions(is_network=mount.is_network), start)
        self._wanted = path
        self._tell(LogState(tuple(paths), path, begins_at=start))

    def _start(self, path: str) -> int:
        """Offset of the first complete line near the end; the tail reports read errors."""
        try:
            seen = self._fs.stat(path)
            if not stat.S_ISREG(seen.mode) or seen.size <= _PIECE:
                return 0
            data = read_part(self._fs, path, _PIECE, seen.size - _PIECE)
        except OSError as error:
            self._tell(self.state._replace(note=reason_of(error)))
            return 0
        return seen.size - _PIECE + data.find(b"\n") + 1

    def _take(self, data: bytes) -> None:
        *ended, last = data.split(b"\n")
        found = []
        for part in ended:
            found.append(read_line(self._pending + part, self._lost))
            self._pending, self._lost = b"", 0
        pending = self._pending + last
        if len(pending) > _LONGEST and b"\r" in pending:
            # Only the last redraw stays on the line.
            pending, self._lost = pending[pending.rfind(b"\r", 0, len(pending) - 1) + 1 :], 0
        with self._bell:
            self._lost += max(0, len(pending) - _LONGEST)
            self._pending = pending[:_LONGEST]
            self._lines += found
            self._bytes += sum(len(line.text) for line in found)
            gone = max(0, len(self._lines) - HELD_LINES)
            self._bytes -= sum(len(line.text) for line in self._lines[:gone])
            while self._bytes > 2 * HELD_BYTES and gone < len(self._lines):
                self._bytes -= len(self._lines[gone].text)
                gone += 1
            del self._lines[:gone]
            self.first += gone

    def _forget(self) -> None:
        with self._bell:
            self.first += len(self._lines)
            self.begun = self.first
            self._lines, self._bytes, self._pending, self._lost = [], 0, b"", 0

    def _tell(self, state: LogState, *, has_news: bool = False) -> None:
        if state != self.state or has_news:
            self.state = state
            self.version += 1
            if not self._is_closed:
                self._on_news()

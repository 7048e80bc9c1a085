"""Bytes of a Chrome trace → its events, in whatever form and pieces they come.

Three forms are written: one event per line, an array that is not closed while it
is written, and an object with `traceEvents` in it. Owns the cutting; knows nothing
of what an event means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from rltop.decode.framing import LineFramer
from rltop.decode.json_text import patient_loads
from rltop.model import Counts

Event = dict[str, object]

MAX_EVENT_BYTES = 1024 * 1024
_MAX_HEAD_BYTES = 16 * 1024 * 1024
_HEAD_BYTES = 4096
_BLANK = b"\xef\xbb\xbf\0 \t\r\n"
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)|[{}]', re.DOTALL)
"""Strings as a whole, braces. The group is a quote where a string ends, and none where its rest has not come."""
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY_NAME = b'"traceEvents"'
_BRACKET = re.compile(rb"\s*:\s*\[")
_BRACKET_TO_COME = re.compile(rb"\s*(?::\s*)?\Z")


class EventReader:
    """Cuts a stream into events.

    Before the array of a document has begun, whole objects are taken for events.
    Lines are cut at their ends, so that a torn one costs nothing but itself;
    anything else by counting braces outside strings.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._framer = LineFramer(counts)
        self._is_lines: bool | None = None
        self._is_inside = False
        self._held = b""
        self._start = 0
        self._seen = 0
        self._depth = 0
        self._begin = 0

    def feed(self, data: bytes, offset: int) -> Iterator[tuple[Event, int]]:
        """Yield each event that `data` completes, and the offset at which it begins."""
        if self._is_lines is None:
            if not self._held:
                self._start = offset
            self._held += data
            self._is_lines = _is_lines(self._held)
            if self._is_lines is None:
                return
            data, self._held = self._held, b""
            offset = self._start
            self._is_inside = data.lstrip(_BLANK).startswith(b"[")
        yield from self._framed(data, offset) if self._is_lines else self._scan(data, offset)

    def finish(self) -> Iterator[tuple[Event, int]]:
        """The last event, if it is whole; a torn one is normal and not counted."""
        if self._is_lines is None and self._held:
            self._is_lines, data, self._held = True, self._held, b""
            yield from self._framed(data, self._start)
        last = self._framer.finish() if self._is_lines else None
        if last is not None:
            event = _event(last[0].strip(b" \t\r,"))
            if event is not None:
                self._counts.lines += 1
                yield event, last[1]

    def reset(self) -> None:
        """A new file begins."""
        self._framer.reset()
        self._is_lines, self._is_inside, self._held = None, False, b""
        self._seen = self._depth = self._begin = 0

    def _framed(self, data: bytes, offset: int) -> Iterator[tuple[Event, int]]:
        for line, start in self._framer.feed(data, offset):
            yield from self._line(line, start)

    def _line(self, line: bytes, start: int) -> Iterator[tuple[Event, int]]:
        text = line.strip(b" \t\r,")
        if not text:
            return
        self._counts.lines += 1
        event = _event(text)
        if event is None:
            self._refuse("a line that is no event")
        else:
            yield event, start

    def _scan(self, data: bytes, offset: int) -> Iterator[tuple[Event, int]]:
        if not self._held:
            self._start = offset
        held, at = self._held + data, 0
        # Nothing is looked at twice: an event may come in a thousand pieces.
        seen = len(held)
        for token in _TOKEN.finditer(held, self._seen):
            if token[0][:1] == b'"':
                is_name = token[0] == _ARRAY_NAME and not self._is_inside
                if token[1] != b'"' or (is_name and _BRACKET_TO_COME.match(held, token.end())):
                    seen = token.start()
                    break
                if is_name and (bracket := _BRACKET.match(held, token.end())):
                    self._is_inside, self._depth, at = True, 0, bracket.end()
            elif token[0] == b"{":
                if not self._depth:
                    self._begin = token.start()
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    at = token.end()
                    yield from self._object(held[self._begin : at], self._start + self._begin)
        if len(held) - at > (MAX_EVENT_BYTES if self._is_inside else _MAX_HEAD_BYTES):
            self._counts.oversize_lines += 1
            at = seen = len(held)
            self._depth = 0
        self._held, self._start = held[at:], self._start + at
        self._seen, self._begin = seen - at, self._begin - at

    def _object(self, text: bytes, start: int) -> Iterator[tuple[Event, int]]:
        event = _event(text)
        self._counts.lines += 1
        if event is None:
            self._refuse("an object that is no event")
        else:
            yield event, start

    def _refuse(self, reason: str) -> None:
        self._counts.refuse(self._counts.lines, reason)


def _event(text: bytes) -> Event | None:
    event: object
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            event, _ = patient_loads(text)
        except ValueError:
            return None
    return event if isinstance(event, dict) else None


def _is_lines(head: bytes) -> bool | None:
    """Is there one event per line? None if the beginning does not tell yet.

    Decided by the first line where that is shorter than the bytes looked at, so that
    it does not matter how many have come.
    """
    text = head.lstrip(_BLANK)[:_HEAD_BYTES]
    if text.startswith(b"["):
        return False
    line, end, _ = text.partition(b"\n")
    is_opening = line.strip() == b"{"
    if _ARRAY.search(text if is_opening else line):
        return False
    if end and not is_opening:
        return True
    return None if len(text) < _HEAD_BYTES else is_opening

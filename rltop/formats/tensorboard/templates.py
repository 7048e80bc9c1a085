"""Templates of repeated events: recognised and read as a whole.

A trainer writes the same tags in the same order at every step, so the bytes of a
step differ from those of the step before in wall times, steps, numbers and checksums
only. A template is the bytes of some events with these places left open: one `struct`
cuts a stretch of the file into its open and its fixed parts, and one comparison of
tuples says whether the fixed ones are the same. What fits is read without looking at
single events; what does not is for the careful reader, which is always right.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any

from rltop.formats.protobuf import FIXED32, SPAN, VARINT, MalformedMessageError, fields, varint
from rltop.formats.rows import clipped_key
from rltop.formats.tensorboard.framing import HEADER_BYTES, masked_crc32c
from rltop.structs import NamedTuple

STEP_AT = 9
"""An event begins with its wall time: one byte of key, eight of value."""
VALUES_WANTED = 32
"""Values in a template, where the row has them: at the edges of a piece of the file whole templates do not fit."""
MAX_EVENT_BYTES = 256 * 1024
_KEPT = 2048
_KEPT_BYTES = 8 * 1024 * 1024
_UNUSED = 64
_SELDOM = 32
"""After so many templates into which nothing fitted, only one stretch of so many is made a template."""

_TIME_KEY, _STEP_KEY, _SUMMARY_KEY = 0x09, 0x10, 0x2A
_ZERO_CRC = bytes(4)
_FLOAT32 = 1

_Parts = tuple[Any, ...]


class TemplateMatch(NamedTuple):
    """What was read by a template.

    Attributes:
        step_field: the bytes of the step that all events have, with their key.
        wall_time_s: of the first event.
    """

    template: Template
    step_field: bytes
    wall_time_s: float
    numbers: tuple[float, ...]


class Template:
    """A stretch of events whose times, steps, numbers and checksums are left open.

    Args:
        events: how the bytes of each are laid out, in order.
    """

    __slots__ = ("_checksums", "_fixed", "_layout", "_numbers", "_parts", "_steps", "events", "size", "tags")

    def __init__(self, events: Sequence[_EventLayout], tags: tuple[str, ...]) -> None:
        self.events, self.tags = len(events), tags
        codes, fixed = ["<"], []
        places: dict[str, list[int]] = {"fixed": [], "time": [], "step": [], "number": [], "checksum": []}
        count = 0
        for event in events:
            for kind, part in event.parts():
                if kind == "time" and count > 1:
                    codes.append("8x")  # the time of a row is that of its first event
                    continue
                codes.append({"time": "d", "number": "f"}.get(kind, f"{len(part)}s"))
                places[kind].append(count)
                count += 1
                if kind == "fixed":
                    fixed.append(part)
        self._layout = struct.Struct("".join(codes))
        self.size = self._layout.size
        self._fixed = tuple(fixed)
        self._parts, self._steps = _picker(places["fixed"]), _picker(places["step"])
        self._numbers, self._checksums = _picker(places["number"]), _picker(places["checksum"])

    def match(self, data: bytes, pos: int) -> TemplateMatch | None:
        """Read the stretch at `pos`, all of which must be there; None if it looks different.

        Args:
            data: what the framer holds, at least `size` bytes behind `pos`.
        """
        found = self._layout.unpack_from(data, pos)
        if self._parts(found) != self._fixed:
            return None
        steps = self._steps(found)
        # A checksum of zeros is a page that has not arrived; the framer knows what to do then.
        if steps.count(steps[0]) != len(steps) or _ZERO_CRC in self._checksums(found):
            return None
        return TemplateMatch(self, steps[0], found[1], self._numbers(found))


def _picker(places: list[int]) -> Callable[[_Parts], _Parts]:
    strides = {b - a for a, b in pairwise(places)}
    if len(strides) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[-1] + 1, strides.pop() if strides else 1))


class _EventLayout(NamedTuple):
    """Where the open places of one event are: its payload, the end of its step, its numbers, their tags."""

    payload: bytes
    step_stop: int
    numbers: tuple[int, ...]
    tags: tuple[bytes, ...]

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """The event and its frame in pieces: what kind each is, and its bytes."""
        payload = self.payload
        yield "fixed", _header(len(payload)) + payload[:1]
        yield "time", payload[1:STEP_AT]
        yield "step", payload[STEP_AT : self.step_stop]
        at = self.step_stop
        for number in self.numbers:
            yield "fixed", payload[at:number]
            yield "number", payload[number : number + 4]
            at = number + 4
        if at < len(payload):
            yield "fixed", payload[at:]
        yield "checksum", _ZERO_CRC


@lru_cache(maxsize=1024)
def _header(length: int) -> bytes:
    head = length.to_bytes(8, "little")
    return head + masked_crc32c(head).to_bytes(4, "little")


def _layout(payload: bytes) -> _EventLayout | None:
    """Where the open places of an event are; None unless it is a time, a step and a summary of single numbers."""
    if len(payload) <= STEP_AT or payload[0] != _TIME_KEY or payload[STEP_AT] != _STEP_KEY:
        return None
    try:
        _, step_stop = varint(payload, STEP_AT + 1, len(payload))
        found = list(fields(payload, step_stop, len(payload)))
        if len(found) != 1 or found[0][:2] != (5, SPAN):
            return None
        numbers, tags = [], []
        for number, wire, a, b in fields(payload, *found[0][2:]):
            if number != 1 or wire != SPAN:
                return None
            tag, place = _scalar(payload, a, b)
            if tag is None or place is None:
                return None
            tags.append(tag)
            numbers.append(place)
    except MalformedMessageError:
        return None
    return _EventLayout(payload, step_stop, tuple(numbers), tuple(tags)) if numbers else None


def _scalar(payload: bytes, start: int, stop: int) -> tuple[bytes | None, int | None]:
    """Tag of a value, and where its 32-bit number stands; None where there is not exactly one of each."""
    tags: list[bytes] = []
    places: list[int | None] = []
    for number, wire, a, b in fields(payload, start, stop):
        if number == 1 and wire == SPAN:
            tags.append(payload[a:b])
        elif number == 2 and wire == FIXED32:
            places.append(a)
        elif number == 8 and wire == SPAN:
            places.append(_tensor_number(payload, a, b))
        elif (number, wire) != (9, SPAN):  # what the tag is for
            return None, None
    return (tags[0], places[0]) if len(tags) == len(places) == 1 else (None, None)


def _tensor_number(payload: bytes, start: int, stop: int) -> int | None:
    """Where the number of a tensor of one float32 stands; a shape, if there is one, has no dimension."""
    found = list(fields(payload, start, stop))
    kinds = [(number, wire) for number, wire, _, _ in found]
    if kinds in ([(1, VARINT), (2, SPAN), (4, SPAN)], [(1, VARINT), (2, SPAN), (5, SPAN)]):
        _, (_, _, shape_start, shape_stop), (_, _, a, b) = found
        if found[0][2] == _FLOAT32 and shape_start == shape_stop and b - a == 4:
            return a
    return None


class Templates:
    """Makes templates of what has been read with care, and finds the one that may fit next.

    A template is looked for by how many values of the row were read before it and by the
    frame of its first event. That is a guess: what a template reads is right wherever
    it fits.
    """

    def __init__(self) -> None:
        self._templates: dict[tuple[int, bytes], Template] = {}
        self._bytes = 0
        self._unused = 0
        self.run: list[bytes] = []
        self._run_at = 0
        self._run_values = 0

    def clear(self) -> None:
        """What was gathered for the next template belongs to a file that is over."""
        self.run, self._run_values = [], 0

    def add(self, payload: bytes, before: int, values: int) -> None:
        """An event of `values` numbers was read with care, `before` others of its row before it."""
        if len(payload) > MAX_EVENT_BYTES:
            self.close()
            return
        if not self.run:
            self._run_at, self._run_values = before, 0
        self.run.append(payload)
        self._run_values += values
        if self._run_values >= VALUES_WANTED:
            self.close()

    def close(self) -> None:
        """What follows belongs to another template."""
        run, self.run = self.run, []
        if not run:
            return
        key = self._run_at, _header(len(run[0]))
        if key in self._templates:
            return
        self._unused += 1
        if self._unused > _UNUSED and self._unused % _SELDOM:
            return
        events = [event for event in map(_layout, run) if event is not None]
        tags = tuple(clipped_key(tag.decode("utf-8", "replace")) for event in events for tag in event.tags)
        if len(events) < len(run) or len(set(tags)) < len(tags):
            return
        template = Template(events, tags)
        if len(self._templates) >= _KEPT or self._bytes + template.size > _KEPT_BYTES:
            self._templates.clear()
            self._bytes = 0
        self._templates[key] = template
        self._bytes += template.size

    def match(self, data: bytes, pos: int, before: int) -> TemplateMatch | None:
        """Read what stands at `pos` behind `before` values of its row, if a template for it fits."""
        key = before, data[pos : pos + HEADER_BYTES]
        template = self._templates.get(key)
        if template is None or pos + template.size > len(data):
            return None
        match = template.match(data, pos)
        if match is None:
            del self._templates[key]
            self._bytes -= template.size
        else:
            self._unused = 0
        return match

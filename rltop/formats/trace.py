"""Chrome trace → step times and spans, whatever its form and however its bytes are split.

There are three forms: one event per line, an array that stays open while it is written, and an object with
`traceEvents`. `EventReader` splits them into events, `ChromeTraceDecoder` interprets these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rltop.formats.decoder import Decoder, LineFramer
from rltop.formats.jsonl import object_of
from rltop.formats.rows import MAX_KEY_CHARS, MAX_STEP, RecordBuilder, clipped_key
from rltop.model import Counts, FilePosition, Record, TimedSpan
from rltop.regex import regex

Event = dict[str, object]

MAX_EVENT_BYTES = 1024 * 1024
_MAX_HEAD_BYTES = 16 * 1024 * 1024
_HEAD_BYTES = 4096
_BLANK = b"\xef\xbb\xbf\0 \t\r\n"
_TOKEN = regex(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)|[{}]', re.DOTALL)
"""Whole strings, and braces. The group is a quote if the string is complete, else empty or a backslash."""
_ARRAY = regex(rb'"traceEvents"\s*:\s*\[')
_ARRAY_NAME = b'"traceEvents"'
_BRACKET = regex(rb"\s*:\s*\[")
_BRACKET_TO_COME = regex(rb"\s*(?::\s*)?\Z")


class EventReader:
    """Splits a stream into events.

    Before the array of a document begins, whole objects count as events. One event per line is split at line ends, so a
    damaged line affects nothing else; the other forms are split by counting braces outside strings.
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
        """Yield each event that `data` completes, with its offset."""
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

    @property
    def holds_back(self) -> bool:
        """Is there an event, complete or not, whose line has not ended?"""
        return bool(self._held) if self._is_lines is None else self._is_lines and self._framer.pending is not None

    def finish(self) -> Iterator[tuple[Event, int]]:
        """The last event, if it is complete; a partial one is normal and not counted."""
        if self._is_lines is None and self._held:
            self._is_lines, data, self._held = True, self._held, b""
            yield from self._framed(data, self._start)
        last = self._framer.finish() if self._is_lines else None
        if last is not None:
            event = object_of(last[0].strip(b" \t\r,"))
            if event is not None:
                self._counts.lines += 1
                yield event, last[1]

    def reset(self) -> None:
        self._framer.reset()
        self._is_lines, self._is_inside, self._held = None, False, b""
        self._seen = self._depth = self._begin = 0

    def _framed(self, data: bytes, offset: int) -> Iterator[tuple[Event, int]]:
        for line, start in self._framer.feed(data, offset):
            if text := line.strip(b" \t\r,"):
                yield from self._event(text, start, "line")

    def _scan(self, data: bytes, offset: int) -> Iterator[tuple[Event, int]]:
        if not self._held:
            self._start = offset
        held, at = self._held + data, 0
        # No byte is scanned twice, because an event may come in a thousand pieces.
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
                    yield from self._event(held[self._begin : at], self._start + self._begin, "object")
        if len(held) - at > (MAX_EVENT_BYTES if self._is_inside else _MAX_HEAD_BYTES):
            self._counts.oversize_lines += 1
            at = seen = len(held)
            self._depth = 0
        self._held, self._start = held[at:], self._start + at
        self._seen, self._begin = seen - at, self._begin - at

    def _event(self, text: bytes, start: int, what: str) -> Iterator[tuple[Event, int]]:
        event = object_of(text)
        self._counts.lines += 1
        if event is None:
            self._counts.refuse(self._counts.lines, f"{what} is not a trace event")
        else:
            yield event, start


def _is_lines(head: bytes) -> bool | None:
    """Is there one event per line? None if more data is needed.

    Decided by the first line, or by the first `_HEAD_BYTES` if it is longer, so that
    the result does not depend on how the data is split.
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


MAX_HELD = 400_000
"""Most spans held per step; further spans of a step that never ends are dropped and counted."""
MAX_OPEN = 256
"""Most open spans per thread; deeper ones are ignored."""
MAX_WORKERS = 4096
_US = 1e-6
_STEP_NAME = regex(r"(?:ProfilerStep#|(?:train(?:ing)?[_ ]?)?step[ _#:]*)(\d*)$", re.IGNORECASE)
_STEP_ARGUMENTS = ("step", "global_step", "step_idx", "iteration", "i")
_NUMBERED = regex(r"(.*?)[\s:/._-]*(?:rank)?[\s:/._-]*(\d+)$", re.IGNORECASE)

RoleAndRank = tuple[str, int]


@dataclass(slots=True)
class _Thread:
    """Open spans of one thread: name, start in µs, and the step named in its arguments."""

    open: list[tuple[str, float, int | None]] = field(default_factory=list)


def worker_of(label: str) -> RoleAndRank:
    """Role and rank from a process name: `ActorGroup:3` is rank 3 of ActorGroup."""
    found = _NUMBERED.fullmatch(label)
    if found is None or not found[1]:
        return label[:MAX_KEY_CHARS] or "process", 0
    return found[1][:MAX_KEY_CHARS], min(int(found[2][:9]), MAX_STEP)


class ChromeTraceDecoder(Decoder):
    """Reads a trace while it is written; a step is emitted when it has ended.

    Attributes:
        dropped: spans left out because a step had too many.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.dropped = 0
        self._reader = EventReader(self.counts)
        self._builder = RecordBuilder(self.counts)
        self._generation = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._labels: dict[str, str] = {}
        self._workers: dict[str, RoleAndRank] = {}
        self._threads: dict[tuple[str, str], _Thread] = {}
        self._held: list[tuple[RoleAndRank, str, float, float]] = []
        self._lead = ""
        self._first_stage = ""
        self._has_steps = False
        self._step = 0
        self._spans: list[TimedSpan] = []

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        self._generation = generation
        return self._records(self._reader.feed(data, offset))

    @property
    def holds_back(self) -> bool:
        """Has the last line not ended, or are spans held because no step has been named yet?"""
        return self._reader.holds_back or bool(self._held and not self._has_steps)

    def finish(self) -> list[Record]:
        """Nothing more will come: emit the ended spans of the last step."""
        records = self._records(self._reader.finish())
        if self._held and not self._has_steps:
            records += self._end_step(self._step + 1, None, 0)
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file starts; if it only continues the run, open spans and the step count are kept."""
        self._reader.reset()
        if is_restart:
            self._begin_anew()

    def take_spans(self) -> list[TimedSpan]:
        spans, self._spans = self._spans, []
        return spans

    # -- events ----------------------------------------------------------------------------------------------------

    def _records(self, events: Iterable[tuple[Event, int]]) -> list[Record]:
        records: list[Record] = []
        for event, offset in events:
            phase, name, ts = event.get("ph"), event.get("name"), event.get("ts")
            pid, tid = str(event.get("pid", "")), str(event.get("tid", ""))
            if phase == "M":
                self._name_process(pid, name, event.get("args"))
            elif isinstance(ts, (int, float)) and not isinstance(ts, bool):
                label = name[:MAX_KEY_CHARS] if isinstance(name, str) else ""
                if phase == "B":
                    records += self._begin(pid, tid, label, ts, event.get("args"), offset)
                elif phase == "E":
                    records += self._end(pid, tid, label, ts, offset)
                elif phase == "X":
                    records += self._complete(pid, tid, label, ts, event, offset)
        return records

    def _name_process(self, pid: str, name: object, arguments: object) -> None:
        if name == "process_name" and isinstance(arguments, dict) and isinstance(arguments.get("name"), str):
            self._labels[pid] = arguments["name"]
            self._workers.pop(pid, None)

    def _worker(self, pid: str) -> RoleAndRank:
        worker = self._workers.get(pid)
        if worker is None:
            if len(self._workers) >= MAX_WORKERS:
                self._workers.clear()
            worker = self._workers[pid] = worker_of(self._labels.get(pid, pid))
        return worker

    def _thread(self, pid: str, tid: str) -> _Thread:
        if len(self._threads) > MAX_WORKERS:
            self._threads = {key: thread for key, thread in self._threads.items() if thread.open}
        return self._threads.setdefault((pid, tid), _Thread())

    def _begin(self, pid: str, tid: str, name: str, ts: float, arguments: object, offset: int) -> list[Record]:
        thread = self._thread(pid, tid)
        records = self._maybe_next(pid, name, ts, offset) if not thread.open else []
        if len(thread.open) < MAX_OPEN:
            thread.open.append((name, ts, _told_step(name, arguments)))
        return records

    def _end(self, pid: str, tid: str, name: str, ts: float, offset: int) -> list[Record]:
        """Close the innermost span of that name; open spans inside it are dropped."""
        stack = self._thread(pid, tid).open
        at = next((i for i in range(len(stack) - 1, -1, -1) if not name or stack[i][0] == name), None)
        if at is None:
            return []
        name, begun, told = stack[at]
        above = [each for each, _, _ in stack[:at]]
        del stack[at:]
        return self._span(pid, above, name, (begun, ts), told, offset)

    def _complete(self, pid: str, tid: str, name: str, ts: float, event: Event, offset: int) -> list[Record]:
        long = event.get("dur")
        if not isinstance(long, (int, float)) or isinstance(long, bool) or long < 0:
            return []
        above = [each for each, begun, _ in self._thread(pid, tid).open if begun <= ts]
        records = self._maybe_next(pid, name, ts, offset) if not above else []
        return records + self._span(pid, above, name, (ts, ts + long), _told_step(name, event.get("args")), offset)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _span(
        self, pid: str, above: list[str], name: str, when: tuple[float, float], told: int | None, offset: int
    ) -> list[Record]:
        begun, ended = when
        if ended < begun or not name:
            return []
        if _STEP_NAME.fullmatch(name):
            self._has_steps = True
            return self._end_step(self._step + 1 if told is None else told, (begun, ended), offset, self._worker(pid))
        outer = [each for each in above if not _STEP_NAME.fullmatch(each)]
        if len(self._held) < MAX_HELD:
            # A slash separates levels, so those within a name are replaced.
            path = "/".join(each.replace("/", "∕") for each in (*outer, name))  # noqa: RUF001
            self._held.append((self._worker(pid), path[:MAX_KEY_CHARS], begun, ended))
        else:
            self.dropped += 1
        return []

    def _maybe_next(self, pid: str, name: str, ts: float, offset: int) -> list[Record]:
        """If there are no spans for steps, a step begins when the leading worker starts its first stage again."""
        if self._has_steps or _STEP_NAME.fullmatch(name):
            self._has_steps = True
            return []
        if not self._lead:
            self._lead, self._first_stage = pid, name
            return []
        if pid != self._lead or name != self._first_stage or not self._held:
            return []
        return self._end_step(self._step + 1, (min(begun for *_, begun, _ in self._held), ts), offset)

    def _end_step(
        self, step: int, bounds: tuple[float, float] | None, offset: int, lead: RoleAndRank | None = None
    ) -> list[Record]:
        self._step = step
        until = bounds[1] if bounds is not None else float("inf")
        now = [span for span in self._held if span[2] < until]
        self._held = [span for span in self._held if span[2] >= until]
        leader = lead or (self._worker(self._lead) if self._lead else None)
        row = _seconds(now, leader)
        if bounds is not None:
            row["time/step"] = (bounds[1] - bounds[0]) * _US
            row["timestamp"] = bounds[1] * _US
        for worker, name, begun, ended in now:
            key = _key(worker, name, leader) if "/" not in name else ""
            self._spans.append(TimedSpan(step, *worker, name, begun * _US, ended * _US, key))
        if lead is not None and bounds is not None:
            self._spans.append(TimedSpan(step, *lead, "step", bounds[0] * _US, bounds[1] * _US, "time/step"))
        return [self._builder.build(step, row, FilePosition(self._generation, offset))] if row else []


def _told_step(name: str, arguments: object) -> int | None:
    found = _STEP_NAME.fullmatch(name)
    if found is None:
        return None
    if found[1]:
        return int(found[1][:15])
    if isinstance(arguments, Mapping):
        for key in _STEP_ARGUMENTS:
            value = arguments.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_STEP:
                return value
    return None


def _key(worker: RoleAndRank, name: str, leader: RoleAndRank | None) -> str:
    if worker == leader:
        return clipped_key(f"time/{name}")
    role = worker[0].removesuffix("Group").lower() if worker[0].endswith("Group") else worker[0]
    return clipped_key(f"time/{role}/{name}")


def _seconds(spans: Iterable[tuple[RoleAndRank, str, float, float]], leader: RoleAndRank | None) -> dict[str, float]:
    """Seconds of each top-level stage; the maximum over the ranks of a role."""
    by_worker: dict[tuple[RoleAndRank, str], float] = {}
    for worker, name, begun, ended in spans:
        if "/" not in name:
            by_worker[worker, name] = by_worker.get((worker, name), 0.0) + (ended - begun) * _US
    found: dict[str, float] = {}
    for (worker, name), seconds in by_worker.items():
        key = _key(worker, name, leader)
        found[key] = max(found.get(key, 0.0), seconds)
    return found

"""Chrome trace events → true spans by step, and the seconds of each stage as records.

Owns which worker an event is of, which begin belongs to which end, and which step
a span belongs to. A step is what the trace says: a span called `step` (RLinf's
runner, or a profiler's `ProfilerStep#12`), whose arguments may give its number;
where nothing is called so, a step begins when the first stage of the leading
worker comes again. Events carry microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rltop.decode.decoder import Envelope
from rltop.decode.records import MAX_STEP, RecordBuilder
from rltop.decode.trace_events import Event, EventReader
from rltop.decode.values import MAX_KEY_CHARS, clipped_key
from rltop.model import Counts, Place, Record, TimedSpan
from rltop.structs import Struct, field

MAX_HELD = 400_000
"""Spans of one step that are held; the rest of a step that never ends is left out, and counted."""
MAX_OPEN = 256
"""Spans that one worker may have begun and not ended; deeper ones are not followed."""
MAX_WORKERS = 4096
_US = 1e-6
_STEP_NAME = re.compile(r"(?:ProfilerStep#|(?:train(?:ing)?[_ ]?)?step[ _#:]*)(\d*)$", re.IGNORECASE)
_STEP_ARGUMENTS = ("step", "global_step", "step_idx", "iteration", "i")
_NUMBERED = re.compile(r"(.*?)[\s:/._-]*(?:rank)?[\s:/._-]*(\d+)$", re.IGNORECASE)
_DRIVER = "driver"

Worker = tuple[str, int]
"""Role and rank."""


class _Thread(Struct, frozen=False):
    """Spans that one thread has begun and not ended: name, start in µs, and the step it was told."""

    open: list[tuple[str, float, int | None]] = field(default_factory=list)


def worker_of(label: str) -> Worker:
    """Role and rank by the name of a process: `ActorGroup:3` is rank 3 of ActorGroup."""
    found = _NUMBERED.fullmatch(label)
    if found is None or not found[1]:
        return label[:MAX_KEY_CHARS] or "process", 0
    return found[1][:MAX_KEY_CHARS], min(int(found[2][:9]), MAX_STEP)


class ChromeTraceDecoder:
    """Reads a trace while it is written; steps come out when they have ended.

    Attributes:
        dropped: spans that were left out, because a step had too many.
    """

    is_rewritten = False
    is_finished = False
    stopped = ""
    failure = ""

    def __init__(self) -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self.dropped = 0
        self._reader = EventReader(self.counts)
        self._builder = RecordBuilder(self.counts)
        self._generation = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._labels: dict[str, str] = {}
        self._workers: dict[str, Worker] = {}
        self._threads: dict[tuple[str, str], _Thread] = {}
        self._held: list[tuple[Worker, str, float, float]] = []
        self._lead = ""
        self._first_stage = ""
        self._has_steps = False
        self._step = 0
        self._spans: list[TimedSpan] = []

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Take in every event that `data` completes; records of the steps that end with them."""
        self._generation = generation
        return self._records(self._reader.feed(data, offset))

    def flush(self) -> list[Record]:
        """Nothing: a step is given out when it has ended."""
        return []

    def finish(self) -> list[Record]:
        """Nothing more will come: what has ended of the last step."""
        records = self._records(self._reader.finish())
        if self._held and not self._has_steps:
            records += self._end_step(self._step + 1, None, 0)
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins; if it merely goes on, so do open spans and the count of steps."""
        self._reader.reset()
        if is_restart:
            self._begin_anew()

    def take_spans(self) -> list[TimedSpan]:
        """True spans of the steps that have ended since the last call."""
        spans, self._spans = self._spans, []
        return spans

    # -- events ----------------------------------------------------------------------------------------------------

    def _records(self, events: Iterable[tuple[Event, int]]) -> list[Record]:
        records: list[Record] = []
        for event, offset in events:
            self.envelope = "flat"
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

    def _worker(self, pid: str) -> Worker:
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
        """Close the innermost span of that name; what was begun inside it and never ended is forgotten."""
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
            # A slash separates levels; one within a name must not look like a level.
            path = "/".join(each.replace("/", "∕") for each in (*outer, name))  # noqa: RUF001
            self._held.append((self._worker(pid), path[:MAX_KEY_CHARS], begun, ended))
        else:
            self.dropped += 1
        return []

    def _maybe_next(self, pid: str, name: str, ts: float, offset: int) -> list[Record]:
        """Without spans that are steps, one begins when the leading worker begins its first stage again."""
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
        self, step: int, bounds: tuple[float, float] | None, offset: int, lead: Worker | None = None
    ) -> list[Record]:
        """Give out what was begun before the end of the step."""
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
        return [self._builder.build(step, row, Place(self._generation, offset))] if row else []


def _told_step(name: str, arguments: object) -> int | None:
    """The number of a step, by its name or among its arguments."""
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


def _key(worker: Worker, name: str, leader: Worker | None) -> str:
    """Under which key the seconds of a stage go: `time/<stage>` of whoever tells the step, else with the role."""
    if worker == leader:
        return clipped_key(f"time/{name}")
    role = worker[0].removesuffix("Group").lower() if worker[0].endswith("Group") else worker[0]
    return clipped_key(f"time/{role}/{name}")


def _seconds(spans: Iterable[tuple[Worker, str, float, float]], leader: Worker | None) -> dict[str, float]:
    """Seconds of each top-level stage; of the ranks of a role, the slowest."""
    by_worker: dict[tuple[Worker, str], float] = {}
    for worker, name, begun, ended in spans:
        if "/" not in name:
            by_worker[worker, name] = by_worker.get((worker, name), 0.0) + (ended - begun) * _US
    found: dict[str, float] = {}
    for (worker, name), seconds in by_worker.items():
        key = _key(worker, name, leader)
        found[key] = max(found.get(key, 0.0), seconds)
    return found

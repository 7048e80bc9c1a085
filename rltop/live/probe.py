"""Sources of a job's whereabouts besides its rows: each is a `Probe`, queried in its own thread.

A probe may hang: nobody waits for it, and it holds no shared lock. Its last result is kept, with its age. Times are in
seconds since the epoch.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rltop.clock import Clock
from rltop.errors import reason_of
from rltop.files import Worker
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.live.phases import Phases

LOOK_S = 0.05
"""Poll interval for timeouts of sources while a caller waits."""
FACTS_S = 5.0
"""Unchanged results keep their times for this long: rebuilding a thousand processes each second would cost too much."""

GONE = "no longer in the queue"
"""Reason for a job that its scheduler no longer lists."""


class Process(NamedTuple):
    """A process of the job, and what it is doing.

    Attributes:
        source: origin of this information: a file, a host, an address.
        name: display name by its source: `WorkerDict`, `actor_0`; may be shared by several.
        phase: in its own words, such as a method; empty if idle or unknown.
        key: one of `lines.PHASES`; empty if `phase` is none of them.
        is_seen: `since_s` is when it was first observed, so it began then or before.
        state: running, idle, unknown (possibly busy), stopped (by a signal) or dead.
        words: description of the phase, if more specific than its key.
        identity: boot, process namespace and start, as `JsonlWriter` notes them; empty if unknown.
    """

    source: str
    time_s: float
    name: str = ""
    phase: str = ""
    key: str = ""
    since_s: float | None = None
    is_seen: bool = False
    state: str = "running"
    rank: int | None = None
    pid: int | None = None
    host: str = ""
    cause: str = ""
    done: int | None = None
    of: int | None = None
    words: str = ""
    identity: str = ""


class InferenceEngine(NamedTuple):
    """An inference engine.

    Attributes:
        running: number of requests; NaN if not reported, here and below.
        trouble: what is wrong with it, in words; empty if nothing is.
        moved_s: when progress was last observed; None so far.
    """

    source: str
    time_s: float
    name: str
    running: float = math.nan
    waiting: float = math.nan
    cache: float = math.nan
    tokens_per_s: float = math.nan
    preemptions: float = math.nan
    aborts: float = math.nan
    is_asleep: bool = False
    is_syncing: bool = False
    trouble: str = ""
    host: str = ""
    moved_s: float | None = None


class Device(NamedTuple):
    """An accelerator.

    Attributes:
        use: fraction of the time it was busy, 0 to 1; NaN if not reported, here and below.
        trouble: such as an Xid, in words; empty if nothing is wrong.
    """

    source: str
    time_s: float
    host: str
    number: str
    use: float = math.nan
    memory_bytes: float = math.nan
    memory_total_bytes: float = math.nan
    power_w: float = math.nan
    temperature_c: float = math.nan
    trouble: str = ""


class Job(NamedTuple):
    """A job according to its scheduler.

    Attributes:
        trouble: such as why it is pending, or that its limit precedes the end of the run.
    """

    source: str
    time_s: float
    id: str
    state: str = ""
    nodes: str = ""
    begun_s: float | None = None
    ends_s: float | None = None
    gpus: int | None = None
    trouble: str = ""


class LogFacts(NamedTuple):
    """Everything that a console log or a trace contains so far.

    Attributes:
        phases: of the job, from this file alone; a copy that the reader may keep.
        checkpoint: step of the newest checkpoint in the run's folder, or None.
    """

    source: str
    time_s: float
    phases: Phases
    last_line: str = ""
    uncertainty_s: float = 0.0
    checkpoint: int | None = None


Fact: TypeAlias = Process | InferenceEngine | Device | Job | LogFacts
_Kind = TypeVar("_Kind", bound=Fact)


class Facts:
    """All facts, by kind, in the order of the sources; each process once."""

    def __init__(self, facts: Sequence[Fact] = ()) -> None:
        def of(kind: type[_Kind]) -> Sequence[_Kind]:
            return tuple(fact for fact in facts if isinstance(fact, kind))

        self.all = facts
        self.processes, self.engines, self.devices = of(Process), of(InferenceEngine), of(Device)
        self.jobs, self.logs = of(Job), of(LogFacts)

    @cached_property
    def commonest(self) -> tuple[Process, float] | None:
        """Of the processes in the most common phase, the one that has been in it longest.

        Also the time of the newest report among all busy processes. None if none is busy.
        """
        told = [each for each in self.processes if each.state == "running" and each.phase]
        if not told:
            return None
        (common, _), *_ = Counter((each.phase, each.key) for each in told).most_common(1)
        first = min(
            (each for each in told if (each.phase, each.key) == common),
            key=lambda each: (each.is_seen, math.inf if each.since_s is None else each.since_s),
        )
        return first, max(each.time_s for each in told)


NO_FACTS = Facts()


class ProbeError(Exception):
    """A source responds, but without information; the text is a short reason."""


class Probe:
    """One source.

    Attributes:
        source: its display name, with which the `source` of all its facts begins.
        patience_s: timeout after which it is reported as not responding.
    """

    source: str
    every_s: float
    patience_s: float

    def ask(self, now_s: float) -> Sequence[Fact]:
        """All current facts; called in a thread, never concurrently. It may hang.

        Raises:
            ProbeError: it has no information.
            OSError: it cannot be queried.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release resources; called once, from any thread, possibly while `ask` hangs. Must not block."""


class Silence(NamedTuple):
    """A source without information at present.

    Attributes:
        since_s: when the unanswered query was sent, or when it reported so.
    """

    source: str
    since_s: float
    reason: str


class _ProbeThread:
    """A probe with its thread and results; only `answer` and `is_other` are set in that thread.

    Args:
        done: called in that thread after every result, with whether it differs from the one before.
    """

    def __init__(self, probe: Probe, done: Callable[[bool], None]) -> None:
        self.probe, self._done = probe, done
        self.facts: Sequence[Fact] = ()
        self.silence: Silence | None = None
        self.answer: tuple[Sequence[Fact], str] | None = None
        self.is_open = self.has_answered = self.is_other = False
        self.changes = 0
        self.asked_s = -math.inf  # by the monotonic clock
        self._questions: SimpleQueue[float | None] = SimpleQueue()
        self._worker = Worker("probe")

    def ask(self, now_s: float) -> None:
        self._questions.put(now_s)
        if not self._worker.is_busy:
            self._worker.start(self._work)

    def close(self) -> None:
        self._questions.put(None)
        self.probe.close()

    def _work(self) -> None:
        while (now_s := self._questions.get()) is not None:
            try:
                facts, reason = tuple(self.probe.ask(now_s)), ""
            except Exception as error:  # a fault in one source must not end the program or hide the others
                facts, reason = (), str(error) if isinstance(error, ProbeError) else reason_of(error)
            before = None if self.silence is None else self.silence.reason
            is_known = self.has_answered and before == (reason or None)
            self.is_other = not is_known or not (reason or _are_alike(facts, self.facts))
            self.answer = facts, reason
            self._done(self.is_other)


class Probes:
    """Queries probes at their own intervals; no method blocks, except `gather`.

    Args:
        clock: for times and intervals.
        notify: called from a thread on a new result; an unchanged one triggers nothing.

    Attributes:
        version: incremented on every changed result, and when a source times out.
    """

    def __init__(self, probes: Sequence[Probe], clock: Clock, notify: Callable[[], None] = lambda: None) -> None:
        self.version = 0
        self._all = [_ProbeThread(probe, self._answered) for probe in probes]
        self._clock, self._notify = clock, notify
        self._news = threading.Event()
        self._joined_facts: tuple[int, float, Facts] | None = None
        self._once: tuple[list[int | bool], list[int]] = ([], [])

    def poll(self) -> None:
        now, now_s = self._clock.monotonic(), self._clock.wall()
        for each in self._all:
            if each.answer is not None:
                self._take(each, now_s)
            if each.is_open:
                late_s = now - each.asked_s
                if each.silence is None and late_s >= each.probe.patience_s:
                    each.silence = Silence(each.probe.source, now_s - late_s, "does not answer")
                    self.version += 1
            elif now - each.asked_s >= each.probe.every_s:
                each.is_open, each.asked_s = True, now
                each.ask(now_s)

    def _answered(self, is_other: bool) -> None:
        self._news.set()
        if is_other:
            self._notify()

    def _take(self, each: _ProbeThread, now_s: float) -> None:
        assert each.answer is not None
        facts, reason = each.answer
        each.answer, each.is_open, each.asked_s = None, False, self._clock.monotonic()
        each.changes += each.is_other
        # It may have been reported as not responding meanwhile.
        self.version += each.is_other or (each.silence is not None and each.silence.reason != reason)
        if reason:
            each.silence = Silence(each.probe.source, each.silence.since_s if each.silence else now_s, reason)
        else:
            each.facts, each.silence = facts, None
        each.has_answered = True

    def gather(self, timeout_s: float) -> None:
        """Query every source once and wait until each has responded or timed out, at most `timeout_s`."""
        ends_s = self._clock.monotonic() + timeout_s
        self.poll()
        while any(each.is_open and each.silence is None for each in self._all) and self._clock.monotonic() < ends_s:
            self._news.wait(LOOK_S)
            self._news.clear()
            self.poll()

    @property
    def facts(self) -> Facts:
        """The last result of every source."""
        version, now = self.version, self._clock.monotonic()
        if self._joined_facts is None or self._joined_facts[0] != version or now - self._joined_facts[1] >= FACTS_S:
            facts = [fact for each in self._all for fact in each.facts]
            others = [fact for fact in facts if not isinstance(fact, Process)]
            processes = [fact for fact in facts if isinstance(fact, Process)]
            self._joined_facts = version, now, Facts((*others, *(processes[at] for at in self._distinct(processes))))
        return self._joined_facts[2]

    def _distinct(self, processes: Sequence[Process]) -> Sequence[int]:
        """Indices of processes without a better duplicate from another source; recomputed if a source has changed."""
        changes = [any(isinstance(fact, Process) for fact in each.facts) and each.changes for each in self._all]
        if self._once[0] != changes:
            at = {id(each): number for number, each in enumerate(processes)}
            self._once = changes, [at[id(each)] for each in without_duplicates(processes)]
        return self._once[1]

    @property
    def silences(self) -> list[Silence]:
        return [each.silence for each in self._all if each.silence is not None]

    def close(self) -> None:
        for each in self._all:
            each.close()


def _are_alike(facts: Sequence[Fact], others: Sequence[Fact]) -> bool:
    """Whether two results are equal except for their times."""
    return len(facts) == len(others) and all(
        one is other or (one.source, one[2:]) == (other.source, other[2:])
        for one, other in zip(facts, others, strict=True)
    )


def without_duplicates(processes: Sequence[Process]) -> list[Process]:
    """Remove processes that another source describes better."""
    found: list[Process] = []
    named: dict[tuple[str, str], list[Process]] = defaultdict(list)
    placed: dict[tuple[str, int | None], list[Process]] = defaultdict(list)
    for each in sorted(processes, key=lambda each: (each.pid is None, each.is_seen)):
        if each.pid is None and each.rank is None:
            same = named[each.phase, each.name.partition(" × ")[0]]
        else:
            # Ray identifies a host by its address, process titles by its name.
            same = [
                other
                for other in placed[each.phase, each.pid]
                if other.host == each.host or _is_address(other.host) != _is_address(each.host)
            ]
        if all(other.source == each.source for other in same):
            found.append(each)
            named[each.phase, each.name].append(each)
            placed[each.phase, each.pid].append(each)
    return found


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdecimal() or ":" in host

"""Where the job of a run is: its console log, the traces beside it, the times of its rows, and other sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from rltop.clock import Clock
from rltop.formats.kinds import CONSOLE
from rltop.live.job import Asked, JobProbe, Reading, told_by_files, where_now
from rltop.live.judge import Where, going_on
from rltop.live.lines import Act
from rltop.live.phases import PhaseEvent, Phases
from rltop.live.probe import LogTold, Probe, Probes
from rltop.live.traces import Traces, rows
from rltop.model import RunState
from rltop.model.table_rows import log_of
from rltop.run.console_end import Silent, own_logs, silent_run
from rltop.run.places import checkpoint_steps, folder_of
from rltop.run.run import Run
from rltop.structs import NamedTuple, Remembered

STATES = {RunState.FINISHED: "finished", RunState.DIED: "dead", RunState.INTERRUPTED: "interrupted"}
_OFF_S = 60.0
"""Rows whose times are less off were only written a little before they came."""
_TRACED = (".jsonl", ".ndjson")


def log_of_run(run: Run, sought: Silent | None = None) -> str:
    """The console log of a run, which may be its own file; empty where there is none, as beside standard input.

    Args:
        sought: what was known of the run when it was looked at last; None where it has been read to its end.
    """
    if run.path.raw == "-":
        return ""
    if run.main.kind_title == CONSOLE.title:
        return log_of(run.path.raw)[0]
    return next(iter(own_logs(sought or silent_run(run))), "")


def told_by(run: Run) -> list[Sequence[PhaseEvent]]:
    """What the traces beside a run tell, and the times of its rows, which its own log tells where it is one."""
    return [told_by_rows(silent_run(run)), *_told_beside(run)]


def _told_beside(run: Run) -> list[list[PhaseEvent]]:
    path, traces = log_of(run.path.raw)[0], Traces()
    if path == "-":
        return []
    return [*traces.beside(folder_of(path)), *([traces.of(path)] if Path(path).suffix in _TRACED else [])]


def told_by_rows(run: Silent, after: int | None = None) -> list[PhaseEvent]:
    """What the newest rows of a run tell, those behind a step; nothing where its own log tells it.

    Of rows without times it is when the newest one came.
    """
    if run.is_console:
        return []
    told = rows([each for each in run.timed if after is None or each[0] > after], run.total)
    told = _by_this_clock(told, run)
    told = [
        event
        for each in told
        for event in ([each._replace(act=Act.RESUME), each] if each.step in run.restarts else [each])
    ]
    if run.last_step is not None and run.came_s is not None and (not told or told[-1].step != run.last_step):
        told += rows([(run.last_step, run.came_s)], run.total)
    return told


def _by_this_clock(told: list[PhaseEvent], run: Silent) -> list[PhaseEvent]:
    by_s = 0.0 if run.came_s is None or not told else run.came_s - told[-1].time_s
    if 0.0 <= by_s < _OFF_S:
        return told
    times = dict(run.timed)
    steps = [pair for pair in pairwise(sorted(times)) if pair[1] not in run.restarts]
    took_s: dict[int | None, float] = {b: times[b] - times[a] for a, b in steps}
    return [each._replace(time_s=each.time_s + by_s, took_s=took_s.get(each.step)) for each in told]


class FilesSeen(NamedTuple):
    """Where the job of a silent run is, by its files as they were when somebody looked.

    Attributes:
        rows: how many the run had then.
    """

    rows: int
    files: LogTold
    clock: Clock

    def told(self) -> Where:
        return where_now(self.files, self.clock.wall())


def seen(run: Run, silent: Silent, logs: Sequence[str], read: Reading, clock: Clock) -> FilesSeen:
    """What the files of a silent run tell of its job; may be called in a thread.

    Args:
        logs: those beside it that may be its own, the likeliest first.

    Raises:
        OSError: its log cannot be read.
    """
    path = log_of(run.path.raw)[0]
    log = path if silent.is_console and not silent.log else next(iter(logs), "")
    told = [told_by_rows(silent), *_told_beside(run)]
    return FilesSeen(silent.rows, told_by_files(log, told, path, clock.wall(), read), clock)


def knowing(run: Run, found: Where) -> Where:
    """Where the job of a run is, where the run itself says that it has ended."""
    ended = STATES.get(run.state)
    if ended in (None, found.state) or found.state in ("dead", "interrupted"):
        return found
    return found._replace(
        state=ended,
        since=run.stream.last_time_s,
        cause=run.failure.raw or (going_on(found.ranks) if ended == "finished" else None),
        phase=None,
        phase_key=None,
        unusual=False,
    )


class Whereabouts:
    """Where the job of a run is, followed for as long as the run is on the screen or watched.

    Everything is answered at once, with what has been told so far; files are read in threads.

    Args:
        log: the console log that a person named; empty looks beside the run.
        notify: called from a thread when there is something new.
        probes: what else is asked, by whoever knows the console log; None for nothing.

    Attributes:
        probes: everything that is asked: what it tells, and its version.
    """

    def __init__(
        self,
        run: Run,
        log: str,
        clock: Clock,
        notify: Callable[[], None],
        probes: Callable[[Callable[[], str]], Sequence[Probe]] | None = None,
    ) -> None:
        self._run, self._log, self.clock = run, log, clock
        self._sought = silent_run(run)
        path = log_of(run.path.raw)[0]
        self._job = JobProbe(self._find, run.path.raw, lambda: checkpoint_steps(path))
        others = () if probes is None else probes(lambda: self._job.log)
        self.probes = Probes([self._job, *others], clock, notify)
        self._fed: int | None = None
        self._remembered = Remembered()

    def _find(self) -> tuple[str, str]:
        """The console log of the run, and the file or folder with its traces; in a thread."""
        path = log_of(self._run.path.raw)[0]
        log = self._log or log_of_run(self._run, self._sought)
        return log, path if Path(path).suffix in _TRACED else str(folder_of(path))

    def turn(self) -> None:
        """Hand on new rows, take in what sources have answered, and ask those that are due."""
        last = self._run.stream.last_step
        if self._sought.rows != self._run.stream.rows:
            self._sought = silent_run(self._run)
        if last is not None and last != self._fed:
            first = self._fed if self._fed is not None and self._fed < last else None
            self._job.rows.extend(told_by_rows(self._sought, first))
            self._fed = last
        self.probes.turn()

    def told(self) -> Where:
        """Where the job is by its files and sources alone; worked out once a second while nothing new is told."""
        now_s = self.clock.wall()

        def told() -> Where:
            facts = self.probes.facts
            log = next(iter(facts.logs), None) or LogTold(self._run.path.raw, now_s, Phases())
            return where_now(log, now_s, Asked(facts, self.probes.silences, log.checkpoint))

        return self._remembered.of("where", (self.probes.version, int(now_s)), told)

    def where(self) -> Where:
        """Where the job is, knowing how the run says that it has ended."""
        return knowing(self._run, self.told())

    def close(self) -> None:
        self.probes.close()

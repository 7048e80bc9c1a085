"""Where the job of a run is: its console log, the traces beside it, and the times of its own rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rltop.live.job import Asked, where_of
from rltop.live.judge import Where
from rltop.live.traces import events_beside, events_of, rows
from rltop.model import RunState
from rltop.model.table_rows import log_of
from rltop.run.console_end import Silent, own_logs
from rltop.run.run import Run

_STATES = {RunState.FINISHED: "finished", RunState.DIED: "dead", RunState.INTERRUPTED: "interrupted"}


def where_is(run: Run, now_s: float, asked: Asked | None = None) -> Where:
    """Where a run is that was read to its end.

    Args:
        run: with its rows.
        now_s: seconds since the epoch.
        asked: what sources beside its files tell.
    """
    path = log_of(run.path.raw)[0]
    stream = run.stream
    silent = Silent(run.path.raw, "", stream.rows, stream.last_step, stream.last_time_s)
    logs = own_logs(silent)
    home = Path(path) if Path(path).is_dir() else Path(path).absolute().parent
    told = events_beside(home)
    if Path(path).suffix in (".jsonl", ".ndjson"):
        told.append(events_of(path))
    told.append(rows(_times(run), stream.total_steps))
    found = where_of(logs[0] if logs else "", told, path, now_s, asked)
    ended = _STATES.get(run.state)
    if ended is not None and found.state in ("running", "stuck", "unknown"):
        return found._replace(
            state=ended,
            since=stream.last_time_s,
            cause=run.failure.raw or None,
            phase=None,
            phase_key=None,
            unusual=False,
        )
    return found


def _times(run: Run) -> Iterator[tuple[int, float]]:
    for block in run.stream.segments[-1].blocks if run.stream.segments else ():
        for step, time_s in zip(block.steps, block.times, strict=True):
            if time_s == time_s:
                yield step, time_s

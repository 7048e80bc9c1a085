"""Where the job is that writes a log, by the log as it lies there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rltop.files import open_regular
from rltop.live.judge import Where, judge
from rltop.live.log import LogReader
from rltop.live.phases import Event, merged

END_BYTES = 16 * 1024 * 1024
"""So much of the end of a log is read: what is usual shows in it."""
_JOB = re.compile(r"(?:slurm|job|%x)?[-_.]?(\d{3,12})(?:[-_.]\d+)?\.(?:out|err|log)\Z")


def events_of_log(path: str) -> tuple[list[Event], LogReader]:
    """What a log tells, as it lies there.

    Raises:
        OSError: it cannot be read.
    """
    reader = LogReader()
    with open_regular(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - END_BYTES))
        data = file.read(END_BYTES) or b""
    written_s = Path(path).stat().st_mtime
    if size > END_BYTES:
        data = data.partition(b"\n")[2]
    return reader.feed(data, written_s, is_recorded=True), reader


def where_of(log: str, others: Sequence[Sequence[Event]], source: str, now_s: float) -> Where:
    """Where a job is by its log, and by what other files tell.

    Args:
        log: its console log; empty where there is none.
        others: what traces and rows tell, each for itself.
        source: named as the source where there is no log.
        now_s: seconds since the epoch.

    Raises:
        OSError: the log cannot be read.
    """
    events, reader = events_of_log(log) if log else ([], None)
    found = judge(merged(events, *others), now_s)
    job = _JOB.search(Path(log or source).name)
    return found._replace(
        source=log or source,
        last_line="" if reader is None else reader.last_line,
        job=None if job is None else job[1],
        accuracy_s=None
        if found.since is None
        else max(found.accuracy_s or 0.0, reader.zone_doubt_s if reader else 0.0),
    )

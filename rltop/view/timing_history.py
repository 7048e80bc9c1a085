"""The timing trees of the newest steps: true spans where the run has them, else those that its rows allow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from rltop.derive.timing import step_timing
from rltop.model import StepTiming
from rltop.view.cache import read_timings
from rltop.view.source import RunSource


def timing_history(run: RunSource, until: int | None, count: int, unclaimed: int | None = None) -> list[StepTiming]:
    """The timing trees of the last `count` steps at or before `until`, oldest first.

    Only steps whose rows are still held raw, and only those that log a timing. Where
    the run has true spans, these are what is shown. The newest tree has the
    `unclaimed` longest durations that belong to no stage (None: all), the others none.
    """
    if run.spans is not None and run.spans.steps:
        held = run.spans.steps
        known = held[: len(held) if until is None else bisect_right(held, until)]
        if known:
            return [timing for step in known[-count:] if (timing := run.spans.timing(step)) is not None]
    identity = run.identity
    plan = None if identity is None else identity.dialect.timing
    if plan is None:
        return []
    stream = run.stream
    if until is None:
        steps: Sequence[int] = stream.steps(last=2 * count)
    else:
        held = stream.steps()
        stop = bisect_right(held, until)
        steps = held[max(0, stop - 2 * count) : stop]
    found: list[StepTiming] = []
    for timing in read_timings(stream, plan, steps):
        if timing is not None:
            found.append(timing)
        if len(found) == count:
            break
    if found:
        newest = found[0].step
        found[0] = step_timing(plan, newest, stream.row(newest), unclaimed) or found[0]
    return found[::-1]

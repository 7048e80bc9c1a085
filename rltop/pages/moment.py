"""What the screens show: which run, at which step, and whether the display is paused."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import NO_KEYS, KeyNames
from rltop.rows.rows import Target
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot
from rltop.structs import Struct, replace

if TYPE_CHECKING:
    from rltop.pages.chart import ChartPainter


class Moment(Struct):
    """Everything that a page needs besides its own target.

    Attributes:
        snapshot: the run, or a stream of it, at the step of the time cursor.
        left_out: paths that belong to what is followed and cannot be read, each with the reason.
        keys: the keys as they are now, where the page is shown.
        picked: path of the run that was picked from their list; None until one was.
        marked: paths of the runs that are compared, in the order in which they were marked.
        marked_metrics: those that are drawn in one chart, in the order in which they were marked.
        baseline: path of the run with which the others are compared; empty where there is none.
        version: moves with everything that a page may show of the run, time aside.
    """

    snapshot: Snapshot
    glyphs: Glyphs
    is_paused: bool = False
    left_out: Sequence[tuple[str, str]] = ()
    keys: KeyNames = NO_KEYS
    runs: Sequence[Run] = ()
    picked: str | None = None
    marked: Sequence[str] = ()
    marked_metrics: Sequence[Target] = ()
    baseline: str = ""
    draw_chart: ChartPainter | None = None
    version: Hashable = None

    def at(self, step: int | None) -> Moment:
        """The same moment at another step of its stream, read anew; None follows the newest one."""
        return replace(self, snapshot=self.snapshot.at(step))

    def within(self, stream: str) -> Moment:
        """The same moment in another stream of the run, at the step of the same time."""
        return replace(self, snapshot=self.snapshot.within(stream))


def baseline_of(moment: Moment) -> Run | None:
    found = next((run for run in moment.runs if run.path.raw == moment.baseline), None) if moment.baseline else None
    return None if found is None or found is moment.snapshot.run else found


def travelled(run: Run, at_step: int | None, by: int) -> int | None:
    """The step that lies `by` records from `at_step`; None is the newest, or past it: live again.

    Goes along the steps that are held in memory. Before them, where only the file
    has every record, it goes along the step numbers.
    """
    newest = run.stream.last_step
    first = run.stream.first_step
    if newest is None or first is None:
        return None
    steps = run.stream.steps()
    here = newest if at_step is None else at_step
    if not len(steps) or here < steps[0]:
        to = here + by
        if len(steps) and by > 0:
            to = min(to, steps[0])
    else:
        index = bisect_left(steps, here) + by if by < 0 else bisect_right(steps, here) - 1 + by
        if index >= len(steps):
            return None
        to = steps[index] if index >= 0 else steps[0] + index
    return None if to >= newest else max(first, to)

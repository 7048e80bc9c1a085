"""The steps of rows in a console log that do not name one.

Rows printed by transformers and TRL have an epoch but no step. They are printed at regular intervals, so a row's step
is its number times the logging interval, which is derived from the progress bar (`12/300 [`) printed around the rows
and checked against the epoch:

    step = epoch x (steps of the run) / (epochs of the run)

where the epochs of a run are an integer unless `max_steps` was set. Without a bar the interval is assumed to be 1, so
that steps are row numbers. Block-buffered output has several rows between two bars, which may be far ahead; then the
epoch decides, and the bar is only a limit.
"""

from __future__ import annotations

import re
from collections import deque

from rltop.formats.console.lines import LineMetrics
from rltop.formats.rows import MAX_STEP, EpochSteps, Row
from rltop.regex import regex
from rltop.structs import NamedTuple

_BAR_PARTS = regex(
    r"^[ \t]*(?P<name>Training Progress:)?[ \t]*\d{1,3}%(?:\|[^|]{0,200}\||(?= ))[ \t]*"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12}) \["
)
_MAX_EPOCHS = 1000
_EPOCH_ROUNDING = 0.005
"""Older versions write two decimals."""
_EPOCH_DIGITS = 2e-2
"""Relative error of an epoch: four significant digits, and a last batch that is not full."""
_MAX_DOUBT = 0.3
"""Largest deviation from a whole number of steps at which the epoch still decides."""


class Bar(NamedTuple):
    """A progress bar: `done` of `total`; `is_named` if it says that it counts training steps."""

    done: int
    total: int
    is_named: bool


def read_bar(text: str) -> Bar | None:
    """The bar in a line, if it has no name or is named for training."""
    bar = _BAR_PARTS.match(text)
    if bar is None or not int(bar["total"]):
        return None
    return Bar(int(bar["done"]), int(bar["total"]), bar["name"] is not None)


class StepCounter:
    """Numbers the rows of a run that have no step.

    Call `see` for every bar, `add` for every training row, `flush` at the end: each
    returns the newly determined steps of the oldest waiting rows, in order.

    Attributes:
        total: steps of the run according to the bar, or None.
        last: step of the newest row with a known step.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self.last = 0
        self.distance: int | None = None
        self._base = 0
        self._rows = 0
        self._waiting = 0
        self._epoch = 0.0
        self._bar: int | None = None
        self._bar_before: int | None = None
        self._has_bar_between = True
        self._is_in_blocks = False

    def see(self, bar: Bar) -> list[int]:
        is_over = self.total is not None and self._bar is not None and self._bar >= self.total
        if self.total is None or (is_over and not bar.done and not self._rows):
            self.total = bar.total
        elif bar.total != self.total:
            return []
        self._bar = bar.done
        self._has_bar_between = True
        return self._settle() if self._waiting else []

    def add(self, epoch: float | None) -> list[int]:
        self._rows += 1
        self._waiting += 1
        if not self._has_bar_between and not self._is_in_blocks:
            self._is_in_blocks = True
            if self.total is not None:
                self.distance = None  # derived from one row and a bar, which is invalid if bars run ahead
        if epoch is not None and epoch <= MAX_STEP:
            self._epoch = epoch
        self._bar_before = self._bar
        self._has_bar_between = False
        if self.total is None:
            self.distance = 1
            return self._give()
        if self.distance is None:
            return []
        if self._is_in_blocks or abs(self._step(self._rows) - (self._bar or 0)) <= 1:
            return self._give()
        return []

    def flush(self) -> list[int]:
        return self._settle() if self._waiting else []

    def _step(self, row: int) -> int:
        return self._base + row * (self.distance or 1)

    def _give(self) -> list[int]:
        steps = [self._step(row) for row in range(self._rows - self._waiting + 1, self._rows + 1)]
        self._waiting = 0
        if steps:
            self.last = steps[-1]
        return steps

    def _settle(self) -> list[int]:
        if self.distance is None:
            self._decide()
        elif not self._is_in_blocks and self._waiting == 1 and self._has_bar_between:
            self._correct()
        return self._give()

    def _decide(self) -> None:
        bar, rows = self._bar or 0, self._rows
        if rows == 1 and not self._is_in_blocks:
            # The bar is redrawn right after the row, or one step late: the epoch decides.
            behind = [done for done in (bar, self._bar_before or 0, bar - 1) if self._fits(done)]
            # An interval that is too short is corrected by later bars, one that is too long is not.
            self.distance = behind[0] if behind else 1 if self._bar_before == 1 else max(1, bar)
        else:
            before = self._bar_before or bar
            self.distance = self._by_epoch(rows, before) or max(1, before // rows)

    def _correct(self) -> None:
        """If a row between two bars is not where it was expected, use the bar and the interval that it implies."""
        low, high = (self._bar_before or 0) - 1, (self._bar or 0) + 1
        expected = self._step(self._rows)
        if low <= expected <= high or self._bar is None or self._bar <= self.last:
            return
        self.distance = self._bar - self.last if self.last > 1 else self._bar
        self._base = self._bar - self._rows * self.distance

    def _fits(self, step: int) -> bool:
        """Can `step` be the step of the newest row, if the run has a whole number of epochs?"""
        if step < 1 or self._epoch <= 0 or self.total is None:
            return False
        epochs = self._epoch * self.total / step
        doubt = epochs * _EPOCH_DIGITS / 2
        return round(epochs) >= 1 and abs(epochs - round(epochs)) <= min(_MAX_DOUBT, max(doubt, 0.02))

    def _by_epoch(self, rows: int, bar: int) -> int | None:
        """The logging interval that fits a whole number of epochs and the bar; None if there is none.

        Rows are written when the block is full or a little later, so the bar is
        between the newest row and two intervals after it.
        """
        if self._epoch <= 0 or self.total is None:
            return None
        for epochs in range(1, _MAX_EPOCHS + 1):
            exact = self._epoch * self.total / (epochs * rows)
            distance = round(exact)
            if distance < 1 or distance * (rows + 2) <= bar:
                return None
            doubt = max(_MAX_DOUBT, min(_EPOCH_ROUNDING * self.total / (epochs * rows), distance / 4))
            if distance * rows <= bar + 1 and abs(exact - distance) <= doubt:
                return distance
        return None


class LoopSteps:
    """Steps of a loop that prints a line per step: numbered if lines have no step, made continuous across epochs.

    Attributes:
        last: the step of the newest line, or None.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self._is_numbered: bool | None = None
        self._epochs = EpochSteps()

    def number(self, step: int | None, epoch: float | None, *, is_evaluation: bool = False) -> int | None:
        """The step of a line; None if other lines of the file have a step and it has not, or vice versa.

        Args:
            step: the step in the line, which may restart in each epoch.
            is_evaluation: it has evaluations alone, which may name a step where rows have none: they are at the newest.
        """
        if is_evaluation and self._is_numbered:
            return self.last
        if self._is_numbered is None and not is_evaluation:
            self._is_numbered = step is None
        if bool(self._is_numbered) is not (step is None):
            return None
        if step is None:
            self.last = (self.last or 0) + 1
            return self.last
        self.last = self._epochs.on(step, epoch)
        return self.last


_ROLLOUTS_KEPT = 64


class RolloutSteps:
    """Maps a generation to the first optimiser step that uses it.

    slime and miles count both. Several steps may use one generation; what is logged of it belongs to the first.

    Attributes:
        last: the newest optimiser step, or None.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self._first: dict[int, int] = {}

    def see(self, step: int) -> None:
        self.last = step

    def step_of(self, rollout: int) -> int:
        """The step of a generation; its own number if there is no step yet."""
        known = self._first.get(rollout)
        if known is None:
            known = self._first[rollout] = rollout if self.last is None else self.last + 1
            if len(self._first) > _ROLLOUTS_KEPT:
                del self._first[next(iter(self._first))]
        return known


_ALIKE, _REPEATED, _MAX_HELD = 8, 2, 64
"""Rows of the same names after which the rows of a log without any step are numbered, the same where an evaluation
names a step, and among how many they must be. At least two names, one of them of the update: other numbers may be those
of samples.
"""
_OF_UPDATE = regex(r"loss|kl|grad|entropy", re.IGNORECASE)


class UnnumberedRows:
    """Rows of a log without any step: one for each row of the names repeated first; others belong to the one beside."""

    def __init__(self) -> None:
        self.step = self.rows = 0
        self._names: tuple[str, ...] = ()
        self._held: deque[LineMetrics] = deque(maxlen=_MAX_HELD)
        self._earlier: set[tuple[str, ...]] = set()
        self._next: Row = {}

    def take(self, found: LineMetrics) -> list[LineMetrics]:
        """Take a row; returns those that have a step now."""
        if self._names:
            return self._number(found)
        self._held.append(found)
        return self._begin(tuple(found.row), _ALIKE)

    def take_evaluation(self, found: LineMetrics) -> list[LineMetrics]:
        """Take evaluations with a step, and set that to the newest row's; returns the rows that have one now."""
        numbered = [] if self._names or not self._held else self._begin(tuple(self._held[-1].row), _REPEATED)
        self.rows += 1
        if self.step and abs((found.step or 0) - self.step) > 1:
            found.step = self.step
        return numbered

    def _begin(self, names: tuple[str, ...], least: int) -> list[LineMetrics]:
        """Number the rows held if `least` of them have these names; returns them."""
        is_of_update = len(names) > 1 and any(map(_OF_UPDATE.search, names))
        all_names = [tuple(one.row) for one in self._held]
        if not is_of_update or all_names.count(names) < least:
            return []
        self._names, held = names, [*self._held]
        self._earlier = set(all_names[: all_names.index(names)])
        self._held.clear()
        return [row for one in held for row in self._number(one)]

    def is_at(self, found: LineMetrics) -> bool:
        """Whether rows are numbered and a row with a step has the newest number: then it is one more of them."""
        is_here = self.step > 0 and abs((found.step or 0) - self.step) <= 1
        self.rows += is_here
        return is_here

    def _number(self, found: LineMetrics) -> list[LineMetrics]:
        names = tuple(found.row)
        if names in self._earlier:
            self._next |= found.row
            return []
        if names == self._names:
            self.step += 1
            found.row, self._next = self._next | found.row, {}
        found.step, self.rows = self.step, self.rows + 1
        return [found]

"""The step of console rows that do not name one.

The rows that transformers and TRL print have an epoch but no step. They come at regular steps, so a row's number in the
order of logging, times the distance between two rows, is its step. The distance is worked out from the progress bar
(`12/300 [`) that stands beside the rows, checked against the epoch:

    step = epoch x (steps of the run) / (epochs of the run)

where the epochs of a run are a whole number unless `max_steps` was set. Without a bar the distance is taken for 1:
steps are then the numbers of the rows.

An output that is written in blocks has several rows between two bars, which may then be far ahead: there the epoch
decides, and the bar is only a limit.
"""

from __future__ import annotations

from rltop.regex import regex
from rltop.structs import NamedTuple

_BAR = regex(
    r"^[ \t]*(?:\d{1,5}:[ \t]*)?(?:\([^()]{0,80}pid=[^()]{1,60}\)[ \t]*)?"
    r"(?P<name>Training Progress:)?[ \t]*\d{1,3}%(?:\|[^|]{0,200}\||(?= ))[ \t]*"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12}) \["
)
_MAX_EPOCHS = 1000
_EPOCH_ROUNDING = 0.005
"""Older versions write two decimals."""
_EPOCH_DIGITS = 2e-2
"""Relative doubt in an epoch: four significant digits, and a last batch that is not full."""
_MAX_DOUBT = 0.3
"""How far from a whole number of steps the epoch may point and still decide."""


class Bar(NamedTuple):
    """A progress bar: `done` of `total`; `is_named` where it says that it counts training steps."""

    done: int
    total: int
    is_named: bool


def read_bar(text: str) -> Bar | None:
    """The bar in a line; only bars without a name of their own, or named for training."""
    bar = _BAR.match(text)
    if bar is None or not int(bar["total"]):
        return None
    return Bar(int(bar["done"]), int(bar["total"]), bar["name"] is not None)


class StepCounter:
    """Numbers the rows of one run that name no step.

    `see` every bar, `add` every training row, `flush` when nothing more comes: each
    returns the steps of the oldest rows that waited and are known now, in order.

    Attributes:
        total: steps of the run as the bar says, or None.
        last: step of the newest row whose step is known.
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
                self.distance = None  # what one row and a bar said is void where bars run ahead
        if epoch is not None:
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
            # Drawn again at once behind the row, or one step late: the epoch tells which.
            behind = [done for done in (bar, self._bar_before or 0, bar - 1) if self._fits(done)]
            # Too short a distance is put right by the bars that follow, too long a one is not.
            self.distance = behind[0] if behind else 1 if self._bar_before == 1 else max(1, bar)
        else:
            before = self._bar_before or bar
            self.distance = self._by_epoch(rows, before) or max(1, before // rows)

    def _correct(self) -> None:
        """A row between two bars that is not where it was expected: trust the bar, and the distance that it shows."""
        low, high = (self._bar_before or 0) - 1, (self._bar or 0) + 1
        expected = self._step(self._rows)
        if low <= expected <= high or self._bar is None or self._bar <= self.last:
            return
        self.distance = self._bar - self.last if self.last > 1 else self._bar
        self._base = self._bar - self._rows * self.distance

    def _fits(self, step: int) -> bool:
        """Is `step` the step of the newest row, if the run has a whole number of epochs?"""
        if step < 1 or self._epoch <= 0 or self.total is None:
            return False
        epochs = self._epoch * self.total / step
        doubt = epochs * _EPOCH_DIGITS / 2
        return round(epochs) >= 1 and abs(epochs - round(epochs)) <= min(_MAX_DOUBT, max(doubt, 0.02))

    def _by_epoch(self, rows: int, bar: int) -> int | None:
        """The distance that some whole number of epochs gives and the bar allows; None if there is none.

        Rows are written out when the block is full or a little later, so the bar
        stands between the newest row and two distances behind it.
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
    """The steps of a loop that prints a line a step: numbered where it names none, counted on from epoch to epoch.

    Attributes:
        last: the step of the newest line, or None.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self._is_numbered: bool | None = None
        self._first = self._named = self._offset = 0
        self._epoch = -1.0

    def number(self, step: int | None, epoch: float | None) -> int | None:
        """The step of a line; None where others of the file name theirs and it does not, or the reverse.

        Args:
            step: the step that the line names, which may begin anew in each epoch.
        """
        if self._is_numbered is None:
            self._is_numbered = step is None
            self._first = step or 0
        if self._is_numbered is not (step is None):
            return None
        if step is None:
            self.last = (self.last or 0) + 1
            return self.last
        if epoch is not None:
            if epoch > self._epoch >= 0 and step <= self._first < self._named:
                self._offset += self._named + 1 - self._first
            elif epoch < self._epoch:
                self._offset = 0
            self._epoch = epoch
        self._named = step
        self.last = self._offset + step
        return self.last


_ROLLOUTS_KEPT = 64


class RolloutSteps:
    """At which step of the optimiser a generation was: the first one that is made of it.

    slime and miles count both. Several steps may be made of one generation: what is logged of it stands at the first.

    Attributes:
        last: the newest step of the optimiser, or None.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self._first: dict[int, int] = {}

    def see(self, step: int) -> None:
        self.last = step

    def step_of(self, rollout: int) -> int:
        """The step of a generation; its own number where none has been made yet."""
        known = self._first.get(rollout)
        if known is None:
            known = self._first[rollout] = rollout if self.last is None else self.last + 1
            if len(self._first) > _ROLLOUTS_KEPT:
                del self._first[next(iter(self._first))]
        return known

"""Is it a coin: are accuracy and margin of pairs what labels of no information would give?"""

from __future__ import annotations

from collections import deque
from itertools import islice

from rltop.stats.rolling import mean_and_error

_SIGMAS = 2.0
_MOST = 4


class Coin:
    """The newest records of a run on pairs, against one half and zero.

    Not to be distinguished is not enough, as nothing can be from few pairs: the
    records must also rule out that the model is right noticeably more often. A
    margin that begins to grow shows in the newer half of them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.accuracy: deque[float] = deque(maxlen=_MOST * size)
        self.margin: deque[float] = deque(maxlen=_MOST * size)

    def observe(self, accuracy: float | None, margin: float | None) -> None:
        """Take in one record; one that lacks either says nothing."""
        if accuracy is not None and margin is not None:
            self.accuracy.append(accuracy)
            self.margin.append(margin)

    def is_certain(self, below: float) -> bool:
        """Whether the records look like a coin, and exclude an accuracy (0..1) of `below` or more.

        `size` of them at least, and as many more (four times as many are kept) as it takes
        for the error to be smaller than the distance from one half to `below`: with
        fewer pairs only an unlucky draw would exclude it. Two standard errors of the
        mean, from the spread of the records themselves. O(size). Source: Student's t,
        rounded; judgement for `below`.
        """
        if len(self.accuracy) < self.size:
            return False
        right, one = mean_and_error(self.accuracy)
        error = _SIGMAS * one
        if abs(right - 0.5) > error or right + error >= below or error > below - 0.5:
            return False
        half = len(self.margin) // 2
        for held in (self.margin, tuple(islice(self.margin, half, None))):
            margin, one = mean_and_error(held)
            if abs(margin) > _SIGMAS * one:
                return False
        return True

    def clone(self) -> Coin:
        """An independent copy."""
        twin = Coin(self.size)
        twin.accuracy, twin.margin = self.accuracy.copy(), self.margin.copy()
        return twin

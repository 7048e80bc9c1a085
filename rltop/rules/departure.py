"""Where a metric is that has left its level: back, elsewhere and flat, or still moving.

Owns what "back" and "flat" mean; what an alert makes of it is `alert_state`'s
business.
"""

from __future__ import annotations

import math
from collections import deque

from rltop.model import Observation
from rltop.rules.baseline import Before, JudgedValue
from rltop.rules.rule import Finding
from rltop.stats.change import usual_of
from rltop.stats.rolling import MAD_TO_SIGMA, mad_of, median_of

SETTLED_AFTER = 30
"""Values from the onset on before a level can be called settled."""
FLAT_VALUES = 20
"""So many of the newest must be flat."""
_DRIFT = 0.15
"""The halves of what is flat differ by less than this part of the way from the level before."""
_GROWTH = math.log(1.25)
"""And of what is positive by less than a quarter, unless it is noisier: slow growth is not flat."""
_WOBBLE = 0.5
_CREEP = 0.025
"""A trend clearer than the noise carries what is flat no farther than this part of the way."""
SPREADS = 3.0
"""A number with a sign is back within so many spreads of the level before."""
_FAR = math.log(16.0)
_MOSTLY = 15


class Departure:
    """A metric on its way from a frozen level.

    Half of the way is the square root of the ratio for numbers that are positive,
    else the middle; a number with a sign is back within three spreads too. Where
    the ratio was above 16, half of it may still be beyond the rule's line: then the line
    counts.

    Attributes:
        is_back: the newest value is inside it.
    """

    __slots__ = ("_count", "_values", "before", "edge", "is_back", "judged", "reach", "trigger", "value")

    def __init__(self, judged: JudgedValue, before: Before, finding: Finding) -> None:
        """Begin at the finding that raised the alert.

        Args:
            finding: the one that raised the alert: its value, and the line that it crossed, if any.
        """
        self.judged = judged
        self.before = before
        self.value = self.trigger = trigger = finding.value
        self.is_back = False
        self._values: deque[float] = deque(before.since, maxlen=FLAT_VALUES)
        self._count = len(before.since)
        line = finding.threshold
        self.edge = math.sqrt(before.value * trigger) if before.is_positive else (before.value + trigger) / 2.0
        is_between = line is not None and min(before.value, trigger) < line < max(before.value, trigger)
        if line is not None and is_between and before.is_positive and self._way(trigger) > _FAR:
            self.edge = min(self.edge, line) if trigger > before.value else max(self.edge, line)
        self.reach = self._way(line if line is not None and is_between else trigger)

    def _way(self, value: float, start: float | None = None) -> float:
        """How far it is from a level to a value: in logs of positive numbers, else in its unit."""
        start = self.before.value if start is None else start
        if not self.before.is_positive:
            return abs(value - start)
        return abs(math.log(value / start)) if value > 0.0 < start else math.inf

    def observe(self, observation: Observation) -> None:
        """Take a record in, if it logs the number."""
        value = self.judged.read(observation)
        if value is None:
            return
        self.value = value
        self._values.append(value)
        self._count += 1
        self.is_back = self._is_inside(value)

    def _is_inside(self, value: float) -> bool:
        before = self.before
        if value <= self.edge if self.edge > before.value else value >= self.edge:
            return True
        return not before.is_positive and abs(value - before.value) <= SPREADS * before.spread

    @property
    def is_mostly_back(self) -> bool:
        """Three quarters of the newest twenty are back: the others are noise."""
        held = self._values
        return len(held) == FLAT_VALUES and sum(map(self._is_inside, held)) >= _MOSTLY

    @property
    def level(self) -> float:
        return median_of(list(self._values))

    @property
    def is_flat(self) -> bool:
        """It stays at another level: 30 values since the onset, and the newest 20 are flat."""
        if self._count < SETTLED_AFTER or len(self._values) < FLAT_VALUES or self.is_back:
            return False
        held = list(self._values)
        level, half = median_of(held), FLAT_VALUES // 2
        way = self._way(level)
        if self._is_inside(level) or not 0.0 < way < math.inf:
            return level == held[0] == max(held) == min(held)
        drift, most = self._way(median_of(held[:half]), median_of(held[half:])), _DRIFT * way
        if self.before.is_positive:
            held = [math.log(one) if one > 0.0 else -math.inf for one in held]
        wobble = MAD_TO_SIGMA * mad_of(held)
        if self.before.is_positive:
            most = min(most, max(_GROWTH, wobble))
        if drift > most or wobble > _WOBBLE * way:
            return False
        usual = usual_of(held)
        return usual is None or abs(usual.slope) * FLAT_VALUES <= _CREEP * way

    def leaves(self, level: float) -> bool:
        """Whether the newest value lies as far beyond a settled level as the alert's line lay from the one before."""
        is_outward = (self.value > level) == (level > self.before.value)
        return is_outward and self._way(self.value, level) >= self.reach and not self._is_noise(level)

    def _is_noise(self, level: float) -> bool:
        """The newest value is within the scatter around a settled level: by its distance, or by its ratio."""
        held = list(self._values)
        if abs(self.value - level) <= SPREADS * MAD_TO_SIGMA * mad_of(held):
            return True
        if not self.before.is_positive or min(held) <= 0.0 or level <= 0.0:
            return False
        noise = MAD_TO_SIGMA * mad_of([math.log(one) for one in held])
        return abs(math.log(self.value / level)) <= SPREADS * noise

    def clone(self) -> Departure:
        twin = Departure.__new__(Departure)
        for name in Departure.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._values = self._values.copy()
        return twin

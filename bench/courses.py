"""The course of a metric over a run as a line of text, used by `glossary_warnings.py` and the cases of rules.

"A → B ± N % every K whole": straight from A to B; noise as a share (%) or absolute; on every K-th record; rounded.
A change of it: "×F", "+D", "A → B" or "nan", then "± N %", "in K" (records to get there), "from R", "until R".
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from typing import NamedTuple

RECORDS, ONSET = 200, 100

_NUMBER = r"[-+]?\d[\d.]*(?:e[-+]?\d+)?"
_COURSE = re.compile(
    rf"(?P<how>[×+]?)(?P<start>{_NUMBER}|nan)(?: → (?P<end>{_NUMBER}))?(?: ± (?P<noise>{_NUMBER})(?P<share> %)?)?"
    r"(?: in (?P<in>\d+))?(?: from (?P<from>\d+))?(?: until (?P<until>\d+))?"
    r"(?: every (?P<every>\d+))?(?P<whole> whole)?"
)


class Course(NamedTuple):
    """The course of a key from record `first` to `last`: a straight line with noise, reached after `takes` records.

    `how` is `×` or `+` if the line modifies the previous value; `every`: it is logged on every n-th record.
    """

    how: str
    start: float
    end: float
    noise: float
    is_share: bool
    takes: int
    first: int
    last: int
    every: int
    is_whole: bool

    @classmethod
    def read(cls, text: str) -> Course:
        """Parse the text of a table.

        Raises:
            ValueError: it is not a course.
        """
        found = _COURSE.fullmatch(text)
        if found is None:
            raise ValueError(f"no course: {text}")
        start, unit = float(found["start"]), 100 if found["share"] else 1
        return cls(
            found["how"], start, float(found["end"] or start), float(found["noise"] or 0) / unit,
            found["share"] is not None, int(found["in"] or 1), int(found["from"] or ONSET),
            int(found["until"] or RECORDS), int(found["every"] or 1), found["whole"] is not None,
        )  # fmt: skip

    def at(self, record: int) -> float:
        """The level, from `start` at the first record to `end` at the last."""
        return self.start + (self.end - self.start) * max(0, record - self.first) / max(1, RECORDS - self.first)

    def noisy(self, level: float, draw: random.Random) -> float:
        value = level * math.exp(draw.gauss(0.0, self.noise)) if self.is_share else level + draw.gauss(0.0, self.noise)
        return float(round(value)) if self.is_whole else value


def worked_out(text: str, row: Mapping[str, float]) -> float:
    """The value of `= a + b - c` over keys and numbers, evaluated left to right."""
    terms = text.split()[1:]
    value = row[terms[0]]
    for sign, name in zip(terms[1::2], terms[2::2], strict=True):
        other = row[name] if name in row else float(name)
        value = {"+": value + other, "-": value - other, "/": value / other if other else 0.0}[sign]
    return value


def changed(value: float, change: Course, base: Course | None, record: int, draw: random.Random) -> float:
    """The value that replaces a healthy one from the change on."""
    level = change.at(record)
    if change.how:
        level = value * level if change.how == "×" else value + level
    share = min(1.0, (record - change.first + 1) / change.takes)
    if share < 1.0:
        level = (base.at(record) if base else value) * (1 - share) + level * share
    return change.noisy(level, draw)

"""When a line was printed: by the clock in it, by its arrival, or backwards from the time the file was last written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from rltop.regex import regex
from rltop.structs import NamedTuple

HEAD_CHARS = 48
"""A clock begins so near to the beginning of a line; what is further on is text."""
_CLOCK_CHARS = 36
DAY_S = 86_400.0
EARLY_S = 120.0
"""Two clocks may differ by so much: a file may seem to be older than its last line."""
COPIED_S = 3_600.0
"""Last written so much later than its last line says, in every zone: the file was copied."""
NO_ZONE_S = 14 * 3_600.0

_CLOCK = regex(
    r"(?P<year>20\d\d)(?P<sep>[-/]?)(?P<month>[01]\d)(?P=sep)(?P<day>[0-3]\d)[ T_-]{1,2}"
    r"(?P<time>[0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,9})?)(?:\s?(?P<zone>Z\b|[+-][01]\d:?[0-5]\d))?"
    r"|(?:(?<![\d/-])(?P<mon>[01]\d)[-/]|(?<=[IWEF])(?P<glog>[01]?\d))(?P<dom>[0-3]\d) "
    r"(?P<hour>[0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,9})?)(?![:\d])"
    r"|^[\s\[(]*(?P<alone>[0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,9})?)(?![:\d])"
)
_QUARTERS = (-38, -14, -10, 14, 18, 22, 23, 26, 35, 38, 42, 51, 55, *range(-48, 57, 4))
ZONES_S = tuple(900.0 * quarters for quarters in _QUARTERS)
"""How far ahead of UTC clocks are anywhere."""


class LineTime(NamedTuple):
    """What a line says of its time.

    Attributes:
        value_s: seconds since the epoch, as if in UTC; of the day, where there is no date.
        has_date: False where the date has to be found.
        has_year: False where the year has to be found.
    """

    value_s: float
    is_exact: bool = False
    has_date: bool = True
    has_year: bool = True


def clock_of(text: str) -> LineTime | None:
    """The clock at the head of a line without its prefixes and colours; None where there is none."""
    if ":" not in text[:HEAD_CHARS]:
        return None
    found = _CLOCK.search(text, 0, HEAD_CHARS + _CLOCK_CHARS)
    if found is None or found.start() >= HEAD_CHARS:
        return None
    said = found["time"] or found["hour"] or found["alone"]
    hours, minutes, seconds = said.replace(",", ".").split(":")
    time_s = 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)
    if found["alone"]:
        return LineTime(time_s, has_date=False)
    month = found["mon"] or found["glog"]
    year, month, day = (2000, month, found["dom"]) if month else (found["year"], found["month"], found["day"])
    try:
        time_s += datetime.datetime(int(year), int(month), int(day), tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None
    zone = (found["zone"] or "").replace(":", "")
    if zone not in ("", "Z"):
        time_s -= (1 if zone[0] == "+" else -1) * 60.0 * (60 * int(zone[1:3]) + int(zone[3:]))
    return LineTime(time_s, is_exact=bool(zone), has_year=found["year"] is not None)


def dated(clocks: Sequence[LineTime | None], seen_s: float, shift_s: float | None) -> list[float | None]:
    """The clocks with their dates, backwards from the last; still as if in UTC.

    Args:
        seen_s: when the last line was there, seconds since the epoch.
        shift_s: what is to be added to a clock, where that is known.
    """
    found: list[float | None] = []
    later = seen_s - (shift_s or 0.0)
    for clock in reversed(clocks):
        if clock is None:
            found.append(None)
            continue
        value = clock.value_s
        if not clock.has_date:
            value += (later // DAY_S) * DAY_S
            value += DAY_S * round((later - value) / DAY_S)
        elif not clock.has_year:
            value = _in_year(value, later)
        later = value
        found.append(value)
    return found[::-1]


def _in_year(value: float, later: float) -> float:
    date, year = (
        datetime.datetime.fromtimestamp(value, datetime.UTC),
        datetime.datetime.fromtimestamp(later + DAY_S, datetime.UTC).year,
    )
    for each in (year, year - 1, year - 2, year - 3, year - 4):
        try:
            found = date.replace(year=each).timestamp()
        except ValueError:  # the 29th of February
            continue
        if found <= later + DAY_S:
            return found
    return value


def zone_shift(clock_s: float, seen_s: float, *, has_date: bool = True) -> float | None:
    """What is to be added to a clock: the zone in which the line is older than its file, and by the least.

    Args:
        clock_s: time of the newest line, as if in UTC.
        has_date: False where the day may be off by one.

    Returns:
        None where no zone makes it so: the file was copied.
    """
    late_s = {zone_s: seen_s - (clock_s - zone_s) for zone_s in ZONES_S}
    if not has_date:
        late_s = {zone_s: (late + EARLY_S) % DAY_S - EARLY_S for zone_s, late in late_s.items()}
    fitting = [late for late in late_s.values() if -EARLY_S <= late < COPIED_S]
    if not fitting:
        return None
    least_s: float = min(fitting, key=lambda late: late if late >= 0.0 else -10.0 * late)
    return seen_s - least_s - clock_s

"""Numbers, durations and changes, formatted for people.

Every function is pure and knows nothing of metrics, screens or colours. Its text has at most about ten cells, so that
columns of numbers can be right-aligned.
"""

from __future__ import annotations

import math

from rltop.model import NonFinite, Unit

UNKNOWN = "—"
"""Shown for an unknown value."""

MINUS = "\N{MINUS SIGN}"
TIMES = "×"

_MINUTE = 60.0
_HOUR = 3600.0
_DAY = 86400.0
_IN_SECONDS = 10 * _MINUTE - 0.5
_FEW = 10.0
"""A duration within this factor of another one is shown in the same unit, so that they compare easily."""
_LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
_UNIT_SUFFIX = {
    Unit.NONE: "",
    Unit.SECONDS: "s",
    Unit.MILLISECONDS: "ms",
    Unit.TOKENS: "tok",
    Unit.TOKENS_PER_S: "tok/s",
    Unit.FRACTION: "%",
    Unit.PERCENT: "%",
    Unit.NATS: "nats",
    Unit.GIGABYTES: "GB",
    Unit.WATTS: "W",
    Unit.COUNT: "",
}


def _signed(text: str, value: float) -> str:
    return f"{MINUS}{text}" if value < 0 else text


def _positive(value: float) -> str:
    for scale, suffix in _LARGE:
        if value >= scale * 0.9995:
            scaled = value / scale
            return f"{_positive(scaled)}{suffix}" if scaled < 999.5 else f"{value:.2e}"
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    if value >= 0.9995:
        return f"{value:.2f}"
    if value >= 0.0995:
        return f"{value:.3f}"
    return f"{value:.3g}"


def number(value: float) -> str:
    """A number in about three significant digits: 1,820 · 0.0031 · 1.34M.

    Integers from a thousand to a million keep all their digits,
    because they are often counts. NaN gives a dash.
    """
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return nonfinite(NonFinite.POS_INF if value > 0 else NonFinite.NEG_INF)
    if value == 0:
        return "0"
    return _signed(_positive(abs(value)), value)


def count(value: float) -> str:
    """A count: an integer in full below a million, abbreviated above."""
    if math.isfinite(value) and abs(value) < 1e6 and value == int(value):
        return _signed(f"{abs(int(value)):,}", value)
    return number(value)


def counted(value: float, noun: str, plural: str = "") -> str:
    """A count with its noun: 1 step · 1,204 steps."""
    return f"{count(value)} {noun if value == 1 else plural or f'{noun}s'}"


def step(value: int) -> str:
    """A step number with thousands separators."""
    return _signed(f"{abs(value):,}", value)


def percent(fraction: float) -> str:
    """A fraction in per cent, about three digits: 0.7 %."""
    if not math.isfinite(fraction):
        return UNKNOWN
    return f"{_percent_digits(fraction)} %"


def _percent_digits(fraction: float) -> str:
    scaled = abs(fraction) * 100
    if scaled == 0:
        return "0"
    if scaled >= 99.95:
        return _signed(f"{scaled:,.0f}", fraction)
    if scaled >= 0.995:
        return _signed(f"{scaled:.1f}", fraction)
    return _signed(f"{scaled:.2g}", fraction)


def share(fraction: float) -> str:
    """A part of a whole in whole per cent: 71 %, or <1 %."""
    if not math.isfinite(fraction):
        return UNKNOWN
    if 0 < fraction < 0.005:
        return "<1 %"
    return f"{_signed(f'{abs(fraction) * 100:,.0f}', fraction)} %"


def duration(seconds: float) -> str:
    """A duration: 140 ms · 38.2 s · 14 m 20 s · 8 h 26 m · 3 d 4 h."""
    if not math.isfinite(seconds):
        return UNKNOWN
    value = abs(seconds)
    if value == 0:
        return "0 s"
    if value < 0.9995:
        milliseconds = value * 1000
        text = f"{milliseconds:.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.2g} ms"
    elif value < 9.995:
        text = f"{value:.2f} s"
    elif value < 99.95:
        text = f"{value:.1f} s"
    elif value < _IN_SECONDS:
        text = f"{value:.0f} s"
    else:
        text = _long_duration(value)
    return _signed(text, seconds)


def _long_duration(value: float) -> str:
    seconds = round(value)
    if seconds < _HOUR:
        return _two(seconds, "m", "s")
    minutes = round(value / _MINUTE)
    if minutes < _DAY / _MINUTE:
        return _two(minutes, "h", "m")
    hours = round(value / _HOUR)
    days, rest = divmod(hours, 24)
    return f"{days:,} d {rest} h" if rest else f"{days:,} d"


def _two(total: int, large: str, small: str) -> str:
    head, rest = divmod(total, 60)
    return f"{head} {large} {rest} {small}" if rest else f"{head} {large}"


def age(seconds: float) -> str:
    """The age of something: now · 12 s ago · 14 min ago · 3 h ago."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return "now"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s ago"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min ago"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.0f} h ago"
    return f"{seconds / _DAY:,.0f} d ago"


def left(seconds: float) -> str:
    """The remaining time, roughly, rounded up: 1 s left · 40 s left · 3 min left."""
    if not math.isfinite(seconds):
        return f"{UNKNOWN} left"
    whole = max(1, math.ceil(seconds))
    if whole > 10:
        whole = math.ceil(whole / 5) * 5
    if whole < 2 * _MINUTE:
        return f"{whole:.0f} s left"
    if whole < 2 * _HOUR:
        return f"{math.ceil(whole / _MINUTE):.0f} min left"
    return f"{math.ceil(whole / _HOUR):,.0f} h left"


def size(size_bytes: int) -> str:
    """An amount of data, at least a tenth of a megabyte: 1.4 MB · 14 MB · 2.1 GB."""
    megabytes = size_bytes / 1e6
    if megabytes >= 999.5:
        return f"{megabytes / 1000:,.1f} GB"
    return f"{megabytes:,.0f} MB" if megabytes >= 9.95 else f"{megabytes:.1f} MB"


def quantity(value: float, unit: Unit) -> tuple[str, str]:
    """A value as (number, unit), so that numbers can be aligned.

    A fraction is shown in per cent. Durations with two units carry both in the number, and their unit is empty.
    """
    if not math.isfinite(value):
        return number(value), ""
    match unit:
        case Unit.FRACTION:
            return _percent_digits(value), "%"
        case Unit.SECONDS | Unit.MILLISECONDS:
            text = duration(value if unit is Unit.SECONDS else value / 1000)
            head, _, tail = text.partition(" ")
            return (text, "") if " " in tail else (head, tail)
        case Unit.COUNT:
            return count(value), ""
        case Unit.GIGABYTES if 0.0 < abs(value) < 0.0995:
            scale, suffix = (2.0**10, "MB") if abs(value) * 2.0**10 >= 0.0995 else (2.0**20, "kB")
            return number(value * scale), suffix
        case _:
            return number(value), _UNIT_SUFFIX[unit]


def measure(value: float, unit: Unit) -> str:
    """A value with its unit: 1,820 tok · 0.7 % · 38.2 s."""
    text, suffix = quantity(value, unit)
    return f"{text} {suffix}" if suffix else text


def measure_like(value: float, unit: Unit, like: float) -> str:
    """A value with its unit; a duration is in seconds if it is close to `like` and that is shown in seconds."""
    second = {Unit.SECONDS: 1.0, Unit.MILLISECONDS: 1000.0}.get(unit)
    if second is None or not second <= like < _IN_SECONDS * second <= value < _FEW * like:
        return measure(value, unit)
    return f"{value / second:,.0f} s"


def unit_suffix(unit: Unit) -> str:
    return _UNIT_SUFFIX[unit]


def difference(value: float, base: float, unit: Unit = Unit.NONE) -> str:
    """`value` minus `base`, always with a sign: +0.021 · +2.1 pp.

    Fractions differ by percentage points, seconds by a duration, anything else by a bare number.
    """
    delta = value - base
    if not math.isfinite(delta):
        return UNKNOWN
    sign = MINUS if delta < 0 else "+" if delta > 0 else "±"
    if unit is Unit.FRACTION:
        return f"{sign}{_percent_digits(abs(delta))} pp"
    if unit is Unit.SECONDS:
        return f"{sign}{duration(abs(delta))}"
    return f"{sign}{number(abs(delta)) if abs(delta) >= 0.1 or delta == 0 else f'{abs(delta):.2g}'}"


def change(value: float, base: float, unit: Unit = Unit.NONE, *, is_difference: bool = False) -> str:
    """`value` compared with `base`: ×3.1, −12 %, or +0.021.

    A factor if they differ by more than half, else per cent; the difference if a ratio is meaningless (base not
    positive, value negative) or the caller asks for it.
    """
    if not (math.isfinite(value) and math.isfinite(base)):
        return UNKNOWN
    if is_difference or base <= 0 or value < 0:
        return difference(value, base, unit)
    ratio = value / base
    if 2 / 3 < ratio < 1.5:
        moved = round((ratio - 1) * 100)
        sign = MINUS if moved < 0 else "+" if moved > 0 else "±"
        return f"{sign}{abs(moved)} %"
    if ratio >= 9.95:
        return f"{TIMES}{number(ratio) if ratio >= 99.5 else f'{ratio:.0f}'}"
    return f"{TIMES}{ratio:.1f}" if ratio >= 0.95 else f"{TIMES}{ratio:.2g}"


def nonfinite(kind: NonFinite) -> str:
    """The word for a non-finite value, with a typographic minus."""
    return kind.word.replace("-", MINUS)


def setting(value: str | float | None) -> str:
    """A value as in a settings file."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else f"{value:.12g}".replace("e-0", "e-")
    return str(value)

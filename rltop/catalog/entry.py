"""The catalogue's entries, one file per part of a run."""

from __future__ import annotations

from rltop.model import Direction, Metric, Unit

UP, DOWN, TARGET, NONE = Direction.UP, Direction.DOWN, Direction.TARGET, Direction.NONE


def entry(
    name: str,
    title: str,
    section: str,
    unit: Unit,
    direction: Direction,
    help_text: str,
    related: str = "",
    low: float | None = None,
    high: float | None = None,
) -> Metric:
    """Build one entry; `related` names other metrics, separated by spaces."""
    return Metric(name, title, section, unit, direction, help_text, low, high, tuple(related.split()))


def fraction(name: str, title: str, section: str, direction: Direction, help_text: str, related: str = "") -> Metric:
    """Build an entry for a share between 0 and 1."""
    return entry(name, title, section, Unit.FRACTION, direction, help_text, related, 0.0, 1.0)

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
    """Build one entry of the catalogue.

    Args:
        name: canonical name, frozen: rules, configuration and JSON use it.
        title: as shown on a row; at most 18 characters, distinct within its section.
        section: heading under which the metrics page lists it.
        unit: of the values once an alias has scaled and shifted them.
        direction: which way is better.
        help_text: two sentences: what it is, and how to read it.
        related: canonical names of other metrics in the order to check, separated by spaces.
        low: smallest value that can occur, in `unit`; None if there is none.
        high: largest value that can occur, in `unit`; None if there is none.

    Returns:
        The metric, with `related` split into names.
    """
    return Metric(name, title, section, unit, direction, help_text, low, high, tuple(related.split()))


def fraction(name: str, title: str, section: str, direction: Direction, help_text: str, related: str = "") -> Metric:
    """Build an entry for a share between 0 and 1, shown in per cent.

    Args:
        name: canonical name, frozen.
        title: as shown on a row; at most 18 characters, distinct within its section.
        section: heading under which the metrics page lists it.
        direction: which way is better.
        help_text: two sentences: what it is, and how to read it.
        related: canonical names of other metrics in the order to check, separated by spaces.

    Returns:
        The metric, bounded by 0 and 1.
    """
    return entry(name, title, section, Unit.FRACTION, direction, help_text, related, 0.0, 1.0)

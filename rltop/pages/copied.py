"""What a selected row is as text for the clipboard."""

from __future__ import annotations

from rltop import units
from rltop.model import Label
from rltop.pages.alerts import standing_verdict
from rltop.pages.metric import MetricPage
from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.regex import regex
from rltop.rows.rows import Row, Target, TargetKind

_BLANKS = regex(r" {3,}")


def row_text(row: Row) -> str:
    return _BLANKS.sub("  ", "".join(piece.text for piece in row.line).strip())


def value_to_copy(target: Target | None, page: Page, moment: Moment) -> tuple[str, str]:
    """What is selected, as somebody wants to have it elsewhere, and what it is in a few words.

    Args:
        page: the page on which it is selected; the chart of a metric stands for its value.

    Returns:
        Two empty texts where the row itself is all there is.
    """
    if target is None and isinstance(page, MetricPage):
        target = Target(TargetKind.METRIC, page.key, stream=page.stream)
    return ("", "") if target is None else _value_of(target, moment)


def _value_of(target: Target, moment: Moment) -> tuple[str, str]:
    match target.kind:
        case TargetKind.METRIC:
            return _value(target, moment)
        case TargetKind.SETTING | TargetKind.RUN:
            return _named(target, moment)
        case TargetKind.VERDICT:
            found = standing_verdict(moment.snapshot, target.name, target.stream)
            return "" if found is None else Label.of(found.headline).display, f"alert {target.name}"
        case TargetKind.STEP if target.step is not None:
            return str(target.step), "the step"
        case TargetKind.LINE if target.step is not None:
            return _log_line(target.step, moment), "the line"
    return "", ""


def _log_line(number: int, moment: Moment) -> str:
    log = moment.snapshot.run.console
    lines = log.lines(number)[1] if log is not None else ()
    return Label.of(lines[0].text).display if lines else ""


def _named(target: Target, moment: Moment) -> tuple[str, str]:
    name, settings = Label.of(target.name).display, moment.snapshot.run.settings
    if target.kind is TargetKind.RUN or settings is None:
        return name, "the path"
    return Label.of(units.setting(settings.values.get(target.name))).display, name


def _value(target: Target, moment: Moment) -> tuple[str, str]:
    """The newest value of a key up to the step that is shown, with every digit that was logged."""
    part = moment.snapshot.within(target.stream)
    stream, at = part.stream, part.at_step
    series = stream.series(target.name)
    for step, value in zip(reversed(series.steps), reversed(series.values), strict=True):
        if value == value and (at is None or step <= at):
            return repr(value), f"{Label.of(target.name).display} of step {units.step(step)}"
    return "", ""

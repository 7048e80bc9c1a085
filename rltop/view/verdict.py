"""The page of one verdict: what, since when, on which numbers, and what to look at next.

Owns the order of the page and the lines aligned at the onset; the words are the
rule's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rltop import units
from rltop.health import registry
from rltop.model import Event, Label, Signal, Verdict, VerdictState
from rltop.view.badges import verdicts_at
from rltop.view.cells import RowBuilder, clip_middle, fill, rule_row, text_row, too_small, wrap
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.key_metrics import value_text
from rltop.view.lines import Row, Target, TargetKind
from rltop.view.metric import catalogue_title
from rltop.view.onset import departure
from rltop.view.overview import paint_event
from rltop.view.signals import SignalReading, cadence_of, read_signal, shown_step
from rltop.view.source import RunSource
from rltop.view.spark import SparkData, Window, fitted, spark_data, sparkline

LEAST = (40, 12)
_LOOKBACK_RECORDS = 60
_COLUMNS = 96
_LABEL = 11


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to look at next.

    Attributes:
        title: of the metric.
        reading: what it says now; None where the run does not log it.
        offset: steps from the onset to where it moved; None if it did not.
        is_known: enough was there before the onset to tell.
        line: its line around the onset.
    """

    title: str
    reading: SignalReading | None
    offset: int | None = None
    is_known: bool = False
    line: SparkData | None = None


@dataclass(frozen=True, slots=True)
class VerdictView:
    """Everything the page of one verdict shows.

    Attributes:
        verdict: the verdict, or None if the rule does not stand at this step.
        rule: its id.
        title: of the rule.
        records: for how many records it has lasted, or None.
        subject: the metric it speaks of, with its line around the onset.
        looks: what to look at next, in the rule's order.
        first_moved: number of the look that moved first, or None.
        window: the steps that the lines cover.
        events: what happened with this rule, newest first.
    """

    verdict: Verdict | None
    rule: str
    title: str
    records: int | None
    subject: Look | None
    looks: tuple[Look, ...]
    first_moved: int | None
    window: Window | None
    events: tuple[Event, ...]


def build_verdict(run: RunSource, rule: str, at: int | None = None) -> VerdictView:
    """Read the verdict of a rule at a step, and what its links show around the onset."""
    verdicts = verdicts_at(run, at)
    verdict = next((one for one in verdicts if one.rule == rule), None)
    spec = registry.BY_ID.get(rule)
    events = [event for event in run.events if event.rule == rule and (at is None or event.step <= at)]
    empty = VerdictView(
        verdict=verdict,
        rule=rule,
        title=spec.title if spec is not None else rule,
        records=None,
        subject=None,
        looks=(),
        first_moved=None,
        window=None,
        events=tuple(reversed(events)),
    )
    last = shown_step(run, at)
    if verdict is None or last is None:
        return empty
    window = _window(run, verdict, last)
    subject = _look(run, verdict.metric, verdict, window, at)
    looks = tuple(_look(run, name, verdict, window, at) for name in verdict.next)
    moved = [(look.offset, i) for i, look in enumerate(looks) if look.offset is not None and look.offset <= 0]
    return replace(
        empty,
        records=_records(run, verdict),
        subject=subject if subject.reading is not None else None,
        looks=looks,
        first_moved=min(moved)[1] if moved else None,
        window=window,
    )


def _records(run: RunSource, verdict: Verdict) -> int | None:
    """For how many records a verdict has stood; unknown while only the newest rows are held."""
    if run.is_preview or verdict.state is not VerdictState.FIRING:
        return None
    return max(0, run.stream.rows - verdict.since_record + 1) or None


def _window(run: RunSource, verdict: Verdict, last: int) -> Window:
    """Steps from well before the onset to now, so that the onset lies at a third at the latest."""
    cadence = cadence_of(run.stream)
    before = max(_LOOKBACK_RECORDS * cadence, (last - verdict.since_step) // 2)
    start = max(run.stream.first_step or 0, verdict.since_step - before)
    stride = max(cadence, -(-(last - start + 1) // _COLUMNS))
    return Window(start, stride, -(-(last - start + 1) // stride))


def _look(run: RunSource, name: str, verdict: Verdict, window: Window, at: int | None) -> Look:
    signal = _signal(run, name, verdict)
    if signal is None:
        return Look(catalogue_title(name), None)
    verdicts = verdicts_at(run, at)
    reading = read_signal(run, signal, 2, at=at, verdicts=verdicts)
    onset = verdict.since_step
    lookback = max(2, onset - window.start)
    series = run.stream.series(signal.key)
    if at is not None:
        kept = sum(step <= at for step in series.steps)
        series = series._replace(steps=series.steps[:kept], values=series.values[:kept])
    moved = departure(series, onset, lookback)
    line = spark_data(
        run.stream.buckets(signal.key, window.stride, window.start, window.stop if at is None else at + 1),
        window,
        signal,
        marks=[mark.step for mark in run.stream.marks(signal.key) if at is None or mark.step <= at],
        restarts=[step for step in run.stream.restarts if window.start < step < window.stop],
        reference=reading.threshold,
        is_threshold=True,
        last=shown_step(run, at),
    )
    offset = None if moved.step is None else moved.step - onset
    return Look(signal.metric.title, reading, offset, moved.is_known, line)


def _signal(run: RunSource, name: str, verdict: Verdict) -> Signal | None:
    """The signal of a canonical name; for the verdict's own metric, the one with its key."""
    if run.identity is None:
        return None
    signals = run.identity.signals.get(name, ())
    own = [signal for signal in signals if signal.key == verdict.key] if name == verdict.metric else []
    return own[0] if own else signals[0] if signals else None


def paint_verdict(view: VerdictView, width: int, height: int | None, glyphs: Glyphs) -> list[Row]:
    """Paint the page from the top; what does not fit is cut off below."""
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    verdict = view.verdict
    if verdict is None:
        rows = [text_row(f"rule {view.rule}  {view.title}", width, glyphs, "title"), Row(())]
        rows.append(text_row("this rule does not fire at this step", width, glyphs, "dim"))
        return fill([*rows, *_paint_events(view, width, glyphs)], height)
    rows = [*_paint_head(view, verdict, width, glyphs), rule_row(width, glyphs)]
    rows += _paint_evidence(verdict, width, glyphs)
    rows += _paragraph("why", verdict.why, width, glyphs)
    for i, cause in enumerate(verdict.causes):
        rows += _paragraph("causes" if i == 0 else "", f"{i + 1}  {cause}", width, glyphs)
    rows += _paint_looks(view, verdict, width, glyphs)
    return fill([*rows, *_paint_events(view, width, glyphs)], height)


def _paint_head(view: VerdictView, verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    role = LEVEL_ROLES[verdict.level]
    word = verdict.level.word.upper()
    facts = f"rule {verdict.rule} · since {units.step(verdict.since_step)}"
    if view.records is not None:
        facts += f" · {units.count(view.records)} {'record' if view.records == 1 else 'records'}"
    if verdict.state is VerdictState.RECOVERED and verdict.recovered_step is not None:
        word = "RECOVERED"
        role = "dim"
        facts += f" · recovered {units.step(verdict.recovered_step)}"
    if verdict.is_provisional:
        facts += " · provisional: history is still being read"
    first = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.level(verdict.level)} {word}", role)
    first.add("  ").add(Label.of(verdict.title).display, "strong")
    headline = wrap(Label.of(verdict.headline).display, width - 2, 3)
    if first.room < len(facts) + 3:
        lines = [text_row(line, width, glyphs, "dim") for line in wrap(facts, width - 2, 2)]
        return [first.row(), *(text_row(line, width, glyphs, "text") for line in headline), *lines]
    first.to(width - len(facts) - 1).add(facts, "dim")
    return [first.row(), *(text_row(line, width, glyphs, "text") for line in headline)]


def _paint_evidence(verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    builder = RowBuilder(width, glyphs).add(" ").left("evidence", _LABEL, "dim")
    if verdict.key:
        target = Target(TargetKind.METRIC, verdict.key)
        builder.add(clip_middle(Label.of(verdict.key).display, max(8, width - 40)), "key", target)
    elif not verdict.evidence:
        return []
    rows = []
    for i, one in enumerate(verdict.evidence):
        text = f"{Label.of(one.name)} {units.measure(one.value, one.unit)}"
        if builder.room < len(text) + 4:
            rows.append(builder.row())
            builder = RowBuilder(width, glyphs).add(" ").left("", _LABEL)
        elif i or verdict.key:
            builder.add("   ")
        builder.add(f"{Label.of(one.name)} ", "dim").add(units.measure(one.value, one.unit), "value")
    return [*rows, builder.row()]


def _paragraph(label: str, text: str, width: int, glyphs: Glyphs) -> list[Row]:
    rows = []
    for i, line in enumerate(wrap(Label.of(text).display, max(10, width - _LABEL - 3), 6)):
        builder = RowBuilder(width, glyphs).add(" ").left(label if i == 0 else "", _LABEL, "dim")
        rows.append(builder.add(line).row())
    return rows


def _paint_looks(view: VerdictView, verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    """The links, each with its line; the lines share their steps, and the onset is marked above them."""
    if view.window is None or (view.subject is None and not view.looks):
        return []
    line_at = 58 if width >= 100 else 44 if width >= 72 else width
    cells = max(0, min(_COLUMNS // 2, width - line_at - 14))
    rows = [Row(()), _paint_axis(view.window, verdict, line_at, cells, width, glyphs)]
    if view.subject is not None:
        rows.append(_paint_look(view.subject, " ", False, line_at, cells, width, glyphs))
    for i, look in enumerate(view.looks):
        rows.append(_paint_look(look, str(i + 1), i == view.first_moved, line_at, cells, width, glyphs))
    return rows


def _paint_axis(window: Window, verdict: Verdict, line_at: int, cells: int, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" ").add("look next", "title")
    if cells < 12:
        return builder.row()
    shown = _shown_window(window, cells)
    at = min(cells - 1, shown.column(verdict.since_step) // 2)
    start, onset = units.step(window.start), units.step(verdict.since_step)
    builder.to(line_at)
    if at > len(start) + 2:
        builder.add(start, "dim").add(" ").add(glyphs.rule * (at - len(start) - 2), "rule").add(" ")
    builder.to(line_at + at).add(onset, "restart")
    end = line_at + shown.column(window.stop - 1) // 2 + 1
    rest = end - builder.column - 5
    builder.add(" ").add(glyphs.rule * max(0, rest), "rule").add(" now" if rest > 0 else "now", "dim")
    return builder.row()


def _shown_window(window: Window, cells: int) -> Window:
    """The window of the lines once they are fitted into `cells`."""
    empty = [float("nan")] * window.columns
    full = SparkData(empty, [*empty[:-1], 0.0], window, newest=window.columns - 1)
    return fitted(full, cells * 2).window


def _paint_look(look: Look, number: str, is_first: bool, line_at: int, cells: int, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(f"  {number} ", "strong")
    builder.left(Label.of(look.title).display, 19, "text" if look.reading is not None else "dim")
    if look.reading is None:
        return builder.add("not logged by this run", "dim").row()
    text, unit = value_text(look.reading)
    builder.right(text, 8, "value").left(f" {unit}" if unit else "", 6, "unit")
    if line_at - builder.column >= 14:
        role = "note" if look.offset is not None else "dim"
        builder.add(" ").left(_moved_text(look), min(20, line_at - builder.column - 1), role)
    if look.line is not None and cells >= 12:
        builder.to(line_at).line(sparkline(fitted(look.line, cells * 2), glyphs))
        if is_first:
            builder.add(" ◀ moved first", "note")
    elif is_first:
        builder.add(" moved first", "note")
    return builder.row(Target(TargetKind.METRIC, look.reading.signal.key))


def _moved_text(look: Look) -> str:
    """When it moved against the onset, in words."""
    if not look.is_known:
        return "too little before"
    if look.offset is None:
        return "no change"
    if look.offset == 0:
        return "at the same step"
    word = "after" if look.offset > 0 else "before"
    sign = "+" if look.offset > 0 else units.MINUS
    return f"{word} ({sign}{units.step(abs(look.offset))} steps)"


def _paint_events(view: VerdictView, width: int, glyphs: Glyphs) -> list[Row]:
    if not view.events:
        return []
    rows = [Row(()), text_row("events of this rule", width, glyphs, "dim")]
    return rows + [paint_event(event, width, glyphs)._replace(hot=()) for event in view.events[:12]]

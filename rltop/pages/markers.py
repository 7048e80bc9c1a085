"""What happened on the steps of a chart, as signs below it: alerts, restarts, checkpoints and validations.

Owns what is marked and which sign it has; where a step stands below a chart is the chart's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rltop import units
from rltop.model import EventState, Level
from rltop.pages.signals import primary
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row
from rltop.rows.widths import cell_width
from rltop.run.past import outlived
from rltop.run.snapshot import Snapshot

_CHECKPOINTS = ("time_save",)
_VALIDATIONS = ("val_score", "val_acc", "val_loss", "val_aux", "time_eval")
_MOST_COLUMNS = 200
_CROWDED = 0.4
_LEAST_SAVE_SHARE = 0.01
_NAMED = 3


class MarkerKind(enum.IntEnum):
    """What is marked; where several share a cell, the highest is seen."""

    VALIDATION = 1
    CHECKPOINT = 2
    RECOVERY = 3
    RESTART = 4
    ONSET = 5


@dataclass(frozen=True, slots=True)
class Marker:
    """One thing that happened.

    Attributes:
        step: where; of a downsampled validation or checkpoint, the first step of its bucket.
        is_own: the rule speaks of the metric of the chart.
    """

    step: int
    kind: MarkerKind
    level: Level = Level.OK
    rule: str = ""
    is_own: bool = False


def read_markers(snapshot: Snapshot, first: int, last: int, metric: str = "") -> tuple[Marker, ...]:
    """What happened on the steps `first` to `last`, in order; of rules what was WARN or worse."""
    found = [Marker(step, MarkerKind.RESTART) for step in snapshot.stream.seen_restarts]
    own = _rules_about(snapshot, metric) if metric else frozenset()
    muted = snapshot.source.muted
    old = outlived(snapshot.events)
    for number, event in enumerate(snapshot.events):
        if event.stream or event.level < Level.WARN or event.is_of(muted) or number in old:
            continue
        if not event.is_alarm and event.state is not EventState.RECOVERED:
            continue
        kind = MarkerKind.RECOVERY if event.state is EventState.RECOVERED else MarkerKind.ONSET
        found.append(Marker(event.step, kind, event.level, event.rule, event.said_by in own))
    found = [marker for marker in found if first <= marker.step <= last]
    found += _logged_on(snapshot, _CHECKPOINTS, first, last, MarkerKind.CHECKPOINT)
    found += _logged_on(snapshot, _VALIDATIONS, first, last, MarkerKind.VALIDATION)
    return tuple(sorted(found, key=lambda marker: (marker.step, marker.kind)))


def _rules_about(snapshot: Snapshot, metric: str) -> frozenset[str]:
    # What stands now: the chart goes on behind the step.
    standing = snapshot.at(None).verdicts.standing
    rules = {verdict.said_by for verdict in standing if metric in (verdict.metric, verdict.key)}
    if not snapshot.events:
        return frozenset(rules)
    # Whoever has events has been judged: the rules are imported already.
    from rltop.rules import registry  # noqa: PLC0415

    return frozenset(rules | {spec.id for spec in registry.ALL_SPECS if spec.metrics and spec.metrics[0] == metric})


def _title(rule: str) -> str:
    # Whoever has events has been judged: the rules are imported already.
    from rltop.rules import registry  # noqa: PLC0415

    return registry.NAMED[rule].title if rule in registry.NAMED else rule


def _logged_on(snapshot: Snapshot, names: Sequence[str], first: int, last: int, kind: MarkerKind) -> list[Marker]:
    """The steps on which one of the metrics was logged, the first of them that the run knows."""
    signal = primary(snapshot, *names)
    if signal is None or last < first:
        return []
    steps, values = snapshot.stream.series(signal.key)
    held = steps[0] if steps else last + 1
    points = [(s, signal.read(v)) for s, v in zip(steps, values, strict=True) if first <= s <= last and v == v]
    if first < held:
        # What memory has downsampled is known by its buckets only.
        stop = min(held, last + 1)
        stride = max(1, -(-(stop - first) // _MOST_COLUMNS))
        buckets = snapshot.stream.buckets(signal.key, stride, first, stop)
        points[:0] = [(one.first_step, signal.read(one.high)) for one in buckets if one.count]
    least = 0.0
    if kind is MarkerKind.CHECKPOINT:
        # Some trainers log a checkpoint's time on every step, next to nothing where there was none.
        least = _LEAST_SAVE_SHARE * max((value for _, value in points), default=0.0)
    return [Marker(step, kind) for step, value in points if kind is MarkerKind.VALIDATION or value > least]


def sign_of(marker: Marker, glyphs: Glyphs) -> tuple[str, str]:
    match marker.kind:
        case MarkerKind.ONSET:
            return glyphs.level(marker.level), LEVEL_ROLES[marker.level]
        case MarkerKind.RECOVERY:
            return glyphs.recovered, "ok"
        case MarkerKind.RESTART:
            return glyphs.restart, "restart"
        case MarkerKind.CHECKPOINT:
            return "c", "note"
        case MarkerKind.VALIDATION:
            return "v", "dim"


def add_rail(
    builder: RowBuilder, markers: Sequence[Marker], cells: int, cell_of: Callable[[int], int | None], glyphs: Glyphs
) -> RowBuilder:
    """Write the signs into `cells` cells; what happens all the time is left to the legend."""
    rail: list[Marker | None] = [None] * cells
    crowded = _crowded(markers, cells)
    for marker in markers:
        cell = cell_of(marker.step)
        if cell is None or not 0 <= cell < cells or marker.kind in crowded:
            continue
        held = rail[cell]
        if held is None or (marker.kind, marker.level) > (held.kind, held.level):
            rail[cell] = marker
    for shown in rail:
        builder.add(*((" ", "text") if shown is None else sign_of(shown, glyphs)))
    return builder


def _crowded(markers: Sequence[Marker], cells: int) -> frozenset[MarkerKind]:
    return frozenset(
        kind
        for kind in (MarkerKind.VALIDATION, MarkerKind.CHECKPOINT)
        if sum(marker.kind is kind for marker in markers) > _CROWDED * cells
    )


def paint_marker_legend(markers: Sequence[Marker], indent: int, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" " * indent)
    ruled = [marker for marker in markers if marker.rule]
    # The newest are the ones that are asked for.
    ruled.sort(key=lambda marker: (not marker.is_own, -marker.step))
    entries = [(*sign_of(one, glyphs), f"{_title(one.rule)} {units.step(one.step)}") for one in ruled]
    rest = [
        _summary(kind, word, markers, glyphs)
        for kind, word in (
            (MarkerKind.RESTART, "restart"),
            (MarkerKind.CHECKPOINT, "checkpoint"),
            (MarkerKind.VALIDATION, "validation"),
        )
        if any(marker.kind is kind for marker in markers)
    ]
    reserved = sum(cell_width(sign) + cell_width(text) + 3 for sign, _, text in rest)
    if entries and reserved > builder.room * 2 // 3:
        rest = [(sign, role, text.split(" ", 1)[0]) for sign, role, text in rest]
        reserved = sum(cell_width(sign) + cell_width(text) + 3 for sign, _, text in rest)
    left_out = 0
    for sign, role, text in entries:
        if cell_width(text) + 4 + reserved + 6 > builder.room:
            left_out += 1
            continue
        builder.add(sign, role).add(f" {text}  ", "dim")
    if left_out:
        builder.add(f"+{left_out}  ", "dim")
    for sign, role, text in rest:
        if cell_width(text) + 4 <= builder.room:
            builder.add(sign, role).add(f" {text}  ", "dim")
    return builder.row()


def _summary(kind: MarkerKind, word: str, markers: Sequence[Marker], glyphs: Glyphs) -> tuple[str, str, str]:
    found = [marker for marker in markers if marker.kind is kind]
    sign, role = sign_of(found[0], glyphs)
    steps = [marker.step for marker in found]
    if len(steps) <= _NAMED:
        return sign, role, f"{word} {', '.join(map(units.step, steps))}"
    gaps = sorted(b - a for a, b in pairwise(steps))
    return sign, role, f"{word} every {units.step(gaps[len(gaps) // 2])}, last {units.step(steps[-1])}"

"""Saying what a key means: the metrics of the catalogue, of which one is chosen for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rltop.catalog.metrics import CATALOG
from rltop.model import Metric, Unit
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, ListPage, Mean
from rltop.pages.signals import key_label
from rltop.regex import regex
from rltop.rows.cells import RowBuilder, fill, text_row, too_small
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

LEAST = (40, 8)
AS_LOGGED, FORGET = "", "*"
"""Choices besides the metrics: it is none, and whatever rltop finds out by itself."""
_HEAD_ROWS = 2
_ROUNDING = 1e-3
_MILLISECONDS = regex(r"(?:^|[^a-zA-Z])ms(?:$|[^a-zA-Z])|_?millis", re.IGNORECASE)


def choices(snapshot: Snapshot, key: str) -> list[tuple[str, str, str]]:
    """What a key may be said to be: name, title and remark; what it is taken for now and what it may be come first."""
    identity = snapshot.identity
    now, guesses = [], []
    if identity is not None:
        now = [name for name, found in identity.signals.items() if any(one.key == key for one in found)]
        guesses = [name for name, found in identity.guesses.items() if any(one.key == key for one in found)]
        guesses += [each.metric for each in identity.refused if each.key == key and each.metric not in guesses]
    said = {} if identity is None else identity.meant
    scaling = _Scaling.of(snapshot, key)
    first: list[tuple[str, str, str]] = []
    rest: list[tuple[str, str, str]] = []
    for name in dict.fromkeys((*now, *guesses, *CATALOG)):
        is_first = name in now or name in guesses
        place = first if is_first else rest
        plain, scaled = (name, CATALOG[name].title), scaling.choice(CATALOG[name])
        if name in now and scaled is not None and said.get(key) == scaled[0]:
            place += [(*scaled[:2], f"now, {scaled[2]}"), (*plain, _remark(CATALOG[name]))]
            continue
        if scaled is not None:
            place.append(scaled)
        place.append((*plain, "now" if name in now else "guessed" if is_first else _remark(CATALOG[name])))
    none = (AS_LOGGED, "no metric: as logged", "now" if key in said and not said[key] else "")
    forget = [(FORGET, "as found by rltop", "forget what was said")] if key in said else []
    return [*first, none, *forget, *rest]


class _Scaling(NamedTuple):
    """In which unit a key seems to be logged, where it is not the unit of a metric."""

    is_percent: bool
    is_milliseconds: bool

    @classmethod
    def of(cls, snapshot: Snapshot, key: str) -> _Scaling:
        """By the first values of a key, and its name."""
        stream = snapshot.stream
        newest = None if stream.last_step is None else stream.value(key, stream.last_step)
        values = [abs(value) for value in (*stream.head(key).values, newest or 0.0) if math.isfinite(value)]
        is_percent = 1.0 + _ROUNDING < max(values, default=0.0) <= 100.0 * (1.0 + _ROUNDING)
        return cls(is_percent, bool(_MILLISECONDS.search(key)))

    def choice(self, metric: Metric) -> tuple[str, str, str] | None:
        """The metric as it is logged in another unit; None where nothing suggests one."""
        if self.is_percent and metric.unit is Unit.FRACTION and metric.high == 1.0:
            return f"{metric.name} / 100", metric.title, "logged in percent"
        if self.is_milliseconds and metric.unit is Unit.SECONDS:
            return f"{metric.name} / 1000", metric.title, "logged in milliseconds"
        return None


def _remark(metric: Metric) -> str:
    unit = f", {metric.unit.value}" if metric.unit.value else ""
    return f"{metric.section}{unit}"


class MeaningPage(ListPage[tuple[str, str, str]]):
    """Which metric a key is, chosen from the catalogue."""

    filter_hint = "filter by title, name or section"
    help = (
        "Every metric that the selected key may be; what it is taken for and what its name suggests come first. {open} "
        "says that it is this metric: the run is read anew, and the rules judge the key as that metric. A share that "
        "goes beyond 1 can be said to be in percent. What was said holds for every run of the project, and `rltop "
        "config` prints it. {back} leaves it as it is."
    )

    def __init__(self, key: str, stream: str = "") -> None:
        """The choices for a trainer's own key."""
        super().__init__(stream)
        self.key = key

    def target(self, line: tuple[str, str, str]) -> Target:
        """A metric that the key may be."""
        return Target(TargetKind.MEANING, line[0])

    def open(self, target: Target, moment: Moment) -> Effect | None:
        """Say that the key is the metric that was chosen."""
        del moment
        if target.kind is not TargetKind.MEANING:
            return None
        return Mean(self.key, None if target.name == FORGET else target.name)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The key, then the choices in sight."""
        if width < LEAST[0] or height < LEAST[1]:
            return too_small(width, height, moment.glyphs, LEAST)
        words = self.query.casefold().split()
        found = [
            one for one in choices(moment.snapshot, self.key)
            if all(word in f"{one[0]} {one[1]} {one[2]}".casefold() for word in words)
        ]  # fmt: skip
        shown = self.settle(found, max(1, height - _HEAD_ROWS))
        rows = [_head(self.key, width, moment.glyphs), Row(())]
        if not found:
            rows.append(text_row(moment.keys.none_matches("no metric"), width, moment.glyphs, "dim"))
        rows += [_choice(one, width, moment.glyphs) for one in shown]
        return fill(rows, height)


def _head(key: str, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" WHAT IS ", "title")
    return builder.add(key_label(key).display, "key").add(" ?", "title").row()


def _choice(one: tuple[str, str, str], width: int, glyphs: Glyphs) -> Row:
    name, title, remark = one
    builder = RowBuilder(width, glyphs).add("   ").left(title, 22, "text")
    builder.left(name if name not in (AS_LOGGED, FORGET) else "", 26, "key")
    return builder.add(remark, "note" if remark.startswith(("now", "guessed")) else "dim").row(
        Target(TargetKind.MEANING, name)
    )

"""The pipeline of an asynchronous run: who waits for whom, from the environments to the weight sync and back.

Owns the boxes of the picture, the one sentence, and how the two idle shares are read
(the table of verl #7601): a trainer that waits while the queue is empty is starved by a
generation that is saturated; a generation that waits while the trainer does not is held
up by training; where both wait, what lies between them is slow. What is not logged stays
unknown, and its box is hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from rltop import units
from rltop.catalog.dialect import Dialect
from rltop.catalog.metrics import CATALOG
from rltop.model import Label, Level, Unit
from rltop.pages.goodput import Goodput, build_goodput
from rltop.pages.header import generation_text
from rltop.pages.key_metrics import change_text, value_text
from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.pages.signals import SignalReading, cadence_of, history_of, lately, read_signal
from rltop.rows.cells import RowBuilder, clip, rule_row, text_row, too_small, wrap
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median
from rltop.structs import NamedTuple

WAITS = 0.2
"""A side that is idle for so much of the step waits."""
_LATELY = 10
"""Records behind a share: one long wait is no state."""
_FULL = 0.95
"""A queue that holds so much of its limit is full."""
LEAST = (40, 12)
_PICTURE_FROM, _ONE_ROW_FROM = 76, 110
_GAP = 3
_SHOWN = 3
"""Facts of a box in the picture; all of them stand below."""


class _Part(NamedTuple):
    """One box: what it is called, its metrics, what tells most first, and which of them is its idle share."""

    name: str
    metrics: str
    idle: str = ""


_PARTS = (
    _Part(
        "environments",
        "time_env_step time_env_step_max time_tool_call time_env_reset time_tool_sample_max env_timeout_frac "
        "tool_failures rollouts_per_s agent_busy_frac turn_limit_frac",
    ),
    _Part(
        "generation",
        "rollouter_idle_frac inflight_count engine_running gen_queue_size engine_waiting gen_throughput kv_cache_frac "
        "time_gen_blocked time_gen_limited time_wait_policy time_gen_sample_max engine_preemptions time_no_progress "
        "engines_serving",
        idle="rollouter_idle_frac",
    ),
    _Part("scorer", "score_queue_size time_score_mean time_score_max time_score_wait time_score_blocked time_reward"),
    _Part(
        "queue",
        "queue_size queue_missing time_in_queue staleness_queued_mean staleness_queued_max dropped_stale "
        "evicted_samples dropped_surplus",
    ),
    _Part(
        "trainer",
        "trainer_idle_frac time_wait_data staleness_mean staleness_max stale_frac trained_throughput "
        "throughput_per_gpu throughput batch_fill_frac mfu_wall time_update_actor",
        idle="trainer_idle_frac",
    ),
    _Part(
        "weight sync",
        "time_weight_sync time_weight_sync_pause time_weight_sync_barrier time_weight_sync_transfer time_wait_sync "
        "param_version weight_updates",
    ),
)
_BRIEF = {
    "time_env_step": "a step",
    "time_env_step_max": "at most",
    "time_env_reset": "reset",
    "tool_failures": "failed calls",
    "inflight_count": "in flight",
    "engine_running": "running",
    "engine_waiting": "waiting",
    "gen_queue_size": "prompts wait",
    "gen_throughput": "",
    "time_gen_blocked": "queue full",
    "score_queue_size": "wait",
    "time_score_mean": "a score",
    "time_score_max": "at most",
    "time_score_wait": "waiting",
    "queue_size": "wait",
    "time_in_queue": "in queue",
    "staleness_queued_mean": "stale",
    "staleness_queued_max": "stale, max",
    "dropped_stale": "dropped",
    "time_wait_data": "waiting",
    "staleness_mean": "stale",
    "staleness_max": "stale, max",
    "time_weight_sync": "a sync",
    "time_weight_sync_pause": "pause",
    "time_weight_sync_barrier": "barrier",
    "time_weight_sync_transfer": "transfer",
    "param_version": "version",
}
"""What a number is called in the picture, under the name of its box; elsewhere it has its whole title."""
_LIMITS = {"inflight_count": "inflight_limit", "queue_size": "queue_limit", "stale_frac": "staleness_share_limit"}
"""Metrics of a number that has a limit, and the metric of that."""


class Fact(NamedTuple):
    """One number of a box.

    Attributes:
        metric: canonical name.
        title: of the metric.
        value: in `unit`.
        unit: of the metric.
        text: value with its unit, and its limit where that is logged.
        change: against the start of the run; a dash while nobody can say.
        key: the trainer's own.
        step: of the value.
        level: the worst that a rule says of it.
        instance: whose, where several are logged: the worst one.
    """

    metric: str
    title: str
    value: float
    unit: Unit
    text: str
    change: str
    key: Label
    step: int
    level: Level
    instance: str = ""


class Box(NamedTuple):
    """One part of the pipeline.

    Attributes:
        name: as shown.
        facts: what is logged of it, what tells most first; empty: hollow.
        hint: how to log it, where nothing is.
        idle: share of the step in which it waited, lately; None where that is not logged.
    """

    name: str
    facts: tuple[Fact, ...]
    hint: str = ""
    idle: float | None = None

    @property
    def step(self) -> int | None:
        """The newest step that says something of it."""
        return max((fact.step for fact in self.facts), default=None)


class Flow(NamedTuple):
    """The pipeline at one step.

    Attributes:
        boxes: in the order in which a sample passes them.
        trainer_idle, generation_idle: shares of the step in which a side waited, medians of the last records.
        queue: "empty", "full" or "filled"; "" where its size is not logged.
        queue_since: the step since which it has been empty or full without a break.
        generation: "starved", "saturated" (the trainer waits for it), "busy", or "" where that is not known.
        training: "starved", "blocked" (samples are there), "waiting" (whether any are is not logged), "busy", or "".
        sentence: who waits for whom.
        advice: what to turn; empty where nothing is to be turned.
        age_s: seconds since the newest row; None where nobody can tell.
        step: that is shown.
        note: that the run is asynchronous, and its bound.
        goodput: what became of the generated completions.
    """

    boxes: tuple[Box, ...]
    trainer_idle: float | None
    generation_idle: float | None
    queue: str
    queue_since: int | None
    generation: str
    training: str
    sentence: str
    advice: str
    age_s: float | None
    step: int | None
    note: str
    goodput: Goodput | None


def build_flow(snapshot: Snapshot, *, has_boxes: bool = True) -> Flow | None:
    """The pipeline of a run; None where the run does not generate beside the training.

    Args:
        has_boxes: also its numbers, and what becomes of the completions; else who waits for whom alone.
    """
    identity = snapshot.identity
    if identity is None or not identity.traits.is_async:
        return None
    trainer = _share(snapshot, "trainer_idle_frac", ("time_wait_data",))
    generation = _share(snapshot, "rollouter_idle_frac", ("time_gen_blocked", "time_gen_limited", "time_wait_policy"))
    queue, since = _queue(snapshot)
    trained = "" if trainer is None else "busy" if trainer < WAITS else "starved" if queue == "empty" else "blocked"
    if trained == "blocked" and not queue:
        # Whether anything was there to be taken is not logged: only that it waits is known.
        trained = "waiting"
    # Engines that are never idle hold nobody up where the trainer does not wait.
    idle_less = "busy" if trained == "busy" else "saturated"
    generated = "" if generation is None else "starved" if generation >= WAITS else idle_less
    return Flow(
        boxes=tuple(_box(snapshot, part) for part in _PARTS) if has_boxes else (),
        trainer_idle=trainer,
        generation_idle=generation,
        queue=queue,
        queue_since=since,
        generation=generated,
        training=trained,
        sentence=_sentence(trainer, generation, queue, since),
        advice=_ADVICE.get((generated, trained), ""),
        age_s=snapshot.part.age_s if snapshot.at_step is None else None,
        step=snapshot.step,
        note=generation_text(snapshot),
        goodput=build_goodput(snapshot) if has_boxes else None,
    )


_MORE_ENGINES = "generation is the bottleneck: more engines, or smaller batches"
_UPDATE = "samples are there and the trainer waits: look at the weight sync and at how a batch is put together"
_BETWEEN = "both wait: a larger staleness bound, or a faster weight sync, scorer or environment"
_ADVICE = {
    ("saturated", "starved"): _MORE_ENGINES,
    ("saturated", "waiting"): _MORE_ENGINES,
    ("", "starved"): _MORE_ENGINES,
    ("saturated", "blocked"): _UPDATE,
    ("", "blocked"): _UPDATE,
    ("starved", "busy"): "training is the bottleneck: fewer in flight, or some of the engines' GPUs for training",
    ("starved", "starved"): _BETWEEN,
    ("starved", "waiting"): _BETWEEN,
    ("starved", "blocked"): "both wait while samples are there: the weight sync holds both up",
}
"""(generation, training) → what to turn; the cells of the table of verl #7601."""


def _lately(snapshot: Snapshot, name: str) -> list[float]:
    """The last finite values of a metric's primary signal, oldest first; empty where it is not logged."""
    signal = None if snapshot.identity is None else snapshot.identity.primary(name)
    if signal is None:
        return []
    return lately(snapshot, signal, _LATELY)


def _share(snapshot: Snapshot, share: str, seconds: Sequence[str]) -> float | None:
    """The share of the step in which a side waited: as logged, else the seconds of its waits over those of the step."""
    logged = _lately(snapshot, share)
    if logged:
        return min(1.0, max(0.0, median(logged)))
    step_s = _lately(snapshot, "time_step")
    waits = [median(found) for name in seconds if (found := _lately(snapshot, name))]
    if not waits or not step_s or median(step_s) <= 0.0:
        return None
    return min(1.0, max(waits) / median(step_s))


def _queue(snapshot: Snapshot) -> tuple[str, int | None]:
    """Whether the queue is empty, full or between when it is asked, and since which step without a break."""
    signal = None if snapshot.identity is None else snapshot.identity.primary("queue_size")
    missing = _lately(snapshot, "queue_missing")
    if signal is None:
        return ("empty", None) if missing and median(missing) > 0.0 else ("", None)
    history = history_of(snapshot, signal)
    if not history:
        return "", None
    limits = _lately(snapshot, "queue_limit")
    full_from = _FULL * limits[-1] if limits and limits[-1] > 0.0 else math.inf

    def word(size: float) -> str:
        return "empty" if size <= 0.0 else "full" if size >= full_from else "filled"

    now = word(median([size for _, size in history[-3:]]))
    since = None
    for step, size in reversed(history):
        if word(size) != now:
            break
        since = step
    return now, since if now != "filled" else None


def _sentence(trainer: float | None, generation: float | None, queue: str, since: int | None) -> str:
    """Who waits for whom, in one sentence."""
    parts = []
    if trainer is not None:
        for_what = "for rollouts" if trainer >= WAITS and queue != "filled" else "of the step"
        parts.append(f"trainer waits {units.share(trainer)} {for_what}")
    if generation is not None:
        why = " as the queue is full" if generation >= WAITS and queue == "full" else ""
        parts.append(f"generation waits {units.share(generation)}{why}")
    if queue in ("empty", "full"):
        parts.append(f"queue {queue}" + (f" since {units.step(since)}" if since is not None else ""))
    elif queue:
        parts.append("samples are in the queue")
    elif parts:
        parts.append("queue not logged")
    return "; ".join(parts) or "neither idle shares nor the queue are logged: who waits for whom is not known"


def _box(snapshot: Snapshot, part: _Part) -> Box:
    facts = tuple(fact for name in part.metrics.split() if (fact := _fact(snapshot, name)) is not None)
    idle = _lately(snapshot, part.idle) if part.idle else []
    hint = "" if facts or snapshot.identity is None else _hint(snapshot.identity.dialect, part)
    return Box(part.name, facts, hint, median(idle) if idle else None)


def _fact(snapshot: Snapshot, name: str) -> Fact | None:
    """A metric as it stands at the step; of several signals the worst."""
    identity = snapshot.identity
    signals = () if identity is None else identity.signals.get(name, ())
    verdicts, cadence = snapshot.verdicts.standing, cadence_of(snapshot.stream)
    readings = [read_signal(snapshot, one, 0, verdicts=verdicts, cadence=cadence) for one in signals]
    known = [reading for reading in readings if reading.point is not None]
    if not known:
        return None
    reading = max(known, key=_size) if len(known) > 1 and CATALOG[name].direction.value == "down" else known[0]
    assert reading.point is not None
    text = " ".join(part for part in value_text(reading) if part)
    limit = _lately(snapshot, _LIMITS[name]) if name in _LIMITS else []
    if limit:
        text += f" of {' '.join(part for part in units.quantity(limit[-1], reading.unit) if part)}"
    return Fact(
        name,
        reading.title,
        reading.point.value,
        reading.unit,
        text,
        change_text(reading),
        reading.key,
        reading.point.step,
        reading.level,
        reading.signal.instance if len(known) > 1 else "",
    )


def _size(reading: SignalReading) -> float:
    return -math.inf if reading.point is None else reading.point.value


def _hint(dialect: Dialect, part: _Part) -> str:
    """How the trainer names what would fill the box, if it does."""
    for name in part.metrics.split():
        key = next((alias.pattern for alias in dialect.aliases if alias.metric == name and not alias.is_borrowed), "")
        if key:
            return f"not logged; {dialect.name} would log it as {key}"
    return f"not logged; {dialect.name} has no key for it that is known here"


def paint_flow(view: Flow | None, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The sentence, the picture, every number of each box, and what became of the completions.

    Args:
        height: rows on the screen; more are scrolled.
    """
    if width < LEAST[0] or height < LEAST[1]:
        return too_small(width, height, glyphs, LEAST)
    if view is None:
        note = "This run generates and trains in turn: its stages are on the timing page."
        return [text_row("PIPELINE", width, glyphs, "title"), Row(()), *_wrapped(note, width, glyphs, "text", 3)]
    head = RowBuilder(width, glyphs).add(" PIPELINE", "title").add(f"  {view.note}", "note")
    rows = [head.row(), *paint_verdict(view, width, glyphs)]
    if width >= _PICTURE_FROM:
        rows += [Row(()), *_paint_picture(view, width, glyphs)]
    for box in view.boxes:
        rows += [rule_row(width, glyphs), *_paint_box(box, view, width, glyphs)]
    if view.goodput is not None:
        rows += [rule_row(width, glyphs), *view.goodput.paint(width, glyphs)]
    return rows


def paint_verdict(view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    """The sentence, both idle shares, and what to turn."""
    waits = max(view.trainer_idle or 0.0, view.generation_idle or 0.0) >= WAITS
    rows = _wrapped(view.sentence, width, glyphs, "strong" if waits else "text", 2)
    if view.generation or view.training:
        said = " · ".join(
            f"{side} {word or 'not known'} (idle {units.UNKNOWN if idle is None else units.share(idle)})"
            for side, word, idle in (
                ("generation", view.generation, view.generation_idle),
                ("training", view.training, view.trainer_idle),
            )
        )
        rows += _wrapped(said, width, glyphs, "note", 2)
    if view.advice:
        rows += _wrapped(f"{glyphs.arrow} {view.advice}", width, glyphs, "text", 2)
    return rows


def paint_in_overview(view: Flow, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """Who waits for whom, in one or two rows that lead to the page."""
    target = Target(TargetKind.FLOW)
    waits = max(view.trainer_idle or 0.0, view.generation_idle or 0.0) >= WAITS
    head = RowBuilder(width, glyphs).add(" PIPELINE  ", "title").add(view.sentence, "strong" if waits else "text")
    rows = [head.row(target)]
    if view.advice:
        rows.append(RowBuilder(width, glyphs).add(f"   {glyphs.arrow} {view.advice}", "note").row(target))
    return rows[:height]


def _wrapped(text: str, width: int, glyphs: Glyphs, role: str, lines: int) -> list[Row]:
    return [text_row(line, width, glyphs, role) for line in wrap(text, width - 2, lines)]


def _paint_picture(view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    """The boxes in a row, or in two, an arrow from each to the next; what is not logged has a broken border."""
    in_row = len(view.boxes) if width >= _ONE_ROW_FROM else len(view.boxes) // 2
    rows = []
    for start in range(0, len(view.boxes), in_row):
        is_last = start + in_row >= len(view.boxes)
        rows += _paint_boxes(view.boxes[start : start + in_row], width, glyphs, goes_on=not is_last)
    back = f"{glyphs.rule * 2} new weights {glyphs.rule * 2}{glyphs.arrow} generation"
    rows.append(RowBuilder(width, glyphs).add(" ").right(back, width - 3, "dim").row())
    return rows


def _paint_boxes(boxes: Sequence[Box], width: int, glyphs: Glyphs, *, goes_on: bool) -> list[Row]:
    """Boxes beside each other.

    Args:
        goes_on: an arrow leads from the last one to the next row.
    """
    cells = (width - 2 - _GAP * len(boxes)) // len(boxes)
    told = [_in_picture(box) for box in boxes]
    lines = max(2, *(len(one) for one in told))
    rows = []
    for number in range(-1, lines + 1):
        builder = RowBuilder(width, glyphs).add(" ")
        for at, box in enumerate(boxes):
            if number in (-1, lines):
                edge, role = (glyphs.rule, "rule") if box.facts else (glyphs.baseline, "nodata")
                title = clip(f" {box.name} ", cells - 1) if number < 0 else ""
                builder.add(edge, role).add(title, "title" if box.facts else "nodata")
                builder.add(edge * (cells - 1 - cell_width(title)), role)
            else:
                text, role = told[at][number] if number < len(told[at]) else ("", "text")
                builder.left(f" {text}", cells, role)
            has_arrow = number == 0 and (goes_on or at < len(boxes) - 1)
            builder.add(f" {glyphs.arrow} " if has_arrow else " " * _GAP, "dim")
        rows.append(builder.row())
    return rows


def _in_picture(box: Box) -> list[tuple[str, str]]:
    """The lines of a box, with their roles."""
    if not box.facts:
        return [("not logged", "nodata")]
    lines = []
    if box.idle is not None:
        lines.append((f"busy {units.share(1.0 - box.idle)}", "warn" if box.idle >= WAITS else "value"))
    for fact in box.facts[: _SHOWN + len(lines)]:
        if not (lines and fact.metric in ("trainer_idle_frac", "rollouter_idle_frac")):
            lines.append(
                (
                    f"{fact.text} {_BRIEF.get(fact.metric, fact.title)}".rstrip(),
                    LEVEL_ROLES[fact.level] if fact.level >= Level.WARN else "text",
                )
            )
    return lines


def _paint_box(box: Box, view: Flow, width: int, glyphs: Glyphs) -> list[Row]:
    """All numbers of a box; where they come from, and how old they are."""
    head = RowBuilder(width, glyphs).add(f" {box.name.upper()}", "title")
    if not box.facts:
        return [head.add("  ").add(box.hint, "nodata").row()]
    age = f", {units.duration(view.age_s)} ago" if view.age_s is not None and box.step == view.step else ""
    rows = [head.add(f"  step {units.step(box.step or 0)}{age}", "dim").row()]
    return rows + [_paint_fact(fact, width, glyphs) for fact in box.facts]


_TITLE, _VALUE, _CHANGE = 19, 14, 9


def _paint_fact(fact: Fact, width: int, glyphs: Glyphs) -> Row:
    is_bad = fact.level >= Level.INFO
    builder = RowBuilder(width, glyphs)
    builder.left(f" {glyphs.level(fact.level) if is_bad else ' '} ", 3, LEVEL_ROLES[fact.level])
    builder.left(fact.title, _TITLE, "text").right(fact.text, _VALUE, "value").right(fact.change, _CHANGE, "note")
    instance = f"  {Label.of(fact.instance).display}" if fact.instance else ""
    builder.add(instance, "note").add("  ").add(fact.key.display, "key")
    return builder.row(Target(TargetKind.METRIC, fact.key.raw))


class FlowPage(Page):
    """The pipeline of an asynchronous run, and what becomes of what it generates."""

    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")
    help = (
        "Who waits for whom in a run that generates beside the training: environments and tools, generation, scorer, "
        "queue, trainer, weight sync. A side that is idle for 20 % of the step or more waits; a trainer that waits "
        "while the queue is empty is starved. Each number has its change against the start of the run and the "
        "trainer's key; what is not logged is said, with the key that would tell. {step-back} and {step-on} go to "
        "other steps."
    )

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The pipeline at the step that is shown."""
        return paint_flow(build_flow(moment.snapshot), width, height, moment.glyphs)

"""One metric of a run as a screen shows it: value, change, sparkline, level, and the band of its other statistics.

Owns the reading of a signal at a step. Everything is in the metric's own unit: among the views, only this module
converts raw values by the signal's scale and shift.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise

from rltop import units
from rltop.catalog.dialect import Identity
from rltop.catalog.families import Family, Member, place_of
from rltop.catalog.metrics import CATALOG, Range, guessed, spoken_title
from rltop.model import Direction, Evidence, Label, Level, Metric, Signal, Unit, Verdict
from rltop.model.keys import split_key
from rltop.regex import regex
from rltop.rows.rows import common_start
from rltop.rows.sparkline import SparkData, anchored_window, spark_data
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median_of
from rltop.store.series import Bucket, Mark, Point
from rltop.store.stream import Stream
from rltop.structs import NamedTuple

_CADENCE_ROWS = 64
_MOST_PARTS = 6
_SPARSE = 0.5
_SKIPPED, _BASE_VALUES, _LEAST_VALUES = 3, 30, 10
_NO_LINE = SparkData((), (), anchored_window(0, 0, 1, 2))


class SignalReading(NamedTuple):
    """Everything shown of one signal at one step.

    Attributes:
        point: newest finite value at or before that step, in the metric's unit.
        baseline: what it is compared with; None while unknown.
        level: NO_DATA without a value, else that of the worst alert on it, else OK.
        mark: the newest non-finite value at or before the step.
        mark_count: number of non-finite values over the whole run.
        nonfinite_since: step of the first non-finite value after the newest finite one.
        line: reads the sparkline of the whole run; expensive, so called only when the row is painted.
        stream: the stream that logs it; "" is the main one.
        judged: the value that the verdict is based on, if it is not the one shown.
        own_name: name given by the user, or empty.
        first: its first value in the segment; None if unknown.
        baseline_steps: first and last step behind the baseline.
    """

    signal: Signal
    key: Label
    step: int
    point: Point | None
    baseline: float | None
    threshold: float | None
    level: Level
    verdict: Verdict | None
    mark: Mark | None
    mark_count: int
    nonfinite_since: int | None
    others: int
    line: Callable[[], SparkData]
    stream: str = ""
    declared: Range | None = None
    judged: Point | None = None
    own_name: str = ""
    first: Point | None = None
    baseline_steps: tuple[int, int] | None = None

    @property
    def title(self) -> str:
        return self.own_name or self.signal.metric.title

    @property
    def name(self) -> str:
        """The key as shown in a row; as a formula if the value is derived from the logged one."""
        return row_name(self.signal)

    @property
    def compared(self) -> Evidence | None:
        """What the alert on this key compares with, if not the baseline: a best value, a start value, ln 2."""
        verdict = self.verdict
        found = None if verdict is None or verdict.key not in ("", self.signal.key) else verdict.compared
        return None if found is None or found.value == self.baseline else found

    @property
    def is_nonfinite_now(self) -> bool:
        if self.mark is None:
            return False
        return self.point is None or self.mark.step >= self.point.step

    @property
    def is_older(self) -> bool:
        return self.point is not None and self.point.step < self.step


def key_label(key: str) -> Label:
    """The key as a safe label; in quotation marks if it consists of slashes and blanks only, which nobody would see."""
    label = Label.of(key)
    return label if key.strip(" /") else Label(key, f'"{label.display}"')


def catalogue_title(name: str) -> str:
    metric = CATALOG.get(name)
    return metric.title if metric is not None else Label.of(name).display


def formula(signal: Signal, of: str) -> str:
    """The value as a formula of the logged one, `of`: `1 − of`, `0.01 × of`, or `of` itself."""
    text = of if abs(signal.scale) == 1.0 else f"{abs(signal.scale):g} × {of}"
    if signal.shift:
        return f"{signal.shift:g} {'−' if signal.scale < 0 else '+'} {text}"
    return f"−{text}" if signal.scale < 0 else text


def is_turned(signal: Signal) -> bool:
    """Is the value a different quantity from the logged one, not just in another unit?"""
    return signal.scale < 0 or signal.shift != 0.0


def row_name(signal: Signal) -> str:
    name = key_label(signal.key).display
    return formula(signal, name) if is_turned(signal) else name


def instance_title(signal: Signal) -> str:
    """Title of one of several keys of a metric: its instance, after the metric's title if that is a bare number."""
    is_bare = not signal.instance or signal.instance.isdigit()
    return Label.of(f"{signal.metric.title} {signal.instance}".strip() if is_bare else signal.instance).display


def cadence_of(snapshot: Snapshot) -> int:
    """Steps between records: the median of the newest gaps, at least 1."""
    return snapshot.part.memo.of_rows("cadence", lambda: _cadence(snapshot.stream))


def _cadence(stream: Stream) -> int:
    steps = stream.steps(last=_CADENCE_ROWS)
    gaps = sorted(b - a for a, b in pairwise(steps) if b > a)
    return max(1, gaps[len(gaps) // 2]) if gaps else 1


class Beginning(NamedTuple):
    """First value and baseline of a signal in a segment, in its own unit.

    Attributes:
        first: its first value; "since step" refers to it.
        baseline: what it is compared with; None while there are too few values.
        steps: first and last step behind the baseline.
    """

    first: Point | None
    baseline: float | None
    steps: tuple[int, int] | None


def steps_text(steps: tuple[int, int]) -> str:
    first, last = steps
    return f"step {units.step(first)}" if first == last else f"steps {units.step(first)}–{units.step(last)}"


def evidence_parts(evidence: Iterable[Evidence], key: str | None = None) -> Iterator[tuple[str, str]]:
    """The numbers of an alert by name, with the steps they cover: `0.21 (steps 12–41)`.

    Args:
        key: already shown before them, so not repeated in the names.
    """
    for one in evidence:
        name = "" if one.name == key else one.name.removeprefix(f"{key}, ")
        metric = next(iter(re.findall(r"^\w+", name)), "")
        value = units.measure(one.value, one.unit)
        value = value if one.steps is None else f"{value} ({steps_text(one.steps)})"
        yield Label.of(spoken_title(metric) + name.removeprefix(metric)).display, value


def primary(snapshot: Snapshot, *names: str) -> Signal | None:
    """The main signal of the first of the metrics that the run logs."""
    known = signals_of(snapshot)
    return next((known[name][0] for name in names if known.get(name)), None)


def signals_of(snapshot: Snapshot) -> Mapping[str, Sequence[Signal]]:
    """Metric → the signals that log it, the main one first; empty before the trainer is known."""
    return {} if snapshot.identity is None else snapshot.identity.signals


def extreme(
    snapshot: Snapshot, signal: Signal, buckets: Sequence[Bucket], *, is_top: bool
) -> tuple[float, tuple[int, int]]:
    """The greatest or least value in some buckets, and the first and last step between which it was logged."""
    pick = max if is_top else min

    def end(bucket: Bucket) -> float:
        return pick(signal.read(bucket.low), signal.read(bucket.high))

    found = pick(buckets, key=end)
    if found.first_step != found.last_step:
        inside = snapshot.stream.buckets(signal.key, 1, found.first_step, found.last_step + 1)
        found = pick((one for one in inside if one.count), key=end, default=found)
    return end(found), (found.first_step, found.last_step)


def beginning_of(snapshot: Snapshot, signal: Signal) -> Beginning:
    """The signal at the start of the step's segment, from rows up to the step.

    An active alert's own baseline takes precedence. Otherwise the baseline is computed as in the rules
    (`RuleContext.baselines`): the median of the thirty values after the first three, once there are ten. Until then the
    baseline of a metric logged on less than every second row, such as a validation score, is its first value.
    """
    stream, at = snapshot.stream, snapshot.at_step
    read = partial(_raw_beginning, stream, signal.key, at)
    first, baseline, steps = snapshot.part.memo.of_start(("beginning", signal.key), read) if at is None else read()
    # Acknowledged and muted alerts count too.
    standing = (*snapshot.standing, *snapshot.set_aside)
    quoted = _quoted_baseline(standing, signal)
    baseline = None if baseline is None else signal.read(baseline)
    if quoted is not None and quoted.value != baseline:
        baseline, steps = quoted.value, quoted.steps
    return Beginning(None if first is None else first._replace(value=signal.read(first.value)), baseline, steps)


def _quoted_baseline(verdicts: Sequence[Verdict], signal: Signal) -> Evidence | None:
    quoting = [
        verdict
        for verdict in verdicts
        if (verdict.key == signal.key or (not verdict.key and verdict.metric == signal.metric.name))
        and (verdict.is_active and not verdict.stream and verdict.quoted_baseline is not None)
    ]
    return min(quoting, key=lambda verdict: verdict.urgency).quoted_baseline if quoting else None


def _raw_beginning(stream: Stream, key: str, at: int | None) -> Beginning:
    steps, values = stream.head(key, at)
    finite = [(step, value) for step, value in zip(steps, values, strict=True) if not math.isnan(value)]
    if not finite:
        return Beginning(None, None, None)
    first = Point(*finite[0])
    start = finite[_SKIPPED : _SKIPPED + _BASE_VALUES]
    if len(start) < _LEAST_VALUES:
        if len(finite) >= _SPARSE * len(values):
            return Beginning(first, None, None)
        start = finite[:1]
    return Beginning(first, median_of([value for _, value in start]), (start[0][0], start[-1][0]))


def worst_verdict(snapshot: Snapshot, metric: str, key: str = "") -> Verdict | None:
    """The worst active alert of this stream on a metric or its key; a composite one is on the metrics of its parts."""
    firing = [
        verdict
        for verdict in snapshot.firing
        if not verdict.stream
        and (
            (metric and verdict.metric == metric)
            or (key and verdict.key == key)
            or any(one.metric == metric and one.level >= verdict.level for one in verdict.also)
        )
    ]
    return max(firing, key=lambda verdict: verdict.level, default=None)


def whole_of(signal: Signal) -> float:
    """The logged number that means 100 %: 1 or 100, for example; 0 if the signal is not a share."""
    match signal.metric.unit:
        case Unit.FRACTION:
            return abs(1.0 / signal.scale)
        case Unit.PERCENT:
            return abs(100.0 / signal.scale)
        case _:
            return 0.0


def nonfinite_since(stream: Stream, key: str, at: int | None) -> Mark | None:
    """The first non-finite value after the newest finite one, at or before a step."""
    point = stream.latest(key, at)
    marks = (mark for mark in stream.marks(key) if at is None or mark.step <= at)
    return next((mark for mark in marks if point is None or mark.step > point.step), None)


def read_signal(snapshot: Snapshot, signal: Signal, columns: int = 0, others: int = 0) -> SignalReading:
    """Read one signal at a step, with a sparkline of `columns` columns, two per cell."""
    stream, at = snapshot.stream, snapshot.at_step
    raw = stream.latest(signal.key, at)
    point = None if raw is None else Point(raw.step, signal.read(raw.value))
    marks = [mark for mark in stream.marks(signal.key) if at is None or mark.step <= at]
    verdict = worst_verdict(snapshot, signal.metric.name, signal.key)
    own = verdict is not None and (verdict.key in ("", signal.key))
    beginning = beginning_of(snapshot, signal)
    is_after_start = point is None or (beginning.first is not None and point.step > beginning.first.step)
    baseline = beginning.baseline if is_after_start else None
    threshold = verdict.threshold if verdict is not None and own else None
    judged = None if verdict is None or not own else _judged(snapshot, signal, verdict, point)
    level = Level.NO_DATA if point is None and not marks else Level.OK if verdict is None else verdict.level
    seen = judged or point
    return SignalReading(
        signal=signal,
        key=key_label(signal.key),
        step=snapshot.step or 0,
        point=point,
        baseline=baseline,
        threshold=threshold,
        level=level,
        verdict=verdict,
        mark=marks[-1] if marks else None,
        mark_count=stream.mark_count(signal.key) if at is None else len(marks),
        nonfinite_since=next((m.step for m in marks if raw is None or m.step > raw.step), None),
        others=others,
        line=partial(
            read_spark,
            snapshot,
            signal,
            columns,
            reference=baseline if threshold is None else threshold,
            is_threshold=threshold is not None,
            is_floor=threshold is not None and seen is not None and seen.value < threshold,
            since=None if verdict is None else verdict.since_step,
        ),
        stream=snapshot.role,
        declared=declared_range(snapshot, signal),
        judged=judged,
        own_name=snapshot.run.arrangement.name_of(signal.key),
        first=None if snapshot.part.is_preview else beginning.first,
        baseline_steps=beginning.steps,
    )


def _judged(snapshot: Snapshot, signal: Signal, verdict: Verdict, point: Point | None) -> Point | None:
    """The value that a verdict is based on and its step, if it is not the one shown.

    At a past step it is the value at the step of the verdict's newest event; live it is the value in the evidence, if
    one of the newest records has it. Else None.
    """
    stream, at = snapshot.stream, snapshot.at_step
    if at is not None:
        told = (one.step for one in reversed(snapshot.past_events) if one.rule == verdict.rule)
        step = next(told, None)
        raw = None if step is None else stream.value(signal.key, step)
        found = None if step is None or raw is None else Point(step, signal.read(raw))
    elif verdict.threshold is not None and verdict.evidence:
        found = _newest_of(snapshot, signal, verdict.evidence[0].value)
    else:
        return None
    return None if found is None or (point is not None and found.value == point.value) else found


def _newest_of(snapshot: Snapshot, signal: Signal, value: float) -> Point | None:
    steps, values = snapshot.stream.series(signal.key, _CADENCE_ROWS)
    for step, raw in zip(reversed(steps), reversed(values), strict=True):
        if math.isclose(signal.read(raw), value, rel_tol=1e-6):
            return Point(step, signal.read(raw))
    return None


def values_of(snapshot: Snapshot, signal: Signal, last: int | None = None) -> list[tuple[int, float]]:
    """Steps and finite values in memory up to the snapshot's step, in the metric's unit."""
    at = snapshot.at_step
    steps, values = snapshot.stream.series(signal.key, last if at is None else None)
    pairs = zip(steps, values, strict=True)
    return [(step, signal.read(raw)) for step, raw in pairs if math.isfinite(raw) and (at is None or step <= at)]


_RATE_BEFORE, _RATE_AFTER = 20, 5
_OFF_SCHEDULE, _LEAST_CHANGE = 3.0, 0.05


def rate_jumped(snapshot: Snapshot, step: int) -> bool:
    """Did the learning rate jump up around a step, unlike in a warm-up? Unknown counts as yes."""
    signal = primary(snapshot, "lr")
    history = [] if signal is None else values_of(snapshot, signal)
    at = bisect_left(history, (step,))
    held = [value for _, value in history[max(0, at - _RATE_BEFORE) : at + _RATE_AFTER]]
    sizes = [after - before for before, after in pairwise(held)]
    if len(sizes) < 2:
        return True
    beside = zip(held, sizes, [0.0, *sizes[:-1]], [*sizes[1:], 0.0], strict=False)
    return any(
        size > max(_LEAST_CHANGE * rate, _OFF_SCHEDULE * before, _OFF_SCHEDULE * after)
        for rate, size, before, after in beside
    )


def lately(snapshot: Snapshot, signal: Signal, count: int) -> list[float]:
    found = values_of(snapshot, signal, 8 * count) or values_of(snapshot, signal)
    return [value for _, value in found][-count:]


def declared_range(snapshot: Snapshot, signal: Signal) -> Range | None:
    """The range declared for a signal, in its metric's unit; None without one."""
    declared = snapshot.part.ranges.of(signal.key) if snapshot.part.ranges else None
    if declared is None:
        return None
    return Range(*sorted((signal.read(declared.low), signal.read(declared.high))))


def read_spark(
    snapshot: Snapshot,
    signal: Signal,
    columns: int,
    *,
    reference: float | None = None,
    is_threshold: bool = False,
    is_floor: bool = False,
    since: int | None = None,
) -> SparkData:
    """The sparkline of a signal over the whole run, up to the cursor if it is set."""
    stream, at = snapshot.stream, snapshot.at_step
    first, last = stream.first_step, snapshot.step
    if first is None or last is None or last < first:
        return _NO_LINE
    window = anchored_window(first, last, cadence_of(snapshot), columns)
    stop = min(window.stop, last + 1)
    return spark_data(
        snapshot.part.memo.buckets(signal.key, window.stride, window.start, stop),
        window,
        signal,
        marks=[mark.step for mark in stream.marks(signal.key) if at is None or mark.step <= at],
        restarts=[step for step in stream.seen_restarts if first < step <= last],
        reference=reference,
        is_threshold=is_threshold,
        last=last,
        scale=declared_range(snapshot, signal),
        is_floor=is_floor,
        since=since,
    )


_OF_MACHINE = tuple(
    (regex(f"system[/.](?:{names})"), unit, scale)
    for names, unit, scale in (
        (r"network\.(?:sent|recv)|(?:memory|swap)\.used", Unit.GIGABYTES, 2.0**-30),
        (r"disk\.(?:.+\.)?(?:in|out)|.+MB|__swanlab__\.mem\.proc(?:\.avail)?", Unit.GIGABYTES, 2.0**-10),
        (r".+_megabytes", Unit.GIGABYTES, 1e6 / 2.0**30),
        (r".+GB", Unit.GIGABYTES, 1.0),
        (r".+Watts", Unit.WATTS, 1.0),
        (r".+(?:[pP]ercent|[._]pct|_percentage)|gpu\.(?:process\.)?\d+\.memory", Unit.PERCENT, 1.0),
    )
)
"""Units of system samples not in the catalogue, from W&B (core/internal/monitor), SwanLab and MLflow."""


@lru_cache(maxsize=2048)
def generic_signal(key: str) -> Signal:
    """A signal for a key not in the catalogue: the value as logged; system samples in their unit."""
    path = split_key(key)
    is_whole = path.name == f'"{key}"' or "./" in path.name or path.name.endswith(")")
    title = path.name if is_whole else path.name.rsplit("/", 1)[-1]
    place = None if is_whole else place_of(key)
    if place is not None and place[0] == key.rpartition("/")[0]:
        # A bare `mean` needs the name of its quantity.
        title = "/".join(key.split("/")[-2:])
    found = (known for known in _OF_MACHINE if known[0].fullmatch(key)) if key.startswith("system") else iter(())
    _, unit, scale = next(found, (None, Unit.NONE, 1.0))
    return Signal(Metric("", title, path.section, unit, Direction.NONE), key, scale)


@lru_cache(maxsize=16)
def distinct_names(keys: tuple[str, ...]) -> Mapping[str, str]:
    """Short names for keys not in the catalogue: the shortest ends that are distinct."""
    names = {key: generic_signal(key).metric.title for key in keys}
    for _ in range(_MOST_PARTS):
        seen: dict[str, list[str]] = {}
        for key, name in names.items():
            seen.setdefault(name, []).append(key)
        same = [key for found in seen.values() if len(found) > 1 for key in found if names[key] != key]
        if not same:
            break
        for key in same:
            parts = key.split("/")
            names[key] = "/".join(parts[-(names[key].count("/") + 2) :])
    return names


def narrowest_signals(snapshot: Snapshot) -> Mapping[str, Signal]:
    """Key → its signal; of several metrics the last, which is the most specific one."""
    return {signal.key: signal for signals in signals_of(snapshot).values() for signal in signals}


def signal_of(snapshot: Snapshot, key: str) -> Signal:
    identity = snapshot.identity
    if identity is None:
        return generic_signal(key)
    return snapshot.part.memo.signals(identity).get(key) or guess_of(identity, key) or generic_signal(key)


def guess_of(identity: Identity, key: str) -> Signal | None:
    found = next((one for guesses in identity.guesses.values() for one in guesses if one.key == key), None)
    return None if found is None else guessed(found)


_BOUNDARIES = "/_@"


class Band(NamedTuple):
    """The band around a signal: its extremes or its spread.

    Attributes:
        spread: standard deviation, used for an extreme that is not logged.
        label: what the edges are, in the trainer's words.
    """

    main: Signal
    low: Signal | None
    high: Signal | None
    spread: Signal | None
    label: str

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(signal.key for signal in (self.low, self.high, self.spread) if signal is not None)


def band_around(snapshot: Snapshot, main: Signal, family: Family) -> Band | None:
    """The band around `main`; None unless it is the family's main key and an edge or spread is logged."""
    if family.main.key != main.key:
        return None
    low, high = _edge(snapshot, main, family.low), _edge(snapshot, main, family.high)
    spread = None if low and high else _edge(snapshot, main, family.spread)
    if not (low or high or spread):
        return None
    words = [member.word for member in (family.low, family.high) if member]
    if spread and family.spread:
        words.append(f"± {family.spread.word}")
    return Band(main, low, high, spread, " … ".join(words))


def _edge(snapshot: Snapshot, main: Signal, member: Member | None) -> Signal | None:
    if member is None:
        return None
    own = signal_of(snapshot, member.key)
    if own.metric.name and own.metric.unit is main.metric.unit:
        return own
    return Signal(main.metric, member.key, main.scale, main.shift)


def edges_at(snapshot: Snapshot, band: Band) -> tuple[float | None, float | None]:
    """Low and high at the step of the newest main value up to the snapshot's step, in its unit; None if not logged."""
    middle = snapshot.stream.latest(band.main.key, snapshot.at_step)
    if middle is None:
        return None, None
    value = band.main.read(middle.value)

    def read(signal: Signal | None) -> float | None:
        raw = None if signal is None else snapshot.stream.value(signal.key, middle.step)
        return None if raw is None or signal is None else signal.read(raw)

    low, high = read(band.low), read(band.high)
    if low is not None and high is not None:
        return min(low, high), max(low, high)
    raw = None if band.spread is None else snapshot.stream.value(band.spread.key, middle.step)
    if raw is not None:
        reach = abs(band.main.scale * raw)
        low = low if low is not None else _bounded(value - reach, band.main)
        high = high if high is not None else _bounded(value + reach, band.main)
    return low, high


def _bounded(value: float, signal: Signal) -> float:
    low, high = signal.metric.low, signal.metric.high
    return min(max(value, -math.inf if low is None else low), math.inf if high is None else high)


def band_text(snapshot: Snapshot, band: Band) -> str:
    """The band at a step in a few cells: `12…2,048`, `max 2,048` for a single edge, `±0.31` for a spread."""
    unit = band.main.metric.unit
    if band.low is None and band.high is None and band.spread is not None:
        middle = snapshot.stream.latest(band.main.key, snapshot.at_step)
        raw = None if middle is None else snapshot.stream.value(band.spread.key, middle.step)
        return "" if raw is None else f"±{units.quantity(abs(band.main.scale * raw), unit)[0]}"
    low, high = edges_at(snapshot, band)
    if low is None and high is None:
        return ""
    return _span_text(low, high, unit)


def text_around(snapshot: Snapshot, main: Signal) -> str:
    """The band around a signal in a few cells; empty without one."""
    family = snapshot.part.memo.families().get(main.key)
    band = None if family is None else band_around(snapshot, main, family)
    return "" if band is None else band_text(snapshot, band)


def _span_text(low: float | None, high: float | None, unit: Unit) -> str:
    first = ("", "") if low is None else units.quantity(low, unit)
    last = ("", "") if high is None else units.quantity(high, unit)
    if first == last:
        return ""
    if first[1] and last[1] and first[1] != last[1]:
        return f"{' '.join(first)}…{' '.join(last)}"
    if low is None or high is None:
        return f"min {first[0]}" if high is None else f"max {last[0]}"
    return f"{first[0]}…{last[0]}"


def edge_points(
    band: Band, buckets: Mapping[str, Sequence[Bucket]]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    lower = _extreme_points(band.low, buckets, is_high=False)
    upper = _extreme_points(band.high, buckets, is_high=True)
    if band.spread is not None:
        pairs = zip(buckets[band.main.key], buckets[band.spread.key], strict=False)
        wide = [
            (_middle(one), band.main.read(one.mean), abs(band.main.scale * other.mean))
            for one, other in pairs
            if one.count and other.count
        ]
        if band.low is None:
            lower = [(step, _bounded(value - reach, band.main)) for step, value, reach in wide]
        if band.high is None:
            upper = [(step, _bounded(value + reach, band.main)) for step, value, reach in wide]
    return _finite(lower), _finite(upper)


def _extreme_points(
    signal: Signal | None, buckets: Mapping[str, Sequence[Bucket]], *, is_high: bool
) -> list[tuple[float, float]]:
    if signal is None:
        return []
    choose = max if is_high else min
    found = [bucket for bucket in buckets[signal.key] if bucket.count]
    return [(_middle(bucket), choose(signal.read(bucket.low), signal.read(bucket.high))) for bucket in found]


def _middle(bucket: Bucket) -> float:
    return (bucket.first_step + bucket.last_step) / 2


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(step, value) for step, value in points if math.isfinite(value)]


def braces(keys: Sequence[str]) -> str:
    """Several keys as one text in the brace notation of shells: `score/{mean,max,min}`."""
    if len(keys) < 2:
        return "".join(keys)
    start = common_start(keys)
    while start and start[-1] not in _BOUNDARIES and start not in keys:
        start = start[:-1]
    rests = [key[len(start) :] for key in keys]
    end = common_start([rest[::-1] for rest in rests])[::-1]
    while end and end[0] not in _BOUNDARIES:
        end = end[1:]
    return f"{start}{{{','.join(rest[: len(rest) - len(end)] for rest in rests)}}}{end}"


def moving_first(part: Snapshot, names: Sequence[str], signals: Sequence[Signal]) -> Sequence[Signal]:
    """The validation scores, beginning with another one if the first has been the same throughout and that has not."""
    if _moves(part, signals[0]):
        return signals
    from rltop.rules.evaluations import QUANTITIES, WORD  # noqa: PLC0415 - few scores never move

    beside = [one for name in (*names, "val_aux") for one in signals_of(part).get(name, ())]
    moving = next((one for one in beside if WORD.split(one.key)[-1] in QUANTITIES and _moves(part, one)), None)
    return signals if moving is None else (moving, *(one for one in signals if one is not moving))


def _moves(part: Snapshot, signal: Signal) -> bool:
    now, first = part.stream.latest(signal.key, part.at_step), part.stream.head(signal.key, part.at_step).values
    logged = {value for value in first if value == value} | ({now.value} if now is not None else set())
    return len(logged) > 1

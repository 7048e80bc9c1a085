"""Bytes of one file → a stream and an identity; closed rows are passed to a sink.

One pipeline reads from offset 0 to the end; others show the last rows until it has caught up. Results do not depend on
how the bytes are split. The decoding time of bytes is only known afterwards, so each slice's size is derived from the
previous one. Rows that memory has downsampled are reread from the file in a thread, and verified: a rewritten file no
longer has them.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Protocol

from rltop.catalog.dialect import Identity
from rltop.clock import Clock
from rltop.files import Worker, open_regular
from rltop.formats.decoder import Decoder, DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import AutoDecoder
from rltop.model import GAP, FilePosition, Record, Schema, TimedSpan
from rltop.model.keys import is_evaluation_key
from rltop.regex import regex
from rltop.sources.events import Chunk, Reset, ResetReason, TailState
from rltop.sources.feed import Feed
from rltop.store.stream import Stream
from rltop.structs import NamedTuple
from rltop.trainers.identify import identify, with_keys

if TYPE_CHECKING:
    from rltop.stats.ranks import SpanBook

SETTLE_ROWS = 20
"""Rows after which the dialect is fixed: the first row alone lacks keys that are logged occasionally."""
_SETTLE_CLOSED = 64
FINAL_KEYS = ("train_runtime",)
"""Keys that occur only in the summary at the end of a run (transformers and everything built on it)."""


TAKE_BYTES = 256 * 1024
"""Bytes taken from a feed at once: rows of three bytes take 170 times as much memory until they are stored."""
MOST_BYTES = 128 * 1024
"""Bytes decoded between two checks of the clock, if they take no longer than `SLICE_S`."""
FEWEST_BYTES = 1024
SLICE_S = 0.003
"""Bytes that take longer are decoded in smaller slices. With half of both, five rows of 300 keys, a history takes a
twentieth longer, because of processor cache misses.
"""


Budget = Callable[[], bool]
"""Whether a slice is over; called after each piece."""
ENDLESS: Budget = bool
"""No intermediate results are needed: slices have the maximum size."""


class Sink(Protocol):
    """Consumer of closed rows: the rules, or the comparison of ranks."""

    def take(self, stream: Stream, identity: Identity, arrived_s: float | None) -> None:
        """Consume `stream.closed`."""

    sees_open_row: bool
    """Whether queries of the sink include the open row."""

    def fork(self, stream: Stream) -> Sink: ...


class Pipeline:
    """Decoder, stream and identity of one file.

    Args:
        sink: receives closed rows; None if they are only displayed.
        add_settings: adds information from the run's settings; called once, for asynchronous runs and those that count
            groups.

    Attributes:
        sink: as given, or set before the first bytes.
        spans: measured spans of the newest steps, if the file has any.
        span_sink: compares ranks by their spans, if set.
        last_spans: spans still pending at the end, see `at_end`.
    """

    def __init__(
        self,
        decoder: Decoder,
        stream: Stream,
        sink: Sink | None = None,
        group_size: int | None = None,
        user_meanings: Mapping[str, str] | None = None,
        add_settings: Callable[[Identity], Identity] | None = None,
    ) -> None:
        self.decoder = decoder
        self.stream = stream
        self.sink = sink
        self.identity: Identity | None = None
        self.offset = 0
        self.generation = 0
        self.arrived_s: float | None = None
        self.spans: SpanBook | None = None
        self.span_sink: Callable[[Sequence[TimedSpan]], None] | None = None
        self.last_spans: list[TimedSpan] = []
        self._margins, self._derived = Margins(), Derived()
        self._group_size = group_size
        self._user_meanings = user_meanings
        self._add_settings = add_settings
        self._last: Record | None = None
        self._known_keys = 0
        self._provisional: tuple[int, Identity | None] = (-1, None)
        self._waiting: deque[Chunk | Reset] = deque()
        self._cursor = 0
        self._slice_bytes = MOST_BYTES // 16

    # -- from a feed, a slice at a time ---------------------------------------------------------------------------

    def advance(self, feed: Feed, clock: Clock, is_spent: Budget) -> bool:
        """Decode data of a feed until the budget is spent or nothing is pending; returns whether anything was decoded.

        A decoder with undecoded data continues with these before it gets more.
        """
        has_moved = False
        while True:
            if self.decoder.has_more:
                self.decode_more()
            else:
                self._waiting.extend(() if self._waiting else feed.take(TAKE_BYTES))
                if not self._waiting:
                    return has_moved
                self._take_slice(self._waiting[0], None if is_spent is ENDLESS else clock)
            has_moved = True
            if is_spent():
                return True

    def _take_slice(self, event: Chunk | Reset, clock: Clock | None) -> None:
        if isinstance(event, Reset):
            self.take_reset(event)
            self._waiting.popleft()
            return
        if event.is_head:
            self.decoder.take_head(event.data)
            self._waiting.popleft()
            return
        began_s = 0.0 if clock is None else clock.cpu_s()
        size = len(event.data) if clock is None else self._slice_bytes
        stop = min(self._cursor + size, len(event.data))
        self.take_bytes(event.data[self._cursor : stop], event.offset + self._cursor, event.generation)
        if clock is not None:
            self._fit_slice(stop - self._cursor, clock.cpu_s() - began_s)
        self._cursor = stop
        if stop == len(event.data):
            self._waiting.popleft()
            self._cursor = 0

    def _fit_slice(self, size: int, took_s: float) -> None:
        """Adapt the size of the next slice to the time limit, growing by a limited factor.

        Measured in processor time: under contention, smaller pieces would not finish sooner.
        """
        fitting = int(size * min(4.0, SLICE_S / took_s)) if took_s > 0.0 else MOST_BYTES
        self._slice_bytes = max(FEWEST_BYTES, min(MOST_BYTES, fitting))

    def has_read_all_of(self, feed: Feed) -> bool:
        status = feed.status
        return status.state is TailState.AT_END and self.offset >= status.offset and not self.has_waiting

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting) or self.decoder.has_more

    # -- bytes → rows ---------------------------------------------------------------------------------------------

    def take_reset(self, reset: Reset) -> None:
        """Another file or generation follows; the decoder's remaining data are stored first."""
        if reset.reason is not ResetReason.PART:
            self._add(self.decoder.finish())
        self.decoder.reset(is_restart=reset.is_restart)
        self.offset, self.generation, self._last = 0, reset.generation, None
        if reset.is_restart and not self.decoder.is_rewritten:
            self.stream.expect_restart()
        elif reset.reason is ResetReason.ROTATED:
            self.stream.expect_new_file()

    def take_bytes(self, data: bytes, offset: int, generation: int) -> None:
        """Decode and store a piece of the file."""
        self._add(self.decoder.feed(data, offset, generation))
        self.offset = offset + len(data)
        self._take_spans()

    def decode_more(self) -> None:
        self._add(self.decoder.decode_more())
        self._take_spans()

    def flush(self) -> None:
        """Show the incomplete newest row, after a pause in the input."""
        self._add(self.decoder.flush())

    def finish(self) -> None:
        """The input has ended: fix the identity, close the open step, pass on the rest."""
        self._end_with(self.decoder.finish())

    @property
    def differs_at_end(self) -> bool:
        """Whether the end of the input would do more than close an open row that is visible anyway."""
        is_seen = (self.sink is None or self.sink.sees_open_row) and (
            self.identity is None or len(self.stream.keys) == self._known_keys
        )
        return self.decoder.holds_back or not is_seen

    def at_end(self) -> Pipeline | None:
        """A copy as if the input had ended; None if that would only close an open row that is visible anyway."""
        if not self.differs_at_end:
            return None
        decoder, sink, records = self.decoder, self.sink, list[Record]()
        if decoder.holds_back:
            try:
                decoder = deepcopy(decoder)
            except RecursionError:  # it holds a row with a value that is nested hundreds of levels deep
                return None
            records = decoder.finish()
        fork = copy(self)
        fork.decoder, fork.stream = decoder, self.stream.fork({record.step for record in records})
        fork.sink = None if sink is None else sink.fork(fork.stream)
        fork.spans, fork.last_spans = deepcopy(self.spans), []
        fork.span_sink = fork.last_spans.extend
        fork._margins, fork._derived, fork._waiting = deepcopy(self._margins), deepcopy(self._derived), deque()
        fork._end_with(records)
        return fork

    def close(self) -> None:
        """Drop what only further data need."""
        if isinstance(self.decoder, AutoDecoder):
            self.decoder.close()
        self._margins, self._derived, self._last, self._add_settings = Margins(), Derived(), None, None

    def _end_with(self, records: Sequence[Record]) -> None:
        self._add(records)
        self._take_spans()
        self.stream.finish()
        if self.stream.keys:
            self._judge_closed_rows(is_end=True)

    def _take_spans(self) -> None:
        spans = self.decoder.take_spans()
        if not spans:
            return
        if self.spans is None:
            from rltop.stats.ranks import SpanBook  # noqa: PLC0415

            self.spans = SpanBook()
        self.spans.add(spans)
        if self.span_sink is not None:
            self.span_sink(spans)

    def _add(self, records: Iterable[Record]) -> None:
        """Store rows, and have them judged as if each had arrived alone.

        Rows of one schema with rising steps, within one block of the store, do not affect each other: they are all
        stored before the first is judged, which is faster because of processor caches.
        """
        stream, last = self.stream, self._last
        for record in records:
            follows = (
                last is not None
                and record.schema is last.schema
                and record.step > last.step
                and stream.segments[-1].has_room
            )
            if not follows and stream.closed:
                self._judge_closed_rows()
            stream.append(self._derived.added(self._margins.added(record)))
            if stream.closed and not (follows and self.identity is not None):
                self._judge_closed_rows()
            self._last = last = record
        if stream.closed:
            self._judge_closed_rows()

    def _judge_closed_rows(self, *, is_end: bool = False) -> None:
        stream = self.stream
        if self.identity is None:
            if not is_end and stream.rows <= SETTLE_ROWS and len(stream.closed) < _SETTLE_CLOSED:
                return
            self.identity = self._informed(self._identify())
            self._known_keys = len(stream.keys)
        if len(stream.keys) != self._known_keys:
            new = stream.keys[self._known_keys :]
            self._known_keys = len(stream.keys)
            self.identity = self._informed(with_keys(self.identity, new, self._samples(new)))
        if self.sink is not None:
            self.sink.take(stream, self.identity, self.arrived_s)
        stream.closed.clear()

    def _identify(self) -> Identity:
        stream = self.stream
        found = identify(stream.keys, self._samples(stream.keys), self._user_meanings)
        size = self._group_size
        if size is None and found.group_size is None:
            size = self.decoder.group_size
        return found if size is None else found._replace(group_size=size)

    def _informed(self, found: Identity) -> Identity:
        counts_groups = found.dialect.group_counts and "zero_std_count" in found.signals
        if self._add_settings is None or not (found.traits.is_async or counts_groups):
            return found
        add_settings, self._add_settings = self._add_settings, None
        return add_settings(found)

    def _samples(self, keys: Sequence[str]) -> dict[str, Sequence[float]]:
        """The first values of each key, or the newest of one that appeared after the first rows."""
        found: dict[str, Sequence[float]] = {}
        for key in keys:
            first, newest = self.stream.head(key).values[:SETTLE_ROWS], self.stream.latest(key)
            is_late = newest is not None and not any(map(math.isfinite, first))
            found[key] = [newest.value] if newest is not None and is_late else first
        return found

    # -- provisional results for the screen ------------------------------------------------------------------------

    def current_identity(self) -> Identity | None:
        """The fixed identity, or the best guess from the rows so far."""
        if self.identity is not None:
            return self.identity
        if not self.stream.keys:
            return None
        if self._provisional[0] != len(self.stream.keys):
            self._provisional = (len(self.stream.keys), self._identify())
        return self._provisional[1]

    @property
    def is_finished(self) -> bool:
        """Whether the newest row shows that the run is over: a final summary, or the last step of a known total."""
        stream = self.stream
        last = stream.last_step
        if last is None:
            return False
        if self.decoder.is_finished:
            return True
        if any(stream.value(key, last) is not None for key in FINAL_KEYS):
            return True
        if stream.total_steps is not None and last >= stream.total_steps:
            return True
        identity = self.current_identity()
        progress = None if identity is None else identity.primary("progress")
        done = None if progress is None else stream.value(progress.key, last)
        return progress is not None and done is not None and progress.read(done) >= 1.0


_SIDE = regex(r"(?<![a-z])(chosen|rejected|reject)(?![a-z])")
_SCHEMAS_KEPT = 1024


def side_of(key: str) -> tuple[str, bool] | None:
    """For a reward of one side of a preference pair: the key of the chosen side, and whether this is it; else None."""
    if not ("chosen" in key or "reject" in key) or not ("reward" in key or "score" in key) or is_evaluation_key(key):
        return None
    word = _SIDE.search(key)
    if word is None:
        return None
    return f"{key[: word.start()]}chosen{key[word.end() :]}", word[1] == "chosen"


class _MarginPlan:
    """Columns of a chosen/rejected pair in rows of one schema, and the schema extended by their margin."""

    __slots__ = ("chosen", "rejected", "schema")

    def __init__(self, chosen: str, rejected: str, schema: Schema) -> None:
        self.chosen = chosen, schema.index.get(chosen)
        self.rejected = rejected, schema.index.get(rejected)
        self.schema = Schema((*schema.keys, f"{chosen} − {rejected.rpartition('/')[2]}"))


class Margins:
    """Appends the margin (chosen − rejected) to rows of runs that never log one.

    Applied between decoder and store, for files of any kind.
    """

    def __init__(self) -> None:
        self._plans: dict[Schema, _MarginPlan | None] = {}
        self._plain: Schema | None = None
        self._has_margin = False
        self._halves: dict[str, dict[bool, str]] = {}
        self._newest: dict[str, tuple[int, float]] = {}

    def added(self, record: Record) -> Record:
        """The row with its margin; unchanged if it has none, or logs one."""
        if self._has_margin or record.schema is self._plain:
            return record
        plan = self._plan(record.schema)
        return record if plan is None else self._widened(record, plan)

    def _plan(self, schema: Schema) -> _MarginPlan | None:
        if schema not in self._plans:
            if len(self._plans) >= _SCHEMAS_KEPT:
                self._plans.clear()
            planned = self._planned(schema)
            self._plans[schema] = planned
        plan = self._plans[schema]
        if plan is None:
            self._plain = schema
        return plan

    def _planned(self, schema: Schema) -> _MarginPlan | None:
        """The first pair with a part in rows of this schema; None without a pair, or if a margin is logged."""
        self._has_margin = any("margin" in key and not is_evaluation_key(key) for key in schema.keys)
        if self._has_margin:
            return None
        sides = [(key, side) for key in schema.keys if (side := side_of(key)) is not None]
        for key, (name, is_chosen) in sides:
            halves = self._halves.setdefault(name, {})
            if is_chosen not in halves:
                halves[is_chosen] = key
                # Schemas with only the other half, left unchanged so far, are part of a pair from now on.
                self._plans.clear()
                self._plain = None
        both = next((halves for _, (name, _) in sides if len(halves := self._halves[name]) == 2), None)
        return None if both is None else _MarginPlan(both[True], both[False], schema)

    def _widened(self, record: Record, plan: _MarginPlan) -> Record:
        margin = self._half(record, *plan.chosen) - self._half(record, *plan.rejected)
        if not math.isfinite(margin):
            return record
        return record._replace(schema=plan.schema, values=record.values + array("d", (margin,)))

    def _half(self, record: Record, key: str, cell: int | None) -> float:
        """The value of one side at the record's step: from this row, or from an earlier part of it."""
        if cell is not None:
            value = record.values[cell]
            self._newest[key] = record.step, value
            return value
        step, value = self._newest.get(key, (record.step, GAP))
        return value if step == record.step else GAP


_BY_KIND = regex(r"(.*(?:zero_std/count|dynamic_filter/drop))_.+")
"""Counts of groups by common property (slime): the name of their sum lacks the suffix."""
_VERSION = regex(r"(.*)sample/model_version/(?:mean|min)")
"""The trainer's step after which the weights used for sampling were saved (Trinity-RFT)."""
_SPEED = "train_speed(iter/s)"
"""Steps per second (ms-swift); newer releases log seconds per step."""


class _Derivation(NamedTuple):
    """A derived key: the sum of `parts`, the steps since `version`, or the reciprocal of `rate`."""

    key: str
    parts: Sequence[str] = ()
    version: str = ""
    rate: str = ""

    def of(self, record: Record, parts: Mapping[str, float]) -> float:
        if self.parts:
            return sum(value for key, value in parts.items() if key.startswith(f"{self.key}_"))
        value = record.values[record.schema.index[self.version or self.rate]]
        return record.step - 1 - value if self.version else 1.0 / value if value > 0.0 else GAP


class Derived:
    """Appends sums of counts by kind, the age of samples in steps, and the step time to rows that allow it."""

    def __init__(self) -> None:
        self._plans: dict[Schema, tuple[Sequence[_Derivation], Schema] | None] = {}
        self._plain: Schema | None = None
        self._step, self._parts = 0, dict[str, float]()

    def added(self, record: Record) -> Record:
        schema = record.schema
        if schema is self._plain:
            return record
        if schema not in self._plans:
            if len(self._plans) >= _SCHEMAS_KEPT:
                self._plans.clear()
            self._plans[schema] = _plan_of(schema)
        plan = self._plans[schema]
        if plan is None:
            self._plain = schema
            return record
        if record.step != self._step:
            self._step, self._parts = record.step, {}  # a row may arrive in pieces
        self._parts |= {key: record.values[schema.index[key]] for one in plan[0] for key in one.parts}
        values = [one.of(record, self._parts) for one in plan[0]]
        return record._replace(schema=plan[1], values=record.values + array("d", values))


def _plan_of(schema: Schema) -> tuple[Sequence[_Derivation], Schema] | None:
    sums: dict[str, list[str]] = {}
    added: list[_Derivation] = []
    for key in schema.keys:
        if (kind := _BY_KIND.fullmatch(key)) and kind[1] not in schema.index:
            sums.setdefault(kind[1], []).append(key)
        elif _VERSION.fullmatch(key):
            added.append(_Derivation(f"step − 1 − {key}", version=key))
        elif key == _SPEED:
            added.append(_Derivation(f"1 ÷ {key}", rate=key))
    added += [_Derivation(key, parts) for key, parts in sums.items()]
    return (added, Schema((*schema.keys, *(one.key for one in added)))) if added else None


MAX_BYTES = 32 * 1024 * 1024
_READ_BYTES = 256 * 1024

Row = Mapping[str, float]


class Recaller:
    """Reads single rows of one file; one request at a time, the newest replaces a pending one.

    Args:
        on_done: called in the reader thread after every request.
    """

    def __init__(self, path: str, options: DecoderOptions, on_done: Callable[[], None]) -> None:
        self._path = path
        self._options = options
        self._on_done = on_done
        self._wanted: tuple[int, FilePosition] | None = None
        self._done: list[tuple[int, Row | None]] = []
        self._missing: set[int] = set()
        self._is_busy = False
        self._lock = threading.Lock()

    def ask(self, step: int, position: FilePosition) -> None:
        """Request the row of `step`, unless it is known to be gone.

        Args:
            position: of the row, or of one up to a few hundred rows earlier.
        """
        with self._lock:
            if step in self._missing:
                return
            self._wanted = (step, position)
            if self._is_busy:
                return
            self._is_busy = True
        Worker("recall").start(self._work)

    def take(self) -> list[tuple[int, Row]]:
        with self._lock:
            done, self._done = self._done, []
            self._missing.update(step for step, row in done if row is None)
        return [(step, row) for step, row in done if row is not None]

    @property
    def is_idle(self) -> bool:
        return not self._is_busy and not self._done

    def _work(self) -> None:
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._is_busy = False
                    return
            row = read_row(self._path, *wanted, self._options)
            with self._lock:
                self._done.append((wanted[0], row))
            self._on_done()


def read_row(path: str, step: int, position: FilePosition, options: DecoderOptions) -> Row | None:
    """All values of the consecutive rows of `step` at `position` or after it; None if there are none.

    The index is sparse: `position` may be that of an earlier step, up to a few hundred rows before.

    Args:
        position: where to start; at most 32 MiB are read.

    Returns:
        Key → value; also None if the file cannot be read.
    """
    decoder = JsonlDecoder(DecoderOptions(options.step_key, may_count_rows=False))
    row: dict[str, float] = {}
    try:
        with open_regular(path) as file:
            file.seek(position.offset)
            for start in range(position.offset, position.offset + MAX_BYTES, _READ_BYTES):
                data = file.read(_READ_BYTES)
                records = decoder.feed(data, start, position.generation) if data else decoder.finish()
                for record in records:
                    if record.step == step:
                        row.update((k, v) for k, v in zip(record.schema.keys, record.values, strict=True) if v == v)
                    elif row or record.step > step:
                        return row or None
                if not data:
                    break
    except OSError:
        return None
    return row or None

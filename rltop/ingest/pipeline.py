"""Bytes of one file → a stream and its verdicts.

One pipeline reads from offset 0 to the end and judges; a second one, which never
judges, shows the last rows until the first has caught up. Whatever the bytes'
pieces, the same rows are judged in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltop.decode.decoder import Decoder
from rltop.health.engine import Engine, EngineOptions
from rltop.health.liveness import Liveness
from rltop.ingest.observe import Observer
from rltop.metrics.dialect import Identity
from rltop.metrics.identify import identify, with_keys
from rltop.model import Observation, Record, Verdict
from rltop.sources.events import Reset
from rltop.store.stream import ClosedRow, Stream

SETTLE_ROWS = 20
"""Rows after which the dialect is settled (health-rules.md §1: not on the first row alone)."""
_SETTLE_CLOSED = 64
FINAL_KEYS = ("train_runtime",)
"""Keys that only the summary at the end of a run has (transformers and everything built on it)."""
SLICE_BYTES = 64 * 1024
"""Bytes decoded between two looks at the clock: about 1 ms."""


class Pipeline:
    """Decoder, stream and judge of one file."""

    def __init__(self, decoder: Decoder, stream: Stream, health: EngineOptions | None = None) -> None:
        self.decoder = decoder
        self.stream = stream
        self.identity: Identity | None = None
        self.engine: Engine | None = None
        self.offset = 0
        self.generation = 0
        self.records = 0
        self.arrived_s: float | None = None
        self.liveness = Liveness()
        self._health = health or EngineOptions()
        self._observer: Observer | None = None
        self._known_keys = 0
        self._segment = 0
        self._provisional: tuple[int, Identity | None] = (-1, None)

    def take_reset(self, reset: Reset) -> None:
        """Another file follows, or another life of this one."""
        self.decoder.reset()
        self.offset, self.generation = 0, reset.generation
        if reset.is_restart:
            self.stream.expect_restart()

    def take_bytes(self, data: bytes, offset: int, generation: int) -> None:
        """Decode, store and judge a piece of the file."""
        for record in self.decoder.feed(data, offset, generation):
            self._add(record)
        self.offset = offset + len(data)

    def finish(self) -> None:
        """Nothing more will come: settle, close the open step, judge the rest."""
        for record in self.decoder.finish():
            self._add(record)
        self.stream.finish()
        if self.stream.rows or self.stream.closed:
            self._judge(is_end=True)
        if self.engine is not None:
            self.engine.finish()

    def _add(self, record: Record) -> None:
        self.stream.append(record)
        if self.stream.closed:
            self._judge()

    def _judge(self, *, is_end: bool = False) -> None:
        stream = self.stream
        if self.engine is None:
            if not is_end and stream.rows <= SETTLE_ROWS and len(stream.closed) < _SETTLE_CLOSED:
                return
            self._settle()
        if len(stream.keys) != self._known_keys:
            self._learn_keys()
        engine = self.engine
        assert engine is not None
        while stream.closed:
            observation = self._observe(stream.closed.popleft())
            if observation is None:
                continue
            if observation.segment != self._segment:
                self._segment = observation.segment
                self.liveness.restart()
            self.liveness.observe(observation, self.arrived_s)
            engine.observe(observation)

    def _observe(self, row: ClosedRow) -> Observation | None:
        raw = self.stream.raw_row(row)
        if raw is None:
            return None
        if raw.is_training and row.columns is None:
            self.records += 1
        assert self._observer is not None
        return self._observer.observation(row, raw, self.records)

    def _settle(self) -> None:
        identity = self._identify()
        self.identity = identity
        self.engine = Engine(identity, self._health)
        self._observer = Observer(self.stream, identity)
        self._known_keys = len(self.stream.keys)

    def _learn_keys(self) -> None:
        assert self.identity is not None and self._observer is not None and self.engine is not None
        self._known_keys = len(self.stream.keys)
        self.identity = with_keys(self.identity, self.stream.keys)
        self._observer.use(self.identity)
        self.engine.identified(self.identity)

    def _identify(self) -> Identity:
        stream = self.stream
        samples = {key: stream.head(key).values[:SETTLE_ROWS] for key in stream.keys}
        found = identify(stream.keys, samples, self.decoder.envelope or "flat")
        size = self._health.group_size
        return found if size is None else replace(found, group_size=size)

    @property
    def is_finished(self) -> bool:
        """Does the newest row say that the run is over: a final summary, or the last step of a known total?"""
        stream = self.stream
        last = stream.last_step
        if last is None:
            return False
        if any(stream.value(key, last) is not None for key in FINAL_KEYS):
            return True
        if stream.total_steps is not None and last >= stream.total_steps:
            return True
        identity = self.current_identity()
        progress = None if identity is None else identity.primary("progress")
        done = None if progress is None else stream.value(progress.key, last)
        return progress is not None and done is not None and progress.read(done) >= 1.0

    # -- what a screen may show before all is judged ---------------------------------------------------------------

    def current_identity(self) -> Identity | None:
        """The settled identity, or the best guess from the rows so far."""
        if self.identity is not None:
            return self.identity
        if not self.stream.keys:
            return None
        if self._provisional[0] != len(self.stream.keys):
            self._provisional = (len(self.stream.keys), self._identify())
        return self._provisional[1]

    def peek(self) -> Sequence[Verdict]:
        """Verdicts as if the open step were closed; the judge's state is not touched."""
        open_row = self.stream.open_row()
        if self.engine is None:
            return self._peek_unsettled()
        if open_row is None or self._observer is None:
            return self.engine.verdicts
        raw = self.stream.raw_row(open_row)
        if raw is None:
            return self.engine.verdicts
        observation = self._observer.observation(open_row, raw, self.records + raw.is_training)
        return self.engine.peek(observation)

    def _peek_unsettled(self) -> Sequence[Verdict]:
        """Judge the few rows that there are with a judge that is thrown away."""
        identity = self.current_identity()
        if identity is None:
            return ()
        engine, observer, records = Engine(identity, self._health), Observer(self.stream, identity), 0
        rows = [*self.stream.closed]
        open_row = self.stream.open_row()
        if open_row is not None:
            rows.append(open_row)
        for row in rows:
            raw = self.stream.raw_row(row)
            if raw is not None:
                records += raw.is_training and row.columns is None
                engine.observe(observer.observation(row, raw, records))
        return engine.verdicts

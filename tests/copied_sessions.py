"""Sessions over bundled runs, read and judged once per process; each caller gets an independent copy.

Judging a run takes ten times as long as copying the result, and most tests of screens begin with the same run.
"""

from __future__ import annotations

import gc
import pickle
import threading
from enum import Enum
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

from rltop.catalog.dialect import Dialect
from rltop.clock import FakeClock
from rltop.model import Event, Label, Metric, Observation, StepTiming, Verdict
from rltop.report.overview_document import once_document
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun, name_of
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from rltop.sources.file import FileSystem

_LOCKS = {type(make()).__name__: make for make in (threading.Lock, threading.RLock)}
_SHARED = (FunctionType, Metric, Dialect, Label, Enum, Event, Verdict, Observation, StepTiming)
"""Immutable types that all copies share."""

COPIES: list[Session] = []
"""Copies that were handed out and have to be closed."""


class _Reopened(FileSystem):
    """Opens the file for each poll, because two copies must not close the same handle."""

    def may_keep(self, handle: int) -> bool:
        return False


def _follow(path: str, last: Any, clock: FakeClock) -> DirectFeed:
    return DirectFeed(path, _Reopened(), clock, last=last)


def _proxy_of(given: dict[Any, Any]) -> Any:
    return MappingProxyType(given)


def _values_of(given: dict[Any, Any]) -> Any:
    return given.values()


class _Writer(pickle.Pickler):
    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []

    def persistent_id(self, one: Any) -> Any:
        if type(one).__name__ in _LOCKS:
            return type(one).__name__, id(one)
        if not isinstance(one, _SHARED):
            return None
        assert not getattr(one, "__closure__", None), f"{one} would hold on to what is copied"
        self.shared.append(one)
        return len(self.shared) - 1

    def reducer_override(self, one: Any) -> Any:
        # A proxy must be a view of the copied mapping.
        if isinstance(one, MappingProxyType):
            return _proxy_of, tuple(gc.get_referents(one))
        if isinstance(one, type({}.values())):
            return _values_of, tuple(gc.get_referents(one))
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, shared: list[Any]) -> None:
        super().__init__(BytesIO(data))
        self._shared, self._locks = shared, {}

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, int):
            return self._shared[pid]
        if pid not in self._locks:
            self._locks[pid] = _LOCKS[pid[0]]()
        return self._locks[pid]


@cache
def _read(paths: tuple[Path, ...]) -> tuple[bytes, list[Any]]:
    clock = FakeClock()
    found = [FoundRun(str(path), name_of(str(path)), path.stat().st_size) for path in paths]
    session = Session(found, partial(_follow, clock=clock), clock, IngestOptions())
    session.drain()
    for run in session.runs:
        # Fill the caches of what is computed from the rows, because these do not change.
        once_document(Snapshot(run))
    file = BytesIO()
    writer = _Writer(file)
    writer.dump((session, clock))
    session.close()
    return file.getvalue(), writer.shared


def copied(*paths: Path) -> tuple[Session, FakeClock]:
    """A session that has read unchanging files, and its clock."""
    session, clock = _Reader(*_read(paths)).load()
    COPIES.append(session)
    return session, clock

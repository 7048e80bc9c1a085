"""A session over bundled runs, read and judged once a process; each that asks gets a copy that goes on by itself.

To judge a run takes ten times as long as to copy what came of it, and most tests of screens begin with the same run.
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
"""What nobody changes is the same in every copy."""

COPIES: list[Session] = []
"""Those that have been given out and are to be closed."""


class _Reopened(FileSystem):
    """A file is opened for each look: two copies must not close one handle."""

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
        # A view goes on showing what it is a view of.
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
        # What is worked out of rows that do not change is remembered from the first look on.
        once_document(Snapshot(run))
    file = BytesIO()
    writer = _Writer(file)
    writer.dump((session, clock))
    session.close()
    return file.getvalue(), writer.shared


def copied(*paths: Path) -> tuple[Session, FakeClock]:
    """A session that has read files which do not change, and its clock."""
    session, clock = _Reader(*_read(paths)).load()
    COPIES.append(session)
    return session, clock

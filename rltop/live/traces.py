"""Trace files with the begin and end of phases → phase events.

Chrome traces by RLinf and tinker, miles' dashboard, and phases of custom loops (`JsonlWriter.phase`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rltop.files import names_in, open_regular
from rltop.formats.console.failures import ConsoleError
from rltop.live.lines import Act, key_of
from rltop.live.phases import ROWS, PhaseEvent, in_order
from rltop.model import Label
from rltop.regex import regex
from rltop.structs import NamedTuple

TRACE_NAME = "trace_events.jsonl"
"""File name of traces by RLinf and tinker."""
PHASE_FOLDERS = ("phases", "dashboard/phases")
"""Folders where miles' dashboard writes its phases, one file per hour."""
OWN_NAMES = regex(r"phases.*\.jsonl")
"""Names of phase files of the ranks after the first."""
OWN_KEY = "rltop_phase"
_SIGNS = (b'"ph"', b'"t0"', b'"rltop_phase"')
_LONGEST_SIGN = max(map(len, _SIGNS))
END_BYTES = 8 * 1024 * 1024
_EPOCH_US = 1e14
"""Smaller trace times are not relative to the epoch: those of tinker come from a process clock."""
_HOURS = 4


class _TracesRead(NamedTuple):
    """The result of the last read of a file.

    Attributes:
        stamp: device, inode, size and modification time.
        has_signs: it contains something that looks like a phase.
    """

    stamp: tuple[int, int, int, int]
    has_signs: bool
    events: list[PhaseEvent]


class Traces:
    """Reads files that may contain phases, skipping unchanged files and the old part of files of metric rows."""

    def __init__(self) -> None:
        self._read: dict[str, _TracesRead] = {}

    def in_folder(self, folder: Path) -> list[list[PhaseEvent]]:
        """Events of the traces in a folder, one list per file or group of hourly files."""
        names = [name for name in sorted(names_in(folder)) if name == TRACE_NAME or OWN_NAMES.fullmatch(name)]
        found = [self.of(folder / name) for name in names]
        for name in PHASE_FOLDERS:
            place = folder / name
            hours = [str(place / each) for each in sorted(names_in(place)) if each.endswith(".jsonl")][-_HOURS:]
            for past in [each for each in self._read if each.startswith(f"{place}{os.sep}") and each not in hours]:
                del self._read[past]
            found.append([event for hour in hours for event in self.of(hour)])
        return [each for each in found if each]

    def of(self, path: Path | str) -> list[PhaseEvent]:
        """Events of a JSON lines file; empty for metric rows and unreadable files."""
        before = self._read.get(str(path))
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                stamp = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
                if before is not None and stamp == before.stamp:
                    return before.events
                end = max(0, status.st_size - END_BYTES)
                if before is not None and not before.has_signs and stamp[:2] == before.stamp[:2]:
                    file.seek(max(end, before.stamp[2] - _LONGEST_SIGN))
                    if status.st_size >= before.stamp[2] and not _has_signs(file.read(END_BYTES) or b""):
                        self._read[str(path)] = before._replace(stamp=stamp)
                        return []
                file.seek(end)
                data = file.read(END_BYTES) or b""
        except (OSError, ValueError):
            return []
        has_signs = _has_signs(data)
        found = _events_in(data, status.st_mtime) if has_signs else []
        self._read[str(path)] = _TracesRead(stamp, has_signs, found)
        return found


def _has_signs(data: bytes) -> bool:
    return any(sign in data for sign in _SIGNS)


def _events_in(data: bytes, written_s: float) -> list[PhaseEvent]:
    spans = [span for line in data.split(b"\n") if (span := _parsed(line))]
    newest_us = max((_number(span.get("ts")) for span in spans if span.get("ph") in ("B", "E")), default=0.0)
    begin_us = 0.0 if newest_us >= _EPOCH_US else newest_us - 1e6 * written_s
    own = [span for span in spans if span.get(OWN_KEY) and not any(isinstance(v, (list, dict)) for v in span.values())]
    last = spans[-1] if spans and _parsed(data.rstrip().rpartition(b"\n")[2]) == spans[-1] else None
    # If rows follow the end mark, the loop has been resumed.
    marks = [span for span in spans if span.get(OWN_KEY) == ""]
    again, over = (
        [_event(act, _number(span.get("end")), "", "", None) for span in marks if (span is last) == (act is Act.FINISH)]
        for act in (Act.RESUME, Act.FINISH)
    )
    told = [event for span in spans for event in _events(span, begin_us)] + (_own_events(own) if own else []) + over
    return in_order(again, told) if again else told


def _own_events(spans: Sequence[dict[str, Any]]) -> list[PhaseEvent]:
    """Events of a custom loop; phases left open by a process that has been restarted are over."""
    ended = {(_process(span), str(span[OWN_KEY]), span.get("begin")) for span in spans if "end" in span}
    newest = {(span.get("host"), span.get("rank")): span.get("pid") for span in spans}
    found: list[PhaseEvent] = []
    told: dict[str, str] = {}
    for number, span in enumerate(spans):
        name, process, rank = str(span[OWN_KEY]), _process(span), span.get("rank")
        is_newest = span.get("pid") == newest[span.get("host"), rank]
        error = str(span.get("error") or "")
        if "end" not in span:
            if is_newest or (process, name, span.get("begin")) in ended:
                found.append(_event(Act.BEGIN, _number(span.get("begin")), name, process, rank))
            continue
        end = _event(Act.END, _number(span["end"]), name, process, rank)
        if error and is_newest and told.get(process) != error:  # the enclosing phase ends with the same error
            failed = ConsoleError(number, 0, Label.of(error), 0, is_exception=True)
            found.append(end._replace(act=Act.FAIL, error=failed))
        told[process] = error
        found.append(end)
    return found


def _process(span: dict[str, Any]) -> str:
    host, thread = span.get("host", ""), span.get("thread", "")
    if "pid" not in span:
        return " ".join(str(each) for each in (host, span.get("rank", ""), thread) if each != "")
    identity = f", process={span['process']}" if "process" in span else ""
    return f"(pid={span['pid']}, ip={host}{identity}{f' {thread}' if thread != '' else ''})"


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not _has_signs(line):
        return None
    try:
        found = json.loads(line.strip().rstrip(b",").lstrip(b"["))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _events(span: dict[str, Any], begin_us: float) -> Iterator[PhaseEvent]:
    if span.get("ph") in ("B", "E"):
        time_s = (_number(span.get("ts")) - begin_us) / 1e6
        process = f"{span.get('pid', '')}/{span.get('tid', '')}"
        yield _event(Act.BEGIN if span["ph"] == "B" else Act.END, time_s, str(span.get("name", "")), process, None)
    elif "t0" in span and "t1" in span:
        name, rank = str(span.get("name", "")), span.get("rank")
        process = f"{span.get('role') or span.get('source') or ''} {'' if rank is None else rank}".strip()
        yield _event(Act.BEGIN, _number(span["t0"]), name, process, rank)
        if _number(span["t1"]) >= 0.0:
            yield _event(Act.END, _number(span["t1"]), name, process, rank)


def _event(act: Act, time_s: float, name: str, process: str, rank: object) -> PhaseEvent:
    told = rank if isinstance(rank, int) and not isinstance(rank, bool) else None
    return PhaseEvent(time_s, act, process=process, name=name, key=key_of(name), rank=told)


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def rows(times: Iterable[tuple[int, float]], total: int | None, stride: int | None = None) -> list[PhaseEvent]:
    return [PhaseEvent(time_s, Act.STEP, process=ROWS, step=step, total=total, stride=stride) for step, time_s in times]

"""Paths → metric streams: what a person typed, and the files that they meant.

Owns the looking; opens nothing for following. A file that was named is taken as
it is; in a directory only what looks like metrics is, newest first, and what was
passed over is remembered with the reason.
"""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltop.decode.jsonl import JsonlDecoder
from rltop.decode.kinds import HEAD_BYTES, Kind, kind_of
from rltop.errors import SourceError
from rltop.model import Label, Record

SNIFF_BYTES = 256 * 1024
_MAX_DEPTH = 4
_MAX_ENTRIES = 20_000
_SUFFIXES = (".jsonl", ".ndjson", ".json")
_SAMPLE_LINE_BYTES = 64 * 1024
_NOT_METRICS = frozenset(
    {"rollouts", "completions", "traces", "samples", "generations", ".git", "node_modules", ".venv"}
)


@dataclass(frozen=True, slots=True)
class Found:
    """One metric stream.

    Attributes:
        path: where it is; it may not exist yet.
        name: as shown: the file's name, with its folder where the name is a common one.
        size: bytes when looked at, 0 if it did not exist.
        modified_s: when it was last written, or None.
        kind: what its first bytes say it is; None if they were not looked at or do not tell.
    """

    path: str
    name: Label
    size: int = 0
    modified_s: float | None = None
    kind: Kind | None = None


@dataclass(slots=True)
class Discovery:
    """What was found, and what was looked at and left."""

    found: list[Found] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    looked_in: list[str] = field(default_factory=list)
    is_cut_short: bool = False


def discover(paths: Sequence[str]) -> Discovery:
    """Find the metric streams that `paths` mean; no path means the current directory.

    Args:
        paths: files, directories and globs, as typed.

    Raises:
        SourceError: a path is neither a file nor a directory, or a glob matches nothing.
    """
    result = Discovery()
    for path in paths or ["."]:
        for each in _expand(path):
            _look_at(each, result)
    result.found = list({found.path: found for found in result.found}.values())
    return result


def _expand(path: str) -> list[str]:
    path = os.path.expanduser(path)  # noqa: PTH111 - a Path would drop the trailing slash that a person typed
    if Path(path).exists() or not glob.has_magic(path):
        return [path]
    matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - patterns may be absolute
    if not matches:
        raise SourceError(f"nothing matches {path}", "quote the pattern only if rltop should expand it")
    return matches


def _look_at(path: str, result: Discovery) -> None:
    try:
        info = Path(path).stat()
    except FileNotFoundError:
        if path.endswith("/"):
            raise SourceError(
                f"{path} does not exist", "name a file that is to be waited for, or a directory"
            ) from None
        result.found.append(Found(path, name_of(path)))
        return
    except OSError as error:
        raise SourceError(f"cannot look at {path}: {error.strerror}", "check the path and its permissions") from error
    if stat.S_ISDIR(info.st_mode):
        result.looked_in.append(path)
        result.found.extend(_search(path, result))
    elif stat.S_ISREG(info.st_mode):
        result.found.append(Found(path, name_of(path), info.st_size, info.st_mtime, _kind_at(path)))
    else:
        raise SourceError(f"{path} is not a regular file", "name the file that the trainer writes")


def _kind_at(path: str) -> Kind | None:
    """What a file is; None if it cannot be read now: following it will say why."""
    try:
        with Path(path).open("rb") as file:
            return kind_of(file.read(HEAD_BYTES), path)
    except OSError:
        return None


def _search(folder: str, result: Discovery) -> list[Found]:
    """Metric files below a directory, newest first."""
    candidates = []
    for path, info in _walk(folder, result):
        if info.st_size == 0:
            result.passed_over.append((path, "empty"))
            continue
        reason = why_not_metrics(path)
        if reason:
            result.passed_over.append((path, reason))
        else:
            candidates.append(Found(path, name_of(path), info.st_size, info.st_mtime))
    return sorted(candidates, key=lambda found: (-(found.modified_s or 0.0), found.path))


def _walk(folder: str, result: Discovery) -> Iterable[tuple[str, os.stat_result]]:
    seen, queue = 0, [(folder, 0)]
    while queue:
        here, depth = queue.pop(0)
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            result.passed_over.append((here, error.strerror or "cannot be listed"))
            continue
        for entry in listed:
            seen += 1
            if seen > _MAX_ENTRIES:
                result.is_cut_short = True
                return
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH and entry.name not in _NOT_METRICS:
                        queue.append((entry.path, depth + 1))
                elif entry.name.endswith(_SUFFIXES) and entry.is_file():
                    yield entry.path, entry.stat()
            except OSError as error:
                result.passed_over.append((entry.path, error.strerror or "cannot be read"))


def why_not_metrics(path: str) -> str:
    """Why a file is no metric stream, judged by its first rows; empty if it is one.

    A row of metrics is an object with a step and at least two numbers; a file whose
    typical line is past 64 KiB, or whose rows share no number, holds samples.
    """
    try:
        with Path(path).open("rb") as file:
            head = file.read(SNIFF_BYTES)
    except OSError as error:
        return error.strerror or "cannot be read"
    if not head.lstrip(b"\xef\xbb\xbf\0 \r\n").startswith(b"{"):
        return "not JSON lines"
    if b"\n" not in head:
        return "one line longer than any row of metrics" if len(head) == SNIFF_BYTES else _judge_rows(head + b"\n")
    lines = head.split(b"\n")[:-1]
    if sorted(map(len, lines))[len(lines) // 2] > _SAMPLE_LINE_BYTES:
        return "lines too long for metrics: samples?"
    return _judge_rows(head[: head.rindex(b"\n") + 1])


def _judge_rows(head: bytes) -> str:
    records = JsonlDecoder().feed(head, 0, 0)
    if not records:
        return "no row with a step and a number" if _is_json(head) else "not JSON lines"
    seen: set[str] = set()
    if len(records) > 1 and not any(_repeats(record, seen) for record in records):
        return "rows share no number"
    steps = [record.step for record in records]
    if len(steps) >= 8 and len(set(steps)) * 4 <= len(steps):
        return "many rows for one step: samples?"
    return ""


def _repeats(record: Record, seen: set[str]) -> bool:
    """Has a key of this row been in an earlier one?"""
    keys = set(record.shape.keys)
    if keys & seen:
        return True
    seen |= keys
    return False


def _is_json(head: bytes) -> bool:
    try:
        json.loads(head.split(b"\n", 1)[0])
    except ValueError:
        return False
    return True


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "trainer_log", "logging", "history", "log", "train", "metric"}
)


def name_of(path: str) -> Label:
    """What a run is called: its file, or its folder where every run's file has that name."""
    where = Path(path)
    stem = where.stem
    if stem.lower() in _COMMON_NAMES:
        parent = where.absolute().parent
        if parent.name.lower() in {"logs", "log", "metrics"} and parent.parent.name:
            parent = parent.parent
        return Label.of(parent.name or stem)
    return Label.of(stem)

"""Paths → metric streams: what a person typed, and the files that they meant.

Owns the looking; opens nothing for following. A file that was named is taken as
it is; in a directory only what looks like metrics is, newest first, and what was
passed over is remembered with the reason.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltop.decode.kinds import WANDB, Kind, bare_name
from rltop.errors import SourceError
from rltop.ingest.declared import read_ranges
from rltop.ingest.found import Found, name_of, told_apart
from rltop.ingest.refused import name_refused, why_refused
from rltop.ingest.roles import WANDB_PARTS
from rltop.ingest.sniff import SAMPLES, sniff
from rltop.metrics.ranges import Ranges
from rltop.model import Label
from rltop.structs import Struct, field

_MAX_DEPTH = 7
_MAX_ENTRIES = 20_000
_TITLE_BYTES = 64 * 1024
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".log", ".out", ".txt", ".csv", ".wandb")
_ARCHIVE = re.compile(r"(tail|block_live|block_\d+)\.zip$")
"""What Telescope calls the files in which it keeps its tables."""
_NOT_METRICS = frozenset(
    {"rollouts", "completions", "traces", "samples", "generations", ".git", "node_modules", ".venv"}
)


Seen = dict[str, tuple[int, Kind | None, str, str]]
"""Path → size when it was judged, kind, why it is no metric stream, and what it calls its run."""


class Discovery(Struct, frozen=False):
    """What was found, and what was looked at and left; `seen` spares a second look into a file.

    A directory or a pattern (`may_grow`) may have more in it later; a file that was named is all that was asked for.
    `missing` are paths behind which there is nothing yet, and patterns that match nothing.
    """

    found: list[Found] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    looked_in: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    may_grow: bool = False
    is_cut_short: bool = False
    seen: Seen = field(default_factory=dict)


def discover(paths: Sequence[str], seen: Seen | None = None) -> Discovery:
    """Find the metric streams that `paths` mean; no path means the current directory.

    Args:
        paths: files, directories and globs, as typed.
        seen: what earlier looks have judged; filled by this one. A file that was no metric
            stream is judged again when it has grown.

    Raises:
        SourceError: a path is neither a file nor a directory.
    """
    result = Discovery(seen={} if seen is None else seen)
    for path in paths or ["."]:
        expanded = _expand(path)
        if not expanded:
            result.missing.append(path)
        result.may_grow = result.may_grow or expanded != [os.path.expanduser(path)]  # noqa: PTH111
        for each in expanded:
            _look_at(each, result, is_only=len(expanded) == 1)
    found = {found.path: found for found in result.found}.values()
    result.found = [each._replace(ranges=_declared(each, result)) for each in told_apart(list(found))]
    return result


def _declared(found: Found, result: Discovery) -> Ranges:
    """Ranges that files beside the run declare."""
    return read_ranges(found.path, lambda path, reason: result.passed_over.append((path, reason)))


def _expand(path: str) -> list[str]:
    path = os.path.expanduser(path)  # noqa: PTH111 - a Path would drop the trailing slash that a person typed
    if Path(path).exists() or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - patterns may be absolute


def _look_at(path: str, result: Discovery, *, is_only: bool) -> None:
    try:
        info = Path(path).stat()
    except FileNotFoundError:
        result.missing.append(path)
        if path.endswith("/"):
            result.may_grow = True
        else:
            result.found.append(Found(path, name_of(path)))
        return
    except OSError as error:
        raise SourceError(f"cannot look at {path}: {error.strerror}", "check the path and its permissions") from error
    if stat.S_ISDIR(info.st_mode):
        result.looked_in.append(path)
        result.may_grow = True
        result.found.extend(_search(path, result))
    elif stat.S_ISREG(info.st_mode):
        kind, reason = sniff(path, is_hurried=is_only)
        if kind is None or reason in SAMPLES:
            _refuse(path, reason)
        result.found.append(Found(path, named(path, kind), info.st_size, info.st_mtime, kind))
    else:
        raise SourceError(f"{path} is not a regular file", "name the file that the trainer writes")


def _refuse(path: str, reason: str) -> None:
    """Say what a file that was named is, where it is certain that it holds no metrics.

    Raises:
        SourceError: it is of a kind that is known and not read, or it holds samples.
    """
    if reason in SAMPLES:
        hint = f"name the metrics beside it; if these are metrics all the same: rltop - < {path}"
        raise SourceError(f"{path} looks like samples, not metrics: {reason.partition(':')[0]}", hint)
    try:
        with Path(path).open("rb") as file:
            what, remedy = why_refused(file.read(16))
    except OSError:
        return
    if what:
        raise SourceError(f"{path} is {what}, not a metric stream", remedy)


def _may_hold_metrics(name: str) -> bool:
    """Is a file of this name worth a look inside?"""
    return bare_name(name).endswith(_SUFFIXES) or "tfevents" in name or bool(_ARCHIVE.match(name))


def _search(folder: str, result: Discovery) -> list[Found]:
    """Runs below a directory, newest first."""
    files, titles = [], {}
    for path, info in _walk(folder, result):
        if info.st_size == 0:
            result.passed_over.append((path, "empty"))
            continue
        kind, reason, titles[path] = _judged(path, info.st_size, result.seen)
        if reason:
            result.passed_over.append((path, reason))
        else:
            name = Label.of(titles[path]) if titles[path] else name_of(path)
            files.append(Found(path, name, info.st_size, info.st_mtime, kind))
    from rltop.ingest.grouping import group  # noqa: PLC0415 - a file that was named needs none

    grouped = group(files, titles)
    result.passed_over += grouped.repeated
    return grouped.runs


def _judged(path: str, size: int, seen: Seen) -> tuple[Kind | None, str, str]:
    """Kind, reason to pass it over, and title of a file, from an earlier look where that still holds."""
    known = seen.get(path)
    is_unsettled = known is not None and bool(known[2] or (known[1] is WANDB and not known[3]))
    if known is None or (is_unsettled and known[0] != size):
        kind, reason = sniff(path)
        known = seen[path] = (size, kind, reason, _title(path) if kind is WANDB else "")
    return known[1:]


def named(path: str, kind: Kind | None) -> Label:
    """What the run of a file is called: what it calls itself where it does, else by its path."""
    title = _title(path) if kind is WANDB else ""
    return Label.of(title) if title else name_of(path)


def _title(path: str) -> str:
    """What a W&B run calls itself, as its first records say; empty where they do not.

    Parts that share a W&B run write a file each, with steps of their own: the part ends the name.
    """
    from rltop.decode.wandb import WandbDecoder  # noqa: PLC0415

    decoder = WandbDecoder()
    try:
        with Path(path).open("rb") as file:
            decoder.feed(file.read(_TITLE_BYTES), 0, 0)
    except OSError:
        return ""
    part = decoder.step_key.removesuffix("/step")
    return f"{decoder.run.name or decoder.run.run_id}_{part}" if part in WANDB_PARTS else decoder.run.name


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
                elif _may_hold_metrics(entry.name) and entry.is_file():
                    yield entry.path, entry.stat()
                elif name_refused(entry.name):
                    result.passed_over.append((entry.path, name_refused(entry.name)))
            except OSError as error:
                result.passed_over.append((entry.path, error.strerror or "cannot be read"))

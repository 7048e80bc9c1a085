"""Paths → metric streams: what a person typed, and the files that they meant.

Owns the looking; opens nothing for following. A file that was named is taken as it is; in a directory only what looks
like metrics is, newest first, and what was passed over is remembered with the reason.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from rltop.catalog.ranges import MAX_DECLARED, NONE, Range, Ranges, of_environments, range_of
from rltop.errors import DecodeError, SourceError, cannot_read, reason_of
from rltop.files import open_regular
from rltop.formats.kinds import BINARY, CONSOLE, SWANLAB, TABLES, WANDB, Kind, may_hold_metrics
from rltop.model import Label
from rltop.model.table_rows import LOG_NAME, is_log, may_be_database, member_path, split_member
from rltop.regex import regex
from rltop.run.found import WANDB_PARTS, Found, name_of, titled, whole_path, with_distinct_names
from rltop.run.places import NO_RUNS, state_beside
from rltop.run.sniff import DIED, SAMPLES, UNWRITTEN, damage_at_start, name_refused, sniff, tracker_of, why_refused
from rltop.sources.file import LocalFileSystem
from rltop.sources.tail import is_metric_folder
from rltop.structs import NamedTuple, Struct, field

if TYPE_CHECKING:
    from rltop.run.grouping import Numbers

_MAX_DEPTH = 7
_MAX_ENTRIES = 20_000
_MOST_TOTALS = _FEW = 4
"""Of so many other records of a run it is looked up how many steps it is to make."""
_TITLE_BYTES = 64 * 1024
_NOT_METRICS = frozenset(
    {"rollouts", "completions", "traces", "samples", "generations", "media", ".git", "node_modules", ".venv", ".trash"}
)
_TITLED = (WANDB, SWANLAB)
_FILES = LocalFileSystem()
_UNREADABLE = (OSError, DecodeError, RecursionError, MemoryError)
"""What may be wrong with a file that was named; anything else is a fault of rltop, and to be reported."""


class SniffResult(NamedTuple):
    """What a look into a file has shown.

    Attributes:
        kind: what its first bytes say it is.
        reason: why it is no metric stream; empty if it is one.
        is_unreadable: whether it is one cannot be told: `reason` says what is in the way.
        numbers: its first and last rows, where they have been asked for.
    """

    size: int
    kind: Kind | None
    reason: str
    title: str = ""
    is_unreadable: bool = False
    numbers: Numbers | None = None


_EMPTY = SniffResult(0, CONSOLE, "empty")
Seen = dict[str, SniffResult]
"""What earlier looks have shown, by path."""


class Discovery(Struct, frozen=False):
    """What was found, and what was looked at and left; `seen` spares a second look into a file.

    A directory or a pattern (`may_grow`) may have more in it later; a file that was named is all that was asked for.
    `missing` are paths behind which there is nothing yet, and patterns that match nothing. `left_out` is the part of
    `passed_over` that may well be metrics: what could not be read, and why. `failed` says of which of several paths
    nothing can be had. `completions` are dumps in folders without a run. `names` and `opened` count up while the look
    goes on.
    """

    found: list[Found] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    failed: list[SourceError] = field(default_factory=list)
    looked_in: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    completions: list[str] = field(default_factory=list)
    may_grow: bool = False
    seen: Seen = field(default_factory=dict)
    names: int = 0
    opened: int = 0

    def numbers_of(self, run: Found) -> Numbers:
        from rltop.run.grouping import read_numbers  # noqa: PLC0415 - most folders have files of one kind

        known = self.seen.get(run.path, SniffResult(run.size, run.kind, ""))
        if known.numbers is None or not known.numbers.is_of(run):
            self.opened += 1
            known = self.seen[run.path] = known._replace(numbers=read_numbers(run, known.numbers))
        assert known.numbers is not None
        return known.numbers

    def total_of(self, run: Found, *, is_one_of_few: bool) -> int | None:
        """How many steps a run is to make, as the newest other record of it says that names it."""
        state = state_beside(run.path) if is_one_of_few and split_member(run.path) is None else None
        if state is not None and str(state) != run.path:
            from rltop.run.grouping import max_steps_of  # noqa: PLC0415 - as above

            with contextlib.suppress(OSError):
                return max_steps_of(str(state))
        there = [_described(path, self.seen) for path in run.copies]
        newest = sorted(there, key=lambda one: -(one.modified_s or 0.0))[:_MOST_TOTALS]
        return next((total for one in newest if (total := self.numbers_of(one).total_steps) is not None), None)

    def leave_out(self, path: str, reason: str) -> None:
        self.passed_over.append((path, reason))
        self.left_out.append((path, reason))


def discover(paths: Sequence[str], seen: Seen | None = None, into: Discovery | None = None) -> Discovery:
    """Find the metric streams that `paths` mean; no path means the current directory.

    A file that cannot be read is left out, and said to be; only what was named itself,
    and is all there is, is an error.

    Args:
        seen: what earlier looks have judged; filled by this one. A file that was no metric
            stream is judged again when it has grown.
        into: where to put it; another thread may watch its counters.

    Raises:
        SourceError: of none of the paths there is anything to be had.
    """
    result = Discovery() if into is None else into
    if seen is not None:
        result.seen = seen
    for path in paths or ["."]:
        try:
            _look_for(path, result)
        except SourceError as error:
            result.failed.append(error)
    if result.failed and not result.found:
        raise result.failed[0]
    if not result.found and result.looked_in:
        from rltop.run.rollouts import dumps_beside  # noqa: PLC0415 - where there is a run, nobody asks

        result.completions = [dump.path for folder in result.looked_in for dump in dumps_beside(folder)]
    result.left_out += [(error.message, "") for error in result.failed]
    found = list({found.path: found for found in result.found}.values())
    if len({each.kind for each in found}) > 1 or any(each.kind is TABLES for each in found):
        from rltop.run.grouping import without_copies  # noqa: PLC0415 - most folders have files of one kind

        found = without_copies(found, result.numbers_of, lambda *why: result.passed_over.append(why), named=paths)
    result.found = [
        each._replace(
            ranges=_declared(each, result), total_steps=result.total_of(each, is_one_of_few=len(found) <= _FEW)
        )
        for each in with_distinct_names(found)
    ]
    return result


def _look_for(path: str, result: Discovery) -> None:
    typed = os.path.expanduser(path)  # noqa: PTH111 - a Path would drop the trailing slash that a person typed
    expanded = _expand(typed, result)
    if not expanded:
        result.missing.append(path)
    result.may_grow = result.may_grow or expanded != [typed]
    for each in expanded:
        result.opened += each != typed
        try:
            _look_at(each, result, is_only=len(expanded) == 1)
        except SourceError as error:
            if each == typed:
                raise
            result.passed_over.append((each, error.message))
        except _UNREADABLE as error:
            if each == typed:
                raise cannot_read(each, error) from error
            result.leave_out(each, reason_of(error))


def _described(path: str, seen: Seen) -> Found:
    """A record that is not followed, as the newest look into it has shown it."""
    known = seen.get(path)
    try:
        info = Path(path).stat()
    except OSError:
        return Found(path, Label.of(""))
    return Found(path, Label.of(""), info.st_size, info.st_mtime, None if known is None else known.kind)


def _declared(found: Found, result: Discovery) -> Ranges:
    result.opened += 1
    try:
        return read_ranges(found.path, lambda path, reason: result.passed_over.append((path, reason)))
    except OSError as error:
        result.passed_over.append((found.path, f"ranges not read: {reason_of(error)}"))
        return NONE


def _expand(path: str, result: Discovery) -> list[str]:
    """The paths that one path means: itself, unless it is a pattern.

    Raises:
        SourceError: it is a pattern, and the folder that it begins in cannot be listed.
    """
    if not glob.has_magic(path) or os.path.exists(path):  # noqa: PTH110 - a Path raises where it may not look
        return [path]
    found = []
    for each in glob.iglob(path, recursive=True):  # noqa: PTH207 - patterns may be absolute
        result.names += 1
        found.append(each)
    if not found:
        # A pattern passes over what it cannot list: that nothing matches must not be said of a closed folder.
        _list_start(path)
    return sorted(found)


def _list_start(pattern: str) -> None:
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    start = "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ".")
    try:
        with os.scandir(start):
            pass
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise cannot_read(start, error) from error


def _look_at(path: str, result: Discovery, *, is_only: bool) -> None:
    """Look at one path that is no pattern.

    Raises:
        SourceError: it is known to hold no metrics.
        OSError, DecodeError: it cannot be read.
    """
    member = split_member(path)
    if member is not None and not Path(path).exists():
        if not _size_of(member[0]):
            result.missing.append(path)
            result.may_grow = True
        else:
            result.found.append(_member(*member))
        return
    try:
        info = Path(path).stat()
    except FileNotFoundError:
        result.missing.append(path)
        if path.endswith("/") or may_be_database(path):
            # A database is read run by run: there is nothing to follow before it has one.
            result.may_grow = True
        else:
            result.found.append(Found(path, name_of(path)))
        return
    if stat.S_ISDIR(info.st_mode):
        result.looked_in.append(path)
        result.may_grow = True
        result.found.extend(_search(path, result))
    elif stat.S_ISREG(info.st_mode):
        _look_at_file(path, info, result, is_only=is_only)
    else:
        raise SourceError(f"{path} is not a regular file", "pass the file that the trainer writes")


def _look_at_file(path: str, info: os.stat_result, result: Discovery, *, is_only: bool) -> None:
    """Look at a file that was named, or that a pattern means; raises as `_look_at` does."""
    if whose := tracker_of(path):
        hint = f"pass the folder of the run; to read this one anyway: rltop - < {path}"
        raise SourceError(f"{path} is written by {whose} for itself, not a run", hint)
    kind, reason = sniff(path, is_hurried=is_only)
    if kind is TABLES:
        result.may_grow = True
        if reason:
            result.passed_over.append((path, reason))
        else:
            result.found.extend(_members(path, info))
        return
    if kind is None or reason in SAMPLES:
        _refuse(path, reason)
    writers = _writers(path, info) if kind is CONSOLE else []
    result.may_grow = result.may_grow or bool(writers)
    result.found += writers or [Found(path, named(path, kind), info.st_size, info.st_mtime, kind)]


def _writers(path: str, info: os.stat_result) -> list[Found]:
    """The runs of a console log in which a launcher has marked those of several; else none.

    Raises:
        OSError: it cannot be read.
    """
    if not LOG_NAME.search(Path(path).name):
        return []
    from rltop.formats.console.writers import writers_in  # noqa: PLC0415 - most logs are of one run

    with open_regular(path) as file:
        writers = writers_in(file)
    return [Found(member_path(path, each), Label.of(each), info.st_size, info.st_mtime, CONSOLE) for each in writers]


def _members(path: str, info: os.stat_result) -> list[Found]:
    """The runs of a database, newest first, or the one in a folder of MLflow's file store.

    Raises:
        OSError, DecodeError: it cannot be read.
    """
    from rltop.formats.tables import run_in_folder, runs_in  # noqa: PLC0415 - few have trackers

    if stat.S_ISDIR(info.st_mode):
        run = run_in_folder(path)
        tracked = [(path, run)] if run is not None else []
    else:
        tracked = [(member_path(path, run.member), run) for run in runs_in(path) or ()]
    return [
        Found(each, titled(run.name, each), max(1, info.st_size), run.modified_s or info.st_mtime, TABLES)
        for each, run in tracked
    ]


def _size_of(path: str) -> int:
    """Bytes of a file; 0 where there is none. What SQLite has written may stand in the file beside the database."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _member(path: str, member: str) -> Found:
    """One run of a database or a console log, by its identifier or by its name; of several of one name the newest.

    Raises:
        SourceError: the database has no such run.
        OSError, DecodeError: it cannot be read.
    """
    info = Path(path).stat()
    found = _writers(path, info) or (_members(path, info) if may_be_database(path) else [])
    named = [each for each in found if split_member(each.path) == (path, member)]
    named = named or [each for each in found if each.name.raw == member]
    if not named:
        names = ", ".join(each.name.display for each in found[:_MOST_REASONS])
        raise SourceError(f"{path} has no run {Label.of(member).display}", f"its runs: {names or 'none'}")
    return named[0]


def _refuse(path: str, reason: str) -> None:
    """Say what a file that was named is, where it is certain that it holds no metrics.

    Raises:
        SourceError: it is of a kind that is known and not read, or it holds samples.
        OSError: it cannot be read.
    """
    if reason in SAMPLES:
        hint = f"pass the metrics file instead; to read this one anyway: rltop - < {path}"
        raise SourceError(f"{path} looks like samples, not metrics: {reason.partition(':')[0]}", hint)
    if reason == BINARY:
        raise SourceError(f"{path} is {BINARY}", "pass the file that the trainer logs to")
    with Path(path).open("rb") as file:
        what, remedy = why_refused(file.read(16))
    if what:
        raise SourceError(f"{path} is {what}, not a metric stream", remedy)


def _search(folder: str, result: Discovery) -> list[Found]:
    """Runs below a directory, newest first; where there is none, the one console log, which may get its first row."""
    files, died, logs, titles = [], [], [], {}
    for path, info in _walk(folder, result):
        size = info.st_size + (_size_of(f"{path}-wal") if may_be_database(path) else 0)
        found = Found(path, name_of(path), info.st_size, info.st_mtime, CONSOLE)
        logs += [found] if is_log(path) else []
        if size == 0:
            result.passed_over.append((path, "empty"))
            continue
        judged = _judged(path, size, result.seen)
        result.opened += 1
        if judged.is_unreadable:
            result.leave_out(path, judged.reason)
        elif judged.reason == DIED:
            died.append(found)
        elif judged.reason:
            result.passed_over.append((path, judged.reason))
        elif judged.kind is TABLES:
            files += _listed_members(path, info, result)
        else:
            titles[path] = judged.title
            writers = _listed_writers(path, info, result) if judged.kind is CONSOLE else []
            name = titled(judged.title, path)
            files += writers or [Found(path, name, info.st_size, info.st_mtime, judged.kind)]
    from rltop.run.grouping import group  # noqa: PLC0415 - a file that was named needs none

    grouped = group(files, titles, died)
    result.passed_over += grouped.repeated
    if not grouped.runs and len(logs) == 1 and result.seen.get(logs[0].path, _EMPTY).kind is CONSOLE:
        result.passed_over = [each for each in result.passed_over if each[0] != logs[0].path]
        return logs
    return grouped.runs


def _listed_members(path: str, info: os.stat_result, result: Discovery) -> list[Found]:
    try:
        return _members(path, info)
    except _UNREADABLE as error:
        result.leave_out(path, reason_of(error))
        return []


def _listed_writers(path: str, info: os.stat_result, result: Discovery) -> list[Found]:
    try:
        return _writers(path, info)
    except _UNREADABLE as error:
        result.leave_out(path, reason_of(error))
        return []


def _judged(path: str, size: int, seen: Seen) -> SniffResult:
    """What a file of a directory is, from an earlier look where that still holds.

    The one guard around a file that nobody named: whatever is wrong with it, it must not
    keep the others from being found.
    """
    known = seen.get(path)
    is_unsettled = known is not None and bool(known.reason or (known.kind in _TITLED and not known.title))
    if known is not None and not (is_unsettled and known.size != size):
        return known
    try:
        kind, reason = sniff(path)
        damage = damage_at_start(path, kind)
        known = SniffResult(size, kind, reason or damage, _title(path, kind), bool(damage))
    except FileNotFoundError:
        return SniffResult(size, None, "deleted since the directory was listed")
    except OSError as error:
        # Not remembered: permission may be given, and a server come back, without the file's being written.
        return SniffResult(size, None, reason_of(error), is_unreadable=True)
    except Exception as error:
        known = SniffResult(size, None, reason_of(error), is_unreadable=True)
    if known.reason != UNWRITTEN:
        seen[path] = known
    return known


def named(path: str, kind: Kind | None) -> Label:
    """What the run of a file is called: what it calls itself where it does, else by its path."""
    return titled(_title(path, kind), path)


def _title(path: str, kind: Kind | None) -> str:
    """What a W&B or SwanLab run calls itself, as its first records say; empty where they do not.

    Parts that share a W&B run write a file each, with steps of their own: the part ends the name.
    """
    if kind not in _TITLED:
        return ""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_TITLE_BYTES)
    except OSError:
        return ""
    if kind is SWANLAB:
        from rltop.formats.swanlab import SwanLabDecoder  # noqa: PLC0415

        named = SwanLabDecoder()
        named.feed(data, 0, 0)
        return named.name
    from rltop.formats.wandb import WandbDecoder  # noqa: PLC0415

    decoder = WandbDecoder()
    decoder.feed(data, 0, 0)
    part = decoder.step_key.removesuffix("/step")
    return f"{decoder.run.name or decoder.run.run_id}_{part}" if part in WANDB_PARTS else decoder.run.name


def _walk(folder: str, result: Discovery) -> Iterable[tuple[str, os.stat_result]]:
    """Every file below a directory that may hold metrics.

    Raises:
        OSError: the directory itself cannot be listed; one below it is left out.
    """
    seen, queue, scanned = 0, [(folder, 0)], [Path(folder).resolve()]
    while queue:
        here, depth = queue.pop(0)
        try:
            listed = _listed(here, result)
        except OSError as error:
            if not depth:
                raise
            _note(here, error, result)
            continue
        if is_metric_folder(here, _FILES):
            yield here, Path(here).stat()
            continue
        for entry in listed:
            seen += 1
            if seen > _MAX_ENTRIES:
                result.leave_out(folder, f"more than {_MAX_ENTRIES:,} entries; the rest was not scanned")
                return
            try:
                if _is_folder_to_scan(entry, scanned):
                    if depth < _MAX_DEPTH and entry.name not in _NOT_METRICS:
                        queue.append((entry.path, depth + 1))
                elif _is_worth_a_look(entry, result):
                    info = entry.stat()
                    if stat.S_ISREG(info.st_mode):
                        yield entry.path, info
            except OSError as error:
                _note(entry.path, error, result, is_link=entry.is_symlink())


def _is_folder_to_scan(entry: os.DirEntry[str], scanned: list[Path]) -> bool:
    """Is an entry a folder, or a link to one elsewhere? What leads to a folder that is scanned shows no run twice."""
    if entry.is_dir(follow_symlinks=False):
        return len(scanned) == 1 or Path(entry.path).resolve() not in scanned
    if not (entry.is_symlink() and entry.is_dir()):
        return False
    to, here = Path(entry.path).resolve(), Path(entry.path).parent.resolve()
    leads_up = scanned[0].is_relative_to(to) or here.is_relative_to(to)
    if leads_up or any(to.is_relative_to(one) for one in scanned):
        return False
    scanned.append(to)
    return True


def _is_worth_a_look(entry: os.DirEntry[str], result: Discovery) -> bool:
    """May a file hold the metrics of a run, by its name and place? What might be taken for one is noted."""
    if not may_hold_metrics(entry.name):
        reason = name_refused(entry.name)
    elif whose := tracker_of(entry.path):
        reason = f"written by {whose} for itself"
    elif entry.name in NO_RUNS:
        reason = "settings of a run"
    else:
        return True
    if reason:
        result.passed_over.append((entry.path, reason))
    return False


def _listed(folder: str, result: Discovery) -> list[os.DirEntry[str]]:
    listed = []
    with os.scandir(folder) as entries:
        for entry in entries:
            result.names += 1
            listed.append(entry)
    return sorted(listed, key=lambda entry: entry.name)


def _note(path: str, error: OSError, result: Discovery, *, is_link: bool = False) -> None:
    if not isinstance(error, FileNotFoundError):
        result.leave_out(path, reason_of(error))
    elif is_link:
        result.leave_out(path, "broken symlink")
    else:
        result.passed_over.append((path, "deleted since the directory was listed"))


_MOST_REASONS = 4
SILENT_S = 3.0
"""A file system that has not answered for so long is said not to."""


def is_awaited(discovery: Discovery) -> bool:
    """Is there no file yet, and nothing named that can only be a file?

    A path that does not exist and has no suffix may become a directory or a file.
    """
    return all(each.path in discovery.missing and not PurePath(each.path).suffix for each in discovery.found)


def awaited(paths: Sequence[str], discovery: Discovery) -> Found:
    """The run that `paths` will have, as far as one can tell before it has begun."""
    path = next(iter(paths), ".")
    return Found(path, Label.of(whole_path(path).name or path), awaits=_words(paths or ["."], discovery))


def still_looking(paths: Sequence[str], so_far: Discovery, silent_s: float = 0.0) -> Found:
    """What stands for the runs of `paths` while the first look at them has not come to its end."""
    path = next(iter(paths), ".")
    return Found(path, Label.of(whole_path(path).name or path), awaits=progress_words(paths, so_far, silent_s))


def progress_words(paths: Sequence[str], so_far: Discovery, silent_s: float = 0.0) -> str:
    """How far a look has come."""
    where = " and ".join(paths) or "."
    if silent_s >= SILENT_S:
        return f"no answer from the file system for {silent_s:.0f} s while scanning {where}; still waiting"
    return f"scanning {where}: {so_far.names:,} entries, {so_far.opened:,} files read so far"


def _words(paths: Sequence[str], discovery: Discovery) -> str:
    where = " or ".join(paths)
    if all(path in discovery.missing for path in paths):
        words = f"nothing at {where} yet; waiting for a metric file"
    else:
        words = f"no metric file yet; waiting for one in {where}"
    if discovery.completions:
        return f"{words}; there are completions, which the page of rollouts shows: {', '.join(discovery.completions)}"
    left = discovery.passed_over
    if not left:
        return words
    reasons = Counter(reason for _, reason in left).most_common()
    names = {reason: PurePath(path).name for path, reason in reversed(left)}
    told = [
        f"{names[reason]}{'' if count == 1 else f' and {count - 1} more'} ({reason})"
        for reason, count in reasons[:_MOST_REASONS]
    ]
    more = ", …" if len(reasons) > _MOST_REASONS else ""
    return f"{words}; {len(left)} file{'' if len(left) == 1 else 's'} without metrics: {', '.join(told)}{more}"


_RANGES_FILE = "ranges.json"
_MOST_RANGE_BYTES = 4 * 1024 * 1024
_SETTING = regex(r"(name|reward_min|reward_max)\s*:\s*(.*?)\s*(?:\s#.*)?$")
_ENVIRONMENTS = regex(r"(\s*)environments\s*:\s*(?:#.*)?$")


def read_ranges(path: str, note: Callable[[str, str], None]) -> Ranges:
    """What is declared beside a run; nothing, where nothing is.

    Args:
        note: told the path and the reason of a file that cannot be used.
    """
    where = Path(path)
    home = where if where.is_dir() else where.parent
    found: dict[str, Range] = {}
    inner = home / "files"
    for folder in (home, inner) if inner.is_dir() else (home,):
        for name, read in _READERS:
            file = folder / name
            try:
                if not file.is_file():
                    continue
                if file.stat().st_size > _MOST_RANGE_BYTES:
                    raise ValueError(f"larger than {_MOST_RANGE_BYTES} bytes")
                found |= read(file.read_text("utf-8", errors="replace"))
            except OSError as error:
                note(str(file), error.strerror or "cannot be read")
            except (ValueError, RecursionError) as error:
                note(str(file), f"ranges not read: {error}")
    return Ranges(found) if found else NONE


def _sidecar(text: str) -> dict[str, Range]:
    declared = json.loads(text)
    if not isinstance(declared, dict):
        raise ValueError('expected {"key": [low, high], …}')
    found = of_environments(_as_list(declared.pop("environments", None)))
    for key, value in list(declared.items())[:MAX_DECLARED]:
        each = range_of(value)
        if each is None:
            raise ValueError(f"{key!r} is not [low, high] with low below high")
        found[key] = each
    return found


def _summary(text: str) -> dict[str, Range]:
    summary = json.loads(text)
    details = summary.get("env_details") if isinstance(summary, Mapping) else None
    return of_environments(_as_list(json.loads(details) if isinstance(details, str) else details))


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _settings(text: str) -> dict[str, Range]:
    """The environments of a settings file, by its indentation: a list of names and numbers needs no more of YAML."""
    return of_environments(_environments(text.splitlines()))


def _environments(lines: Iterable[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    indent = item_indent = -1
    for line in lines:
        begin = _ENVIRONMENTS.match(line)
        if begin is not None and indent < 0:
            indent = len(begin[1])
            continue
        if indent < 0 or not line.strip() or line.lstrip().startswith("#"):
            continue
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if depth < indent or (depth == indent and not text.startswith("- ")):
            indent = item_indent = -1
            continue
        if text.startswith("- ") and item_indent in (-1, depth):
            item_indent = depth
            found.append({})
            depth, text = depth + 2, text[2:].strip()
        setting = _SETTING.match(text)
        if setting is not None and found and depth == item_indent + 2:
            found[-1][setting[1]] = _scalar(setting[2])
    return found


def _scalar(text: str) -> object:
    text = text.strip("\"'")
    try:
        return float(text)
    except ValueError:
        return text


_READERS: tuple[tuple[str, Callable[[str], dict[str, Range]]], ...] = (
    ("config.yaml", _settings),
    ("wandb-summary.json", _summary),
    (_RANGES_FILE, _sidecar),
)
"""By name; what comes later wins."""

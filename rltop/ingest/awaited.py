"""A run that has yet to begin: what is waited for, and where, while there is no file of metrics.

Owns the words. Looking again is `rescan`'s, taking in what appeared `Session.update`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

from rltop.ingest.discover import Discovery
from rltop.ingest.found import Found
from rltop.model import Label

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
    where = Label.of(Path(path).absolute().name or path)
    return Found(path, where, awaits=_words(paths or ["."], discovery))


def still_looking(paths: Sequence[str], so_far: Discovery, silent_s: float = 0.0) -> Found:
    """What stands for the runs of `paths` while the first look at them has not come to its end.

    Args:
        paths: as typed.
        so_far: what the look has counted.
        silent_s: for how long the file system has owed it an answer.
    """
    path = next(iter(paths), ".")
    return Found(path, Label.of(Path(path).absolute().name or path), awaits=progress_words(paths, so_far, silent_s))


def progress_words(paths: Sequence[str], so_far: Discovery, silent_s: float = 0.0) -> str:
    """How far a look has come."""
    where = " and ".join(paths) or "."
    if silent_s >= SILENT_S:
        return f"no answer from the file system for {silent_s:.0f} s while looking through {where}; still waiting"
    return f"looking through {where}: {so_far.names:,} names, {so_far.opened:,} files read so far"


def _words(paths: Sequence[str], discovery: Discovery) -> str:
    where = " or ".join(paths)
    if all(path in discovery.missing for path in paths):
        words = f"nothing at {where} yet; waiting for a metric file"
    else:
        words = f"no metric file yet; waiting for one in {where}"
    left = discovery.passed_over
    if not left:
        return words
    reasons = Counter(reason for _, reason in left).most_common()
    told = [reason if count == 1 else f"{reason} ({count}×)" for reason, count in reasons[:_MOST_REASONS]]
    name = next(PurePath(path).name for path, reason in left if reason == reasons[0][0])
    if len(left) == 1:
        return f"{words}; there is {name}: {told[0]}"
    more = ", …" if len(reasons) > _MOST_REASONS else ""
    return f"{words}; there are {len(left)} other files, {name} among them: {', '.join(told)}{more}"

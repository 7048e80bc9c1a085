"""The user's own processes on this node that write a job's files: a stopped one (Ctrl-Z) makes no progress."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rltop.live.probe import Process

SOURCE = "writers of its files"
STOPPED = "T"
MOST_PROCESSES = 4_096


def own_pids(proc: str = "/proc") -> Iterator[str]:
    """Ids of the user's own processes: nothing is ever read of another user's."""
    try:
        with os.scandir(proc) as entries:
            pids = [entry.name for entry in entries if entry.name.isdecimal()]
    except OSError:
        return
    for pid in pids[:MOST_PROCESSES]:
        with suppress(OSError):  # it has ended
            if os.stat(f"{proc}/{pid}").st_uid == os.getuid():  # noqa: PTH116 - a thousand of them every few seconds
                yield pid


def writers(files: Iterable[str], now_s: float, states: str = "", proc: str = "/proc") -> list[Process]:
    """The processes that have one of the files open for writing.

    Of a process only its state, its name and the paths of its open files are read.

    Args:
        states: only processes in one of these states of `proc(5)`; empty for any.
    """
    wanted, host = {os.path.realpath(file) for file in files if file}, os.uname().nodename.partition(".")[0]
    found = []
    for pid in own_pids(proc):
        with suppress(OSError, ValueError):  # it has ended
            name, _, rest = Path(proc, pid, "stat").read_text(errors="replace").partition("(")[2].rpartition(") ")
            if (not states or rest[0] in states) and int(pid) != os.getpid() and _has_open(f"{proc}/{pid}", wanted):
                state = "stopped" if rest[0] == STOPPED else "unknown"
                found.append(Process(SOURCE, now_s, name, state=state, pid=int(pid), host=host))
    return found


def stopped_writers(files: Collection[str], now_s: float) -> Sequence[Process]:
    """All writers of the files if all of them are stopped; none otherwise."""
    # Most processes are not stopped, and which files they have open takes longest to read.
    return all_stopped(writers(files, now_s)) if writers(files, now_s, STOPPED) else ()


def all_stopped(found: Sequence[Process]) -> Sequence[Process]:
    """The writers if all of them are stopped; none if one goes on, as that of a job that was started anew."""
    return found if all(each.state == "stopped" for each in found) else ()


def _has_open(folder: str, wanted: Collection[str]) -> bool:
    for number in os.listdir(f"{folder}/fd"):  # noqa: PTH208 - hundreds of them every few seconds
        # The link is not followed: that may hang on a network file system.
        if os.readlink(f"{folder}/fd/{number}") in wanted:  # noqa: PTH115 - as above
            flags = Path(folder, "fdinfo", number).read_text().partition("flags:")[2].split()[0]
            if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                return True
    return False

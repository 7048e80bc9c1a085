"""Processes of a job on this node: the writers of its files that are stopped (Ctrl-Z), and those that are gone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rltop.live.probe import Process

SOURCE = "writers of its files"
STOPPED = "T"
MOST_PROCESSES = 4_096
GONE = "gone without a word"
_FIRST_NAMESPACE = "4026531836"  # the process namespace that sees all others: `PROC_PID_INIT_INO` of Linux


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
    """The writers of the files if all are stopped; none if one goes on, as that of a job that was started anew."""
    # Most processes are not stopped, and which files they have open takes longest to read.
    found = writers(files, now_s) if writers(files, now_s, STOPPED) else ()
    return found if all(each.state == "stopped" for each in found) else ()


def _has_open(folder: str, wanted: Collection[str]) -> bool:
    for number in os.listdir(f"{folder}/fd"):  # noqa: PTH208 - hundreds of them every few seconds
        # The link is not followed: that may hang on a network file system.
        if os.readlink(f"{folder}/fd/{number}") in wanted:  # noqa: PTH115 - as above
            flags = Path(folder, "fdinfo", number).read_text().partition("flags:")[2].split()[0]
            if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                return True
    return False


def gone(processes: Collection[Process], now_s: float, files: Collection[str] = ()) -> Sequence[Process]:
    """A job's processes of this node that no longer exist. Read its files after: one may have ended its phase.

    None if a process that is in no phase holds its files open: it may go on without its child.
    """
    found = [each for each in processes if each.pid is not None and each.state == "running" and _is_gone(each)]
    inside = {each.pid for each in processes}
    if found and any(each.pid not in inside for each in writers(files, now_s)):
        return []
    return [Process(SOURCE, now_s, state="dead", pid=each.pid, host=each.host, cause=GONE) for each in found]


def place_of(process: Process) -> str:
    """Where the id of a process means something, if that is not here: ` on node-3`, ` in its container`."""
    node = os.uname().nodename
    if process.host not in (node, node.partition(".")[0]):
        return f" on {process.host or 'its node'}"
    return " in its container" if process.identity and process.identity.split("-")[:2] != _own_place() else ""


def _own_place() -> list[str]:
    # Boot and process namespace, as in `Process.identity`; empty elsewhere than on Linux.
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return [boot, str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")]
    return []


def _is_gone(process: Process) -> bool:
    assert process.pid is not None
    boot, namespace, begun = (*process.identity.split("-"), "", "", "")[:3]
    own, node = _own_place(), os.uname().nodename
    if [boot, namespace] != own and (process.identity or process.host != node or node.startswith("localhost")):
        return False
    try:
        try:
            os.kill(process.pid, 0)
            fields = Path(f"/proc/{process.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            is_gone = fields[0] in "ZX" or (begun != "" and fields[19] != begun)
        except (ProcessLookupError, FileNotFoundError):
            is_gone = True
        return is_gone and (process.identity != "" or not _may_be_elsewhere(process.pid, own[1]))
    except (OSError, ValueError, IndexError):
        return False  # not Linux, or the process of another user, which exists


def _may_be_elsewhere(pid: int, namespace: str) -> bool:
    # A process of a container of this node has another id in a namespace of its own.
    if namespace != _FIRST_NAMESPACE or not os.path.exists("/proc/1/status"):  # noqa: PTH110
        return True
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            ids = status.read_text(errors="replace").partition("NSpid:")[2].partition("\n")[0].split()
            if str(pid) in ids[1:]:
                return True
    return False

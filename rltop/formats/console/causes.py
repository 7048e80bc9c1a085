"""What lines around a failure tell of its cause: which rank, process and phase, who sent a signal.

Every form was taken from what PyTorch, Ray, torchrun, shells and Slurm print.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltop.regex import regex
from rltop.structs import NamedTuple

MOST_RANKS = 4_096
APART_LINES = 2_000
"""Lines further behind the last one are of another failure."""
_TABLE_LINES = 2
"""So many lines below its title the first row of Ray's table stands at the latest."""

_RANK = regex(r"\[(?:[^\[\]]{0,24}[ \[])?[Rr]ank ?(\d{1,6})\]")
_WATCHDOG = regex(r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+), OpType=(\w+)")
_ENQUEUED = regex(r"last enqueued NCCL work: (-?\d+), last completed NCCL work: (-?\d+)")
_TASK = regex(r"RayTaskError\(\w+\): ray::([\w.]{1,120})\(\) ?\(pid=(\d+)(?:, ip=([\w.:-]+))?")
_KILLED = regex(r"where the task \(.{0,300}?name=([^,()]{1,120}), pid=(\d+), memory used=([\d.]+ ?[KMGT]?B)\)")
_SELECTED = regex(r"Selected to kill: \(.{0,300}?task name=([^,()]{1,120}), .{0,80}?memory used=([\d.]+ ?[KMGT]?B)")
_NODE = regex(r"[Mm]emory on the node \(IP: ([\w.:-]+)[^)]*\).*? was ([\d.]+ ?[KMGT]?B) / ([\d.]+ ?[KMGT]?B)")
_USERS = "memory users"
_USER = regex(r"(?:\(\w+[^()]*\) )?(\d{1,9})\s+([\d.]+)\s+ray::([^\s(]{1,120})")
_SIGNAL = regex(
    r"\bSignal (\d+) \(SIG|[Dd]ied with <?\w*\.?SIG\w+: (\d+)|exitcode\s*: -(\d+)|[Gg]ot signal: (\d+)"
    r"|\bReceived (?:Signals\.)?(SIG[A-Z]+|\d+) death signal|exit(?:ed with exit)? code:? (129|137|143)\b|^(Killed)\s*$"
    r"|: line \d+: +\d+ (Killed)\b"
)
_NAMES = {"SIGHUP": 1, "SIGINT": 2, "SIGKILL": 9, "SIGTERM": 15, "Killed": 9, "129": 1, "137": 9, "143": 15}
_SENDERS = {
    1: "the terminal or SSH session it was started from was closed",
    9: "by the kernel when memory ran out, or by the scheduler",
    15: "by the scheduler at its time limit or to preempt, or by hand",
}
_FULL = regex(r"No space left on device|[Dd]isk quota exceeded|PytorchStreamWriter failed writing")
_OF_CHECKPOINT = regex(r"PytorchStreamWriter|check_?point|ckpt|global_step|safetensors", re.IGNORECASE)


class Collective(NamedTuple):
    """Where a rank waits: operation and sequence number of a collective."""

    operation: str
    number: int


class Causes:
    """Takes the lines that tell of failures, and says what they tell together of the last one."""

    def __init__(self) -> None:
        self._forget()
        self._number = 0

    def _forget(self) -> None:
        self._waits: dict[int, Collective] = {}
        self._enqueued: dict[int, tuple[int, int]] = {}
        self._ranks: dict[str, set[int]] = {}
        self._task = self._memory = self._user = ""
        self._users_at = -1
        self._is_saving = False

    @property
    def method(self) -> str:
        """What Ray's process was in that failed, without its class; empty where that is not told."""
        return self._task.partition(",")[0].rpartition(".")[2]

    def take(self, text: str, number: int) -> None:
        """Note a line.

        Args:
            text: of the line, with the prefixes of launchers, without escape codes.
        """
        if number - self._number > APART_LINES:
            self._forget()
        self._number = number
        rank = int(said[1]) if (said := _RANK.search(text)) else None
        if rank is not None and len(self._waits) < MOST_RANKS:
            if found := _WATCHDOG.search(text):
                self._waits.setdefault(rank, Collective(found[2], int(found[1])))
            if found := _ENQUEUED.search(text):
                self._enqueued.setdefault(rank, (int(found[1]), int(found[2])))
        self._take_ray(text, number)
        if _FULL.search(text):
            self._is_saving = self._is_saving or _OF_CHECKPOINT.search(text) is not None
        if rank is not None and (kind := _kind_of(text)):
            self._ranks.setdefault(kind, set()).add(rank)

    def _take_ray(self, text: str, number: int) -> None:
        if found := _TASK.search(text):
            self._task = f"{found[1]}, pid {found[2]}" + (f" on {found[3]}" if found[3] else "")
            self._is_saving = self._is_saving or "save" in found[1]
        if "memory" in text:
            node = _NODE.search(text)
            killed, selected = _KILLED.search(text), _SELECTED.search(text)
            where = f"; node {node[1]} at {node[2]} of {node[3]}" if node else ""
            if killed:
                self._memory = f"{killed[1]}, pid {killed[2]}, used {killed[3]}{where}"
            elif selected:
                self._memory = f"{selected[1]} used {selected[2]}{self._memory or where}"
            elif node:
                self._memory = where
            if _USERS in text:
                self._users_at, self._user = number, ""
        if 0 <= number - self._users_at <= 10 and not self._user and (found := _USER.match(text)):
            most = "largest" if number - self._users_at <= _TABLE_LINES else "largest of Ray's processes"
            self._user = f"{most}: {found[3]}, pid {found[1]}, {found[2]} GB"

    def detail(self, text: str) -> str:
        """What is known of a failure beyond its line; empty where that is nothing."""
        if "Watchdog" in text or "NCCL" in text:
            return waits_in_words(self._waits) or _behind(self._enqueued)
        kind = _kind_of(text)
        parts = []
        if kind == "memory" and (self._memory or self._user):
            parts += [self._memory.removeprefix("; "), self._user]
        elif self._task and kind != "signal":
            parts.append(f"in {self._task}")
        ranks = sorted(self._ranks.get(kind, ()))
        if ranks and kind != "signal":
            parts.append(f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}")
        if kind == "disk" and self._is_saving:
            parts.append("while a checkpoint was saved: the newest one may be incomplete")
        if kind == "signal":
            parts.append(_sender(text))
        return "; ".join(part for part in parts if part)


def _kind_of(text: str) -> str:
    if "out of memory" in text.lower() or "OutOfMemory" in text or "running low on memory" in text or "OOM" in text:
        return "memory"
    if _FULL.search(text):
        return "disk"
    return "signal" if _SIGNAL.search(text) else ""


def _sender(text: str) -> str:
    found = _SIGNAL.search(text)
    said_as = "" if found is None else next(filter(None, found.groups()))
    return _SENDERS.get(_NAMES.get(said_as) or int(said_as if said_as.isdigit() else 0), "")


def waits_in_words(waits: dict[int, Collective]) -> str:
    """Which ranks wait elsewhere than the others, as one says it; empty where fewer than two tell.

    Ranks of one collective wait in the same operation with the same number. The smallest group is named first: it went
    another way. Where all wait in one place, those between them that say nothing are named: they did not get there.
    """
    if len(waits) < 2:
        return ""
    groups: dict[Collective, list[int]] = {}
    for rank in sorted(waits):
        groups.setdefault(waits[rank], []).append(rank)
    told = sorted(groups.items(), key=lambda one: (len(one[1]), one[1]))
    if len(told) > 1:
        return "; ".join(f"{_named(ranks)} in {place.operation} {place.number}" for place, ranks in told[:3]) + (
            "; …" if len(told) > 3 else ""
        )
    place, ranks = told[0]
    silent = sorted(set(range(ranks[-1])) - set(ranks))
    text = f"{_named(ranks)} in {place.operation} {place.number}"
    return f"{_named(silent)} did not get to {place.operation} {place.number}, {_named(ranks)} did" if silent else text


def _behind(enqueued: dict[int, tuple[int, int]]) -> str:
    least = min(enqueued.values(), default=(0, 0))
    behind = [rank for rank in sorted(enqueued) if enqueued[rank] == least]
    if len(behind) == len(enqueued):
        return ""
    most = max(enqueued.values())
    return f"{_named(behind)} at collective {least[0]}, others at {most[0]}"


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def ranges(numbers: Sequence[int]) -> str:
    """`0–2, 5, 7` of ascending numbers; of many ranges the first four."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = [f"{first}–{last}" if last > first else f"{first}" for first, last in runs]
    return ", ".join(told[:4]) + (", …" if len(told) > 4 else "")

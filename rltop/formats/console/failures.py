"""Recognises lines of a console log that report a failure, and lines that say that the run is done.

Failures: the exception at the end of a traceback, out of memory, a failed collective, a job that was killed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltop.formats.console.scan import LAUNCHED
from rltop.formats.decoder import CAUGHT_S, FATAL_S
from rltop.model import Label
from rltop.regex import regex
from rltop.structs import NamedTuple

# -- the cause of a failure, from the lines around it: rank, process, phase, source of a signal --------------------
# All patterns are from real output of PyTorch, Ray, torchrun, shells and Slurm.

MOST_RANKS = 4_096
APART_LINES = 2_000
"""Lines further apart belong to different failures."""
_TABLE_LINES = 2
"""The first row of Ray's table is at most this many lines below its title."""

_RANK = regex(r"\[(?:[^\[\]]{0,24}[ \[])?[Rr]ank ?(\d{1,6})\]")
_WATCHDOG = regex(r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+), OpType=(\w+)")
_ENQUEUED = regex(r"last enqueued NCCL work: (-?\d+), last completed NCCL work: (-?\d+)")
_TASK = regex(r"RayTaskError\(\w+\): ray::([\w.]{1,120})\(\) ?\(pid=(\d+)(?:, ip=([\w.:-]+))?")
_OF_TASK = regex(r": ray::[\w.]{1,120}\(\) ?\(pid=.*")
_KILLED = regex(r"where the task \(.{0,300}?name=([^,()]{1,120}), pid=(\d+), memory used=([\d.]+ ?[KMGT]?B)\)")
_SELECTED = regex(r"Selected to kill: \(.{0,300}?task name=([^,()]{1,120}), .{0,80}?memory used=([\d.]+ ?[KMGT]?B)")
_NODE = regex(r"[Mm]emory on the node \(IP: ([\w.:-]+)[^)]*\).*? was ([\d.]+ ?[KMGT]?B) / ([\d.]+ ?[KMGT]?B)")
_USERS = "memory users"
_USER = regex(r"(?:\(\w+[^()]*\) )?(\d{1,9})\s+([\d.]+)\s+ray::([^\s(]{1,120})")
_SIGNAL = regex(
    r"\bSignal (\d+) \(SIG|[Dd]ied with <?\w*\.?SIG\w+: (\d+)|exitcode\s*: -(\d+)|[Gg]ot signal: (\d+)"
    r"|\bReceived (?:Signals\.)?(SIG[A-Z]+|\d+) death signal|exit(?:ed with exit)? code:? (129|137|143)\b"
    r"|^(Killed|Terminated)\s*$|: line \d+: +\d+ (Killed|Terminated)\b"
)
_NAMES = {
    "SIGHUP": 1, "SIGINT": 2, "SIGKILL": 9, "SIGTERM": 15, "Killed": 9, "Terminated": 15, "129": 1, "137": 9, "143": 15,
}  # fmt: skip
_SENDERS = {
    1: "the terminal or SSH session it was started from was closed",
    9: "by the kernel when memory ran out, or by the scheduler",
    15: "by the scheduler at its time limit or to preempt, or by hand",
}
_FULL = regex(r"No space left on device|[Dd]isk quota exceeded|PytorchStreamWriter failed writing")
_OF_CHECKPOINT = regex(r"PytorchStreamWriter|check_?point|ckpt|global_step|safetensors", re.IGNORECASE)


class Collective(NamedTuple):
    """The collective in which a rank waits: operation and sequence number."""

    operation: str
    number: int


class Causes:
    """Collects the lines that report failures, and summarises what they say about the last one."""

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
        """The method of the Ray process that failed, without its class; empty if unknown."""
        return self._task.partition(",")[0].rpartition(".")[2]

    def take(self, text: str, number: int) -> None:
        """Record a line, with its launcher prefixes but without escape codes."""
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
        """What is known of a failure beyond its line; may be empty."""
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
            parts.append(_named(ranks))
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
    """Describes which ranks wait elsewhere than the others; empty if fewer than two are known.

    The ranks in a collective wait in the same operation with the same number. The smallest group is named first,
    because it took another path. If all wait in the same place, the missing lower ranks are named.
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
    """Ascending numbers as `0–2, 5, 7`; at most four ranges."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = [f"{first}–{last}" if last > first else f"{first}" for first, last in runs]
    return ", ".join(told[:4]) + (", …" if len(told) > 4 else "")


DONE: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (of, sign, regex(pattern))
    for of, sign, pattern in (
        ("SkyRL", "Training done!", r"\bTraining done!"),
        ("NeMo-RL", "stopping training early", r"(?:Max number of steps|Timeout) has been reached, stopping"),
        ("prime-rl", "finished", r"(?:RL trainer finished!|Orchestrator finished\.|Training finished!)"),
        ("veRL", "Final validation metrics", r"\bFinal validation metrics"),
        ("ROLL", "pipeline complete", r"\bpipeline complete!"),
        ("TRL", "train_runtime", r"['\"]train_runtime['\"]:"),
        ("AReaL", "Training completes", r"\bTraining completes!"),
        ("a launcher", "exits successfully", r"\bProcess \d+ exits successfully"),
        ("a loop", "inal model", r"\b[Ss]aved (?:the )?final model\b"),
        (
            "a loop",
            "raining",
            r"\b[Tt]raining (?:run |job )?(?:is |has )?(?:completed?|finished|done)\b(?! (?:step|epoch|batch))",
        ),
        ("Ray", "raysubmit", r"Job '[\w.-]+' succeeded"),
    )
)
"""Lines that say that the run is done: (writer, substring of every such line, pattern)."""


def says_done(line: str) -> bool:
    return any(sign in line and pattern.search(line) for _, sign, pattern in DONE)


# -- lines that report a failure --------------------------------------------------------------------------------------

MAX_TEXT_CHARS = 300
_BESIDE_DETAIL = 160
MAY_FAIL = (
    "rror", "ERROR", "CRITICAL", "FATAL", "SIG", "OOM", "oom", "emory", "NCCL", "nccl", "space left", "dumped", "quota",
    "xception", "nterrupt", "Exit", "EXHAUSTED", "Watchdog", "fault", "DUE TO", "Killed", "Terminated", "died with",
    "exitcode", "death signal", "raysubmit", "Could not override", "No module named", "can't open file",
)  # fmt: skip
"""Every failure line contains one of these; searching for them is ten times as fast as the patterns."""
_PREFIX = regex(
    rf"^(?:\s*(?:{LAUNCHED}"
    r"|[EFW]\d{4} [\d:.]{8,15} +\d{1,12} [\w/.-]{1,120}:\d{1,6}\]|traceback *: (?=Signal \d)))*\s?"
)
_EXCEPTION = regex(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit)"
    r"(?:\(\w{1,60}\))?(?::\s.*|\s*$)"
)
_LAUNCHER_SAYS = r"\bJob 'raysubmit\w*' failed|\bHYDRA_FULL_ERROR=1 for a complete stack trace"
"""The last line of a launcher, which names no cause."""
_OTHER = regex(
    r"CUDA out of memory|CUDA error:|oom[-_ ]kill|OOM[- ][Kk]ill|Out of memory: Killed|RESOURCE_EXHAUSTED"
    r"|[1-9]\d* Workers? \(tasks / actors\) killed due to memory pressure|killed due to the node running low on memory"
    r"|PytorchStreamWriter failed writing"
    r"|NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError"
    r"|Watchdog caught collective operation timeout|Segmentation fault|Bus error|Fatal Python error"
    r"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|TASK FAILURE)|^(?:Killed|Terminated)\s*$"
    r"|: line \d+: +\d+ (?:Killed|Terminated)\b"
    r"|^(?:Syntax|Indentation|Tab)Error: |\bMain process received SIG(?:INT|TERM|HUP)\b"
    r"|srun: error:|slurmstepd: error:"
    r"|\*\*\* SIG(?:ABRT|SEGV|BUS|FPE|ILL) received at time="
    r"|\bSignal \d+ \(SIG[A-Z]+\) received by PID|died with <?[Ss]ig|exitcode\s*: -?[1-9]"
    rf"|\bReceived (?:SIGINT|SIGTERM|\d+) death signal|{_LAUNCHER_SAYS}|^Could not override '"
    r"|^(?:\S{0,200}/)?python[\d.]{0,8}: (?:Error while finding module|No module named|can't open file) "
)
_INTERRUPTION = regex(
    r"(?:^|[.\s])KeyboardInterrupt\b|\bSIGINT\b|[Gg]ot signal: 2\b|exitcode\s*: -2\b|\bCANCELLED AT\b(?!.*\bDUE TO\b)"
    r"|by signal: Interrupt\b"
)
_AFTERMATH = regex(
    r"\b(?:ChildFailedError|CalledProcessError|SystemExit|BrokenPipeError|ConnectionResetError|SignalException)\b"
    r"|NCCL communicator was aborted|ncclRemoteError"
    rf"|{_LAUNCHER_SAYS}"
    r"|DataLoader worker|^srun: error:|^slurmstepd: error:(?!.*(?:DUE TO|oom))|exitcode\s*:(?! ?-)"
)
"""Follow-up errors of launchers and other processes, which name no cause."""
_CATCHABLE = regex(r"^(?:Syntax|Indentation|Tab)Error: ")
_LAST_WORDS = regex(rf"\b(?:ChildFailedError|SystemExit|SignalException)\b|^srun: error:|exitcode\s*:|{_LAUNCHER_SAYS}")
_SAMPLE = regex(r"\[(?:prompt|response)\](?:\s|$)")
_SAMPLE_END = regex(r"\[(?:ground_truth|score)\]\s")
SAMPLE_SIGNS = ("[prompt]", "[response]", "[ground_truth]", "[score]")
"""A printed sample begins and ends with one of these."""
_SAMPLE_LINES = 2_000
OF_TRACKERS = ("wandb:", "mlflow", "swanlab:", "* Trackio")
"""Prefixes of lines that trackers print when the process ends."""


_OF_PEERS = regex(
    r"Watchdog caught collective operation timeout|NCCL communicator was aborted|ncclRemoteError"
    r"|[Cc]onnection (?:closed|reset) by peer|remote process exited"
)


def is_of_peers(text: str) -> bool:
    # It fails because another process no longer answers.
    return _OF_PEERS.search(text) is not None


def is_interruption(text: str) -> bool:
    return _INTERRUPTION.search(text) is not None


class ConsoleError(NamedTuple):
    """A line that reports a failure.

    Attributes:
        line: line number in the file, from 1.
        text: the line without launcher prefixes, at most 300 characters.
        rows_before: metric rows before it; if there are more now, the run went on.
        detail: what the lines around it add: rank, process, source of a signal; may be empty.
        is_final: the job cannot have caught it, according to it or to another line of the same failure.
        has_left: according to its traceback it has left the program's main file, so it was most likely not caught.
    """

    line: int
    offset: int
    text: Label
    rows_before: int
    is_exception: bool
    detail: str = ""
    is_final: bool = False
    has_left: bool = False

    @property
    def words(self) -> str:
        """The line with its detail; if there is one, a long line is shortened."""
        text = self.text.raw
        if not self.detail:
            return text
        text = _OF_TASK.sub("", text)  # the detail says it in fewer words
        return f"{text if len(text) <= _BESIDE_DETAIL else text[:_BESIDE_DETAIL] + '…'} ({self.detail})"

    @property
    def dies_after_s(self) -> float:
        """Seconds without progress after which this is what the job died of."""
        return FATAL_S if self.is_final else CAUGHT_S

    def outweighs(self, later: ConsoleError) -> bool:
        """Does it say more than a later line of the same failure? Of an error and an interruption, the first counts."""
        if later.rows_before != self.rows_before:
            return False
        if self._weight != later._weight:
            return self._weight > later._weight
        is_interrupted, is_cause = is_interruption(self.text.raw), self._weight[0]
        return is_interrupted != is_interruption(later.text.raw) and (is_cause or is_interrupted)

    @property
    def _weight(self) -> tuple[bool, bool]:
        return _AFTERMATH.search(self.text.raw) is None, self.is_exception or is_interruption(self.text.raw)


def error_of(text: str, line: int, offset: int, rows_before: int) -> ConsoleError | None:
    read = read_error(text)
    if read is None:
        return None
    said, is_exception = read
    return ConsoleError(line, offset, Label.of(said), rows_before, is_exception, is_final=not _may_be_caught(said))


def of_one_end(known: ConsoleError | None, later: ConsoleError) -> ConsoleError:
    """The more informative of two lines about the same failure, else the later; final if either is."""
    if known is None or known.rows_before != later.rows_before:
        return later
    kept = known if known.outweighs(later) else later
    return kept._replace(is_final=known.is_final or later.is_final, has_left=known.has_left or later.has_left)


def _may_be_caught(text: str) -> bool:
    """Is it an exception that a job may catch, print and survive?

    False for out of memory, device and collective errors, and messages of the scheduler, and if the main process or its
    launcher says that it has ended.
    """
    if is_interruption(text) or _LAST_WORDS.search(text) is not None:
        return False
    return _CATCHABLE.search(text) is not None or not tells_alone(text)


class PrintedSamples:
    """Recognises lines within printed samples, where an error is text of a model or a data set.

    veRL prints `[prompt]`, `[response]`, `[ground_truth]` and `[score]`, each over as many lines as it has.
    """

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def take(self, text: str, number: int) -> bool:
        """Does the line belong to a sample?"""
        if not self._begun and "[" not in text:
            return False
        end = _match_end(text)
        process = text[:end].strip()
        if _SAMPLE.match(text, end) is not None:
            self._begun[process] = number
        elif _SAMPLE_END.match(text, end) is not None:
            return self._begun.pop(process, None) is not None
        begun = self._begun.get(process)
        if begun is not None and number - begun > _SAMPLE_LINES:
            del self._begun[process]
            return False
        return begun is not None


def read_error(text: str) -> tuple[str, bool] | None:
    """The failure that a line reports, and whether it is an exception line; None if it reports none."""
    text = text[: 4 * MAX_TEXT_CHARS]
    text = text[_match_end(text) :]
    is_exception = _EXCEPTION.match(text) is not None
    if is_exception or _OTHER.search(text) is not None:
        return text.strip()[:MAX_TEXT_CHARS], is_exception
    return None


def names_no_cause(text: str) -> bool:
    # The last word of a launcher, behind the error itself.
    return re.search(_LAUNCHER_SAYS, text) is not None


def tells_alone(text: str) -> bool:
    """Is the line certain by itself? The name of an exception alone could be any word before a colon."""
    return _OTHER.search(text) is not None


def _match_end(text: str) -> int:
    prefix = _PREFIX.match(text)
    return 0 if prefix is None else prefix.end()

"""Which lines of a console tell that something went wrong.

The exception at the end of a traceback, memory that ran out, a collective that failed, a job that was ended.
"""

from __future__ import annotations

from rltop.formats.console.lines import LAUNCHED
from rltop.formats.decoder import CAUGHT_S, FATAL_S
from rltop.model import Label
from rltop.regex import regex
from rltop.structs import NamedTuple

MAX_TEXT_CHARS = 300
_BESIDE_DETAIL = 160
MAY_FAIL = (
    "rror", "ERROR", "CRITICAL", "FATAL", "SIG", "OOM", "oom", "emory", "NCCL", "nccl", "space left", "dumped", "quota",
    "xception", "nterrupt", "Exit", "EXHAUSTED", "Watchdog", "fault", "DUE TO", "Killed", "died with", "exitcode",
    "raysubmit", "Could not override", "No module named", "can't open file",
)  # fmt: skip
"""One of them stands in every line that tells of a failure; they are found ten times as fast as the patterns."""
_PREFIX = regex(
    rf"^(?:\s*(?:{LAUNCHED}"
    r"|[EF]\d{4} [\d:.]{8,15} +\d{1,12} [\w/.-]{1,120}:\d{1,6}\]|traceback *: (?=Signal \d)))*\s?"
)
_EXCEPTION = regex(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit)"
    r"(?:\(\w{1,60}\))?(?::\s.*|\s*$)"
)
_OTHER = regex(
    r"CUDA out of memory|CUDA error:|oom[-_ ]kill|OOM[- ][Kk]ill|Out of memory: Killed|RESOURCE_EXHAUSTED"
    r"|[1-9]\d* Workers? \(tasks / actors\) killed due to memory pressure|killed due to the node running low on memory"
    r"|PytorchStreamWriter failed writing"
    r"|NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError"
    r"|Watchdog caught collective operation timeout|Segmentation fault|Bus error|Fatal Python error"
    r"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|TASK FAILURE)|^Killed\s*$|: line \d+: +\d+ Killed\b"
    r"|^(?:Syntax|Indentation|Tab)Error: |\bMain process received SIG(?:INT|TERM|HUP)\b"
    r"|srun: error:|slurmstepd: error:"
    r"|\*\*\* SIG(?:ABRT|SEGV|BUS|FPE|ILL) received at time="
    r"|\bSignal \d+ \(SIG[A-Z]+\) received by PID|died with <?[Ss]ig|exitcode\s*: -?[1-9]"
    r"|\bReceived (?:SIGINT|SIGTERM|\d+) death signal|\bJob 'raysubmit\w*' failed"
    r"|^Could not override '|\bHYDRA_FULL_ERROR=1 for a complete stack trace"
    r"|^(?:\S{0,200}/)?python[\d.]{0,8}: (?:Error while finding module|No module named|can't open file) "
)
_INTERRUPTION = regex(
    r"(?:^|[.\s])KeyboardInterrupt\b|\bSIGINT\b|[Gg]ot signal: 2\b|exitcode\s*: -2\b|\bCANCELLED AT\b(?!.*\bDUE TO\b)"
    r"|by signal: Interrupt\b"
)
_AFTERMATH = regex(
    r"\b(?:ChildFailedError|CalledProcessError|SystemExit|BrokenPipeError|ConnectionResetError|SignalException)\b"
    r"|NCCL communicator was aborted|ncclRemoteError"
    r"|\bJob 'raysubmit\w*' failed|\bHYDRA_FULL_ERROR=1\b"
    r"|DataLoader worker|^srun: error:|^slurmstepd: error:(?!.*(?:DUE TO|oom))|exitcode\s*:(?! ?-)"
)
"""What launchers and other processes say when one has failed: it names no cause."""
_CATCHABLE = regex(r"^(?:Syntax|Indentation|Tab)Error: ")
_LAST_WORDS = regex(
    r"\b(?:ChildFailedError|SystemExit|SignalException)\b|^srun: error:|exitcode\s*:|\bJob 'raysubmit\w*' failed"
    r"|\bHYDRA_FULL_ERROR=1\b"
)
_SAMPLE = regex(r"\[(?:prompt|response)\](?:\s|$)")
_SAMPLE_END = regex(r"\[(?:ground_truth|score)\]\s")
SAMPLE_SIGNS = ("[prompt]", "[response]", "[ground_truth]", "[score]")
"""One of them stands where a printed sample begins or ends."""
_SAMPLE_LINES = 2_000
OF_TRACKERS = ("wandb:", "mlflow", "swanlab:", "* Trackio")
"""How lines begin that a tracker prints when its process ends."""


def is_interruption(text: str) -> bool:
    return _INTERRUPTION.search(text) is not None


class ConsoleError(NamedTuple):
    """A line that tells of a failure.

    Attributes:
        line: number of the line in the file, from 1, as an editor counts.
        text: the line without launcher prefixes, at most 300 characters.
        rows_before: how many metric rows came before it; if more have come since, the run went on.
        detail: what the lines around it tell: rank, process, who sent a signal; may be empty.
        is_final: the job cannot have caught it, as it or a line of the same end tells.
    """

    line: int
    offset: int
    text: Label
    rows_before: int
    is_exception: bool
    detail: str = ""
    is_final: bool = False

    @property
    def words(self) -> str:
        """The line, and what is known beyond it, for which a long line is cut."""
        text = self.text.raw
        if not self.detail:
            return text
        return f"{text if len(text) <= _BESIDE_DETAIL else text[:_BESIDE_DETAIL] + '…'} ({self.detail})"

    @property
    def dies_after_s(self) -> float:
        """How long nothing must go on behind it until it is what the job died of."""
        return FATAL_S if self.is_final else CAUGHT_S

    def outweighs(self, later: ConsoleError) -> bool:
        """Does it say more of the same end than a later line? Of an error and an interruption, what was first."""
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
    """The failure that a line tells of, or None."""
    read = read_error(text)
    if read is None:
        return None
    said, is_exception = read
    return ConsoleError(line, offset, Label.of(said), rows_before, is_exception, is_final=not _may_be_caught(said))


def of_one_end(known: ConsoleError | None, later: ConsoleError) -> ConsoleError:
    """Of two lines the one that says more of the same end, or the later one; what no job survives, is told by both."""
    if known is None or known.rows_before != later.rows_before:
        return later
    kept = known if known.outweighs(later) else later
    return kept._replace(is_final=known.is_final or later.is_final)


def _may_be_caught(text: str) -> bool:
    """Is it an exception that a job may catch, print and survive?

    It is not where memory, a device, a collective or the scheduler speaks, and where the main process or its launcher
    says that it has ended.
    """
    if is_interruption(text) or _LAST_WORDS.search(text) is not None:
        return False
    return _CATCHABLE.search(text) is not None or not tells_alone(text)


class Samples:
    """Tells which lines stand in a sample that a trainer prints: what a model or a data set says is no error.

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
    """What a line tells of a failure, and whether it is an exception's own line; None if it does not."""
    text = text[: 4 * MAX_TEXT_CHARS]
    text = text[_match_end(text) :]
    is_exception = _EXCEPTION.match(text) is not None
    if is_exception or _OTHER.search(text) is not None:
        return text.rstrip()[:MAX_TEXT_CHARS], is_exception
    return None


def tells_alone(text: str) -> bool:
    """Is it no mere name of an exception, which without its traceback may be any word in front of a colon?"""
    return _OTHER.search(text) is not None


def _match_end(text: str) -> int:
    prefix = _PREFIX.match(text)
    return 0 if prefix is None else prefix.end()

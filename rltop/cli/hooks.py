"""The commands that `rltop watch` runs on alerts.

Owns which command an alert runs, how often and for how long, and that no process of
it is left behind. The alert is passed in environment variables only: text that a
trainer wrote never becomes part of a command line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rltop.clock import Clock
from rltop.model import Level, is_unsafe
from rltop.report.notices import Notice
from rltop.screen.endings import Warden
from rltop.settings import STUCK_VARIABLES, VERDICT_VARIABLES
from rltop.structs import NamedTuple

ON_CRIT, ON_WARN, ON_STALL, ON_STUCK = "--on-crit", "--on-warn", "--on-stall", "--on-stuck"
STALL_FAMILY = "liveness"

TIMEOUT_S = 60.0
PER_HOUR = 20
MOST_AT_ONCE = 4
MOST_WAITING = 64
KILL_AFTER_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""

_SHELL = "/bin/sh"
_LONGEST = 2000
_HOUR_S = 3600.0
_LOOK_S = 0.02
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


@dataclass(frozen=True, slots=True)
class HookOptions:
    """What a person asked for.

    Attributes:
        commands: flag (`--on-crit`, `--on-warn`, `--on-stall`, `--on-stuck`) → shell command.
    """

    commands: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    per_hour: int = PER_HOUR


class _Call(NamedTuple):
    """A queued command."""

    flag: str
    level: Level
    environment: Mapping[str, str]
    about: str


@dataclass(slots=True)
class _Running:
    """A running command; its process leads its own process group."""

    call: _Call
    process: subprocess.Popen[bytes]
    began_s: float
    ends_s: float
    is_ended: bool = False


class Hooks:
    """Runs commands while watching: once per incident, and once more when that gets from WARN to CRIT."""

    def __init__(
        self, options: HookOptions, clock: Clock, say: Callable[[str], None], warden: Warden | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        self._say = say
        self._warden = warden
        self._called: dict[tuple[str, str, int, int], Level] = {}
        self._starts: dict[str, deque[float]] = {flag: deque() for flag in options.commands}
        self._waiting: list[_Call] = []
        self._running: list[_Running] = []

    def call_for(self, notice: Notice, run: str, path: str) -> None:
        """Queue the command for this alert, if none has run for its incident at its level."""
        flag = self._flag(notice)
        if flag is None:
            return
        # What belongs to no incident (silence) is one by itself.
        which = (path, notice.stream, notice.incident, 0 if notice.incident else notice.episode)
        if self._called.get(which, Level.NO_DATA) >= notice.level:
            return
        self._called[which] = notice.level
        self._queue(_Call(flag, notice.level, environment_of(notice, run, path), f"{flag} for {notice.rule}"))

    def call_stuck(self, values: Sequence[str]) -> None:
        if ON_STUCK in self._options.commands:
            environment = {name: plain(value) for name, value in zip(STUCK_VARIABLES, values, strict=True)}
            self._queue(_Call(ON_STUCK, Level.WARN, environment, ON_STUCK))

    def _queue(self, call: _Call) -> None:
        about = call.about
        if len(self._waiting) >= MOST_WAITING:
            self._say(f"{about}: not run, {MOST_WAITING} commands are already queued")
            return
        self._waiting.append(call)
        self._start_waiting()

    def _flag(self, notice: Notice) -> str | None:
        """The command for an alert: that for silence, else that of its level, else that of the lower level."""
        commands = self._options.commands
        if notice.level < Level.WARN:
            return None
        if notice.family == STALL_FAMILY and ON_STALL in commands:
            return ON_STALL
        if notice.level is Level.CRIT and ON_CRIT in commands:
            return ON_CRIT
        return ON_WARN if ON_WARN in commands else None

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._waiting

    def tend(self) -> None:
        """Collect ended commands, kill those that take too long, start queued ones."""
        now = self._clock.monotonic()
        for each in list(self._running):
            if has_ended(each.process):
                self._reap(each, now)
            elif now >= each.ends_s:
                self._end(each, now)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < MOST_AT_ONCE:
            call = max(self._waiting, key=lambda each: each.level)
            self._waiting.remove(call)
            self._start(call)

    def _start(self, call: _Call) -> None:
        now = self._clock.monotonic()
        starts = self._starts[call.flag]
        while starts and now - starts[0] >= _HOUR_S:
            starts.popleft()
        if len(starts) >= self._options.per_hour:
            often = "once" if len(starts) == 1 else f"{len(starts)} runs"
            self._say(f"{call.about}: not run, limit of {often} per hour reached")
            return
        starts.append(now)
        try:
            # Its own session: one signal reaches all its processes, and signals of the terminal reach none.
            process = subprocess.Popen(
                [_SHELL, "-c", self._options.commands[call.flag]],
                stdin=subprocess.DEVNULL,
                stdout=2,
                stderr=2,
                env={**os.environ, **call.environment},
                start_new_session=True,
            )
        except OSError as error:
            self._say(f"{call.about}: cannot start: {error.strerror or error}")
            return
        self._running.append(_Running(call, process, now, now + self._options.timeout_s))
        self._tell_warden()
        self._say(f"{call.about}: started, process {process.pid}")

    def _reap(self, each: _Running, now_s: float) -> None:
        signal_group(each.process, signal.SIGKILL)
        code = each.process.wait()
        self._running.remove(each)
        self._tell_warden()
        if not each.is_ended:
            self._say(f"{each.call.about}: {outcome(code)} after {now_s - each.began_s:.1f} s")

    def _end(self, each: _Running, now_s: float) -> None:
        if each.is_ended:
            signal_group(each.process, signal.SIGKILL)
            return
        each.is_ended, each.ends_s = True, now_s + KILL_AFTER_S
        self._say(f"{each.call.about}: killed, took longer than {self._options.timeout_s:g} s")
        signal_group(each.process, signal.SIGTERM)

    def close(self) -> None:
        """End every command, SIGTERM first; returns within about `KILL_AFTER_S`."""
        self._waiting.clear()
        for each in self._running:
            signal_group(each.process, signal.SIGTERM)
        pause = threading.Event()
        for _ in range(int(KILL_AFTER_S / _LOOK_S)):
            if all(has_ended(each.process) for each in self._running):
                break
            pause.wait(_LOOK_S)
        for each in self._running:
            signal_group(each.process, signal.SIGKILL)
            each.process.wait()
            self._say(f"{each.call.about}: killed, the watch is ending")
        self._running.clear()
        if self._warden is not None:
            self._warden.dismiss()

    def _tell_warden(self) -> None:
        if self._warden is not None:
            self._warden.tell(b" ".join(b"%d" % each.process.pid for each in self._running))


def group_warden() -> Warden | None:
    """Kills the running commands if this process is killed or crashes; start it before any thread."""
    try:
        return Warden(_end_groups)
    except OSError:
        # No more processes: the watch works without it.
        return None


def _end_groups(leaders: bytes) -> None:
    groups = [int(each) for each in leaders.split()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        for _ in range(int(KILL_AFTER_S / _LOOK_S)):
            groups = [group for group in groups if _has_members(group)]
            if not groups:
                return
            time.sleep(_LOOK_S)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Has it ended? Does not reap, so that its id still names its group and nothing else."""
    if process.returncode is not None:
        return True
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a command that has not been reaped and to all its processes.

    Args:
        process: the command, the first of its group.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def outcome(code: int) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    if code == _NOT_FOUND:
        return "failed, exit code 127: command not found"
    if code == _NOT_EXECUTABLE:
        return "failed, exit code 126: command not executable"
    return "done" if code == 0 else f"failed, exit code {code}"


def environment_of(notice: Notice, run: str, path: str) -> dict[str, str]:
    """An alert as environment variables, control characters removed; one for each of `VERDICT_VARIABLES`."""
    values = (
        notice.rule, notice.title, notice.family, notice.level.word, str(notice.step), str(notice.since_step),
        notice.metric, notice.key, notice.headline, run, path, str(notice.incident or ""), notice.advice,
        notice.part,
    )  # fmt: skip
    return {name: plain(value) for name, value in zip(VERDICT_VARIABLES, values, strict=True)}


def plain(text: str) -> str:
    """`text` without control, format and bidirectional characters, at most 2000 characters of it."""
    return "".join(ch for ch in text[:_LONGEST] if not is_unsafe(ch))

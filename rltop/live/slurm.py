"""External commands, and jobs from Slurm: at most one `squeue` per minute, for all jobs.

A command runs without a shell and standard input, with limits on time and output. Inside a job, the environment
replaces a missing `squeue`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rltop.live.probe import GONE, Job, Probe, ProbeError
from rltop.regex import regex

MOST_BYTES = 4 * 1024 * 1024


class CommandError(OSError):
    """A command could not be run, failed, or timed out; `strerror` is a short description."""

    def __init__(self, text: str) -> None:
        super().__init__(0, text)


class Command:
    """Runs a command, one at a time; `close` kills it.

    Args:
        words: program and arguments; never a shell.
    """

    def __init__(self, words: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> None:
        self._words, self._seconds = list(words), seconds
        self._environment = {**os.environ, **(environment or {})}
        self._running: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def output(self) -> str:
        """Standard output of the command.

        Raises:
            CommandError: it cannot be run, exits with a code other than 0, prints too much or takes too long.
        """
        name = self._words[0]
        try:
            running = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise CommandError(f"no {name} on this machine") from None
        self._running = running
        if self._is_closed:  # while it was being started
            self._end()
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self._end()

        deadline = threading.Timer(self._seconds, end)
        deadline.daemon = True
        deadline.start()
        try:
            assert running.stdout is not None and running.stderr is not None
            data = running.stdout.read(MOST_BYTES + 1)
            said = b"" if len(data) > MOST_BYTES else running.stderr.read(MOST_BYTES)
        finally:
            deadline.cancel()
            self._end()
            for stream in (running.stdout, running.stderr):
                assert stream is not None
                stream.close()
            code = running.wait()
            self._running = None
        if is_late.is_set():
            raise CommandError(f"{name} does not answer")
        if len(data) > MOST_BYTES:
            raise CommandError(f"{name} prints too much")
        if code:
            last = said.decode("utf-8", "replace").strip().splitlines()
            raise CommandError(last[-1] if last else f"{name} ended with {code}")
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """Kill the running command with all its processes, and one that is about to start."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        running = self._running
        if running is not None:
            with contextlib.suppress(OSError):
                os.killpg(running.pid, signal.SIGKILL)


EVERY_S = 60.0
"""Clusters ask users not to query more often."""
LOOK_S = 5.0
"""Interval for checking whether a log name reveals a job."""
ANSWER_S = 20.0
NO_SQUEUE = "no squeue on this machine"
"""Message of `Command`."""
JOB_ID = regex(r"\d{1,12}(?:[_+]\d{1,9})?")
"""A job, an array task, or a component of a heterogeneous job."""
_OF_LOG = regex(r"(?:.*[-_.])?slurm[-_.](\d{1,12}(?:_\d{1,9})?)(?:[-_.].*)?\.(?:out|err|log)", re.IGNORECASE)
_FORMAT = "%i|%T|%S|%e|%D|%N|%b|%r"
_GPUS = regex(r"gpu(?::[A-Za-z][\w.-]*)?[:=](\d+)")


def job_of_log(path: str) -> str | None:
    """The job number in a log name such as Slurm's `slurm-123.out`; None without one."""
    found = _OF_LOG.fullmatch(Path(path).name)
    return None if found is None else found[1]


class SlurmProbe(Probe):
    """Queries jobs.

    Args:
        jobs: those that the user named.
        environment: of this process: inside a job it has the job's end time.
        log: returns the run's console log, or "" without one; if no job is named, its name may reveal one, which is
            queried, but never entered.
    """

    source, patience_s = "squeue", ANSWER_S + 1.0

    def __init__(
        self, jobs: Sequence[str], environment: Mapping[str, str], log: Callable[[], str] = lambda: ""
    ) -> None:
        self._named = [job for job in jobs if JOB_ID.fullmatch(job)]
        self._environment, self._log = environment, log
        self._know(self._named)

    def _know(self, jobs: Sequence[str]) -> None:
        self._jobs, self.every_s = jobs, EVERY_S if jobs else LOOK_S
        # Request times as seconds since the epoch; the default has no time zone.
        words = ["squeue", "--noheader", f"--jobs={','.join(jobs)}", f"--format={_FORMAT}"]
        self._command = Command(words, ANSWER_S, {"SLURM_TIME_FORMAT": "%s"})

    def ask(self, now_s: float) -> Sequence[Job]:
        """The pending and running jobs; empty while no job is known.

        Raises:
            ProbeError: all of them have ended.
            CommandError: Slurm is not installed, or does not respond.
        """
        jobs = self._named or [job for job in [job_of_log(self._log())] if job is not None]
        if jobs != self._jobs:
            self._know(jobs)
        if not jobs:
            return []
        try:
            text = self._command.output()
        except CommandError as error:
            if "Invalid job id" in (error.strerror or ""):
                raise ProbeError(f"job {', '.join(self._jobs)} is {GONE}: it has ended") from error
            told = self._own(now_s)
            if told is None:
                raise
            return [told]
        found = [job for line in text.splitlines() if (job := _job(line, now_s)) is not None]
        if not found:
            raise ProbeError(f"job {', '.join(self._jobs)} is {GONE}: it has ended")
        return found

    def _own(self, now_s: float) -> Job | None:
        """The job of this process if it was requested: many containers have no `squeue`."""
        told = self._environment
        job = told.get("SLURM_JOB_ID", "")
        if job not in self._jobs:
            return None
        return Job(
            "SLURM_JOB_ID", now_s, job, "RUNNING", told.get("SLURM_JOB_NODELIST", ""),
            _epoch(told.get("SLURM_JOB_START_TIME", "")), _epoch(told.get("SLURM_JOB_END_TIME", "")),
        )  # fmt: skip

    def close(self) -> None:
        self._command.close()


def _job(line: str, now_s: float) -> Job | None:
    parts = line.strip().split("|", 7)
    if len(parts) < 8:
        return None
    number, state, begun, ends, nodes, names, gres, reason = parts
    gpus = sum(int(count) for count in _GPUS.findall(gres)) * (int(nodes) if nodes.isdecimal() else 1)
    is_waiting = state == "PENDING"
    return Job(
        "squeue", now_s, number, state, names, None if is_waiting else _epoch(begun),
        None if is_waiting else _epoch(ends), gpus or None,
        trouble="" if reason in ("None", "") else f"{state.lower()}: {reason}",
    )  # fmt: skip


def _epoch(text: str) -> float | None:
    return float(text) if text.isdecimal() else None

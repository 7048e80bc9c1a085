"""The user's own processes by title: Ray's workers, vLLM's and SGLang's engines, trainers.

Only the parts of a command line that match a known pattern are kept: the rest may contain secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rltop.live.lines import key_of_method
from rltop.live.probe import Probe, ProbeError, Process
from rltop.live.writers import own_pids
from rltop.regex import regex
from rltop.structs import NamedTuple

EVERY_S = 5.0
_TITLE_BYTES = 256
"""No known title is longer."""
_RAY_OWN = frozenset({"IDLE", "IDLE_SpillWorker", "IDLE_RestoreWorker", "DashboardAgent", "RuntimeEnvAgent"})
"""Titles of Ray's own processes."""
_PATTERNS = regex(
    r"ray::(?P<actor>[A-Za-z_][\w.<>-]{0,120})(?:\(\))?\s*\Z"
    r"|(?P<engine>VLLM::[A-Z][A-Za-z_]{0,40}(?:_?[A-Z]{2}\d{1,5}){0,6}(?:_\d{1,5})?)\b"
    r"|(?P<sglang>sglang::[a-z_]{1,40}(?:_?[A-Z]{2}\d{1,5}){0,6})\b"
)
SIGNS = ("ray::", "VLLM::", "sglang::")
"""Prefixes of all known titles."""


class Title(NamedTuple):
    """The contents of a title.

    Attributes:
        name: of the actor, or of the part of an engine.
        method: the one it is executing; empty if the title has none.
    """

    name: str
    method: str = ""


def title_of(text: str) -> Title | None:
    """Parse the title of a process; None if it does not belong to a job."""
    # After the first NUL come arguments, or remains of a longer title.
    found = _PATTERNS.match(text.partition("\0")[0][:_TITLE_BYTES].strip())
    if found is None:
        return None
    if not found["actor"]:
        return Title(found["engine"] or found["sglang"])
    # For a nested class, the method is the last part.
    actor, _, method = found["actor"].rpartition(".")
    name, method = (actor, method) if actor else (method, "")
    return None if name in _RAY_OWN else Title(name, method)


class TitleTracker:
    """Tracks since when each process of a node has been observed in its current method."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._since_s: dict[tuple[str, int, str], float] = {}

    def processes(self, titles: Iterable[tuple[str, int, Title]], now_s: float) -> list[Process]:
        known, self._since_s = self._since_s, {}
        found = []
        for host, pid, title in titles:
            key = host, pid, title.method
            since_s = self._since_s[key] = known.get(key, now_s)
            # An asynchronous or threaded actor keeps its plain title during a call, so it may or may not be idle.
            found.append(
                Process(
                    self._source, now_s, title.name, title.method, key_of_method(title.method) if title.method else "",
                    since_s if title.method else None, is_seen=True,
                    state="running" if title.method else "unknown", pid=pid, host=host,
                )
            )  # fmt: skip
        return found


class TitlesProbe(Probe):
    """The user's own processes on this node, from `/proc`."""

    source, every_s, patience_s = "processes of this node", EVERY_S, 5.0

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._host = os.uname().nodename.partition(".")[0]
        self._seen = TitleTracker(self.source)

    def ask(self, now_s: float) -> Sequence[Process]:
        """The processes and their methods.

        Raises:
            ProbeError: none belongs to a job.
        """
        found = self._seen.processes(((self._host, pid, title) for pid, title in own_titles(self._proc)), now_s)
        if not found:
            raise ProbeError(f"no process of Ray, vLLM or SGLang runs on {self._host} under your name")
        return found


def own_titles(proc: str = "/proc") -> list[tuple[int, Title]]:
    found = []
    for pid in own_pids(proc):
        try:
            descriptor = os.open(f"{proc}/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, _TITLE_BYTES)
            finally:
                os.close(descriptor)
        except OSError:  # it has ended
            continue
        title = title_of(data.decode("utf-8", "replace"))
        if title is not None:
            found.append((int(pid), title))
    return found

"""Other nodes, through one long-lived child process: ssh, `srun` on all nodes of a job, or a custom command.

It receives a line as a query, and responds with the titles of the user's own processes, cut to the first word on the
node; without changes, only with the end mark. It ends when its standard input closes, so that none is left behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence

from rltop.errors import RltopError
from rltop.files import Worker
from rltop.live.probe import Device, Fact, Probe, ProbeError
from rltop.live.slurm import JOB_ID
from rltop.live.titles import SIGNS, Title, TitleTracker, title_of
from rltop.regex import regex

EVERY_S, ANSWER_S = 5.0, 12.0
MOST_A_SECOND = 6.0
"""With more nodes than this allows, each is queried less often, as the cost of the replies adds up here."""
DEVICES_EVERY = 6
"""Devices are included in every n-th query: `nvidia-smi` takes a second on a full node."""
RETRY_S, LONGEST_RETRY_S = 10.0, 300.0
STARTING = 16
"""Maximum number of children starting at the same time."""
MOST_NODES = 4_096
MOST_BYTES = 256 * 1024
NODE = regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""Valid node names; none is an option, a command or a path."""
_RANGES = regex(r"([^\[\],]*)(?:\[([0-9,-]+)\])?([^\[\],]*)(?:,|\Z)")
_DEVICE_FIELDS = "index,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu"
SCRIPT = (
    "u=$(id -u); l=; "
    'command -v ps >/dev/null 2>&1 || echo "X no ps on this node"; '
    "while read -r q; do "
    't=$(ps -ww -u "$u" -o pid= -o args= 2>/dev/null '
    f'| grep -E "^ *[0-9]+ ({"|".join(SIGNS)})" | while read -r p a b; do echo "P $p $a"; done); '
    'if [ "$t" != "$l" ]; then l=$t; echo C; echo "$t"; fi; '
    f'if [ "$q" = d ]; then nvidia-smi --query-gpu={_DEVICE_FIELDS} --format=csv,noheader,nounits 2>/dev/null '
    '| sed "s/^/D /"; fi; '
    'echo "E $(uname -n) ${SLURM_STEP_NUM_NODES:-1}"; done'
)
"""The script on a node: for any POSIX shell, and without apostrophes, so that every login shell can pass it on."""


def node_names(text: str) -> list[str]:
    """Expand `node[1-8,11],login`.

    Raises:
        RltopError: one is not a valid node name.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _RANGES.match(text, at)
        if match is None or match.end() == at:
            raise RltopError(f"--nodes {text}: cannot be read", "for example node[1-8],node11")
        at = match.end()
        head, ranges, tail = match[1].strip(), match[2], match[3].strip()
        found += [head + number + tail for number in _numbers(ranges, text)] if ranges else [head + tail]
        if len(found) > MOST_NODES:
            raise RltopError(f"--nodes: more than {MOST_NODES:,} nodes", "name those that you want to see")
    for name in found or [""]:
        if not NODE.fullmatch(name):
            raise RltopError(
                f"--nodes: {name!r} is no name of a node", "letters, digits, dots, dashes; users go to ~/.ssh/config"
            )
    return list(dict.fromkeys(found))


def _numbers(ranges: str, text: str) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise RltopError(f"--nodes {text}: cannot be read", "for example node[1-8],node11")
        count = int(last or first) - int(first) + 1
        if not 0 < count <= MOST_NODES:
            raise RltopError(f"--nodes {text}: not between 1 and {MOST_NODES:,} nodes", "for example node[1-8]")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(first) + count)]
    return found


class Sockets:
    """The private directory of ssh's control sockets, created on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path = ""

    @property
    def path(self) -> str:
        with self._lock:
            if not self._path:
                self._path = tempfile.mkdtemp(prefix="rltop-")  # 0700
            return self._path

    def remove(self) -> None:
        with self._lock:
            if self._path:
                shutil.rmtree(self._path, ignore_errors=True)
                self._path = ""


def ssh_words(node: str, sockets: str) -> list[str]:
    """The command line that starts the script on a node. Host keys are left to the user's own configuration."""
    options = {
        "BatchMode": "yes", "ConnectTimeout": "5", "ServerAliveInterval": "15", "ServerAliveCountMax": "2",
        "ControlMaster": "auto", "ControlPath": f"{sockets}/%C", "ControlPersist": "no", "ClearAllForwardings": "yes",
        "ForwardAgent": "no", "RequestTTY": "no", "LogLevel": "ERROR",
    }  # fmt: skip
    told = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *told, "--", node, f"sh -c '{SCRIPT}'"]


def srun_words(job: str) -> list[str]:
    """The command line of one step on every node of a job; without `--overlap` it would wait for the job to end."""
    return [
        "srun", "--overlap", "--mem=0", f"--jobid={job}", "--ntasks-per-node=1", "--label", "--unbuffered",
        "--input=all", "--quiet", "--", "sh", "-c", SCRIPT,
    ]  # fmt: skip


def via_words(template: str, node: str) -> list[str]:
    """The command line of `--via`, without a shell.

    Raises:
        RltopError: it cannot be parsed, or does not contain `{node}`.
    """
    example = "for example --via 'kubectl exec -i {node} --'"
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise RltopError(f"--via: {error}", example) from None
    if not any("{node}" in word for word in words):
        raise RltopError("--via does not say where the name of the node goes", example)
    return [*(word.replace("{node}", node) for word in words), "sh", "-c", SCRIPT]


class NodesProbe(Probe):
    """One child process, and the replies of the nodes that it reaches."""

    every_s, patience_s = EVERY_S, ANSWER_S

    def __init__(
        self, source: str, words: Sequence[str], gate: threading.Semaphore, sockets: Sockets | None = None
    ) -> None:
        self.source = source
        self._words, self._gate, self._sockets = list(words), gate, sockets
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed, self._nodes = False, 1
        self._pending = b""
        self._wait_s, self._again_s = RETRY_S, 0.0
        self._asked = 0
        self._titles: dict[str, dict[int, Title]] = {}
        self._hosts: dict[str, str] = {}
        self._devices: dict[tuple[str, str], Device] = {}
        self._why = ""
        self._seen = TitleTracker(source)

    def ask(self, now_s: float) -> Sequence[Fact]:
        """The processes and devices on the nodes.

        Raises:
            ProbeError: the nodes cannot be reached, or no process of a job runs there.
        """
        if self._child is None:
            if time.perf_counter() < self._again_s:
                raise ProbeError(self._why)
            with self._gate:
                self._start()
                return self._facts(now_s)
        return self._facts(now_s)

    def close(self) -> None:
        """End the child; its script on a node ends when standard input closes."""
        self._is_closed = True
        self._end()
        if self._sockets is not None:
            self._sockets.remove()

    def _start(self) -> None:
        self._nodes, self._asked, self._pending = 1, 0, b""
        self._titles, self._hosts = {}, {}
        try:
            self._child = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._fail(f"no {self._words[0]} on this machine" if error.errno == 2 else str(error.strerror))
        if self._is_closed:
            self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        for stream in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGTERM)
        Worker("reaper").start(child.wait)

    def _fail(self, why: str) -> None:
        """Stop the child and retry later, with exponential backoff.

        Raises:
            ProbeError: always.
        """
        self._end()
        self._again_s = time.perf_counter() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_RETRY_S)
        self._why = why
        raise ProbeError(why)

    # -- query and reply ---------------------------------------------------------------------------------------------

    def _facts(self, now_s: float) -> Sequence[Fact]:
        self._question(now_s)
        self._wait_s = RETRY_S
        titles = {
            (self._hosts.get(label, ""), pid): title
            for label, of_node in sorted(self._titles.items())
            for pid, title in of_node.items()
        }
        processes = self._seen.processes(((*place, title) for place, title in titles.items()), now_s)
        found: list[Fact] = [*processes, *self._devices.values()]
        if not found:
            raise ProbeError(self._why or f"no process of Ray, vLLM or SGLang runs there ({len(self._hosts)} reached)")
        return found

    def _question(self, now_s: float) -> None:
        """Send a query and read until every node has ended its reply.

        Raises:
            ProbeError: the child has ended, or does not respond.
        """
        child = self._child
        assert child is not None and child.stdin is not None
        try:
            child.stdin.write(b"d\n" if self._asked % DEVICES_EVERY == 0 else b"p\n")
        except (OSError, ValueError):
            self._fail(self._last_words(child))
        self._asked += 1
        self._why = ""
        assert child.stdout is not None and child.stderr is not None
        answered: set[str] = set()
        said, taken, ends_s = b"", 0, time.perf_counter() + ANSWER_S
        streams = [child.stdout, child.stderr]
        while len(answered) < self._nodes:
            ready = select.select(streams, [], [], max(0.0, ends_s - time.perf_counter()))[0]
            if not ready:
                if not answered:
                    self._fail(_last(said) or "does not answer")
                return  # nodes that have not replied keep their last state
            for stream in ready:
                data = os.read(stream.fileno(), 65_536)
                if stream is child.stderr:
                    said = (said + data)[-4_096:]
                    if not data:
                        streams.remove(stream)
                    continue
                taken += len(data)
                if not data or taken > MOST_BYTES:
                    self._fail("says too much" if data else _last(said) or self._last_words(child))
                *lines, self._pending = (self._pending + data).split(b"\n")
                for line in lines:
                    self._line(line.decode("utf-8", "replace"), now_s, answered)

    def _line(self, line: str, now_s: float, answered: set[str]) -> None:
        label, colon, rest = line.partition(": ")
        label, rest = (label.strip(), rest) if colon and label.strip().isdecimal() else ("", line)
        sign, _, text = rest.partition(" ")
        of_node = self._titles.setdefault(label, {})
        if sign == "C":
            of_node.clear()
        elif sign == "P":
            pid, _, words = text.partition(" ")
            title = title_of(words)
            if title is not None and pid.isdecimal():
                of_node[int(pid)] = title
        elif sign == "D":
            self._device(text, label, now_s)
        elif sign == "X":
            self._why = text[:80]
        elif sign == "E":
            host, _, nodes = text.strip().partition(" ")
            self._hosts[label] = host.partition(".")[0][:64]
            self._nodes = min(int(nodes), MOST_NODES) if nodes.isdecimal() else 1
            answered.add(label)

    def _device(self, text: str, label: str, now_s: float) -> None:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 6:
            return
        number, use, used, total, power, temperature = parts
        host = self._hosts.get(label, "")
        self._devices[label, number] = Device(
            self.source, now_s, host, number, use=_number(use) / 100.0, memory_bytes=_number(used) * 2**20,
            memory_total_bytes=_number(total) * 2**20, power_w=_number(power), temperature_c=_number(temperature),
        )  # fmt: skip

    def _last_words(self, child: subprocess.Popen[bytes]) -> str:
        said = b""
        with contextlib.suppress(OSError, ValueError):
            assert child.stderr is not None
            if select.select([child.stderr], [], [], 0.5)[0]:
                said = os.read(child.stderr.fileno(), 4_096)
        return _last(said) or "the connection has ended"


def _last(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:160] if lines else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return float("nan")


def node_probes(nodes: Sequence[str], via: str) -> list[NodesProbe]:
    """A probe for each node.

    Args:
        via: command that reaches a node; empty for ssh.

    Raises:
        RltopError: the command cannot be parsed.
    """
    gate, sockets = threading.Semaphore(STARTING), Sockets()
    if via:
        found = [NodesProbe(f"node {node}", via_words(via, node), gate) for node in nodes]
    else:
        found = [NodesProbe(f"ssh {node}", ssh_words(node, sockets.path), gate, sockets) for node in nodes]
    for each in found:
        each.every_s = max(EVERY_S, len(found) / MOST_A_SECOND)
    return found


def job_probe(job: str) -> NodesProbe:
    """A probe for all nodes of a job.

    Raises:
        RltopError: it is not a job number.
    """
    if not JOB_ID.fullmatch(job):
        raise RltopError(f"--job {job}: not the number of a job", "as squeue shows it, for example 123456")
    return NodesProbe(f"srun in job {job}", srun_words(job), threading.Semaphore(1))

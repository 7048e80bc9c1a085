"""A server that answers like the dashboard of Ray 2.60: calls, actors of every kind, secrets in the details."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lying_servers import Server, page, serving

KEY = "s3cret-of-wandb"
NODE = "8deaa71f4b6dbeab2f1a66f7501b451021b1c7c7ae81d8bde895e66a"


def actor(number: int, class_name: str, state: str = "ALIVE", name: str = "", **more: Any) -> dict[str, Any]:
    return {
        "actor_id": f"actor{number}", "class_name": class_name, "state": state, "job_id": "01000000", "name": name,
        "node_id": NODE, "pid": 100 + number, "ray_namespace": "b980", **more,
    }  # fmt: skip


def task(number: int, name: str) -> dict[str, Any]:
    return {
        "task_id": f"task{number}", "attempt_number": 0, "name": name, "state": "RUNNING", "job_id": "01000000",
        "actor_id": f"actor{number}", "type": "ACTOR_TASK", "func_or_class_name": name, "node_id": NODE,
        "worker_id": "w", "worker_pid": 100 + number, "error_type": None,
    }  # fmt: skip


SECRETS = {"serialized_runtime_env": json.dumps({"env_vars": {"WANDB_API_KEY": KEY}}), "death_cause": None}
ACTORS = [
    actor(0, "WorkerDict", name="abcWorkerDict_0:0"),
    actor(1, "WorkerDict", name="abcWorkerDict_0:1"),
    actor(2, "Async"),
    actor(3, "Dies", "DEAD"),
    actor(4, "Ended", "DEAD"),
]
DETAILS = [
    {**ACTORS[3], **SECRETS, "death_cause": {"actor_died_error_context": {
        "reason": "WORKER_DIED", "error_message": "The actor is dead because its worker process has died. Worker exit "
        "type: SYSTEM_ERROR Some common causes include: (1) the process was killed by the OOM killer"}}},
    {**ACTORS[4], **SECRETS, "death_cause": {"actor_died_error_context": {
        "reason": "RAY_KILL", "error_message": "The actor is dead because it was killed by `ray.kill`."}}},
]  # fmt: skip
TASKS = [task(0, "WorkerDict.actor_rollout_update_actor"), task(2, "Async.generate")]


class Cluster:
    """Answers like the dashboard."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.asked: list[str] = []

    def __call__(self, connection: socket.socket, head: bytes) -> None:
        if self.token and f"Authorization: Bearer {self.token}".encode() not in head:
            page(b"Unauthorized: Missing authentication token", status="401 Unauthorized")(connection, head)
            return
        target = head.split(b" ", 2)[1].decode()
        self.asked.append(target)
        path, asked = urlsplit(target).path, parse_qs(urlsplit(target).query)
        state, detail = asked.get("filter_values", [""])[0], "detail" in asked
        if path == "/api/jobs/":
            body: Any = [{
                "type": "DRIVER", "job_id": "01000000", "submission_id": None, "status": "RUNNING",
                "entrypoint": f"python train.py --key {KEY}", "start_time": 1_795_646_236_759,
                "runtime_env": {"env_vars": {"WANDB_API_KEY": KEY}},
            }]  # fmt: skip
        else:
            rows: list[dict[str, Any]] = {
                "/api/v0/tasks": [row for row in TASKS if row["state"] == state],
                "/api/v0/actors": DETAILS if detail else ACTORS,
                "/api/v0/nodes": [{"node_id": NODE, "node_ip": "10.0.0.7", "node_name": "node-7"}],
            }[path]
            if detail and path.endswith("tasks"):
                rows = [{**row, "start_time_ms": 1_795_646_270_718.0, "runtime_env_info": SECRETS} for row in rows]
            body = {"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": rows}}}
        page(json.dumps(body).encode())(connection, head)


@contextmanager
def cluster(token: str = "") -> Iterator[tuple[Server, Cluster]]:
    api = Cluster(token)
    with serving(api) as server:
        yield server, api

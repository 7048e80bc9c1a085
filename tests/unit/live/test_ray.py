"""What Ray's State API says; the answers have the shape and fields of Ray 2.60's."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from lying_servers import Server, page, serving, silent

from rltop.errors import RltopError
from rltop.live.endpoint import Endpoint, EndpointError, address_of
from rltop.live.probe import Job, ProbeError, Process
from rltop.live.ray import RayProbe, ray_token

NOW_S = 1_795_646_400.0
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
    """Answers as the dashboard does."""

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


def probe(server: Server, token: str = "", answer_s: float = 4.0) -> RayProbe:
    return RayProbe(Endpoint(address_of(server.url, "--ray", ""), token=token, answer_s=answer_s))


def test_calls_idle_and_dead_actors() -> None:
    with cluster() as (server, api):
        asking = probe(server)
        facts = asking.ask(NOW_S)
        found = {each.pid: each for each in facts if isinstance(each, Process)}
        busy, idle, asynchronous, dead = (found[100 + number] for number in range(4))
        assert (busy.name, busy.phase, busy.key) == ("WorkerDict", "actor_rollout_update_actor", "train")
        assert (busy.since_s, busy.is_seen, busy.rank, busy.host) == (1_795_646_270.718, False, 0, "node-7")
        assert (idle.state, idle.phase, idle.rank) == ("idle", "", 1)
        assert (asynchronous.state, asynchronous.phase) == ("running", "generate")
        assert (dead.state, dead.cause) == (
            "dead", "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
        )  # fmt: skip
        assert 104 not in found, "what was ended on purpose did not die"
        (job,) = [each for each in facts if isinstance(each, Job)]
        assert (job.id, job.state, job.begun_s) == ("01000000", "RUNNING", 1_795_646_236.759)
        # With details only where there is something new: they are twenty times as long.
        del api.asked[:]
        asking.ask(NOW_S + 10)
        assert api.asked
        assert not any("detail" in target for target in api.asked)


def test_no_environment_and_no_entry_point_is_kept() -> None:
    with cluster() as (server, _):
        asking = probe(server)
        assert KEY not in repr(asking.ask(NOW_S))
        assert KEY not in repr(vars(asking))


def test_no_more_is_asked_for_than_the_api_gives() -> None:
    with cluster() as (server, api):
        probe(server).ask(NOW_S)
        limits = {parse_qs(urlsplit(target).query)["limit"][0] for target in api.asked if "/v0/" in target}
        assert limits == {"10000"}


def test_a_cluster_with_a_token() -> None:
    with cluster("t0ken") as (server, _):
        assert probe(server, "t0ken").ask(NOW_S)
        with pytest.raises(ProbeError, match="HTTP 401: it wants its token, from RAY_AUTH_TOKEN"):
            probe(server).ask(NOW_S)


def test_a_frozen_cluster_costs_no_more_than_its_time() -> None:
    with serving(silent) as server, pytest.raises(EndpointError, match="no whole answer"):
        probe(server, answer_s=0.3).ask(NOW_S)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": {"result": 3}}', b"[" * 100_000, b"\xff"])
def test_what_is_no_state_api_says_so(body: bytes) -> None:
    with serving(page(body)) as server, pytest.raises(ProbeError, match="does not answer as Ray's State API does"):
        probe(server).ask(NOW_S)


def test_the_token_is_found_where_ray_looks_for_it(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    assert ray_token({"HOME": str(tmp_path)}) == ""
    (tmp_path / ".ray" / "auth_token").write_text("from-home\n")
    (tmp_path / "other").write_text("from-path")
    assert ray_token({"HOME": str(tmp_path)}) == "from-home"
    assert ray_token({"HOME": str(tmp_path), "RAY_AUTH_TOKEN_PATH": str(tmp_path / "other")}) == "from-path"
    assert ray_token({"HOME": str(tmp_path), "RAY_AUTH_TOKEN": "typed"}) == "typed"
    with pytest.raises(RltopError, match=r"RAY_AUTH_TOKEN_PATH .*no such file"):
        ray_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")})

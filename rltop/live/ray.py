"""What a Ray cluster says of its calls, actors and jobs, by the State API of its dashboard.

Of its answers a few named fields are kept: with details they hold the environment variables of every actor.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltop.errors import RltopError
from rltop.live.endpoint import ANSWER_S, Endpoint, EndpointError, token_in
from rltop.live.lines import key_of_method
from rltop.live.probe import Fact, Job, ProbeError, Process
from rltop.regex import regex

EVERY_S = 10.0
MOST = 10_000
"""More are refused by the API."""
_RUNNING = ("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")
_ON_PURPOSE = frozenset(
    {"RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED", "INTENDED_USER_EXIT", "INTENDED_SYSTEM_EXIT", "NONE"}
)
"""Reasons of deaths that are none."""
_CAUSE_CHARS = 300
_NO_TOKEN = "it wants its token, from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
_PLACE = regex(r"(?P<group>.*)_(?P<node>\d{1,5}):(?P<local>\d{1,5})\Z")
"""veRL's names of actors."""


def ray_token(environment: Mapping[str, str]) -> str:
    """The token of the user's clusters, from where Ray looks for it; empty where there is none.

    Raises:
        RltopError: the file that RAY_AUTH_TOKEN_PATH names cannot be read.
    """
    if token := environment.get("RAY_AUTH_TOKEN", "").strip():
        return token
    if path := environment.get("RAY_AUTH_TOKEN_PATH", ""):
        return token_in(path, "RAY_AUTH_TOKEN_PATH")
    path = str(Path(environment.get("HOME") or "/") / ".ray" / "auth_token")
    try:
        return token_in(path, "")
    except RltopError:
        return ""


class RayProbe:
    """One cluster."""

    every_s, patience_s = EVERY_S, 2 * ANSWER_S

    def __init__(self, endpoint: Endpoint) -> None:
        self.source = f"Ray {endpoint.address.place}"
        self._endpoint = endpoint
        self._since_s: dict[str, float | None] = {}
        self._hosts: dict[str, str] = {}
        self._causes: dict[str, str] = {}

    def ask(self, now_s: float) -> Sequence[Fact]:
        """Its calls, idle and dead actors, and jobs.

        Raises:
            ProbeError: it is no State API.
            EndpointError: there is no answer.
        """
        calls = [call for state in _RUNNING for call in self._list("tasks", state=state)]
        if any(call.get("task_id") not in self._since_s for call in calls):
            self._since_s = self._begun()
        actors = self._list("actors")
        if any(each.get("node_id") not in self._hosts for each in (*calls, *actors)):
            self._hosts = {_text(node, "node_id"): _text(node, "node_name") for node in self._list("nodes")}
        dead = {_text(actor, "actor_id") for actor in actors if actor.get("state") == "DEAD"}
        if not dead <= self._causes.keys():
            self._causes = dict.fromkeys(dead, "") | self._of_what_died()
        ranks = _ranks(actors)
        busy: dict[str, list[Process]] = defaultdict(list)
        for call in calls:
            name, _, method = _text(call, "name").rpartition(".")
            busy[_text(call, "actor_id")].append(
                Process(
                    self.source, now_s, name or method, method, key_of_method(method),
                    self._since_s.get(_text(call, "task_id")), pid=_whole(call, "worker_pid"),
                    host=self._hosts.get(_text(call, "node_id"), ""), rank=ranks.get(_text(call, "actor_id")),
                )
            )  # fmt: skip
        found: list[Fact] = [each for actor_id in busy for each in busy[actor_id]]
        for actor in actors:
            actor_id, state = _text(actor, "actor_id"), _text(actor, "state")
            cause = self._causes.get(actor_id, "")
            if actor_id in busy or (state == "DEAD" and not cause):
                continue
            found.append(
                Process(
                    self.source, now_s, _text(actor, "class_name"), pid=_whole(actor, "pid"),
                    state={"ALIVE": "idle", "DEAD": "dead"}.get(state, "unknown"), cause=cause,
                    host=self._hosts.get(_text(actor, "node_id"), ""), rank=ranks.get(actor_id),
                )
            )  # fmt: skip
        return [*found, *self._jobs(now_s)]

    def close(self) -> None:
        """Nothing is held between two questions."""

    def _begun(self) -> dict[str, float | None]:
        """When each call began; only details tell it, so it is asked for where there is a new one."""
        found: dict[str, float | None] = {}
        for state in _RUNNING:
            for call in self._list("tasks", state=state, detail=True):
                begun_ms = call.get("start_time_ms")
                found[_text(call, "task_id")] = begun_ms / 1e3 if isinstance(begun_ms, (int, float)) else None
        return found

    def _of_what_died(self) -> dict[str, str]:
        found = {}
        for actor in self._list("actors", state="DEAD", detail=True):
            contexts = actor.get("death_cause")
            for context in contexts.values() if isinstance(contexts, dict) else ():
                if not isinstance(context, dict) or context.get("reason") in _ON_PURPOSE:
                    continue
                said = _text(context, "error_message") or _text(context, "formatted_exception_string")
                cause = said.partition(" Some common causes")[0].strip()[:_CAUSE_CHARS]
                found[_text(actor, "actor_id")] = cause
        return found

    def _list(self, what: str, *, state: str = "", detail: bool = False) -> list[dict[str, Any]]:
        chosen = f"&filter_keys=state&filter_predicates=%3D&filter_values={state}" if state else ""
        answer = self._get(f"/api/v0/{what}?limit={MOST}{chosen}{'&detail=1' if detail else ''}")
        try:
            rows = answer["data"]["result"]["result"]
        except (KeyError, TypeError):
            raise ProbeError("does not answer as Ray's State API does") from None
        return [row for row in rows if isinstance(row, dict)]

    def _jobs(self, now_s: float) -> list[Job]:
        try:
            jobs = self._get("/api/jobs/")
        except (EndpointError, ProbeError):
            return []
        found = []
        for job in jobs if isinstance(jobs, list) else ():
            if isinstance(job, dict) and _text(job, "status") in ("PENDING", "RUNNING", "FAILED"):
                name = _text(job, "submission_id") or _text(job, "job_id")
                begun = job.get("start_time")
                begun_s = begun / 1e3 if isinstance(begun, (int, float)) else None
                found.append(Job(self.source, now_s, name, _text(job, "status"), begun_s=begun_s))
        return found

    def _get(self, path: str) -> Any:
        try:
            return json.loads(self._endpoint.get(self._endpoint.address.path.rstrip("/") + path))
        except EndpointError as error:
            if error.status in (401, 403):
                raise ProbeError(f"HTTP {error.status}: {_NO_TOKEN}") from error
            raise
        except (ValueError, RecursionError) as error:
            raise ProbeError("does not answer as Ray's State API does") from error


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _whole(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    return value if isinstance(value, int) and value else None


def _ranks(actors: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Ranks of actors whose names number nodes and places on them, of groups in which no place is missing."""
    groups: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    for actor in actors:
        place = _PLACE.match(_text(actor, "name"))
        if place is not None:
            groups[place["group"]][int(place["node"]), int(place["local"])] = _text(actor, "actor_id")
    found: dict[str, int] = {}
    for places in groups.values():
        on_each = 1 + max(local for _, local in places)
        ranks = {node * on_each + local: actor_id for (node, local), actor_id in places.items()}
        if len({node for node, _ in places}) == 1 or sorted(ranks) == list(range(len(ranks))):
            found |= {actor_id: rank for rank, actor_id in ranks.items()}
    return found

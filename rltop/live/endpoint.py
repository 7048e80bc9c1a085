"""HTTP sources that the user named: metrics endpoints, Prometheus servers, the State API of a Ray dashboard.

No proxies, no redirects, limits on bytes and seconds: `urllib` would send the bearer token to the target of a redirect
and use proxies from the environment. Whatever a server does (never respond, trickle bytes, send gigabytes), a request
ends within its timeout. Only a few named fields of Ray's responses are kept: with details they contain the environment
variables of every actor.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltop import units
from rltop.errors import RltopError, SourceError, reason_of
from rltop.files import first_bytes
from rltop.live.engines import LINES, NAMES, RUNNING, MetricsReader, Sample, plain_name, samples
from rltop.live.lines import key_of_method
from rltop.live.probe import Fact, Job, Probe, ProbeError, Process
from rltop.regex import regex
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    import ssl

MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of a response: four times that of the largest known endpoint."""
ANSWER_S = 4.0
"""Timeout from the connection to the last byte."""
_MOST_TOKEN_BYTES = 16 * 1024
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str

    @property
    def place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place}{self.path}"


def address_of(text: str, flag: str, path: str = "/") -> Address:
    """Parse a URL typed by the user.

    Args:
        text: such as `http://host:8000/metrics`; the default scheme is http.

    Raises:
        RltopError: it is not a URL, or contains a user or password, which `ps` would show to everybody.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415 - only with an address

    hint = "for example http://node-3:8000"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise RltopError(f"{flag} {text}: not a URL: {error}", hint) from None
    if parts.username is not None or parts.password is not None:
        raise RltopError(
            f"{flag}: no user or password in the URL: everybody on this machine would see it",
            f"write it to a file: --token-file {host}:{port or _PORTS.get(parts.scheme, 80)}=FILE",
        )
    if parts.scheme not in _PORTS or not host or not text.isprintable() or " " in text or parts.fragment:
        raise RltopError(f"{flag} {text}: not an http or https URL", hint)
    place = parts.path if parts.path not in ("", "/") else path
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], place + (f"?{parts.query}" if parts.query else ""))


class EndpointError(SourceError):
    """An address without a usable response.

    Attributes:
        status: of HTTP, or 0 without a response.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Endpoint:
    """One address, with its credentials.

    Args:
        token: sent only to this address, as a bearer token; `user:password` is sent as basic authentication. Empty:
            none.
        authorities: file of CA certificates trusted in addition to the system's; empty: none.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        authorities: str = "",
        answer_s: float = ANSWER_S,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.address = address
        self._token, self._authorities = token, authorities
        self._answer_s, self._most_bytes = answer_s, most_bytes
        self._trust: ssl.SSLContext | None = None

    def get(self, path: str = "") -> bytes:
        """Fetch a path, by default that of the address.

        Raises:
            EndpointError: the response is late, too long, or has a status other than 200.
        """
        connection, is_late = self._connection(), threading.Event()
        deadline = threading.Timer(self._answer_s, _cut, (connection, is_late))
        deadline.daemon = True
        try:
            # Connecting, TLS included, has a timeout as a whole; later operations only have one per read, hence the
            # timer.
            connection.connect()
            deadline.start()
            connection.request("GET", path or self.address.path, headers=self._headers())
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise EndpointError(_refusal(answer), answer.status)
            if answer.getheader("Content-Encoding", "identity") != "identity":
                raise EndpointError("the answer is compressed, which was not asked for")
            data = answer.read(self._most_bytes + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if is_late.is_set() or isinstance(error, TimeoutError):
                raise EndpointError(f"no whole answer within {self._answer_s:g} s") from error
            raise EndpointError(_reason(error)) from error
        finally:
            deadline.cancel()
            connection.close()
        if len(data) > self._most_bytes:
            raise EndpointError(f"the answer is longer than {units.size(self._most_bytes)}")
        if is_late.is_set():
            raise EndpointError(f"no whole answer within {self._answer_s:g} s")
        if answer.length:
            raise EndpointError(f"the answer broke off after {len(data):,} bytes")
        return data

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._answer_s)
        if self._trust is None:
            self._trust = _trust(self._authorities)
        return http.client.HTTPSConnection(host, port, timeout=self._answer_s, context=self._trust)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "text/plain, application/json", "Accept-Encoding": "identity", "Connection": "close"}
        if self._token:
            is_basic = ":" in self._token
            word = base64.b64encode(self._token.encode()).decode() if is_basic else self._token
            headers["Authorization"] = f"{'Basic' if is_basic else 'Bearer'} {word}"
        return headers


def _cut(connection: http.client.HTTPConnection, is_late: threading.Event) -> None:
    is_late.set()
    held = connection.sock
    if held is not None:
        try:
            # Of the plain socket: shutting down TLS would send a close notification and wait.
            socket.socket.shutdown(held, socket.SHUT_RDWR)
        except OSError:
            return


def _trust(authorities: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - only for TLS

    trust = ssl.create_default_context()
    if authorities:
        try:
            trust.load_verify_locations(authorities)
        except OSError as error:
            raise EndpointError(f"--cacert {authorities}: {reason_of(error)}") from error
    return trust


def _refusal(answer: http.client.HTTPResponse) -> str:
    said = f"HTTP {answer.status}"
    if 300 <= answer.status < 400:
        return f"{said}: it sends elsewhere, which is not followed"
    if answer.status in (401, 403):
        return f"{said}: it wants a token"
    return f"{said} {answer.reason}".strip()


def _reason(error: Exception) -> str:
    verify = getattr(error, "verify_message", "")
    if verify:
        return f"its certificate is not trusted: {verify}"
    return reason_of(error)


def token_in(path: str, flag: str) -> str:
    """The token in a file, without the trailing newline.

    Raises:
        RltopError: the file cannot be read, or is not a single line of text.
    """
    try:
        text = first_bytes(path, _MOST_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError) as error:
        raise RltopError(f"{flag} {path}: {reason_of(error)}", "name a file that holds the token alone") from error
    if not text or not text.isascii() or not text.isprintable():
        raise RltopError(f"{flag} {path}: not one line of text", "name a file that holds the token alone")
    return text


EVERY_S, EVERY_SERVER_S = 5.0, 15.0
BACK_S = 150
"""A server's samples from this time range show at once whether an engine makes progress."""
_WITH_COLON = regex(r"(vllm|sglang)_(?!router)")


class MetricsProbe(Probe):
    every_s, patience_s = EVERY_S, ANSWER_S + 1.0
    _lack = "tells of no engine, device, trainer or Ray task"

    def __init__(self, endpoint: Endpoint) -> None:
        self.source = endpoint.address.url
        self._endpoint = endpoint
        self._reader = MetricsReader(self.source, endpoint.address.place)

    def ask(self, now_s: float) -> Sequence[Fact]:
        """The current facts of the endpoint.

        Raises:
            ProbeError: it has no known metric.
            EndpointError: there is no response.
        """
        data = self._endpoint.get()
        self._reader.take(samples(data, LINES, NAMES), now_s)
        return self._facts(now_s)

    def _facts(self, now_s: float) -> Sequence[Fact]:
        facts = self._reader.facts(now_s)
        if not facts:
            raise ProbeError(self._lack)
        return facts


class PrometheusProbe(MetricsProbe):
    """A server with the HTTP API of Prometheus: Prometheus, VictoriaMetrics, Thanos, Mimir."""

    every_s = EVERY_SERVER_S
    _lack = f"has no sample of an engine, device, trainer or Ray task in the last {BACK_S} s"

    def __init__(self, endpoint: Endpoint) -> None:
        from urllib.parse import quote  # noqa: PLC0415 - only with an address

        super().__init__(endpoint)
        # A range selector without evaluation returns samples with their own times; an instant query replaces them.
        question = quote(f'{{__name__=~"{_pattern()}"}}[{BACK_S}s]', safe="")
        self._path = f"{endpoint.address.path.rstrip('/')}/api/v1/query?query={question}"

    def ask(self, now_s: float) -> Sequence[Fact]:
        """Facts from the samples of the last minutes.

        Raises:
            ProbeError: it has no known metric, or is no such server.
            EndpointError: there is no response.
        """
        by_time: dict[float, list[Sample]] = {}
        for sample in _matrix(self._endpoint.get(self._path)):
            assert sample.time_s is not None
            by_time.setdefault(sample.time_s, []).append(sample)
        for time_s in sorted(by_time):
            self._reader.take(by_time[time_s], time_s)
        return self._facts(now_s)


def _pattern() -> str:
    names = {_WITH_COLON.sub(r"(ray_)?\1[:_]", name) for name in NAMES}
    names.add("ray_skyrl_training_phase")
    return "|".join(sorted(names))


def _matrix(data: bytes) -> list[Sample]:
    """The samples of a response.

    Raises:
        ProbeError: it is not a Prometheus response.
    """
    try:
        answer = json.loads(data)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return [
            Sample(plain_name(series["metric"]["__name__"]), series["metric"], float(value), float(time_s))
            for series in found
            for time_s, value in series["values"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProbeError(f"does not answer as Prometheus does: {type(error).__name__}") from error


RAY_EVERY_S = 10.0
MOST = 10_000
"""The API rejects larger limits."""
_ON_PURPOSE = frozenset(
    {"RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED", "INTENDED_USER_EXIT", "INTENDED_SYSTEM_EXIT", "NONE"}
)
"""Causes of death that are no failures."""
_CAUSE_CHARS = 300
_NO_TOKEN = "it wants its token, from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
_PLACE = regex(r"(?P<group>.*)_(?P<node>\d{1,5}):(?P<local>\d{1,5})\Z")
"""veRL's actor names."""


def ray_token(environment: Mapping[str, str]) -> str:
    """The token of the user's clusters, from the places where Ray looks for it; empty if there is none.

    Raises:
        RltopError: the file in RAY_AUTH_TOKEN_PATH cannot be read.
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


class RayProbe(Probe):
    every_s, patience_s = RAY_EVERY_S, 2 * ANSWER_S

    def __init__(self, endpoint: Endpoint) -> None:
        self.source = f"Ray {endpoint.address.place}"
        self._endpoint = endpoint
        self._since_s: dict[str, float | None] = {}
        self._hosts: dict[str, str] = {}
        self._causes: dict[str, str] = {}

    def ask(self, now_s: float) -> Sequence[Fact]:
        """Running calls, idle and dead actors, and jobs.

        Raises:
            ProbeError: it is no State API.
            EndpointError: there is no response.
        """
        calls = [call for state in RUNNING for call in self._list("tasks", state=state)]
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

    def _begun(self) -> dict[str, float | None]:
        """Start time of each call; only the detailed query has it, so it is sent only if there is a new call."""
        found: dict[str, float | None] = {}
        for state in RUNNING:
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
    """Ranks of actors with names that contain node and local rank, for groups without gaps."""
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

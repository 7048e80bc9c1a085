"""An HTTP address that a person named, asked over and over: no proxy, no redirect, bounded in bytes and seconds.

`urllib` would hand the bearer token to the target of a redirect and obey proxies of the environment. Whatever a server
does (never answers, sends byte after byte or gigabytes), a request ends within its time.
"""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from typing import TYPE_CHECKING

from rltop import units
from rltop.errors import RltopError, SourceError, reason_of
from rltop.files import open_regular
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    import ssl

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer: four times what the largest known endpoint sends."""
ANSWER_S = 4.0
"""From the connection to the last byte."""
_MOST_TOKEN_BYTES = 16 * 1024
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where to ask."""

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
    """The address in a URL that a person typed.

    Args:
        text: such as `http://host:8000/metrics`; without a scheme it is http.

    Raises:
        RltopError: it is none, or holds a user or password, which `ps` would show to everybody.
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
    """An address that gave no usable answer.

    Attributes:
        status: of HTTP, or 0 where there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Endpoint:
    """One address, with what it takes to be let in.

    Args:
        token: sent to this address alone, as bearer; `user:password` is sent as basic authentication. Empty: none.
        authorities: a file of certificates that are trusted besides those of the system; empty: none.
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
        """What is at a path; that of the address where none is given.

        Raises:
            EndpointError: there is no answer within the time, it is too long, or its status is not 200.
        """
        connection, is_late = self._connection(), threading.Event()
        deadline = threading.Timer(self._answer_s, _cut, (connection, is_late))
        deadline.daemon = True
        try:
            # Both have a time-out of their own, for the whole of it; what comes then has one for each byte.
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
            # Of the socket itself: that of TLS would say goodbye first, and wait.
            socket.socket.shutdown(held, socket.SHUT_RDWR)
        except OSError:
            return


def _trust(authorities: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - only where TLS is spoken

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
    """The token in a file, without the newline at its end.

    Raises:
        RltopError: the file cannot be read, or holds no single line of text.
    """
    try:
        with open_regular(path) as file:
            text = (file.read(_MOST_TOKEN_BYTES) or b"").decode().strip()
    except (OSError, ValueError) as error:
        raise RltopError(f"{flag} {path}: {reason_of(error)}", "name a file that holds the token alone") from error
    if not text or not text.isascii() or not text.isprintable():
        raise RltopError(f"{flag} {path}: not one line of text", "name a file that holds the token alone")
    return text

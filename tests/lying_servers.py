"""Servers on loopback that answer as tests want: well, late, endlessly, with a redirect, or not in HTTP."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "unit" / "live" / "certificates"
Answer = Callable[[socket.socket, bytes], None]
"""Called with the connection and the head of the request."""


class Server:
    """Accepts connections and records the heads of all requests.

    Args:
        answer: called with each connection in a thread of its own.
        is_tls: use TLS, with a certificate of a private authority for 127.0.0.1.
        host: address to listen on.
    """

    def __init__(self, answer: Answer, *, is_tls: bool = False, host: str = "127.0.0.1") -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self._answer, self._is_tls, self._host = answer, is_tls, host
        self._socket = socket.create_server((host, 0))
        self.port = self._socket.getsockname()[1]
        self.scheme = "https" if is_tls else "http"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self._host}:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(20.0)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            held.enter_context(connection)
            if self._is_tls:
                trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                trust.load_cert_chain(CERTIFICATES / "server.pem")
                connection = held.enter_context(trust.wrap_socket(connection, server_side=True))
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(4096)
                if not data:
                    return
                head += data
            self.heads.append(head)
            self._answer(connection, head)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextlib.contextmanager
def serving(answer: Answer, *, is_tls: bool = False, host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server(answer, is_tls=is_tls, host=host)
    try:
        yield server
    finally:
        server.close()


def page(body: bytes | Callable[[], bytes], *headers: str, status: str = "200 OK") -> Answer:
    def answer(connection: socket.socket, head: bytes) -> None:
        data = body() if callable(body) else body
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode() + data)

    return answer


def endless(connection: socket.socket, head: bytes) -> None:
    """Sends a gigabyte without a length."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _ in range(1024):
        connection.sendall(b"vllm:num_requests_running 1\n" * 37_450)


def silent(connection: socket.socket, head: bytes) -> None:
    time.sleep(15.0)


def dripping_head(connection: socket.socket, head: bytes) -> None:
    """Sends the head byte by byte."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def dripping_body(connection: socket.socket, head: bytes) -> None:
    """Sends the body byte by byte."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"a")
        time.sleep(0.05)


def torn(connection: socket.socket, head: bytes) -> None:
    """Closes the connection in the middle of the body."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nvllm:num_requests_running 1\n")


def noise(connection: socket.socket, head: bytes) -> None:
    """Does not speak HTTP."""
    connection.sendall(bytes(range(256)) * 64)


def no_chunk(connection: socket.socket, head: bytes) -> None:
    """Sends a wrong chunk length."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nabc\r\n")

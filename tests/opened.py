"""What the program opens and connects to, as Python itself tells."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SEEN: list[tuple[str, str]] = []
_LISTENING: list[bool] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _LISTENING and event in ("open", "socket.connect", "subprocess.Popen", "os.system"):
        _SEEN.append((event, str(arguments[1] if event == "socket.connect" else arguments[0])))


sys.addaudithook(_hear)


@contextmanager
def told() -> Iterator[list[tuple[str, str]]]:
    """Event and path, address or program of what happens meanwhile; a hook stays for good, so it is there once."""
    _SEEN.clear()
    _LISTENING.append(True)
    try:
        yield _SEEN
    finally:
        _LISTENING.clear()

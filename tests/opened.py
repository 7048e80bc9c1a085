"""What the program opens and connects to, by Python's audit events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_SEEN: list[tuple[str, str]] = []
_LISTENING: list[bool] = []


@cache
def _hear() -> None:
    """Install the audit hook once, because it cannot be removed and slows everything down from then on."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _LISTENING and event in ("open", "socket.connect", "subprocess.Popen", "os.system"):
        _SEEN.append((event, str(arguments[1] if event == "socket.connect" else arguments[0])))


@contextmanager
def told() -> Iterator[list[tuple[str, str]]]:
    """Record (event; path, address or program) inside the `with` block."""
    _hear()
    _SEEN.clear()
    _LISTENING.append(True)
    try:
        yield _SEEN
    finally:
        _LISTENING.clear()

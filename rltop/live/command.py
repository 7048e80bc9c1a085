"""Programs that are asked: without a shell, with nothing to read, for so long and for so many bytes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

MOST_BYTES = 4 * 1024 * 1024


class CommandError(OSError):
    """A program that could not be run, failed, or did not end in time; `strerror` says so in a few words."""

    def __init__(self, text: str) -> None:
        super().__init__(0, text)


class Command:
    """Runs one program at a time; whoever closes it ends what runs.

    Args:
        words: the program and what it is called with; never a shell.
    """

    def __init__(self, words: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> None:
        self._words, self._seconds = list(words), seconds
        self._environment = {**os.environ, **(environment or {})}
        self._running: subprocess.Popen[bytes] | None = None

    def output(self) -> str:
        """What it prints.

        Raises:
            CommandError: it cannot be run, ends with another code than 0, prints too much or takes too long.
        """
        name = self._words[0]
        try:
            running = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise CommandError(f"no {name} on this machine") from None
        self._running = running
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self.close()

        deadline = threading.Timer(self._seconds, end)
        deadline.daemon = True
        deadline.start()
        try:
            assert running.stdout is not None and running.stderr is not None
            data = running.stdout.read(MOST_BYTES + 1)
            said = b"" if len(data) > MOST_BYTES else running.stderr.read(MOST_BYTES)
        finally:
            deadline.cancel()
            self.close()
            for stream in (running.stdout, running.stderr):
                assert stream is not None
                stream.close()
            code = running.wait()
            self._running = None
        if is_late.is_set():
            raise CommandError(f"{name} does not answer")
        if len(data) > MOST_BYTES:
            raise CommandError(f"{name} prints too much")
        if code:
            last = said.decode("utf-8", "replace").strip().splitlines()
            raise CommandError(last[-1] if last else f"{name} ended with {code}")
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """End what runs, and what it has started."""
        running = self._running
        if running is not None:
            with contextlib.suppress(OSError):
                os.killpg(running.pid, signal.SIGKILL)

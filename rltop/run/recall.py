"""Rows that memory has downsampled, read again from the file.

One daemon thread per request that is under way: a server that does not answer holds up nobody. What comes back is
checked: a file that was rewritten since does not have the row any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from rltop.files import open_regular
from rltop.formats.decoder import DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import FilePosition
from rltop.run.worker import Worker

MAX_BYTES = 32 * 1024 * 1024
_READ_BYTES = 256 * 1024

Row = Mapping[str, float]


class Recaller:
    """Reads single rows of one file; at most one request at a time, the newest wish wins.

    Args:
        on_done: called in the thread that reads, after every row that was looked for.
    """

    def __init__(self, path: str, options: DecoderOptions, on_done: Callable[[], None]) -> None:
        self._path = path
        self._options = options
        self._on_done = on_done
        self._wanted: tuple[int, FilePosition] | None = None
        self._done: list[tuple[int, Row | None]] = []
        self._missing: set[int] = set()
        self._is_busy = False
        self._lock = threading.Lock()

    def ask(self, step: int, position: FilePosition) -> None:
        """Read the row of `step`, unless it is known to be gone.

        Args:
            position: of the row, or of one up to a few hundred rows before it.
        """
        with self._lock:
            if step in self._missing:
                return
            self._wanted = (step, position)
            if self._is_busy:
                return
            self._is_busy = True
        Worker("recall").start(self._work)

    def take(self) -> list[tuple[int, Row]]:
        with self._lock:
            done, self._done = self._done, []
            self._missing.update(step for step, row in done if row is None)
        return [(step, row) for step, row in done if row is not None]

    @property
    def is_idle(self) -> bool:
        return not self._is_busy and not self._done

    def is_missing(self, step: int) -> bool:
        return step in self._missing

    def _work(self) -> None:
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._is_busy = False
                    return
            row = read_row(self._path, *wanted, self._options)
            with self._lock:
                self._done.append((wanted[0], row))
            self._on_done()


def read_row(path: str, step: int, position: FilePosition, options: DecoderOptions) -> Row | None:
    """All values of the rows of `step` that stand together at `position` or behind it; None if they do not.

    The index is sparse: `position` may be that of an earlier step, up to a few hundred rows before.

    Args:
        position: where to read from; 32 MiB are read at most.

    Returns:
        Key → value; None too where the file cannot be read.
    """
    decoder = JsonlDecoder(DecoderOptions(options.step_key, may_count_rows=False))
    row: dict[str, float] = {}
    try:
        with open_regular(path) as file:
            file.seek(position.offset)
            for start in range(position.offset, position.offset + MAX_BYTES, _READ_BYTES):
                data = file.read(_READ_BYTES)
                records = decoder.feed(data, start, position.generation) if data else decoder.finish()
                for record in records:
                    if record.step == step:
                        row.update((k, v) for k, v in zip(record.schema.keys, record.values, strict=True) if v == v)
                    elif row or record.step > step:
                        return row or None
                if not data:
                    break
    except OSError:
        return None
    return row or None

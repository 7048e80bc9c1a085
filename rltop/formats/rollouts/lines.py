"""Dumps of JSON lines: one file of many steps, indexed as it is read.

Owns which stretch of the file holds which step. The newest rows are looked through
first, then the file from its beginning, a piece at a time, so that a dump of any
size opens at once; only the rows of the step that is asked for are decoded.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from rltop.files import open_regular
from rltop.formats.jsonl import patient_loads
from rltop.formats.rollouts.rows import Row, placed, read_text, step_of_row
from rltop.model.completions import Completion, Passage, RolloutText, TextPlace
from rltop.structs import NamedTuple

PIECE_BYTES = 4 * 1024 * 1024
"""What one call of `refresh` looks through."""
NEWEST_BYTES = 8 * 1024 * 1024
"""How much of the end of a large file is looked through before its beginning."""
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_STEP_BYTES = 512 * 1024 * 1024
"""What is read for one step; more than any step of any trainer holds, unless the file has no order at all."""
_NEAR_BYTES = 64 * 1024
"""Stretches of a step that are no farther apart are kept as one; rows of other steps between them are passed over."""
_MAX_STRETCHES = 500_000


class RawLine(NamedTuple):
    """One line of a file: where it begins, and its bytes without the newline."""

    start: int
    data: bytes


def parsed(line: bytes) -> Row | None:
    """A line as a row; None where it is none. NaN and Infinity are taken for what they are."""
    row: object
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            row, _ = patient_loads(line)
        except ValueError:
            return None
    return row if isinstance(row, dict) else None


class _Pass:
    """One way through a file, from a place to another: whole lines, and what was too long to be one."""

    def __init__(self, start: int, stop: int | None, *, is_aligned: bool) -> None:
        self.at = start
        self.stop = stop
        self._is_skipping = not is_aligned
        self.too_long = 0

    def lines(self, file: BinaryIO, most: int) -> Iterator[RawLine]:
        """Whole lines in about `most` more bytes; a line without its end is left for the next time."""
        end = self.at + most
        while self.at < end and not self.is_done:
            data = self._read(file)
            if not data:
                yield from self._last(file)
                return
            yield from self._cut(data)

    def _last(self, file: BinaryIO) -> Iterator[RawLine]:
        """A last line that is whole although nothing ends it; one that is being written is no JSON yet."""
        if self._is_skipping:
            return
        file.seek(self.at)
        data = file.read(MAX_LINE_BYTES)
        if data.endswith(b"}") and b"\n" not in data and parsed(data) is not None:
            yield RawLine(self.at, data)
            self.at += len(data)

    @property
    def is_done(self) -> bool:
        return self.stop is not None and self.at >= self.stop

    def _read(self, file: BinaryIO) -> bytes:
        """The next whole lines, at least one; nothing where the file has none yet. Longer ones are passed over."""
        file.seek(self.at)
        wanted = PIECE_BYTES if self.stop is None else min(PIECE_BYTES, max(self.stop - self.at, _NEAR_BYTES))
        pieces: list[bytes] = []
        size = 0
        while True:
            data = file.read(wanted)
            cut = data.find(b"\n") + 1 if size else data.rfind(b"\n") + 1
            if cut and size + cut <= MAX_LINE_BYTES:
                return b"".join([*pieces, data[:cut]])
            size += cut or len(data)
            if size > MAX_LINE_BYTES:
                pieces.clear()
            else:
                pieces.append(data)
            if cut or (len(data) < wanted and size > MAX_LINE_BYTES):
                self.too_long += not self._is_skipping
                self._is_skipping = not cut
                self.at += size
                if self.is_done or not cut:
                    return b""
                pieces, size = [], 0
            elif len(data) < wanted:
                return b""

    def _cut(self, data: bytes) -> Iterator[RawLine]:
        start = 0
        base = self.at
        if self._is_skipping:
            start = data.index(b"\n") + 1
            self._is_skipping = False
        while start < len(data):
            stop = data.index(b"\n", start)
            # What begins in the stretch of another pass is that one's.
            if self.stop is not None and base + start >= self.stop:
                self.at = self.stop
                return
            yield RawLine(base + start, data[start:stop])
            start = stop + 1
        self.at = base + len(data)


class LinesDump:
    """A file of JSON lines that name their steps.

    Attributes:
        stream: the stream of the run whose steps it counts; see `RolloutSource`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.stream = ""
        self._begin_anew((0, 0))

    def _begin_anew(self, file: tuple[int, int]) -> None:
        self._file = file
        self._size = 0
        self._steps: list[int] = []
        self._stretches: dict[int, list[tuple[int, int]]] = {}
        self._count = 0
        self._bad = self._no_step = 0
        self._passes: list[_Pass] = []
        self._done_too_long = 0
        self._error = ""

    @property
    def steps(self) -> Sequence[int]:
        return self._steps

    @property
    def notes(self) -> Sequence[str]:
        too_long = self._done_too_long + sum(each.too_long for each in self._passes)
        found = [f"{self.path}: {self._error}"] if self._error else []
        for number, what in (
            (self._bad, "not valid JSON"),
            (self._no_step, "without a step"),
            (too_long, f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB"),
        ):
            if number:
                found.append(f"{number:,} {'line' if number == 1 else 'lines'} {what}")
        return found

    @property
    def progress(self) -> float | None:
        left = sum(max(0, (self._size if each.stop is None else each.stop) - each.at) for each in self._passes)
        waits = len(self._passes) > 1 or left > PIECE_BYTES
        return 1.0 - left / self._size if waits and self._size else None

    def refresh(self) -> bool:
        try:
            with open_regular(self.path) as file:
                return self._look(file)
        except OSError as error:
            self._error = error.strerror or "cannot be read"
            return False

    def _look(self, file: BinaryIO) -> bool:
        info = Path(self.path).stat()
        here = (info.st_dev, info.st_ino)
        if here != self._file or info.st_size < self._size:
            self._begin_anew(here)
        self._error = ""
        self._size = info.st_size
        if not self._passes:
            tail = info.st_size - NEWEST_BYTES
            if tail > 0:
                self._passes = [_Pass(tail, None, is_aligned=False), _Pass(0, tail, is_aligned=True)]
            else:
                self._passes = [_Pass(0, None, is_aligned=True)]
        # The end is looked at first each time: what is newest is what a person waits for.
        for way in list(self._passes):
            before = way.at
            for line in way.lines(file, PIECE_BYTES):
                self._take(line)
            if way.is_done:
                self._passes.remove(way)
                self._done_too_long += way.too_long
            elif before < way.at < (self._size if way.stop is None else way.stop):
                return True
        return len(self._passes) > 1

    def _take(self, line: RawLine) -> None:
        if not line.data.strip():
            return
        row = parsed(line.data)
        if row is None:
            self._bad += 1
            return
        step = step_of_row(row)
        if step is None:
            self._no_step += 1
            return
        start, stop = line.start, line.start + len(line.data) + 1
        known = self._stretches.get(step)
        if known is None:
            self._stretches[step] = [(start, stop)]
            self._count += 1
            insort(self._steps, step)
            return
        first, last = known[-1]
        is_near = 0 <= start - last <= _NEAR_BYTES
        if is_near or (self._count >= _MAX_STRETCHES and start >= first):
            known[-1] = (first, stop)
        else:
            known.append((start, stop))
            self._count += 1

    def stamp(self, step: int) -> Hashable:
        """Moves when more rows of a step have been found."""
        return self._file, tuple(self._stretches.get(step, ())[-2:]), len(self._stretches.get(step, ()))

    def read(self, step: int) -> list[Completion]:
        found: list[Completion] = []
        try:
            with open_regular(self.path) as file:
                left = MAX_STEP_BYTES
                for start, stop in sorted(self._stretches.get(step, ())):
                    left -= stop - start
                    if left < 0:
                        break
                    found += completions_in(file, self.path, start, stop, step)
        except OSError as error:
            self._error = error.strerror or "cannot be read"
        return found

    def text(self, completion: Completion) -> RolloutText | None:
        return text_in_lines(completion) if _is_from(completion, self.path) else None


def completions_in(file: BinaryIO, path: str, start: int, stop: int | None, step: int | None) -> Iterator[Completion]:
    """The rows of a stretch of a file; where `step` is given, only those that name it.

    Args:
        stop: the byte behind it; None: the end of the file.
        step: only rows that name this step; None: all.
    """
    way = _Pass(start, stop, is_aligned=True)
    before = -1
    while way.at != before:
        before = way.at
        for line in way.lines(file, PIECE_BYTES):
            row = parsed(line.data)
            if row is None or (step is not None and step_of_row(row) != step):
                continue
            yield placed(row, TextPlace(path, line.start, len(line.data))).completion


def rows_of_file(file: BinaryIO) -> Iterator[tuple[RawLine, Row]]:
    """Every row of a file, with its line; lines that are none are passed over."""
    way = _Pass(0, None, is_aligned=True)
    before = -1
    while way.at != before:
        before = way.at
        for line in way.lines(file, PIECE_BYTES):
            row = parsed(line.data)
            if row is not None:
                yield line, row


def _is_from(completion: Completion, path: str) -> bool:
    return bool(completion.places) and completion.places[0].path == path


def text_in_lines(completion: Completion) -> RolloutText | None:
    """The texts of a completion whose rows are lines of a file; None where they are gone."""
    found: list[RolloutText] = []
    for path, start, size in completion.places:
        try:
            with open_regular(path) as file:
                file.seek(start)
                row = parsed(file.read(min(size, MAX_LINE_BYTES)))
        except OSError:
            row = None
        if row is not None:
            found.append(read_text(row))
    return turns_as_one(found)


def turns_as_one(turns: Sequence[RolloutText]) -> RolloutText | None:
    """The texts of several turns one after the other, numbered; None where there is none."""
    if len(turns) < 2:
        return turns[0] if turns else None
    passages = [
        Passage(f"turn {i} of {len(turns)} · {passage.heading}", passage.text)
        for i, turn in enumerate(turns, 1)
        for passage in turn.passages
    ]
    return RolloutText(tuple(passages), turns[-1].facts, next((turn.note for turn in turns if turn.note), ""))

"""Several runs in one console log: those whose lines a launcher has marked, `(name, pid=2710)` in front of each.

SkyPilot follows all tasks of a sweep in one log. Nodes of one task have a rank in the mark, and are one run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.decoder import DecoderOptions
from rltop.formats.lines import MAX_LINE_BYTES

_MARK = re.compile(
    rb"^(?:\x1b\[[0-9;]*m)*\(([^(),=\x1b\n]{1,80}), pid=(\d{1,12})(?:, ip=[^()\n]{1,60})?\)", re.MULTILINE
)
_HEAD_BYTES = 256 * 1024
"""A log that has no mark by then has none."""
_BLOCK_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Writer:
    """One process: where its first and its last line begin, and what looks for its first row of metrics."""

    first: int
    last: int
    decoder: ConsoleDecoder = field(default_factory=lambda: ConsoleDecoder(DecoderOptions()))
    has_rows: bool = False


def writers_in(file: BinaryIO) -> Sequence[str]:
    """What marks the lines of each run, in the order of their beginnings; empty where there are not several.

    A name says which run it is, and the number of the process with it where several of one name wrote at one time.

    Args:
        file: a console log, at its beginning.
    """
    writers: dict[tuple[bytes, bytes], _Writer] = {}
    start, rest = 0, file.read(_HEAD_BYTES)
    if _MARK.search(rest) is None:
        return ()
    while rest:
        more = file.read(_BLOCK_BYTES)
        block = rest + more
        end = block.rfind(b"\n") + 1 if more and len(rest) <= MAX_LINE_BYTES else len(block)
        _look(block[:end], start, writers)
        start, rest = start + end, block[end:]
    for writer in writers.values():
        writer.has_rows = writer.has_rows or bool(writer.decoder.finish())
    runs = sorted((writer.first, mark) for mark, writer in writers.items() if writer.has_rows)
    of_name = Counter(name for _, (name, _) in runs)
    found = dict.fromkeys(
        _text(name, pid if of_name[name] > 1 and _overlap(name, writers) else b"") for _, (name, pid) in runs
    )
    return tuple(found) if len(found) > 1 else ()


def _look(block: bytes, start: int, writers: dict[tuple[bytes, bytes], _Writer]) -> None:
    """Note the writers of some lines, and decode those of each that has had no row so far."""
    lines: dict[tuple[bytes, bytes], list[bytes]] = {}
    for mark in _MARK.finditer(block):
        key, at = (mark[1], mark[2]), start + mark.start()
        writer = writers.setdefault(key, _Writer(at, at))
        writer.last = at
        if not writer.has_rows:
            end = block.find(b"\n", mark.end())
            lines.setdefault(key, []).append(block[mark.start() : end if end >= 0 else len(block)])
    for key, own in lines.items():
        writers[key].has_rows = bool(writers[key].decoder.feed(b"\n".join((*own, b"")), start, 0))


def _overlap(name: bytes, writers: dict[tuple[bytes, bytes], _Writer]) -> bool:
    """Did several processes of one name write at one time? Else one was started after the other, and goes on."""
    spans = sorted((each.first, each.last) for (own, _), each in writers.items() if own == name and each.has_rows)
    return any(before[1] > after[0] for before, after in pairwise(spans))


def _text(name: bytes, pid: bytes) -> str:
    return (name + (b", pid=" + pid if pid else b"")).decode("utf-8", "replace")

"""Separates several runs in one console log by the prefix of their lines, such as `(name, pid=2710)`.

SkyPilot writes all tasks of a sweep to one log, and so does Ray (`(PPO pid=1234)`); others use prefixes like `[run-a]`,
`run-a:` or `run-a |`. Prefixes mark different runs if their lines have the same keys, count steps independently, and
mostly have different results at the same step. They belong to one run if

- they name ranks (`rank=0`, `rank=1`), or parts of a job (`WorkerDict`, `TaskRunner`, `[train]`, `[eval]`);
- a changing result is mostly equal at the same step: a mean over all ranks, printed by each;
- they have no step in common, and their steps never go back: they alternate, or one continues the other.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.console.scan import STAMP, stamped
from rltop.formats.decoder import MAX_LINE_BYTES, DecoderOptions
from rltop.model import Record
from rltop.regex import regex

_MARK = regex(
    rb"""
    ^(?-x:%b)?(?:\x1b\[[0-9;]*m)*
    (?: \((?P<task>(?P<name>[^(),=\x1b\n]{1,80}?),?[ ](?:rank=(?P<rank>\d{1,9}),[ ])?pid=\d{1,12})
          (?:,[ ]ip=[^()\n]{1,60})?\)
      | \[(?P<tag>[A-Za-z][^\[\]\x1b\n]{0,79})\]:?(?=[\s\x1b])
      | (?P<word>[A-Za-z][\w.-]{0,63})(?::|[ ]\|)
          (?=\s{1,4}(?:(?i:global_?|train_?)?(?i:step|iter|update|epoch|episode)|\{'))
    )"""
    % STAMP.encode(),
    re.MULTILINE | re.VERBOSE,
)
_PART = regex(
    r"(?i:workers?|actors?|critics?|rollouts?|rollouter|runner|servers?|managers?|engines?|driver|main|trainers?"
    r"|explorer|learners?|samplers?|buffer|generators?|policy|ref|reference|rewards?|agents?|players?|envs?"
    r"|environments?|ranks?|local|default|nodes?|hosts?|gpus?|cuda|devices?|proc|process|train|training|evals?"
    r"|evaluation|vals?|valid|validation|test|testing|infer|inference|info|warn|warning|debug|error|critical|notice"
    r"|log|logger|root|wandb|epochs?|steps?|iters?|iterations?|updates?|ep|episodes?|stages?|phases?|loss|time)"
)
"""Words for a part of a job, a phase, a level or a count, which do not distinguish runs."""
_TRIAL = regex(r"(?i:fn|func|function|trainable|trials?|seeds?|sweep|exp|experiment)")
"""Words that denote a run whatever else is in the name, such as Ray's `train_fn`."""
_VARIANT = regex(r"(?i:train|training|main|grpo|ppo)[_.-](?!\d+\Z).*|.*[a-z0-9][_.-](?i:train|training)")
"""`train_a` or `lr3e-6_train`: the rest of the name distinguishes runs, unless it is a number or a part of a job."""
_WORDS = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_RESULT = regex(r"loss|rew|return|score|acc|kl|entropy|grad|norm|success|win|ppl", re.IGNORECASE)
_HEAD_BYTES = 256 * 1024
"""A log with no prefix in this range has none."""
_OTHERS_BYTES = 16 * 1024 * 1024
"""A log with only one prefix in this range has one run."""
_BLOCK_BYTES = 1024 * 1024
_MOST_MARKS = 256
_ROWS = 64
"""Rows per prefix that are compared."""
_ALIKE = 1e-3


@dataclass(slots=True)
class _Writer:
    """One prefix: its text, where its first and last line begin, and its first rows."""

    text: str
    name: str
    rank: str
    is_task: bool
    first: int
    last: int
    decoder: ConsoleDecoder
    rows: list[Record] = field(default_factory=list)

    @property
    def keys(self) -> set[str]:
        return {key for row in self.rows for key in row.schema.keys}

    @property
    def is_own(self) -> bool:
        """Does it have rows and, unless it is known to be a task, more than one step?"""
        return bool(self.rows) and (self.is_task or len({row.step for row in self.rows}) > 1)


def writers_in(file: BinaryIO) -> Sequence[str]:
    """The prefixes of the runs, in order of their first line; empty unless there are several.

    A run is identified by its name, with the process id if several of the same name wrote concurrently.
    """
    writers: dict[bytes, _Writer | None] = {}
    start, rest = 0, file.read(_HEAD_BYTES)
    if not any(_writer(mark, 0) for mark in _MARK.finditer(stamped(rest))):
        return ()
    while rest:
        more = file.read(_BLOCK_BYTES)
        block = stamped(rest + more)
        end = block.rfind(b"\n") + 1 if more and len(rest) <= MAX_LINE_BYTES else len(block)
        _look(block[:end], start, writers)
        start, rest = start + end, block[end:]
        if start > _OTHERS_BYTES and sum(writer is not None for writer in writers.values()) < 2:
            return ()
    found = [writer for writer in writers.values() if writer is not None]
    for writer in found:
        writer.rows += writer.decoder.finish() if len(writer.rows) < _ROWS else ()
    runs = _runs(sorted((writer for writer in found if writer.is_own), key=lambda each: each.first))
    of_name = Counter(writer.name for writer in runs)
    names = [writer.text if of_name[writer.name] > 1 else writer.name for writer in runs]
    return tuple(names) if len(names) > 1 else ()


def _writer(mark: re.Match[bytes], at: int) -> _Writer | None:
    """The writer of a prefix; None if it names a part of a run."""
    text = (mark["task"] or mark["tag"] or mark["word"]).decode("utf-8", "replace")
    name = mark["name"].decode("utf-8", "replace") if mark["name"] else text
    is_task = mark["task"] is not None and text.startswith(f"{name},")
    words = _WORDS.findall(name)
    is_variant = _VARIANT.fullmatch(name) and sum(map(_is_part, words)) == 1
    if not (is_task or is_variant) and any(map(_is_part, words)) and not any(map(_TRIAL.fullmatch, words)):
        return None
    rank = (mark["rank"] or b"").decode()
    return _Writer(text, name, rank, is_task, at, at, ConsoleDecoder(DecoderOptions(writer=text)))


def _is_part(word: str) -> bool:
    return _PART.fullmatch(word) is not None


def _look(block: bytes, start: int, writers: dict[bytes, _Writer | None]) -> None:
    for mark in _MARK.finditer(block):
        key = mark["task"] or mark["tag"] or mark["word"]
        if key not in writers and len(writers) < _MOST_MARKS:
            writers[key] = _writer(mark, start + mark.start())
        writer = writers.get(key)
        if writer is None:
            continue
        writer.last = start + mark.start()
        if len(writer.rows) < _ROWS:
            end = block.find(b"\n", mark.end())
            line = block[mark.start() : end if end >= 0 else len(block)]
            writer.rows += writer.decoder.feed(line + b"\n", writer.last, 0)


def _runs(writers: Sequence[_Writer]) -> list[_Writer]:
    found: list[_Writer] = []
    for writer in writers:
        others = [other for other in writers if other is not writer]
        is_run = writer.is_task or any(_shares_keys(writer, other) for other in others)
        if is_run and not any(_is_same(other, writer) for other in found):
            found.append(writer)
    return found


def _shares_keys(one: _Writer, other: _Writer) -> bool:
    return 2 * len(one.keys & other.keys) >= max(1, min(len(one.keys), len(other.keys)))


def _is_same(one: _Writer, other: _Writer) -> bool:
    if one.rank != other.rank:
        return True
    # If they did not write concurrently, one was started after the other, and continues it.
    if one.name == other.name and not (one.first < other.last and other.first < one.last):
        return True
    if one.is_task and other.is_task and one.name != other.name:
        return False
    steps = {row.step: row for row in one.rows}
    common = [(steps[row.step], row) for row in other.rows if row.step in steps]
    if not _shares_keys(one, other):
        return True
    if not common:
        rows = sorted((*one.rows, *other.rows), key=lambda row: row.position.offset)
        return all(before.step < after.step for before, after in pairwise(rows))
    keys = [
        key for key in one.keys & other.keys if _RESULT.search(key) and (_changes(one, key) or _changes(other, key))
    ]
    return any(_is_alike(common, key) for key in keys)


def _changes(writer: _Writer, key: str) -> bool:
    return len({row.values[row.schema.index[key]] for row in writer.rows if key in row.schema.index}) > 1


def _is_alike(common: Iterable[tuple[Record, Record]], key: str) -> bool:
    pairs = [
        (one.values[one.schema.index[key]], other.values[other.schema.index[key]])
        for one, other in common
        if key in one.schema.index and key in other.schema.index
    ]
    return 2 * sum(math.isclose(one, other, rel_tol=_ALIKE) for one, other in pairs) > len(pairs)

"""One training that is recorded several times: in a file of its own, by trackers, in checkpoints.

Told by the numbers: the same rows at the beginning or at the end, whatever the keys' prefixes and the steps. A look is
bounded: the beginning and the last rows of each run, and only where there are files of several kinds.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rltop.clock import SystemClock
from rltop.errors import DecodeError
from rltop.formats.decoder import Decoder, DecoderOptions
from rltop.formats.kinds import KINDS, SWANLAB, TABLES, TENSORBOARD, WANDB, WHOLE_JSON
from rltop.model import Record
from rltop.model.table_rows import split_member
from rltop.regex import regex
from rltop.run.found import Found
from rltop.run.run_stream import last_rows
from rltop.run.sniff import SNIFF_BYTES, closed
from rltop.sources.events import ONE_SHOT, Chunk, Reset
from rltop.sources.feed import DirectFeed
from rltop.sources.file import LocalFileSystem
from rltop.sources.tail import folder_at, open_tail
from rltop.structs import NamedTuple

MOST_RUNS = 64
"""Of more runs only the newest are compared."""
ROWS = 16
"""So many rows at the beginning, and at the end, are compared."""
_LOOKS, _LOOK_BYTES = 4, 64 * 1024
_LEAST_CELLS = 4
"""So many different numbers that are no round ones do not agree by chance in whole rows."""
_FEW_ROWS, _YOUNG_CELLS = 3, 2
"""Of fewer rows, which all agree, fewer numbers do: another look follows when there are more."""
_RERUN_S = 10.0
"""The same numbers at another time are those of another run with the same seed."""
_LATE_S = 60.0
_CLOSE = 1e-5
"""Relative; TensorBoard has 32 bits."""
_NO_SIGN = regex(r"(?:^|[/_])(?:lr|learning_rate|epoch|steps?|time|timestamp|runtime|progress|tokens?|seconds)", re.I)
"""Keys of schedules and clocks, which are alike in different runs, or differ between records of one."""
_TRACKERS = (WANDB, SWANLAB, TABLES, TENSORBOARD)
_END_BYTES = 8 * 1024
_MAX_STEPS = regex(rb'[\s,{]"max_steps": ?([1-9]\d{0,14})\b')
"""Stands behind the history in `trainer_state.json`, at the end of the file."""
_PREFIX = regex(r"^train/|(?<=^eval)_")

Values = Mapping[str, float]


class RowSample(NamedTuple):
    """Numbers of one row that tell runs apart, and when it was written, where it says so."""

    values: Values
    time_s: float | None = None


class Numbers(NamedTuple):
    """The first and the last rows of a run; `size` is that of its file when it was read.

    `total_steps` is how many steps the run is to make, as its first rows say, or the end of a document.
    """

    size: int
    head: Sequence[RowSample] = ()
    tail: Sequence[RowSample] = ()
    total_steps: int | None = None

    @property
    def has_begun(self) -> bool:
        """Are there rows to tell the run by? A tracker's first one may hold no more than the size of a table."""
        return len(self.head) >= _FEW_ROWS or any(_is_odd(value) for row in self.head for value in row.values.values())

    def is_of(self, found: Found) -> bool:
        """Do they hold for the run as it is now? A database grows in another file, of which only its rows tell."""
        return self.size == found.size and (split_member(found.path) is None or len(self.head) == ROWS)


def read_numbers(found: Found, known: Numbers | None = None) -> Numbers:
    """Read the beginning and the end of a run; what cannot be read has no rows."""
    if found.kind is None or not found.kind.has_metrics:
        return Numbers(found.size)
    try:
        if known is not None and len(known.head) == ROWS:
            return known._replace(size=found.size, tail=_tail(found))
        head, total_steps = _head(found)
        return Numbers(found.size, head, _tail(found), total_steps)
    except (OSError, DecodeError):
        return Numbers(found.size)


def _head(found: Found) -> tuple[list[RowSample], int | None]:
    assert found.kind is not None
    path, decoder = os.path.abspath(found.paths[0]), found.kind.make(DecoderOptions())  # noqa: PTH100
    if found.kind is WHOLE_JSON:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(SNIFF_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _END_BYTES))
            told = _MAX_STEPS.search(file.read(_END_BYTES)) or _MAX_STEPS.search(data)
        rows = _rows(decoder.feed(data if len(data) < SNIFF_BYTES else closed(data), 0, 0), decoder)
        return rows, int(told[1]) if told is not None else None
    fs, clock = LocalFileSystem(), SystemClock()
    source = folder_at(path, fs, clock) or open_tail(path, fs, clock, ONE_SHOT)
    records: list[Record] = []
    for _ in range(_LOOKS):
        records += _decoded(decoder, source.poll(_LOOK_BYTES))
        if len(records) > ROWS:
            break
    source.close()
    return _rows(records, decoder), max((one.total_steps or 0 for one in records), default=0) or None


def _tail(found: Found) -> list[RowSample]:
    assert found.kind is not None
    member = split_member(found.path)
    if member is not None:
        from rltop.formats.tables import newest_values  # noqa: PLC0415 - few have trackers

        values = _telling(newest_values(member[0]).get(member[1], {}))
        return [RowSample(values)] if values else []
    last = last_rows(found.kind, ROWS)
    if last is None:
        return []
    decoder = found.kind.make(DecoderOptions(may_count_rows=False))
    feed = DirectFeed(found.path, last=last)
    records: list[Record] = []
    while events := feed.take(SNIFF_BYTES):
        records += _decoded(decoder, events)
    feed.close()
    return _rows(records, decoder, is_tail=True)


def _decoded(decoder: Decoder, events: Iterable[Chunk | Reset]) -> list[Record]:
    chunks = [event for event in events if isinstance(event, Chunk)]
    return [record for each in chunks for record in decoder.feed(each.data, each.offset, each.generation)]


def _rows(records: Sequence[Record], decoder: Decoder, *, is_tail: bool = False) -> list[RowSample]:
    rows = [RowSample(_telling(dict(zip(one.schema.keys, one.values, strict=False))), one.time_s) for one in
            [*records, *decoder.finish()]]  # fmt: skip
    rows = [row for row in rows if row.values]
    return rows[-ROWS:] if is_tail else rows[:ROWS]


def _telling(cells: Values) -> Values:
    return {_PREFIX.sub(lambda at: "/" if at[0] == "_" else "", key): value for key, value in cells.items()
            if math.isfinite(value) and not _NO_SIGN.search(key)}  # fmt: skip


def are_same(one: Numbers, other: Numbers) -> bool:
    """Are the first rows, or the last ones, those of one training?"""
    gap_s = _agree(one.head, other.head)
    if gap_s is None:
        gap_s = _agree(one.tail, other.tail)
    return gap_s is not None and gap_s <= _RERUN_S


def _agree(some: Sequence[RowSample], others: Sequence[RowSample]) -> float | None:
    """How far apart rows were written of which at least half agree in every key that both have; None where they do not.

    0 where no time is known. A few round numbers may agree by chance.
    """
    shared = {key for row in some for key in row.values} & {key for row in others for key in row.values}
    fewer, more = sorted((_with(some, shared), _with(others, shared)), key=len)
    pairs = [(row, same) for row in fewer if (same := _like(row, more)) is not None]
    gaps = [abs(a.time_s - b.time_s) for a, b in pairs if a.time_s is not None and b.time_s is not None]
    cells = {f"{value:.4g}" for row, _ in pairs for value in row.values.values() if _is_odd(value)}
    is_young = len(pairs) == len(fewer) < _FEW_ROWS
    least = _YOUNG_CELLS if is_young else _LEAST_CELLS
    return min(gaps, default=0.0) if len(cells) >= least and 2 * len(pairs) >= len(fewer) else None


def _is_odd(value: float) -> bool:
    return value != round(value, 2)


def _with(rows: Sequence[RowSample], keys: set[str]) -> list[RowSample]:
    kept = [row._replace(values={key: row.values[key] for key in row.values if key in keys}) for row in rows]
    return [row for row in kept if row.values]


def _like(row: RowSample, others: Sequence[RowSample]) -> RowSample | None:
    for other in others:
        keys = row.values.keys() & other.values.keys()
        if keys and all(math.isclose(row.values[key], other.values[key], rel_tol=_CLOSE) for key in keys):
            return other
    return None


def without_copies(
    runs: Sequence[Found],
    numbers_of: Callable[[Found], Numbers],
    pass_over: Callable[[str, str], None],
    named: Collection[str] = (),
) -> list[Found]:
    """The runs, each training once: by its freshest and most complete record, which names the others.

    A tracker's run without a row yet is passed over where another kind of file has been written since: of those that
    a training has begun, one stands for it until there are numbers to tell them apart by.

    Args:
        runs: as grouped, newest first.
        numbers_of: reads the first and last rows.
        pass_over: told the path of another record, and why it is passed over.
        named: paths that were typed, which are shown in any case.
    """
    if len(runs) < 2 or len({_store(run) for run in runs}) < 2:
        return list(runs)
    order = sorted(runs[:MOST_RUNS], key=lambda run: KINDS.index(run.kind) if run.kind else len(KINDS))
    numbers = {run.path: numbers_of(run) for run in order}
    kept: dict[str, Found] = {run.path: run for run in runs}
    whole: list[Found] = []
    for run in order:
        own = numbers[run.path]
        alike = [each for each in whole if _store(each) != _store(run) and are_same(numbers[each.path], own)]
        if alike and not run.beside and run.path not in named:
            main = min(alike, key=lambda each: abs((each.modified_s or 0.0) - (run.modified_s or 0.0)))
            kept[main.path] = kept[main.path]._replace(copies=(*kept[main.path].copies, *run.paths, *run.copies))
            pass_over(run.path, f"the same run as {main.path}")
            del kept[run.path]
        else:
            whole.append(run)
    for at, run in enumerate(whole):
        if run.kind in _TRACKERS and not numbers[run.path].has_begun and run.path not in named:
            since = (run.modified_s or 0.0) - _LATE_S
            told = [
                each for i, each in enumerate(whole) if each.path in kept and (i < at or numbers[each.path].has_begun)
            ]
            if any(_store(each) != _store(run) and (each.modified_s or 0.0) >= since for each in told):
                pass_over(run.path, "no row so far")
                del kept[run.path]
    return list(kept.values())


def _store(run: Found) -> tuple[str, str]:
    """Where records of different runs stand side by side: a kind of file, or one tracker's."""
    member = split_member(run.path)
    if run.kind is TABLES:
        return TABLES.name, "" if member is None else member[0]
    return run.kind.name if run.kind else "", os.path.basename(run.path) if run.kind is WHOLE_JSON else ""  # noqa: PTH119

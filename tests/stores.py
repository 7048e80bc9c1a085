"""Builders and comparisons of stores."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from rltop.formats.decoder import Decoder
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import CellMark, FilePosition, NonFinite, Record, Schema
from rltop.store.series import StoreOptions
from rltop.store.stream import ClosedRow, Stream

_SCHEMAS: dict[tuple[str, ...], Schema] = {}


def record(step: int, row: Mapping[str, float | NonFinite], time_s: float | None = None, offset: int = 0) -> Record:
    """A record as a decoder would make it."""
    keys = tuple(row)
    schema = _SCHEMAS.setdefault(keys, Schema(keys))
    marks = tuple(CellMark(i, v) for i, v in enumerate(row.values()) if isinstance(v, NonFinite))
    values = array("d", [float("nan") if isinstance(v, NonFinite) else v for v in row.values()])
    return Record(step, time_s, schema, values, marks, FilePosition(0, offset))


def read_in_pieces(decoder: Decoder, data: bytes, size: int = 1 << 20) -> list[Record]:
    """All records of a file that is fed in pieces."""
    records = [one for at in range(0, len(data), size) for one in decoder.feed(data[at : at + size], at, 0)]
    return [*records, *decoder.finish()]


_NONFINITE = {NonFinite.NAN: math.nan, NonFinite.POS_INF: math.inf, NonFinite.NEG_INF: -math.inf, NonFinite.NULL: None}


def cells(record: Record) -> dict[str, float | None]:
    """The values of a record by key, non-finite ones as floats; None for a null."""
    found: dict[str, float | None] = dict(zip(record.schema.keys, record.values, strict=True))
    return found | {record.schema.keys[mark.cell]: _NONFINITE[mark.kind] for mark in record.marks}


def row(record: Record) -> dict[str, float]:
    """The finite values of a record by key."""
    return {key: value for key, value in zip(record.schema.keys, record.values, strict=True) if value == value}


def kinds(record: Record) -> dict[str, NonFinite]:
    return {record.schema.keys[mark.cell]: mark.kind for mark in record.marks}


def cells_of(records: Iterable[Record]) -> dict[tuple[int, str], float | NonFinite]:
    """(step, key) → logged value."""
    found: dict[tuple[int, str], float | NonFinite] = {}
    for each in records:
        marks = {mark.cell: mark.kind for mark in each.marks}
        for i, key in enumerate(each.schema.keys):
            found[each.step, key] = marks.get(i, each.values[i])
    return found


def stream_of(
    rows: Iterable[tuple[int, Mapping[str, float | NonFinite]]], options: StoreOptions | None = None
) -> Stream:
    """A stream that has taken these rows, in order."""
    stream = Stream("", options)
    closed: list[ClosedRow] = []
    for step, row in rows:
        stream.append(record(step, row))
        closed.extend(stream.closed)  # as a judge does, who keeps up
        stream.closed.clear()
    stream.closed.extend(closed)
    return stream


def decoded(data: bytes, cuts: Iterable[int] = (), options: StoreOptions | None = None) -> tuple[Stream, JsonlDecoder]:
    """Decode bytes in pieces that end at `cuts`."""
    stream, decoder = Stream("", options), JsonlDecoder()
    closed: list[ClosedRow] = []
    edges = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    for start, stop in itertools.pairwise(edges):
        for each in decoder.feed(data[start:stop], start, 0):
            stream.append(each)
            closed.extend(stream.closed)
            stream.closed.clear()
    for each in decoder.finish():
        stream.append(each)
    stream.finish()
    stream.closed.extendleft(reversed(closed))
    return stream, decoder


def contents(stream: Stream) -> Any:
    """Everything in a store, as plain values that can be compared."""
    return {
        "keys": list(stream.keys),
        "rows": stream.rows,
        "restarts": stream.restarts,
        "closed": list(stream.closed),
        "segments": [
            [
                (
                    block.steps[row],
                    {k: v for k, v in zip(stream.keys, block.cells(row), strict=False) if v == v},
                    sorted(block.row_marks(block.steps[row])),
                    block.offsets[row],
                )
                for block in segment.blocks
                for row in range(len(block))
            ]
            for segment in stream.segments
        ],
        "downsampled": [
            [list(segment.pyramid.buckets(column)) for column in range(len(stream.keys))]
            for segment in stream.segments
            if segment.pyramid is not None
        ].__repr__(),
        "marks": {key: list(stream.marks(key)) for key in stream.keys},
        "counts": {name: getattr(stream.counts, name) for name in stream.counts.names()},
    }

"""Does a file hold metrics? Judged by its first bytes, and a log by its last ones too."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import BinaryIO

from rltop.errors import DecodeError
from rltop.files import open_regular
from rltop.formats.auto import AutoDecoder
from rltop.formats.jsonl import JsonlOptions
from rltop.formats.kinds import (
    CONSOLE,
    JSONL,
    TELESCOPE,
    TENSORBOARD,
    WANDB,
    WHOLE_JSON,
    Codec,
    Kind,
    bare_name,
    codec_of,
    kind_of,
)
from rltop.model import Record

SNIFF_BYTES = 256 * 1024
_BZIP2_BYTES = 1024 * 1024
"""A block of bzip2, of which nothing can be had before its end, is not longer."""
_FIRST_RECORD_BYTES = 4096
_SAMPLE_LINE_BYTES = 64 * 1024
_UNPACKED_BYTES = 2 * SNIFF_BYTES
_UNPACKED_SLICES = 1200
"""Of what is compressed, so much is looked through for a row: a few bytes may stand for gigabytes."""
SAMPLES = ("lines too long for metrics: samples?", "many rows for one step: samples?")
"""Why a file of JSON lines is taken for samples rather than metrics."""
UNWRITTEN = "only NUL bytes so far"
"""Why a file is not judged yet: on a network file system its bytes may come without its growing."""


def sniff(path: str, *, is_hurried: bool = False) -> tuple[Kind | None, str]:
    """The kind of a file, and why it is no metric stream (empty if it is one).

    A row of metrics has a step and a number; a file whose typical line is past
    64 KiB, whose rows share no number, or that has many rows for one step, holds
    samples. Compressed files are judged by what is in them. `is_hurried`: there are
    not many files to be judged, and somebody waits (see `decode.json_text`).

    Raises:
        OSError: it cannot be opened or read.
        DecodeError: it is compressed, and nothing can be got out of it.
    """
    with open_regular(path) as file:
        # What the kernel makes up may have nothing to give now (/proc/kmsg).
        head = file.read(SNIFF_BYTES) or b""
        is_all = len(head) < SNIFF_BYTES
        tail = b"" if is_all else _last_bytes(file)
        if not is_all and codec_of(head) is Codec.BZIP2:
            file.seek(0)
            head = file.read(_BZIP2_BYTES)
            is_all = len(head) < _BZIP2_BYTES
    if head and not head.strip(b"\0") and "tfevents" not in Path(path).name:
        # A writer that does not append, behind `copytruncate`: what it wrote stands behind a hole of any size.
        head = tail.lstrip(b"\0") if tail[:1] == b"\0" else tail.partition(b"\n")[2]
        if not head:
            return None, UNWRITTEN
    what, _ = why_refused(head)
    if what and kind_of(head, path, is_all=True) is not TELESCOPE:
        return None, what
    codec = codec_of(head)
    if codec is not None:
        return _kind_of_compressed(path, head, codec, is_all=is_all)
    return _judge(path, head, tail, JsonlOptions(is_hurried=is_hurried), is_all=is_all)


def _kind_of_compressed(path: str, head: bytes, codec: Codec, *, is_all: bool) -> tuple[Kind | None, str]:
    from rltop.formats.compressed import CompressedDecoder  # noqa: PLC0415 - most files are not

    decoder = CompressedDecoder(codec, AutoDecoder(path, JsonlOptions(), layers=1))
    records = decoder.feed(head, 0, 0)
    for _ in range(_UNPACKED_SLICES):
        if records or not decoder.has_more or decoder.unpacked >= _UNPACKED_BYTES:
            break
        records = decoder.go_on()
    if is_all and not records and not decoder.has_more:
        records = decoder.finish()
    if decoder.stopped and not records:
        raise DecodeError(decoder.stopped, "unpack it and pass the file inside")
    return None, "" if records else "compressed, no metrics at its beginning"


def damage_at_start(path: str, kind: Kind | None) -> str:
    """Why nothing can be read of a file of binary records; empty where something can, or may be later.

    Raises:
        OSError: it cannot be opened or read.
    """
    if kind not in (TENSORBOARD, WANDB):
        return ""
    decoder = kind.make(JsonlOptions())
    with Path(path).open("rb") as file:
        records = decoder.feed(file.read(_FIRST_RECORD_BYTES), 0, 0)
    return "" if records else decoder.stopped


def _judge(path: str, head: bytes, tail: bytes, options: JsonlOptions, *, is_all: bool) -> tuple[Kind | None, str]:
    """The kind of a file that is not compressed, and why it is no metric stream."""
    kind = kind_of(head, path, is_all=True)
    if kind is JSONL:
        return kind, _why_not_jsonl(head.replace(b"\0", b""), options, is_all=is_all)
    if kind is WHOLE_JSON:
        return kind, "" if bare_name(
            Path(path).name
        ) == "trainer_state.json" else "a JSON document, not rows of metrics"
    if kind is CONSOLE:
        return kind, "" if _has_rows(head) or _has_rows(tail) else "text without metrics"
    return kind, "" if kind is not None else "unknown format"


def _last_bytes(file: BinaryIO) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - SNIFF_BYTES))
    return file.read(SNIFF_BYTES)


def _has_rows(data: bytes) -> bool:
    if not data:
        return False
    decoder = CONSOLE.make(JsonlOptions())
    return bool([*decoder.feed(data, 0, 0), *decoder.finish()])


def _why_not_jsonl(head: bytes, options: JsonlOptions, *, is_all: bool) -> str:
    if b"\n" not in head:
        if not is_all:
            return "one line longer than any row of metrics"
        head += b"\n"
    lines = head.split(b"\n")[:-1]
    if sorted(map(len, lines))[len(lines) // 2] > _SAMPLE_LINE_BYTES:
        return SAMPLES[0]
    decoder = JSONL.make(options)
    records = decoder.feed(head[: head.rindex(b"\n") + 1], 0, 0)
    if not records:
        has_rows = decoder.counts.lines > decoder.counts.bad_lines
        return "no row with a step and a number" if has_rows else "not JSON lines"
    seen: set[str] = set()
    if len(records) > 1 and not any(_repeats(record, seen) for record in records):
        return "rows share no numeric key"
    steps = [record.step for record in records]
    if len(steps) >= 8 and len(set(steps)) * 4 <= len(steps):
        return SAMPLES[1]
    return ""


def _repeats(record: Record, seen: set[str]) -> bool:
    """Has a key of this row been in an earlier one?"""
    keys = set(record.schema.keys)
    if keys & seen:
        return True
    seen |= keys
    return False


_SIGNATURES = (
    (b"SQLite format 3\0", "an SQLite database (Trackio, MLflow or an experience buffer)"),
    (b"PAR1", "a parquet table: samples or completions"),
    (b":SWL", "a SwanLab run"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x93NUMPY", "a numpy array"),
)
_REMEDIES = {
    ".db": "have the trainer write JSON lines or TensorBoard events as well",
    ".parquet": "pass the metrics file of the run",
    ".swanlab": "SwanLab writes its file late: turn on TensorBoard, or a JSON lines logger, as well",
    ".xz": "unpack it: xz -dc FILE | rltop -",
    ".zip": "unpack it and pass the file inside",
}
_SUFFIXES = {
    ".db": "an SQLite database",
    ".sqlite": "an SQLite database",
    ".sqlite3": "an SQLite database",
    ".parquet": "a parquet table: samples or completions",
    ".swanlab": "a SwanLab run",
    ".xz": "compressed with xz",
    ".zip": "a zip archive",
}
_OF_SIGNATURE = {
    b"SQLite format 3\0": ".db",
    b"PAR1": ".parquet",
    b":SWL": ".swanlab",
    b"\xfd7zXZ\0": ".xz",
    b"PK\x03\x04": ".zip",
}


def name_refused(name: str) -> str:
    """What a file of this name is that no decoder reads; empty where its name does not tell."""
    return _SUFFIXES.get(PurePath(name).suffix.lower(), "")


def why_refused(head: bytes) -> tuple[str, str]:
    """What a file is by its first bytes, and what to do; both empty where it may hold metrics."""
    for signature, what in _SIGNATURES:
        if head.startswith(signature):
            return what, _REMEDIES.get(_OF_SIGNATURE.get(signature, ""), "pass the file that the trainer logs to")
    return "", ""

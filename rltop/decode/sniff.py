"""What kind of file begins with these bytes.

Magic bytes decide; the name is asked only where the bytes leave it open.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import orjson

from rltop.decode.framing import BOM
from rltop.decode.tfrecord import HEADER_BYTES, record_length

Kind = Literal[
    "empty", "jsonl", "json", "csv", "text", "tfevents", "wandb", "swanlab",
    "gzip", "bzip2", "zstd", "xz", "zip", "parquet", "sqlite", "binary",
]  # fmt: skip
"""`jsonl`: an object per line; `json`: one document; `text`: lines of a console or anything else that can be read."""

HEAD_BYTES = 4096
"""As much of the beginning of a file as is worth handing in."""

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "parquet"),
    (b"SQLite format 3\0", "sqlite"),
    (b":W&B", "wandb"),
    (b":SWL", "swanlab"),
)


def kind_of(head: bytes, name: str = "") -> Kind:
    """The kind of a file from its first bytes (`HEAD_BYTES` are enough) and its name.

    A file of zeros, or one too short to tell, is what its name says; `empty` where
    that says nothing either.
    """
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if (
        len(head) >= HEADER_BYTES
        and head[:HEADER_BYTES].strip(b"\0")
        and record_length(head[:HEADER_BYTES]) is not None
    ):
        return "tfevents"
    text = head.removeprefix(BOM).lstrip(b"\0 \t\r\n")
    if not text or len(head) < HEADER_BYTES:
        named = _by_name(name)
        if named is not None:
            return named
    return _kind_of_text(text, name) if text else "empty"


def _by_name(name: str) -> Kind | None:
    base = PurePath(name).name
    if ".tfevents." in base:
        return "tfevents"
    if base.endswith(".wandb"):
        return "wandb"
    return None


def _kind_of_text(text: bytes, name: str) -> Kind:
    if text.startswith(b"{"):
        return _kind_of_json(text, name)
    if text.startswith(b"["):
        # A list in JSON, or a log line such as `[2026-01-01 12:00] …`.
        return "json" if text[1:].lstrip()[:1] in (b"{", b"]", b"[") else "text"
    if b"\0" in text or _is_mostly_control(text):
        return "binary"
    return "csv" if PurePath(name).suffix == ".csv" else "text"


def _kind_of_json(text: bytes, name: str) -> Kind:
    if text[1:].lstrip()[:1] not in (b'"', b"}", b""):
        # The repr of a Python dict: a console line.
        return "text"
    line, newline, _ = text.partition(b"\n")
    if newline:
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError:
            # Pretty-printed, or a row with NaN in it: a row closes its brace on its own line.
            return "jsonl" if line.rstrip().endswith(b"}") else _braces(line)
        return "jsonl"
    return "json" if PurePath(name).suffix == ".json" else "jsonl"


def _braces(line: bytes) -> Kind:
    """A line that opens a document (`{`, `{"a": [`), or one that begins like a row and is not."""
    return "json" if line.rstrip().endswith((b"{", b"[", b",")) else "text"


def _is_mostly_control(text: bytes) -> bool:
    """Are more bytes control characters than a terminal session leaves?"""
    sample = text[:512]
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return control * 10 > len(sample)

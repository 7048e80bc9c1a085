"""How a file is compressed, by its magic bytes; unpacking it is the business of `compressed`."""

from __future__ import annotations

import enum

HEAD_BYTES = 4
"""How many bytes of a file tell its codec."""


class Codec(enum.StrEnum):
    """How a file is compressed."""

    GZIP = "gzip"
    BZIP2 = "bzip2"
    ZSTD = "zstd"


_MAGIC = ((b"\x1f\x8b", Codec.GZIP), (b"BZh", Codec.BZIP2), (b"\x28\xb5\x2f\xfd", Codec.ZSTD))


def codec_of(head: bytes) -> Codec | None:
    """The codec of a file that begins with `head` (at least `HEAD_BYTES`); None if it is not compressed."""
    return next((codec for magic, codec in _MAGIC if head.startswith(magic)), None)

"""What all that is compressed shares: the memory budget for what is unpacked from one file, and zstd.

A few bytes of a zip file or of a parquet page can stand for gigabytes. Streams (gzip,
bzip2, zstd) need no budget: they are unpacked and decoded a piece at a time.
zstandard is imported where something is compressed so: the standard library has none yet.
"""

from __future__ import annotations

from types import ModuleType

from rltop.errors import DecodeError, SourceError

MEMORY_BYTES = 256 * 1024 * 1024
"""What is held of one file while it is read; an archive of a real run takes a few MiB."""
CELL_BYTES = 32
"""A number or a reference to a text, as Python holds it."""


class Allowance:
    """What is left of the budget of one file."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self._limit = limit
        self._spent = 0

    def spend(self, size: int, what: str) -> None:
        """Have `size` more bytes in memory, for `what`.

        Raises:
            DecodeError: that is more than may be; names what, the size and the limit.
        """
        self._spent += max(0, size)
        if self._spent > self._limit:
            raise DecodeError(f"{what}: {self._spent:,} bytes unpacked, limit {self._limit:,}")


def zstandard_package() -> ModuleType:
    """The package.

    Raises:
        SourceError: it cannot be imported, though it is a dependency.
    """
    try:
        import zstandard  # noqa: PLC0415 - no other format pays for it
    except ImportError:
        raise SourceError(
            "compressed with zstd, but the package zstandard cannot be imported",
            "reinstall rltop: zstandard is a dependency",
        ) from None
    return zstandard


def unpack(data: bytes, most: int) -> bytes:
    """The first `most` bytes of what was packed.

    Raises:
        SourceError: the package cannot be imported.
        ValueError: the data is damaged.
    """
    package = zstandard_package()
    try:
        # Not `decompress`: it makes room for whatever length the frame itself claims.
        out: bytes = package.ZstdDecompressor().stream_reader(data).read(most)
    except package.ZstdError as error:
        raise ValueError(str(error)) from error
    return out

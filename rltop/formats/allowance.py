"""The memory budget for data unpacked from one file, whatever the compression.

A few bytes of a zip file or of a parquet page can stand for gigabytes. Streams (gzip,
bzip2, zstd) need no budget: they are unpacked and decoded a piece at a time.
"""

from __future__ import annotations

from rltop.errors import DecodeError

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

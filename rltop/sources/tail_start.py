"""Where the last lines of a file begin, found from its end."""

from __future__ import annotations

from rltop.sources.cursor import leading_nuls
from rltop.sources.filesystem import FileSystem, read_fully

FIRST_BLOCK = 256 * 1024
"""First block read from the end; each further one is twice as long. Any first block from 64 KiB to 1 MiB is as fast."""

MOST_BLOCK = 16 * 1024 * 1024
"""No block is longer: a hole of any size is not to be held in memory."""

HOLE_BYTES = 4096
"""So many NUL bytes in a row are a hole; what stands behind one is the beginning of a line."""

MAX_BYTES = 64 * 1024 * 1024
"""Enough of the file: beyond this, fewer lines than asked for will do."""


def find_tail_start(fs: FileSystem, path: str, lines: int, max_bytes: int = MAX_BYTES) -> int:
    """Find where the last `lines` complete lines of a file begin.

    Reads backwards in blocks, so the cost does not depend on the length of the
    file. An unfinished last line comes on top of the `lines`.

    Args:
        fs: where the file lives.
        path: the file.
        lines: how many line ends to go back.
        max_bytes: past this distance from the end the earliest line start seen so far is taken.

    Returns:
        Byte offset of the beginning of a line; 0 if the file has no more lines, its end
        if there is none in its last `MAX_BYTES`.

    Raises:
        OSError: the file cannot be opened or read.
    """
    handle = fs.open(path)
    try:
        end = fs.stat(handle).size
        missing = lines + 1
        earliest = None
        upper, block = end, FIRST_BLOCK
        while upper > 0:
            lower = max(0, upper - block)
            data = read_fully(fs, handle, upper - lower, lower)
            found = data.count(b"\n")
            if found >= missing:
                return lower + _nth_from_end(data, missing) + 1
            if found and (first := lower + data.index(b"\n") + 1) < end:
                earliest = first
            if earliest is not None and end - lower >= max_bytes:
                return earliest
            nuls = leading_nuls(data)
            if HOLE_BYTES <= nuls < len(data):
                return lower + nuls
            if end - lower >= MAX_BYTES:
                return end
            missing -= found
            upper, block = lower, min(block * 2, MOST_BLOCK)
        return 0
    finally:
        fs.close(handle)


def _nth_from_end(data: bytes, count: int) -> int:
    at = len(data)
    for _ in range(count):
        at = data.rfind(b"\n", 0, at)
    return at

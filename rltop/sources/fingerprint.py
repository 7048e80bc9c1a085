"""Is this still the file that was read so far?

Size, time and inode can each stay the same while the content becomes another, or
change while it does not. So a few of the bytes that were read are kept and compared.
"""

from __future__ import annotations

from rltop.sources.filesystem import FileSystem, read_fully

HEAD_BYTES = 256
ANCHOR_BYTES = 64


class Fingerprint:
    """The first 256 bytes of a file and the last 64 that were read.

    The head tells another file from a longer one; the anchor tells a file that was
    truncated and has grown past the reading position again, even where each life
    begins with the same line. A NUL that was read says nothing, because a hole may
    be filled later; it matches any byte.
    """

    __slots__ = ("anchor", "head")

    def __init__(self) -> None:
        self.head = b""
        self.anchor = b""

    def clear(self) -> None:
        """Forget everything: another file begins."""
        self.head = self.anchor = b""

    def extend(self, data: bytes) -> None:
        """Take in bytes that were read, in the order of the file."""
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        size = len(data)
        self.anchor = data[-ANCHOR_BYTES:] if size >= ANCHOR_BYTES else (self.anchor + data)[-ANCHOR_BYTES:]

    def skip(self, size: int) -> None:
        """Take in a hole of `size` bytes."""
        self.extend(bytes(min(size, HEAD_BYTES)))

    def load(self, fs: FileSystem, handle: int, offset: int) -> bool:
        """Take it from a file that is read from `offset` on.

        Returns:
            False if the file does not reach that far.

        Raises:
            OSError: whatever the file system says.
        """
        head = read_fully(fs, handle, min(HEAD_BYTES, offset), 0)
        length = min(ANCHOR_BYTES, offset)
        anchor = read_fully(fs, handle, length, offset - length)
        if len(head) < min(HEAD_BYTES, offset) or len(anchor) < length:
            return False
        self.head, self.anchor = head, anchor
        return True

    def matches(self, fs: FileSystem, handle: int, offset: int) -> bool | None:
        """Compare with an open file whose reading position would be `offset`.

        Returns:
            True: nothing contradicts; False: another content; None: what can be
            read agrees, but it is less than what was read before.

        Raises:
            OSError: whatever the file system says.
        """
        is_short = False
        for known, start in ((self.head, 0), (self.anchor, offset - len(self.anchor))):
            if not known:
                continue
            seen = read_fully(fs, handle, len(known), start)
            if seen == known:
                continue
            if any(old not in (0, new) for old, new in zip(known, seen, strict=False)):
                return False
            is_short = is_short or len(seen) < len(known)
        return None if is_short else True

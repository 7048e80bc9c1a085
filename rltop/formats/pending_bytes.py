"""The bytes of a binary file that have come but are not decoded yet.

Owns their place in the file. Bytes may be given again: a file system can show a region as zeros first and as data
later, so what is given again replaces what is held.
"""

from __future__ import annotations


class PendingBytes:
    """A gapless piece of a file, cut at its beginning as it is decoded.

    Attributes:
        data: the bytes to look at; complete only after `take` has returned True.
    """

    def __init__(self) -> None:
        self.data = b""
        self.start = 0
        self.end = 0
        self._parts: list[bytes] = []
        self._wanted = 0

    def clear(self) -> None:
        self.data, self.start, self.end = b"", 0, 0
        self._parts, self._wanted = [], 0

    def take(self, data: bytes, offset: int) -> bool:
        """Add what stands at `offset`; False while fewer bytes are held than were wanted.

        Bytes before the end of what is held replace it from there on; after a gap only the new bytes are held.
        """
        if offset != self.end:
            self._wanted = 0
            if self.start <= offset < self.end:
                self._join()
                self.data = self.data[: offset - self.start]
            else:
                self.data, self.start = b"", offset
                self._parts.clear()
        self.end = offset + len(data)
        self._parts.append(data)
        if self.end < self._wanted:
            return False
        self._join()
        return True

    def drop(self, count: int, wanted: int = 0) -> None:
        """Cut `count` bytes off; `take` need not look before `wanted` bytes are held then."""
        self.data = self.data[count:]
        self.start += count
        self._wanted = self.start + wanted

    def put_back(self, data: bytes) -> None:
        self.data = data + self.data
        self.start -= len(data)

    def jump(self, offset: int) -> None:
        """Hold nothing, and go on at `offset`, wherever that is."""
        self.clear()
        self.start = self.end = offset

    def _join(self) -> None:
        # A large record comes in many pieces: joined once, not at each of them.
        if self._parts:
            self.data = b"".join((self.data, *self._parts)) if self.data or len(self._parts) > 1 else self._parts[0]
            self._parts = []

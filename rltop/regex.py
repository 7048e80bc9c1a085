"""Regular expressions that are compiled at their first use.

Compiling all that are imported would take a sixth of the start-up time, and most files need only a few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Late:
    """Stands in for a compiled expression and caches each of its methods."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, except that an invalid expression raises `re.error` only at its first use."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))

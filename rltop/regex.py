"""Regular expressions that are compiled when one is first asked for.

Compiling those that a start imports takes a sixth of it, and most files need a few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Late:
    """Stands for a compiled expression; each of its methods is looked up once."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`; what is no regular expression raises `re.error` at the first use."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))

"""Key patterns of dialects, compiled once.

`*` stands for any text, `%` for any text without a slash. A pattern without either
is a key. Most keys are told apart by their beginning and end, without a regular
expression.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from rltop.regex import regex

_WILDCARD = regex(r"[*%]")


class Pattern:
    """One compiled pattern.

    Attributes:
        text: as written in the dialect.
        is_exact: it has no wildcard and matches the key of the same text only.
        prefix: the text before the first wildcard.
        start: what every key that matches begins with: all before the first slash, else the first letter; may be empty.
    """

    __slots__ = ("_regex", "_suffix", "is_exact", "prefix", "start", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        pieces = _WILDCARD.split(text)
        self.is_exact = len(pieces) == 1
        self.prefix, self._suffix = pieces[0], pieces[-1]
        section, slash, _ = self.prefix.partition("/")
        self.start = section if slash else self.prefix[:1]
        self._regex: re.Pattern[str] | None = None

    def covered(self, key: str) -> str | None:
        """What the wildcards stand for in `key`, with the text between them; None if it does not match."""
        if self.is_exact:
            return "" if key == self.text else None
        if not (key.startswith(self.prefix) and key.endswith(self._suffix)):
            return None
        if self._regex is None:
            # Compiled on the first key that comes this far: most patterns of most dialects never meet one.
            self._regex = self._compile()
        found = self._regex.fullmatch(key)
        return found[1] if found and found[1] else None

    def _compile(self) -> re.Pattern[str]:
        tokens = re.split(r"([*%])", self.text)[1:-1]
        between = "".join({"*": ".*", "%": "[^/]*"}.get(token, re.escape(token)) for token in tokens)
        return re.compile(f"{re.escape(self.prefix)}({between}){re.escape(self._suffix)}", re.DOTALL)

    def matches(self, key: str) -> bool:
        """Whether `key` is one of the keys that the pattern stands for."""
        return self.covered(key) is not None

    def is_in(self, keys: Collection[str] | Mapping[str, object]) -> bool:
        """Whether at least one of `keys` matches; `keys` must answer `in` quickly."""
        if self.is_exact:
            return self.text in keys
        prefix = self.prefix
        return any(self.covered(key) is not None for key in keys if key.startswith(prefix))


def is_exact(text: str) -> bool:
    """Whether a pattern is a key: it has no wildcard."""
    return "*" not in text and "%" not in text


@lru_cache(maxsize=4096)
def compiled(text: str) -> Pattern:
    """The pattern of `text`, compiled once."""
    return Pattern(text)


class PatternSet:
    """Several patterns: which keys match any of them."""

    __slots__ = ("_exact", "_prefixes", "_wild")

    def __init__(self, texts: Iterable[str]) -> None:
        texts = tuple(texts)
        self._exact = frozenset(text for text in texts if is_exact(text))
        self._wild = tuple(compiled(text) for text in texts if not is_exact(text))
        self._prefixes = tuple({pattern.prefix for pattern in self._wild})

    def __contains__(self, key: str) -> bool:
        return key in self._exact or (
            key.startswith(self._prefixes) and any(pattern.matches(key) for pattern in self._wild)
        )

    def __bool__(self) -> bool:
        return bool(self._exact or self._wild)

    def is_in(self, keys: Collection[str] | Mapping[str, object]) -> bool:
        """Whether at least one of `keys` matches; `keys` must answer `in` quickly."""
        if any(key in keys for key in self._exact):
            return True
        prefixes = self._prefixes
        return bool(prefixes) and any(key in self for key in keys if key.startswith(prefixes))


def is_present(text: str, keys: Collection[str] | Mapping[str, object]) -> bool:
    """Whether at least one of `keys` matches the pattern `text`; `keys` must answer `in` quickly.

    Returns:
        True if at least one key matches.
    """
    return compiled(text).is_in(keys)

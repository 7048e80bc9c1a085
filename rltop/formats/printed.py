"""Dictionaries as Python prints them → nested dictionaries of scalars.

Found in the cells of CSV files, in the texts of JSON rows, and on the lines of console logs. Everything is cut out with
patterns; nothing is ever evaluated, and what is no scalar is left out.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rltop.regex import regex

MAX_CHARS = 64 * 1024
"""A longer text is no dictionary of metrics."""
_MAX_DEPTH = 8
_TOKEN = regex(
    r"\s*(?:(?P<mark>[{}\[\](),:])"
    r"|(?P<quote>['\"])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)"
    r"|(?:np|numpy)\.\w{1,16}\((?P<wrapped>[^()]{1,40})\)"
    r"|tensor\((?P<tensor>[^(),]{1,40})(?:,[^()]{0,80})?\)"
    r"|(?P<bare>[^\s{}\[\](),:'\"]++))",
    re.DOTALL,
)
_WORDS = {"True": True, "False": False, "true": True, "false": False, "None": None, "null": None}

Scalar = str | bool | None
Printed = dict[str, "Scalar | Printed"]


def is_printed_dict(text: str) -> bool:
    return text.startswith(("{'", '{"')) and text.rstrip().endswith("}") and len(text) <= MAX_CHARS


@lru_cache(maxsize=64)
def read_printed(text: str) -> Printed | None:
    """The dictionary that a text spells; None where it spells none.

    Args:
        text: what Python prints of a dictionary, or JSON. Settings are the same in every row: the last ones are kept.

    Returns:
        Keys and scalars, numbers as they are spelled; lists and objects of other kinds are left out.
    """
    reader = _DictParser(text)
    found = reader.dictionary(0) if reader.next() == "{" else None
    return found if found and reader.next() == "" else None


class _DictParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._match: re.Match[str] | None = None

    def next(self) -> str:
        """Step to the next token: a bracket or another mark, `v` for a value, empty at the end or for anything else."""
        self._match = _TOKEN.match(self._text, self._at)
        if self._match is None:
            return "" if not self._text[self._at :].strip() else "?"
        self._at = self._match.end()
        return self._match["mark"] or "v"

    def _value(self) -> Scalar:
        match = self._match
        if match is None:
            return None
        if match["quote"]:
            return match["text"]
        bare = match["wrapped"] or match["tensor"] or match["bare"]
        return _WORDS.get(bare, bare)

    def dictionary(self, depth: int) -> Printed | None:
        """The rest of a dictionary whose brace has been read; None where it is none."""
        found: Printed = {}
        while True:
            sign = self.next()
            if sign == "}":
                return found
            if sign == ",":
                continue
            key = self._value()
            if sign != "v" or self.next() != ":":
                return None
            sign = self.next()
            if sign == "v":
                found[str(key)] = self._value()
                if not self._is_over():
                    return None
            elif sign == "{":
                inner = self.dictionary(depth + 1) if depth < _MAX_DEPTH else None
                if inner is None:
                    return None
                found[str(key)] = inner
            elif sign not in ("[", "(") or not self._skip():
                return None

    def _is_over(self) -> bool:
        """Does a value end here: behind it stands a comma or a bracket, or words of an object that is left out."""
        while True:
            here = self._at
            sign = self.next()
            if sign in (",", "}"):
                self._at = here
                return True
            if sign in ("(", "[", "{"):
                if not self._skip():
                    return False
            elif sign not in ("v", ":"):
                return False

    def _skip(self) -> bool:
        depth = 1
        while depth:
            sign = self.next()
            if sign in ("", "?"):
                return False
            depth += (sign in "([{") - (sign in ")]}")
        return True

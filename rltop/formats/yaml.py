"""YAML as programs write it → plain values, without executing or expanding anything.

Understands what `yaml.dump` and OmegaConf write and what people write in the same
manner: mappings and lists by indentation or in brackets, quoted and wrapped scalars,
block texts, comments. Tags are passed over, and an alias stays the text that it is, so
that no file grows by being read. A line is read once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rltop.errors import DecodeError

MAX_DEPTH = 24
MAX_LINES = 50_000
MAX_SCALAR_CHARS = 8_192
"""Of a wrapped scalar, or of what stands in brackets; what is longer is refused."""

_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_DIGITS = 64
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan"),
}  # fmt: skip
_TAGS = re.compile(r"(?:[!&]\S*(?:\s+|$))+")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", re.DOTALL)
_INNER_QUOTED = re.compile(rf"(?<![^\s\[{{,:])(?:{_QUOTED.pattern})", re.DOTALL)
"""Not the apostrophe of a word."""
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\n": ""}
_PLAIN_KEY = re.compile(r"([^\s\"'\[{#&*!|>%@`,][^\n]*?):(?:\s+|$)")
_FLOW_KEY = re.compile(r"\s*:(?=[\s,\[\]{}\"']|$)\s*")
_FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}:]|:(?!\s|$))*")
_BLOCK_TEXT = re.compile(r"[|>][-+0-9]*\s*(?:#.*)?")


class _Line(NamedTuple):
    indent: int
    text: str


def read_yaml(text: str) -> object:
    """The first document of a file: mappings, lists, numbers, texts, booleans and None.

    Args:
        text: of the file.

    Raises:
        DecodeError: it is too long, nested too deep, or not YAML of this manner.
    """
    raw = text.split("\n", MAX_LINES)
    if len(raw) > MAX_LINES:
        raise DecodeError(f"more than {MAX_LINES:,} lines")
    lines: list[_Line] = []
    for each in raw:
        whole = each.rstrip()
        if whole in ("---", "..."):
            if lines:
                break
        elif not whole.startswith("%"):
            bare = whole.lstrip(" ")
            lines.append(_Line(len(whole) - len(bare), bare))
    return _Reader(lines).document()


class _Reader:
    """Goes through the lines of a document."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines, self._at = lines, 0

    def document(self) -> object:
        """Everything.

        Raises:
            DecodeError: a part of it is not understood.
        """
        found = self._block(0, 0)
        if (line := self._next()) is not None:
            raise DecodeError(f"line {self._at + 1} is not understood: {line.text[:40]}")
        return found

    def _next(self) -> _Line | None:
        """The next line that says something."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and not line.text.startswith("#"):
                return line
            self._at += 1
        return None

    def _block(self, indent: int, depth: int) -> object:
        """What stands `indent` deep or deeper, from here on."""
        if depth > MAX_DEPTH:
            raise DecodeError(f"nested deeper than {MAX_DEPTH}")
        line = self._next()
        if line is None or line.indent < indent:
            return None
        if _is_item(line):
            return self._list(line.indent, depth)
        if _key_of(line.text) is not None:
            return self._mapping(line.indent, depth)
        self._at += 1
        return self._value(line.text, indent, depth)

    def _list(self, indent: int, depth: int) -> list[object]:
        found: list[object] = []
        while (line := self._next()) is not None and line.indent == indent and _is_item(line):
            rest = line.text[1:].lstrip(" ")
            if rest and not rest.startswith("#"):
                # What stands behind the dash is a block as deep as it stands there.
                self._lines[self._at] = _Line(indent + len(line.text) - len(rest), rest)
            else:
                self._at += 1
            found.append(self._block(indent + 1, depth + 1))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while (line := self._next()) is not None and line.indent == indent:
            split = _key_of(line.text)
            if split is None:
                break
            self._at += 1
            found[split[0]] = self._value(split[1], indent + 1, depth)
        return found

    def _value(self, text: str, indent: int, depth: int) -> object:
        """What stands behind a key or a dash, and in the lines below it that are `indent` deep."""
        tags = _TAGS.match(text)
        text = text[tags.end() :] if tags else text
        if not text or text.startswith("#"):
            line = self._next()
            is_list_below = line is not None and line.indent == indent - 1 and _is_item(line)
            return self._block(indent - 1 if is_list_below else indent, depth + 1)
        if _BLOCK_TEXT.fullmatch(text):
            return self._wrapped("", indent, "\n")
        if text[0] in "\"'":
            while (found := _QUOTED.match(text)) is None and self._goes_on(indent):
                text = self._joined(text)
            return _unquoted(text if found is None else found[0])
        if text[0] in "[{":
            while not _is_closed(text) and self._goes_on(0):
                text = self._joined(text)
            return _Flow(text).value(depth)
        return _scalar(self._wrapped(_without_comment(text), indent, " "))

    def _goes_on(self, indent: int) -> bool:
        return self._at < len(self._lines) and (
            self._lines[self._at].indent >= indent or not self._lines[self._at].text
        )

    def _joined(self, text: str) -> str:
        if len(text) > MAX_SCALAR_CHARS:
            raise DecodeError(f"a value of more than {MAX_SCALAR_CHARS:,} characters")
        self._at += 1
        line = self._lines[self._at - 1].text
        return f"{text} {_without_comment(line) if text[0] in '[{' else line}"

    def _wrapped(self, text: str, indent: int, between: str) -> str:
        """A text that goes on in the lines below; of one that is very long the beginning."""
        parts, chars = [text] if text else [], 0
        while self._goes_on(indent):
            part = self._lines[self._at].text
            if chars < MAX_SCALAR_CHARS and (part or between == "\n"):
                parts.append(part if between == "\n" else _without_comment(part))
                chars += len(part)
            self._at += 1
        return between.join(parts).strip()


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _key_of(text: str) -> tuple[str, str] | None:
    """The key that a line begins with, and what stands behind it; None where it begins with none."""
    quoted = _QUOTED.match(text)
    if quoted is not None:
        rest = text[quoted.end() :].lstrip()
        if not rest.startswith(":") or rest[1:2].strip():
            return None
        return _unquoted(quoted[0]), rest[1:].lstrip()
    if text.startswith("? "):
        raise DecodeError("a key of more than one line")
    found = _PLAIN_KEY.match(text)
    return None if found is None else (found[1].rstrip(), text[found.end() :])


def _without_comment(text: str) -> str:
    if text.startswith("#"):
        return ""
    if " #" not in text:
        return text
    bare = _INNER_QUOTED.sub(lambda found: "x" * len(found[0]), text)
    return text[: bare.find(" #")].rstrip() if " #" in bare else text


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    return _ESCAPE.sub(_escaped, text[1:-1])


def _escaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _ESCAPES.get(found[4], found[4])


def _scalar(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        return text
    plain = text.replace("_", "")
    return float(plain) if any(sign in plain for sign in ".eE") else int(plain)


def _is_closed(text: str) -> bool:
    """Are all brackets of a text closed that begins with one?"""
    bare = _INNER_QUOTED.sub("", text)
    return sum(bare.count(one) for one in "[{") <= sum(bare.count(one) for one in "]}")


class _Flow:
    """What stands in brackets."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def value(self, depth: int) -> object:
        """The value that begins here.

        Raises:
            DecodeError: it is nested too deep, or its brackets do not close.
        """
        if depth > MAX_DEPTH:
            raise DecodeError(f"nested deeper than {MAX_DEPTH}")
        self._blank()
        sign = self._text[self._at : self._at + 1]
        if sign == "[":
            return self._items("]", depth)
        if sign == "{":
            return dict(one for one in self._items("}", depth) if isinstance(one, tuple))
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            return _unquoted(quoted[0])
        plain = _FLOW_PLAIN.match(self._text, self._at)
        if plain is None or plain.end() == self._at:
            return None
        self._at = plain.end()
        return _scalar(plain[0].strip())

    def _items(self, closing: str, depth: int) -> list[object]:
        found: list[object] = []
        self._at += 1
        while True:
            self._blank()
            if self._at >= len(self._text):
                raise DecodeError("brackets that do not close")
            sign = self._text[self._at]
            if sign == closing:
                self._at += 1
                return found
            if sign == ",":
                self._at += 1
                continue
            begin, value = self._at, self.value(depth + 1)
            key = _FLOW_KEY.match(self._text, self._at)
            if key is not None:
                self._at = key.end()
                inner = self.value(depth + 1)
                found.append((str(value), inner) if closing == "}" else {str(value): inner})
            else:
                found.append((str(value), None) if closing == "}" else value)
            if self._at == begin:
                raise DecodeError("brackets that do not match")

    def _blank(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

"""Rows as they are decoded, text from outside, and what could not be read."""

from __future__ import annotations

import enum
import re
import unicodedata
from array import array
from collections import deque
from collections.abc import Mapping, Sequence

from rltop.regex import regex
from rltop.structs import NamedTuple, Struct, field

GAP = float("nan")
"""A cell in which nothing was logged. Whether a value was *not finite* is a `Mark`, never a NaN in a column."""


class NonFinite(enum.IntEnum):
    """What stood where a number was expected."""

    NAN = 1
    POS_INF = 2
    NEG_INF = 3
    NULL = 4

    @property
    def word(self) -> str:
        return ("NaN", "+Inf", "-Inf", "null")[self - 1]


_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def is_unsafe(character: str) -> bool:
    """Can a character do more to a terminal or a line than stand there: control, format, bidirectional, line break?"""
    return unicodedata.category(character) in _UNSAFE_CATEGORIES


def spelled(character: str) -> str:
    r"""A character as `\uXXXX`, beyond U+FFFF as two of them: what JSON reads as the character itself."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


class Label(NamedTuple):
    """Text from outside, made harmless once.

    `raw` is what the trainer wrote; `display` has every control, format and bidirectional character replaced by its
    escape, so that it cannot move the cursor, change colours or reorder the line.
    """

    raw: str
    display: str

    @classmethod
    def of(cls, text: str) -> Label:
        """Escape `text`; printable text is kept as it is."""
        if text.isascii() and text.isprintable():
            return cls(text, text)
        shown = "".join(
            ch.encode("unicode_escape", "backslashreplace").decode("ascii") if is_unsafe(ch) else ch for ch in text
        )
        return cls(text, shown)

    def __str__(self) -> str:
        return self.display


class Schema:
    """The keys of a row, in the order written; one object per distinct order.

    Compared by identity: a decoder hands out the same object for the same keys,
    so that whoever maps keys to columns does it once per schema, not per row.
    """

    __slots__ = ("index", "keys")

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys: tuple[str, ...] = tuple(keys)
        self.index: dict[str, int] = {key: i for i, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def __deepcopy__(self, memo: dict[int, object]) -> Schema:
        return self


class FilePosition(NamedTuple):
    """Where a row stands: which life of the file, and at which byte."""

    generation: int
    offset: int


class CellMark(NamedTuple):
    """Cell `cell` of a record held `kind` instead of a finite number."""

    cell: int
    kind: NonFinite


class Record(NamedTuple):
    """One decoded row.

    Attributes:
        schema: the keys; step and time keys are not among them.
        values: one float per key of `schema`; `GAP` where there was no number.
        marks: cells that held NaN, ±Inf or null.
        total_steps: how many steps the run wants to make, where the row says so.
        other_run: key and text by which a row that goes back names another run than those before; else empty.
        said: alerts that the training script raised through its tracker, one line each, as `Label.raw` is: unescaped.
        is_part: another row of the step before it, from a tracker that logs a step in parts.
        is_new_end: what stood behind it in the file is gone: the training goes on from here, or has come so far again.
    """

    step: int
    time_s: float | None
    schema: Schema
    values: array[float]
    marks: tuple[CellMark, ...]
    position: FilePosition
    total_steps: int | None = None
    other_run: str = ""
    said: tuple[str, ...] = ()
    is_part: bool = False
    is_new_end: bool = False


RECENT_LINES = 100
"""So many of the newest lines are looked at for those that cannot be read."""


_NAMES_KEPT, _CHOICE_KEPT, _NAME_CHARS, _LINE_CHARS = 4, 12, 40, 60


_SECRET = regex(r"key|token|secret|passw|credential|cookie", re.IGNORECASE)


def _told(key: str, value: object) -> str:
    if isinstance(value, list):
        return f" ({len(value):,} values)"
    if isinstance(value, str) and _SECRET.search(key):
        return " (text)"
    return f' "{value[:_NAME_CHARS]}"' if isinstance(value, str) else ""


class Counts(Struct, frozen=False):
    """Everything that was read, and everything that was not understood.

    Nothing is dropped without a count here. `numbered_rows` have no step that could be used and were given their number
    in the file; `counted_on_rows` name a step that begins anew in each epoch; `unusable_steps` are numbers too large
    for a step; `crossed_rows` are another writer's in the same file, `interleaved_rows` go back to a run id that the
    file had left; `cut_evaluations` stood, in part or whole, where a line was cut off; `partial_lines` are those of
    `bad_lines` that could be read in part; `broken_texts` are keys and texts with bytes that are no UTF-8; `recent_bad`
    are the numbers of the newest bad lines of which nothing could be used; `unread_lines` have a step and a number in
    no form that is read, `first_unread` is one; `cut_streams` are compressed and end before their end, and while
    `is_cut_off` what stands at the end of one is no bad line; `first_stepless` is what stands in the first row without
    a step, and `missed_key` the key that a person has named for the step and that it lacks; `bar` says how far a bar of
    training steps is; `unreadable_files` belong to the stream and could not be read, `first_unreadable` is one and why.
    """

    lines: int = 0
    rows: int = 0
    bad_lines: int = 0
    partial_lines: int = 0
    oversize_lines: int = 0
    no_step_lines: int = 0
    unread_lines: int = 0
    unusable_steps: int = 0
    numbered_rows: int = 0
    counted_on_rows: int = 0
    nul_bytes: int = 0
    late_rows: int = 0
    crossed_rows: int = 0
    interleaved_rows: int = 0
    cut_streams: int = 0
    repeated_rows: int = 0
    text_values: int = 0
    broken_texts: int = 0
    nested_values: int = 0
    null_values: int = 0
    nonfinite_values: int = 0
    keys_over_cap: int = 0
    unreadable_files: int = 0
    cut_evaluations: int = 0
    first_unreadable: str = ""
    first_bad_line: int | None = None
    first_bad_reason: str = ""
    first_stepless: str = ""
    missed_key: str = ""
    first_unread: str = ""
    bar: str = ""
    is_cut_off: bool = False
    recent_bad: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_LINES))

    def refuse(self, line: int, reason: str, *, is_lost: bool = True) -> None:
        """Count a line that cannot be read, or not to its end."""
        if self.is_cut_off:
            return
        self.bad_lines += 1
        if is_lost:
            self.recent_bad.append(line)
        else:
            self.partial_lines += 1
        # What finds lines may run ahead of what reads them: the first that is counted need not come first.
        if self.first_bad_line is None or line < self.first_bad_line:
            self.first_bad_line, self.first_bad_reason = line, reason

    def miss_step(self, row: Mapping[str, object], line: int = 0, step_key: str = "") -> None:
        """Count a row that names no step, and keep what the first has, whole numbers first where a key was named."""
        self.no_step_lines += 1
        if not self.first_stepless:
            kept, cells, self.missed_key = _NAMES_KEPT, list(row.items()), step_key
            if step_key:
                kept = _CHOICE_KEPT
                cells.sort(key=lambda cell: not (isinstance(cell[1], int | float) and cell[1] % 1 == 0))
            told = [f"{key[:_NAME_CHARS]}{_told(key, value)}" for key, value in cells[:kept]]
            where = f"line {line:,}: " if line else ""
            self.first_stepless = f"{where}{', '.join(told)}{', …' if len(row) > kept else ''}"

    def miss_form(self, text: str, line: int) -> None:
        """Count a line that has a step and a number in a form that is not read, and keep the first one."""
        self.unread_lines += 1
        self.first_unread = self.first_unread or f"line {line:,}: {text[:_LINE_CHARS]}"

    def add(self, other: Counts) -> None:
        for name in self.names():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if self.first_bad_line is None:
            self.first_bad_line, self.first_bad_reason = other.first_bad_line, other.first_bad_reason
        self.first_unreadable = self.first_unreadable or other.first_unreadable
        self.first_stepless = self.first_stepless or other.first_stepless
        self.missed_key = self.missed_key or other.missed_key
        self.first_unread = self.first_unread or other.first_unread
        self.bar = other.bar or self.bar
        self.recent_bad.extend(other.recent_bad)

    @classmethod
    def names(cls) -> Sequence[str]:
        return [name for name, about in cls._struct_fields.items() if type(about.default) is int]

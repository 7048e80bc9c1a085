"""Decoded rows, text from outside, and counts of unreadable data."""

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
"""A cell without a logged value. A value that is *not finite* gets a `CellMark`, never a NaN in its column."""


class NonFinite(enum.IntEnum):
    """What a cell held instead of a finite number."""

    NAN = 1
    POS_INF = 2
    NEG_INF = 3
    NULL = 4

    @property
    def word(self) -> str:
        return ("NaN", "+Inf", "-Inf", "null")[self - 1]


_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def is_unsafe(character: str) -> bool:
    """Whether a character could affect the terminal or the line: control, format, bidirectional, line break."""
    return unicodedata.category(character) in _UNSAFE_CATEGORIES


def json_escape(character: str) -> str:
    r"""A character as the JSON escape `\uXXXX`; beyond U+FFFF as a surrogate pair."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


class Label(NamedTuple):
    """Text from outside, escaped once.

    `raw` is the trainer's text. In `display` every control, format and bidirectional character is replaced by its
    escape, so that it cannot move the cursor, change colours or reorder the line.
    """

    raw: str
    display: str

    @classmethod
    def of(cls, text: str) -> Label:
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

    Compared by identity: a decoder returns the same object for the same keys, so keys are mapped to columns once per
    schema, not once per row.
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
    """Position of a row: the generation of the file (a new one after truncation or replacement) and a byte offset."""

    generation: int
    offset: int


class CellMark(NamedTuple):
    cell: int
    kind: NonFinite


class Record(NamedTuple):
    """One decoded row.

    Attributes:
        schema: the keys, without those for step and time.
        values: one float per key of `schema`; `GAP` if it was not a number.
        marks: cells that held NaN, ±Inf or null.
        total_steps: the planned number of steps, if the row has it.
        other_run: key and text that identify another run, on a row that goes back in steps; otherwise empty.
        script_alerts: alerts that the training script sent to its tracker, one line each, unescaped like `Label.raw`.
        is_part: continues the previous row's step, for trackers that log a step in parts.
        is_new_end: what followed it in the file is gone: training resumes from here, or has caught up to here again.
    """

    step: int
    time_s: float | None
    schema: Schema
    values: array[float]
    marks: tuple[CellMark, ...]
    position: FilePosition
    total_steps: int | None = None
    other_run: str = ""
    script_alerts: tuple[str, ...] = ()
    is_part: bool = False
    is_new_end: bool = False


RECENT_LINES = 100
"""Unreadable lines are tracked among this many of the newest lines."""


_NAMES_KEPT, _CHOICE_KEPT, _NAME_CHARS, _LINE_CHARS = 4, 12, 40, 60


_SECRET = regex(r"key|token|secret|passw|credential|cookie", re.IGNORECASE)


def _cell_note(key: str, value: object) -> str:
    if isinstance(value, list):
        return f" ({len(value):,} values)"
    if isinstance(value, str) and _SECRET.search(key):
        return " (text)"
    return f' "{value[:_NAME_CHARS]}"' if isinstance(value, str) else ""


class Counts(Struct, frozen=False):
    """Counters of everything that was read and everything that was not understood; nothing is dropped uncounted.

    `numbered_rows` have no usable step and got their row number instead; `counted_on_rows` have a step that restarts
    each epoch; `unusable_steps` are too large for a step; `crossed_rows` belong to another writer in the same file;
    `interleaved_rows` return to an earlier run id of the file; `cut_evaluations` were lost, at least in part, where a
    line was cut off; `partial_lines` are the `bad_lines` that could be read in part; `broken_texts` are keys and texts
    that are not valid UTF-8; `recent_bad` has the numbers of the newest bad lines without anything usable;
    `unread_lines` have a step and a number in an unknown format (`first_unread` is one); `cut_streams` are compressed
    streams that end early (while `is_cut_off`, the partial line at such an end is not counted as bad); `first_stepless`
    describes the first row without a step, and `missed_key` is the user's step key that it lacks; `bar` is the state of
    a progress bar of training steps; `unreadable_files` belong to the stream (`first_unreadable` is one, with the
    reason).
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
        """Count a bad line; `is_lost` is False if part of it could be read."""
        if self.is_cut_off:
            return
        self.bad_lines += 1
        if is_lost:
            self.recent_bad.append(line)
        else:
            self.partial_lines += 1
        # The scan for lines may run ahead of the reader, so bad lines need not be counted in order.
        if self.first_bad_line is None or line < self.first_bad_line:
            self.first_bad_line, self.first_bad_reason = line, reason

    def miss_step(self, row: Mapping[str, object], line: int = 0, step_key: str = "") -> None:
        """Count a row without a step and describe the first one; with a `step_key`, whole numbers are listed first."""
        self.no_step_lines += 1
        if not self.first_stepless:
            kept, cells, self.missed_key = _NAMES_KEPT, list(row.items()), step_key
            if step_key:
                kept = _CHOICE_KEPT
                cells.sort(key=lambda cell: not (isinstance(cell[1], int | float) and cell[1] % 1 == 0))
            told = [f"{key[:_NAME_CHARS]}{_cell_note(key, value)}" for key, value in cells[:kept]]
            where = f"line {line:,}: " if line else ""
            self.first_stepless = f"{where}{', '.join(told)}{', …' if len(row) > kept else ''}"

    def miss_form(self, text: str, line: int) -> None:
        """Count a line with a step and a number in an unknown format, and keep the first one."""
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

"""Dumps of one file per step: veRL's folder of JSON lines, TRL's folder of parquet tables.

Owns which file is which step. A file is read when its step is asked for; of the
others only the names are known.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path

from rltop.errors import DecodeError, SourceError
from rltop.files import open_regular
from rltop.formats.allowance import Allowance
from rltop.formats.parquet.encodings import Value
from rltop.formats.parquet.table import MAGIC, ParquetTable
from rltop.formats.rollouts.lines import completions_in, parsed, text_in_lines
from rltop.formats.rollouts.rows import by_prompt, finite, step_of_row
from rltop.formats.rows import MAX_STEP
from rltop.model.completions import OPENING_CHARS, Completion, Passage, RolloutText, TextPlace, gist
from rltop.regex import regex

MAX_FILES = 200_000
_NUMBERED = regex(r"^(.*?)0*(\d{1,15})\.(jsonl|parquet)$")
_NO_REWARDS = frozenset({"step", "advantage", "index", "__index_level_0__", "epoch"})
_SOME = 3


class StepFiles:
    """A folder in which every step has a file of its own.

    Attributes:
        path: the folder.
        stream: the stream of the run whose steps it counts; see `RolloutSource`.
    """

    def __init__(self, folder: str, kind: str, prefix: str) -> None:
        """The files `<prefix><step>.<kind>` of a folder; `kind` is jsonl or parquet.

        Args:
            prefix: of their names, before the number of the step.
        """
        self.path = folder
        self.stream = ""
        self._kind = kind
        self.prefix = prefix
        self._names: dict[int, str] = {}
        self._steps: list[int] = []
        self._notes: dict[int, str] = {}
        self._error = ""

    @property
    def steps(self) -> Sequence[int]:
        """Steps that have a file, ascending."""
        return self._steps

    @property
    def notes(self) -> Sequence[str]:
        """What could not be read, newest step first."""
        found = [self._notes[step] for step in sorted(self._notes, reverse=True)]
        return [self._error, *found] if self._error else found

    @property
    def progress(self) -> float | None:
        """The names of a folder are looked at all at once."""
        return None

    def refresh(self) -> bool:
        """List the folder again."""
        try:
            self._names = numbered(self.path).get((self._kind, self.prefix), {})
            self._error = ""
        except OSError as error:
            self._error = f"{self.path}: {error.strerror or 'cannot be listed'}"
        self._steps = sorted(self._names)
        return False

    def stamp(self, step: int) -> Hashable:
        """Moves when the file of a step is written."""
        try:
            info = Path(self._file(step)).stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size

    def _file(self, step: int) -> str:
        return os.path.join(self.path, self._names.get(step, ""))  # noqa: PTH118 - a place is a path as text

    def read(self, step: int) -> list[Completion]:
        """The rows of the file of a step."""
        if step not in self._names:
            return []
        path = self._file(step)
        self._notes.pop(step, None)
        try:
            return self._rows_of(path)
        except OSError as error:
            self._notes[step] = f"{path}: {error.strerror or 'cannot be read'}"
        except (DecodeError, SourceError) as error:
            self._notes[step] = f"{path}: {error.message}. {error.hint}".strip()
        return []

    def _rows_of(self, path: str) -> list[Completion]:
        """The rows of one of the files."""
        if self._kind == "parquet":
            return table_rows(path)
        with open_regular(path) as file:
            return list(completions_in(file, path, 0, None, None))

    def text(self, completion: Completion) -> RolloutText | None:
        """Read a completion of one of the files whole."""
        places = completion.places
        if not places or os.path.dirname(places[0].path) != self.path:  # noqa: PTH120
            return None
        return table_text(places[0]) if self._kind == "parquet" else text_in_lines(completion)


def numbered(folder: str) -> dict[tuple[str, str], dict[int, str]]:
    """The files of a folder that are named by a number: (kind, what stands before it) → number → name.

    Raises:
        OSError: the folder cannot be listed.
    """
    found: dict[tuple[str, str], dict[int, str]] = {}
    with os.scandir(folder) as entries:
        for i, entry in enumerate(entries):
            match = _NUMBERED.match(entry.name)
            if i >= MAX_FILES:
                break
            if match is not None and int(match[2]) <= MAX_STEP:
                found.setdefault((match[3], match[1]), {})[int(match[2])] = entry.name
    return found


def is_by_step(folder: str, names: dict[int, str], kind: str) -> bool:
    """Are these files one per step: do the rows of some name that very step, or none?

    The number of a file may be that of a rank or a shard as well. A table of
    completions without a column for the step is taken by its name.

    Args:
        names: step → name of its file, as the number in it says.
        kind: jsonl or parquet.
    """
    some = sorted(names)
    picked = {some[0], some[len(some) // 2], some[-1]} if len(some) > _SOME else set(some)
    for step in picked:
        path = Path(folder, names[step])
        try:
            with open_regular(path) as file:
                head = file.read(1024 * 1024)
        except OSError:
            continue
        if kind == "parquet":
            if head and not head.startswith(MAGIC):
                return False
            continue
        row = parsed(head.split(b"\n", 1)[0])
        if row is None:
            continue
        said = step_of_row(row)
        if said is not None and said != step:
            return False
    return True


def table_rows(path: str) -> list[Completion]:
    """The completions in one of TRL's tables, grouped by the text of their prompt.

    The reward is the one reward function's, or the plain sum of several: their
    weights are not written down.

    Raises:
        DecodeError, SourceError: the table cannot be read.
        OSError: nor the file.
    """
    table = _table(path)
    rewards = _reward_columns(table)
    names = ("prompt", "completion", "advantage", "step", *rewards)
    columns = table.read(names)
    empty: Sequence[Value] = [None] * table.rows
    prompts, texts = columns.get("prompt", empty), columns.get("completion", empty)
    found = []
    for i in range(table.rows):
        prompt, text = _text(prompts[i]), texts[i]
        given = [value for name in rewards if (value := finite(columns[name][i])) is not None]
        found.append(
            Completion(
                group=by_prompt(prompt),
                reward=sum(given) if given else None,
                characters=len(text) if isinstance(text, str) else None,
                advantage=finite(columns.get("advantage", empty)[i]),
                opening=_text(text)[:OPENING_CHARS],
                prompt=gist(prompt),
                places=(TextPlace(path, i),),
            )
        )
    return found


def table_text(place: TextPlace) -> RolloutText | None:
    """The texts of one row of a table, and its further columns."""
    try:
        table = _table(place.path)
        columns = table.read(table.columns)
    except (OSError, DecodeError, SourceError):
        return None
    if place.start >= table.rows:
        return None
    row = {name: column[place.start] for name, column in columns.items()}
    passages = [Passage(name, _text(row[name])) for name in ("prompt", "completion") if row.get(name) is not None]
    facts = [
        (name[:OPENING_CHARS], str(value)[:OPENING_CHARS])
        for name, value in row.items()
        if name not in ("prompt", "completion") and isinstance(value, (int, float, str))
    ]
    is_missing = "completion" not in row
    return RolloutText(tuple(passages), tuple(facts), "the table has conversations, not text" if is_missing else "")


def _table(path: str) -> ParquetTable:
    with open_regular(path) as file:
        Allowance().spend(os.fstat(file.fileno()).st_size, "the table")
        return ParquetTable(file.read())


def _reward_columns(table: ParquetTable) -> list[str]:
    """Columns of numbers that are neither the step nor the advantage: those that reward functions gave."""
    names = [name for name in table.columns if name not in _NO_REWARDS and name not in ("prompt", "completion")]
    preferred = [name for name in names if name in ("reward", "rewards", "score")]
    if preferred:
        return preferred[:1]
    return [
        name
        for name, column in table.read(names).items()
        if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in column)
        and any(value is not None for value in column)
    ]


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""

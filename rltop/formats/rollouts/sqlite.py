"""Trinity's buffer in SQLite → completions of a step, while it is being written.

Owns the columns, and which rows hold which step. The experience itself is a pickle of the trainer's own classes: it is
never loaded, only its opcodes are read for the texts and the lengths, so that nothing in it can run.
"""

from __future__ import annotations

import pickletools
from bisect import insort
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import islice

from rltop.errors import DecodeError
from rltop.formats.rollouts.rows import by_prompt, finite, text_of, whole_step
from rltop.model.completions import (
    MAX_COMPLETIONS,
    OPENING_CHARS,
    Completion,
    Passage,
    RolloutSource,
    RolloutText,
    TextPlace,
    gist,
)
from rltop.regex import regex
from rltop.sqlite_file import DatabaseFile, DatabaseTable, Pages, TableRow, newest, rows, tables

PIECE_ROWS = 500
"""What one call of `refresh` looks through."""
PIECE_BLOBS = 64
"""Experiences that are read in one look: a look must be short, or a writer changes the file meanwhile."""
MAX_STRETCHES = 500_000
"""Runs of rows of one step that are kept apart; past them rows of other steps in between are passed over."""
MOST_TRIES = 16
"""How often a step that could not be read is read again before it has changed."""
MAX_BLOB_BYTES = 16 * 1024 * 1024
MAX_STEPS = 100_000
_TEXTS = ("prompt_text", "response_text", "prompt", "response")
_NUMBERS = ("prompt_length",)
_PARTS = regex(r"^(\d+)/([^/]+)(?:/([^/]+)(?:/([^/]+))?)?")
_MOST_OPCODES = 20_000
_SCHEMA_COOKIE = slice(40, 44)
"""Of the header: changes when a table is created, changed or dropped."""


class ExperienceBuffer(RolloutSource):
    """A table of experiences, which are counted in the batches of the explorer."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "explorer")
        self._file = DatabaseFile(path)
        self._error = ""
        self._begin_anew(None)

    def _begin_anew(self, table: DatabaseTable | None) -> None:
        self._table = table
        self._schema = b""
        self.steps: list[int] = []
        self._stretches: dict[int, list[tuple[int, int]]] = {}
        self._counts: dict[int, int] = {}
        self._stretch_count = 0
        self._last: tuple[int | None, int | None] = (None, None)
        self._newest: int | None = None
        self._failed: dict[int, tuple[int, str]] = {}

    @property
    def notes(self) -> Sequence[str]:
        unread = [f"step {step}: {reason}" for step, (_, reason) in sorted(self._failed.items()) if reason]
        return [f"{self.path}: {reason}" for reason in (self._error, *unread) if reason]

    @property
    def progress(self) -> float | None:
        last, newest = self._last[0], self._newest
        return None if newest is None or last == newest else (last or 0) / max(1, newest)

    def refresh(self) -> bool:
        try:
            found = self._file.look(self._new_rows)
        except (DecodeError, OSError) as error:
            self._error = _said(error)
            return False
        self._error = "" if self._table is not None else "no table of experiences"
        for step, number in found:
            self._take(step, number)
        return bool(found) and self._last[0] != self._newest

    def _new_rows(self, pages: Pages) -> list[tuple[int | None, int]]:
        if pages.header[_SCHEMA_COOKIE] != self._schema or self._table is None:
            table = next((each for each in tables(pages) if _holds_experiences(each)), None)
            if table != self._table:
                self._begin_anew(table)
            self._schema = pages.header[_SCHEMA_COOKIE]
        if self._table is None:
            return []
        self._newest = newest(pages, self._table)
        if (self._newest or 0) < (self._last[0] or 0):
            self._begin_anew(self._table)
            self._newest = newest(pages, self._table)
        some = islice(rows(pages, self._table, self._last[0]), PIECE_ROWS)
        return [(self._step(row), row.number) for row in some]

    def _take(self, step: int | None, number: int) -> None:
        before, self._last = self._last[1], (number, step)
        if step is None or (step not in self._counts and len(self._counts) >= MAX_STEPS):
            return
        if step not in self._counts:
            insort(self.steps, step)
        self._counts[step] = self._counts.get(step, 0) + 1
        known = self._stretches.setdefault(step, [])
        if known and (before == step or self._stretch_count >= MAX_STRETCHES):
            known[-1] = (known[-1][0], number)
        else:
            known.append((number, number))
            self._stretch_count += 1

    def _step(self, row: TableRow) -> int | None:
        """The step of a row: the batch, which its identifier begins with; in older buffers the policy's version."""
        assert self._table is not None
        if "task_id" in self._table.columns:
            said = row.value("task_id")
            return whole_step(said.partition("/")[0] if isinstance(said, str) else said)
        return whole_step(row.value("model_version")) if "model_version" in self._table.columns else 0

    def stamp(self, step: int) -> Hashable:
        """Moves when rows are added, and when a step that could not be read is worth another try."""
        return self._counts.get(step), min(self._failed.get(step, (0, ""))[0], MOST_TRIES)

    def read(self, step: int) -> list[Completion]:
        found: list[Completion] = []
        for first, last in self._stretches.get(step, ()):
            after: int | None = first - 1
            while after is not None and len(found) < MAX_COMPLETIONS * 4:
                try:
                    some, after = self._file.look(partial(self._read, step, after, last))
                except (DecodeError, OSError) as error:
                    self._failed[step] = self._failed.get(step, (0, ""))[0] + 1, _said(error)
                    return found
                found += some
        if step in self._failed:
            self._failed[step] = self._failed[step][0], ""
        return found

    def _read(self, step: int, after: int, last: int, pages: Pages) -> tuple[list[Completion], int | None]:
        """Some of the experiences behind `after` and up to `last`, and where to go on; None: there are no more."""
        assert self._table is not None
        found = []
        for i, row in enumerate(rows(pages, self._table, after)):
            if row.number > last:
                break
            if self._step(row) == step:
                found.append(self._completion(step, row))
            if i >= PIECE_BLOBS:
                return found, row.number
        return found, None

    def _completion(self, step: int, row: TableRow) -> Completion:
        assert self._table is not None
        task, run, message = (text_of(row.value(name)) for name in ("task_id", "run_id", "msg_id"))
        prompt, response, known = _texts(row)
        named = _PARTS.match(message) or _PARTS.match(run) or _PARTS.match(task)
        group = f"{named[1]}/{named[2]}" if named is not None else task[:OPENING_CHARS] or by_prompt(prompt)
        wrote = finite(row.value("model_version"))
        counts_updates = wrote is not None and "task_id" in self._table.columns and step >= wrote
        return Completion(
            group=group,
            number=(named[3] or "") if named is not None else run[:OPENING_CHARS],
            reward=finite(row.value("reward")),
            tokens=finite(known.get("response_length")),
            characters=len(response) if response else None,
            off_policy_steps=step - wrote if wrote is not None and counts_updates else None,
            opening=response[:OPENING_CHARS],
            prompt=gist(prompt),
            places=(TextPlace(self.path, row.number),),
        )

    def text(self, completion: Completion) -> RolloutText | None:
        if not completion.places or completion.places[0].path != self.path:
            return None
        passages: list[Passage] = []
        try:
            for i, place in enumerate(completion.places, 1):
                turn = f"turn {i} of {len(completion.places)} · " if len(completion.places) > 1 else ""
                said = self._file.look(partial(self._texts_at, place.start))
                passages += [
                    Passage(turn + heading, text)
                    for heading, text in zip(("prompt", "completion"), said, strict=True)
                    if text
                ]
        except OSError:
            return None
        except DecodeError as error:
            return RolloutText(tuple(passages), (), error.message)
        return RolloutText(tuple(passages), (), "" if passages else "the experience has no text")

    def _texts_at(self, number: int, pages: Pages) -> tuple[str, str]:
        row = None if self._table is None else next(rows(pages, self._table, number - 1), None)
        return _texts(row)[:2] if row is not None and row.number == number else ("", "")


def _holds_experiences(table: DatabaseTable) -> bool:
    return "reward" in table.columns and bool({"experience_bytes", "response", "task_id"} & set(table.columns))


def _texts(row: TableRow) -> tuple[str, str, dict[str, str | int]]:
    """Prompt and completion of an experience, and what else its pickle tells."""
    blob = row.value("experience_bytes", MAX_BLOB_BYTES)
    known = look_inside(blob) if isinstance(blob, bytes) else {}
    prompt = text_of(row.value("prompt")) or str(known.get("prompt_text", ""))
    return prompt, text_of(row.value("response")) or str(known.get("response_text", "")), known


def _said(error: DecodeError | OSError) -> str:
    return error.message if isinstance(error, DecodeError) else error.strerror or "cannot be read"


def look_inside(blob: bytes) -> dict[str, str | int]:
    """Texts and lengths of a pickled experience, from its opcodes alone; nothing is loaded or run.

    `response_length` is the number of tokens behind the prompt: the size of the one-dimensional
    tensor `tokens` less `prompt_length`, as the trainer counts it.
    """
    found: dict[str, str | int] = {}
    waiting, sizes, is_tensor = "", [], False
    try:
        for i, (opcode, value, _) in enumerate(pickletools.genops(blob)):
            if i > _MOST_OPCODES:
                break
            name = opcode.name
            if name in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "FRAME", "MARK"):
                continue
            if is_tensor:
                if isinstance(value, int) and name.startswith(("BININT", "LONG")):
                    sizes.append(value)
                elif name in ("NEWFALSE", "NEWTRUE", "NONE"):
                    is_tensor = False
                continue
            if isinstance(value, str if waiting in _TEXTS else int) and waiting:
                found.setdefault(waiting, value)
            is_name = isinstance(value, str) and value in (*_TEXTS, *_NUMBERS) and waiting not in _TEXTS
            waiting = str(value) if is_name else ""
            is_tensor = value == "tokens" and not sizes
    except (ValueError, IndexError, KeyError, EOFError, UnicodeDecodeError):
        pass
    before = found.get("prompt_length")
    if len(sizes) == _OFFSET_SIZE_STRIDE and isinstance(before, int) and sizes[1] >= before:
        found["response_length"] = sizes[1] - before
    return found


_OFFSET_SIZE_STRIDE = 3

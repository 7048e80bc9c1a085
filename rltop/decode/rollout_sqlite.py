"""Trinity's buffer in SQLite → completions of a step, read beside whoever writes it.

Owns the columns. The experience itself is a pickle of the trainer's own classes:
it is never loaded, only its opcodes are read for the texts and the lengths, so
that nothing in it can run.
"""

from __future__ import annotations

import pickletools
import re
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from rltop.decode.rollout_rows import by_prompt, finite, text_of, whole_step
from rltop.decode.rollouts import MAX_COMPLETIONS, OPENING_CHARS, Completion, Passage, RolloutText, TextPlace, gist

MAGIC = b"SQLite format 3\0"
BUSY_S = 0.5
"""How long a writer that holds the file is waited for; then it is asked again at the next look."""
MAX_BLOB_BYTES = 16 * 1024 * 1024
MAX_STEPS = 100_000
_TEXTS = ("prompt_text", "response_text", "prompt", "response")
_NUMBERS = ("prompt_length",)
_PARTS = re.compile(r"^(\d+)/([^/]+)(?:/([^/]+)(?:/([^/]+))?)?")
_MOST_OPCODES = 20_000


class ExperienceBuffer:
    """A table of experiences.

    Attributes:
        path: the database.
        stream: the explorer: its batches are what experiences are counted in.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.stream = "explorer"
        self._steps: list[int] = []
        self._rows: dict[int, int] = {}
        self._ids = 0
        self._table = ""
        self._columns: frozenset[str] = frozenset()
        self._error = ""

    @property
    def steps(self) -> Sequence[int]:
        """Steps that have been found so far, ascending."""
        return self._steps

    @property
    def notes(self) -> Sequence[str]:
        """Why it cannot be read, where it cannot."""
        return [f"{self.path}: {self._error}"] if self._error else []

    @property
    def progress(self) -> float | None:
        """The database counts by itself."""
        return None

    def _connect(self) -> sqlite3.Connection:
        """A connection that reads only; where the folder allows no lock, the file as it stands."""
        uri = f"file:{quote(str(Path(self.path).absolute()))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S)
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if "lock" in str(error) or "busy" in str(error):
                raise
            connection = sqlite3.connect(f"{uri}&immutable=1", uri=True)
        connection.text_factory = _tolerant
        return connection

    def refresh(self) -> bool:
        """Count the rows that are new."""
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            self._error = str(error)
            return False
        try:
            if not self._table and not self._find_table(connection):
                self._error = "no table of experiences in it"
                return False
            newest = int(connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {self._table}").fetchone()[0])
            if newest < self._ids:
                self._rows, self._ids = {}, 0
            query = f"SELECT {self._step_column}, count(*) FROM {self._table} WHERE rowid > ? AND rowid <= ? GROUP BY 1"
            for said, count in connection.execute(query, (self._ids, newest)):
                step = self._step(said)
                if step is not None and (step in self._rows or len(self._rows) < MAX_STEPS):
                    self._rows[step] = self._rows.get(step, 0) + int(count)
            self._ids = newest
            self._steps = sorted(self._rows)
            self._error = ""
        except (sqlite3.Error, ValueError, TypeError) as error:
            self._error = str(error)
        finally:
            connection.close()
        return False

    def _find_table(self, connection: sqlite3.Connection) -> bool:
        names = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            quoted = '"' + name.replace('"', '""') + '"'
            columns = frozenset(str(row[1]) for row in connection.execute(f"PRAGMA table_info({quoted})"))
            if "reward" in columns and ({"experience_bytes", "response", "task_id"} & columns):
                self._table, self._columns = quoted, columns
                return True
        return False

    @property
    def _step_column(self) -> str:
        """What tells the step: the batch, which the identifiers begin with; in older buffers the policy's version."""
        if "task_id" in self._columns:
            return "CASE WHEN instr(task_id, '/') > 0 THEN substr(task_id, 1, instr(task_id, '/') - 1) ELSE task_id END"
        return "model_version" if "model_version" in self._columns else "0"

    @staticmethod
    def _step(said: object) -> int | None:
        return whole_step(said)

    def stamp(self, step: int) -> Hashable:
        """Moves when rows are added."""
        return self._rows.get(step)

    def read(self, step: int) -> list[Completion]:
        """The experiences of a step, in the order in which they were written."""
        return list(self._read(step))

    def _read(self, step: int) -> Iterator[Completion]:
        if not self._table:
            return
        wanted = ("task_id", "run_id", "msg_id", "model_version", "reward", "prompt", "response", "experience_bytes")
        columns = ", ".join(name if name in self._columns else f"NULL AS {name}" for name in wanted)
        query = f"SELECT rowid, {columns} FROM {self._table} WHERE {self._step_column} = ? ORDER BY rowid LIMIT ?"
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            self._error = str(error)
            return
        try:
            key: object = str(step) if "task_id" in self._columns else step
            for row in connection.execute(query, (key, MAX_COMPLETIONS * 4)):
                yield self._completion(step, *row)
        except sqlite3.Error as error:
            self._error = str(error)
        finally:
            connection.close()

    def _completion(
        self, step: int, row: int, task: object, run: object, message: object, version: object, reward: object,
        prompt: object, response: object, blob: object,
    ) -> Completion:  # fmt: skip
        known = look_inside(blob) if isinstance(blob, bytes) and len(blob) <= MAX_BLOB_BYTES else {}
        asked = text_of(prompt) or str(known.get("prompt_text", ""))
        answer = text_of(response) or str(known.get("response_text", ""))
        named = _PARTS.match(text_of(message)) or _PARTS.match(text_of(run)) or _PARTS.match(text_of(task))
        group = f"{named[1]}/{named[2]}" if named is not None else text_of(task)[:OPENING_CHARS] or by_prompt(asked)
        number = (named[3] or "") if named is not None else text_of(run)[:OPENING_CHARS]
        wrote = finite(version)
        return Completion(
            group=group,
            number=number,
            reward=finite(reward),
            tokens=finite(known.get("response_length")),
            characters=len(answer) if answer else None,
            off_policy_steps=step - wrote
            if wrote is not None and "task_id" in self._columns and step >= wrote
            else None,
            opening=answer[:OPENING_CHARS],
            prompt=gist(asked),
            places=(TextPlace(self.path, row),),
        )

    def text(self, completion: Completion) -> RolloutText | None:
        """The texts of an experience, turn by turn."""
        if not completion.places or completion.places[0].path != self.path:
            return None
        wanted = [name for name in ("prompt", "response", "experience_bytes") if name in self._columns]
        if not wanted:
            return RolloutText((), (), "this buffer holds no texts")
        passages: list[Passage] = []
        try:
            connection = self._connect()
        except sqlite3.Error:
            return None
        try:
            for i, place in enumerate(completion.places, 1):
                query = f"SELECT {', '.join(wanted)} FROM {self._table} WHERE rowid = ?"
                row = dict(zip(wanted, connection.execute(query, (place.start,)).fetchone() or (), strict=False))
                blob = row.get("experience_bytes")
                known = look_inside(blob) if isinstance(blob, bytes) and len(blob) <= MAX_BLOB_BYTES else {}
                turn = f"turn {i} of {len(completion.places)} · " if len(completion.places) > 1 else ""
                for heading, column, field in (
                    ("prompt", "prompt", "prompt_text"),
                    ("completion", "response", "response_text"),
                ):
                    text = text_of(row.get(column)) or str(known.get(field, ""))
                    if text:
                        passages.append(Passage(turn + heading, text))
        except sqlite3.Error:
            return None
        finally:
            connection.close()
        return RolloutText(tuple(passages), (), "" if passages else "the experience holds no text")


def _tolerant(data: bytes) -> str:
    return data.decode("utf-8", "replace")


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

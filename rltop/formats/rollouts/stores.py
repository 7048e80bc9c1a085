"""Completions in Telescope's archives and in Trinity's databases.

Joins Telescope's tables of samples, generations, prompts and discarded samples. Its archives are rewritten in place
every few seconds; an incomplete one is read again later. In Trinity's database an experience is a pickle of the
trainer's own classes: it is never loaded, only its opcodes are read for texts and lengths, so nothing in it can run.
"""

from __future__ import annotations

import pickletools
import zipfile
import zlib
from bisect import insort
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rltop.errors import DecodeError, SourceError, refusing
from rltop.files import open_regular
from rltop.formats.decoder import Allowance, unpack
from rltop.formats.parquet import ParquetTable, Value
from rltop.formats.rollouts.rows import by_prompt, finite, text_of, whole_step
from rltop.formats.telescope import rows_of, whole
from rltop.model.completions import (
    MAX_COMPLETIONS,
    OPENING_CHARS,
    Completion,
    Passage,
    RolloutSource,
    RolloutText,
    TextPlace,
    shortened_prompt,
)
from rltop.regex import regex
from rltop.sqlite_file import DatabaseFile, DatabaseTable, Pages, TableRow, newest, rows, tables

Result = TypeVar("Result")
MAX_TEXT_BYTES = 64 * 1024 * 1024
_CUT_WORDS = frozenset({"length", "max_tokens", "context_exhausted"})
_NOT_WHOLE = (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError, KeyError)


class Archives(RolloutSource):
    """The archives below the `files` folder of a Telescope run."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._seen: dict[str, tuple[int, int]] = {}
        self._steps_in: dict[str, frozenset[int]] = {}
        self._discarded_in: dict[str, frozenset[int]] = {}
        self._unread: dict[str, str] = {}

    @property
    def notes(self) -> Sequence[str]:
        """Archives that could not be read at the last attempt."""
        return [f"{path}: {reason}" for path, reason in sorted(self._unread.items())]

    @property
    def progress(self) -> float | None:
        waiting = sum(self._is_new(path) for path in self._archives())
        total = len(self._seen) + waiting
        return 1.0 - waiting / total if waiting and total else None

    def _archives(self) -> list[str]:
        found = [*Path(self.path).glob("steps/*.zip"), *Path(self.path).glob("events/*.zip")]
        # Newest first: the tail is rewritten all the time, a finished block never.
        return [str(path) for path in sorted(found, key=lambda path: (path.name != "tail.zip", path.name))]

    def _is_new(self, path: str) -> bool:
        return self._seen.get(path) != _stamp(path)

    def refresh(self) -> bool:
        """Index one new archive; True if there are more."""
        new = [path for path in self._archives() if self._is_new(path)]
        if not new:
            return False
        path = new[0]
        stamp = _stamp(path)
        found = self._looked_into(path, _both_steps)
        if found is not None:
            self._steps_in[path], self._discarded_in[path] = found
            self._unread.pop(path, None)
        if stamp is not None:
            self._seen[path] = stamp
        self.steps = sorted(frozenset().union(*self._steps_in.values()))
        return len(new) > 1

    def _looked_into(self, path: str, read: Callable[[zipfile.ZipFile], Result]) -> Result | None:
        """The result of `read` for an archive; None, and a note, if it cannot be read."""
        try:
            with refusing("damaged"), open_regular(path) as file:
                try:
                    with zipfile.ZipFile(file) as archive:
                        return read(archive)
                except _NOT_WHOLE as error:
                    raise DecodeError("is being written") from error
        except (DecodeError, SourceError) as error:
            self._unread[path] = error.message
        except OSError as error:
            self._unread[path] = error.strerror or "cannot be read"
        return None

    def stamp(self, step: int) -> Hashable:
        """Changes when an archive of the step is rewritten."""
        return tuple(self._seen.get(path) for path in (self._newest(self._steps_in, step),) if path)

    def _newest(self, index: dict[str, frozenset[int]], step: int) -> str:
        holding = [path for path, steps in index.items() if step in steps]
        return max(holding, key=lambda path: self._seen.get(path, (0, 0)), default="")

    def read(self, step: int) -> list[Completion]:
        found: list[Completion] = []
        for index, suffix in ((self._steps_in, ""), (self._discarded_in, "_discarded")):
            path = self._newest(index, step)
            if path:
                found += self._looked_into(path, partial(_completions, path=path, step=step, suffix=suffix)) or ()
        return found

    def text(self, completion: Completion) -> RolloutText | None:
        places = completion.places
        if not places or not Path(places[0].path).is_relative_to(self.path):
            return None
        suffix = "_discarded" if completion.discarded else ""
        read = partial(_text, sample=places[0].start, group=completion.group, suffix=suffix)
        found = self._looked_into(places[0].path, read)
        return RolloutText((), (), self._unread.get(places[0].path, "")) if found is None else found


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        info = Path(path).stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size


def _open(archive: zipfile.ZipFile, name: str) -> ParquetTable | None:
    try:
        info = archive.getinfo(name)
    except KeyError:
        return None
    Allowance().spend(info.file_size, name)
    return ParquetTable(archive.read(info))


def _both_steps(archive: zipfile.ZipFile) -> tuple[frozenset[int], frozenset[int]]:
    return (
        _steps(archive, "samples_data.parquet", "step"),
        _steps(archive, "samples_data_discarded.parquet", "trainer_step"),
    )


def _steps(archive: zipfile.ZipFile, name: str, column: str) -> frozenset[int]:
    table = _open(archive, name)
    if table is None:
        return frozenset()
    return frozenset(step for value in table.read((column,)).get(column, ()) if (step := whole(value)) is not None)


def _of_step(table: ParquetTable | None, step: int, column: str, *names: str) -> Iterator[tuple[Value, ...]]:
    if table is not None:
        for said, *row in rows_of(table, column, *names):
            if said == step:
                yield tuple(row)


class _Generations:
    """Sums over the generations of a step, by sample."""

    def __init__(self, rows: Iterator[tuple[Value, ...]]) -> None:
        self.tokens: dict[int, float] = {}
        self.calls: dict[int, float] = {}
        self.count: dict[int, int] = {}
        self.cut: set[int] = set()
        for sample, tokens, calls, reason in rows:
            if not isinstance(sample, int):
                continue
            self.count[sample] = self.count.get(sample, 0) + 1
            self.tokens[sample] = self.tokens.get(sample, 0.0) + (finite(tokens) or 0.0)
            self.calls[sample] = self.calls.get(sample, 0.0) + (finite(calls) or 0.0)
            if reason in _CUT_WORDS:
                self.cut.add(sample)


def _completions(archive: zipfile.ZipFile, path: str, step: int, suffix: str) -> list[Completion]:
    key = "trainer_step" if suffix else "step"
    table = _open(archive, f"samples_data{suffix}.parquet")
    prompts = {
        group: prompt
        for group, prompt in _of_step(_open(archive, f"prompts{suffix}.parquet"), step, key, "group_id", "prompt")
        if isinstance(prompt, str)
    }
    names = ("sample_id", "tokens", "tool_call_count", "stop_reason")
    made = _Generations(_of_step(_open(archive, f"generations{suffix}.parquet"), step, key, *names))
    found: list[Completion] = []
    for sample, group, reward, advantage, turns, reason, off_policy, why in _of_step(
        table, step, key, "sample_id", "group_id", "reward", "advantage", "num_generations", "stop_reason",
        "off_policy_steps", "discard_reason",
    ):  # fmt: skip
        if not isinstance(sample, int):
            continue
        prompt = str(prompts.get(group, ""))
        found.append(
            Completion(
                group=str(group) if isinstance(group, int) and group >= 0 else by_prompt(prompt),
                number=str(sample),
                reward=finite(reward),
                tokens=made.tokens.get(sample),
                advantage=finite(advantage),
                stop=reason[:OPENING_CHARS] if isinstance(reason, str) else "",
                is_truncated=sample in made.cut or reason in _CUT_WORDS if made.count else None,
                turns=made.count.get(sample, whole(turns)),
                tool_calls=made.calls.get(sample),
                off_policy_steps=finite(off_policy) if whole(off_policy) is not None else None,
                discarded=(why[:OPENING_CHARS] if isinstance(why, str) and why else "discarded") if suffix else "",
                prompt=shortened_prompt(prompt),
                places=(TextPlace(path, sample),),
            )
        )
    return found


def _text(archive: zipfile.ZipFile, sample: int, group: str, suffix: str) -> RolloutText:
    passages: list[Passage] = []
    prompts = _open(archive, f"prompts{suffix}.parquet")
    for known, prompt, system in rows_of(prompts, "group_id", "prompt", "system_prompt") if prompts else ():
        if str(known) == group:
            passages += [
                Passage(heading, text)
                for heading, text in (("system prompt", system), ("prompt", prompt))
                if isinstance(text, str) and text
            ]
            break
    note = ""
    try:
        turns = sorted(_turns(archive, sample, suffix), key=lambda turn: turn[:3])
        passages += [Passage(heading, text) for *_, heading, text in turns]
    except SourceError as error:
        note = f"{error.message}: {error.hint}"
    return RolloutText(tuple(passages), tuple(_facts(archive, sample, suffix)), note)


def _turns(archive: zipfile.ZipFile, sample: int, suffix: str) -> Iterator[tuple[int, int, int, str, str]]:
    """Generations of a sample and responses of its environment: agent, turn, order, heading, text."""
    for order, (name, what) in enumerate((("generations", "turn"), ("env_responses", "answer to turn"))):
        table = _open(archive, f"{name}{suffix}.parquet")
        if table is None:
            continue
        for known, agent, turn, content in rows_of(table, "sample_id", "agent_id", "generation_idx", "content"):
            if known == sample:
                at = turn if isinstance(turn, int) else 0
                yield whole(agent) or 0, at, order, f"{what} {at + 1}", _inflated(content)


def _facts(archive: zipfile.ZipFile, sample: int, suffix: str) -> Iterator[tuple[str, str]]:
    table = _open(archive, f"rollouts_metrics{suffix}.parquet")
    for known, name, value in rows_of(table, "sample_id", "metric_name", "value") if table else ():
        if known == sample and isinstance(name, str) and isinstance(value, float):
            yield name[:OPENING_CHARS], str(value)


def _inflated(content: Value) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, bytes):
        return ""
    with suppress(ValueError):  # a text need not be compressed
        content = unpack(content, MAX_TEXT_BYTES)
    return content.decode("utf-8", "replace")


PIECE_ROWS = 500
"""Rows indexed in one call of `refresh`."""
PIECE_BLOBS = 64
"""Experiences read at a time, because reads must be short in case a writer is changing the file."""
MAX_STRETCHES = 500_000
"""Most row ranges kept; beyond this, ranges of a step are merged, and rows of other steps in between are skipped."""
MOST_TRIES = 16
"""How often an unchanged step that could not be read is tried again."""
MAX_BLOB_BYTES = 16 * 1024 * 1024
MAX_STEPS = 100_000
_TEXTS = ("prompt_text", "response_text", "prompt", "response")
_NUMBERS = ("prompt_length",)
_PARTS = regex(r"^(\d+)/([^/]+)(?:/([^/]+)(?:/([^/]+))?)?")
_MOST_OPCODES = 20_000
_SCHEMA_COOKIE = slice(40, 44)
"""Position in the header; changes when a table is created, altered or dropped."""


class ExperienceBuffer(RolloutSource):
    """A table of experiences; its steps are batches of the explorer."""

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
        """The step of a row: the batch at the start of its task id; in older buffers the version of the policy."""
        assert self._table is not None
        if "task_id" in self._table.columns:
            said = row.value("task_id")
            return whole_step(said.partition("/")[0] if isinstance(said, str) else said)
        return whole_step(row.value("model_version")) if "model_version" in self._table.columns else 0

    def stamp(self, step: int) -> Hashable:
        """Changes when rows are added, and when a failed step should be tried again."""
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
        """Some experiences after `after` and up to `last`, and the row to continue after; None if there are no more."""
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
            prompt=shortened_prompt(prompt),
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
    """Prompt and completion of an experience, and the other values from its pickle."""
    blob = row.value("experience_bytes", MAX_BLOB_BYTES)
    known = look_inside(blob) if isinstance(blob, bytes) else {}
    prompt = text_of(row.value("prompt")) or str(known.get("prompt_text", ""))
    return prompt, text_of(row.value("response")) or str(known.get("response_text", "")), known


def _said(error: DecodeError | OSError) -> str:
    return error.message if isinstance(error, DecodeError) else error.strerror or "cannot be read"


def look_inside(blob: bytes) -> dict[str, str | int]:
    """Texts and lengths of a pickled experience, from its opcodes alone; nothing is loaded or run.

    `response_length` is the number of tokens after the prompt, as the trainer counts it: the size of
    the one-dimensional tensor `tokens` minus `prompt_length`.
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
    # `sizes` holds offset, size and stride.
    if len(sizes) == 3 and isinstance(before, int) and sizes[1] >= before:
        found["response_length"] = sizes[1] - before
    return found

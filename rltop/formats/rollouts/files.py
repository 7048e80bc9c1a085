"""Rollout dumps in files: JSON lines of many steps; veRL's, TRL's and prime-rl's with one file per step.

Of files with one step each, only the names are read until a step is opened. A line of a prime-rl episode (verifiers)
has a trace for each agent: a graph of messages, of which some were sampled. Sources:
`verifiers/v1/{episode,trace,graph}.py` of verifiers 0.4, `src/prime_rl/monitors/file.py` of prime-rl.
"""

from __future__ import annotations

import os
import re
from bisect import insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from rltop.errors import DecodeError, SourceError
from rltop.files import open_regular
from rltop.formats.decoder import MAX_LINE_BYTES, Allowance, LineFramer
from rltop.formats.jsonl import object_of
from rltop.formats.parquet import MAGIC as PARQUET
from rltop.formats.parquet import ParquetTable, Value
from rltop.formats.rollouts.rows import (
    Row,
    by_prompt,
    completion_of,
    finite,
    has_answer,
    read_text,
    step_of_row,
    text_of,
)
from rltop.formats.rollouts.stores import Archives, ExperienceBuffer
from rltop.formats.rows import MAX_STEP
from rltop.model import Counts
from rltop.model.completions import (
    OPENING_CHARS,
    Completion,
    Passage,
    RolloutSource,
    RolloutText,
    TextPlace,
    shortened_prompt,
)
from rltop.model.table_rows import DATABASE_SUFFIXES, SQLITE_MAGIC
from rltop.regex import regex
from rltop.structs import NamedTuple

# -- dumps of JSON lines: one file of many steps, indexed as it is read --------------------------------------------
# Tracks which ranges of the file hold which step. The newest rows are scanned first, then the file from its
# beginning, piece by piece, so that a dump of any size opens at once; only the rows of the step that is opened are
# decoded to completions.

PIECE_BYTES = 4 * 1024 * 1024
"""Bytes scanned in one call of `refresh`."""
NEWEST_BYTES = 8 * 1024 * 1024
"""Size of a large file's end that is scanned before its beginning."""
MAX_STEP_BYTES = 512 * 1024 * 1024
"""Read limit per step; more than any step of any trainer, unless the file has no order at all."""
NEAR_BYTES = 64 * 1024
"""Ranges of a step closer than this are merged; rows of other steps between them are skipped."""
_MAX_STRETCHES = 500_000


class RawLine(NamedTuple):
    """One line of a file: its offset, and its bytes without the line feed."""

    start: int
    data: bytes


class _Pass:
    """A scan of a file range for whole lines that begin in it.

    Args:
        stop: end of the range, exclusive; None for the end of the file, even if it grows.
        is_aligned: a line begins at `start`.
    """

    def __init__(self, start: int, stop: int | None, *, is_aligned: bool = True) -> None:
        self.at = start
        self.stop = stop
        self.is_done = False
        self.counts = Counts()
        self._framer = LineFramer(self.counts, None if is_aligned else start)

    def lines(self, file: BinaryIO, most: int) -> Iterator[RawLine]:
        """Whole lines in about `most` more bytes; a partial line is left for the next call."""
        end = self.at + most
        while self.at < end and not self.is_done:
            file.seek(self.at)
            data = file.read(
                PIECE_BYTES if self.stop is None else min(PIECE_BYTES, max(self.stop - self.at, NEAR_BYTES))
            )
            at, self.at = self.at, self.at + len(data)
            for line, start in self._framer.feed(data, at):
                self.is_done = self.stop is not None and start >= self.stop
                if self.is_done:
                    return
                yield RawLine(start, line)
            rest = self._framer.pending
            if not data:
                # A complete last line without line feed; one that is still being written is not valid JSON.
                if rest is not None and rest[0].endswith(b"}") and object_of(rest[0]) is not None:
                    self._framer.reset()
                    yield RawLine(rest[1], rest[0])
                return
            self.is_done = self.stop is not None and self.at >= self.stop and (rest is None or rest[1] >= self.stop)


class LinesDump(RolloutSource):
    """A file of JSON lines that contain their steps."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._begin_anew((0, 0))

    def _begin_anew(self, file: tuple[int, int]) -> None:
        self._file = file
        self._size = 0
        self.steps: list[int] = []
        self._stretches: dict[int, list[tuple[int, int]]] = {}
        self._count = 0
        self._bad = self._no_step = 0
        self._passes: list[_Pass] = []
        self._done_too_long = 0
        self._error = ""

    @property
    def notes(self) -> Sequence[str]:
        too_long = self._done_too_long + sum(each.counts.oversize_lines for each in self._passes)
        found = [f"{self.path}: {self._error}"] if self._error else []
        for number, what in (
            (self._bad, "not valid JSON"),
            (self._no_step, "without a step"),
            (too_long, f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB"),
        ):
            if number:
                found.append(f"{number:,} {'line' if number == 1 else 'lines'} {what}")
        return found

    @property
    def progress(self) -> float | None:
        left = sum(max(0, (self._size if each.stop is None else each.stop) - each.at) for each in self._passes)
        waits = len(self._passes) > 1 or left > PIECE_BYTES
        return 1.0 - left / self._size if waits and self._size else None

    def refresh(self) -> bool:
        try:
            with open_regular(self.path) as file:
                return self._look(file)
        except OSError as error:
            self._error = error.strerror or "cannot be read"
            return False

    def _look(self, file: BinaryIO) -> bool:
        info = Path(self.path).stat()
        here = (info.st_dev, info.st_ino)
        if here != self._file or info.st_size < self._size:
            self._begin_anew(here)
        self._error = ""
        self._size = info.st_size
        if not self._passes:
            tail = info.st_size - NEWEST_BYTES
            if tail > 0:
                self._passes = [_Pass(tail - 1, None, is_aligned=False), _Pass(0, tail)]
            else:
                self._passes = [_Pass(0, None)]
        # The end is scanned first each time, since the user waits for the newest rows.
        for way in list(self._passes):
            before = way.at
            for line in way.lines(file, PIECE_BYTES):
                self._take(line)
            if way.is_done:
                self._passes.remove(way)
                self._done_too_long += way.counts.oversize_lines
            elif before < way.at < (self._size if way.stop is None else way.stop):
                return True
        return len(self._passes) > 1

    def _take(self, line: RawLine) -> None:
        if not line.data.strip():
            return
        row = object_of(line.data)
        if row is None:
            self._bad += 1
            return
        step = step_of_row(row)
        if step is None:
            self._no_step += 1
            return
        start, stop = line.start, line.start + len(line.data) + 1
        known = self._stretches.get(step)
        if known is None:
            self._stretches[step] = [(start, stop)]
            self._count += 1
            insort(self.steps, step)
            return
        first, last = known[-1]
        is_near = 0 <= start - last <= NEAR_BYTES
        if is_near or (self._count >= _MAX_STRETCHES and start >= first):
            known[-1] = (first, stop)
        else:
            known.append((start, stop))
            self._count += 1

    def stamp(self, step: int) -> Hashable:
        """Changes when more rows of a step are found."""
        return self._file, tuple(self._stretches.get(step, ())[-2:]), len(self._stretches.get(step, ()))

    def read(self, step: int) -> list[Completion]:
        found: list[Completion] = []
        try:
            with open_regular(self.path) as file:
                left = MAX_STEP_BYTES
                for start, stop in sorted(self._stretches.get(step, ())):
                    left -= stop - start
                    if left < 0:
                        break
                    found += completions_in(file, self.path, start, stop, step)
        except OSError as error:
            self._error = error.strerror or "cannot be read"
        return found

    def text(self, completion: Completion) -> RolloutText | None:
        is_own = bool(completion.places) and completion.places[0].path == self.path
        return text_in_lines(completion) if is_own else None


def rows_of_file(file: BinaryIO, start: int = 0, stop: int | None = None) -> Iterator[tuple[RawLine, Row]]:
    """Every row in a range of a file, with its line; invalid lines are skipped.

    Args:
        stop: end of the range, exclusive; None for the end of the file.
    """
    way, before = _Pass(start, stop), -1
    while way.at != before:
        before = way.at
        for line in way.lines(file, PIECE_BYTES):
            row = object_of(line.data)
            if row is not None:
                yield line, row


def completions_in(file: BinaryIO, path: str, start: int, stop: int | None, step: int | None) -> Iterator[Completion]:
    """The completions in a range of a file, see `rows_of_file`; if `step` is given, only those of that step."""
    for line, row in rows_of_file(file, start, stop):
        if step is None or step_of_row(row) == step:
            yield completion_of(row, TextPlace(path, line.start, len(line.data)))


def row_at(place: TextPlace) -> Row | None:
    """The row in the line at a place; None if it is gone."""
    try:
        with open_regular(place.path) as file:
            file.seek(place.start)
            return object_of(file.read(min(place.size, MAX_LINE_BYTES)))
    except OSError:
        return None


def text_in_lines(completion: Completion) -> RolloutText | None:
    """The texts of a completion whose rows are lines of a file; None if they are gone."""
    found = [read_text(row) for place in completion.places if (row := row_at(place)) is not None]
    return turns_as_one(found)


def turns_as_one(turns: Sequence[RolloutText]) -> RolloutText | None:
    """The texts of several turns in sequence, numbered; None if there are none."""
    if len(turns) < 2:
        return turns[0] if turns else None
    passages = [
        Passage(f"turn {i} of {len(turns)} · {passage.heading}", passage.text)
        for i, turn in enumerate(turns, 1)
        for passage in turn.passages
    ]
    return RolloutText(tuple(passages), turns[-1].facts, next((turn.note for turn in turns if turn.note), ""))


# -- files of a step -------------------------------------------------------------------------------------------------

MAX_FILES = 200_000
_NUMBERED = regex(r"^(.*?)0*(\d{1,15})\.(jsonl|parquet)$")
_NO_REWARDS = frozenset({"step", "advantage", "index", "__index_level_0__", "epoch"})
_SOME = 3


class StepFiles(RolloutSource):
    def __init__(self, folder: str, kind: str, prefix: str) -> None:
        """The files `<prefix><step>.<kind>` of a folder; `kind` is jsonl or parquet."""
        super().__init__(folder)
        self._kind = kind
        self.prefix = prefix
        self._names: dict[int, str] = {}
        self._notes: dict[int, str] = {}
        self._error = ""

    @property
    def notes(self) -> Sequence[str]:
        """What could not be read, newest step first."""
        found = [self._notes[step] for step in sorted(self._notes, reverse=True)]
        return [self._error, *found] if self._error else found

    def refresh(self) -> bool:
        try:
            self._names, self._error = self._listed(), ""
        except OSError as error:
            self._error = f"{self.path}: {error.strerror or 'cannot be listed'}"
        self.steps = sorted(self._names)
        return False

    def _listed(self) -> dict[int, str]:
        return numbered(self.path).get((self._kind, self.prefix), {})

    def stamp(self, step: int) -> Hashable:
        try:
            info = Path(self._file(step)).stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size

    def _file(self, step: int) -> str:
        return os.path.join(self.path, self._names.get(step, ""))  # noqa: PTH118 - a place has its path as text

    def read(self, step: int) -> list[Completion]:
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
        if self._kind == "parquet":
            return table_rows(path)
        with open_regular(path) as file:
            return list(completions_in(file, path, 0, None, None))

    def text(self, completion: Completion) -> RolloutText | None:
        places = completion.places
        if not places or os.path.dirname(places[0].path) != self.path:  # noqa: PTH120
            return None
        return table_text(places[0]) if self._kind == "parquet" else text_in_lines(completion)


def numbered(folder: str) -> dict[tuple[str, str], dict[int, str]]:
    """The numbered files of a folder: (kind, prefix) → number → name.

    Raises:
        OSError: the folder cannot be listed.
    """
    found: dict[tuple[str, str], dict[int, str]] = {}
    for match in _named(folder, _NUMBERED):
        if int(match[2]) <= MAX_STEP:
            found.setdefault((match[3], match[1]), {})[int(match[2])] = match.string
    return found


def _named(folder: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The names in a folder that match, unordered.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_FILES):
            match = pattern.match(entry.name)
            if match is not None:
                yield match


def is_by_step(folder: str, names: dict[int, str], kind: str) -> bool:
    """Is there one file per step, that is, do sampled rows contain the file's number as step, or no step?

    The number of a file may also be a rank or a shard. Tables
    are not read: their number is taken for the step.
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
            if head and not head.startswith(PARQUET):
                return False
            continue
        row = object_of(head.split(b"\n", 1)[0])
        if row is None:
            continue
        said = step_of_row(row)
        if said is not None and said != step:
            return False
    return True


def table_rows(path: str) -> list[Completion]:
    """The completions in a table of TRL, grouped by the text of their prompt.

    The reward is that of the only reward function, or the plain sum of several, whose weights are not recorded.

    Raises:
        DecodeError, SourceError: the table cannot be read.
        OSError: the file cannot be read.
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
                prompt=shortened_prompt(prompt),
                places=(TextPlace(path, i),),
            )
        )
    return found


def table_text(place: TextPlace) -> RolloutText | None:
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
    """The reward column, or all numeric columns except step and advantage, one per reward function."""
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


TRACES = "traces.jsonl"
_STEP_FOLDER = regex(r"^step_(\d{1,15})$")
_COHORTS = ("train/effective", "train/all")
"""The samples trained on, if already written; else all that were generated."""
_LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"})
"""Conditions with which verifiers stops an agent that exceeds a limit."""


class EpisodeFiles(StepFiles):
    """A folder with a file of episodes per step; only those trained on, once they are known."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "jsonl", "")

    def _listed(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for match in _named(self.path, _STEP_FOLDER):
            places = (f"{match.string}/{cohort}/{TRACES}" for cohort in _COHORTS)
            found = next((each for each in places if Path(self.path, each).is_file()), "")
            if found and int(match[1]) <= MAX_STEP:
                names[int(match[1])] = found
        return names

    def _rows_of(self, path: str) -> list[Completion]:
        with open_regular(path) as file:
            return [
                completion_of(answer, TextPlace(path, line.start, len(line.data)))
                for line, row in rows_of_file(file)
                for answer in answers_of(row)
            ]

    def text(self, completion: Completion) -> RolloutText | None:
        if not completion.places or not completion.places[0].path.startswith(f"{self.path}{os.sep}"):
            return None
        row = row_at(completion.places[0])
        answers = answers_of(row) if row is not None else ()
        return next((read_text(each) for each in answers if each["sample"] == completion.number), None)


def answers_of(episode: Row) -> Iterator[Row]:
    """The traces of an episode that the trained policy made, as rows in rltop's own dump format."""
    traces = [each for each in _list(episode.get("traces")) if isinstance(each, Mapping)]
    own = [each for each in traces if _map(each.get("agent")).get("trainable") is not False]
    task = _map(episode.get("task"))
    group = _map(episode.get("group")).get("id") or task.get("key") or task.get("hash")
    for i, trace in enumerate(own or traces):
        nodes = [each for each in _list(trace.get("nodes")) if isinstance(each, Mapping)]
        calls = [each for each in _list(trace.get("calls")) if isinstance(each, Mapping)]
        first = next((at for at, node in enumerate(nodes) if node.get("sampled")), len(nodes))
        sampled = [_map(node.get("message")) for node in nodes if node.get("sampled")]
        stopped, last = (
            trace.get("stop_condition"),
            next((call for call in reversed(calls) if not call.get("error")), {}),
        )
        answer = {
            "group": group,
            "sample": text_of(trace.get("id")) or f"{text_of(episode.get('id'))}/{i}",
            "reward": _reward(_map(trace.get("rewards"))),
            "completion_tokens": _tokens(nodes, calls),
            "stop_reason": stopped or last.get("finish_reason"),
            "is_truncated": stopped in _LIMITS or last.get("finish_reason") == "length",
            "turns": len(sampled),
            "tool_calls": sum(len(_list(message.get("tool_calls"))) for message in sampled),
            "discard_reason": _failure(trace),
            "prompt": [node.get("message") for node in nodes[:first]],
            "completion": [node.get("message") for node in nodes[first:]],
            "env": _map(episode.get("env")).get("name") or _map(episode.get("env")).get("id"),
            "agent_name": _map(trace.get("agent")).get("name"),
            "metrics": trace.get("metrics"),
            "rewards_by_name": {key: _map(each).get("score") for key, each in _map(trace.get("rewards")).items()},
        }
        yield {key: value for key, value in answer.items() if value is not None}


def _map(value: object) -> Row:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _reward(rewards: Row) -> float | None:
    given = [
        score * (1.0 if (weight := finite(_map(each).get("weight"))) is None else weight)
        for each in rewards.values()
        if (score := finite(_map(each).get("score"))) is not None
    ]
    return sum(given) if given else None


def _tokens(nodes: list[Row], calls: list[Row]) -> float | None:
    marked = sum(sum(map(bool, _list(node.get("mask")))) for node in nodes)
    if marked:
        return float(marked)
    used = [finite(_map(call.get("usage")).get("completion_tokens")) for call in calls]
    counted = [each for each in used if each is not None]
    return sum(counted) if counted else None


def _failure(trace: Row) -> str | None:
    errors = [_map(each).get("type") for each in _list(trace.get("errors"))]
    return text_of(errors[-1]) or "failed" if trace.get("ok") is False and errors else None


# -- selection of the reader for a rollout dump, by name and first bytes -------------------------------------------

MAX_SHARDS = 64
_HEAD_BYTES = 256 * 1024
_LINES = (".jsonl", ".ndjson", ".json")
_VALIDATION = "val_data_step"


def dumps_in(path: str) -> list[RolloutSource]:
    """The dumps at a path, which is a file or a folder of files.

    Raises:
        SourceError: nothing there can be read as rollouts; gives the reason.
        OSError: it cannot be read.
    """
    where = Path(path)
    if where.is_dir():
        return _in_folder(where)
    with open_regular(where) as file:
        head = file.read(16)
    if head.startswith(SQLITE_MAGIC):
        return [ExperienceBuffer(path)]
    if head.startswith(PARQUET):
        return [_one_table(where)]
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise SourceError(
            f"{path} is compressed", "decompress it; for Telescope's archives name the folder that contains steps/"
        )
    return [LinesDump(path)]


def _one_table(where: Path) -> RolloutSource:
    for (kind, prefix), names in numbered(str(where.parent)).items():
        if kind == "parquet" and where.name in names.values():
            return StepFiles(str(where.parent), kind, prefix)
    raise SourceError(f"{where} has no step in its name", "expected completions_<step>.parquet")


def _in_folder(folder: Path) -> list[RolloutSource]:
    if any(folder.glob("steps/*.zip")):
        return [Archives(str(folder))]
    if folder.name == "steps" and any(folder.glob("*.zip")):
        return [Archives(str(folder.parent))]
    if any(next(folder.glob(f"step_*/{cohort}/{TRACES}"), None) is not None for cohort in _COHORTS):
        return [EpisodeFiles(str(folder))]
    by_step = [
        StepFiles(str(folder), kind, prefix)
        for (kind, prefix), names in sorted(numbered(str(folder)).items())
        if is_by_step(str(folder), names, kind)
    ]
    if by_step:
        # NeMo-RL: val_data_step<N>.jsonl, next to train_data_step<N>.jsonl, is not part of the training.
        return [each for each in by_step if each.prefix != _VALIDATION] or [*by_step]
    files = sorted(each for each in folder.iterdir() if each.is_file())
    found: list[RolloutSource] = [ExperienceBuffer(str(each)) for each in files if each.suffix in DATABASE_SUFFIXES]
    lines = [each for each in files if each.suffix in _LINES and holds_answers(each)]
    found += [LinesDump(str(each)) for each in lines[:MAX_SHARDS]]
    if not found:
        raise SourceError(
            f"no rollouts found in {folder}",
            "name the file, or the folder with <step>.jsonl or completions_<step>.parquet",
        )
    return found


def holds_answers(path: Path) -> bool:
    """Does a file found in a folder hold completions by step? Checks the first line of JSON lines, else assumes yes."""
    if path.suffix not in _LINES:
        return True
    try:
        with open_regular(path) as file:
            row = object_of(file.read(_HEAD_BYTES).split(b"\n", 1)[0])
    except OSError:
        return False
    return row is not None and step_of_row(row) is not None and has_answer(row)

"""Dumps of one file per step: veRL's JSON lines, TRL's parquet tables, prime-rl's episodes of verifiers.

Owns which file is which step. A file is read when its step is asked for; of the
others only the names are known. A line of an episode has a trace for each agent that took part: a graph of messages
of which some were sampled. Sources: `verifiers/v1/{episode,trace,graph}.py` of verifiers 0.4,
`src/prime_rl/monitors/file.py` of prime-rl.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path

from rltop.errors import DecodeError, SourceError
from rltop.files import open_regular
from rltop.formats.parquet import MAGIC, ParquetTable, Value
from rltop.formats.rollouts.lines import MAX_LINE_BYTES, completions_in, parsed, rows_of_file, text_in_lines
from rltop.formats.rollouts.rows import Row, by_prompt, finite, placed, read_text, step_of_row, text_of
from rltop.formats.rows import MAX_STEP
from rltop.formats.unpacking import Allowance
from rltop.model.completions import OPENING_CHARS, Completion, Passage, RolloutText, TextPlace, gist
from rltop.regex import regex

MAX_FILES = 200_000
_NUMBERED = regex(r"^(.*?)0*(\d{1,15})\.(jsonl|parquet)$")
_NO_REWARDS = frozenset({"step", "advantage", "index", "__index_level_0__", "epoch"})
_SOME = 3


class StepFiles:
    """A folder in which every step has a file of its own.

    Attributes:
        stream: the stream of the run whose steps it counts; see `RolloutSource`.
    """

    def __init__(self, folder: str, kind: str, prefix: str) -> None:
        """The files `<prefix><step>.<kind>` of a folder; `kind` is jsonl or parquet."""
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
        try:
            self._names = numbered(self.path).get((self._kind, self.prefix), {})
            self._error = ""
        except OSError as error:
            self._error = f"{self.path}: {error.strerror or 'cannot be listed'}"
        self._steps = sorted(self._names)
        return False

    def stamp(self, step: int) -> Hashable:
        try:
            info = Path(self._file(step)).stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size

    def _file(self, step: int) -> str:
        return os.path.join(self.path, self._names.get(step, ""))  # noqa: PTH118 - a place is a path as text

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

    The reward is the one reward function's, or the plain sum of several: their weights are not written down.

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


TRACES = "traces.jsonl"
_STEP_FOLDER = regex(r"^step_(\d{1,15})$")
_COHORTS = ("train/effective", "train/all")
"""What was trained on, where that is written yet; else all that was generated."""
_LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"})
"""Conditions with which verifiers stops an agent that has gone on for too long."""


def holds_episodes(folder: Path) -> bool:
    return any(next(folder.glob(f"step_*/{cohort}/{TRACES}"), None) is not None for cohort in _COHORTS)


class EpisodeFiles(StepFiles):
    """A folder with a file of episodes for each step; those that were trained on, once they are known."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "jsonl", "")

    def refresh(self) -> bool:
        names: dict[int, str] = {}
        try:
            with os.scandir(self.path) as entries:
                for i, entry in enumerate(entries):
                    match = _STEP_FOLDER.match(entry.name)
                    if i >= MAX_FILES:
                        break
                    if match is None or int(match[1]) > MAX_STEP:
                        continue
                    places = (f"{entry.name}/{cohort}/{TRACES}" for cohort in _COHORTS)
                    found = next((each for each in places if Path(self.path, each).is_file()), "")
                    if found:
                        names[int(match[1])] = found
            self._error = ""
        except OSError as error:
            self._error = f"{self.path}: {error.strerror or 'cannot be listed'}"
        self._names, self._steps = names, sorted(names)
        return False

    def _rows_of(self, path: str) -> list[Completion]:
        with open_regular(path) as file:
            return [
                placed(answer, TextPlace(path, line.start, len(line.data))).completion
                for line, row in rows_of_file(file)
                for answer in answers_of(row)
            ]

    def text(self, completion: Completion) -> RolloutText | None:
        if not completion.places or not completion.places[0].path.startswith(f"{self.path}{os.sep}"):
            return None
        path, start, size = completion.places[0]
        try:
            with open_regular(path) as file:
                file.seek(start)
                row = parsed(file.read(min(size, MAX_LINE_BYTES)))
        except OSError:
            return None
        answers = answers_of(row) if row is not None else ()
        return next((read_text(each) for each in answers if each["sample"] == completion.number), None)


def answers_of(episode: Row) -> Iterator[Row]:
    """The traces of an episode that the policy made, as rows of a dump of our own."""
    traces = [each for each in _list(episode.get("traces")) if isinstance(each, Mapping)]
    own = [each for each in traces if _map(each.get("agent")).get("trainable") is not False]
    task = _map(episode.get("task"))
    group = _map(episode.get("group")).get("id") or task.get("key") or task.get("hash")
    for i, trace in enumerate(own or traces):
        nodes = [each for each in _list(trace.get("nodes")) if isinstance(each, Mapping)]
        calls = [each for each in _list(trace.get("calls")) if isinstance(each, Mapping)]
        first = next((at for at, node in enumerate(nodes) if node.get("sampled")), len(nodes))
        sampled = [_map(node.get("message")) for node in nodes if node.get("sampled")]
        answer = {
            "group": group,
            "sample": text_of(trace.get("id")) or f"{text_of(episode.get('id'))}/{i}",
            "reward": _reward(_map(trace.get("rewards"))),
            "completion_tokens": _tokens(nodes, calls),
            "stop_reason": _stop(trace, calls),
            "is_truncated": _is_cut(trace, calls),
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
    """The weighted sum of what the reward functions gave; None where nothing was scored."""
    given = [
        score * (1.0 if (weight := finite(_map(each).get("weight"))) is None else weight)
        for each in rewards.values()
        if (score := finite(_map(each).get("score"))) is not None
    ]
    return sum(given) if given else None


def _tokens(nodes: list[Row], calls: list[Row]) -> float | None:
    """Sampled tokens: those that are marked so, else what the calls of the model were charged with."""
    marked = sum(sum(map(bool, _list(node.get("mask")))) for node in nodes)
    if marked:
        return float(marked)
    used = [finite(_map(call.get("usage")).get("completion_tokens")) for call in calls]
    counted = [each for each in used if each is not None]
    return sum(counted) if counted else None


def _last(calls: list[Row]) -> Row:
    return next((call for call in reversed(calls) if not call.get("error")), {})


def _stop(trace: Row, calls: list[Row]) -> object:
    return trace.get("stop_condition") or _last(calls).get("finish_reason")


def _is_cut(trace: Row, calls: list[Row]) -> bool:
    return trace.get("stop_condition") in _LIMITS or _last(calls).get("finish_reason") == "length"


def _failure(trace: Row) -> str | None:
    errors = [_map(each).get("type") for each in _list(trace.get("errors"))]
    return text_of(errors[-1]) or "failed" if trace.get("ok") is False and errors else None

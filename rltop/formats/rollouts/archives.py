"""Telescope's tables of samples → the completions of a step.

Owns which archive holds which step, and how its tables go together: samples,
their generations, the prompts of the groups, and what was discarded. Archives are
written anew in place every few seconds; one that is not whole is looked at again.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from rltop.errors import DecodeError, SourceError, refusing
from rltop.files import open_regular
from rltop.formats.parquet import ParquetTable, Value
from rltop.formats.rollouts.rows import by_prompt, finite
from rltop.formats.telescope import rows_of, whole
from rltop.formats.unpacking import Allowance, unpack
from rltop.model.completions import OPENING_CHARS, Completion, Passage, RolloutSource, RolloutText, TextPlace, gist

Result = TypeVar("Result")
MAX_TEXT_BYTES = 64 * 1024 * 1024
_CUT_WORDS = frozenset({"length", "max_tokens", "context_exhausted"})
_NOT_WHOLE = (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError, KeyError)


class Archives(RolloutSource):
    """The archives below the `files` folder of a run of Telescope."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._seen: dict[str, tuple[int, int]] = {}
        self._steps_in: dict[str, frozenset[int]] = {}
        self._discarded_in: dict[str, frozenset[int]] = {}
        self._unread: dict[str, str] = {}

    @property
    def notes(self) -> Sequence[str]:
        """Archives that could not be read when they were last looked at."""
        return [f"{path}: {reason}" for path, reason in sorted(self._unread.items())]

    @property
    def progress(self) -> float | None:
        waiting = sum(self._is_new(path) for path in self._archives())
        total = len(self._seen) + waiting
        return 1.0 - waiting / total if waiting and total else None

    def _archives(self) -> list[str]:
        found = [*Path(self.path).glob("steps/*.zip"), *Path(self.path).glob("events/*.zip")]
        # What is newest first: the tail is rewritten all the time, a finished block never.
        return [str(path) for path in sorted(found, key=lambda path: (path.name != "tail.zip", path.name))]

    def _is_new(self, path: str) -> bool:
        return self._seen.get(path) != _stamp(path)

    def refresh(self) -> bool:
        """Look into one archive that is new; True while there are more."""
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
        """What `read` finds in an archive; None, and a note, where it cannot be read."""
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
        """Moves when an archive of the step is written anew."""
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
    """What the generations of a step add up to, by sample."""

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
                prompt=gist(prompt),
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
    """Generations of a sample and what its environment answered: agent, turn, order, heading, text."""
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

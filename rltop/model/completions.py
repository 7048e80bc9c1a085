"""Completions of a step: the common form of all rollout dumps.

Defines `Completion`, `TextPlace` and `RolloutSource`, the length of a completion, and measures of uneven lengths. The
reader of each format handles the layout of its dump. Texts stay in the file: a completion holds only its first words
and the position of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from rltop.structs import NamedTuple

MAX_COMPLETIONS = 32_768
"""At most this many completions of a step are kept; the rest are only counted."""
OPENING_CHARS = 160
_HEAD_CHARS, _TAIL_CHARS = 120, 200
"""How much of a long prompt is kept: prompts of a run share a system prompt and differ near the end."""


class TextPlace(NamedTuple):
    """Position of the row that holds a text: byte offset and length in a text file, or row index in a table."""

    path: str
    start: int
    size: int = 0


class Completion(NamedTuple):
    """One completion of a prompt, without its full text.

    Attributes:
        number: index within its group, as in the dump; empty if the dump has none.
        reward: None if missing or not finite.
        tokens: length in tokens, over all turns; None if the dump does not say.
        characters: length of the text, over all turns; None if the dump has no readable text.
        is_truncated: it hit the length limit; None if unknown.
        off_policy_steps: by how many updates the trained policy was ahead of the policy that generated it.
        discarded: why it was not trained on; empty if it was.
        opening: the first words of its text.
        prompt: the first and the last words of its prompt.
    """

    group: str
    number: str = ""
    reward: float | None = None
    tokens: float | None = None
    characters: int | None = None
    advantage: float | None = None
    stop: str = ""
    is_truncated: bool | None = None
    turns: int | None = None
    tool_calls: float | None = None
    off_policy_steps: float | None = None
    discarded: str = ""
    opening: str = ""
    prompt: str = ""
    places: tuple[TextPlace, ...] = ()


class StepRollouts(NamedTuple):
    """The completions of one step, in the order of the dump.

    Attributes:
        has_tokens: every completion that was trained on has a token count, so lengths are in tokens; otherwise they are
            in characters.
        left_out: number of completions beyond `MAX_COMPLETIONS`.
    """

    step: int
    completions: tuple[Completion, ...]
    has_tokens: bool
    left_out: int = 0

    def length(self, completion: Completion) -> float | None:
        """Length in the unit of the step; None if it is not known in that unit."""
        return completion.tokens if self.has_tokens else completion.characters


class Passage(NamedTuple):
    """One part of a conversation: its speaker (prompt, completion, a role, a turn) and its text, unescaped."""

    heading: str
    text: str


class RolloutText(NamedTuple):
    """The texts of a completion and the other fields of its row.

    Attributes:
        facts: the other fields, by the trainer's key.
        note: why a text is missing; empty if none is.
    """

    passages: tuple[Passage, ...]
    facts: tuple[tuple[str, str], ...] = ()
    note: str = ""


class RolloutSource:
    """One dump: a text file, a table, or a folder of archives. Every call may read files.

    Attributes:
        stream: the stream of the run that counts these steps; empty for the main one or if unknown.
        steps: the steps found so far, ascending.
    """

    def __init__(self, path: str, stream: str = "") -> None:
        self.path = path
        self.stream = stream
        self.steps: Sequence[int] = ()

    @property
    def notes(self) -> Sequence[str]:
        """What could not be read."""
        raise NotImplementedError

    @property
    def progress(self) -> float | None:
        """Fraction of the dump that has been indexed; None when all of it has."""
        return None

    def refresh(self) -> bool:
        """Check the file for changes and index a piece of it; returns True while there is more to index."""
        raise NotImplementedError

    def stamp(self, step: int) -> Hashable:
        """Changes whenever `read` would return something else for the step."""
        raise NotImplementedError

    def read(self, step: int) -> list[Completion]:
        """The completions of a step, without their texts; empty if it has none."""
        raise NotImplementedError

    def text(self, completion: Completion) -> RolloutText | None:
        """The texts of a completion; None if it belongs to another dump or they are gone."""
        raise NotImplementedError


def shortened_prompt(prompt: str) -> str:
    """A short prompt in full; only the beginning and the end of a longer one."""
    if len(prompt) <= _HEAD_CHARS + _TAIL_CHARS:
        return prompt
    return f"{prompt[:_HEAD_CHARS]} … {prompt[-_TAIL_CHARS:]}"


def joined(pieces: Iterable[Completion]) -> tuple[list[Completion], int]:
    """Merge the rows of a step into completions: rows with the same group and number are turns of one completion.

    Lengths and tool calls are summed over the turns; the reward is the last one logged. A row without a number is a
    completion of its own.

    Returns:
        At most `MAX_COMPLETIONS` completions, and the number of those beyond.
    """
    found: dict[tuple[str, str], Completion] = {}
    left_out = 0
    for i, piece in enumerate(pieces):
        key = (piece.group, piece.number or f"\0{i}")
        known = found.get(key)
        if known is not None:
            found[key] = _continued(known, piece)
        elif len(found) < MAX_COMPLETIONS:
            found[key] = piece
        else:
            left_out += 1
    return list(found.values()), left_out


def step_of(step: int, completions: Sequence[Completion], left_out: int = 0) -> StepRollouts:
    trained = [each for each in completions if not each.discarded] or completions
    has_tokens = bool(trained) and all(each.tokens is not None for each in trained)
    return StepRollouts(step, tuple(completions), has_tokens, left_out)


def _continued(first: Completion, more: Completion) -> Completion:
    tokens = None if first.tokens is None or more.tokens is None else first.tokens + more.tokens
    characters = None if first.characters is None or more.characters is None else first.characters + more.characters
    calls = [each for each in (first.tool_calls, more.tool_calls) if each is not None]
    cuts = [each for each in (first.is_truncated, more.is_truncated) if each is not None]
    return first._replace(
        reward=first.reward if more.reward is None else more.reward,
        tokens=tokens,
        characters=characters,
        advantage=first.advantage if more.advantage is None else more.advantage,
        stop=more.stop or first.stop,
        is_truncated=any(cuts) if cuts else None,
        turns=(first.turns or 1) + (more.turns or 1),
        tool_calls=sum(calls) if calls else None,
        discarded=first.discarded or more.discarded,
        places=(*first.places, *more.places),
    )


def mean_of(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def deviation(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n − 1); None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def length_ratio(lengths: Sequence[float]) -> float | None:
    """Longest over median length of a group; 1 if all are 0, None if only the median is.

    The median of an even number of completions is the mean of the two in the middle.
    """
    if not lengths:
        return None
    ordered = sorted(lengths)
    longest, middle = ordered[-1], (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
    if middle > 0:
        return longest / middle
    return 1.0 if longest == 0 else None


def gini(values: Sequence[float]) -> float:
    """Gini coefficient: 0 if all are equal or their sum is not positive; towards 1 if one has everything.

    sum_ij |x_i - x_j| / (2 n^2 mean), computed from ranks; no small-sample correction.
    """
    total, count = math.fsum(values), len(values)
    if count < 2 or not total > 0.0:
        return 0.0
    ranked = math.fsum(rank * value for rank, value in enumerate(sorted(values), 1))
    return 2.0 * ranked / (count * total) - (count + 1) / count

"""Completions of a step: what every dump of rollouts comes down to.

Owns the words (`Completion`, `TextPlace`, `RolloutSource`), what the length of a
completion is and how uneven lengths are measured; how a dump is laid out is its reader's business. Texts stay in the
file: a completion knows its first words and where the rest stands.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from rltop.structs import NamedTuple

MAX_COMPLETIONS = 32_768
"""Completions of one step that are held; what comes after them is counted, not shown."""
OPENING_CHARS = 160
_HEAD_CHARS, _TAIL_CHARS = 120, 200
"""What is kept of a longer prompt: prompts of a run begin alike, with a system prompt, and differ near their end."""


class TextPlace(NamedTuple):
    """Where the row that holds a text stands: byte and length in a file of lines, or row in a table."""

    path: str
    start: int
    size: int = 0


class Completion(NamedTuple):
    """One completion of a prompt, without its text.

    Attributes:
        number: which completion of its group it is, as the dump says; empty where it does not.
        reward: None where there is none, or it is no finite number.
        tokens: length in tokens, over all turns; None where the dump does not say.
        characters: length of the text, over all turns; None where the dump holds no text that can be read.
        is_truncated: it was truncated at the length limit; None where nothing tells.
        off_policy_steps: how many updates the policy was ahead of the one that wrote it.
        discarded: why it was not trained on; empty where it was.
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
        has_tokens: all that were trained on say how many tokens they have, so lengths are
            tokens; else they are characters.
    """

    step: int
    completions: tuple[Completion, ...]
    has_tokens: bool
    left_out: int = 0

    def length(self, completion: Completion) -> float | None:
        """The length of one of the completions in the unit of the step; None where it has none in that unit."""
        return completion.tokens if self.has_tokens else completion.characters


class Passage(NamedTuple):
    """A part of what was said: who says it (prompt, completion, a role, a turn), and the words; nothing is escaped."""

    heading: str
    text: str


class RolloutText(NamedTuple):
    """What a completion says, and whatever else its row holds.

    Attributes:
        facts: further fields of the row, by the trainer's key.
        note: why a text is missing; empty where none is.
    """

    passages: tuple[Passage, ...]
    facts: tuple[tuple[str, str], ...] = ()
    note: str = ""


class RolloutSource:
    """One dump: a file of lines, a table, a folder of archives. Every call may read files.

    Attributes:
        stream: the stream of the run whose steps it counts, where that is known not to be the main one.
        steps: those that are known to be in it, ascending.
    """

    def __init__(self, path: str, stream: str = "") -> None:
        self.path = path
        self.stream = stream
        self.steps: Sequence[int] = ()

    @property
    def notes(self) -> Sequence[str]:
        """What of it could not be read."""
        raise NotImplementedError

    @property
    def progress(self) -> float | None:
        """Which part of it has been looked through; None where all has."""
        return None

    def refresh(self) -> bool:
        """Look at the file again and index a piece of it; True while there is more to index."""
        raise NotImplementedError

    def stamp(self, step: int) -> Hashable:
        """Moves when there is another answer for a step."""
        raise NotImplementedError

    def read(self, step: int) -> list[Completion]:
        """The rows of a step, without their texts; empty where it has none."""
        raise NotImplementedError

    def text(self, completion: Completion) -> RolloutText | None:
        """The texts of a completion; None where it is of another dump, or they are gone."""
        raise NotImplementedError


def gist(prompt: str) -> str:
    """What is kept of a prompt: all of a short one, of a longer one the beginning and the end."""
    if len(prompt) <= _HEAD_CHARS + _TAIL_CHARS:
        return prompt
    return f"{prompt[:_HEAD_CHARS]} … {prompt[-_TAIL_CHARS:]}"


def joined(pieces: Iterable[Completion]) -> tuple[list[Completion], int]:
    """Rows of a step as completions: rows of one group and number are turns of one completion.

    Lengths and tool calls are summed over them, the reward is the last that one of
    them carries. Rows without a number stand for themselves.

    Returns:
        At most `MAX_COMPLETIONS`, and how many there are beyond them.
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
    """The completions of a step, with the unit that their lengths have in common."""
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
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def length_ratio(lengths: Sequence[float]) -> float | None:
    """Max over median of one group; 1 if all are empty, None if only the median is 0.

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
    """Gini coefficient: 0 if all values are equal, or their sum is not positive, towards 1 if one has everything.

    sum_ij |x_i - x_j| / (2 n^2 mean), computed from ranks; no small-sample correction.
    """
    total, count = math.fsum(values), len(values)
    if count < 2 or not total > 0.0:
        return 0.0
    ranked = math.fsum(rank * value for rank, value in enumerate(sorted(values), 1))
    return 2.0 * ranked / (count * total) - (count + 1) / count

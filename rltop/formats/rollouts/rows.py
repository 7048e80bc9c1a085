"""One row of a rollout dump → its step, or a `Completion`: the field names of each trainer.

For step, group and numbers, the first name of a list that the row has is used. rltop's own format is described in
`docs/rollouts.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from rltop.formats.rows import MAX_STEP, number_of
from rltop.model.completions import OPENING_CHARS, Completion, Passage, RolloutText, TextPlace, shortened_prompt

Row = Mapping[str, object]

STEP = ("step", "global_step", "training_step", "train_step", "iteration", "model_version")
GROUP = (
    "group", "group_id", "prompt_uid", "prompt_id", "prompt_index", "problem_id", "example_id", "task_id", "uid",
)  # fmt: skip
PROMPT_NAMES = ("prompt_id", "prompt_uid", "problem_id", "example_id", "task_id")
"""Identifiers of a prompt whose text is not in the dump."""
NUMBER = ("sample", "sample_id", "completion_id", "rollout", "rollout_id", "sample_index", "run_id", "idx")
REWARD = ("reward", "score", "total_reward", "reward_sum", "rewards")
TOKENS = (
    "completion_tokens", "completion_length", "response_tokens", "response_length", "completion_len",
    "output_tokens", "num_tokens", "tokens",
)  # fmt: skip
ADVANTAGE = ("advantage", "advantages")
STOP = ("stop_reason", "finish_reason", "stop_condition", "truncate_status")
TRUNCATED = ("is_truncated", "truncated", "clipped")
TURNS = ("turns", "num_turns", "n_turns", "num_generations")
TOOL_CALLS = ("tool_calls", "num_tool_calls", "tool_call_count", "tool_call_counts")
OFF_POLICY = ("off_policy_steps", "staleness", "policy_lag")
DISCARDED = ("discarded", "discard_reason", "filtered")
TEXT = ("completion", "response", "output", "response_text", "text", "generation", "content")
PROMPT = ("prompt", "input", "prompt_text", "question", "problem")
ANSWER = ("gts", "ground_truth", "answer", "solution", "target")

MAX_FACTS = 48
_TOO_LARGE = 1e100
"""Limit for values, so that sums and squares stay finite; no reward and no length is larger."""
_TEXT_KEYS = frozenset((*TEXT, *PROMPT, *ANSWER, "messages", "tools"))
_TOLD = (
    STEP, GROUP, NUMBER, REWARD, TOKENS, ADVANTAGE, STOP, TRUNCATED, TURNS, TOOL_CALLS, OFF_POLICY, DISCARDED,
)  # fmt: skip
_CUT_WORDS = ("length", "max_tokens", "truncated", "overlong", "limit", "exhausted")
_MOST_PARTS = 3
_MAX_DEPTH = 4


def _first(row: Row, names: Iterable[str]) -> object:
    return next((row[name] for name in names if row.get(name) is not None), None)


def finite(value: object) -> float | None:
    """A usable number, or that of a one-element list; else None."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float, str)):
        return None
    number = number_of(value)
    return number if isinstance(number, float) and abs(number) < _TOO_LARGE else None


def whole_step(value: object) -> int | None:
    number = finite(value)
    return int(number) if number is not None and 0 <= number <= MAX_STEP and number == int(number) else None


def text_of(value: object) -> str:
    """A text, or a conversation as `role: words`, one message per line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        content = value.get("content")
        role = value.get("role")
        words = text_of(content) if content is not None else ""
        return f"{role}: {words}" if isinstance(role, str) else words or text_of(value.get("text"))
    if isinstance(value, list):
        return "\n".join(text_of(each) for each in value)
    return "" if value is None else str(value)


def texts_of(row: Row) -> tuple[str, str]:
    completion = _first(row, TEXT)
    if completion is None:
        completion = row.get("messages")
    return text_of(_first(row, PROMPT)), text_of(completion)


def read_text(row: Row) -> RolloutText:
    """All texts of a row as passages, and its other fields that have no place of their own."""
    passages: list[Passage] = []
    for heading, names in (("prompt", PROMPT), ("completion", TEXT)):
        passages += _passages(heading, _first(row, names))
    if _first(row, TEXT) is None:
        passages += _passages("messages", row.get("messages"))
    reference = text_of(_first(row, ANSWER))
    if reference:
        passages.append(Passage("reference answer", reference))
    return RolloutText(tuple(passages), tuple(_facts(row, _told(row))))


def _told(row: Row) -> frozenset[str]:
    told = (next((name for name in names if row.get(name) is not None), "") for names in _TOLD)
    return frozenset((*told, *_TEXT_KEYS))


def _passages(heading: str, value: object) -> list[Passage]:
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        found = []
        for message in value:
            role = message.get("role")
            text = text_of(message.get("content")) or text_of(message.get("text"))
            found.append(Passage(f"{heading}: {role}" if isinstance(role, str) else heading, text))
        return found
    return [] if value is None else [Passage(heading, text_of(value))]


def _facts(row: Row, told: frozenset[str], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Short fields other than the texts, nested ones by their path; at most `MAX_FACTS`."""
    left = MAX_FACTS
    for key, value in row.items():
        if key in told or not left:
            continue
        if isinstance(value, Mapping):
            if depth < _MAX_DEPTH:
                for fact in _facts(value, told, f"{prefix}{key}/", depth + 1):
                    if not left:
                        return
                    left -= 1
                    yield fact
        elif isinstance(value, (int, float, str)) and value != "":
            left -= 1
            yield f"{prefix}{key}"[:OPENING_CHARS], str(value)[:OPENING_CHARS]


def completion_of(row: Row, place: TextPlace) -> Completion:
    eid, texts = row.get("eid"), texts_of(row)
    if isinstance(eid, Mapping):
        # Trinity: (batch, task) is the group and the run is the completion; each step of a run has its own row.
        group, number = f"{text_of(eid.get('batch'))}/{text_of(eid.get('task'))}", _name(eid.get("run"))
    else:
        group, number = _group_of(row, texts[0])
    return _completion(row, texts, group, number, place)


def step_of_row(row: Row) -> int | None:
    eid = row.get("eid")
    return whole_step(eid.get("batch") if isinstance(eid, Mapping) else _first(row, STEP))


def _group_of(row: Row, prompt: str) -> tuple[str, str]:
    """The row's names for its group and itself; a digest of the prompt if it has no group."""
    uid = row.get("uid")
    if isinstance(uid, str) and "output" in row and not any(name in row for name in GROUP if name != "uid"):
        # veRL: <uid of the prompt>_<rollout>_<output of the rollout>; several outputs are turns of one rollout.
        parts = uid.rsplit("_", _MOST_PARTS - 1)
        if len(parts) == _MOST_PARTS and parts[1].isdecimal() and parts[2].isdecimal():
            return parts[0], parts[1]
    group = _first(row, GROUP)
    number = _first(row, NUMBER)
    return (by_prompt(prompt or _prompt_of_tokens(row)) if group is None else text_of(group)[:OPENING_CHARS]), _name(
        number
    )


def by_prompt(prompt: str) -> str:
    """A short name for a prompt's completions if the dump has none: a digest of the prompt's text."""
    if not prompt:
        return ""
    return "#" + hashlib.blake2s(prompt.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _listed(row: Row, name: str) -> list[object]:
    value = row.get(name)
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else []


def _prompt_of_tokens(row: Row) -> str:
    """The tokens before the first one that is trained on, as text; stands in for a prompt that is not separate."""
    tokens, mask = _listed(row, "token_ids"), _listed(row, "token_loss_mask")
    start = next((i for i, each in enumerate(mask) if each), 0)
    return " ".join(map(str, tokens[:start]))


def _name(value: object) -> str:
    return "" if value is None else text_of(value)[:OPENING_CHARS]


def _completion(row: Row, texts: tuple[str, str], group: str, number: str, place: TextPlace) -> Completion:
    prompt, text = texts
    stop = _first(row, STOP)
    word = stop if isinstance(stop, str) else ""
    discarded = _first(row, DISCARDED)
    calls, turns = _first(row, TOOL_CALLS), finite(_first(row, TURNS))
    return Completion(
        group=group,
        number=number,
        reward=finite(_first(row, REWARD)),
        tokens=_length(row),
        characters=len(text) if text or _first(row, TEXT) is not None else None,
        advantage=finite(_first(row, ADVANTAGE)),
        stop=word[:OPENING_CHARS],
        is_truncated=_is_truncated(row, word),
        turns=int(turns) if turns is not None and turns >= 0 else None,
        tool_calls=float(len(calls)) if isinstance(calls, (list, dict)) else finite(calls),
        off_policy_steps=finite(_first(row, OFF_POLICY)),
        discarded=discarded[:OPENING_CHARS] if isinstance(discarded, str) else "yes" if discarded is True else "",
        opening=text[:OPENING_CHARS],
        prompt=shortened_prompt(prompt or _name(_first(row, PROMPT_NAMES))),
        places=(place,),
    )


def _length(row: Row) -> float | None:
    """Tokens of the completion: the logged number, the length of a list, or the trained tokens in NeMo-RL's mask."""
    value = _first(row, TOKENS)
    if isinstance(value, list):
        return float(len(value))
    if value is None and (mask := _listed(row, "token_loss_mask")):
        return float(sum(1 for each in mask if each))
    number = finite(value)
    return number if number is not None and number >= 0.0 else None


def _is_truncated(row: Row, stop: str) -> bool | None:
    said = _first(row, TRUNCATED)
    if isinstance(said, (bool, int, float)):
        return bool(said)
    if stop:
        return any(word in stop.lower() for word in _CUT_WORDS)
    # Trinity writes a status only for truncated rows.
    return False if "truncate_status" in row else None


def has_answer(row: Row) -> bool:
    """Does a row look like a completion, with a text, or a group with a length or a reward?"""
    if isinstance(row.get("eid"), Mapping) or _first(row, TEXT) is not None:
        return True
    return _first(row, GROUP) is not None and (_first(row, TOKENS) is not None or _first(row, REWARD) is not None)

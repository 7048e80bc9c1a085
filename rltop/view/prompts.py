"""Prompts and answers on one line, and prompts shown by where they differ.

Pure; knows texts, not where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache

from rltop.model import Label

NEWLINE = "↵"
_SHORT_PROMPT = 60
_LONG_STRETCH = 48


def flat(text: str) -> str:
    """A text on one line and harmless: its newlines are shown as signs."""
    return Label.of(text.replace("\r\n", "\n").replace("\n", NEWLINE).replace("\t", " ")).display


def told_apart(prompts: Mapping[str, str]) -> Mapping[str, str]:
    """What the prompt of each group says that those of the other groups do not, on one line.

    What all of them begin and end with, a system prompt or the marks of a template, is left out.
    """
    if max(map(len, prompts.values()), default=0) <= _SHORT_PROMPT:
        return {name: flat(text) for name, text in prompts.items()}
    start, stop, shared = _frame(frozenset(text for text in prompts.values() if text))
    found = {}
    for name, text in prompts.items():
        own = text[start : len(text) - stop]
        own = own.partition(shared)[2] if shared else own
        found[name] = flat(own.strip()) or flat(text)
    return found


@lru_cache(maxsize=4)
def _frame(texts: frozenset[str]) -> tuple[int, int, str]:
    """What texts have in common: how long at their beginning, at their end, and a long stretch between."""
    if len(texts) < 2:
        return 0, 0, ""
    head = _common_start(texts)
    start = max(head.rfind(" "), head.rfind("\n")) + 1
    stop = len(_common_start({text[: start - 1 if start else None : -1] for text in texts}))
    return start, stop, _shared({text[start : len(text) - stop] for text in texts})


def _shared(texts: Set[str]) -> str:
    """A long stretch that all of the texts hold, at whatever place: of long prompts the middle is not kept."""
    ordered = sorted(texts, key=lambda text: (len(text), text))
    first, last = ordered[0], ordered[-1]
    if len(first) <= _LONG_STRETCH:
        return ""
    from difflib import SequenceMatcher  # noqa: PLC0415 - only for prompts that are much alike

    match = SequenceMatcher(None, first, last, autojunk=False).find_longest_match()
    shared = first[match.a : match.a + match.size]
    shared = shared[: max(shared.rfind(" "), shared.rfind("\n")) + 1]
    # Of texts cut to a length some begin in the middle of it: its end is what counts.
    while len(shared) > _LONG_STRETCH and not all(shared in text for text in texts):
        shared = shared[len(shared) // 8 :]
    return shared if len(shared) > _LONG_STRETCH else ""


def _common_start(texts: Set[str]) -> str:
    """What all of the texts begin with: what the first and the last of them in their order do."""
    first, last = min(texts), max(texts)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]

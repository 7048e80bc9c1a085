"""Names cut where they are the same, so that what tells them apart stays.

Owns which part of a name is shown where there is no room for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from rltop.rows.cells import ELLIPSIS, clip, clip_middle
from rltop.rows.widths import cell_width, char_width, plain


def told_apart(names: Sequence[str], width: int, cut: Callable[[str, int], str] = clip_middle) -> list[str]:
    """Names in at most `width` cells each, cut where they are the same as others.

    A name that fits stays whole. One that does not keeps its beginning and its end, or
    what `cut` leaves; where it would look like another name, the part in which the two differ is kept
    instead. Two names look the same only where `width` is too small for the
    difference itself.

    Args:
        cut: shortens a name that looks like no other one.

    Returns:
        The names as they are shown, in the same order.
    """
    return list(_told_apart(tuple(names), width, cut))


_ROUNDS = 4


@lru_cache(maxsize=64)
def _told_apart(names: tuple[str, ...], width: int, cut: Callable[[str, int], str]) -> tuple[str, ...]:
    # The same names are asked for with every paint.
    whole = [plain(name) for name in names]
    shown = {name: cut(name, width) for name in whole}
    for _ in range(_ROUNDS):
        alike: dict[str, list[str]] = {}
        for name, text in shown.items():
            alike.setdefault(text, []).append(name)
        groups = [group for group in alike.values() if len(group) > 1]
        if not groups:
            break
        for group in groups:
            begin, end = _shared(group), _shared([name[::-1] for name in group])
            for name in group:
                shown[name] = _kept(name, begin, max(begin + 1, len(name) - end), width)
    return tuple(shown[name] for name in whole)


def _shared(names: Sequence[str]) -> int:
    """How many characters all of the names begin with alike."""
    return _common(min(names), max(names))


def _common(first: str, second: str) -> int:
    """How many characters the two begin with alike."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return number
    return min(len(first), len(second))


def _kept(name: str, start: int, stop: int, width: int) -> str:
    """A name with its characters `start` to `stop` in view, as far as there is room.

    What is left over goes to the end before the beginning: the end of a key tells most.
    """
    if width < 4:
        return clip(name[start:], width)
    if not start:
        head = _begin(name, max(1, min(stop, width - 1), (width - 1) // 3))
        return clip(name, width) if stop > width - 1 else f"{head}{ELLIPSIS}{_end(name, width - 1 - cell_width(head))}"
    tail = name[start:]
    if cell_width(tail) > width - 1:
        return f"{ELLIPSIS}{clip(tail, width - 1)}"
    tail = _end(name, max(cell_width(tail), (width - 1) * 2 // 3))
    return f"{_begin(name, width - 1 - cell_width(tail))}{ELLIPSIS}{tail}"


def _begin(text: str, cells: int) -> str:
    """As many characters from the beginning as `cells` hold."""
    taken = 0
    for number, char in enumerate(text):
        taken += char_width(char)
        if taken > cells:
            return text[:number]
    return text


def _end(text: str, cells: int) -> str:
    """As many characters from the end as `cells` hold."""
    taken = 0
    for number in range(len(text) - 1, -1, -1):
        taken += char_width(text[number])
        if taken > cells:
            return text[number + 1 :]
    return text

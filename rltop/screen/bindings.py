"""The key table as Textual bindings, and the effective keys under a keymap.

All texts that mention a key use `key_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from textual.binding import Binding, BindingsMap
from textual.keys import format_key, key_to_character
from textual.screen import Screen

from rltop.rows.keys import KEYS, Key, KeyNames, Scope


def _binding(key: Key, where: Scope, groups: Mapping[str, Binding.Group]) -> Binding:
    own = f"screen.act({key.id!r})" if where.is_of_pages else key.id.replace("-", "_")
    return Binding(
        key.keys,
        key.action or own,
        key.footer,
        id=key.id,
        tooltip=key.tooltip,
        show=key.is_shown,
        priority=key.comes_first,
        key_display=key.shown_as or None,
        group=groups.get(key.group),
    )


def _bindings() -> Mapping[Scope, tuple[Binding, ...]]:
    groups = {key.group: Binding.Group(key.group, compact=True) for keys in KEYS.values() for key in keys if key.group}
    return MappingProxyType(
        {where: tuple(_binding(key, where, groups) for key in keys) for where, keys in KEYS.items()}
    )


BINDINGS: Mapping[Scope, tuple[Binding, ...]] = _bindings()
"""The bindings for widgets and screens."""


def binding_ids() -> frozenset[str]:
    return frozenset(key.id for keys in KEYS.values() for key in keys)


_SPELLING = {"enter": "Enter", "pageup": "PgUp", "pagedown": "PgDn", "backspace": "Backspace"}
"""Keys that Textual names differently from their labels."""


def spell(keys: str) -> list[str]:
    return [_spell(key) for key in keys.split(",")]


def _spell(key: str) -> str:
    *modifiers, name = key.split("+")
    shown = _SPELLING.get(name) or format_key(name)
    # Labels of named keys (f2, tab, delete) are capitalised; a letter is shown as typed.
    shown = shown[0].upper() + shown[1:] if len(shown) > 1 and shown.isascii() else shown
    return "-".join([*(modifier.capitalize() for modifier in modifiers), shown])


_FIRST = frozenset(binding.id for where in (Scope.EVERYWHERE, Scope.LIST) for binding in BINDINGS[where])

_TEXTUALS = tuple(one for one in Screen.BINDINGS if isinstance(one, Binding))
"""Bindings of Textual's own screens, such as Tab; they have no ids."""

_YIELDING = frozenset({"back", "live-end", "left", "right", "match-after", "match-before"})
"""Bindings that pass their key on to the next one if they have nothing to do."""


def key_names(keymap: Mapping[str, str], page: Iterable[Scope] = (), *, is_typing: bool = False) -> KeyNames:
    """The keys that reach each action under a keymap, on a page with its own keys.

    A key goes to its first handler: the list, then the page, then the application. An action has no keys if all of its
    keys go to others, or, while the user is typing, if they are printable characters.

    Args:
        page: the groups of the table that the page handles.
    """
    return _key_names(tuple(keymap.items()), tuple(page), is_typing)


@lru_cache(maxsize=128)
def _key_names(keymap: tuple[tuple[str, str], ...], page: tuple[Scope, ...], is_typing: bool) -> KeyNames:
    settled = normal_keymap(dict(keymap))
    board, everywhere = BINDINGS[Scope.LIST], BINDINGS[Scope.EVERYWHERE]
    found: dict[str, tuple[str, ...]] = {}
    for where, bindings in BINDINGS.items():
        # A filter hides the list.
        chain = (bindings,) if where is Scope.FILTER else (board, (*_TEXTUALS, *bindings))
        found |= _reaching(settled, *chain)
    # Last, so that the page's own keys take precedence. Those of a filter apply only in the filter.
    own = [binding for where in page if where not in {Scope.MATCHES, Scope.FILTER} for binding in BINDINGS[where]]
    found |= _reaching(settled, BINDINGS[Scope.MATCHES], board, (*_TEXTUALS, *own), everywhere)
    told = {id: [key for key in keys if not (is_typing and types(key))] for id, keys in found.items() if id}
    return KeyNames(MappingProxyType({id: tuple(map(_spell, keys)) for id, keys in told.items()}))


def types(key: str) -> bool:
    character = key_to_character(key)
    return character is not None and character.isprintable()


def with_alt(keymap: Mapping[str, str]) -> frozenset[str]:
    keys = [key.strip().split("+") for keys in keymap.values() for key in keys.split(",")]
    found = {(key_to_character(name) or name, "shift" in others) for *others, name in keys if "alt" in others}
    return frozenset(character.upper() if is_shifted else character for character, is_shifted in found)


def normal_keymap(keymap: Mapping[str, str]) -> Mapping[str, str]:
    """Resolve a keymap: canonical key names (`question_mark` for `?`), and the remaining keys of affected actions.

    An action without an entry keeps at least one of its default keys: a key is taken from it only if it has others.
    """
    every = {id: [key for key in keys.split(",") if key.strip()] for id, keys in keymap.items()}
    given = {
        id: [one.key for one in Binding.make_bindings([Binding(",".join(keys), "")])]
        for id, keys in every.items()
        if keys
    }
    left: dict[str, list[str]] = {}
    for where, bindings in BINDINGS.items():
        for binding in bindings:
            taken = {key for id, keys in given.items() if _goes_before(id, binding.id or "", where) for key in keys}
            kept = [key for key in binding.key.split(",") if key not in taken]
            if binding.id and binding.id not in given and kept and taken.intersection(binding.key.split(",")):
                left[binding.id] = kept
    return {id: ",".join(keys) for id, keys in (left | given).items()}


def _goes_before(given: str, id: str, where: Scope) -> bool:
    """Whether a key assigned to one action is removed from another: if it would reach both of them."""
    return given in _FIRST or (where is Scope.LIST and id not in _YIELDING)


def _reaching(keymap: Mapping[str, str], *chain: Iterable[Binding]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    maps: list[Mapping[str, Sequence[Binding]]] = []
    for bindings in chain:
        bound = BindingsMap(bindings)
        found.update((one.id or "", []) for _, one in bound)
        bound.apply_keymap(dict(keymap))
        maps.append(bound.key_to_bindings)
    taken: set[str] = set()
    for is_urgent in (True, False):
        for each in maps:
            own = [(key, one) for key, several in each.items() if key not in taken for one in several]
            kept: set[str] = set()
            for key, one in own:
                if one.priority is is_urgent and key not in kept:
                    found[one.id or ""].append(key)
                    if one.id not in _YIELDING:
                        kept.add(key)
            taken |= kept
    # Two default keys of an action that yields may have become the same one.
    return {id: tuple(dict.fromkeys(keys)) for id, keys in found.items()}

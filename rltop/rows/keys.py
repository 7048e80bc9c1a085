"""The table of all keys, read from `keys.txt`; and how texts refer to a key.

Footer, status line, help, palette and `docs/keys.md` are generated from this table; a keymap refers to the ids. Only
`screen.bindings` resolves which keys an action has under a keymap.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rltop.structs import NamedTuple, Struct


class Scope(enum.Enum):
    """Where keys apply, in the order of help and docs."""

    EVERYWHERE = "Everywhere"
    LIST = "In a list or a table"
    CHART = "On a metric's chart"
    AXES = "On every chart"
    MARKS = "Where metrics are listed"
    OVERLAY = "Where metrics are listed or drawn"
    GRID = "On the page of charts"
    METRICS = "In the list of metrics"
    ROWS = "On the page of rows"
    TIMELINE = "In the list of events"
    TABLE = "In a table that can be sorted"
    RUNS = "In the list of runs"
    COMPARE = "Where runs are compared"
    ROLLOUTS = "On the pages of rollouts"
    LOG = "In the console log"
    MATCHES = "While a search or a filter stands"
    FILTER = "In a filter"

    @property
    def is_of_pages(self) -> bool:
        """Whether pages name it in their `where`; its keys go to `Page.on` unless the row names an action."""
        return self not in {Scope.EVERYWHERE, Scope.LIST, Scope.MATCHES, Scope.FILTER}


class Key(NamedTuple):
    """One row of the table.

    Attributes:
        action: in Textual's notation with arguments; empty if it is the id, in a group of pages passed to `Page.on`.
        shown_as: label of the key in the footer, if different from its name.
        group: footer label for adjacent keys with a common purpose.
        comes_first: the key is handled before the list and the filter see it.
    """

    id: str
    keys: str
    footer: str
    tooltip: str
    action: str = ""
    is_shown: bool = False
    shown_as: str = ""
    group: str = ""
    comes_first: bool = False


def _read_keys() -> Mapping[Scope, tuple[Key, ...]]:
    """Parse `keys.txt`.

    Raises:
        ValueError: a section is not a scope, or a row has an unknown option.
    """
    found: dict[Scope, tuple[Key, ...]] = {}
    for section in Path(__file__).with_name("keys.txt").read_text(encoding="utf-8").split("\n\n[")[1:]:
        scope, *lines = section.splitlines()
        found[Scope(scope.removesuffix("]"))] = tuple(_key(*line.split(" | ")) for line in lines if line)
    return MappingProxyType(found)


def _key(id_: str, keys: str, footer: str, tooltip: str, action: str = "-", more: str = "") -> Key:
    said = dict(one.partition(" ")[::2] for one in more.split("; ")) if more else {}
    if not said.keys() <= {"shown", "as", "group", "first"}:
        raise ValueError(f"keys.txt: {id_}: {more}")
    return Key(
        id_, keys, footer, tooltip, "" if action == "-" else action, "shown" in said, said.get("as", ""),
        said.get("group", ""), "first" in said,
    )  # fmt: skip


KEYS: Mapping[Scope, tuple[Key, ...]] = _read_keys()
"""One row for each key. A page's own keys reach it by id, see `pages.page.Page.on`."""

SORT_KEYS = ("sort", "order")
"""Ids of the keys that sort the table of a page by its next head."""

NO_KEY = "no key"
"""Stands for the key of an action without one: "no key opens it" is a true sentence."""


class KeyNames(Struct):
    """Action → labels of its keys, the preferred one first; empty for an action without a key."""

    names: Mapping[str, Sequence[str]]

    def every(self, action: str) -> Sequence[str]:
        return self.names.get(action, ())

    def clause(self, action: str, text: str) -> str:
        """`text` with the key in place of "{}"; empty if the action has no key."""
        return text.format(self.every(action)[0]) if self.every(action) else ""

    def no_match_text(self, what: str) -> str:
        return f"{what} matches the filter{self.clause('back', '; {} clears it')}"

    def with_keys_named(self, text: str) -> str:
        """Replace each action in braces by its key: "{open} opens it"."""
        return text.format_map({action: keys[0] if keys else NO_KEY for action, keys in self.names.items()})


NO_KEYS = KeyNames(MappingProxyType({}))
"""For output without a keyboard: sentences omit their hints about keys."""

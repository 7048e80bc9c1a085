"""The footer: the keys of the page in one row, its own first, as many as fit whole.

One widget that draws a line. A widget for each key would be mounted, styled and laid
out anew whenever a key comes or goes, which takes longer than painting a page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from rltop.rows.widths import cell_width
from rltop.screen.bindings import types
from rltop.structs import NamedTuple

_GAP = 1
"""Blanks behind every part."""

_KEPT = frozenset({"back", "help", "quit"})
"""Ids that have room in the narrowest line: who sees these finds the others."""


_LAST = ("go", "pin", "grid", "settings", "theme", "where", "arrange", "meaning", "copy-value")
"""Ids that stand where there is room behind all others, in this order."""


class KeyHint(NamedTuple):
    """A key and what it does; of keys with one purpose the words stand behind the last, as a hint of their own.

    Attributes:
        shown: the key as it is shown; empty where there are only words.
        words: what it does; empty where others do the same.
        key: the key itself; empty where there are only words.
    """

    shown: str
    words: str = ""
    key: str = ""
    is_enabled: bool = True
    tooltip: str = ""
    is_kept: bool = False

    @property
    def cells(self) -> int:
        return cell_width(self.shown) + bool(self.shown and self.words) + cell_width(self.words)


Part = tuple[KeyHint, ...]
"""What is shown whole or not at all, without gaps."""


class KeyLine(Widget, can_focus=False):
    """A footer that leaves out what it could only show a part of."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"key-line--{what}{state}" for what in ("key", "words") for state in ("", "-off", "-hover")
    }

    def __init__(self, first: Sequence[str] = ()) -> None:
        """A footer for a page."""
        super().__init__()
        self._first = first
        self._parts: Sequence[Part] = ()
        self._hovered: KeyHint | None = None

    @property
    def parts(self) -> Sequence[Part]:
        # The gap behind the last one need not fit.
        room = self.size.width + _GAP
        shown = []
        for number, part in sorted(enumerate(self._parts), key=lambda one: not one[1][0].is_kept):
            room -= sum(hint.cells for hint in part) + _GAP
            if room < 0:
                break
            shown.append(number)
        return [self._parts[number] for number in sorted(shown)]

    def on_mount(self) -> None:
        """Show the keys, and others whenever others do something."""
        self.screen.bindings_updated_signal.subscribe(self, self._take)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _take(self, screen: Screen[object]) -> None:
        active: Iterable[ActiveBinding] = screen.active_bindings.values()
        if isinstance(screen.focused, Input):
            # Textual says so of the keys that are bound from the start, not of those of a keymap.
            active = [one for one in active if one.binding.priority or not types(one.binding.key)]
        absent = getattr(self.app, "absent", ())
        parts = list(self._distinguished(self._parts_of(one for one in active if one.binding.id not in absent)))
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def _parts_of(self, active: Iterable[ActiveBinding]) -> Iterator[Part]:
        by_action: defaultdict[str, list[ActiveBinding]] = defaultdict(list)
        for one in sorted(active, key=self._rank):
            if one.binding.show:
                by_action[one.binding.action].append(one)
        for group, found in groupby((alike[0] for alike in by_action.values()), lambda one: one.binding.group):
            several = list(found)
            if group is None or len(several) == 1:
                yield from ((self._hint(one, one.binding.description),) for one in several)
            else:
                hints = [self._hint(one) for one in several]
                # Signs stand side by side, names need something between them.
                between = "/" if any(cell_width(hint.shown) > 1 for hint in hints) else ""
                yield (hints[0], *(hint._replace(shown=between + hint.shown) for hint in hints[1:]))
                yield (KeyHint("", group.description),)

    def _distinguished(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts with each key shown once: what is left of an action whose first key a page has taken."""
        shown: set[str] = set()
        for part in parts:
            told = tuple(
                one._replace(shown=self.app.get_key_display(Binding(one.key, ""))) if one.shown in shown else one
                for one in part
            )
            shown |= {one.shown for one in told if one.key}
            yield told

    def _rank(self, one: ActiveBinding) -> int:
        """What is the page's own comes first, then what it is about, then what every page has."""
        if one.node is not self.app and not one.binding.action.startswith("app."):
            return -1
        id = one.binding.id or ""
        if id in self._first:
            return self._first.index(id)
        return len(self._first) + (_LAST.index(id) + 1 if id in _LAST else 0)

    def _hint(self, one: ActiveBinding, words: str = "") -> KeyHint:
        binding = one.binding
        shown = self.app.get_key_display(binding)
        tooltip = one.tooltip or ("" if words else binding.description)
        return KeyHint(shown, words, binding.key, one.enabled, tooltip, binding.id in _KEPT)

    def render_line(self, y: int) -> Strip:
        ground = self.rich_style
        segments: list[Segment] = []
        for part in self.parts:
            for hint in part:
                segments += self._segments(hint)
            segments.append(Segment(" " * _GAP, ground))
        return Strip(segments).adjust_cell_length(self.size.width, ground)

    def _segments(self, hint: KeyHint) -> Iterator[Segment]:
        state = "-off" if not hint.is_enabled else "-hover" if hint.key and hint == self._hovered else ""
        if hint.shown:
            yield Segment(hint.shown, self.get_component_rich_style(f"key-line--key{state}"))
        if hint.words:
            blank = " " if hint.shown else ""
            yield Segment(blank + hint.words, self.get_component_rich_style(f"key-line--words{state}"))

    def _hint_at(self, x: int) -> KeyHint | None:
        start = 0
        for part in self.parts:
            for hint in part:
                if start <= x < start + hint.cells:
                    return hint if hint.key else None
                start += hint.cells
            start += _GAP
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        hint = self._hint_at(event.x)
        if hint is not None and hint.is_enabled:
            self.app.simulate_key(hint.key)
        elif hint is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show which key a click would press, and what that does."""
        self._hover(self._hint_at(event.x))

    def on_leave(self) -> None:
        self._hover(None)

    def _hover(self, hint: KeyHint | None) -> None:
        if hint != self._hovered:
            self._hovered = hint
            self.tooltip = hint.tooltip if hint is not None and hint.tooltip else None
            self.refresh()

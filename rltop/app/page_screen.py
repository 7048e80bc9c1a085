"""The screen that shows any page: rows, a filter if the page has one, status line, and a footer of keys.

Owns when a page is repainted, and passes keys, clicks and typed text to it. Only the active screen is painted, and
only if there is something new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import Horizontal
from textual.getters import query_one
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from rltop import units
from rltop.model import Counts, Label
from rltop.pages.alerts import rule_title, verdict_title
from rltop.pages.header import ROOMY_ROWS
from rltop.pages.page import Effect, ListPage, Moment, Page, Redraw, Say, ShowStep
from rltop.rows.glyphs import cell_width
from rltop.rows.keys import SORT_KEYS, KeyNames, Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, clip, clip_middle, fill, side_by_side
from rltop.rows.selection import matching_rows, target_text, with_matches
from rltop.rows.table import Sorting, heads_of, next_sorting
from rltop.screen.bindings import BINDINGS, key_names, types
from rltop.screen.row_view import LongRowView, Opened, RowView, Selected
from rltop.screen.textual_shim import bind, update_by_cells
from rltop.structs import NamedTuple, replace

if TYPE_CHECKING:
    from rltop.app.app import RltopApp


DETAIL_CELLS = 150
"""Screen width from which the selection is shown next to a list."""

DETAIL_GAP = 3
"""Cells between the list and the side pane."""

SETTLED_S = 0.08
"""Delay before a selection is shown in the side pane, so that a held key does not repaint it."""

MAX_FILTER_CHARS = 256
"""Longer than the name of any metric; a longer paste is truncated."""

_SKIPPED = (
    ("unreadable_files", "files unreadable"),
    ("bad_lines", "unreadable"),
    ("cut_streams", "compressed, cut short or still being written"),
    ("cut_evaluations", "incomplete evaluations"),
    ("oversize_lines", "too long"),
    ("no_step_lines", "without a step"),
    ("unusable_steps", "steps out of range"),
    ("keys_over_cap", "keys over the limit"),
    ("nul_bytes", "NUL bytes"),
)
"""Counts that are shown on every screen; `--json` has every count."""


class FilterInput(Input):
    """A text field that truncates what does not fit; its hint is its name."""

    def on_resize(self, event: events.Resize) -> None:
        self.placeholder = clip(self.name or "", event.size.width)

    def replace(self, text: str, start: int, end: int) -> None:
        left = len(self.value) - abs(min(end, len(self.value)) - max(0, start))
        super().replace(text[: max(0, MAX_FILTER_CHARS - left)], start, end)


class PageScreen(Screen[None]):
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (DETAIL_CELLS, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (ROOMY_ROWS, "-roomy")]  # noqa: RUF012

    board = query_one("#board", RowView)
    status = query_one("#status", RowView)
    filter = query_one("#filter", Input)

    def __init__(self, page: Page, host: RltopApp) -> None:
        super().__init__()
        self.page = page
        self._host = host
        filter_keys = (Scope.FILTER,) if self.has_filter else ()
        self._groups = (*filter_keys, *page.where, Scope.MATCHES)
        self.known_keys: dict[bool, KeyNames] = {}
        self._answer: Callable[[str], object] = str
        self._sought = ""
        self._match: int | None = None
        self._left_at = 0
        self._details: Sequence[tuple[Page, Moment]] = ()
        self._detailed: Hashable = None
        self._settles: Timer | None = None
        bind(self, [binding for where in self._groups for binding in BINDINGS[where]])
        update_by_cells(self)

    @property
    def moment(self) -> Moment:
        return replace(self._host.moment.within(self.page.stream), keys=self.keys)

    @property
    def is_typing(self) -> bool:
        return isinstance(self.focused, Input)

    @property
    def selected(self) -> Target | None:
        return self.board.selection.target if self.is_mounted else None

    @property
    def idle(self) -> frozenset[str]:
        if not self.is_mounted:
            return frozenset()
        found = set(self.page.idle(self.moment))
        found |= {"open", "copy-value"} if self.board.selection.target is None else set()
        return frozenset(found if heads_of(self.board.rows) else found.union(SORT_KEYS))

    @property
    def has_filter(self) -> bool:
        return isinstance(self.page, ListPage)

    @property
    def can_search(self) -> bool:
        return self.has_filter or bool(self.page.search_hint)

    @property
    def keys(self) -> KeyNames:
        is_typing = self.is_typing
        if is_typing not in self.known_keys:
            self.known_keys[is_typing] = key_names(self._host.options.keymap, self._groups, is_typing=is_typing)
        return self.known_keys[is_typing]

    def compose(self) -> ComposeResult:
        palette = self._host.themes.palette
        # Textual sets this only after the first layout, which would show a page one row shorter for a moment.
        self.set_class(self.app.size.height < ROOMY_ROWS, "-low")
        if isinstance(self.page, ListPage):
            board: RowView = LongRowView(palette, self._rows, self._move, self._chosen, id="board")
        else:
            board = RowView(palette, self._rows, id="board", point=self._point, drag=self._drag)
        if self.page.details:
            with Horizontal(id="body"):
                yield board
        else:
            yield board
        if isinstance(self.page, ListPage):
            filter_input = FilterInput(name=self.page.filter_hint, id="filter", compact=True)
            filter_input.display = False
            yield filter_input
        status = RowView(palette, self._status_rows, id="status")
        status.can_focus = False
        yield status
        yield KeyLine(self.page.footer)

    def _rows(self, width: int, height: int) -> Sequence[Row]:
        # A field takes a row, but makes no page too small: the last row is then below the others.
        height = max(height, min(self.page.least[1], self.app.size.height - 1))
        rows = _with_marks(self.page.paint(self.moment, width, height), self.page, self.moment)
        return with_matches(rows, self._sought, self._match) if self._sought else rows

    @property
    def is_too_small(self) -> bool:
        """Whether the page says that it needs a larger window, and nothing else."""
        width, height = self.app.size
        return width < self.page.least[0] or height - 1 < self.page.least[1]

    def _status_rows(self, width: int, height: int) -> Sequence[Row]:
        self.board.settle()
        moment, told = replace(self._host.moment, keys=self.keys), self._host.message
        row = paint_status(self.page, moment, self.board.selection.target, self.board.below, told, width)
        # Without text the line is left alone: the early frame may have written something there.
        return [row][:height] if any(text.strip() for text, _ in row.line) else []

    def face(self) -> Hashable:
        return self.page.face(self._host.moment)

    def draw(self) -> None:
        """Paint with what is known now; only what changed goes to the terminal."""
        for board in self.query("#board, #status").results(RowView):
            board.draw()
        if isinstance(self.page, ListPage) and self.page.chosen is not None:
            self.board.select(self.page.chosen)
        self._host.offer()
        self._settle_detail()

    # -- the side pane -------------------------------------------------------------------------------------------

    def _settle_detail(self) -> None:
        """Show the selection in the side pane once it has been stable for a moment."""
        if self._settles is not None:
            self._settles.stop()
        if self.page.details and (self.app.size.width >= DETAIL_CELLS or self._detailed is not None):
            self._settles = self.set_timer(SETTLED_S, self.draw_detail)

    async def draw_detail(self) -> None:
        """Show the selection in the side pane if the screen is wide and the content may have changed."""
        if not self.is_attached:
            return  # the program ends
        target, moment = self.board.selection.target, self.moment
        is_wanted = self._host.has_details and self.has_class("-wide") and self.is_current
        panes = list(self.query("#detail").results(RowView))
        is_known = target is not None and target.kind in self.page.details
        if not is_wanted or (not is_known and not panes):
            for pane in panes:
                self._detailed = None
                await pane.remove()
            return
        height = self.board.size.height
        shown = (target, moment.version, moment.snapshot.at_step, height) if is_known else None
        if panes and shown == self._detailed:
            return
        self._detailed = shown
        effects = self.page.details_of(target, moment, height) if target and is_known else ()
        opened = [self._host.preview_page(effect, moment) for effect in effects]
        self._details = [one for one in opened if one is not None]
        if panes:
            panes[0].draw()
            return
        pane = RowView(self._host.themes.palette, self._detail_rows, id="detail")
        pane.can_focus = False
        await self.query_one("#body").mount(pane)

    def _detail_rows(self, width: int, height: int) -> Sequence[Row]:
        glyphs = self.moment.glyphs
        rows: list[Row] = []
        for number, (page, moment) in enumerate(self._details):
            share = (height - len(rows)) // (len(self._details) - number)
            now = moment.at(moment.snapshot.at_step).within(page.stream)
            rows += fill([*page.paint(now, max(1, width - DETAIL_GAP), share)], share)
        line = RowBuilder(width, glyphs).add(f" {glyphs.upright}", "rule").row()
        unlinked = [row._replace(links=()) for row in rows]
        return side_by_side(([line] * height, unlinked), DETAIL_GAP)

    def draw_status(self) -> None:
        # On a low screen the line is there only while it has a message.
        self.set_class(bool(self._host.message), "-told")
        for status in self.query("#status").results(RowView):
            status.draw()

    def _point(self, x: int, y: int, turn: int) -> bool:
        effect = self.page.point(x, y, turn, self.moment)
        self.carry_out(effect)
        return effect is not None

    def _drag(self, x: int, y: int, to: int, is_done: bool) -> bool:
        effect = self.page.drag(x, y, to, is_done, self.moment)
        self.carry_out(effect)
        return effect is not None

    def set_palette(self) -> None:
        for board in self.query(RowView):
            board.set_palette(self._host.themes.palette)

    def show(self, page: Page) -> None:
        """Replace this page by another of the same kind."""
        self.page = page
        self._sought = ""
        self._host.navigation.visited(page)
        self.draw()

    def carry_out(self, effect: Effect | None) -> None:
        if isinstance(effect, Redraw):
            if effect.from_top:
                self.board.action_first()
            self.draw()
        elif effect is not None:
            self._host.carry_out(effect)

    def action_act(self, key: str) -> None:
        if key in SORT_KEYS:
            for effect in sorted_next(self.page, self.board.rows):
                self.carry_out(effect)
        else:
            self.carry_out(self.page.on(key, self.moment))

    def action_block(self, by: int) -> None:
        if isinstance(self.page, ListPage):
            self.carry_out(self.page.go_to_block(by))
        elif not self.board.go_to_block(by):
            self.carry_out(Say("this page is one block"))

    @property
    def has_something_to_close(self) -> bool:
        # Textual also asks a screen that is being removed and may have lost its filter.
        is_open = any(each.display for each in self.query("#filter, #prompt").results(Input))
        return is_open or bool(self._sought) or self.page.has_something_to_close

    def close_innermost(self) -> None:
        """Close the prompt; else end the search; else clear and hide the filter and the page's own filters."""
        if self.query("#prompt"):
            self._answered()
            return
        if self._sought:
            self._search("")
            return
        if self.has_filter:
            self.filter.value = ""
            self.filter.display = False
            self.set_focus(self.board)
            self.refresh_bindings()
        self.carry_out(self.page.close_innermost())

    # -- from Textual --------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Focus the rows at once: `Widget.focus` would take effect only after the next keys."""
        self.set_focus(self.board)
        if self.page.begins_at is not None:
            self.call_after_refresh(self.board.select, self.page.begins_at)

    def on_resize(self) -> None:
        self._settle_detail()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was shown."""
        self._host.navigation.visited(self.page)
        self.page.entered(self.moment)
        self.set_palette()
        self.draw()

    def on_screen_suspend(self) -> None:
        """Return the focus to the list, so that keys such as `q` work when this page is shown again."""
        if isinstance(self.app.screen, PageScreen):
            if self.query("#prompt"):
                self._answered()
            elif self.is_typing:
                self.set_focus(self.board)

    def on_unmount(self) -> None:
        """Carry out what the closed page asks for, but not at the end of the program."""
        if self._host.page is not self.page:
            self.carry_out(self.page.left())

    @on(Selected)
    def _follow_selection(self, message: Selected) -> None:
        message.stop()
        target = message.target
        if isinstance(self.page, ListPage) and target is not None and target == self.board.selection.target:
            self.page.choose(target)
        self.status.draw()
        self._host.offer()
        self._settle_detail()

    @on(Opened)
    def _open_target(self, message: Opened) -> None:
        message.stop()
        if self._host.page is not self.page:
            # The first of two clicks has opened another page already.
            return
        target = message.target
        # Targets on a page about one stream are in that stream, whichever view painted them.
        self.open(target if target.stream else target._replace(stream=self.page.stream))

    def open(self, target: Target) -> None:
        if target.kind is TargetKind.HEAD:
            self.carry_out(self.page.sort_by(Sorting.of(target.name)))
        elif target.kind is TargetKind.BAR:
            self.carry_out(ShowStep(target.step))
        else:
            self.carry_out(self.page.open(target, self.moment))

    # -- the search ----------------------------------------------------------------------------------------------

    def _search(self, text: str) -> None:
        self._sought, self._match = text.strip(), None
        self.draw()
        if self._sought:
            self.action_match(0)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "match":
            return True
        is_searched = bool(self._sought) or any(each.value.strip() for each in self.query("#filter").results(Input))
        return is_searched and not self.is_typing

    def action_match(self, by: int) -> None:
        effect = self.page.seek(self._sought, by, self.moment)
        if effect is None:
            effect = self._seek_in_rows(by)
        if not by and self._match is None and isinstance(effect, Say):
            # There is no match: n and N keep their other function.
            self._sought = ""
        self.carry_out(effect)

    def _seek_in_rows(self, by: int) -> Effect:
        moment, board = self.moment, self.board
        found = matching_rows(board.rows, self._sought, lambda target: self.page.search_text(target, moment))
        if not found:
            return Say("nothing on this page matches")
        # Start from the last match unless the selection has moved since: a match may not be selectable.
        here = self._match if self._match is not None and board.here == self._left_at else board.here
        beyond = [y for y in found if (y - here) * (by or 1) >= abs(by)]
        self._match = (min(beyond) if by >= 0 else max(beyond)) if beyond else found[0 if by >= 0 else -1]
        self.draw()
        board.go_to(self._match)
        self._left_at = board.here
        return Say(f"match {found.index(self._match) + 1} of {len(found)}")

    # -- the prompt ----------------------------------------------------------------------------------------------

    async def ask(self, what: str, answered: Callable[[str], object], text: str = "") -> None:
        if not self.query("#prompt"):
            self._answer = answered
            prompt = FilterInput(value=text, name=what, id="prompt", compact=True)
            await self.mount(prompt, before=self.status)
            # At once: `Widget.focus` is deferred, and the next key would go to the list.
            self.set_focus(prompt)

    def _answered(self) -> None:
        # Until it is removed, a hidden one is nothing that Escape could close.
        self.query("#prompt").set(display=False).remove()
        self.set_focus(self.board)
        self.status.draw()

    @on(Input.Submitted, "#prompt")
    def _prompt_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self._answered()
        self._answer(message.value)

    # -- the filter ----------------------------------------------------------------------------------------------

    def _chosen(self) -> Target | None:
        return self.page.chosen if isinstance(self.page, ListPage) else None

    def _move(self, by: int) -> None:
        if isinstance(self.page, ListPage):
            effect = self.page.move(by)
            if not self._host.can_skip_drawing():
                self.carry_out(effect)

    async def find(self, text: str = "") -> None:
        """Put the cursor into the filter, or ask what to search for."""
        if not self.has_filter:
            await self.ask(self.page.search_hint, self._search, self._sought)
            return
        self.filter.display = True
        self.filter.value = text or self.filter.value
        # At once: `Widget.focus` is deferred, and the next key would go to the list.
        self.set_focus(self.filter)

    def action_to_list(self) -> None:
        self.set_focus(self.board)

    @on(Input.Changed, "#filter")
    def _filter_changed(self, message: Input.Changed) -> None:
        message.stop()
        if isinstance(self.page, ListPage):
            self.carry_out(self.page.show_only(message.value))

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.set_focus(self.board)
        # Letters are keys again, and may be named in hints.
        self.draw()


def _with_marks(rows: Sequence[Row], page: Page, moment: Moment) -> Sequence[Row]:
    if not moment.marked_metrics or Scope.MARKS not in page.where:
        return rows
    from rltop.pages.overlay import with_marks  # noqa: PLC0415 - few sessions draw several

    return with_marks(rows, moment.marked_metrics)


def sorted_next(page: Page, rows: Sequence[Row]) -> list[Effect]:
    """Sort the page's table by its next column, and say which: the table may be out of view."""
    sorting = next_sorting(heads_of(rows), page.sorting)
    effect = None if sorting is None and page.sorting is None else page.sort_by(sorting)
    if effect is None:
        return [Say("no table on this page can be sorted")]
    return [effect, Say("in the usual order" if sorting is None else f"sorted by {sorting.name}")]


def paint_status(page: Page, moment: Moment, target: Target | None, below: int, message: str, width: int) -> Row:
    """The message, else the selection; on the right the status of the run and the number of rows `below` the window."""
    keys, run = moment.keys, moment.snapshot.run
    if message:
        return RowBuilder(width, moment.glyphs).add(" ").add(clip(message, width - 2), "strong").row()
    right: list[tuple[str, str]] = [(moment.played, "cursor")] if moment.played else []
    if len(moment.runs) > 1 and not page.names_runs:
        right.append((clip_middle(run.name.display, width // 3), "strong"))
    if moment.left_out:
        right.append((left_out_text(moment.left_out, width // 2), "warn"))
    if not page.tells_counts and (skipped := skipped_text(run.counts)):
        right.append((skipped, "warn"))
    if muted := run.main.judging.muted:
        right.append((f"muted {len(muted)}{keys.clause('unmute', ': {} unmutes')}", "dim"))
    if moment.is_paused:
        right.append((f"paused{_step_text(moment)}{keys.clause('pause', ': {} resumes')}", "paused"))
    elif moment.snapshot.at_step is not None:
        right.append((f"{_step_text(moment)}{keys.clause('live', ': {} returns to live')}".strip(), "cursor"))
    if below:
        right.append((f"↓ {units.count(below)} more", "note"))
    builder = RowBuilder(width, moment.glyphs).add(" ")
    taken = sum(cell_width(text) + 3 for text, _ in right)
    if width - 2 - taken >= 8:
        cut = clip if target is not None and target.kind is TargetKind.VERDICT else clip_middle
        builder.add(cut(_named(target, moment, page.rule), width - 2 - taken), "key")
    if right:
        builder.pad_to(max(builder.column + 1, width - taken + 2))
    for i, (text, role) in enumerate(right):
        builder.add("   " if i else "").add(text, role)
    return builder.row()


def _named(target: Target | None, moment: Moment, rule: str) -> str:
    if target is not None and target.kind in (TargetKind.EVENT, TargetKind.RULE):
        return target_text(target._replace(name=rule_title(target.name)))
    if target is None or target.kind is not TargetKind.VERDICT:
        return target_text(target)
    keys, title = moment.keys, verdict_title(moment.snapshot, target)
    # On the page of an alert the key is for that one, whichever is selected.
    acknowledges = "" if rule else keys.clause("acknowledge", "{} acknowledges")
    does = ", ".join(filter(None, (keys.clause("open", "{} opens"), acknowledges)))
    return f"{title}: {does}" if does else title


def _step_text(moment: Moment) -> str:
    """The cursor's step, or the steps of its bucket if memory has downsampled it."""
    if moment.snapshot.at_step is None:
        return ""
    bucket = moment.snapshot.stream.downsampled_range(moment.snapshot.at_step)
    if bucket is None:
        return f" at step {units.step(moment.snapshot.at_step)}"
    return f" at steps {units.step(bucket[0])}–{units.step(bucket[1])}, mean"


def skipped_text(counts: Counts) -> str:
    """Counts of unreadable input in a few words; empty without any."""
    found = [(getattr(counts, name), word) for name, word in _SKIPPED if getattr(counts, name)]
    return ", ".join(f"{number:,} {word}" for number, word in found)


def left_out_text(left_out: Sequence[tuple[str, str]], width: int) -> str:
    """Which followed paths cannot be read, and why: the first by name if there is room.

    Args:
        left_out: path and reason of each; the reason is empty if the path is a sentence itself.
    """
    path, reason = left_out[0]
    more = f", and {units.count(len(left_out) - 1)} more" if len(left_out) > 1 else ""
    name = PurePath(path).name if reason else path
    text = f"not read: {Label.of(name).display}{f': {reason}' if reason else ''}{more}"
    return text if cell_width(text) <= width else f"{units.count(len(left_out))} unreadable"


_GAP = 1
"""Blanks after every part."""

_KEPT = frozenset({"back", "help", "quit"})
"""Ids shown even in the narrowest footer, because they lead to all others."""


_LAST = ("go", "pin", "grid", "settings", "theme", "where", "arrange", "meaning", "copy-value")
"""Ids shown after all others, in this order."""


class KeyHint(NamedTuple):
    """A key and what it does; keys of a group share the words, a separate hint after the last.

    Attributes:
        shown: the key as displayed; empty for words alone.
        words: what it does; empty for a key of a group.
        key: the key itself; empty for words alone.
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


FooterPart = tuple[KeyHint, ...]
"""Hints that are shown all together or not at all, without gaps."""


class KeyLine(Widget, can_focus=False):
    """A footer that omits parts that do not fit whole."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"key-line--{what}{state}" for what in ("key", "words") for state in ("", "-off", "-hover")
    }

    def __init__(self, first: Sequence[str] = ()) -> None:
        super().__init__()
        self._first = first
        self._parts: Sequence[FooterPart] = ()
        self._hovered: KeyHint | None = None

    @property
    def parts(self) -> Sequence[FooterPart]:
        # The gap after the last one need not fit.
        room = self.size.width + _GAP
        shown = []
        for number, part in sorted(enumerate(self._parts), key=lambda one: not one[1][0].is_kept):
            room -= sum(hint.cells for hint in part) + _GAP
            if room < 0:
                break
            shown.append(number)
        return [self._parts[number] for number in sorted(shown)]

    def on_mount(self) -> None:
        """Update the keys whenever the active bindings change."""
        self.screen.bindings_updated_signal.subscribe(self, self._take)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _take(self, screen: Screen[object]) -> None:
        active: Iterable[ActiveBinding] = screen.active_bindings.values()
        if isinstance(screen.focused, Input):
            # Textual excludes printable keys that are bound from the start, but not those of a keymap.
            active = [one for one in active if one.binding.priority or not types(one.binding.key)]
        absent = getattr(self.app, "absent", ())
        parts = list(self._distinguished(self._parts_of(one for one in active if one.binding.id not in absent)))
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def _parts_of(self, active: Iterable[ActiveBinding]) -> Iterator[FooterPart]:
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
                # Single characters need no separator, names do.
                between = "/" if any(cell_width(hint.shown) > 1 for hint in hints) else ""
                named = KeyHint("", f" {group.description}")
                yield (hints[0], *(hint._replace(shown=between + hint.shown) for hint in hints[1:]), named)

    def _distinguished(self, parts: Iterable[FooterPart]) -> Iterator[FooterPart]:
        """The parts with each key shown once: an action that lost its first key to the page shows its remaining one."""
        shown: set[str] = set()
        for part in parts:
            told = tuple(
                one._replace(shown=self.app.get_key_display(Binding(one.key, ""))) if one.shown in shown else one
                for one in part
            )
            shown |= {one.shown for one in told if one.key}
            yield told

    def _rank(self, one: ActiveBinding) -> int:
        """The page's own keys come first, then the global ones in its `footer`, then all others."""
        if one.node is not self.app and not one.binding.action.startswith("app."):
            return -1
        id, first = one.binding.id or "", (*getattr(self.app, "urgent", ()), *self._first)
        if id in first:
            return first.index(id)
        return len(first) + (_LAST.index(id) + 1 if id in _LAST else 0)

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
        self._hover(self._hint_at(event.x))

    def on_leave(self) -> None:
        self._hover(None)

    def _hover(self, hint: KeyHint | None) -> None:
        if hint != self._hovered:
            self._hovered = hint
            self.tooltip = hint.tooltip if hint is not None and hint.tooltip else None
            self.refresh()

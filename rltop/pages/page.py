"""Base classes of pages: state, rows and keys, independent of Textual.

`app.page_screen` shows any page. It asks for the rows whenever something may have changed, and passes on what was
pressed, with the current `Moment`. For everything beyond its own state a page returns an effect, a small value that
the application carries out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from rltop.catalog.row_sets import Arrangement
from rltop.resources import read_toml
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import KEYS, NO_KEYS, KeyNames, Scope
from rltop.rows.rows import Row, Target, TargetKind, too_small
from rltop.rows.table import Sorting
from rltop.run.preferences import RuleScope, RuleValue
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple, Struct, replace


class Moment(Struct):
    """Everything that a page needs besides its own state.

    Attributes:
        snapshot: the run, or a stream of it, at the step of the time cursor.
        left_out: followed paths that cannot be read, each with the reason.
        keys: the key bindings in effect where the page is shown.
        picked: path of the run picked from the list of runs; None until then.
        dropped: how many lost runs are no longer in the list.
        marked: paths of the runs marked for comparison, in order of marking.
        marked_metrics: metrics marked for a common chart, in order of marking.
        baseline: path of the run that the others are compared with; empty without one.
        played: note that a recording is played back; empty if a live run is followed.
        draw_chart: `app.plot_pane.paint_chart`, passed in so that pages need no plotting library.
        version: changes with everything that a page may show of the run, except the passing of time.
    """

    snapshot: Snapshot
    glyphs: Glyphs
    is_paused: bool = False
    left_out: Sequence[tuple[str, str]] = ()
    keys: KeyNames = NO_KEYS
    runs: Sequence[Run] = ()
    picked: str | None = None
    marked: Sequence[str] = ()
    marked_metrics: Sequence[Target] = ()
    baseline: str = ""
    dropped: int = 0
    played: str = ""
    draw_chart: Callable[..., Sequence[Row]] | None = None
    version: Hashable = None

    def at(self, step: int | None) -> Moment:
        """The same moment at another step of its stream; None is live."""
        return replace(self, snapshot=self.snapshot.at(step))

    def within(self, stream: str) -> Moment:
        """The same moment in another stream of the run, at the step of the same time."""
        return replace(self, snapshot=self.snapshot.within(stream))


def baseline_of(moment: Moment) -> Run | None:
    found = next((run for run in moment.runs if run.path.raw == moment.baseline), None) if moment.baseline else None
    return None if found is None or found is moment.snapshot.run else found


T = TypeVar("T")


class Open(NamedTuple):
    """Open the page of a target."""

    target: Target


class Push(NamedTuple):
    """Show another page on top of this one."""

    page: Page


class ShowStep(NamedTuple):
    """Set the time cursor to a step, on every page; None is live."""

    step: int | None


class Travel(NamedTuple):
    """Move the time cursor by records."""

    by: int


class MarkRun(NamedTuple):
    """Mark the run that is read from a path for comparison, or unmark it."""

    path: str


class Say(NamedTuple):
    """Answer a key that cannot do anything here with a sentence that says why."""

    text: str


class Redraw(NamedTuple):
    """The state of the page has changed: repaint it, scrolled to the top if `from_top`."""

    from_top: bool = False


class Mean(NamedTuple):
    """Save which metric a key is: canonical name, "" for none, None to forget the choice."""

    key: str
    metric: str | None


class Arrange(NamedTuple):
    """Save which rows the user wants to see."""

    arrangement: Arrangement


class Acknowledge(NamedTuple):
    """Acknowledge the alert of a rule until it gets worse, or undo that."""

    rule: str


class SetRule(NamedTuple):
    """Save a threshold or a mute; see `Session.set_rule`."""

    rule: str
    scope: RuleScope
    name: str
    value: RuleValue | None


class Ask(NamedTuple):
    """Ask for a line of text; what is typed goes to `Page.answer`."""

    hint: str
    text: str = ""


Effect = Acknowledge | Arrange | Ask | Open | Push | SetRule | ShowStep | Travel | MarkRun | Say | Mean | Redraw
"""What a page may ask of the application; None is nothing."""


@cache
def _help_texts() -> Mapping[str, str]:
    return read_toml(Path(__file__).with_name("help.toml"))


class Page(ABC):
    """A page about one run; its attributes are its state while it is open."""

    least: ClassVar[tuple[int, int]] = (40, 11)
    """Least width and height of the screen that the page needs."""

    where: ClassVar[Sequence[Scope]] = ()
    """Its own scopes of the key table; their keys reach `on` by id."""

    footer: ClassVar[Sequence[str]] = ()
    """Ids of the global keys that the footer shows right after the page's own."""

    details: ClassVar[frozenset[TargetKind]] = frozenset()
    """Kinds of targets that a wide screen shows next to the page while they are selected."""

    search_hint: ClassVar[str] = ""
    """Hint in the page's search field; empty if `find` searches for metrics instead."""

    tells_counts: ClassVar[bool] = False
    """Whether the page itself shows the counts of unreadable input."""

    names_runs: bool = False
    """Whether the page itself names the run, or the runs, that it shows."""

    sorting: Sorting | None = None
    """The column that its table is sorted by; None for the original order."""

    rule: str = ""
    """The rule that the page is about, or empty."""

    begins_at: Target | None = None
    """The target selected when the page opens; None is the first one."""

    def __init__(self, stream: str = "") -> None:
        self.stream = stream

    @classmethod
    def about(cls) -> str:
        """What the page shows, for the help page; `{open}` stands for the key of that action."""
        return " ".join(_help_texts()[cls.__name__].split())

    def paint(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        if width < self.least[0] or height < self.least[1]:
            return too_small(width, height, moment.glyphs, self.least)
        return self.rows(moment, width, height)

    @abstractmethod
    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The rows of the page; more than `height` are scrolled."""

    def face(self, moment: Moment) -> Hashable:
        """What the page shows that may change without a new row; equal faces need no repaint."""
        run = moment.snapshot.run
        return (
            run.state,
            run.main.state_note,
            run.main.judging.muted,
            tuple((one.rule, one.level, one.state) for one in run.verdicts),
        )

    def on(self, key: str, moment: Moment) -> Effect | None:
        return None

    def idle(self, moment: Moment) -> Set[str]:
        """Ids of keys that have no effect on what was painted last; pressed, they still say why."""
        return frozenset()

    def open(self, target: Target, moment: Moment) -> Effect | None:
        return Open(target)

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        """The pages shown next to this one, stacked, while one of its details is selected."""
        return (Open(target),)

    def search_text(self, target: Target, moment: Moment) -> str:
        """Text by which a search finds the row of a target, in addition to what is painted."""
        return target.name

    def seek(self, text: str, by: int, moment: Moment) -> Effect | None:
        """Go to another match of a search; None leaves the search to the painted rows.

        Args:
            by: 1 for the next, -1 for the one before, 0 for the first.
        """
        return None

    def sort_by(self, sorting: Sorting | None) -> Effect | None:
        self.sorting = sorting
        return Redraw()

    def point(self, x: int, y: int, turn: int, moment: Moment) -> Effect | None:
        """Handle a click on a cell, or the wheel over it; None if the page has nothing there.

        Args:
            y: row of the page, from 0.
            turn: 0 for a click, 1 for the wheel turned up, -1 for down.
        """
        return None

    @property
    def window(self) -> tuple[int, int] | None:
        """The window of steps that its charts show, both ends inclusive; None is the whole run, or no chart."""
        return None

    def drag(self, x: int, y: int, to: int, is_done: bool, moment: Moment) -> Effect | None:
        """Handle a drag of the mouse from `x` to `to`; None if the page has nothing to select there.

        Args:
            y: row of the page, from 0, where the drag began.
        """
        return None

    def show_window(self, first: int, last: int, moment: Moment) -> Effect | None:
        """Show a window of steps, both ends inclusive; None if the page has no chart.

        Args:
            first: in steps of the page's stream, as `last`.
        """
        return None

    def answer(self, text: str, moment: Moment) -> Effect | None:
        return None

    def text_to_copy(self, moment: Moment) -> str:
        """The page as text, if that is more useful than a single row; else empty."""
        return ""

    def since_step(self, moment: Moment) -> int | None:
        """The step of the main stream at which the page's subject began; None without one."""
        return None

    @property
    def has_something_to_close(self) -> bool:
        """Whether Escape closes a part of the page rather than the page."""
        return False

    def close_innermost(self) -> Effect | None:
        return None

    def entered(self, moment: Moment) -> None:
        del moment

    def left(self) -> Effect | None:
        return None


_HEADS = frozenset({TargetKind.SECTION, TargetKind.GROUP})
"""Kinds of heading lines."""


class ListPage(Page, Generic[T]):
    """A long list with a filter; only visible lines are read.

    A line chosen by the user stays selected while lines come and go; before that the selection keeps its position.
    """

    footer: ClassVar[Sequence[str]] = ("find",)
    filter_hint: ClassVar[str] = ""
    """Placeholder of the empty filter."""

    def __init__(self, stream: str = "") -> None:
        super().__init__(stream)
        self.query = ""
        self.lines: Sequence[T] = ()
        self.at = self.top = 0
        self.held: Target | None = None

    @abstractmethod
    def target(self, line: T) -> Target | None:
        """The target of a line; None if it cannot be selected."""

    def idle(self, moment: Moment) -> Set[str]:
        """In an empty list its own keys have no effect, nor has `find` unless a filter is set."""
        if self.lines:
            return frozenset()
        return {key.id for scope in self.where for key in KEYS[scope]} | (set() if self.query else {"find"})

    def place(self, held: Target) -> int | None:
        """Index of the chosen line; None if it is gone."""
        if self.at < len(self.lines) and self.target(self.lines[self.at]) == held:
            return self.at
        return next((at for at, line in enumerate(self.lines) if self.target(line) == held), None)

    def settle(self, lines: Sequence[T], room: int) -> Sequence[T]:
        self.lines = lines
        at = None if self.held is None else self.place(self.held)
        self._select(self.at if at is None else at, 1)
        if self.held is not None and at is None:
            self.held = self.chosen
        # Selecting the first selectable line scrolls the headings above it into view.
        top = self.top if any(self.target(line) is not None for line in islice(lines, self.at)) else 0
        self.top = max(0, min(max(self.at - room + 1, min(top, self.at)), len(lines) - room))
        return lines[self.top : self.top + room]

    def _select(self, at: int, direction: int) -> None:
        self.at = at = max(0, min(at, len(self.lines) - 1))
        after, before = range(at, len(self.lines)), range(min(at, len(self.lines) - 1), -1, -1)
        for number in chain(after, before) if direction > 0 else chain(before, after):
            if self.target(self.lines[number]) is not None:
                self.at = number
                return

    @property
    def chosen(self) -> Target | None:
        return self.target(self.lines[self.at]) if self.at < len(self.lines) else None

    def choose(self, target: Target) -> None:
        # A line that is selected by position is not held: another may take its position.
        if target != self.chosen:
            self.held = target

    def move(self, by: int) -> Effect | None:
        """Choose the line `by` lines away, or the closest one that can be selected."""
        if self.lines:
            self._select(self.at + by, by)
            self.held = self.chosen
        return Redraw()

    def go_to_block(self, by: int) -> Effect:
        """Go to the next section of the list (1) or the previous one (-1), wrapping around; say if there is none."""
        heads = [at for at, line in enumerate(self.lines) if (target := self.target(line)) and target.kind in _HEADS]
        others = [at for at in heads if (at - self.at) * by > 0]
        if not heads or heads == [self.at]:
            return Say("this list has no blocks")
        to = (min if by > 0 else max)(others) if others else heads[0 if by > 0 else -1]
        return self.move(to - self.at) or Redraw()

    def seek(self, text: str, by: int, moment: Moment) -> Effect | None:
        before = self.at
        effect = self.move(by)
        return effect if self.at != before else Say(f"no match {'below' if by > 0 else 'above'} this line")

    def show_only(self, text: str) -> Effect | None:
        """Filter the list and select the first match; clearing the filter keeps the selection."""
        self.query, self.held = text, self.chosen
        if text.strip():
            self.held, self.at = None, 0
        return Redraw()

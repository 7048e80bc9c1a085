"""What a page is: its state, its rows and its keys; nothing of it knows Textual.

`app.page_screen` shows any of them. A page is asked for its rows whenever something may have changed, and is told what
was pressed, with the `Moment` that the screens show. What it wants done beyond itself it answers as an effect, a small
value that the application carries out.
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
    """Everything that a page needs besides its own target.

    Attributes:
        snapshot: the run, or a stream of it, at the step of the time cursor.
        left_out: paths that belong to what is followed and cannot be read, each with the reason.
        keys: the keys as they are now, where the page is shown.
        picked: path of the run that was picked from their list; None until one was.
        marked: paths of the runs that are compared, in the order in which they were marked.
        marked_metrics: those that are drawn in one chart, in the order in which they were marked.
        baseline: path of the run with which the others are compared; empty where there is none.
        played: says that a recording is played back, so that nothing is newest; empty where a run is followed.
        draw_chart: whoever draws charts, `app.plot_pane.paint_chart`: no page knows a library for it.
        version: moves with everything that a page may show of the run, time aside.
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
    played: str = ""
    draw_chart: Callable[..., Sequence[Row]] | None = None
    version: Hashable = None

    def at(self, step: int | None) -> Moment:
        """The same moment at another step of its stream, read anew; None follows the newest one."""
        return replace(self, snapshot=self.snapshot.at(step))

    def within(self, stream: str) -> Moment:
        """The same moment in another stream of the run, at the step of the same time."""
        return replace(self, snapshot=self.snapshot.within(stream))


def baseline_of(moment: Moment) -> Run | None:
    found = next((run for run in moment.runs if run.path.raw == moment.baseline), None) if moment.baseline else None
    return None if found is None or found is moment.snapshot.run else found


T = TypeVar("T")


class Open(NamedTuple):
    """Go to the page that a target stands for."""

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
    """The state of the page has changed: paint it, from its first row if so."""

    from_top: bool = False


class Mean(NamedTuple):
    """Keep that a key is a metric: canonical name, "" for none, None to forget what was said."""

    key: str
    metric: str | None


class Arrange(NamedTuple):
    """Keep which rows a person wants to see."""

    arrangement: Arrangement


class Acknowledge(NamedTuple):
    """Quiet the alert of a rule until it gets worse, or take that back."""

    rule: str


class SetRule(NamedTuple):
    """Keep a threshold or a mute; as of `Session.set_rule`."""

    rule: str
    scope: RuleScope
    name: str
    value: RuleValue | None


class Ask(NamedTuple):
    """Ask for a line of text; what is typed goes to `Page.answer`."""

    hint: str
    text: str = ""


Effect = Acknowledge | Arrange | Ask | Open | Push | SetRule | ShowStep | Travel | MarkRun | Say | Mean | Redraw
"""What a page wants of the application; None where a page is asked is nothing."""


@cache
def _help_texts() -> Mapping[str, str]:
    return read_toml(Path(__file__).with_name("help.toml"))


class Page(ABC):
    """A page about one run; its attributes are what stays while it is open."""

    least: ClassVar[tuple[int, int]] = (40, 12)
    """Cells and rows without which nothing can be shown truthfully."""

    where: ClassVar[Sequence[Scope]] = ()
    """The keys of its own, groups of the key table; each reaches `on` by its id."""

    footer: ClassVar[Sequence[str]] = ()
    """Ids of the keys that work everywhere which the footer shows first, behind the page's own."""

    details: ClassVar[frozenset[TargetKind]] = frozenset()
    """What a wide screen shows beside the page while it is selected."""

    search_hint: ClassVar[str] = ""
    """What a search of the page is for; empty where `find` looks for metrics instead."""

    tells_counts: ClassVar[bool] = False
    """Whether the page itself says what was not understood."""

    names_runs: bool = False
    """Whether the page itself names the run, or the runs, that it shows."""

    sorting: Sorting | None = None
    """By which head its table is sorted; None as the rows come."""

    rule: str = ""
    """The rule that the page is about, if it is about one."""

    begins_at: Target | None = None
    """What is selected when the page opens; None is the first there is."""

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
        """The page of the run and the step that are shown; more rows than `height` are scrolled."""

    def face(self, moment: Moment) -> Hashable:
        """What the page shows that changes with time alone; equal faces need no repaint."""
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
        """Ids of keys that lead to nothing on what was painted last; they answer all the same."""
        return frozenset()

    def open(self, target: Target, moment: Moment) -> Effect | None:
        return Open(target)

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        """The pages that are shown beside this one while one of its details is selected, one below the other."""
        return (Open(target),)

    def found_by(self, target: Target, moment: Moment) -> str:
        """What a search finds a row by that leads to a target, beside what is painted of it."""
        return target.name

    def seek(self, text: str, by: int, moment: Moment) -> Effect | None:
        """Go to another match of a search; None has it looked for in the rows.

        Args:
            by: 1 for the next, -1 for the one before, 0 for the first.
        """
        return None

    def sort_by(self, sorting: Sorting | None) -> Effect | None:
        self.sorting = sorting
        return Redraw()

    def point(self, x: int, y: int, turn: int, moment: Moment) -> Effect | None:
        """A cell was clicked, or the wheel turned over it; None where the page has nothing to point at there.

        Args:
            y: row from the first one of the page.
            turn: 0 for a click, 1 for the wheel turned up, -1 for down.
        """
        return None

    @property
    def window(self) -> tuple[int, int] | None:
        """The stretch of steps that its charts show, both ends inside; None is the whole run, or no chart."""
        return None

    def drag(self, x: int, y: int, to: int, is_done: bool, moment: Moment) -> Effect | None:
        """The mouse was moved with its button down; None where the page has nothing to mark there.

        Args:
            y: row from the first one of the page where it did.
        """
        return None

    def show_window(self, first: int, last: int, moment: Moment) -> Effect | None:
        """Show a stretch of steps, both ends inside; None where the page has no chart.

        Args:
            first: of the stream of the page.
        """
        return None

    def answer(self, text: str, moment: Moment) -> Effect | None:
        return None

    def text_to_copy(self, moment: Moment) -> str:
        """The page as text, where it is worth more than one of its rows; else empty."""
        return ""

    def since_step(self, moment: Moment) -> int | None:
        """Where that which the page is about began, in the main stream; None where that is no step."""
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
"""Lines that others stand below."""


class ListPage(Page, Generic[T]):
    """A long list of which only what is in sight is read, with a filter above it.

    What a person has chosen is held on to while lines come and go; until then the line stays selected that stands
    where the selection is.
    """

    footer: ClassVar[Sequence[str]] = ("find",)
    filter_hint: ClassVar[str] = ""
    """What the empty filter says."""

    def __init__(self, stream: str = "") -> None:
        super().__init__(stream)
        self.query = ""
        self.lines: Sequence[T] = ()
        self.at = self.top = 0
        self.held: Target | None = None

    @abstractmethod
    def target(self, line: T) -> Target | None:
        """What a line leads to; None where it cannot be selected."""

    def idle(self, moment: Moment) -> Set[str]:
        """An empty list has no use for its keys, nor for a filter that does not stand."""
        if self.lines:
            return frozenset()
        return {key.id for scope in self.where for key in KEYS[scope]} | (set() if self.query else {"find"})

    def place(self, held: Target) -> int | None:
        """Where the line stands that was chosen; None where there is none any more."""
        if self.at < len(self.lines) and self.target(self.lines[self.at]) == held:
            return self.at
        return next((at for at, line in enumerate(self.lines) if self.target(line) == held), None)

    def settle(self, lines: Sequence[T], room: int) -> Sequence[T]:
        self.lines = lines
        at = None if self.held is None else self.place(self.held)
        self._select(self.at if at is None else at, 1)
        if self.held is not None and at is None:
            self.held = self.chosen
        # The first line that can be selected brings what stands above it into view.
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
        # What is selected by where it stands is not held on to: another may come to stand there.
        if target != self.chosen:
            self.held = target

    def move(self, by: int) -> Effect | None:
        """Choose the line that lies `by` lines away, or the last one on the way."""
        if self.lines:
            self._select(self.at + by, by)
            self.held = self.chosen
        return Redraw()

    def go_to_block(self, by: int) -> Effect:
        """Go to the next section of the list (1) or the one before (-1), around its ends; say where there is none."""
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
        """Show what matches, the first of it selected; a filter that is cleared leaves the selection."""
        self.query, self.held = text, self.chosen
        if text.strip():
            self.held, self.at = None, 0
        return Redraw()

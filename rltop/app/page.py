"""What every screen is: rows in a board, a status line, a footer.

Owns when a page is painted anew; what it paints is its subclass's. Only the
active page is painted, and only when there is something new to see.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.getters import query_one
from textual.screen import Screen
from textual.types import CSSPathType

from rltop.app.bindings import key_names
from rltop.app.board import Board
from rltop.app.key_line import KeyLine
from rltop.app.messages import Opened, Selected
from rltop.app.moment import Moment
from rltop.app.status import paint_status
from rltop.app.textual_shim import update_by_cells
from rltop.pages.header import ROOMY_ROWS
from rltop.rows.keys import KeyNames
from rltop.rows.rows import Row, Target

if TYPE_CHECKING:
    from rltop.app.app import RltopApp


class Page(Screen[None]):
    """A screen painted from one run."""

    # Textual looks for a relative path beside the module of the subclass.
    CSS_PATH: ClassVar[CSSPathType | None] = Path(__file__).with_name("page.tcss")
    VERTICAL_BREAKPOINTS = [(0, "-low"), (ROOMY_ROWS, "-roomy")]  # noqa: RUF012
    HELP = ""
    """What the page shows, for the help screen; `{open}` stands for the key of that action."""

    FOOTER: ClassVar[Sequence[str]] = ()
    """Ids of the application's bindings that the footer shows first, behind the page's own."""

    TELLS_COUNTS: ClassVar[bool] = False
    """Whether the page itself says what was not understood."""

    board = query_one("#board", Board)
    status = query_one("#status", Board)

    def __init__(self, stream: str = "") -> None:
        """A page about one stream of the run; "" is the main one."""
        super().__init__()
        self.stream = stream
        self._keys: dict[bool, KeyNames] = {}
        update_by_cells(self)

    @property
    def moment(self) -> Moment:
        """What is shown, in the stream that the page is about."""
        return self.rltop.moment.within(self.stream)

    @property
    def rltop(self) -> RltopApp:
        """The application, by its own type."""
        return cast("RltopApp", self.app)

    @property
    def is_typing(self) -> bool:
        """Whether the keys go into a text field."""
        return self.focused is not None and self.focused.id == "filter"

    @property
    def keys(self) -> KeyNames:
        """The keys as they are on this page now."""
        is_typing = self.is_typing
        if is_typing not in self._keys:
            own = [one for one in self.BINDINGS if isinstance(one, Binding)]
            self._keys[is_typing] = key_names(self.rltop.options.keymap, own, is_typing=is_typing)
        return self._keys[is_typing]

    @abstractmethod
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Paint the page for the run and the step that the application shows."""

    def compose(self) -> ComposeResult:
        """A board over everything that the chrome leaves."""
        yield Board(self.rltop.palette, self.rows, id="board")
        yield from self.chrome()

    def chrome(self) -> ComposeResult:
        """Status line and footer."""
        status = Board(self.rltop.palette, self._status_rows, id="status")
        status.can_focus = False
        yield status
        yield KeyLine(self.FOOTER)

    def _status_rows(self, width: int, height: int) -> Sequence[Row]:
        board, has_counts = self.board, not self.TELLS_COUNTS
        board.settle()
        row = paint_status(self.rltop.moment, board.target, width, self.keys, has_counts=has_counts, below=board.below)
        # With nothing to say the line is left as it is: at first the early frame may have said something there.
        return [row][:height] if any(text.strip() for text, _ in row.line) else []

    def face(self) -> Hashable:
        """What the page shows that changes with time alone; equal faces need no new picture."""
        run = self.rltop.moment.run
        return run.state, run.state_note, run.muted, tuple((one.rule, one.level, one.state) for one in run.verdicts)

    def draw(self) -> None:
        """Paint with what is known now; only what changed goes to the terminal."""
        for board in self.query(Board):
            board.draw()

    def set_palette(self) -> None:
        """Draw in the application's present theme."""
        for board in self.query(Board):
            board.set_palette(self.rltop.palette)

    def open(self, target: Target) -> None:
        """Go to what was selected; a page may keep some targets to itself."""
        self.rltop.open(target)

    @property
    def has_something_to_close(self) -> bool:
        """Whether Escape closes a part of the page rather than the page."""
        return False

    def close_something(self) -> None:
        """Close that part."""

    def on_mount(self) -> None:
        """Give the keys to the board, at once: `Widget.focus` would do it after the next keys."""
        self.set_focus(self.board)

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was shown."""
        self.set_palette()
        self.draw()

    @on(Selected)
    def _follow_selection(self, message: Selected) -> None:
        message.stop()
        self.status.draw()
        self.rltop.offer()

    @on(Opened)
    def _open_target(self, message: Opened) -> None:
        message.stop()
        target = message.target
        # What a page about one stream leads to is in that stream, whichever view painted it.
        self.open(target if target.stream else target._replace(stream=self.stream))

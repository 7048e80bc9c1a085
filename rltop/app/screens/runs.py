"""All runs that are followed, what needs attention first; Enter shows one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual import on

from rltop.app.filtered import FilteredPage
from rltop.app.messages import Selected
from rltop.pages.runs import HEAD_ROWS, RunEntry, list_runs, paint_runs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.run.snapshot import Snapshot


class RunsScreen(FilteredPage):
    """The switcher between runs."""

    PLACEHOLDER = "part of a name, a path, a trainer, a state or a verdict"
    TELLS_COUNTS: ClassVar[bool] = True
    HELP = (
        "Every run that is followed: its trainer, its step, whether it is alive, and the worst that fires. What needs "
        "attention comes first: what died, the worst level, what has fallen silent, what goes on. {open} shows a "
        "run, {find} filters, {runs} goes back to the run that was shown."
    )

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[RunEntry] = []
        self._query = ""
        self._chosen: str | None = None
        self._at = 0
        self._top = 0

    def on_screen_resume(self) -> None:
        """Begin at the run that was picked before; until one is, what comes first is chosen, whichever that is."""
        self._chosen = self.rltop.picked
        super().on_screen_resume()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The runs around the chosen one."""
        runs = self.rltop.session.runs
        self._entries = list_runs(map(Snapshot, runs), self._query)
        self._settle()
        room = max(1, height - HEAD_ROWS)
        self._top = max(0, min(max(self._at - room + 1, min(self._top, self._at)), len(self._entries) - room))
        shown = self.rltop.followed.path.raw
        glyphs = self.rltop.moment.glyphs
        return paint_runs(self._entries, width, height, glyphs, top=self._top, total=len(runs), shown=shown)

    def face(self) -> Hashable:
        """What changes with time alone: states, ages and silence."""
        return tuple((one.path.raw, one.state, one.age_s and one.age_s // 5, one.level) for one in self._now())

    def _now(self) -> list[RunEntry]:
        return list_runs(map(Snapshot, self.rltop.session.runs), self._query)

    def _settle(self) -> None:
        """Find the chosen run again, wherever it stands now."""
        places = {one.path.raw: i for i, one in enumerate(self._entries)}
        self._at = 0 if self._chosen is None else places.get(self._chosen, self._at)
        self._at = max(0, min(self._at, len(self._entries) - 1))

    def move(self, by: int) -> None:
        """Choose the run that lies `by` lines away."""
        if self._entries:
            self._at = max(0, min(self._at + by, len(self._entries) - 1))
            self._chosen = self._entries[self._at].path.raw
            self.draw()

    def draw(self) -> None:
        """Paint, and light up the chosen run."""
        super().draw()
        if self._entries:
            self.board.select(Target(TargetKind.RUN, self._entries[self._at].path.raw))

    def show_only(self, text: str) -> None:
        """Show the runs with this text, the first of them chosen."""
        self._query = text
        if text.strip():
            self._chosen, self._at = None, 0
        self.draw()

    @on(Selected)
    def _remember(self, message: Selected) -> None:
        """A click has chosen another run."""
        target = message.target
        here = self._entries[self._at].path.raw if self._entries else ""
        # What was chosen by where it stands is not held on to: another may come to stand there.
        if target is not None and target == self.board.target and target.name != here:
            self._chosen = target.name

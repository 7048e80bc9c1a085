"""Every metric that is logged: by section and group, or whatever matches what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from rltop.app.bindings import TREE_BINDINGS
from rltop.app.filtered import FilteredPage
from rltop.app.messages import Selected
from rltop.pages.metrics import (
    TreeIndex,
    TreeKey,
    TreeLine,
    build_tree,
    index_tree,
    layout_tree,
    paint_tree,
    section_names,
)
from rltop.rows.rows import Row, Target, TargetKind

_TITLE_ROWS = 1

_Line = TreeLine | TreeKey


class TreeScreen(FilteredPage):
    """All metrics, with a filter above them."""

    BINDINGS: ClassVar[list[BindingType]] = [*TREE_BINDINGS]
    PLACEHOLDER = "part of a key"
    HELP = (
        "Every key of the run, by section and group, with its newest value, its change against the baseline and its "
        "history. {find} filters by any part of a key, a title or a canonical name, as you type; {back} clears the "
        "filter. {fold} folds a section, {unfold} unfolds it, {open} opens a metric."
    )

    def __init__(self, section: str = "") -> None:
        super().__init__()
        self._index: TreeIndex | None = None
        self._lines: list[_Line] = []
        self._query = ""
        self._folded: frozenset[str] = frozenset()
        self._chosen: Target | None = Target(TargetKind.SECTION, section) if section else None
        self._at = 0
        self._top = 0

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The lines around the selected one; the others are not even read."""
        moment = self.rltop.moment
        snapshot = moment.snapshot
        if self._index is None or not self._index.is_for(snapshot):
            known = self._index.rank_sections if self._index is not None else frozenset()
            self._index = index_tree(snapshot)
            self._folded |= self._index.rank_sections - known
        self._lay_out(self._index)
        room = max(1, height - _TITLE_ROWS)
        # The first line that can be selected brings what stands above it into view.
        self._top = max(self._at - room + 1, min(self._top, self._at if self._at > 1 else 0))
        self._top = max(0, min(self._top, len(self._lines) - room))
        view = build_tree(
            snapshot,
            self._index,
            query=self._query,
            folded=self._folded,
            top=self._top,
            height=room,
            width=width,
        )
        return paint_tree(view, width, height, moment.glyphs)

    def _lay_out(self, index: TreeIndex) -> None:
        """Lay out all lines, and find the chosen one among them again."""
        self._lines, _ = layout_tree(index, self._query, self._folded)
        places = {_target(line): i for i, line in enumerate(self._lines) if _target(line) is not None}
        self._at = places.get(self._chosen, max(0, min(self._at, len(self._lines) - 1)))
        self._settle(1)

    def _settle(self, direction: int) -> None:
        """Make sure that the chosen line can be selected: groups cannot."""
        order = (*range(self._at, len(self._lines)), *range(self._at, -1, -1))
        if direction < 0:
            order = (*range(self._at, -1, -1), *range(self._at, len(self._lines)))
        for i in order:
            if i < len(self._lines) and _target(self._lines[i]) is not None:
                self._at = i
                break
        self._chosen = _target(self._lines[self._at]) if self._lines else None

    def move(self, by: int) -> None:
        """Choose the line that lies `by` lines away, or the last one on the way."""
        if not self._lines:
            return
        self._at = max(0, min(self._at + by, len(self._lines) - 1))
        self._settle(by)
        self.draw()

    def draw(self) -> None:
        """Paint, and light up the chosen line."""
        super().draw()
        if self._chosen is not None:
            self.board.select(self._chosen)

    def open(self, target: Target) -> None:
        """Fold or unfold a section; go to anything else."""
        if target.kind is TargetKind.SECTION:
            self._set_folded(target.name, target.name not in self._folded)
        else:
            super().open(target)

    def action_fold(self, is_folded: bool) -> None:
        """Fold or unfold the section of the chosen line."""
        if self._lines:
            self._set_folded(self._lines[self._at].section, is_folded)

    def action_fold_all(self) -> None:
        """Fold every section, or unfold them if all are folded."""
        names = frozenset(section_names(self._index)) if self._index is not None else frozenset()
        self._folded = frozenset() if self._folded >= names else names
        if self._folded and self._lines:
            self._chosen = Target(TargetKind.SECTION, self._lines[self._at].section)
        self.draw()

    def _set_folded(self, section: str, is_folded: bool) -> None:
        self._folded = self._folded | {section} if is_folded else self._folded - {section}
        if is_folded:
            self._chosen = Target(TargetKind.SECTION, section)
        self.draw()

    def show_only(self, text: str) -> None:
        """Show what matches, with the first match chosen."""
        self._query = text
        self._lines = layout_tree(self._index, self._query, self._folded)[0] if self._index is not None else []
        if self._query.strip():
            self._chosen = next((_target(line) for line in self._lines if isinstance(line, TreeKey)), None)
        self.draw()

    @on(Selected)
    def _remember(self, message: Selected) -> None:
        """A click has chosen another line."""
        if message.target is not None and message.target == self.board.target:
            self._chosen = message.target


def _target(line: _Line) -> Target | None:
    """What a line leads to, without reading its metric; a group leads nowhere."""
    if isinstance(line, TreeKey):
        return Target(TargetKind.METRIC, line.key, stream=line.stream)
    return Target(TargetKind.SECTION, line.section) if line.kind == "section" else None

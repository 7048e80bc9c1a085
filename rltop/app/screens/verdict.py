"""One verdict: what, since when, on which numbers, why it matters, what to look at next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rltop.app.page import Page
from rltop.pages.verdict import LEAST, build_verdict, paint_verdict
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot


class VerdictScreen(Page):
    """What a rule has to say, and where it points."""

    FOOTER: ClassVar[Sequence[str]] = ("alerts", "mute", "change")
    HELP = (
        "One verdict: its sentence, the numbers it rests on, since which step, why it matters and what usually causes "
        "it; below, what to look at next, in order: {open} opens it. {alerts} goes to the next verdict, "
        "{mute} mutes the rule."
    )

    def __init__(self, rule: str, step: int | None = None, stream: str = "") -> None:
        """The page of `rule`, at the step of the time cursor or else at `step`."""
        super().__init__(stream)
        self.rule = rule
        self._step = step

    def show(self, rule: str, stream: str = "") -> None:
        """Show another verdict on the same page."""
        self.rule, self.stream, self._step = rule, stream, None
        self.draw()

    @property
    def since_step(self) -> int | None:
        """Where the verdict began, or None if it does not stand at the step that is shown."""
        found = self._snapshot.verdicts.standing
        return next((verdict.since_step for verdict in found if verdict.rule == self.rule and not verdict.stream), None)

    @property
    def _snapshot(self) -> Snapshot:
        snapshot = self.moment.snapshot
        return snapshot.at(self._step) if snapshot.at_step is None else snapshot

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The page of this verdict; the board scrolls."""
        moment = self.moment
        view = build_verdict(self._snapshot, self.rule, width=width)
        is_small = width < LEAST[0] or height < LEAST[1]
        return paint_verdict(view, width, height if is_small else None, moment.glyphs, self.keys)

"""From the groups of a step to the completions of a group to the text of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from rltop.app.bindings import ROLLOUT_BINDINGS
from rltop.app.page import Page
from rltop.model.completions import TextPlace
from rltop.pages.completions import (
    CompletionOrder,
    CompletionsView,
    CompletionView,
    build_completions,
    paint_completion,
    paint_completions,
    place_of,
)
from rltop.pages.rollouts import LEAST, GroupOrder, RolloutsView, build_rollouts, paint_rollouts
from rltop.rows.rows import Row, Target, TargetKind

LOW_ROWS = 16
"""Below so many rows the list is worth more than what is said above it."""
_ORDERS = list(GroupOrder)
_COMPLETION_ORDERS = list(CompletionOrder)


class RolloutPage(Page):
    """A page about completions; its neighbours are a key away."""

    BINDINGS: ClassVar[list[BindingType]] = [*ROLLOUT_BINDINGS]

    def rollouts(self, order: GroupOrder = GroupOrder.RATIO) -> RolloutsView:
        """The step on the screen; what is not known yet has been asked for."""
        return build_rollouts(self.rltop.moment.snapshot, order)

    def face(self) -> Hashable:
        """What came from the dump since the page was painted."""
        shelf = self.rltop.moment.run.rollouts
        return super().face(), None if shelf is None else shelf.version

    @abstractmethod
    def action_neighbour(self, by: int) -> None:
        """Show the next one of what the page is about."""

    def action_order(self) -> None:
        """Sort by the next of what the page can be sorted by."""

    @staticmethod
    def fits(width: int, height: int) -> bool:
        """Whether there is room for a page at all."""
        return width >= LEAST[0] and height >= LEAST[1]


class RolloutsScreen(RolloutPage):
    """The groups of a step."""

    HELP = (
        "The completions of the step on the screen, one row per prompt: how long the longest answer is against the "
        "median of its group (the others wait for it), how uneven the lengths are (Gini), the rewards and their "
        "spread, how many answers were cut off or discarded. A sign in front means: more uneven than one group in "
        "twenty of an ordinary task. {open} opens a group, {previous} and {next} go to the steps before and after "
        "that the dump has, {order} sorts by something else. Lengths are tokens where the dump has them, else "
        "characters."
    )

    def __init__(self) -> None:
        super().__init__()
        self._order = GroupOrder.RATIO

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The groups of the step that is shown; the board scrolls."""
        limit = None if self.fits(width, height) else height
        view = self.rollouts(self._order)
        return paint_rollouts(view, width, limit, self.rltop.moment.glyphs, is_low=height < LOW_ROWS)

    def open(self, target: Target) -> None:
        """A group opens its completions."""
        if target.kind is TargetKind.GROUP:
            self.rltop.push_screen(CompletionsScreen(target.name, self._order))
        else:
            super().open(target)

    def action_neighbour(self, by: int) -> None:
        """Go to another step of the dump; from its last one on, live."""
        view = self.rollouts(self._order)
        if view.state is None or view.step is None:
            return
        if view.state.stream and any(part.role == view.state.stream for part in self.rltop.followed.beside):
            # The dump counts in steps of another stream than the time cursor.
            self.rltop.action_travel(by)
            return
        steps = view.state.steps
        at = steps.index(view.step) + by
        if 0 <= at < len(steps):
            self.rltop.show_step(steps[at])

    def action_order(self) -> None:
        """Sort by the next column."""
        self._order = _ORDERS[(_ORDERS.index(self._order) + 1) % len(_ORDERS)]
        self.draw()


class CompletionsScreen(RolloutPage):
    """The completions of a group."""

    HELP = (
        "The answers to one prompt: length with a bar (a sign in front and the colour of a warning where it was cut "
        "off), reward, advantage, why it ended, turns, tool calls, how many updates its policy was behind, and how it "
        "begins. {open} opens the text, {previous} and {next} go to the other groups of the step, {order} sorts by "
        "reward or advantage instead of length."
    )

    def __init__(self, group: str, order: GroupOrder = GroupOrder.RATIO) -> None:
        super().__init__()
        self._group = group
        self._group_order = order
        self._order = CompletionOrder.LENGTH

    def view(self) -> CompletionsView:
        """The group on the page; of a step that has none of its name, the first."""
        return build_completions(self.rollouts(self._group_order), self._group, self._order)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The completions; the board scrolls."""
        limit = None if self.fits(width, height) else height
        return paint_completions(self.view(), width, limit, self.rltop.moment.glyphs, is_low=height < LOW_ROWS)

    def open(self, target: Target) -> None:
        """A completion opens its text."""
        if target.kind is TargetKind.COMPLETION:
            view = self.view()
            name = view.group.name if view.group is not None else self._group
            self.rltop.push_screen(CompletionScreen(name, place_of(target.name), self._group_order, self._order))
        else:
            super().open(target)

    def action_neighbour(self, by: int) -> None:
        """Go to the next group in the order of the list."""
        view = self.view()
        at = view.rank + by
        if 0 <= at < len(view.rollouts.groups):
            self._group = view.rollouts.groups[at].name
            self.draw()

    def action_order(self) -> None:
        """Sort by the next column."""
        at = _COMPLETION_ORDERS.index(self._order) + 1
        self._order = _COMPLETION_ORDERS[at % len(_COMPLETION_ORDERS)]
        self.draw()


class CompletionScreen(RolloutPage):
    """The text of a completion."""

    HELP = (
        "What the prompt was and what the policy answered, with its own line breaks; characters that would not be "
        "seen are written out. {up}, {down} and {page-down} scroll, {previous} and {next} go to the other completions "
        "of the group."
    )

    def __init__(
        self, group: str, place: TextPlace, group_order: GroupOrder = GroupOrder.RATIO,
        order: CompletionOrder = CompletionOrder.LENGTH,
    ) -> None:  # fmt: skip
        super().__init__()
        self._group = group
        self._place = place
        self._group_order = group_order
        self._order = order
        self._painted: tuple[Hashable, Sequence[Row]] = (None, ())

    def _list(self) -> CompletionsView:
        return build_completions(self.rollouts(self._group_order), self._group, self._order)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The text broken into lines; anew only where something of it is another."""
        moment = self.rltop.moment
        group = self._list()
        found = group.find(self._place)
        shelf = moment.run.rollouts
        if not self.fits(width, height) or found is None or shelf is None:
            return paint_completions(group, width, height, moment.glyphs)
        rank, completion = found
        text = shelf.text(completion)
        view = CompletionView(group, rank, completion, text)
        key = (width, moment.glyphs.name, group.rollouts.step, group.rollouts.shelved, rank, completion, id(text))
        # Whether it is the same is asked by identity where equality would compare every completion of the step.
        known = (*key[:3], id(key[3]), *key[4:])
        if self._painted[0] != known:
            self._painted = (known, paint_completion(view, width, moment.glyphs))
        return self._painted[1]

    def action_neighbour(self, by: int) -> None:
        """Go to the next completion of the group, from its beginning."""
        group = self._list()
        found = group.find(self._place)
        at = -1 if found is None else found[0] + by
        if 0 <= at < len(group.completions) and group.completions[at].places:
            self._place = group.completions[at].places[0]
            self.board.action_first()
            self.draw()

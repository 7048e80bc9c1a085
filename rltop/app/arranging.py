"""What a person says of keys on the screen: what they mean, and which rows they get."""

from __future__ import annotations

from rltop.app.routes import Routes
from rltop.model import Label
from rltop.pages.metric import MetricPage
from rltop.pages.page import Arrange, Ask, Effect, Mean
from rltop.rows.rows import TargetKind


class Arranging(Routes):
    """An application that keeps what is said of keys."""

    def carry_out(self, effect: Effect) -> None:
        """Do what a page wants."""
        match effect:
            case Mean(key, metric):
                self._mean(key, metric)
            case Arrange():
                self._arrange(effect)
            case Ask(hint, text):
                shown = self.shown
                if shown is not None:
                    self.call_later(
                        shown.ask, hint, lambda said: shown.carry_out(shown.page.answer(said, shown.moment)), text
                    )
            case _:
                super().carry_out(effect)

    @property
    def key_at_hand(self) -> tuple[str, str]:
        """The key of the metric on the page, or of the one that is selected, and its stream; else empty."""
        shown = self.shown
        if shown is None:
            return "", ""
        if isinstance(shown.page, MetricPage):
            return shown.page.key, shown.page.stream
        target = shown.board.target if shown.is_mounted else None
        return (target.name, target.stream) if target is not None and target.kind is TargetKind.METRIC else ("", "")

    def action_meaning(self) -> None:
        """Say which metric the key at hand is."""
        key, stream = self.key_at_hand
        if key and self.session.may_mean(self.followed):
            from rltop.pages.arrange import MeaningPage  # noqa: PLC0415 - rarely opened

            self.push(MeaningPage(key, stream))

    def _mean(self, key: str, metric: str | None) -> None:
        """Keep what a key is, and show the run as it is read anew."""
        try:
            self.session.mean(self.followed, key, metric)
        except OSError as error:
            self.notify(f"cannot be kept: {error.strerror or error}", severity="error")
            return
        self.pop_screen()
        self.draw()

    def action_pin(self) -> None:
        """Pin the metric at hand to the top of the overview, or unpin it."""
        key, before = self.key_at_hand[0], self.followed.arrangement
        if not key:
            self.tell("no metric is selected: select one to pin it")
        elif before.is_full and key not in before.pinned:
            self.tell(f"{len(before.pinned)} metrics are pinned already")
        elif self._arrange(Arrange(before.with_pin_toggled(key))):
            is_pinned = key in self.followed.arrangement.pinned
            self.tell(f"{'pinned to the top of the overview' if is_pinned else 'no longer pinned'}: {Label.of(key)}")

    def action_arrange(self) -> None:
        """Show which rows the overview has, to order, name and hide them; once more, go back."""
        from rltop.pages.arrange import ArrangePage  # noqa: PLC0415 - rarely opened

        if isinstance(self.page, ArrangePage):
            self.pop_screen()
        else:
            self.push(ArrangePage())

    def _arrange(self, wanted: Arrange) -> bool:
        """Keep which rows there are, and show them; where they cannot be kept say why."""
        try:
            self.session.arrange(self.followed, wanted.arrangement)
        except OSError as error:
            self.tell(f"cannot be kept: {error.strerror or error}")
            return False
        self.draw()
        return True

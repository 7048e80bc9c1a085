"""The command palette: metrics, verdicts, themes and actions by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content

from rltop import units
from rltop.app.bindings import APP_BINDINGS
from rltop.model import Label, VerdictState
from rltop.rows.rows import Target, TargetKind
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.app.app import RltopApp

DISCOVERED_METRICS = 12
"""How many metrics are offered before anything is typed."""

_NOT_OFFERED = frozenset({"palette", "live-end", "interrupt", "suspend"})


class RltopPalette(CommandPalette):
    """The palette without signs that not every terminal can draw."""

    DEFAULT_CSS = """
    RltopPalette.-ascii #--input, RltopPalette.-ascii #--input.--list-visible {
        border: ascii $primary;
    }
    RltopPalette.-ascii CommandList {
        border: ascii $primary;
        border-top: none;
        scrollbar-size: 0 0;
    }
    """

    def __init__(self, *, is_ascii: bool) -> None:
        placeholder = "metric, verdict, theme or action"
        super().__init__(placeholder=placeholder, id="--command-palette", classes="-ascii" if is_ascii else None)

    def on_mount(self) -> None:
        """A prompt that is one cell wide everywhere."""
        self.query_one(SearchIcon).icon = ">"


class _Command(NamedTuple):
    text: str
    help: str
    run: Callable[[], object]


class RltopCommands(Provider):
    """Everything that has a name: typed, or picked from what is offered first."""

    @property
    def _rltop(self) -> RltopApp:
        return cast("RltopApp", self.app)

    async def discover(self) -> Hits:
        """What fires, what can be done, the themes, and the first metrics."""
        metrics = list(self._metrics())[:DISCOVERED_METRICS]
        for command in (*self._verdicts(), *self._actions(), *self._themes(), *metrics):
            yield DiscoveryHit(Content(command.text), command.run, text=command.text, help=command.help)

    async def search(self, query: str) -> Hits:
        """Whatever matches what was typed."""
        matcher = self.matcher(query)
        for command in (*self._verdicts(), *self._actions(), *self._themes(), *self._runs(), *self._metrics()):
            score = matcher.match(command.text)
            if score > 0:
                yield Hit(score, matcher.highlight(command.text), command.run, text=command.text, help=command.help)

    def _verdicts(self) -> Iterator[_Command]:
        for verdict in self._rltop.shown_verdicts:
            how = verdict.level.word
            if verdict.state is VerdictState.RECOVERED and verdict.recovered_step is not None:
                how = f"recovered @{units.step(verdict.recovered_step)}"
            text = f"verdict: {verdict.title} ({how}, rule {verdict.rule})"
            yield self._opening(text, verdict.headline, Target(TargetKind.VERDICT, verdict.rule, stream=verdict.stream))

    def _metrics(self) -> Iterator[_Command]:
        run = self._rltop.followed
        for part in run.streams:
            titles = {}
            if part.identity is not None:
                found = part.identity.signals.values()
                titles = {signal.key: signal.metric.title for signals in found for signal in signals}
            whose = f"{part.role} " if part.role else ""
            for key in sorted(part.stream.keys, key=lambda key: key not in titles):
                target = Target(TargetKind.METRIC, key, stream=part.role)
                yield self._opening(f"metric: {whose}{Label.of(key)}", titles.get(key, ""), target)

    def _runs(self) -> Iterator[_Command]:
        runs = self._rltop.session.runs
        for run in runs if len(runs) > 1 else ():
            target = Target(TargetKind.RUN, run.path.raw)
            yield self._opening(f"run: {run.name} ({run.state.value})", run.path.raw, target)

    def _themes(self) -> Iterator[_Command]:
        for name in self._rltop.theme_names:
            is_worn = " (now)" if name == self._rltop.palette.name else ""
            yield _Command(f"theme: {Label.of(name)}{is_worn}", "", partial(self._rltop.dress_in, name))

    def _actions(self) -> Iterator[_Command]:
        for binding in APP_BINDINGS:
            if binding.id not in _NOT_OFFERED:
                yield _Command(binding.tooltip, "", partial(self._rltop.run_action, binding.action))

    def _opening(self, text: str, help: str, target: Target) -> _Command:
        speak = self._rltop.moment.glyphs.speak
        text, help = speak(Label.of(text).display), speak(Label.of(help).display)
        return _Command(text, help, partial(self._rltop.open, target))

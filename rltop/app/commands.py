"""The command palette: metrics, verdicts, themes and actions by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from typing import cast

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import Static

from rltop import units
from rltop.model import Label, VerdictState
from rltop.pages.metrics import ALERTING
from rltop.pages.page import Moment, Open
from rltop.pages.signals import narrowest_signals
from rltop.pages.verdict import DOORS, rule_titles
from rltop.regex import regex
from rltop.rows.keys import Scope
from rltop.rows.rows import Target, TargetKind
from rltop.run.snapshot import Snapshot
from rltop.screen.bindings import BINDINGS
from rltop.settings import SETTINGS
from rltop.structs import NamedTuple

MOST_ELSEWHERE = 2_000
"""Most metrics of other runs that are searched."""

_METRIC = "metric: "
_PLACE = regex(r"\s*(?:step )?([+-]?\d{1,15}(?:-\d{1,15})?)\s*")

DISCOVERED_METRICS = 12
"""Number of metrics offered before anything is typed."""

_NOT_OFFERED = frozenset({"palette", "live-end", "interrupt", "suspend", "overlay"})
"""Of no use from the palette, or offered there in other words."""


class RltopPalette(CommandPalette):
    """The palette without characters that some terminals cannot draw."""

    DEFAULT_CSS = """
    RltopPalette #keys {
        dock: bottom;
        height: 1;
        padding: 0 0;
        background: $surface;
        color: $text-muted;
    }
    RltopPalette.-ascii #--input, RltopPalette.-ascii #--input.--list-visible {
        border: ascii $primary;
    }
    RltopPalette.-ascii CommandList {
        border: ascii $primary;
        border-top: none;
        max-height: 65vh;
        scrollbar-size: 0 0;
    }
    """

    def __init__(self, provider: type[Provider], *, is_ascii: bool) -> None:
        super().__init__(
            [provider],
            placeholder="metric, alert, theme or action",
            id="--command-palette",
            classes="-ascii" if is_ascii else None,
        )

    def compose(self) -> ComposeResult:
        """The palette, with its own keys in place of the page's, which are typed text while it is open."""
        yield from super().compose()
        run, close = (self.app.get_key_display(Binding(key, "")) for key in ("enter", "escape"))
        arrows = "up/down" if self.has_class("-ascii") else "↑↓"
        yield Static(f"{run} Run  {arrows} Choose  {close} Close", id="keys", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ignore keys for the list until it has been laid out: Textual fails on them before."""
        return action != "command_list" or bool(self.query_one(CommandList).scrollable_content_region)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close the palette only once: a second click outside may arrive before the first is handled."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = ">"


class SetTheme(NamedTuple):
    name: str


class KeyAction(NamedTuple):
    """Run the action of a key, in Textual's notation."""

    action: str


class OpenIn(NamedTuple):
    """Switch to another run and open a target of it."""

    path: str
    target: Target


class PaletteEntry(NamedTuple):
    text: str
    help: str
    does: Open | SetTheme | KeyAction | OpenIn
    is_offered: bool = True


def commands(moment: Moment, own: Sequence[Scope], themes: Sequence[str], theme: str) -> Iterator[PaletteEntry]:
    """All commands: alerts, actions (first those of the page's `own` keys), themes, runs, metrics, settings, rules."""
    yield from _verdicts(moment)
    for key in (key for scope in (*own, Scope.EVERYWHERE) for key in BINDINGS[scope]):
        if key.id not in _NOT_OFFERED:
            yield PaletteEntry(key.tooltip, moment.keys.clause(key.id or "", "key {}"), KeyAction(key.action))
    if len(moment.marked) > 1:
        yield PaletteEntry("Compare the marked runs", "", KeyAction("compare"))
    what = f"the {len(moment.marked)} marked runs" if len(moment.marked) > 1 else "this run"
    where = "the step and window that are shown, in the current directory"
    for text, help, action in (
        ("Draw several metrics in one chart", moment.keys.clause("overlay", "key {}"), "overlay"),
        ("List the metrics that have an alert", f"filter {ALERTING} of all metrics", f"find({ALERTING!r})"),
        ("step to reach: progress, time left (eta), arrival", "type :target …", "go('target ')"),
        ("limit: when the job is stopped, for example after 24h", "type :until …", "go('until ')"),
        ("Show the path of the config file", "settings, keys, rules, themes", "tell_config"),
        ("Copy the command that opens this run", "", "copy_command"),
        (f"Write a report of {what}", f"an HTML page of {where}", "report"),
        ("Write the data that is shown as CSV", f"a chart's values, else the metrics: {where}", "report('.csv')"),
    ):
        yield PaletteEntry(text, help, KeyAction(action))
    for name in themes:
        yield PaletteEntry(f"theme: {Label.of(name)}{' (current)' if name == theme else ''}", "", SetTheme(name))
    for run in moment.runs if len(moment.runs) > 1 else ():
        target = Target(TargetKind.RUN, run.path.raw)
        yield _opening(moment, f"run: {run.name} ({run.state.value})", run.path.raw, target, is_offered=False)
    for chain, words in DOORS.items():
        target = Target(TargetKind.SYMPTOM, chain)
        yield _opening(moment, f"symptom: {words}", "what the numbers of this run say", target, is_offered=False)
    if moment.snapshot.source.ranks is not None or moment.snapshot.part.memo.numbered():
        words = "ranks: which rank, GPU or agent is slow, or far from the others"
        yield _opening(moment, words, "by stage, and by keys that differ by a number alone", Target(TargetKind.RANKS))
    yield from _metrics(moment)
    yield from _metrics_elsewhere(moment)
    for setting in SETTINGS:
        what, tell = Label.of(setting.help).display, KeyAction(f"tell_setting({setting.name!r})")
        yield PaletteEntry(f"setting: {setting.name}", what, tell, is_offered=False)
    for rule, title in rule_titles():
        target, what = Target(TargetKind.VERDICT, rule), "what it says of this run; set thresholds, mute"
        yield _opening(moment, f"rule: {rule} {title}, thresholds", what, target, is_offered=False)


def _metrics_elsewhere(moment: Moment) -> Iterator[PaletteEntry]:
    left = MOST_ELSEWHERE
    for run in moment.runs:
        if run is moment.snapshot.run:
            continue
        for key in islice(run.main.stream.keys, left):
            target, left = Target(TargetKind.METRIC, key), left - 1
            text = moment.glyphs.to_ascii(f"metric: {Label.of(key)} of {run.name}")
            yield PaletteEntry(text, "", OpenIn(run.path.raw, target), is_offered=False)


def place_typed(query: str) -> PaletteEntry | None:
    match = _PLACE.fullmatch(query)
    if match is None:
        return None
    return PaletteEntry(f"Go to {match[1]}", "a step, or a window of a chart", KeyAction(f"go_to({match[1]!r})"))


def _verdicts(moment: Moment) -> Iterator[PaletteEntry]:
    for verdict in moment.snapshot.standing:
        how = verdict.level.word
        if verdict.state is VerdictState.RECOVERED and verdict.recovered_step is not None:
            how = f"recovered @{units.step(verdict.recovered_step)}"
        text = f"alert: {verdict.title} ({how}, rule {verdict.rule})"
        target = Target(TargetKind.VERDICT, verdict.rule, stream=verdict.stream)
        yield _opening(moment, text, verdict.headline, target)
        if not verdict.stream:
            words = f"Set thresholds, mute or acknowledge: {verdict.title} ({verdict.rule})"
            yield _opening(moment, words, "its condition and thresholds", Target(TargetKind.RULE, verdict.raised_by))


def _metrics(moment: Moment) -> Iterator[PaletteEntry]:
    number = count()
    for part in Snapshot(moment.snapshot.run).streams:
        titles = {key: signal.metric.title for key, signal in narrowest_signals(part).items()}
        whose = f"{part.role} " if part.role else ""
        for key in sorted(part.stream.keys, key=lambda key: key not in titles):
            target = Target(TargetKind.METRIC, key, stream=part.role)
            title, is_offered = titles.get(key, ""), next(number) < DISCOVERED_METRICS
            text = f"{_METRIC}{whose}{Label.of(key)}" + (f", {title}" if title and title != key else "")
            yield _opening(moment, text, title, target, is_offered=is_offered)


def _opening(moment: Moment, text: str, help: str, target: Target, *, is_offered: bool = True) -> PaletteEntry:
    to_ascii = moment.glyphs.to_ascii
    return PaletteEntry(to_ascii(Label.of(text).display), to_ascii(Label.of(help).display), Open(target), is_offered)


def rank(query: str, text: str, fuzzy: float) -> float:
    """Score of a name for a query, by tier: it begins with it, a word begins with it, it contains it, a fuzzy match.

    Args:
        text: the name, preceded by its kind and a colon.
        fuzzy: score of the fuzzy match, 0 without one, else below 1.

    Returns:
        0 without a match, else up to 4: by tier, then by the share of the name that was typed.
    """
    typed, whole = query.casefold().strip(), text.casefold()
    name = whole.partition(": ")[2] or whole
    if not typed or not fuzzy:
        return 0.0
    # Metrics match by key and by title.
    names = [name, *name.split(", ")] if whole.startswith(_METRIC) else [name]
    share = min(1.0, len(typed) / max(1, len(name)))
    begun = [one for one in names if one.startswith(typed)]
    if begun:
        if whole.startswith("symptom: ") and not name[len(typed) : len(typed) + 1].isalnum():
            # A whole word of a symptom ranks above names that only begin with the query.
            return 3.95
        # Settings rank last.
        return (1.0 if whole.startswith("setting: ") else 3.0) + len(typed) / max(1, min(map(len, begun)))
    if whole.startswith(typed):
        return 3.0 + share
    if any(word.startswith(typed) for word in _WORDS.split(whole)):
        return 2.0 + share
    return 1.0 + share if typed in whole else min(fuzzy, 1.0) / 2


_WORDS = regex(r"[\W_]+")


def _found(matcher: Matcher, text: str) -> Content:
    """A text with the typed letters highlighted; `Matcher.highlight` would parse brackets as markup."""
    content = Content(text)
    for at in matcher.fuzzy_search.match(matcher.query, text)[1]:
        content = content.stylize(matcher.match_style, at, at + 1)
    return content


def _verbatim(help: str) -> str:
    """A help text shown verbatim: Textual parses `str` as markup, but accepts `Content` although it does not say so."""
    return cast("str", Content(help))


def provider_of(offer: Callable[[], Iterable[PaletteEntry]], pick: Callable[[PaletteEntry], object]) -> type[Provider]:
    class Commands(Provider):
        """All commands, offered at first or found by typing."""

        async def discover(self) -> Hits:
            """The commands offered before anything is typed."""
            for one in offer():
                if one.is_offered:
                    yield DiscoveryHit(Content(one.text), partial(pick, one), text=one.text, help=_verbatim(one.help))

        async def search(self, query: str) -> Hits:
            matcher = self.matcher(query)
            typed = place_typed(query)
            if typed is not None:
                yield Hit(10.0, Content(typed.text), partial(pick, typed), text=typed.text, help=typed.help)
            ranked = [(rank(query, one.text, matcher.match(one.text)), one) for one in offer()]
            # Scattered letters count as a match only if there is no better one.
            least = 1.0 if any(score >= 1.0 for score, _ in ranked) else 0.0
            for score, one in ranked:
                if score > least or score == least > 0:
                    yield Hit(
                        score, _found(matcher, one.text), partial(pick, one), text=one.text, help=_verbatim(one.help)
                    )

    return Commands

"""Every key of the program, once, as data; and how a sentence speaks of a key.

Footer, status line, help, palette and `docs/keys.md` are made from this table, and an id
is what a keymap names. Which keys an action has under a keymap is found out in
`app.bindings`, and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rltop.structs import Struct


class Where(enum.Enum):
    """Where keys apply, in the order in which help and docs list them."""

    EVERYWHERE = "Everywhere"
    LIST = "In a list or a table"
    CHART = "On a metric's chart"
    METRICS = "In the list of all metrics"
    TIMELINE = "In the timeline"
    RUNS = "In the list of runs"
    ROLLOUTS = "On the pages of rollouts"
    FILTER = "In a filter"


class Key(NamedTuple):
    """One row of the table.

    Attributes:
        id: what a keymap and a page call it.
        keys: comma separated, in Textual's spelling.
        footer: what the footer says.
        tooltip: what it does, in full.
        action: what is done, as Textual spells it with arguments; empty where it is the id.
        is_shown: it stands in the footer.
        shown_as: how the footer spells the key, where not as it is called.
        group: what the footer says behind neighbours of one purpose.
        comes_first: the key is looked at before the list and the filter get it.
    """

    id: str
    keys: str
    footer: str
    tooltip: str
    action: str = ""
    is_shown: bool = False
    shown_as: str = ""
    group: str = ""
    comes_first: bool = False


KEYS: Mapping[Where, tuple[Key, ...]] = MappingProxyType(
    {
        Where.EVERYWHERE: (
            Key("back", "escape", "Back", "Go back to where you came from", is_shown=True, shown_as="Esc"),
            Key(
                "help", "question_mark,f1", "Help", "What this screen shows, and every key", is_shown=True, shown_as="?"
            ),
            Key("quit", "q", "Quit", "End the program", is_shown=True),
            Key("live", "L", "Live", "Return from a past step or a pause to what is happening now", is_shown=True),
            Key("live-end", "end", "Live", "The same, while a past step is shown", action="live", comes_first=True),
            Key(
                "step-back",
                "comma",
                "Step",
                "Show the step before, on every screen",
                action="travel(-1)",
                is_shown=True,
                group="Step",
            ),
            Key(
                "step-on",
                "full_stop",
                "Step",
                "Show the step after, on every screen",
                action="travel(1)",
                is_shown=True,
                group="Step",
            ),
            Key("leap-back", "less_than_sign", "10 back", "Go ten steps back", action="travel(-10)"),
            Key("leap-on", "greater_than_sign", "10 on", "Go ten steps on", action="travel(10)"),
            Key("pause", "space", "Pause", "Freeze the picture; reading goes on", is_shown=True, shown_as="Spc"),
            Key(
                "find",
                "slash",
                "Find",
                "Find a metric by a part of its key; on a page with a filter, filter",
                is_shown=True,
                shown_as="/",
                comes_first=True,
            ),
            Key("alerts", "a", "Alerts", "Open the worst verdict; again: the next one", is_shown=True),
            Key(
                "timeline",
                "e",
                "Events",
                "Every event of the run on the step axis",
                action="show('timeline')",
                is_shown=True,
            ),
            Key(
                "change", "c", "Changed", "What changed around the step on the screen, or the verdict's", is_shown=True
            ),
            Key(
                "mute",
                "x",
                "Mute",
                "Mute the rule of the verdict on the page or under the cursor, or undo it",
                is_shown=True,
            ),
            Key("unmute", "X", "Unmute", "Show the verdicts of every rule that was muted again"),
            Key("timing", "t", "Timing", "Where the time of a step goes", action="show('timing')", is_shown=True),
            Key("rollouts", "R", "Rollouts", "Rollouts: the completions of the step on the screen, by group"),
            Key(
                "metrics",
                "m",
                "All",
                "Every metric that is logged, by section",
                action="show('metrics')",
                is_shown=True,
            ),
            Key("runs", "r", "Runs", "Every run that is followed, what needs attention first", is_shown=True),
            Key(
                "palette",
                "ctrl+p",
                "Palette",
                "Find a metric, a verdict, a theme or an action by name",
                action="command_palette",
                is_shown=True,
            ),
            Key("theme", "T", "Theme", "Switch to the next theme", action="next_theme", is_shown=True),
            Key("suspend", "ctrl+z", "Suspend", "Back to the shell; fg returns", action="suspend_process"),
            Key("interrupt", "ctrl+c,ctrl+q", "Quit", "End the program from anywhere", action="quit", comes_first=True),
        ),
        Where.LIST: (
            Key("up", "up,k", "Up", "Select the row above", shown_as="↑"),
            Key("down", "down,j", "Down", "Select the row below", shown_as="↓"),
            Key("left", "left,h", "Left", "Select what is to the left", shown_as="←"),
            Key("right", "right,l", "Right", "Select what is to the right", shown_as="→"),
            Key("page-up", "pageup,ctrl+b", "Page up", "Go one screenful up", action="page(-1)", shown_as="PgUp"),
            Key(
                "page-down", "pagedown,ctrl+f", "Page down", "Go one screenful down", action="page(1)", shown_as="PgDn"
            ),
            Key("first", "home,g", "First", "Go to the first row"),
            Key("last", "end,G", "Last", "Go to the last row"),
            Key("open", "enter", "Open", "Open what is selected", is_shown=True, shown_as="⏎"),
        ),
        Where.CHART: (
            Key("log", "l", "Log", "Logarithmic or linear values", is_shown=True),
            Key("smooth", "s", "Smooth", "Show the smoothed curve or leave it out", is_shown=True),
            Key(
                "band",
                "b",
                "Band",
                "Show the extremes or the spread around the values, or leave them out",
                is_shown=True,
            ),
            Key(
                "zoom-in",
                "plus,equals_sign",
                "Zoom",
                "Show half as many steps",
                is_shown=True,
                shown_as="+",
                group="Zoom",
            ),
            Key("zoom-out", "minus", "Zoom", "Show twice as many steps", is_shown=True, shown_as="-", group="Zoom"),
            Key("pan-left", "left,h", "Earlier", "Move to earlier steps"),
            Key("pan-right", "right", "Later", "Move to later steps"),
            Key("reset", "0", "Whole run", "Show the whole run again", is_shown=True),
        ),
        Where.METRICS: (
            Key("fold", "left,h", "Fold", "Fold the section that is selected"),
            Key("unfold", "right,l", "Unfold", "Unfold the section that is selected"),
            Key("fold-all", "z", "Fold all", "Fold every section, or unfold them", is_shown=True),
        ),
        Where.TIMELINE: (
            Key("family", "f", "Family", "Show one family of events after the other, then all", is_shown=True),
            Key("level", "v", "Level", "Leave out events below a level, one level after the other", is_shown=True),
        ),
        Where.RUNS: (
            Key(
                "sort",
                "o",
                "Sort",
                "Sort by one column after the other, then what needs attention first",
                is_shown=True,
            ),
        ),
        Where.ROLLOUTS: (
            Key(
                "previous", "left,h,p", "Previous", "The step, group or completion before", is_shown=True, group="Next"
            ),
            Key("next", "right,l,n", "Next", "The step, group or completion after", is_shown=True, group="Next"),
            Key("order", "o", "Order", "Sort by something else: ratio, longest, reward ...", is_shown=True),
        ),
        Where.FILTER: (Key("to-list", "down", "List", "From the filter into the list", action="to_list"),),
    }
)
"""The table: one row for each key. A page's own keys reach it by their ids, see `pages.page.Page.on`."""

NO_KEY = "no key"
"""What stands for the key of an action that has none: "no key opens it" is true, and a sentence."""


class KeyNames(Struct):
    """Action → its keys as a person reads them, the one to name first; an action without a key has none."""

    names: Mapping[str, Sequence[str]]

    def every(self, action: str) -> Sequence[str]:
        """All keys of an action."""
        return self.names.get(action, ())

    def clause(self, action: str, text: str) -> str:
        """`text` with the key for its "{}"; empty where there is no key to speak of."""
        return text.format(self.every(action)[0]) if self.every(action) else ""

    def tell(self, text: str) -> str:
        """`text` with the key of each action that it names in braces: "{open} opens it"."""
        return text.format_map({action: keys[0] if keys else NO_KEY for action, keys in self.names.items()})


NO_KEYS = KeyNames(MappingProxyType({}))
"""Where nobody can press any: sentences leave out what they would say of them."""

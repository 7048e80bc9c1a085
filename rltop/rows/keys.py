"""Every key of the program, once, as data; and how a sentence speaks of a key.

Footer, status line, help, palette and `docs/keys.md` are made from this table, and an id
is what a keymap names. Which keys an action has under a keymap is found out in
`app.bindings`, and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rltop.structs import NamedTuple, Struct


class Scope(enum.Enum):
    """Where keys apply, in the order in which help and docs list them."""

    EVERYWHERE = "Everywhere"
    LIST = "In a list or a table"
    CHART = "On a metric's chart"
    AXES = "On every chart"
    MARKS = "Where metrics are listed"
    OVERLAY = "Where metrics are listed or drawn"
    GRID = "On the page of charts"
    METRICS = "In the list of metrics"
    ROWS = "On the page of rows"
    TIMELINE = "In the timeline"
    TABLE = "In a table that can be sorted"
    RUNS = "In the list of runs"
    COMPARE = "Where runs are compared"
    ROLLOUTS = "On the pages of rollouts"
    LOG = "In the console log"
    MATCHES = "While a search or a filter stands"
    FILTER = "In a filter"


class Key(NamedTuple):
    """One row of the table.

    Attributes:
        action: what is done, as Textual spells it with arguments; empty where it is the id.
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


KEYS: Mapping[Scope, tuple[Key, ...]] = MappingProxyType(
    {
        Scope.EVERYWHERE: (
            Key(
                "back",
                "escape,q",
                "Back",
                "Go back to the previous page; from the first one q quits",
                is_shown=True,
                shown_as="Esc",
            ),
            Key("help", "question_mark,f1", "Help", "What this page shows, and every key", is_shown=True, shown_as="?"),
            Key("quit", "q", "Quit", "Quit", is_shown=True),
            Key("live", "L", "Live", "Return to live from a past step or a pause", is_shown=True),
            Key(
                "live-end", "end", "Live", "Return to live, while a past step is shown", action="live", comes_first=True
            ),
            Key(
                "step-back",
                "comma",
                "Step",
                "Show the previous step, on every page",
                action="travel(-1)",
                is_shown=True,
                group="Step",
            ),
            Key(
                "step-on",
                "full_stop",
                "Step",
                "Show the next step, on every page",
                action="travel(1)",
                is_shown=True,
                group="Step",
            ),
            Key("leap-back", "less_than_sign", "10 back", "Go back ten steps", action="travel(-10)"),
            Key("leap-on", "greater_than_sign", "10 forward", "Go forward ten steps", action="travel(10)"),
            Key(
                "go",
                "colon",
                "Go to",
                "Go to a step (1200, +50) or a window; target 500; until 24h",
                is_shown=True,
                shown_as=":",
            ),
            Key("event-after", "n", "Next event", "Go to the next event of WARN or worse", action="event(1)"),
            Key("event-before", "N", "Previous event", "Go to the previous event of WARN or worse", action="event(-1)"),
            Key(
                "page-before",
                "alt+left,ctrl+o",
                "Page before",
                "Show the page that was shown before",
                action="visit(-1)",
            ),
            Key(
                "page-after",
                "alt+right",
                "Page after",
                "Show the page that was shown after this one",
                action="visit(1)",
            ),
            Key(
                "pause",
                "ctrl+s",
                "Pause",
                "Pause the display (reading continues)",
                is_shown=True,
            ),
            Key(
                "find",
                "slash",
                "Find",
                "Filter or search the page; elsewhere, find a metric",
                is_shown=True,
                shown_as="/",
                comes_first=True,
            ),
            Key("alerts", "a", "Alerts", "Open the worst alert; press again for the next one", is_shown=True),
            Key(
                "timeline",
                "e",
                "Events",
                "All events of the run, on a step axis",
                action="show('timeline')",
                is_shown=True,
            ),
            Key("change", "c", "Changed", "What changed around this step, or where the alert began", is_shown=True),
            Key(
                "acknowledge",
                "x",
                "Ack",
                "Quiet the open or selected alert until it gets worse, or undo",
                is_shown=True,
            ),
            Key("mute", "ctrl+x", "Mute", "Mute the rule of this alert for this run, or unmute it"),
            Key("unmute", "X", "Unmute", "Unmute all rules for this run"),
            Key("meaning", "M", "Meaning", "Say which metric the selected key is, or confirm a guess", is_shown=True),
            Key("pin", "p", "Pin", "Pin the selected metric to the top of the overview, or unpin", is_shown=True),
            Key("arrange", "P", "Rows", "Order, name and hide the rows of the overview", is_shown=True),
            Key("details", "vertical_line", "Detail", "On a wide screen, show what is selected beside lists, or not"),
            Key("copy-value", "y", "Copy", "Copy the selected value, alert or path to the clipboard", is_shown=True),
            Key("copy-row", "Y", "Copy row", "Copy the selected row as text; of an alert, its page"),
            Key(
                "timing",
                "t",
                "Timing",
                "Where the step time goes, stage by stage",
                action="show('timing')",
                is_shown=True,
            ),
            Key(
                "flow",
                "F",
                "Flow",
                "Who waits for whom in an asynchronous run",
                action="show('flow')",
                is_shown=True,
            ),
            Key(
                "where",
                "W",
                "Where",
                "Where the job is: open phase, ranks, engines, devices, logs",
                action="show('where')",
                is_shown=True,
            ),
            Key("rollouts", "R", "Rollouts", "Rollouts: the completions of this step, by group", is_shown=True),
            Key(
                "metrics",
                "m",
                "All",
                "All logged metrics, by section",
                action="show('metrics')",
                is_shown=True,
            ),
            Key("console", "O", "Log", "Console log: its newest lines, with errors marked", is_shown=True),
            Key("grid", "v", "Charts", "The metrics of the overview as charts, on one page", is_shown=True),
            Key("settings", "S", "Settings", "What the run was started with", action="show('settings')", is_shown=True),
            Key("runs", "r", "Runs", "All runs, those that need attention first", is_shown=True),
            Key(
                "palette",
                "ctrl+p",
                "Palette",
                "Find a metric, an alert, a theme or an action by name",
                action="command_palette",
                is_shown=True,
            ),
            Key("theme", "T", "Theme", "Switch to the next theme", action="next_theme", is_shown=True),
            Key("suspend", "ctrl+z", "Suspend", "Suspend to the shell (fg resumes)", action="suspend_process"),
            Key("interrupt", "ctrl+c,ctrl+q", "Quit", "Quit from anywhere", action="quit", comes_first=True),
        ),
        Scope.LIST: (
            Key("up", "up,k", "Up", "Select the row above", shown_as="↑"),
            Key("down", "down,j", "Down", "Select the row below", shown_as="↓"),
            Key("left", "left,h", "Left", "Select the item to the left", shown_as="←"),
            Key("right", "right,l", "Right", "Select the item to the right", shown_as="→"),
            Key("page-up", "pageup,ctrl+b", "Page up", "Scroll up one page", action="page(-1)", shown_as="PgUp"),
            Key("page-down", "pagedown,ctrl+f", "Page down", "Scroll down one page", action="page(1)", shown_as="PgDn"),
            Key("first", "home,g", "First", "Go to the first row"),
            Key("last", "end,G", "Last", "Go to the last row"),
            Key(
                "block-after",
                "tab",
                "Block",
                "Go to the next block of the page",
                action="screen.block(1)",
                shown_as="Tab",
            ),
            Key(
                "block-before", "shift+tab", "Block", "Go to the previous block of the page", action="screen.block(-1)"
            ),
            Key("open", "enter", "Open", "Open the selected item", is_shown=True, shown_as="⏎"),
        ),
        Scope.CHART: (
            Key("log", "l", "Log", "Switch between logarithmic and linear scale", is_shown=True),
            Key("smooth", "s", "Smooth", "Show or hide the smoothed curve", is_shown=True),
            Key(
                "band",
                "b",
                "Band",
                "Show or hide the min/max or spread band",
                is_shown=True,
            ),
            Key(
                "zoom-in",
                "plus,equals_sign",
                "Zoom",
                "Zoom in: half as many steps",
                is_shown=True,
                shown_as="+",
                group="Zoom",
            ),
            Key(
                "zoom-out", "minus", "Zoom", "Zoom out: twice as many steps", is_shown=True, shown_as="-", group="Zoom"
            ),
            Key("pan-left", "left,h,shift+left", "Earlier", "Pan to earlier steps"),
            Key("pan-right", "right,shift+right", "Later", "Pan to later steps"),
            Key("reset", "0", "Whole run", "Show the whole run", is_shown=True),
            Key("lock", "f", "Lock", "Lock the range of values, or let it follow the values"),
            Key("smooth-less", "left_square_bracket", "Smoother", "Smooth over fewer records"),
            Key("smooth-more", "right_square_bracket", "Smoother", "Smooth over more records"),
        ),
        Scope.AXES: (
            Key("axis", "A", "Axis", "Draw by step, time, tokens, samples, epoch or wall time", is_shown=True),
            Key("log-x", "ctrl+l", "Log x", "Switch the x axis between logarithmic and linear scale"),
        ),
        Scope.MARKS: (
            Key(
                "mark-metric",
                "space",
                "Mark",
                "Mark the selected metric to draw it with others, or unmark it",
                action="app.mark_metric",
                is_shown=True,
                shown_as="Spc",
            ),
        ),
        Scope.OVERLAY: (
            Key(
                "overlay",
                "o",
                "Overlay",
                "Draw the marked metrics, or those you name, in one chart",
                action="app.overlay",
                is_shown=True,
            ),
        ),
        Scope.GRID: (
            Key(
                "charts-before",
                "left,h,left_square_bracket",
                "Charts",
                "Show the previous charts",
                is_shown=True,
                shown_as="[",
                group="Charts",
            ),
            Key(
                "charts-after",
                "right,l,right_square_bracket",
                "Charts",
                "Show the next charts",
                is_shown=True,
                shown_as="]",
                group="Charts",
            ),
            Key(
                "more-charts",
                "plus,equals_sign",
                "Columns",
                "One chart more beside each other",
                is_shown=True,
                shown_as="+",
                group="Columns",
            ),
            Key(
                "fewer-charts",
                "minus",
                "Columns",
                "One chart fewer beside each other",
                is_shown=True,
                shown_as="-",
                group="Columns",
            ),
            Key("chart-rows", "w", "Rows", "Cycle how many charts are below each other", is_shown=True),
            Key("whole", "0", "Whole run", "Show the whole run in every chart"),
        ),
        Scope.METRICS: (
            Key("fold", "left,h", "Fold", "Fold the selected section"),
            Key("unfold", "right,l", "Unfold", "Unfold the selected section"),
            Key("fold-all", "z", "Fold all", "Fold or unfold all sections", is_shown=True),
        ),
        Scope.ROWS: (
            Key("row-up", "K,shift+up", "Move", "Move a pinned row up", is_shown=True, group="Move"),
            Key("row-down", "J,shift+down", "Move", "Move a pinned row down", is_shown=True, group="Move"),
            Key("hide", "H", "Hide", "Hide the selected row, or show it again", is_shown=True),
        ),
        Scope.TIMELINE: (
            Key("family", "f", "Family", "Cycle the family filter", is_shown=True),
            Key("level", "v", "Level", "Cycle the minimum level", is_shown=True),
        ),
        Scope.TABLE: (
            Key(
                "sort",
                "s",
                "Sort",
                "Cycle the sort column",
                is_shown=True,
            ),
        ),
        Scope.RUNS: (
            Key("mark", "space", "Mark", "Mark the run for comparison, or unmark it", is_shown=True, shown_as="Spc"),
            Key(
                "compare",
                "o",
                "Compare",
                "Compare the marked runs, or all of a few",
                is_shown=True,
            ),
        ),
        Scope.COMPARE: (
            Key("metric-before", "left", "Metric", "Compare the previous metric", is_shown=True, group="Metric"),
            Key("metric-after", "right", "Metric", "Compare the next metric", is_shown=True, group="Metric"),
            Key("align", "A", "Axis", "Align by step, time since the start, or tokens", is_shown=True),
            Key("baseline", "b", "Baseline", "Compare the others with the next run", is_shown=True),
        ),
        Scope.ROLLOUTS: (
            Key("previous", "left,h", "Previous", "Previous step, group or completion", is_shown=True, group="Next"),
            Key("next", "right,l", "Next", "Next step, group or completion", is_shown=True, group="Next"),
            Key("order", "s", "Order", "Cycle the sort column: ratio, longest, reward …", is_shown=True),
        ),
        Scope.LOG: (
            Key("error-after", "right_square_bracket", "Error", "Go to the next error", is_shown=True, group="Error"),
            Key(
                "error-before", "left_square_bracket", "Error", "Go to the previous error", is_shown=True, group="Error"
            ),
            Key("log-step", "s", "Step", "Go to the line that names the step on the screen", is_shown=True),
            Key("log-file", "f", "File", "Show the next file that may be the console log", is_shown=True),
        ),
        Scope.MATCHES: (
            Key(
                "match-after",
                "n",
                "Match",
                "Go to the next match",
                action="match(1)",
                is_shown=True,
                group="Match",
                comes_first=True,
            ),
            Key(
                "match-before",
                "N",
                "Match",
                "Go to the previous match",
                action="match(-1)",
                is_shown=True,
                group="Match",
                comes_first=True,
            ),
        ),
        Scope.FILTER: (Key("to-list", "down", "List", "Go from the filter to the list", action="to_list"),),
    }
)
"""The table: one row for each key. A page's own keys reach it by their ids, see `pages.page.Page.on`."""

SORT_KEYS = ("sort", "order")
"""Ids of the keys that sort the table of a page by its next head."""

NO_KEY = "no key"
"""What stands for the key of an action that has none: "no key opens it" is true, and a sentence."""


class KeyNames(Struct):
    """Action → its keys as a person reads them, the one to name first; an action without a key has none."""

    names: Mapping[str, Sequence[str]]

    def every(self, action: str) -> Sequence[str]:
        return self.names.get(action, ())

    def clause(self, action: str, text: str) -> str:
        """`text` with the key for its "{}"; empty where there is no key to speak of."""
        return text.format(self.every(action)[0]) if self.every(action) else ""

    def none_matches(self, what: str) -> str:
        return f"{what} matches the filter{self.clause('back', '; {} clears it')}"

    def tell(self, text: str) -> str:
        """`text` with the key of each action that it names in braces: "{open} opens it"."""
        return text.format_map({action: keys[0] if keys else NO_KEY for action, keys in self.names.items()})


NO_KEYS = KeyNames(MappingProxyType({}))
"""Where nobody can press any: sentences leave out what they would say of them."""

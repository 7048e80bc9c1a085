"""Every key of the program, once: id, key, action, what the footer says, what it does.

`docs/keys.md` is generated from here, and an id is what a keymap names. What of it
holds under a keymap is said by `key_names`, which every text asks that names a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from textual.binding import Binding, BindingsMap
from textual.keys import format_key, key_to_character
from textual.screen import Screen

from rltop.rows.keys import KeyNames

_STEP = Binding.Group("Step", compact=True)
_ZOOM = Binding.Group("Zoom", compact=True)
_NEIGHBOUR = Binding.Group("Next", compact=True)


def _key(
    id: str,
    key: str,
    action: str,
    footer: str,
    tooltip: str,
    *,
    show: bool = False,
    priority: bool = False,
    shown_as: str | None = None,
    group: Binding.Group | None = None,
) -> Binding:
    """A binding; shown in the footer only if `show`."""
    return Binding(
        key, action, footer, id=id, tooltip=tooltip, show=show, priority=priority, key_display=shown_as, group=group
    )


BOARD_BINDINGS = (
    _key("up", "up,k", "up", "Up", "Select the row above", shown_as="↑"),
    _key("down", "down,j", "down", "Down", "Select the row below", shown_as="↓"),
    _key("left", "left,h", "left", "Left", "Select what is to the left", shown_as="←"),
    _key("right", "right,l", "right", "Right", "Select what is to the right", shown_as="→"),
    _key("page-up", "pageup,ctrl+b", "page(-1)", "Page up", "Go one screenful up", shown_as="PgUp"),
    _key("page-down", "pagedown,ctrl+f", "page(1)", "Page down", "Go one screenful down", shown_as="PgDn"),
    _key("first", "home,g", "first", "First", "Go to the first row"),
    _key("last", "end,G", "last", "Last", "Go to the last row"),
    _key("open", "enter", "open", "Open", "Open what is selected", show=True, shown_as="⏎"),
)

APP_BINDINGS = (
    _key("back", "escape", "back", "Back", "Go back to where you came from", show=True, shown_as="Esc"),
    _key("help", "question_mark,f1", "help", "Help", "What this screen shows, and every key", show=True, shown_as="?"),
    _key("quit", "q", "quit", "Quit", "End the program", show=True),
    _key("live", "L", "live", "Live", "Return from a past step or a pause to what is happening now", show=True),
    _key("live-end", "end", "live", "Live", "The same, while a past step is shown", priority=True),
    _key("step-back", "comma", "travel(-1)", "Step", "Show the step before, on every screen", show=True, group=_STEP),
    _key("step-on", "full_stop", "travel(1)", "Step", "Show the step after, on every screen", show=True, group=_STEP),
    _key("leap-back", "less_than_sign", "travel(-10)", "10 back", "Go ten steps back"),
    _key("leap-on", "greater_than_sign", "travel(10)", "10 on", "Go ten steps on"),
    _key("pause", "space", "pause", "Pause", "Freeze the picture; reading goes on", show=True, shown_as="Spc"),
    # With priority: what is typed after it must find the filter there, however fast it comes.
    _key(
        "find",
        "slash",
        "find",
        "Find",
        "Find a metric by a part of its key; on a page with a filter, filter",
        show=True,
        shown_as="/",
        priority=True,
    ),
    _key("alerts", "a", "alerts", "Alerts", "Open the worst verdict; again: the next one", show=True),
    _key("timeline", "e", "timeline", "Events", "Every event of the run on the step axis", show=True),
    _key("change", "c", "change", "Changed", "What changed around the step on the screen, or the verdict's", show=True),
    _key(
        "mute",
        "x",
        "mute",
        "Mute",
        "Mute the rule of the verdict on the page or under the cursor, or undo it",
        show=True,
    ),
    _key("unmute", "X", "unmute", "Unmute", "Show the verdicts of every rule that was muted again"),
    _key("timing", "t", "timing", "Timing", "Where the time of a step goes", show=True),
    _key("rollouts", "R", "rollouts", "Rollouts", "Rollouts: the completions of the step on the screen, by group"),
    _key("metrics", "m", "metrics", "All", "Every metric that is logged, by section", show=True),
    _key("runs", "r", "runs", "Runs", "Every run that is followed, what needs attention first", show=True),
    _key(
        "palette",
        "ctrl+p",
        "command_palette",
        "Palette",
        "Find a metric, a verdict, a theme or an action by name",
        show=True,
    ),
    _key("theme", "T", "next_theme", "Theme", "Switch to the next theme", show=True),
    _key("suspend", "ctrl+z", "suspend_process", "Suspend", "Back to the shell; fg returns"),
    _key("interrupt", "ctrl+c,ctrl+q", "quit", "Quit", "End the program from anywhere", priority=True),
)

PLOT_BINDINGS = (
    _key("log", "l", "log", "Log", "Logarithmic or linear values", show=True),
    _key("smooth", "s", "smooth", "Smooth", "Show the smoothed curve or leave it out", show=True),
    _key(
        "band", "b", "band", "Band", "Show the extremes or the spread around the values, or leave them out", show=True
    ),
    _key(
        "zoom-in",
        "plus,equals_sign",
        "zoom(1)",
        "Zoom",
        "Show half as many steps",
        show=True,
        shown_as="+",
        group=_ZOOM,
    ),
    _key("zoom-out", "minus", "zoom(-1)", "Zoom", "Show twice as many steps", show=True, shown_as="-", group=_ZOOM),
    _key("pan-left", "left,h", "pan(-1)", "Earlier", "Move to earlier steps"),
    _key("pan-right", "right", "pan(1)", "Later", "Move to later steps"),
    _key("reset", "0", "reset", "Whole run", "Show the whole run again", show=True),
)

TREE_BINDINGS = (
    _key("fold", "left,h", "fold(True)", "Fold", "Fold the section that is selected"),
    _key("unfold", "right,l", "fold(False)", "Unfold", "Unfold the section that is selected"),
    _key("fold-all", "z", "fold_all", "Fold all", "Fold every section, or unfold them", show=True),
)

FILTER_BINDINGS = (_key("to-list", "down", "to_list", "List", "From the filter into the list"),)

TIMELINE_BINDINGS = (
    _key("family", "f", "next_family", "Family", "Show one family of events after the other, then all", show=True),
    _key("level", "v", "next_level", "Level", "Leave out events below a level, one level after the other", show=True),
)

ROLLOUT_BINDINGS = (
    _key(
        "previous",
        "left,h,p",
        "neighbour(-1)",
        "Previous",
        "The step, group or completion before",
        show=True,
        group=_NEIGHBOUR,
    ),
    _key(
        "next", "right,l,n", "neighbour(1)", "Next", "The step, group or completion after", show=True, group=_NEIGHBOUR
    ),
    _key("order", "o", "order", "Order", "Sort by something else: ratio, longest, reward ...", show=True),
)

CONTEXTS: Mapping[str, tuple[Binding, ...]] = MappingProxyType(
    {
        "Everywhere": APP_BINDINGS,
        "In a list or a table": BOARD_BINDINGS,
        "On a metric's chart": PLOT_BINDINGS,
        "In the list of all metrics": TREE_BINDINGS,
        "In the timeline": TIMELINE_BINDINGS,
        "On the pages of rollouts": ROLLOUT_BINDINGS,
        "In a filter": FILTER_BINDINGS,
    }
)
"""Where keys apply → the bindings, in the order in which help and docs list them."""


def binding_ids() -> frozenset[str]:
    """Every id that a keymap may name."""
    return frozenset(binding.id for bindings in CONTEXTS.values() for binding in bindings if binding.id)


_SPELLING: Mapping[str, str] = MappingProxyType(
    {
        "comma": ",",
        "full_stop": ".",
        "less_than_sign": "<",
        "greater_than_sign": ">",
        "slash": "/",
        "question_mark": "?",
        "plus": "+",
        "minus": "-",
        "equals_sign": "=",
        "escape": "Esc",
        "enter": "Enter",
        "space": "Space",
        "pageup": "PgUp",
        "pagedown": "PgDn",
        "up": "↑",
        "down": "↓",
        "left": "←",
        "right": "→",
        "home": "Home",
        "end": "End",
        "backspace": "Backspace",
    }
)


def spell(keys: str) -> list[str]:
    """Keys as a person reads them, from Textual's comma-separated names."""
    return [_spell(key) for key in keys.split(",")]


def _spell(key: str) -> str:
    *modifiers, name = key.split("+")
    shown = _SPELLING.get(name) or format_key(name)
    # f2, tab, delete: what is written on the key begins with a capital; a letter is what it types.
    shown = shown[0].upper() + shown[1:] if len(shown) > 1 and shown.isascii() else shown
    return "-".join([*(modifier.capitalize() for modifier in modifiers), shown])


_TEXTUALS = tuple(one for one in Screen.BINDINGS if isinstance(one, Binding))
"""What every page has from Textual, Tab for one; it has no ids."""

_YIELDING = frozenset({"live-end", "left", "right"})
"""Bindings that leave their key to the next one whenever they have nothing to do."""


def key_names(keymap: Mapping[str, str], page: Sequence[Binding] = (), *, is_typing: bool = False) -> KeyNames:
    """What reaches each action under a keymap, on a page with bindings of its own.

    A key goes to what has it first: the list, then the page, then the application. An
    action whose keys have all gone to others has none; nor has one, while somebody is
    typing, whose keys are letters.
    """
    settled = normal_keymap(keymap)
    found: dict[str, tuple[str, ...]] = {}
    for bindings in CONTEXTS.values():
        if bindings is FILTER_BINDINGS:
            # The list is not there while one types.
            found |= _reaching(settled, bindings)
        elif bindings is not APP_BINDINGS and bindings is not BOARD_BINDINGS:
            found |= _reaching(settled, BOARD_BINDINGS, (*_TEXTUALS, *bindings))
    # Last, so that what holds on the page itself wins.
    found |= _reaching(settled, BOARD_BINDINGS, (*_TEXTUALS, *page), APP_BINDINGS)
    return KeyNames(
        MappingProxyType(
            {
                id: tuple(_spell(key) for key in keys if not (is_typing and types(key)))
                for id, keys in found.items()
                if id
            }
        )
    )


def types(key: str) -> bool:
    """Whether a key writes something into a text field."""
    character = key_to_character(key)
    return character is not None and character.isprintable()


def normal_keymap(keymap: Mapping[str, str]) -> Mapping[str, str]:
    """A keymap with every key by its name: `question_mark` for `?`."""
    every = {id: [key for key in keys.split(",") if key.strip()] for id, keys in keymap.items()}
    return {
        id: ",".join(one.key for one in Binding.make_bindings([Binding(",".join(keys), "")]))
        for id, keys in every.items()
        if keys
    }


def _reaching(keymap: Mapping[str, str], *chain: Iterable[Binding]) -> dict[str, tuple[str, ...]]:
    """Id → keys that come through to it where the bindings before have had their choice."""
    found: dict[str, list[str]] = {}
    maps = []
    for bindings in chain:
        bound = BindingsMap(bindings)
        found.update((one.id or "", []) for _, one in bound)
        bound.apply_keymap(dict(keymap))
        # Of several under one key, the first.
        maps.append({key: several[0] for key, several in bound.key_to_bindings.items()})
    taken: set[str] = set()
    for is_urgent in (True, False):
        for each in maps:
            own = {key: one for key, one in each.items() if one.priority is is_urgent and key not in taken}
            for key, one in own.items():
                found[one.id or ""].append(key)
            taken |= {key for key, one in own.items() if one.id not in _YIELDING}
    return {id: tuple(keys) for id, keys in found.items()}

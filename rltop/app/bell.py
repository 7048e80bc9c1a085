"""Bell and desktop notification on a new CRIT, and the title of the terminal's window."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from rltop.app.options import UiOptions
from rltop.clock import Clock
from rltop.model import Label, Level, Verdict
from rltop.run.run import Run
from rltop.run.session import CROWD, Session

LEAST_S = 60.0
"""Between two notifications; what begins meanwhile is in the window's title."""
LOOK_S = 1.0
TITLE_CHARS = 120
TEXT_CHARS = 240
PLAIN_TERMINALS = frozenset({"", "dumb", "linux", "vt100", "vt220"})
"""Terminals that have neither clipboard nor notifications nor a title."""


class Bell:
    """Watches the runs for a CRIT that begins while they are watched.

    Args:
        session: the runs; of a crowd of them only the one on the screen.
    """

    def __init__(self, session: Session, options: UiOptions, clock: Clock, environ: Mapping[str, str]) -> None:
        self._session, self._clock, self._environ = session, clock, environ
        self.use(options)
        self._known: dict[str, set[tuple[Hashable, ...]]] = {}
        self._next_look = self._next_ring = float("-inf")
        self._seen: Hashable = None
        self.title = ""

    def use(self, options: UiOptions) -> None:
        is_able = self._environ.get("TERM", "") not in PLAIN_TERMINALS
        self._rings, self._has_title = is_able and options.has_bell, is_able and options.has_title

    def look(self, followed: Run) -> str:
        """What is to be sent to the terminal now: the title if it is another one, bell and notification if due."""
        now, version = self._clock.monotonic(), followed.version
        if not (self._rings or self._has_title) or (version == self._seen and now < self._next_look):
            return ""
        self._seen, self._next_look = version, now + LOOK_S
        said = ""
        if self._has_title and (title := title_of(followed)) != self.title:
            self.title = title
            said = set_title(title)
        if self._rings:
            runs = self._session.runs if len(self._session.runs) <= CROWD else (followed,)
            new = [(run, verdict) for run in runs for verdict in self._new(run)]
            if new and now >= self._next_ring:
                self._next_ring = now + LEAST_S
                said += "\a" + notification(*new[0], len(new) - 1, self._environ)
        return said

    def _new(self, run: Run) -> list[Verdict]:
        """What has become CRIT since the last look; what was there when the run was opened is not new."""
        if run.loading is not None or not run.has_caught_up:
            return []
        found = {(one.rule, one.stream, one.since_step): one for one in run.verdicts if is_crit(one)}
        known = self._known.setdefault(run.path.raw, set(found))
        new = [one for key, one in found.items() if key not in known]
        known.update(found)
        return new


def is_crit(verdict: Verdict) -> bool:
    return verdict.is_active and verdict.level is Level.CRIT


def title_of(run: Run) -> str:
    worst = next((one for one in run.verdicts if one.is_active and one.level >= Level.WARN), None)
    alert = "" if worst is None else f" · {worst.level.word.upper()} {worst.title}"
    return _clean(f"{run.name.raw} · {run.state.value}{alert} · rltop", TITLE_CHARS)


def set_title(title: str) -> str:
    """The escape code that sets the title of the window; the one from before is put back by the guard."""
    return f"\x1b]2;{title}\x1b\\"


def notification(run: Run, verdict: Verdict, others: int, environ: Mapping[str, str]) -> str:
    """The escape code of one notification, in the spelling that the terminal knows.

    kitty has one of its own (OSC 99), rxvt, foot and VTE that of rxvt (OSC 777), others that of iTerm2 (OSC 9);
    what a terminal does not know it leaves out. Within tmux and screen it is passed through, where they allow it.
    """
    title = _clean(f"rltop: {run.name.raw}", TITLE_CHARS).replace(";", ",")
    more = f" (+{others})" if others else ""
    text = _clean(f"CRIT {verdict.title}{more}: {verdict.headline}", TEXT_CHARS)
    term = environ.get("TERM", "")
    if "kitty" in term or environ.get("KITTY_WINDOW_ID"):
        code = f"\x1b]99;i=rltop:d=0;{title}\x1b\\\x1b]99;i=rltop:p=body;{text}\x1b\\"
    elif term.startswith(("rxvt", "foot")) or environ.get("VTE_VERSION"):
        code = f"\x1b]777;notify;{title};{text}\x1b\\"
    else:
        code = f"\x1b]9;{title}: {text}\x1b\\"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("STY"):
        # screen ends a string at the first terminator: a bell ends the inner one.
        return "".join(f"\x1bP{part}\a\x1b\\" for part in code.split("\x1b\\") if part)
    return code


def _clean(text: str, most: int) -> str:
    shown = Label.of(text).display
    return shown if len(shown) <= most else shown[: most - 1] + "…"

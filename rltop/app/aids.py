"""What works on whatever is on the screen: go to a step by its number, copy, and the line that answers a key."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rltop import units
from rltop.app.arranging import Arranging
from rltop.app.bell import PLAIN_TERMINALS
from rltop.app.travel import destination
from rltop.clock import SystemClock
from rltop.errors import cannot_write
from rltop.files import replace_file
from rltop.model import Label
from rltop.pages.changes import ChangePage
from rltop.pages.chart import Axis
from rltop.pages.metric import MetricPage
from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.resources import HINTED, keep
from rltop.rows.keys import Where
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot
from rltop.settings import BY_NAME

PLACES = "a step: 1200, +50, -50, live; or a window for a chart: 300-350"

MOST_COPIED = 74_994
"""Bytes that go to the clipboard at most: xterm takes 100,000 of base64, other terminals as many or more."""

_TMUX_S = 2.0

_MOST_REPORTS = 100

_WHY: Mapping[str, str] = MappingProxyType(
    {
        "runs": "this is the only run: name several files, or a folder, to see a list",
        "alerts": "no alert at this step",
        "acknowledge": "no alert is selected: select one to acknowledge it",
        "mute": "no alert is selected: select one to mute its rule",
        "unmute": "no rule is muted",
        "meaning": "no metric is selected: select one to say what it means",
        "show('flow')": "this run generates and trains in turn: its stages are on the timing page",
        "live": "the newest step is shown already",
        "change": "no step has been read yet",
        "back": "already on the overview; q quits",
        "travel(-1)": "no step has been read yet",
        "travel(1)": "no step has been read yet",
    }
)
"""Why a key does nothing now, by its action; the footer leaves it out meanwhile."""


HINTS = "first start: {open} opens what is selected, {back} goes back, {help} lists all keys"
"""Said once, until the next key."""


class Aids(Arranging):
    """An application that answers every key, if need be in a line above the footer."""

    def hint(self) -> None:
        """At the very first start say how the screen is used."""
        if self.options.has_hints and self.shown is not None:
            self.tell(self.shown.keys.tell(HINTS))

    def hinted(self) -> None:
        """Keep that this has been said; where it cannot be kept it is said again."""
        if self.options.has_hints:
            with contextlib.suppress(OSError):
                keep(HINTED, "\n")

    def tell(self, text: str) -> None:
        """Say something in the line above the footer, until the next key.

        Args:
            text: one line; control characters of it are shown, not sent.
        """
        self.told = Label.of(text).display
        if self.shown is not None:
            self.shown.draw_status()

    async def run_action(self, *arguments: object, **options: object) -> bool:
        """Do what a key does; what was said of the key before is over.

        Args:
            *arguments: those of Textual; the first is the action.
            **options: likewise.
        """
        had, self.told = self.told, ""
        is_done = await super().run_action(*arguments, **options)  # type: ignore[arg-type]
        if not is_done and arguments and arguments[0] in _WHY:
            self.tell(_WHY[str(arguments[0])])
        if had and not self.told and self.shown is not None:
            self.shown.draw_status()
        return is_done

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out or hide the keys that would do nothing here.

        Args:
            action: its name, without `action_`.
            parameters: its own, such as how far to travel.

        Returns:
            False hides the key, None greys it out.
        """
        is_allowed: bool | None = True
        shown = self.shown
        is_typing = shown is not None and shown.is_typing
        match action:
            case "live":
                is_allowed = not self.is_live and not is_typing
            case "find":
                is_allowed = shown is not None and not is_typing
            case "help":
                is_allowed = not is_typing
            case "show" if parameters == ("flow",):
                identity = self.followed.identity
                is_allowed = identity is not None and identity.traits.is_async
            case "change":
                is_allowed = self.followed.stream.last_step is not None and not isinstance(self.page, ChangePage)
            case "acknowledge" | "mute":
                is_allowed = bool(self._rule_at_hand)
            case "meaning":
                is_allowed = bool(self.key_at_hand[0]) and self.session.may_mean(self.followed)
            case "unmute":
                is_allowed = bool(self.followed.muted)
            case "travel":
                is_allowed = True if self.followed.stream.last_step is not None else None
            case "alerts":
                is_allowed = bool(self.shown_verdicts)
            case "runs":
                is_allowed = len(self.session.runs) > 1
            case "back":
                is_deep = len(self.screen_stack) > 1 or self.current_mode != self._root
                is_allowed = is_deep or (shown is not None and shown.has_something_to_close)
        return is_allowed

    # -- going somewhere -----------------------------------------------------------------------------------------

    def action_console(self) -> None:
        """Show the console log; once more, go back."""
        from rltop.pages.log import LogPage  # noqa: PLC0415 - few sessions look at one

        if isinstance(self.page, LogPage):
            self.pop_screen()
        else:
            self.session.look_for_console(self.followed)
            self.push(LogPage())

    def _look_for_console(self) -> None:
        """Where its page is shown: the run may be another one by now, or the same one read anew."""
        if self.page is not None and Where.LOG in self.page.where:
            self.session.look_for_console(self.followed)

    def action_travel(self, by: int) -> None:
        """Move the time cursor by records; say so at an end."""
        if by > 0 and self.is_live:
            self.tell("the newest step is shown already")
        elif by < 0 and self.at_step is not None and self.at_step == self.followed.stream.first_step:
            self.tell("the first step is shown already")
        else:
            super().action_travel(by)

    async def action_go(self) -> None:
        """Ask for a step or a window."""
        if self.shown is not None:
            await self.shown.ask(PLACES, self.go_to)

    def go_to(self, text: str) -> None:
        """Go to the step that was typed, or show the window in the chart of the page.

        Args:
            text: as typed; says what would do where it is no place.
        """
        stream = self.followed.stream
        first, newest = stream.first_step, stream.last_step
        if not text.strip():
            return
        if first is None or newest is None:
            self.tell("no step has been read yet")
            return
        try:
            place = destination(text, newest if self.at_step is None else self.at_step)
        except ValueError as error:
            self.tell(str(error))
            return
        whole = f"{units.step(first)}–{units.step(newest)}"
        if place.first is not None and place.step is not None:
            self._show_window(place.first, place.step, whole)
        elif place.step is not None and not first <= place.step <= newest:
            self.show_step(max(first, place.step))
            self.tell(f"step {units.step(place.step)} is not in {whole}: the nearest one is shown")
        else:
            self.show_step(place.step)

    def _show_window(self, first: int, last: int, whole: str) -> None:
        shown = self.shown
        effect = None if shown is None else shown.page.show_window(first, last, shown.moment)
        if effect is not None and shown is not None:
            shown.carry_out(effect)
        else:
            self.show_step(last)
            self.tell(f"no chart here has these steps: step {units.step(last)} of {whole} is shown")

    # -- taking something along ----------------------------------------------------------------------------------

    def action_copy_value(self) -> None:
        """Copy what is selected: a value as it was logged, the sentence of an alert, the path of a run."""
        from rltop.pages.copied import value_to_copy  # noqa: PLC0415 - few sessions copy anything

        shown = self.shown
        if shown is None:
            return
        text, what = value_to_copy(shown.board.target, shown.page, shown.moment)
        if text:
            self._copy(text, what)
        else:
            self.action_copy_row()

    def action_copy_row(self) -> None:
        """Copy the selected row as text, or the page where it has a text of its own."""
        from rltop.pages.copied import row_text  # noqa: PLC0415 - few sessions copy anything

        shown = self.shown
        if shown is None:
            return
        page, board = shown.page.text_to_copy(shown.moment), shown.board
        row = next((one for one in board.rows if any(link.target == board.target for link in one.links)), None)
        text = page or ("" if row is None else row_text(row))
        if text:
            self._copy(text, "the page" if page else "the row")
        else:
            self.tell("nothing is selected that can be copied")

    def action_go_to(self, text: str) -> None:
        """Go to a step or a window."""
        self.go_to(text)

    def action_tell_setting(self, name: str) -> None:
        """Say what a setting does and how it is set."""
        setting = BY_NAME[name]
        self.tell(f"{setting.flag}, {setting.variable}, or {name} in config.toml: {setting.help}")

    def action_tell_config(self) -> None:
        """Say which config file is meant."""
        folder = self.options.themes_folder
        self.tell(f"the config file is {'~/.config/rltop' if folder is None else folder.parent}/config.toml")

    def action_copy_command(self) -> None:
        """Copy the command that opens the run."""
        self._copy(f"rltop {shlex.quote(self.followed.path.raw)}", "the command")

    async def action_report(self, suffix: str = ".html") -> None:
        """Write what is shown into the current directory, beside what is there: its step, its window, marked runs.

        Where runs are compared their alignment and the baseline run are those of the screen.

        Args:
            suffix: of `report.writers.FORMATS`; in `.csv` a chart is its values.
        """
        from rltop.report.writers import file_name, series_csv  # noqa: PLC0415 - few sessions write one

        page, moment, loop = self.page, self.moment, asyncio.get_running_loop()
        marked = [run for run in self.session.runs if run.path.raw in self.marked]
        runs = marked if len(marked) > 1 else [self.followed]
        window, step = None if page is None else page.window, moment.snapshot.step
        path = Path(file_name(f"{len(runs)}-runs" if len(runs) > 1 else runs[0].name.raw, step, suffix))
        if suffix == ".csv" and isinstance(page, MetricPage):
            part = Snapshot(self.followed, self.at_step).within(page.stream)
            data = series_csv(part, page.key, window)
        else:
            data = _report(runs, page, moment, self.at_step, suffix)

        def write() -> None:
            said = _written(path, data)
            # The loop may have been closed by the time that a slow disk has answered.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.tell, said)

        self.tell(f"writing {path} …")
        threading.Thread(target=write, name="report", daemon=True).start()

    def _copy(self, text: str, what: str) -> None:
        """Hand a text to the terminal for the clipboard (OSC 52), over SSH too.

        Args:
            text: without control characters but newlines.
            what: what it is, for the line that says so.
        """
        if os.environ.get("TERM", "") in PLAIN_TERMINALS or self._driver is None:
            self.tell(f"this terminal has no clipboard; the text is: {text.splitlines()[0]}")
            return
        data = text.encode("utf-8", "replace")
        kept = data[:MOST_COPIED].decode("utf-8", "ignore")
        self._driver.write(f"\x1b]52;c;{base64.b64encode(kept.encode()).decode('ascii')}\x07")
        if os.environ.get("TMUX"):
            self.run_worker(_give_to_tmux(kept), name="clipboard")
        cut = f" ({units.count(len(kept))} characters of it)" if len(data) > MOST_COPIED else ""
        first = kept.splitlines()[0] if kept else ""
        self.tell(f"copied {what}{cut}: {first}{' …' if len(kept) > len(first) else ''}")


def _report(runs: Sequence[Run], page: Page | None, moment: Moment, at_step: int | None, suffix: str) -> bytes:
    """A report of runs as they are shown: at a step, in the window of a chart, compared as on the page."""
    from rltop.pages.compare import ComparePage  # noqa: PLC0415 - few sessions write one
    from rltop.report.run_report import Made, build_report  # noqa: PLC0415 - few sessions write one
    from rltop.report.writers import rendered  # noqa: PLC0415 - few sessions write one

    compared = page if isinstance(page, ComparePage) else None
    beside = moment.baseline if compared is None else compared.compared_with(moment)
    other = next((run for run in runs if run.path.raw == beside), None)
    reports = [
        build_report(
            Snapshot(run, at_step),
            has_document=suffix == ".csv",
            window=None if page is None else page.window,
            axis=Axis.STEP if compared is None else compared.axis,
            baseline=None if other is None else Snapshot(other),
        )
        for run in runs
    ]
    command = f"rltop {shlex.join(run.path.raw for run in runs)}, command palette"
    return rendered(suffix, reports, Made.at(command, SystemClock().wall()))


def _written(path: Path, data: bytes) -> str:
    """Write a report under a name that is free, and say which, or why not."""
    names = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, _MOST_REPORTS))]
    try:
        free = next((name for name in names if not name.exists()), None)
        if free is None:
            return f"{path} and its copies are there already: delete some"
        replace_file(free, data)
        return f"written: {free} in {Path.cwd()}"
    except OSError as error:
        return cannot_write(str(path), error).message


async def _give_to_tmux(text: str) -> None:
    """Put a text into tmux's buffer and into its terminal's clipboard; tmux passes OSC 52 on only where it is told to.

    A tmux that is too old for `-w`, or gone, has had the escape code.
    """
    with contextlib.suppress(OSError, TimeoutError):
        none = asyncio.subprocess.DEVNULL
        tmux = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=asyncio.subprocess.PIPE, stdout=none, stderr=none
        )
        await asyncio.wait_for(tmux.communicate(text.encode()), _TMUX_S)

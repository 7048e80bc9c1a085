"""What leaves the screen: text for the clipboard, and reports of what is shown."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import units
from rltop.app.main_loop import PLAIN_TERMINALS
from rltop.clock import Clock
from rltop.errors import cannot_write
from rltop.files import Worker, replace_file
from rltop.model import Label
from rltop.pages.alerts import standing_verdict, verdict_title
from rltop.pages.chart import Axis
from rltop.pages.metric import MetricPage
from rltop.pages.page import Moment, Page
from rltop.regex import regex
from rltop.rows.glyphs import cell_width
from rltop.rows.rows import Row, Target, TargetKind, clip_middle
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from rltop.app.app import RltopApp
    from rltop.app.page_screen import PageScreen

MOST_COPIED = 74_994
"""Most bytes copied to the clipboard: xterm accepts 100,000 of base64, other terminals at least as many."""

_TMUX_S = 2.0

_MOST_REPORTS = 100


class Takeaway:
    """Copies and writes what the application shows."""

    def __init__(self, app: RltopApp) -> None:
        self._app = app

    def copy_value(self) -> None:
        shown = self._app.shown
        if shown is None:
            return
        target = shown.board.selection.target
        if isinstance(shown.page, MetricPage) and _is_of_chart(shown):
            target = Target(TargetKind.METRIC, shown.page.key, stream=shown.page.stream)
        text, what = ("", "") if target is None else _value_of(target, shown.moment)
        if text:
            self.copy(text, what)
        else:
            self.copy_row()

    def copy_row(self) -> None:
        shown = self._app.shown
        if shown is None:
            return
        page, board = shown.page.text_to_copy(shown.moment), shown.board
        chosen = (one for one in board.rows if any(link.target == board.selection.target for link in one.links))
        row = (board.rows[0] if _is_of_chart(shown) else next(chosen, Row(()))).text
        text = page or _BLANKS.sub("  ", row.strip())
        if text:
            self.copy(text, "the page" if page else "the row")
        else:
            self._app.show_message("nothing is selected that can be copied")

    def copy(self, text: str, what: str) -> None:
        """Copy a text to the clipboard through the terminal (OSC 52), which works over SSH, and say so."""
        app = self._app
        if os.environ.get("TERM", "") in PLAIN_TERMINALS or app.driver is None:
            app.show_message(f"this terminal has no clipboard; the text is: {text.splitlines()[0]}")
            return
        data = text.encode("utf-8", "replace")
        kept = data[:MOST_COPIED].decode("utf-8", "ignore")
        app.driver.write(f"\x1b]52;c;{base64.b64encode(kept.encode()).decode('ascii')}\x07")
        if os.environ.get("TMUX"):
            app.run_worker(_give_to_tmux(kept), name="clipboard")
        cut = f" ({units.count(len(kept))} characters of it)" if len(data) > MOST_COPIED else ""
        first = kept.splitlines()[0] if kept else ""
        what = clip_middle(f"{what}{cut}", max(24, app.size.width - 14 - cell_width(first)))
        app.show_message(f"copied {what}: {first}{' …' if len(kept) > len(first) else ''}")

    def report(self, suffix: str = ".html") -> None:
        """Write what is shown (step, window, marked runs) to a new file in the current directory.

        A comparison has the alignment and the baseline run of the screen.

        Args:
            suffix: one of `report.writers.FORMATS`; with `.csv` a chart is written as its values.
        """
        from rltop.report.writers import file_name, series_csv  # noqa: PLC0415 - few sessions write one

        app, loop = self._app, asyncio.get_running_loop()
        page, moment = app.page, app.moment
        marked = [run for run in app.session.runs if run.path.raw in app.marked]
        runs = marked if len(marked) > 1 else [moment.snapshot.run]
        name = f"{len(runs)}-runs" if len(runs) > 1 else moment.snapshot.run.name.raw
        path = Path(file_name(name, moment.snapshot.step, suffix))
        if suffix == ".csv" and isinstance(page, MetricPage):
            data = series_csv(moment.snapshot.within(page.stream), page.key, page.window)
        else:
            data = _report(runs, page, moment, suffix)

        def write() -> None:
            said = _written(path, data)
            # The loop may have been closed before a slow disk has responded.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(app.show_message, said)

        app.show_message(f"writing {path} …")
        Worker("report").start(write)


def _is_of_chart(shown: PageScreen) -> bool:
    """Whether the page is about a metric and none of the related ones has been selected."""
    return isinstance(shown.page, MetricPage) and not (shown.board.has_moved and shown.board.selection.target)


def _written(path: Path, data: bytes) -> str:
    names = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, _MOST_REPORTS))]
    try:
        free = next((name for name in names if not name.exists()), None)
        if free is None:
            return f"{path} and its copies are there already: delete some"
        replace_file(free, data)
        return f"written: {free} in {Path.cwd()}"
    except OSError as error:
        return cannot_write(str(path), error).message


def _report(runs: Sequence[Run], page: Page | None, moment: Moment, suffix: str) -> bytes:
    """A report of runs with the step, window and comparison of the page."""
    from rltop.pages.compare import ComparePage  # noqa: PLC0415 - few sessions write one
    from rltop.report.run_report import Provenance, build_report  # noqa: PLC0415 - few sessions write one
    from rltop.report.writers import rendered  # noqa: PLC0415 - few sessions write one

    compared = page if isinstance(page, ComparePage) else None
    beside = moment.baseline if compared is None else compared.compared_with(moment)
    other = next((run for run in runs if run.path.raw == beside), None)
    reports = [
        build_report(
            Snapshot(run, moment.snapshot.at_step),
            has_document=suffix == ".csv",
            window=None if page is None else page.window,
            axis=Axis.STEP if compared is None else compared.axis,
            baseline=None if other is None else Snapshot(other),
        )
        for run in runs
    ]
    command = f"rltop {shlex.join(run.path.raw for run in runs)}, command palette"
    return rendered(suffix, reports, Provenance.at(command, Clock().wall()))


async def _give_to_tmux(text: str) -> None:
    """Put a text into tmux's buffer and its terminal's clipboard, because tmux forwards OSC 52 only if configured to.

    If tmux is too old for `-w`, or gone, the escape code has to do.
    """
    with contextlib.suppress(OSError, TimeoutError):
        none = asyncio.subprocess.DEVNULL
        tmux = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=asyncio.subprocess.PIPE, stdout=none, stderr=none
        )
        await asyncio.wait_for(tmux.communicate(text.encode()), _TMUX_S)


_BLANKS = regex(r" {3,}")


def _value_of(target: Target, moment: Moment) -> tuple[str, str]:
    """The value of the selection to copy, and what it is; two empty texts if the row is to be copied instead."""
    match target.kind:
        case TargetKind.METRIC:
            return _value(target, moment)
        case TargetKind.SETTING | TargetKind.RUN:
            return _named(target, moment)
        case TargetKind.VERDICT:
            found = standing_verdict(moment.snapshot, target.name, target.stream)
            return "" if found is None else Label.of(found.headline).display, verdict_title(moment.snapshot, target)
        case TargetKind.STEP if target.step is not None:
            return str(target.step), "the step"
        case TargetKind.LINE if target.step is not None:
            return _log_line(target.step, moment), "the line"
    return "", ""


def _log_line(number: int, moment: Moment) -> str:
    log = moment.snapshot.run.console
    lines = log.lines(number)[1] if log is not None else ()
    return Label.of(lines[0].text).display if lines else ""


def _named(target: Target, moment: Moment) -> tuple[str, str]:
    name, settings = Label.of(target.name).display, moment.snapshot.run.settings
    if target.kind is TargetKind.RUN or settings is None:
        return name, "the path"
    return Label.of(units.setting(settings.values.get(target.name))).display, name


def _value(target: Target, moment: Moment) -> tuple[str, str]:
    """The newest value of a key up to the step shown, with every logged digit."""
    part = moment.snapshot.within(target.stream)
    stream, at = part.stream, part.at_step
    series = stream.series(target.name)
    for step, value in zip(reversed(series.steps), reversed(series.values), strict=True):
        if value == value and (at is None or step <= at):
            return repr(value), f"{Label.of(target.name).display} of step {units.step(step)}"
    return "", ""

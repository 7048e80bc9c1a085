"""`rltop`, `rltop replay`, `rltop demo`: the screen, or the same rows as text."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rltop.cli.opening import direct, load_config, look, nothing_found, threaded
from rltop.clock import Clock, SystemClock
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, SourceError
from rltop.ingest.discover import Found, name_of
from rltop.ingest.session import Bell, OpenFeed, Session
from rltop.model import Label
from rltop.resources import folder
from rltop.sources.reader import Reader

DEMO = Path("verl", "tool_slowdown", "metrics.jsonl")
DEMO_SPEED = 180.0
"""The recording's steps take 83 to 180 s: about two rows a second."""
DEFAULT_WIDTH = 100


def show(arguments: argparse.Namespace) -> int:
    """Watch what was named, or what the current directory has."""
    config = load_config(arguments)
    discovery = look(arguments.paths)
    if not discovery.found:
        sys.stderr.write(f"rltop: {nothing_found(arguments.paths, discovery)}\n")
        return EXIT_NO_METRICS
    if _is_text(arguments):
        return _once(discovery.found[:1], config, arguments)
    clock = SystemClock()
    bell = Bell()
    reader = Reader(config.reader, clock=clock, on_data=bell.ring)
    try:
        return _screen(discovery.found, threaded(reader), config, clock, bell)
    finally:
        reader.close()


def replay(arguments: argparse.Namespace) -> int:
    """Play a recording as if it were being written now."""
    return _play(arguments.path, name_of(arguments.path), arguments)


def demo(arguments: argparse.Namespace) -> int:
    """Play the bundled recording in which something goes wrong."""
    arguments.speed = arguments.speed or DEMO_SPEED
    path = str(folder("fixtures") / DEMO)
    return _play(path, Label.of(f"demo: {DEMO.parent.name}"), arguments)


def _play(path: str, name: Label, arguments: argparse.Namespace) -> int:
    config = load_config(arguments)
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", "name a recorded metric file") from error
    found = Found(path, name, size)
    if _is_text(arguments):
        return _once([found], config, arguments)
    from rltop.sources.replay import ReplayFeed, ReplayOptions

    clock = SystemClock()

    def open_feed(path: str, last_lines: int | None) -> ReplayFeed:
        del last_lines
        return ReplayFeed(path, arguments.speed, clock, ReplayOptions(warm_start=arguments.warm_start))

    return _screen([replace(found, size=0)], open_feed, config, clock, Bell())


def _is_text(arguments: argparse.Namespace) -> bool:
    return bool(arguments.once or arguments.json or not sys.stdout.isatty() or not sys.stdin.isatty())


def _once(found: Sequence[Found], config: Config, arguments: argparse.Namespace) -> int:
    """The overview as text or JSON; what was read is all there is, unless `--live`."""
    clock = SystemClock()
    options = replace(config.ingest, has_preview=False)
    session = Session(found, direct(clock), clock, options)
    if arguments.live:
        while session.step(1_000.0):
            pass
    else:
        session.drain()
    run = session.runs[0]
    if run.state_note and not run.stream.rows:
        raise SourceError(f"{run.path}: {run.state_note}", "check the path and its permissions")
    if arguments.json:
        from rltop.report.document import dumps, once_document

        sys.stdout.write(dumps(once_document(run)).decode() + "\n")
    else:
        from rltop.report.text import once_text

        is_terminal = sys.stdout.isatty()
        width = arguments.width or (
            shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns if is_terminal else DEFAULT_WIDTH
        )
        text = once_text(run, max(40, width), use_color=config.use_color(is_terminal), is_ascii=_is_ascii(config))
        sys.stdout.write(text)
    sys.stdout.flush()
    return EXIT_OK if run.stream.rows else EXIT_NO_METRICS


def _is_ascii(config: Config) -> bool:
    """ASCII where it was asked for, or where the output cannot say anything else."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return config.ui.is_ascii or not encoding.startswith("utf")


def _screen(found: Sequence[Found], open_feed: OpenFeed, config: Config, clock: Clock, bell: Bell) -> int:
    """First the newest rows as plain text, then Textual over them."""
    from rltop.cli.early import early_rows
    from rltop.terminal.early import paint_early
    from rltop.terminal.guard import TerminalGuard
    from rltop.view.palette import load_palette

    palette = load_palette(config.ui.theme, config.ui.themes_folder)
    if not config.ui.has_colour:
        palette = palette.without_colour()
    with TerminalGuard.open() as guard:
        session = Session(found, open_feed, clock, config.ingest, bell)
        try:
            paint_early(guard, early_rows(found[0], config, clock), palette)
            from rltop.ui.app import run

            return run(session, config.ui, guard)
        finally:
            session.close()

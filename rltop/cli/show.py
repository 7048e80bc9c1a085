"""`rltop`, `rltop replay`, `rltop demo`: which run, and whether as a screen or as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.cli.looking import load_config, look, nothing_found, stand_somewhere
from rltop.cli.pipe import STANDARD_INPUT, take_standard_input
from rltop.cli.voice import complain, is_terminal
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, SourceError
from rltop.ingest.found import Found, name_of
from rltop.model import Label
from rltop.resources import folder

if TYPE_CHECKING:
    from argparse import Namespace

DEMO = Path("verl", "tool_slowdown", "metrics.jsonl")
DEMO_SPEED = 180.0
"""The recording's steps take 83 to 180 s: about two rows a second."""


def show(arguments: Namespace) -> int:
    """Watch what was named, or what the current directory has."""
    config = load_config(arguments)
    if arguments.paths == [STANDARD_INPUT]:
        return _show_pipe(config, arguments)
    discovery = look(arguments.paths)
    if _is_text(arguments):
        if not discovery.found:
            complain(*nothing_found(arguments.paths, discovery))
            return EXIT_NO_METRICS
        from rltop.cli.once import print_once, print_several

        if len(discovery.found) > 1:
            return print_several(discovery.found, config, arguments)
        return print_once(discovery.found[0], config, arguments)
    from rltop.cli.screen import watch

    if discovery.missing or not discovery.found:
        from rltop.ingest.awaited import awaited, is_awaited

        if is_awaited(discovery):
            return watch([awaited(arguments.paths, discovery)], config, arguments.paths or ["."])
    return watch(discovery.found, config, (arguments.paths or ["."]) if discovery.may_grow else ())


def _show_pipe(config: Config, arguments: Namespace) -> int:
    """Watch what comes through standard input."""
    pipe = take_standard_input()
    if _is_text(arguments):
        from rltop.cli.once import print_piped

        return print_piped(pipe, config, arguments)
    from rltop.cli.screen import watch_pipe

    return watch_pipe(pipe, config)


def replay(arguments: Namespace) -> int:
    """Play a recording as if it were being written now."""
    return _play(arguments.path, name_of(arguments.path), arguments)


def demo(arguments: Namespace) -> int:
    """Play the bundled recording in which something goes wrong."""
    arguments.speed = arguments.speed or DEMO_SPEED
    return _play(str(folder("fixtures") / DEMO), Label.of(f"demo {DEMO.parent.name}"), arguments)


def _play(path: str, name: Label, arguments: Namespace) -> int:
    from rltop.cli.opening import file_size

    config = load_config(arguments)
    stand_somewhere([path])
    try:
        size = file_size(path)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", "name a recorded metric file") from error
    found = Found(path, name, size)
    if _is_text(arguments):
        from rltop.cli.once import print_once

        return print_once(found, config, arguments)
    from rltop.cli.screen import play

    return play(found, config, speed=arguments.speed, warm_start=arguments.warm_start)


def _is_text(arguments: Namespace) -> bool:
    return bool(arguments.once or arguments.json or not is_terminal() or not _has_keys())


def _has_keys() -> bool:
    """Does standard input come from a keyboard?"""
    return sys.stdin is not None and sys.stdin.isatty()

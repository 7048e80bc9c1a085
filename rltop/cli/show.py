"""`rltop`, `rltop replay`, `rltop demo`: which run, and screen or text."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.app.environment import is_served
from rltop.cli.output import complain, is_terminal
from rltop.cli.pipe import STANDARD_INPUT, take_standard_input
from rltop.cli.resolve_paths import (
    LOOK_DEADLINE_S,
    begin_look,
    load_config,
    look,
    nothing_found,
    say_left_out,
    stand_somewhere,
)
from rltop.config import Config, is_plain_terminal
from rltop.errors import EXIT_NO_METRICS, EXIT_USAGE, cannot_read
from rltop.model import Label
from rltop.resources import folder
from rltop.run.discover import Discovery
from rltop.run.found import Found, name_of

if TYPE_CHECKING:
    from argparse import Namespace

DEMO = Path("verl", "tool_slowdown", "metrics.jsonl")
DEMO_ROLLOUTS = Path("verl", "demo_completions.jsonl")
"""Some completions of the bundled run."""
DEMO_SPEED = 180.0
"""The recording's steps take 83 to 180 s: about two rows a second."""


def show(arguments: Namespace) -> int:
    """Watch the given paths, or the current directory."""
    config = load_config(arguments)
    if arguments.paths == [STANDARD_INPUT]:
        return _show_pipe(config, arguments)
    if _is_text(arguments):
        return _print(look(arguments.paths), config, arguments)
    begun = begin_look(arguments.paths)
    from rltop.cli.screen import watch
    from rltop.run.discover import awaited, is_awaited, still_looking

    paths = arguments.paths or ["."]
    if not begun.wait(LOOK_DEADLINE_S):
        return watch([still_looking(paths, begun.so_far, begun.silent_s)], config, paths, first=begun)
    discovery = begun.result()
    if (discovery.missing or not discovery.found) and is_awaited(discovery):
        return watch([awaited(paths, discovery)], config, paths, discovery.left_out)
    return watch(discovery.found, config, paths if discovery.may_grow else (), discovery.left_out, seen=discovery.seen)


def _print(discovery: Discovery, config: Config, arguments: Namespace) -> int:
    """What was found, as text."""
    if not discovery.found:
        complain(*nothing_found(arguments.paths, discovery))
        return EXIT_NO_METRICS
    from rltop.cli.once import print_once, print_several

    say_left_out(discovery.left_out)
    if len(discovery.found) > 1:
        code = print_several(discovery.found, config, arguments)
    else:
        code = print_once(discovery.found[0], config, arguments)
    return EXIT_USAGE if discovery.failed else code


def _show_pipe(config: Config, arguments: Namespace) -> int:
    """Watch standard input."""
    pipe = take_standard_input()
    if _is_text(arguments):
        from rltop.cli.once import print_piped

        return print_piped(pipe, config, arguments)
    from rltop.cli.screen import watch_pipe

    return watch_pipe(pipe, config)


def replay(arguments: Namespace) -> int:
    """Play back a recorded run as if it were live."""
    return _play(arguments.path, name_of(arguments.path), arguments)


def demo(arguments: Namespace) -> int:
    """Play back the bundled run in which things go wrong."""
    arguments.speed = arguments.speed or DEMO_SPEED
    arguments.rollouts = arguments.rollouts or str(folder("fixtures") / DEMO_ROLLOUTS)
    return _play(str(folder("fixtures") / DEMO), Label.of(f"demo {DEMO.parent.name}"), arguments)


def _play(path: str, name: Label, arguments: Namespace) -> int:
    from rltop.cli.open_session import file_size

    config = load_config(arguments)
    stand_somewhere([path])
    try:
        size = file_size(path)
        with Path(path).open("rb"):
            # What may not be read is said before there is a screen.
            pass
    except OSError as error:
        raise cannot_read(path, error) from error
    found = Found(path, name, size)
    if _is_text(arguments):
        from rltop.cli.once import print_once

        return print_once(found, config, arguments)
    from rltop.cli.screen import play

    return play(found, config, speed=arguments.speed, warm_start=arguments.warm_start)


def _is_text(arguments: Namespace) -> bool:
    """Print text instead of a screen: on request, or because the terminal has none, which is reported?"""
    if is_served(os.environ) and not (arguments.once or arguments.json):
        return False
    if arguments.once or arguments.json or not is_terminal() or not _has_keys():
        return True
    if not is_plain_terminal(os.environ):
        return False
    what = f"TERM={term}" if (term := os.environ.get("TERM", "")) else "TERM is not set"
    complain(
        f"{what}: this terminal cannot show the live screen; printing the overview once",
        "  if it can, set TERM: TERM=xterm-256color rltop …",
    )
    return True


def _has_keys() -> bool:
    """Does standard input come from a keyboard?"""
    return sys.stdin is not None and sys.stdin.isatty()

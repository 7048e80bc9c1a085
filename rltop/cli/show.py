"""`rltop`, `rltop replay`, `rltop demo`: which run, and screen or text."""

from __future__ import annotations

import errno
import os
import sys
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.cli.output import is_terminal, print_error
from rltop.cli.resolve_paths import (
    LOOK_DEADLINE_S,
    STANDARD_INPUT,
    answered,
    begin_look,
    load_config,
    look,
    newest_first,
    one_run,
    require_usable_paths,
    say_left_out,
    take_standard_input,
    why_nothing_found,
)
from rltop.config import Config, is_plain_terminal
from rltop.errors import EXIT_NO_METRICS, EXIT_USAGE, SourceError, cannot_read
from rltop.model import Label
from rltop.resources import folder
from rltop.run.discover import Discovery
from rltop.run.places import FoundRun, name_of
from rltop.screen.environment import is_served

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

DEMO = Path("verl", "tool_slowdown", "metrics.jsonl")
DEMO_ROLLOUTS = Path("verl", "demo_completions.jsonl")
"""Some completions of the bundled run."""
_MOST_MARKED = 8
"""Maximum number of runs that are distinguishable in one chart."""
DEMO_SPEED = 180.0
"""The recording's steps take 83 to 180 s: about two rows a second."""


def show(arguments: Namespace) -> int:
    config = load_config(arguments)
    if arguments.paths == [STANDARD_INPUT]:
        return _show_pipe(config, arguments)
    if arguments.baseline is not None:
        return _show_beside(config, arguments)
    if _is_text(arguments):
        return _print(look(arguments.paths), config, arguments)
    begun = begin_look(arguments.paths)
    from rltop.cli.screen import watch
    from rltop.run.discover import future_run, is_awaited, run_being_sought

    config = config._replace(ui=config.ui._replace(lists_first=not arguments.newest))
    paths = arguments.paths or ["."]
    if not begun.worker.join(LOOK_DEADLINE_S):
        return watch([run_being_sought(paths, begun.so_far, begun.silent_s)], config, paths, first=begun)
    discovery = begun.result()
    if (discovery.missing or not discovery.found) and is_awaited(discovery):
        return watch([future_run(paths, discovery)], config, paths, discovery.left_out)
    return _watch(discovery, config, arguments, paths)


def _watch(discovery: Discovery, config: Config, arguments: Namespace, paths: Sequence[str]) -> int:
    from rltop.cli.screen import watch

    found = discovery.found
    if arguments.newest:
        found = newest_first(found)
    return watch(found, config, paths if discovery.may_grow else (), discovery.left_out, seen=discovery.seen)


def _show_beside(config: Config, arguments: Namespace) -> int:
    baseline = one_run(arguments.baseline).path
    paths = arguments.paths or ["."]
    discovery = look(paths)
    same = next((each for each in discovery.found if os.path.realpath(each.path) == os.path.realpath(baseline)), None)
    if same is None:
        paths = [*paths, arguments.baseline]
        discovery = look(paths)
    else:
        baseline = same.path
    others = [each.path for each in discovery.found if each.path != baseline]
    if not others:
        raise SourceError(f"there is no run to compare with {arguments.baseline}", "name it: rltop RUN --baseline RUN")
    if _is_text(arguments):
        return _print(discovery, config, arguments, baseline)
    # With one run besides the baseline, open it at once; Escape leads to the list of both.
    is_pair = len(others) == 1
    discovery.found.sort(key=lambda each: is_pair and each.path == baseline)
    few = [baseline, *others] if len(others) < _MOST_MARKED else [baseline]
    ui = config.ui._replace(lists_first=not (arguments.newest or is_pair), marked=few, baseline=baseline)
    return _watch(discovery, config._replace(ui=ui), arguments, paths)


def _print(discovery: Discovery, config: Config, arguments: Namespace, baseline: str = "") -> int:
    if not discovery.found:
        gone = next((path for path in discovery.missing if not has_magic(path)), None)
        if gone is not None:
            raise cannot_read(gone, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        print_error(*why_nothing_found(arguments.paths, discovery))
        return EXIT_NO_METRICS
    from rltop.cli.check import print_once, print_several

    say_left_out(discovery.left_out)
    found = newest_first([each for each in discovery.found if each.path != baseline])
    if not arguments.newest and (len(found) > 1 or (baseline and arguments.json)):
        code = print_several(discovery.found, config, arguments)
    else:
        other = next((each for each in discovery.found if each.path == baseline), None)
        code = print_once(found[0], config, arguments, other)
    return EXIT_USAGE if discovery.failed else code


def _show_pipe(config: Config, arguments: Namespace) -> int:
    pipe = take_standard_input()
    if _is_text(arguments):
        from rltop.cli.check import print_piped

        return print_piped(pipe, config, arguments)
    from rltop.cli.screen import watch_pipe

    return watch_pipe(pipe, config)


def replay(arguments: Namespace) -> int:
    return _play(arguments.path, Label.of(f"replay {name_of(arguments.path).raw}"), arguments)


def demo(arguments: Namespace) -> int:
    arguments.speed = arguments.speed or DEMO_SPEED
    arguments.rollouts = arguments.rollouts or str(folder("fixtures") / DEMO_ROLLOUTS)
    return _play(str(folder("fixtures") / DEMO), Label.of(f"demo {DEMO.parent.name}"), arguments)


def _play(path: str, name: Label, arguments: Namespace) -> int:
    from rltop.cli.open_session import file_size

    config = load_config(arguments)
    require_usable_paths([path])

    def size() -> int:
        found = file_size(path)
        with Path(path).open("rb"):
            # Fail before there is a screen if the file is unreadable.
            return found

    try:
        found = FoundRun(path, name, answered(path, size))
    except OSError as error:
        raise cannot_read(path, error) from error
    if _is_text(arguments):
        from rltop.cli.check import print_once

        return print_once(found, config, arguments)
    from rltop.cli.screen import play

    return play(found, config, speed=arguments.speed, warm_start=arguments.warm_start)


def _is_text(arguments: Namespace) -> bool:
    """Whether to print text instead of a screen: on request, or because the terminal has none, which is reported."""
    if is_served(os.environ) and not (arguments.once or arguments.json):
        return False
    if arguments.once or arguments.json or not is_terminal() or sys.stdin is None or not sys.stdin.isatty():
        return True
    if not is_plain_terminal(os.environ):
        return False
    what = f"TERM={term}" if (term := os.environ.get("TERM", "")) else "TERM is not set"
    print_error(
        f"{what}: this terminal cannot show the live screen; printing the overview once",
        "  if it can, set TERM: TERM=xterm-256color rltop …",
    )
    return True

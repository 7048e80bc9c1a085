"""The most common command lines: `rltop`, `rltop PATH ...` and `rltop check [--json] PATH ...`, without other options.

They bypass `argparse`: importing it, with its dependencies for translation and terminal size, takes a tenth of the time
to the first frame and a twentieth of a small `check`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from rltop.errors import RltopError

if TYPE_CHECKING:
    from argparse import Namespace


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection inside, and freeze the objects created.

    Otherwise the collector runs a hundred times during the imports, a tenth of their time, and scans the modules again
    in every full collection of a long run.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


COMMANDS = ("callback", "check", "watch", "replay", "demo", "skill", "completions", "config", "report", "where")
"""First words that are commands, not paths."""


def plain(argv: Sequence[str]) -> Namespace | None:
    """The result of `arguments.parse` for these command lines; None for any other."""
    if argv and argv[0] == "check":
        return _plain_check(argv[1:])
    if not all(map(_is_path, argv)) or (argv and argv[0] in COMMANDS):
        return None
    found = SimpleNamespace(
        command=show, paths=list(argv), baseline=None, newest=False, config=None, once=False, json=False, live=False,
        width=None, metrics=[], prometheus=[], ray=[], nodes=None, via=None, job=[], token_file=[], cacert=None,
    )  # fmt: skip
    return cast("Namespace", found)


def _is_path(word: str) -> bool:
    return not word.startswith("-") and not word.isspace() and word != ""


def _plain_check(words: Sequence[str]) -> Namespace | None:
    is_json = bool(words) and "--json" in (words[0], words[-1])
    paths = list(words[1:] if is_json and words[0] == "--json" else words[: len(words) - is_json])
    if not paths or not all(map(_is_path, paths)):
        return None
    found = SimpleNamespace(
        command=check, paths=paths, json=is_json, explain=None, rules=False, since=None, fail_on="crit", ever=False,
        width=None, summary=None, config=None,
    )  # fmt: skip
    return cast("Namespace", found)


def check(arguments: Namespace) -> int:
    with importing():
        from rltop.cli.check import check as apply_rules

    return apply_rules(arguments)


def refuse_mistyped(paths: Sequence[str]) -> None:
    """Refuse a mistyped command, and a command that is not the first word.

    Raises:
        RltopError: names the command.
    """
    import os

    for place, path in enumerate(paths):
        if any(sign in path for sign in "/.*?[") or os.path.lexists(path):
            continue
        if path in COMMANDS:
            raise RltopError(
                f"{path} is a command; commands come first", f"rltop {path} …; for a file of that name: ./{path}"
            )
        close = nearest_of(path.lower(), COMMANDS) if place == 0 else ""
        if close:
            raise RltopError(
                f"no such command or file: {path}", f"did you mean rltop {close}? for a file of that name: ./{path}"
            )


def nearest_of(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.75)), "")


def show(arguments: Namespace) -> int:
    refuse_mistyped(arguments.paths)
    with importing():
        from rltop.cli import show as screen_or_text

    return screen_or_text.show(arguments)

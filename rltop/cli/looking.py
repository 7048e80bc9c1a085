"""What was asked for: the configuration, and the files that paths mean.

Light on purpose: all that stands between the typed command and the first frame.
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.config import Config, load
from rltop.errors import RltopError, SourceError
from rltop.ingest.discover import Discovery, discover
from rltop.ingest.found import Found, name_of
from rltop.metrics.howto import HOWTO
from rltop.model import Label

if TYPE_CHECKING:
    from argparse import Namespace

LOOK_DEADLINE_S = 2.0
"""How long the first look at a path may take before the screen comes up without it."""


def load_config(arguments: Namespace) -> Config:
    """Settle every option from flags, environment and file.

    Raises:
        ConfigError: names the place, the key and the remedy.
    """
    return load(vars(arguments), os.environ, Path(arguments.config) if arguments.config else None)


def look(paths: Sequence[str]) -> Discovery:
    """Find what `paths` mean, without ever hanging on a dead server.

    A plain file whose server does not answer is followed all the same: the screen
    says that there is no answer, and shows the rows when there is one.

    Raises:
        SourceError: a path cannot be followed, or a directory does not answer.
    """
    if "-" in paths:
        raise SourceError("standard input cannot be watched together with files", "name - alone")
    stand_somewhere(paths)
    found: list[Discovery] = []
    failed: list[RltopError] = []

    def work() -> None:
        try:
            found.append(discover(paths))
        except RltopError as error:
            failed.append(error)

    worker = threading.Thread(target=work, name="discover", daemon=True)
    worker.start()
    worker.join(LOOK_DEADLINE_S)
    if failed:
        raise failed[0]
    if found:
        return found[0]
    if paths and not any(path.endswith("/") or glob.has_magic(path) for path in paths):
        return Discovery([Found(path, name_of(path)) for path in paths])
    raise SourceError(
        f"no answer from the file system for {LOOK_DEADLINE_S:.0f} s while looking in {', '.join(paths) or '.'}",
        "name the metric file itself: rltop follows it as soon as the server answers",
    )


def stand_somewhere(paths: Sequence[str]) -> None:
    """See that relative paths mean something: that the current directory has not been deleted.

    Raises:
        SourceError: it has.
    """
    if paths and all(os.path.expanduser(path).startswith("/") for path in paths):  # noqa: PTH111
        return
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise SourceError(
            f"the current directory cannot be used: {error.strerror}", "cd into one that exists, or name whole paths"
        ) from error


def one_of_several(found: Sequence[Found]) -> str:
    """Which run is taken where only one can be, and which others there are."""
    others = [Label.of(each.path).display for each in found[1:4]]
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return f"this is {Label.of(found[0].path).display}, one of {len(found)} runs; also: {', '.join(others)}{more}"


def nothing_found(paths: Sequence[str], discovery: Discovery) -> list[str]:
    """What was looked at, and how each trainer is made to write metrics."""
    lines = [f"no metric stream in {', '.join(discovery.looked_in) or ', '.join(paths) or 'the current directory'}"]
    lines += [f"nothing matches {path}" for path in discovery.missing]
    if discovery.passed_over:
        lines.append("looked at:")
        lines += [f"  {path}: {reason}" for path, reason in discovery.passed_over[:12]]
        if len(discovery.passed_over) > 12:
            lines.append(f"  and {len(discovery.passed_over) - 12} more")
    lines.append("how each trainer writes one:")
    width = max(len(each.trainer) for each in HOWTO)
    for each in sorted(HOWTO, key=lambda each: not each.is_followed):
        what = each.summary if each.is_followed else f"{each.kind.value}, not read yet: {each.summary}"
        lines.append(f"  {each.trainer:<{width}}  {what}")
    return lines

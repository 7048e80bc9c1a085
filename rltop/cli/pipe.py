"""`rltop -`: metrics on standard input, keys from the terminal itself."""

from __future__ import annotations

import os
import sys

from rltop.errors import SourceError
from rltop.model import Label
from rltop.run.found import Found

STANDARD_INPUT = "-"


def piped_found() -> Found:
    return Found(STANDARD_INPUT, Label.of("standard input"))


def take_standard_input() -> int:
    """Keep the pipe under another descriptor and put the terminal in its place, for the keys.

    Raises:
        SourceError: standard input is the terminal, so there is nothing to read.
    """
    if os.isatty(0):
        raise SourceError("standard input is the terminal", "pipe a log into it: ssh node tail -F train.log | rltop -")
    pipe = os.dup(0)
    if os.isatty(1):
        try:
            terminal = os.open("/dev/tty", os.O_RDWR)
        except OSError:
            return pipe
        os.dup2(terminal, 0)
        os.close(terminal)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the terminal, for as long as we run
    return pipe

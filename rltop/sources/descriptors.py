"""How many files may be open at once, and which of them may stay so.

The kernel hands out the lowest number that is free, so a handle says by itself how
many are in use: no book has to be kept.
"""

from __future__ import annotations

import os

MOST = 65_536
"""More are not asked for, whatever the hard limit is: programs that are run on an alert inherit it."""
RESERVE = 128
"""Kept free for everything but files that are followed: the terminal, the event loop, imports, looks at directories."""
FEW = 64
"""Where so few may be open, none is spent on being woken by the kernel."""


def limit() -> int:
    """How many files this process may have open."""
    soft = os.sysconf("SC_OPEN_MAX")
    return soft if soft >= 0 else MOST


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as far as that is of use; where it may not be, it stays."""
    import resource  # noqa: PLC0415 - nothing else wants it, and the first frame is not to wait for it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft in (resource.RLIM_INFINITY, wanted) or soft > wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # A sandbox may forbid it: files that rest are closed then.
        return


def is_scarce(handle: int) -> bool:
    """Is this one of the last that can be had, so that it must not stay open while nothing is read from it?"""
    return handle >= limit() - RESERVE

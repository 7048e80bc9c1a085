"""Imports of a whole command at once, without looking for garbage among what stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """What is made in here is neither searched for garbage meanwhile nor ever after.

    Otherwise it is a hundred times while modules are imported, a tenth of the time
    that takes, and again with every full collection of a long run.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

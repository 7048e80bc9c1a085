"""Imports without garbage collection in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection inside, and freeze what was created.

    Otherwise the collector runs a hundred times during the imports, a tenth of their
    time, and scans the modules again with every full collection of a long run.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

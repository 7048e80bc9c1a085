"""What a run's settings say of its pipeline: how stale a sample may be, and how many GPUs there are."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from rltop.catalog.dialect import Identity

if TYPE_CHECKING:
    from rltop.run.run_settings import RunSettings

_PATIENCE_S = 0.2
"""A file server that takes longer is not waited for: what it would have said stays unknown."""


def told_beside(identity: Identity, *, path: str, gpus: int | None) -> Identity:
    """The identity with what the settings beside a run say, as far as its trainer is known to write it.

    Args:
        gpus: as the user says; None: look.
    """
    dialect = identity.dialect
    if path == "-" or not (dialect.staleness_bounds or dialect.gpus):
        return identity._replace(gpus=gpus)
    settings = _read(path)
    # A fraction of a version (ROLL's ratio) lets samples of the version before in.
    bounds = [math.ceil(found) for name in dialect.staleness_bounds if (found := _number(settings, name)) is not None]
    products = [[_number(settings, name) for name in names] for names in dialect.gpus]
    known = [math.prod(one for one in product if one is not None) for product in products if None not in product]
    counted = int(sum(known)) if known and len(known) == len(products) else None
    return identity._replace(staleness_bound=bounds[0] if bounds else None, gpus=gpus or counted or None)


def _number(settings: RunSettings, name: str) -> float | None:
    for found in settings.find(name)[:1]:
        value = settings.values[found]
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
            return float(value)
    return None


def _read(path: str) -> RunSettings:
    """The settings; in a thread of its own where the file server may not answer."""
    from rltop.run.run_settings import RunSettings, settings_beside  # noqa: PLC0415 - of asynchronous runs alone
    from rltop.sources.file import mount_of  # noqa: PLC0415

    if not mount_of(path).is_network:
        return settings_beside(path)
    found: list[RunSettings] = []
    thread = threading.Thread(target=lambda: found.append(settings_beside(path)), name="settings", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return found[0] if found else RunSettings()

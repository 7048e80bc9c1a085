"""Options for reading and judging runs, and the interfaces that a session's driver provides.

Imports no rules and no readers: the configuration needs it before the first frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rltop.catalog.row_sets import Arrangement
from rltop.formats.decoder import DecoderOptions
from rltop.rules.options import EngineOptions
from rltop.sources.feed import Feed
from rltop.sources.tail import LastRows
from rltop.store.series import StoreOptions
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.live.probe import Probe
    from rltop.run.preferences import Acknowledgements, Goal, OwnRules

OpenFeed = Callable[[str, LastRows | None], Feed]
"""Follow a path from its beginning, or from its last rows on."""


class IngestOptions(NamedTuple):
    """Options for reading and judging runs.

    Attributes:
        total_steps: planned number of steps, if the user gives it.
        has_preview: show the last rows of a large file while history is read.
        rollouts: path or glob of the rollouts; empty searches near each run.
        log: console log of the runs; empty searches near each run.
        meanings: project → key → canonical name, as set by the user.
        acknowledged: path → rule → alert that is silent until it gets worse; for a screen.
        follows_jobs: report where the job of a run is; off for replays.
        probes: makes further probes, given a function that returns the run's console log; None for none.
        own_rules: thresholds and mutes by run, project or everywhere, as set on the screen.
    """

    decoder: DecoderOptions = DecoderOptions()
    store: StoreOptions = StoreOptions()
    rules: EngineOptions = EngineOptions()
    total_steps: int | None = None
    gpus: int | None = None
    has_preview: bool = True
    rollouts: str = ""
    log: str = ""
    meanings: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    rows: Mapping[str, Arrangement] = MappingProxyType({})
    acknowledged: Mapping[str, Acknowledgements] = MappingProxyType({})
    follows_jobs: bool = True
    probes: Callable[[Callable[[], str]], Sequence[Probe]] | None = None
    goals: Mapping[str, Goal] = MappingProxyType({})
    own_rules: OwnRules = MappingProxyType({})


class Notifier:
    """Passes notifications of reader threads on to the screen.

    Needed because feeds exist before the screen does.
    """

    def __init__(self) -> None:
        self._listener: Callable[[], None] | None = None
        self.count = 0

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call `listener` on each notification, in the notifying thread."""
        self._listener = listener

    def notify(self) -> None:
        self.count += 1
        listener = self._listener
        if listener is not None:
            listener()

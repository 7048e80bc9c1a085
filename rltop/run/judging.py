"""What the rules say of one stream: as of now, the open row included.

Imports no rule: the first frame shows a stream that nobody judges.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rltop.model import Event, Verdict
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.run.rule_runner import RuleRunner
    from rltop.run.run_stream import RunStream

_BEFORE_HISTORY = frozenset({"nonfinite"})
"""Families that may speak before the whole history has been judged."""


class Judged(NamedTuple):
    """What the rules say, the open row included.

    Attributes:
        verdicts: as if the open row were closed.
        events: every transition, those of the open row as provisional.
        event_times: when the row behind each event was written, as far as it says.
        muted: verdicts that are left out because their rule is muted.
        profiles: names of the profiles whose thresholds hold; the event log says why.
        warm_up: (records seen, records wanted) while rules warm up; None when they have.
    """

    verdicts: Sequence[Verdict]
    events: Sequence[Event]
    event_times: Sequence[float | None]
    muted: Sequence[Verdict] = ()
    profiles: Sequence[str] = ()
    warm_up: tuple[int, int] | None = None


class Judging:
    """What the rules say of one stream.

    Args:
        stream: whose rows they judge.

    Attributes:
        changes: moves when a rule is muted or told something that is in no row.
    """

    def __init__(self, stream: RunStream) -> None:
        self.changes = 0
        self._stream = stream
        self._judged: tuple[Hashable, Judged] = (None, Judged((), (), ()))
        self._checkpoints = CheckpointFinder(stream.path.raw, is_network=stream.whole.feed.is_network)

    @property
    def rules(self) -> RuleRunner | None:
        """The rules that judge the whole file; None where nothing is judged."""
        return self._stream.known.rules

    @property
    def now(self) -> Judged:
        """What the rules say of the stream for itself."""
        return self.judged(is_loading=self._stream.loading is not None)

    def judged(self, *, is_loading: bool) -> Judged:
        """What the rules say; looks at the open row when something has moved.

        Args:
            is_loading: history, of this or of another stream of the run, is still being read: only values that
                are no numbers may be spoken of, and only provisionally.
        """
        known = self._known(is_loading)
        if self._judged[0] != known:
            self._judged = (known, self._judge(is_loading))
        return self._judged[1]

    def is_judged(self, *, is_loading: bool) -> bool:
        """Does `judged` know its answer already? To work it out takes milliseconds."""
        return self._judged[0] == self._known(is_loading)

    def _known(self, is_loading: bool) -> Hashable:
        rules = self.rules
        return self._stream.version, is_loading, 0 if rules is None else len(rules.events)

    def _judge(self, is_loading: bool) -> Judged:
        rules, shown = self.rules, self._stream.shown
        identity = shown.pipeline.current_identity()
        seen = None
        if shown.rules is not None and identity is not None:
            seen = shown.rules.peek(shown.pipeline.stream, identity)
        verdicts: Sequence[Verdict] = () if seen is None else seen.verdicts
        muted: Sequence[Verdict] = () if seen is None else seen.muted
        settled, times = ([], []) if rules is None else (rules.events, rules.event_times)
        profiles: Sequence[str] = () if rules is None else [profile.name for profile in rules.profiles]
        warm_up = None if rules is None else rules.warm_up(self._stream.known.pipeline.stream)
        if self._stream.is_preview or is_loading:
            verdicts = [v._replace(is_provisional=True) for v in verdicts if v.family in _BEFORE_HISTORY]
            return Judged(verdicts, settled, times, (), profiles, warm_up)
        if seen is not None:
            profiles, warm_up = seen.profiles, seen.warm_up
            if seen.events:
                settled, times = [*settled, *seen.events], [*times, *seen.event_times]
        return Judged(verdicts, settled, times, muted, profiles, warm_up)

    def standing(self, *, is_loading: bool) -> Sequence[Verdict]:
        """What fires now and what has just recovered, worst first, silence included.

        Args:
            is_loading: history, of this or of another stream of the run, is still being read.
        """
        found, timed = self.judged(is_loading=is_loading).verdicts, self._stream.timed_verdicts
        return sorted([*found, *timed], key=lambda v: (*v.urgency, v.since_record)) if timed else found

    def mute(self, rule: str, is_muted: bool = True) -> None:
        """Leave a rule's verdicts out, or put them back; its events go on being logged.

        Args:
            rule: its id.
            is_muted: True leaves them out, False puts them back.

        Raises:
            KeyError: there is no such rule.
        """
        for path in (self._stream.whole, self._stream.known, *self._stream.previews):
            if path.rules is not None:
                path.rules.mute(rule, is_muted)
        self.changes += 1

    @property
    def muted(self) -> frozenset[str]:
        """Ids of the rules that are muted, from the screen."""
        return frozenset() if self.rules is None else self.rules.muted

    @property
    def silenced(self) -> frozenset[str]:
        """Ids of the rules that the settings switch off."""
        rules = self.rules
        return frozenset() if rules is None else rules.options.silenced(self.now.profiles)

    @property
    def records(self) -> int:
        """Training rows judged so far."""
        return 0 if self.rules is None else self.rules.records

    @property
    def has_checkpoints(self) -> bool:
        """Have checkpoints been found of which the rules have not been told yet?"""
        return self._checkpoints.has_found

    def look_for_checkpoints(self) -> None:
        """A collapse names the last checkpoint before it: see which there are."""
        if self.rules is not None and self._checkpoints.look_for(self.rules):
            self.changes += 1


class CheckpointFinder:
    """Looks for checkpoints when a collapse begins; in a thread where the file server may not answer.

    Args:
        path: of the metric file; nothing lies beside standard input.
        is_network: it lies on a network file system.
    """

    def __init__(self, path: str, *, is_network: bool) -> None:
        self._path = path
        self._is_network = is_network
        self._collapses = 0
        self._found: tuple[int, ...] | None = None

    @property
    def has_found(self) -> bool:
        """Is there an answer that the rules have not been told yet?"""
        return self._found is not None

    def look_for(self, rules: RuleRunner) -> bool:
        """Look if a collapse has begun, and tell the rules what was found; True if they were told."""
        has_told = self._tell(rules)
        if rules.collapses == self._collapses or self._path == "-":
            return has_told
        self._collapses = rules.collapses
        if self._is_network:
            threading.Thread(target=self._look, name="checkpoints", daemon=True).start()
            return has_told
        self._look()
        return self._tell(rules)

    def _tell(self, rules: RuleRunner) -> bool:
        if self._found is None:
            return False
        rules.take_checkpoints(self._found)
        self._found = None
        return True

    def _look(self) -> None:
        from rltop.run.beside import checkpoint_steps  # noqa: PLC0415 - only for a run that collapses

        self._found = checkpoint_steps(self._path)

"""What a view reads of a run: the reading side of `ingest.TrackedRun`.

A protocol, because a screen shows a live run, the preview of one and a recorded
one alike, and asks nothing of them but this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rltop.metrics.dialect import Identity
from rltop.model import Counts, Event, Label, RunState, Verdict
from rltop.store.stream import Stream

if TYPE_CHECKING:
    from rltop.derive.spans import SpanBook


class RunSource(Protocol):
    """One run, as far as a screen needs to know it; see `ingest.tracked`."""

    @property
    def name(self) -> Label:
        """What the run is called."""
        ...

    @property
    def path(self) -> Label:
        """Where it is read from."""
        ...

    @property
    def stream(self) -> Stream:
        """Its rows: the preview until history has caught up."""
        ...

    @property
    def spans(self) -> SpanBook | None:
        """True spans of the newest steps; None where the run's files hold none."""
        ...

    @property
    def identity(self) -> Identity | None:
        """Whose keys these are; None until it is settled."""
        ...

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Firing, then recently recovered; worst first."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """Every transition so far, in the order of the file."""
        ...

    @property
    def warm_up(self) -> tuple[int, int] | None:
        """Records seen and records needed, while the rules warm up."""
        ...

    @property
    def state(self) -> RunState:
        """The state word of the header."""
        ...

    @property
    def state_note(self) -> str:
        """What is behind the state, as one sentence; may be empty."""
        ...

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest record came, or None where nobody knows."""
        ...

    @property
    def loading(self) -> float | None:
        """Fraction of the history that has been read; None when complete."""
        ...

    @property
    def is_preview(self) -> bool:
        """The stream holds the newest rows only, for the time being."""
        ...

    @property
    def counts(self) -> Counts:
        """What was read, and what was not understood."""
        ...

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, where it is known."""
        ...

"""The streams of a run, where it has several: how far each has come, by its own steps."""

from __future__ import annotations

from dataclasses import dataclass

from rltop import units
from rltop.model import Label, RunState
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One stream: its name, the step that it is at on the screen, and whether it goes on."""

    name: Label
    step: int | None
    state: RunState


@dataclass(frozen=True, slots=True)
class StreamsView:
    """The streams of a run, the main one first, and how many ranks there are besides."""

    entries: tuple[StreamEntry, ...]
    ranks: int


def build_streams(snapshot: Snapshot) -> StreamsView | None:
    """How far each stream has come; None where there is only one."""
    _, *beside = snapshot.streams
    if not beside:
        return None
    parts = [part for part in beside if not part.source.is_rank]
    entries = [StreamEntry(Label.of(snapshot.stream.name or "run"), snapshot.step, snapshot.source.state)]
    entries += [StreamEntry(Label.of(part.role), part.step, part.source.state) for part in parts]
    return StreamsView(tuple(entries), len(beside) - len(parts))


def paint_streams(view: StreamsView, width: int, glyphs: Glyphs) -> Row:
    """All streams in one row; what does not fit is counted."""
    builder = RowBuilder(width, glyphs).add(" STREAMS", "title")
    left = len(view.entries)
    for entry in view.entries:
        step = "no row yet" if entry.step is None else f"step {units.step(entry.step)}"
        state = "" if entry.state is RunState.LIVE else f" {entry.state.value}"
        if builder.room < cell_width(entry.name.display) + len(step) + len(state) + 10:
            break
        left -= 1
        builder.add("  ").add(f"{glyphs.state(entry.state)} ", "dim").add(entry.name.display, "strong")
        builder.add(f" {step}", "value").add(state, "dim")
    if left:
        builder.add(f"  +{left}", "dim")
    if view.ranks:
        words = f"{units.count(view.ranks)} {'rank' if view.ranks == 1 else 'ranks'}"
        if builder.room >= len(words) + 2:
            builder.add("  ").add(words, "text", Target(TargetKind.RANKS))
    return builder.row()

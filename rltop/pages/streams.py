"""The streams of a run, where it has several: how far each has come, by its own steps."""

from __future__ import annotations

from collections.abc import Sequence

from rltop import units
from rltop.model import Label, RunState
from rltop.pages.source import RunSource, step_in
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.structs import Struct


class StreamEntry(Struct):
    """One stream: its name, the step that it is at on the screen, and whether it goes on."""

    name: Label
    step: int | None
    state: RunState


class StreamsView(Struct):
    """The streams of a run, the main one first, and how many ranks there are besides."""

    entries: tuple[StreamEntry, ...]
    ranks: int


def build_streams(run: RunSource, at: int | None = None) -> StreamsView | None:
    """How far each stream has come; None where there is only one."""
    if not run.beside:
        return None
    parts: Sequence[RunSource] = [part for part in run.beside if not part.is_rank]
    entries = [
        StreamEntry(Label.of(run.stream.name or "run"), at if at is not None else run.stream.last_step, run.state)
    ]
    for part in parts:
        here = step_in(part, run, at)
        step = here if here is not None else part.stream.last_step
        entries.append(StreamEntry(Label.of(part.role), step, part.state))
    return StreamsView(tuple(entries), len(run.beside) - len(parts))


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

"""What a page of rollouts says where there is nothing to see yet, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import units
from rltop.metrics.howto import ROLLOUTS
from rltop.model import Label
from rltop.view.cells import RowBuilder, text_row, wrap
from rltop.view.glyphs import Glyphs
from rltop.view.lines import Row

if TYPE_CHECKING:
    from rltop.view.rollouts import RolloutsView


def home_of(places: Sequence[str], run_path: str) -> str:
    """The places as a person would name them from the run's folder."""
    if not places:
        return ""
    home, place = Path(run_path).absolute().parent, places[0]
    if Path(place).is_relative_to(home):
        place = str(Path(place).relative_to(home))
    return place if len(places) == 1 else f"{place} and {len(places) - 1} more"


def paint_nothing(view: RolloutsView, width: int, glyphs: Glyphs) -> list[Row]:
    """Why there is nothing to see, and how to get it."""
    state = view.state
    if state is None or state.is_looking:
        return _paragraph("looking for rollouts ...", width, glyphs, "dim")
    if view.step is not None and not state.has_failed:
        return _paragraph(f"reading step {units.step(view.step)} ...", width, glyphs, "dim")
    if state.places:
        done = "" if state.progress is None else f", {units.share(state.progress)} looked through"
        where = home_of(state.places, view.run_path.raw)
        rows = _paragraph(f"no completion of any step in {Label.of(where).display}{done}", width, glyphs, "text")
        return [
            *rows,
            *(row for note in state.notes for row in _paragraph(Label.of(note).display, width, glyphs, "warn")),
        ]
    if state.is_given or state.has_failed:
        return [row for note in state.notes for row in _paragraph(Label.of(note).display, width, glyphs, "warn")]
    rows = _paragraph(
        f"No rollouts were found beside {view.run_path.display}. They are one record per completion, which trainers "
        "write only when asked to:",
        width, glyphs, "text",
    )  # fmt: skip
    rows.append(Row(()))
    known = sorted(ROLLOUTS, key=lambda entry: entry.trainer != view.trainer)
    name = max(len(entry.trainer) for entry in ROLLOUTS) + 2
    for entry in known:
        is_own = entry.trainer == view.trainer
        lines = wrap(entry.line, width - name - 3, 3)
        for i, line in enumerate(lines):
            builder = RowBuilder(width, glyphs).add(" ").left(entry.trainer if i == 0 else "", name, "strong")
            rows.append(builder.add(line, "key" if is_own else "text").row())
        if is_own or width >= 100:
            builder = RowBuilder(width, glyphs).add(" ").left("", name)
            rows.append(builder.add(f"{glyphs.arrow} {entry.writes}", "dim").row())
    rows.append(Row(()))
    return rows + _paragraph("Elsewhere? rltop RUN --rollouts PATH, a file, a folder or a glob.", width, glyphs, "text")


def _paragraph(text: str, width: int, glyphs: Glyphs, role: str) -> list[Row]:
    return [text_row(line, width, glyphs, role) for line in wrap(text, width - 2, 6)]

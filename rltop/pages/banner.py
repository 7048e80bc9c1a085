"""The banner of a collapse: since when, the last good step, and what moved when.

Owns when there is one and what is left out where there is no room; the dates are
the composite rule's.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop import units
from rltop.model import Label, Level, Verdict, VerdictState
from rltop.pages.signals import catalogue_title
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.structs import Struct

_FAMILY = "collapse"
_NAMED = 5
_SET = "lr"


class Banner(Struct):
    """What a collapse is dated with.

    Attributes:
        rule: that fires.
        onset_step: where it began.
        last_good_step: the step before it, or None where it is no longer known.
        checkpoint_step: the last checkpoint logged before it, or None.
        movers: title and step of what moved, first mover first.
    """

    rule: str
    onset_step: int
    last_good_step: int | None
    checkpoint_step: int | None
    movers: tuple[tuple[str, int], ...]


def build_banner(verdicts: Sequence[Verdict]) -> Banner | None:
    """The banner of a critical collapse that stands and is dated; None without one."""
    for verdict in verdicts:
        if verdict.family != _FAMILY or verdict.state is not VerdictState.FIRING or verdict.level < Level.CRIT:
            continue
        # A composite fires seldom, and the rules are not wanted before the first frame.
        from rltop.rules.collapse import story  # noqa: PLC0415

        found = story(verdict)
        if found is not None:
            # What is set from outside before what is measured, where both moved at one step.
            movers = [mover for mover in found.movers if mover.step >= found.onset_step]
            order = sorted(movers, key=lambda mover: (mover.step, mover.metric != _SET))
            told = tuple((catalogue_title(mover.metric), mover.step) for mover in order)
            return Banner(verdict.rule, found.onset_step, found.last_good_step, found.checkpoint_step, told)
    return None


def _moved(movers: Sequence[tuple[str, int]], onset: int) -> str:
    """What it began with and what moved then; what moved at the same step has no order."""
    by_step: dict[int, list[str]] = {}
    for title, step in movers:
        by_step.setdefault(step, []).append(Label.of(title).display)
    first, *then = (f"{', '.join(titles)} at {units.step(step)}" for step, titles in by_step.items())
    began = f"began with: {first}" if by_step and min(by_step) == onset else f"moved: {first}"
    return began + (f", then {', '.join(then)}" if then else "")


def paint_banner(banner: Banner, width: int, glyphs: Glyphs) -> Row:
    """One row; what does not fit whole is left out from the end.

    Args:
        banner: what it says.
        width: cells.
        glyphs: the signs to draw with.
    """
    builder = RowBuilder(width, glyphs).add(
        f" {glyphs.level(Level.CRIT)} COLLAPSE since {units.step(banner.onset_step)}", "crit"
    )
    parts = []
    if banner.last_good_step is not None:
        parts.append(f"last good step {units.step(banner.last_good_step)}")
    if banner.checkpoint_step is not None:
        parts.append(f"checkpoint {units.step(banner.checkpoint_step)}")
    else:
        parts.append("no earlier checkpoint logged")
    for part in parts:
        if cell_width(part) + 3 <= builder.room:
            builder.add(" · ", "crit").add(part, "strong")
    told = (_moved(banner.movers[:count], banner.onset_step) for count in range(min(len(banner.movers), _NAMED), 0, -1))
    moved = next((text for text in told if cell_width(text) + 3 <= builder.room), "")
    if moved:
        builder.add(" · ", "crit").add(moved, "strong")
    return builder.row(Target(TargetKind.VERDICT, banner.rule))

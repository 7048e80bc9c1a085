"""The line above the footer: what is selected, which step is shown, what was not understood."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rltop import units
from rltop.model import Counts, Label
from rltop.pages.moment import Moment
from rltop.rows.cells import RowBuilder, clip, clip_middle
from rltop.rows.keys import KeyNames
from rltop.rows.rows import Row, Target
from rltop.rows.selection import target_text
from rltop.rows.widths import cell_width

_SKIPPED = (
    ("unreadable_files", "files unreadable"),
    ("bad_lines", "unreadable"),
    ("cut_evaluations", "evaluations cut off"),
    ("oversize_lines", "too long"),
    ("no_step_lines", "without a step"),
    ("unusable_steps", "steps out of range"),
    ("keys_over_cap", "keys over the limit"),
    ("nul_bytes", "NUL bytes"),
)
"""What is worth a word on every screen; `--json` has every count."""


def paint_status(
    moment: Moment,
    target: Target | None,
    width: int,
    keys: KeyNames,
    *,
    has_counts: bool = True,
    below: int = 0,
    told: str = "",
) -> Row:
    """The status line as a row of `width` cells.

    Args:
        moment: run, step and signs.
        target: what is selected.
        width: cells.
        keys: those to name.
        has_counts: say what was not understood; a page that does so itself leaves it out.
        below: rows of the page that are out of sight under the last one.
        told: what the last key has to say, which for now is all there is to read.
    """
    if told:
        return RowBuilder(width, moment.glyphs).add(" ").add(clip(told, width - 2), "strong").row()
    right: list[tuple[str, str]] = []
    if moment.left_out:
        right.append((left_out_text(moment.left_out, width // 2), "warn"))
    skipped = skipped_text(moment.run.counts) if has_counts else ""
    if skipped:
        right.append((skipped, "warn"))
    if moment.run.muted:
        right.append((f"muted {len(moment.run.muted)}{keys.clause('unmute', ': {} unmutes')}", "dim"))
    if moment.is_paused:
        right.append((f"paused{_step_text(moment)}{keys.clause('pause', ': {} resumes')}", "paused"))
    elif moment.at_step is not None:
        right.append((f"{_step_text(moment)}{keys.clause('live', ': {} returns to live')}".strip(), "cursor"))
    if below:
        right.append((f"↓ {units.count(below)} more", "note"))
    builder = RowBuilder(width, moment.glyphs).add(" ")
    taken = sum(cell_width(text) + 3 for text, _ in right)
    if width - 2 - taken >= 8:
        builder.add(clip_middle(target_text(target), width - 2 - taken), "key")
    if right:
        builder.to(max(builder.column + 1, width - taken + 2))
    for i, (text, role) in enumerate(right):
        builder.add("   " if i else "").add(text, role)
    return builder.row()


def _step_text(moment: Moment) -> str:
    """The step at the cursor; or the steps whose mean stands for it where memory has downsampled them."""
    if moment.at_step is None:
        return ""
    bucket = moment.snapshot.stream.downsampled_range(moment.at_step)
    if bucket is None:
        return f" at step {units.step(moment.at_step)}"
    return f" at steps {units.step(bucket[0])}–{units.step(bucket[1])}, mean"


def skipped_text(counts: Counts) -> str:
    """What was not understood, in a few words; empty when everything was."""
    found = [(getattr(counts, name), word) for name, word in _SKIPPED if getattr(counts, name)]
    return ", ".join(f"{number:,} {word}" for number, word in found)


def left_out_text(left_out: Sequence[tuple[str, str]], width: int) -> str:
    """What of the directories that are followed cannot be read, and why: the first by name, where there is room.

    Args:
        left_out: path and reason of each; an empty reason where the path stands for a sentence.
        width: cells.
    """
    path, reason = left_out[0]
    more = f", and {units.count(len(left_out) - 1)} more" if len(left_out) > 1 else ""
    name = PurePath(path).name if reason else path
    text = f"not read: {Label.of(name).display}{f': {reason}' if reason else ''}{more}"
    return text if cell_width(text) <= width else f"{units.count(len(left_out))} unreadable"

"""The page of rollouts: the groups of a step, with the differing parts of their prompts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Label
from rltop.pages.page import Effect, Moment, Open, Page, Push, Say, ShowStep, Travel
from rltop.rows.glyphs import UNICODE, Glyphs, cell_width
from rltop.rows.keys import Scope
from rltop.rows.rows import (
    Row,
    RowBuilder,
    Target,
    TargetKind,
    clip_middle,
    common_start,
    rule_row,
    text_row,
    text_rows,
    wrap,
)
from rltop.rows.sparkline import block_bars
from rltop.rows.table import Column, Fit, Sorting, Table, amount, paint_table, sort_items
from rltop.run.snapshot import Snapshot
from rltop.stats.groups import GroupSummary, RatioRange, expected_ratio
from rltop.structs import NamedTuple
from rltop.trainers import rollout_hints

if TYPE_CHECKING:
    from rltop.run.rollouts import ShelfState, ShelvedStep


NEWLINE = "↵"
_SHORT_PROMPT = 60
_LONG_STRETCH = 48


def flat(text: str) -> str:
    return Label.of(text.replace("\r\n", "\n").replace("\n", NEWLINE).replace("\t", " ")).display


def differing_parts(prompts: Mapping[str, str]) -> Mapping[str, str]:
    """The part of each group's prompt that differs from those of the other groups, on one line.

    Common beginnings and ends, such as a system prompt or template markers, are left out.
    """
    if max(map(len, prompts.values()), default=0) <= _SHORT_PROMPT:
        return {name: flat(text) for name, text in prompts.items()}
    start, stop, shared = _frame(frozenset(text for text in prompts.values() if text))
    found = {}
    for name, text in prompts.items():
        own = text[start : len(text) - stop]
        own = own.partition(shared)[2] if shared else own
        found[name] = flat(own.strip()) or flat(text)
    return found


@lru_cache(maxsize=4)
def _frame(texts: frozenset[str]) -> tuple[int, int, str]:
    """Length of the texts' common beginning and common end, and a long common substring in between."""
    if len(texts) < 2:
        return 0, 0, ""
    head = common_start(texts)
    start = max(head.rfind(" "), head.rfind("\n")) + 1
    stop = len(common_start([text[: start - 1 if start else None : -1] for text in texts]))
    return start, stop, _shared({text[start : len(text) - stop] for text in texts})


def _shared(texts: Set[str]) -> str:
    """A long common substring of the texts at any position, because the middle of long prompts is not kept."""
    ordered = sorted(texts, key=lambda text: (len(text), text))
    first, last = ordered[0], ordered[-1]
    if len(first) <= _LONG_STRETCH:
        return ""
    from difflib import SequenceMatcher  # noqa: PLC0415 - only for long prompts

    match = SequenceMatcher(None, first, last, autojunk=False).find_longest_match()
    shared = first[match.a : match.a + match.size]
    shared = shared[: max(shared.rfind(" "), shared.rfind("\n")) + 1]
    # Some of the clipped texts begin in the middle of it, so shorten it from the front.
    while len(shared) > _LONG_STRETCH and not all(shared in text for text in texts):
        shared = shared[len(shared) // 8 :]
    return shared if len(shared) > _LONG_STRETCH else ""


def places_text(places: Sequence[str], run_path: str) -> str:
    """The first place, relative to the run's folder, and the number of others."""
    if not places:
        return ""
    home, place = Path(run_path).absolute().parent, places[0]
    if Path(place).is_relative_to(home):
        place = str(Path(place).relative_to(home))
    return place if len(places) == 1 else f"{place} and {len(places) - 1} more"


def paint_nothing(view: RolloutsView, width: int, glyphs: Glyphs) -> list[Row]:
    state = view.state
    if state is None or state.is_looking:
        return _paragraph("looking for rollouts ...", width, glyphs, "dim")
    if view.step is not None and not state.has_failed:
        return _paragraph(f"reading step {units.step(view.step)} ...", width, glyphs, "dim")
    notes = [row for note in state.notes for row in _paragraph(Label.of(note).display, width, glyphs, "warn")]
    if state.places:
        done = "" if state.progress is None else f", {units.share(state.progress)} scanned"
        where = places_text(state.places, view.run_path.raw)
        rows = _paragraph(f"no completions in {Label.of(where).display}{done}", width, glyphs, "text")
        return [*rows, *notes]
    if state.is_given or state.has_failed:
        return notes
    path = clip_middle(view.run_path.display, max(8, width - 30))
    where = "beside standard input" if view.run_path.raw == "-" else f"next to {path}"
    text = f"No rollouts found {where}. Trainers write them (one record per completion) only "
    rows = [*_paragraph(f"{text}when configured to:", width, glyphs, "text"), Row(())]
    known = sorted(rollout_hints(), key=lambda entry: entry.trainer != view.trainer)
    name = max(len(entry.trainer) for entry in rollout_hints()) + 2
    for entry in known:
        is_own = entry.trainer == view.trainer
        for i, line in enumerate(wrap(entry.line or "on by default", width - name - 3, 3)):
            builder = RowBuilder(width, glyphs).add(" ").left(entry.trainer if i == 0 else "", name, "strong")
            rows.append(builder.add(line, "key" if is_own else "text").row())
        if is_own or width >= 100:
            builder = RowBuilder(width, glyphs).add(" ").left("", name)
            rows.append(builder.add(f"{glyphs.arrow} {entry.writes}", "dim").row())
    rows.append(Row(()))
    return rows + _paragraph(
        "If they are elsewhere: rltop RUN --rollouts PATH (file, folder or glob).", width, glyphs, "text"
    )


def _paragraph(text: str, width: int, glyphs: Glyphs, role: str) -> list[Row]:
    return text_rows(text, width, glyphs, role, lines=6)


_MOST_BARS = 16
_LEAST_BARS = 8
"""The usual group size; the column's head takes seven cells."""
_ROOMY = 60
"""Width from which reference values are shown after numbers."""
_LEAST_NAME = 5
_LEAST_PROMPT = 12
_NAMES = ((150, 36), (100, 22), (60, 12), (46, 9), (0, 6))
"""(Screen width from which it applies, most cells of a group's name.)"""


BY_RATIO = Sorting("ratio")
"""The default order of groups."""


class RolloutsView(NamedTuple):
    """The rollouts of a run at a step.

    Attributes:
        trainer: the name of its dialect; empty while unknown.
        state: what is known of the dump; None before the search for it has begun.
        step: the step of the dump that is shown, or None.
        wanted: the cursor's step; None is live.
        shelved: the data of `step`; None while it is being read.
        usual: usual ratio for the group size; nearly the same for characters as for tokens.
    """

    run_path: Label
    trainer: str
    state: ShelfState | None
    step: int | None
    wanted: int | None
    shelved: ShelvedStep | None
    groups: tuple[GroupSummary, ...]
    order: Sorting
    usual: RatioRange | None

    @property
    def unit(self) -> str:
        return "tokens" if self.shelved is None or self.shelved.summary.has_tokens else "characters"

    @property
    def prompts(self) -> Mapping[str, str]:
        return differing_parts({group.name: group.completions[0].prompt for group in self.groups})

    def group(self, name: str) -> tuple[int, GroupSummary] | None:
        """A group and its rank; the first group if the step has none of that name; None if it has no groups."""
        found = next(((i, each) for i, each in enumerate(self.groups) if each.name == name), None)
        return found or ((0, self.groups[0]) if self.groups else None)


def build_rollouts(snapshot: Snapshot, sorting: Sorting | None = None) -> RolloutsView:
    """Read the rollouts at a step; a step not in memory is requested and arrives later."""
    order = sorting or BY_RATIO
    shelf = snapshot.rollouts
    trainer = snapshot.identity.dialect.name if snapshot.identity is not None else ""
    if shelf is None:
        return RolloutsView(snapshot.path, trainer, None, None, snapshot.at_step, None, (), order, None)
    state = shelf.state
    here = snapshot.within(state.stream).at_step
    step = shelf.step_near(here)
    shelved = shelf.at(step) if step is not None else None
    groups: Sequence[GroupSummary] = ()
    usual = None
    if shelved is not None:
        groups = shelved.summary.groups
        size = shelved.summary.group_size
        usual = expected_ratio(size) if size is not None and size > 1 else None
    view = RolloutsView(snapshot.path, trainer, state, step, here, shelved, tuple(groups), order, usual)
    if sorting is None:
        return view
    return view._replace(groups=tuple(sort_items(view.groups, group_columns(view, 0, UNICODE), sorting)))


def number_or_dash(value: float | None) -> str:
    return units.UNKNOWN if value is None else units.number(value)


def _share_or_dash(value: float | None) -> str:
    return units.UNKNOWN if value is None else units.share(value)


def count_or_dash(value: float | None) -> str:
    return units.UNKNOWN if value is None else units.count(value)


def paint_rollouts(view: RolloutsView, width: int, glyphs: Glyphs, *, is_low: bool = False) -> list[Row]:
    rows = [_paint_title(view, width, glyphs)]
    if view.shelved is None:
        return [*rows, Row(()), *paint_nothing(view, width, glyphs)]
    rows += _paint_summary(view, width, glyphs)[: 2 if is_low else None]
    rows += _paint_notes(view, width, glyphs)[1 if is_low else 0 :]
    rows.append(rule_row(width, glyphs))
    table = Table(
        group_columns(view, width, glyphs),
        view.groups,
        target=lambda group: Target(TargetKind.GROUP, group.name, view.step),
        sorting=view.order,
        is_sortable=True,
        sign=lambda group: (glyphs.rise if _is_uneven(view, group) else "", "warn"),
    )
    return [*rows, *paint_table(table, width, glyphs)]


def paint_trail(view: RolloutsView, parts: Sequence[str], width: int, glyphs: Glyphs) -> RowBuilder:
    builder = RowBuilder(width, glyphs).add(" ROLLOUTS", "title")
    if view.step is not None:
        builder.add(f"  step {units.step(view.step)}", "value")
    for part in parts:
        builder.add(f" {glyphs.folded} ", "dim").add(part, "strong")
    return builder


def _paint_title(view: RolloutsView, width: int, glyphs: Glyphs) -> Row:
    builder = paint_trail(view, (), width, glyphs)
    shelved = view.shelved
    if shelved is not None:
        summary = shelved.summary
        of = f" of {summary.group_size}" if summary.group_size is not None else ""
        builder.add(f"   {units.counted(len(view.groups), 'group')}{of}", "text")
        builder.add(f" · {units.counted(summary.completions, 'completion')}", "text")
        discarded = len(shelved.rollouts.completions) - summary.completions
        builder.add(f" + {units.count(discarded)} discarded" if discarded else "", "text")
    note = _step_note(view)
    if note and builder.room > cell_width(note) + 4:
        builder.pad_to(width - cell_width(note) - 1).add(note, "note")
    return builder.row()


def _step_note(view: RolloutsView) -> str:
    state = view.state
    if state is None or view.step is None or not state.steps:
        return ""
    if view.wanted is not None and view.wanted != view.step:
        if state.progress is not None:
            return f"step {units.step(view.wanted)} not read yet"
        return f"nearest to step {units.step(view.wanted)}"
    if view.step == state.steps[-1]:
        return "newest step of the dump"
    return f"{units.count(len(state.steps))} steps up to {units.step(state.steps[-1])}"


def _paint_summary(view: RolloutsView, width: int, glyphs: Glyphs) -> list[Row]:
    assert view.shelved is not None
    summary = view.shelved.summary
    parts: list[tuple[str, str]] = []
    if summary.ratio_mean is not None and summary.ratio_max is not None:
        text = f"{units.number(summary.ratio_mean)}, worst {units.number(summary.ratio_max)}"
        usual = view.usual
        if usual is not None and width >= _ROOMY:
            text += f" (usual {units.number(usual.low)}–{units.number(usual.high)})"
        parts.append(("longest/median ", text))
    if summary.gini_mean is not None:
        parts.append(("Gini ", units.percent(summary.gini_mean)))
    if summary.length_mean is not None:
        parts.append(("mean ", f"{units.number(summary.length_mean)} {view.unit}"))
    if summary.cut_fraction is not None:
        parts.append(("truncated ", units.percent(summary.cut_fraction)))
    if summary.reward_mean is not None:
        parts.append(("reward ", units.number(summary.reward_mean)))
    if summary.zero_std_fraction:
        parts.append(("zero reward variance in ", f"{units.share(summary.zero_std_fraction)} of groups"))
    if summary.discarded:
        parts.append(("discarded, not in these numbers: ", reasons(summary.discarded)))
    return paint_parts(parts, width, glyphs)


def reasons(found: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{Label.of(reason).display} {units.count(number)}" for reason, number in found[:3])


def paint_parts(parts: Sequence[tuple[str, str]], width: int, glyphs: Glyphs) -> list[Row]:
    """Names with their values in a row, wrapped only between pairs."""
    rows: list[Row] = []
    builder = RowBuilder(width, glyphs).add(" ")
    for name, value in parts:
        cells = cell_width(name) + cell_width(value)
        if builder.column > 1 and builder.room < cells + 4:
            rows.append(builder.row())
            builder = RowBuilder(width, glyphs).add(" ")
        elif builder.column > 1:
            builder.add("   ")
        builder.add(name, "dim").add(value, "value")
    return [*rows, builder.row()] if builder.column > 1 else rows


def _paint_notes(view: RolloutsView, width: int, glyphs: Glyphs) -> list[Row]:
    state = view.state
    if state is None:
        return []
    builder = RowBuilder(width, glyphs).add(" from ", "dim")
    done = "" if state.progress is None else f"   {units.share(state.progress)} scanned"
    place = Label.of(places_text(state.places, view.run_path.raw)).display
    builder.add(clip_middle(place, max(8, width - 8 - cell_width(done))), "key").add(done, "note")
    rows = [builder.row()]
    shelved = view.shelved
    if shelved is not None and not shelved.summary.has_tokens:
        text = "no token counts in this dump: lengths, ratio and Gini are in characters"
        text = text if width >= _ROOMY else "lengths are characters, not tokens"
        rows += text_rows(text, width, glyphs, "note", lines=2)
    if shelved is not None and any(not group.name for group in view.groups):
        text = "rows have no group or prompt: shown as one group"
        rows += text_rows(text, width, glyphs, "note", lines=2)
    if shelved is not None and shelved.rollouts.left_out:
        rows.append(text_row(f"{units.count(shelved.rollouts.left_out)} more not shown", width, glyphs, "warn"))
    for note in state.notes[:2]:
        rows += text_rows(Label.of(note).display, width, glyphs, "warn", lines=2)
    return rows


def group_columns(view: RolloutsView, width: int, glyphs: Glyphs) -> Sequence[Column[GroupSummary]]:
    prompts, has_cut = view.prompts, any(group.cut is not None for group in view.groups)
    bars = max((min(_MOST_BARS, len(group.lengths)) for group in view.groups), default=0)
    name = next(cells for least, cells in _NAMES if width >= least)
    return (
        Column(
            "group", lambda one: (Label.of(one.name).display or "all", "key"), Fit.NAME, least=_LEAST_NAME, most=name,
            sort=lambda one: one.name,
        ),
        amount("n", lambda one: len(one.completions), units.count, "text", least=2),
        Column(
            "ratio", lambda one: (number_or_dash(one.ratio), "warn" if _is_uneven(view, one) else "value"), least=6,
            gap=1, sort=lambda one: one.ratio,
        ),
        amount("max", lambda one: next(iter(one.lengths), None), count_or_dash, least=6),
        amount("median", lambda one: one.middle, number_or_dash, least=6),
        amount("Gini", lambda one: one.gini, _share_or_dash, "note", least=5, priority=4),
        amount("reward", lambda one: one.reward_mean, number_or_dash, least=7, priority=2, gap=1),
        amount("std", lambda one: one.reward_std, number_or_dash, "note", least=5, priority=5),
        Column(
            "trunc", lambda one: _cut(one, has_cut=has_cut), least=5, priority=3, gap=1, sort=lambda one: one.cut
        ),
        Column(
            "discarded", lambda one: (reasons(one.discarded), "note"), Fit.TEXT, least=14, most=14, priority=8,
        ),
        Column(
            "lengths", lambda one, cells: (block_bars(sorted(one.lengths)[-min(cells, bars) :], glyphs), "spark"),
            Fit.DRAWN, least=_LEAST_BARS, most=max(_LEAST_BARS, bars), priority=7, gap=1,
            drawn_width=lambda one: max(_LEAST_BARS, bars) if bars else 0,
        ),
        Column("prompt", lambda one: (prompts[one.name], "dim"), Fit.TEXT, least=_LEAST_PROMPT, priority=6),
    )  # fmt: skip


def _cut(group: GroupSummary, *, has_cut: bool) -> tuple[str, str]:
    if group.cut is None:
        return units.UNKNOWN if has_cut else "", "dim"
    return units.count(group.cut), "text" if group.cut else "dim"


def _is_uneven(view: RolloutsView, group: GroupSummary) -> bool:
    return view.usual is not None and group.ratio is not None and group.ratio > view.usual.one_group


LOW_ROWS = 16
"""On screens lower than this the header is shortened in favour of the list."""


class RolloutPage(Page):
    where = (Scope.ROLLOUTS,)
    footer = ("find",)

    def face(self, moment: Moment) -> Hashable:
        shelf = moment.snapshot.rollouts
        return super().face(moment), None if shelf is None else shelf.version

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key not in {"previous", "next"}:
            return None
        by = -1 if key == "previous" else 1
        return self.neighbour(by, moment) or Say(f"there is none {'before' if by < 0 else 'after'} this one")

    def idle(self, moment: Moment) -> Set[str]:
        shelf = moment.snapshot.rollouts
        return frozenset() if shelf is not None and shelf.state.steps else {"previous", "next", "find"}

    @abstractmethod
    def neighbour(self, by: int, moment: Moment) -> Effect | None:
        """Show the previous (-1) or next (1) step, group or completion; None if there is none."""


class RolloutsPage(RolloutPage):
    details = frozenset({TargetKind.GROUP})
    sorting: Sorting | None = BY_RATIO
    search_hint = "a part of a prompt, or of what a completion begins with"

    def __init__(self, page_of: Callable[[str, Sorting | None], Page]) -> None:
        super().__init__()
        self._page_of = page_of

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        view = build_rollouts(moment.snapshot, self.sorting)
        return paint_rollouts(view, width, moment.glyphs, is_low=height < LOW_ROWS)

    def search_text(self, target: Target, moment: Moment) -> str:
        if target.kind is not TargetKind.GROUP:
            return target.name
        found = build_rollouts(moment.snapshot, self.sorting).group(target.name)
        completions = () if found is None else found[1].completions
        return "\n".join(text for one in completions for text in (one.prompt, one.opening))

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        return (Push(self._page_of(target.name, self.sorting)),)

    def open(self, target: Target, moment: Moment) -> Effect | None:
        if target.kind is TargetKind.GROUP:
            return Push(self._page_of(target.name, self.sorting))
        return super().open(target, moment)

    def neighbour(self, by: int, moment: Moment) -> Effect | None:
        view = build_rollouts(moment.snapshot, self.sorting)
        if view.state is None or view.step is None:
            return None
        if view.state.stream and any(part.role == view.state.stream for part in moment.snapshot.streams[1:]):
            # The dump's steps are those of another stream, not the time cursor's.
            return Travel(by)
        at = view.state.steps.index(view.step) + by
        return ShowStep(view.state.steps[at]) if 0 <= at < len(view.state.steps) else None

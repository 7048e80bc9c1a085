"""Which rank makes the others wait: the line of the overview, and the page behind it.

Owns the order and the words; what is compared with what is `derive.ranks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rltop import units
from rltop.model import Label, Level, Unit, Verdict, VerdictState
from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.rows.cells import RowBuilder, fill, rule_row, text_row, too_small, wrap
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.keys import Where
from rltop.rows.rows import Line, Piece, Row, Target, TargetKind
from rltop.rows.table import Column, Kind, Sorting, Table, paint_table, sort_items
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.stats.ranks import SUMMED_STEPS, StageSummary

LEAST = (40, 12)
RULE = "P15"


@dataclass(frozen=True, slots=True)
class RanksView:
    """Everything the page of the ranks shows.

    Attributes:
        stages: furthest behind first.
        step: the newest step in them, or None.
        steps: how many steps they cover.
        verdict: what the rule says now, or None.
        keys: (rank, stage) → the trainer's key.
        is_measured: from spans with start and end.
    """

    stages: tuple[StageSummary, ...]
    step: int | None
    steps: int
    verdict: Verdict | None
    keys: Mapping[tuple[str, str], str]
    is_measured: bool = False


def worst_stage(snapshot: Snapshot) -> StageSummary | None:
    """The stage whose slowest rank is furthest behind; None where no rank says what it did."""
    stages = snapshot.source.ranks.summary(snapshot.at_step) if snapshot.source.ranks is not None else []
    return stages[0] if stages else None


def build_ranks(snapshot: Snapshot) -> RanksView:
    """Read the ranks of a run for their page."""
    verdicts = snapshot.verdicts.standing
    verdict = next((one for one in verdicts if one.rule == RULE and one.state is VerdictState.FIRING), None)
    history, at = snapshot.source.ranks, snapshot.at_step
    if history is None:
        return RanksView((), None, 0, verdict, {})
    steps = [step for step in history.steps if at is None or step <= at][-SUMMED_STEPS:]
    return RanksView(
        tuple(history.summary(at)), steps[-1] if steps else None, len(steps), verdict, history.keys, history.is_measured
    )


def paint_rank_line(stage: StageSummary, width: int, glyphs: Glyphs) -> Row:
    """The furthest rank in one row.

    Args:
        stage: the one in which a rank is furthest behind.
    """
    builder = RowBuilder(width, glyphs).add(" RANKS", "title").add("  ")
    ranks = units.count(len(stage.ranks))
    rank, name = Label.of(stage.slowest).display, Label.of(stage.stage).display
    parts = [
        (f"{rank} ", "strong"),
        (f"{_seconds(stage.behind_s)} behind ", "value"),
        (f"the median of {ranks} in ", "note"),
        (name, "key"),
        (f"   slowest in {units.share(stage.often)} of steps", "note"),
    ]
    for text, role in parts:
        if cell_width(text) > builder.room:
            break
        builder.add(text, role)
    return builder.row(Target(TargetKind.RANKS))


def _seconds(value: float) -> str:
    return units.measure(value, Unit.SECONDS)


def paint_ranks(
    view: RanksView, width: int, height: int | None, glyphs: Glyphs, sorting: Sorting | None = None
) -> list[Row]:
    """The stages, then every rank of the one that is furthest behind.

    Args:
        height: rows; what does not fit is cut off below.
        sorting: the order of the stages; None is by how far their slowest rank is behind.
    """
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    builder = RowBuilder(width, glyphs).add(" RANKS", "title")
    if view.step is not None:
        builder.add(f"  step {units.step(view.step)}", "value")
        builder.add(f"   medians of {view.steps} {'step' if view.steps == 1 else 'steps'}", "dim")
        builder.add(", start and end measured" if view.is_measured else ", durations as logged", "dim")
    rows = [builder.row()]
    if not view.stages:
        text = "No per-rank timing in this run. It takes one stream per rank, or spans with start and end times."
        return fill([*rows, *(text_row(line, width, glyphs, "dim") for line in wrap(text, width - 2, 3))], height)
    if view.verdict is not None:
        target = Target(TargetKind.VERDICT, view.verdict.rule)
        sign = glyphs.level(view.verdict.level)
        for i, line in enumerate(wrap(Label.of(view.verdict.headline).display, width - 4, 5)):
            role = LEVEL_ROLES[view.verdict.level]
            rows.append(RowBuilder(width, glyphs).add(f" {sign if i == 0 else ' '} ", role).add(line, role).row(target))
    elif not view.is_measured:
        rows.append(text_row(f"{glyphs.level(Level.OK)} no persistent straggler", width, glyphs, "ok"))
    rows.append(rule_row(width, glyphs))
    rows += _paint_stages(view, width, glyphs, sorting)
    for stage in view.stages[:1]:
        rows += _paint_stage_ranks(view, stage, width, glyphs)
    return fill(rows, height)


def stage_columns(width: int) -> Sequence[Column[StageSummary]]:
    """The columns of the stages: who is slowest, by how much, how often.

    Args:
        width: cells of the screen; a wide one says of which group of ranks a stage is.
    """

    def name(stage: StageSummary) -> tuple[str, str]:
        label = stage.stage if not stage.group or width < 100 else f"{stage.group} · {stage.stage}"
        return Label.of(label).display, "key"

    return (
        Column("stage", name, Kind.NAME, least=12, sort=lambda one: one.stage),
        Column(
            "slowest", lambda one: (Label.of(one.slowest).display, "text"), Kind.NAME, least=10,
            sort=lambda one: one.slowest,
        ),
        Column("behind", lambda one: (_seconds(one.behind_s), "value"), least=8, sort=lambda one: one.behind_s),
        Column(
            "of step", lambda one: (units.share(one.share), "value"), least=7, priority=1, sort=lambda one: one.share
        ),
        Column(
            "median", lambda one: (_seconds(one.usual_s), "note"), least=8, priority=2, sort=lambda one: one.usual_s
        ),
        Column(
            "slowest in", lambda one: (units.share(one.often), "note"), priority=3, sort=lambda one: one.often
        ),
    )  # fmt: skip


def _paint_stages(view: RanksView, width: int, glyphs: Glyphs, sorting: Sorting | None) -> list[Row]:
    """One row per stage."""

    def sign(stage: StageSummary) -> tuple[str, str]:
        fires = view.verdict is not None and f"in {stage.stage}:" in view.verdict.headline
        return glyphs.level(Level.WARN) if fires else "", "warn"

    columns = stage_columns(width)
    table = Table(
        columns,
        sort_items(view.stages, columns, sorting),
        target=lambda one: _target(view, one.slowest, one.stage),
        sorting=sorting,
        is_sortable=True,
        sign=sign,
    )
    return paint_table(table, width, glyphs)


def _target(view: RanksView, rank: str, stage: str) -> Target | None:
    """The metric of a stage in the stream of its rank."""
    key = view.keys.get((rank, stage), "")
    return Target(TargetKind.METRIC, key, stream=rank) if key else None


def _paint_stage_ranks(view: RanksView, stage: StageSummary, width: int, glyphs: Glyphs) -> list[Row]:
    """Every rank of a stage as a bar, slowest first."""
    title = RowBuilder(width, glyphs).add(" ").add(Label.of(stage.stage).display, "title")
    title.add(f"  by rank, median {_seconds(stage.usual_s)}", "dim")
    longest = max(stage.ranks.values(), default=0.0)

    def late(rank: tuple[str, float]) -> tuple[str, str]:
        behind = rank[1] - stage.usual_s
        return f"+{_seconds(behind)}" if behind > 0.0 else "", "note"

    def bar(rank: tuple[str, float], cells: int) -> Line:
        if longest <= 0.0:
            return ()
        full = round(cells * rank[1] / longest)
        usual = min(full, round(cells * stage.usual_s / longest))
        return Piece(glyphs.bar * usual, "stage-0"), Piece(glyphs.fills[1] * (full - usual), "warn")

    columns: Sequence[Column[tuple[str, float]]] = (
        Column("rank", lambda one: (Label.of(one[0]).display, "text"), Kind.NAME, least=10, most=max(24, width // 4)),
        Column("time", lambda one: (_seconds(one[1]), "value"), least=8),
        Column("behind", late, least=9, priority=1),
        Column("", bar, Kind.DRAWN, least=4, priority=2),
    )
    table = Table(
        columns,
        tuple(stage.ranks.items()),
        target=lambda one: _target(view, one[0], stage.stage),
        sign=lambda one: ("", "text"),
    )
    return [Row(()), title.row(), *paint_table(table, width, glyphs, has_head=False)]


class RanksPage(Page):
    """Which rank makes the others wait, stage by stage."""

    where = (Where.TABLE,)
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")
    help = (
        "Time per stage and rank against the median of its worker group, over the newest steps: the slowest rank, how "
        "far it is behind, the share of step time that the other ranks wait for it, and how often it is the slowest. "
        "Below: every rank of the most expensive stage. {open} opens the chart of a rank, {sort} "
        "sorts the stages by the next column."
    )

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The ranks at the step that is shown."""
        view = build_ranks(moment.snapshot)
        is_small = width < LEAST[0] or height < LEAST[1]
        return paint_ranks(view, width, height if is_small else None, moment.glyphs, self.sorting)

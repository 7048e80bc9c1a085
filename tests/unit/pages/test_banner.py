"""The banner of a collapse, and what stands on the overview of what recovered or was muted."""

from __future__ import annotations

import pytest
from painted import text_of
from tables import each_row

from rltop.model import Evidence, Level, VerdictState
from rltop.pages.alerts import build_badges, build_banner, paint_badges, paint_banner
from rltop.pages.overview import build_overview, paint_overview
from rltop.rows.glyphs import ASCII, UNICODE, cell_width
from rltop.rows.rows import Target, TargetKind
from rltop.rules.collapse import CHECKPOINT, LAST_GOOD, ONSET
from rltop.run.snapshot import Snapshot
from tests.fake_run import FakeRun, a_verdict

COLLAPSE = a_verdict(
    "X1",
    Level.CRIT,
    family="collapse",
    headline="policy collapse began at step 1,150",
    since_step=1150,
    evidence=(
        Evidence("families of symptoms", 3.0),
        Evidence(ONSET, 1150.0),
        Evidence(LAST_GOOD, 1149.0),
        Evidence(CHECKPOINT, 1100.0),
        Evidence("entropy from step", 1150.0),
        Evidence("reward_mean from step", 1153.0),
    ),
)


def test_a_collapse_is_dated() -> None:
    banner = build_banner([a_verdict(), COLLAPSE])
    assert banner is not None
    row = paint_banner(banner, 160, UNICODE)
    assert text_of([row]).strip() == (
        "◆ COLLAPSE since 1,150 · last good step 1,149 · checkpoint 1,100 · "
        "began with: entropy at 1,150, then reward at 1,153"
    )
    assert row.links[0].target == Target(TargetKind.VERDICT, "X1")


def test_what_moved_at_one_step_has_no_order_and_as_much_is_told_as_fits() -> None:
    moved = [("value_loss", 1150), ("lr", 1150), ("kl_old", 1150), ("entropy", 1153), ("score_mean", 1154)]
    evidence = (*COLLAPSE.evidence[:4], *(Evidence(f"{name} from step", float(step)) for name, step in moved))
    banner = build_banner([COLLAPSE._replace(evidence=evidence)])
    assert banner is not None
    whole = text_of([paint_banner(banner, 200, UNICODE)])
    assert "began with: learning rate, value loss, step KL at 1,150, then entropy at 1,153, reward at 1,154" in whole
    part = text_of([paint_banner(banner, 120, UNICODE)])
    assert cell_width(part) <= 120
    assert "began with: learning rate" in part
    assert "reward" not in part and part.rstrip().endswith(" …") and "…" not in whole


def test_no_checkpoint_is_said_and_not_invented() -> None:
    evidence = tuple(one for one in COLLAPSE.evidence if one.name != CHECKPOINT)
    banner = build_banner([COLLAPSE._replace(evidence=evidence)])
    assert banner is not None
    assert "no earlier checkpoint logged" in text_of([paint_banner(banner, 160, UNICODE)])


def test_there_is_no_banner_without_a_collapse_that_stands() -> None:
    assert build_banner([a_verdict(level=Level.CRIT)]) is None
    assert build_banner([COLLAPSE._replace(state=VerdictState.RECOVERED, recovered_step=1160)]) is None
    assert build_banner([COLLAPSE._replace(evidence=())]) is None


@each_row("width", [40, 60, 80, 120])
@each_row("glyphs", [UNICODE, ASCII])
def test_the_banner_fits(width: int, glyphs: object) -> None:
    banner = build_banner([COLLAPSE])
    assert banner is not None
    text = text_of([paint_banner(banner, width, glyphs)])  # type: ignore[arg-type]
    assert cell_width(text) <= width
    assert "COLLAPSE since 1,150" in text


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40)])
def test_the_overview_shows_the_banner_and_says_something_else_below(run: FakeRun, size: tuple[int, int]) -> None:
    ill = FakeRun(**{**vars(run), "verdicts": [COLLAPSE, a_verdict()]})
    rows = paint_overview(build_overview(Snapshot(ill), width=size[0], height=size[1]), *size, UNICODE)
    lines = text_of(rows).splitlines()
    assert len(rows) == size[1]
    assert "COLLAPSE since 1,150" in lines[1]
    assert "KL to the reference" in lines[2]
    assert "policy collapse began" not in "\n".join(lines[:6])


def test_what_recovered_is_named_with_its_step_where_there_is_room(run: FakeRun) -> None:
    over = a_verdict(state=VerdictState.RECOVERED, recovered_step=1195)
    healed = FakeRun(**{**vars(run), "verdicts": [over]})
    groups = build_badges(Snapshot(healed), healed.verdicts)
    assert "KL drift recovered @1,195" in text_of(paint_badges(groups, 160, UNICODE))
    assert "1 recovered" in text_of(paint_badges(groups, 30, UNICODE))


def test_muted_rules_are_counted_and_stay_away_from_the_past_too(run: FakeRun) -> None:
    muted = FakeRun(**{**vars(run), "muted": frozenset({"T2"})})
    groups = build_badges(Snapshot(muted), [])
    assert groups[0].muted == 1
    assert "1 muted" in text_of(paint_badges(groups, 120, UNICODE))
    assert "T2" in [verdict.rule for verdict in Snapshot(run, 1170).standing]
    assert "T2" not in [verdict.rule for verdict in Snapshot(muted, 1170).standing]

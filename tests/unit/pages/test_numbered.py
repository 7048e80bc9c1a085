"""Metrics that differ by a number alone: which is far from the others, on the overview and one by one."""

from __future__ import annotations

from fake_run import FakeRun, run_of, verl_lines
from painted import lines_of

from rltop.model import Level
from rltop.pages.numbered import NumberedPage, numbered_view, outlier_of
from rltop.pages.overview import build_overview, paint_overview
from rltop.pages.page import Moment
from rltop.pages.stragglers import RanksPage
from rltop.rows.glyphs import ASCII, UNICODE
from rltop.rows.rows import TargetKind
from rltop.run.snapshot import Snapshot

NAME = "rank/{0…63}/step_time"


def ranks(slow: float, key: str = "rank/{}/step_time") -> FakeRun:
    def row(step: int) -> dict[str, float]:
        late = slow if step > 60 else 0.0
        return {key.format(n): 40.0 + 0.1 * (n * step % 7) + (late if n == 37 else 0.0) for n in range(64)}

    return run_of(verl_lines((step, {"critic/rewards/mean": 0.5, **row(step)}) for step in range(1, 121)))


def test_a_slow_rank_by_keys_of_ones_own_is_on_the_overview_and_leads_to_all_of_them() -> None:
    snapshot = Snapshot(ranks(6.0))
    view = build_overview(snapshot, width=120, height=40)
    rows = paint_overview(view, 120, 40, UNICODE)
    line = next(row for row in rows if " OUTLIER" in lines_of([row])[0])
    assert "rank/37/step_time" in lines_of([line])[0] and "median of 64" in lines_of([line])[0]
    assert [link.target.kind for link in line.links] == [TargetKind.NUMBERED]
    assert sum("step_time" in text for text in lines_of(rows)) == 3
    more = next(text for text in lines_of(rows) if NAME in text)
    assert "step_time ×64" in more and "37: +" in more


def test_none_is_an_outlier_before_it_is_slow_nor_where_it_is_slow_by_little() -> None:
    assert outlier_of(Snapshot(ranks(6.0), 50)) is None
    assert outlier_of(Snapshot(ranks(1.0))) is None
    assert outlier_of(Snapshot(ranks(6.0, "layer_{}/norm"))) is None
    view = numbered_view(Snapshot(ranks(6.0, "layer_{}/norm")), "layer_{0…63}/norm")
    assert view is not None and view.odd is not None


def test_a_card_that_nobody_uses_is_no_outlier() -> None:
    """W&B samples every card of a machine, of which a run may use one, and some go on as they like."""
    for key, usual, other in (
        ("system/gpu.{}.smClock", 1980.0, 345.0),
        ("system/gpu.{}.fanSpeed", 30.0, 48.0),
        ("system/gpu.{}.gpu", 0.0, 97.0),
    ):
        cards = {key.format(n): other if n == 5 else usual for n in range(8)}
        run = run_of(verl_lines((step, {"critic/rewards/mean": 0.5, **cards}) for step in range(1, 61)))
        assert outlier_of(Snapshot(run)) is None, key
    idle = {f"system/gpu.{n}.gpu": 2.0 if n == 5 else 97.0 for n in range(8)}
    run = run_of(verl_lines((step, {"critic/rewards/mean": 0.5, **idle}) for step in range(1, 61)))
    assert outlier_of(Snapshot(run)) is not None


def test_the_page_has_each_with_its_z_score_the_farthest_first() -> None:
    run = ranks(6.0)
    for glyphs, minus in ((UNICODE, "−"), (ASCII, "-")):
        shown = lines_of(NumberedPage(NAME).rows(Moment(Snapshot(run), glyphs), 80, 24))
        assert "64 keys" in shown[0] and "rank/37/step_time" in shown[2]
        members = shown[5:]
        assert members[0].split()[1] == "37" and members[0].endswith("rank/37/step_time")
        assert len(members) == 64 and sum(minus in text for text in members) > 8
    view = numbered_view(Snapshot(run), NAME)
    assert [one.number for one in view.members] == [str(number) for number in range(64)]
    odd = view.odd
    assert odd is not None and odd.sigmas == (odd.value - view.middle) / view.sigma


def test_a_slow_rank_of_one_row_is_judged_like_ranks_that_write_streams_of_their_own() -> None:
    run = ranks(12.0, "rank/{}/step_time")
    verdict = next(one for one in Snapshot(run).standing if one.rule == "P15")
    assert verdict.level is Level.WARN and verdict.since_step == 61
    assert "rank 37" in verdict.headline and "the other 63 ranks in step_time" in verdict.headline
    assert "rank 37" in build_overview(Snapshot(run)).sentence.text.raw
    # Milliseconds are read as such, and what is no duration has no stragglers.
    in_ms = next(one for one in Snapshot(ranks(12.0, "gpu_{}/fwd_ms")).standing if one.rule == "P15")
    assert "gpu 37 12 ms behind" in in_ms.headline
    assert "P15" not in [one.rule for one in Snapshot(ranks(12.0, "gpu_{}/util")).standing]
    assert "P15" not in [one.rule for one in Snapshot(ranks(12.0, "layer_{}/step_time")).standing]


def test_an_odd_one_that_no_rule_judges_is_in_the_sentence() -> None:
    said = build_overview(Snapshot(ranks(12.0, "gpu_{}/util"))).sentence
    assert "far from the others: gpu_37/util 52" in said.text.raw and said.level is Level.INFO
    assert said.target is not None and said.target.kind is TargetKind.NUMBERED
    assert "far from" not in build_overview(Snapshot(ranks(12.0, "gpu_{}/util"), 50)).sentence.text.raw


def test_the_page_of_keys_without_a_value_says_so() -> None:
    rows = NumberedPage("a{0…9}").rows(Moment(Snapshot(ranks(1.0)), UNICODE), 80, 24)
    assert "none of these keys" in rows[1].text


def test_the_page_of_ranks_has_them_in_a_table_with_the_farthest() -> None:
    rows = RanksPage().rows(Moment(Snapshot(ranks(6.0)), UNICODE), 100, 24)
    table = lines_of(rows)
    assert table[0].split() == ["NUMBERED", "KEYS", "1"]
    assert NAME in table[2] and " 37 " in table[2] and "σ" in table[2]
    assert rows[2].links[0].target.kind is TargetKind.NUMBERED

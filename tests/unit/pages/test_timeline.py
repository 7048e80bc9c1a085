"""The event log as lanes and as a list: nothing is lost, bars end where rules recovered, rows fit."""

from __future__ import annotations

import re

from painted import check_rows
from tables import each_row

from rltop.model import Event, EventState, Label, Level
from rltop.pages.alerts import paint_events
from rltop.pages.chart_axes import read_markers
from rltop.pages.timeline import EventFilter, Firing, Timeline, build_timeline, lane_rows, list_rows, paint_timeline
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.rows.keys import KeyNames
from rltop.rows.rows import TargetKind
from rltop.rows.table import Sorting, heads_of
from rltop.run.past import overwritten_events
from rltop.run.snapshot import Snapshot
from rltop.store.stream import Stream
from tests.fake_run import FakeRun
from tests.stores import record, stream_of

FIRING, WORSE, OVER, FACT = EventState.FIRING, EventState.ESCALATED, EventState.RECOVERED, EventState.FACT


def event(
    step: int,
    rule: str,
    family: str,
    level: Level,
    state: EventState,
    message: str = "it happened",
    stream: str = "",
) -> Event:
    return Event(step, step, rule, family, level, state, message, stream)


LOG = [
    event(10, "O1", "gradient", Level.WARN, FIRING, "gradient norm 9"),
    event(12, "O1", "gradient", Level.CRIT, WORSE, "gradient norm 90"),
    event(30, "O1", "gradient", Level.CRIT, OVER),
    event(40, "L6", "liveness", Level.INFO, FACT, "restarted"),
    event(50, "R1", "reward", Level.CRIT, FIRING, "reward gone"),
    event(60, "O2", "gradient", Level.WARN, FIRING, "climbing"),
]


def run_with(events: list[Event], steps: int = 101) -> FakeRun:
    return FakeRun(Label.of("run"), stream_of((step, {"a": 1.0}) for step in range(steps)), events=events)


EVERYTHING = EventFilter()


def text_of(run: FakeRun, wanted: EventFilter = EVERYTHING, at: int | None = None) -> str:
    rows = paint_timeline(Snapshot(run, at), build_timeline(Snapshot(run, at), wanted), 0, 120, 40, UNICODE)
    return "\n".join(row.text for row in rows)


def test_stretches_begin_end_and_keep_their_worst_level() -> None:
    lanes = {lane.family: lane for lane in build_timeline(Snapshot(run_with(LOG)), EventFilter()).lanes}
    assert lanes["gradient"].firings == [
        Firing("O1", Level.CRIT, 10, 30),
        Firing("O2", Level.WARN, 60, None),
    ]
    assert lanes["reward"].firings == [Firing("R1", Level.CRIT, 50, None)]
    assert (lanes["liveness"].firings, lanes["liveness"].facts) == ([], [40])


def test_the_list_is_newest_first_and_whole() -> None:
    assert build_timeline(Snapshot(run_with(LOG)), EventFilter()).numbers == (5, 4, 3, 2, 1, 0)


def test_the_block_of_the_overview_has_the_signs_of_the_page() -> None:
    def signs(text: str) -> list[tuple[str, str]]:
        return re.findall(r"^ (.) +(\d+) +[A-Z]", text, re.MULTILINE)

    block = "\n".join(row.text for row in paint_events(LOG[::-1], 120, UNICODE, LOG))
    assert signs(block) == signs(text_of(run_with(LOG))) and ("·", "40") in signs(block)


@each_row(
    ("wanted", "numbers"),
    [
        (EventFilter(family="gradient"), (5, 2, 1, 0)),
        (EventFilter(level=Level.CRIT), (4, 2, 1)),
        (EventFilter(text="  CLIMB "), (5,)),
        (EventFilter(text="r1"), (4,)),
        (EventFilter(family="reward", level=Level.CRIT, text="gone"), (4,)),
        (EventFilter(family="reward", text="norm"), ()),
    ],
)
def test_filters_are_all_asked(wanted: EventFilter, numbers: tuple[int, ...]) -> None:
    timeline = build_timeline(Snapshot(run_with(LOG)), wanted)
    assert timeline.numbers == numbers
    assert timeline.families == ("gradient", "liveness", "reward")


def test_a_bar_ends_where_its_rule_recovered_even_if_the_filter_hides_that() -> None:
    (lane,) = build_timeline(Snapshot(run_with(LOG)), EventFilter(text="gradient norm")).lanes
    assert lane.firings == [Firing("O1", Level.CRIT, 10, 30)]


def test_bars_stand_at_their_steps() -> None:
    text = text_of(run_with(LOG))
    axis, gradient = text.splitlines()[1:3]
    assert axis.rstrip().endswith("100")
    start = axis.index("0")
    cells = len(axis.rstrip()) - start
    assert gradient[start + round(0.1 * (cells - 1))] == "◆"
    assert abs(gradient.index("◇") - (start + 0.3 * (cells - 1))) <= 1
    assert gradient.rstrip().endswith("─")


def test_the_cursor_is_marked_and_hides_nothing() -> None:
    text = text_of(run_with(LOG), at=20)
    reward = next(line for line in text.splitlines() if line.startswith(" reward"))
    assert "│" in reward
    assert "climbing" in text


def test_ends_are_said() -> None:
    assert "no events yet" in text_of(run_with([]))
    assert "no event matches" in text_of(run_with(LOG), EventFilter(text="absent"))
    assert "EVENTS  4 of 6" in text_of(run_with(LOG), EventFilter(family="gradient"))


def timed(steps: int, every_s: float) -> Stream:
    stream = Stream("")
    for step in range(steps):
        stream.append(record(step, {"a": 1.0}, 1000.0 + every_s * step))
    return stream


def test_events_of_another_stream_stand_at_the_step_of_the_same_time() -> None:
    explorer = FakeRun(Label.of("run"), timed(300, 10.0), role="explorer")
    foreign = [
        event(step, "T2", "length", Level.WARN, state, stream="explorer") for step, state in ((90, FIRING), (150, OVER))
    ]
    mine = event(40, "T2", "length", Level.CRIT, FIRING)
    run = FakeRun(Label.of("run"), timed(101, 30.0), events=[*foreign, mine], other_streams=(explorer,))
    timeline = build_timeline(Snapshot(run), EventFilter())
    assert [timeline.step_of(number, one) for number, one in enumerate(run.events)] == [30, 50, 40]
    (lane,) = timeline.lanes
    assert lane.firings == [Firing("T2", Level.WARN, 30, 50), Firing("T2", Level.CRIT, 40, None)]
    assert "explorer: it happened" in text_of(run)


def test_an_event_of_a_time_that_nobody_says_is_listed_and_not_drawn() -> None:
    foreign = event(90, "T2", "length", Level.WARN, FIRING, stream="explorer")
    run = FakeRun(Label.of("run"), timed(101, 30.0), events=[foreign], other_streams=())
    timeline = build_timeline(Snapshot(run), EventFilter())
    assert timeline.step_of(0, foreign) is None
    assert timeline.lanes[0].firings == []
    assert "explorer: it happened" in text_of(run)


def test_the_list_is_sorted_by_any_head_and_says_which() -> None:
    snapshot = Snapshot(run_with(LOG))
    heads = {
        one.head: one
        for one in heads_of(paint_timeline(snapshot, build_timeline(snapshot, EVERYTHING), 0, 120, 40, UNICODE))
    }
    assert list(heads) == ["step", "rule", "family", "event", "what happened"]
    for head, numbers in (("rule", (3, 2, 1, 0, 5, 4)), ("step", (5, 4, 3, 2, 1, 0)), ("event", (4, 2, 1, 5, 0, 3))):
        timeline = build_timeline(snapshot, EVERYTHING, heads[head])
        assert timeline.numbers == numbers, head
        assert any(f"▼{head}" in row or f"▲{head}" in row for row in painted(snapshot, timeline)), head
    assert build_timeline(snapshot, EventFilter(family="gradient"), Sorting("step", is_falling=False)).numbers == (
        0,
        1,
        2,
        5,
    )


def painted(snapshot: Snapshot, timeline: Timeline) -> list[str]:
    return [row.text for row in paint_timeline(snapshot, timeline, 0, 120, 40, UNICODE)]


def test_only_what_is_in_view_is_painted() -> None:
    log = [event(i % 5000, "O1", "gradient", Level.WARN, FACT, f"number {i}") for i in range(5000)]
    run = run_with(log, 5000)
    timeline = build_timeline(Snapshot(run), EventFilter())
    rows = paint_timeline(Snapshot(run), timeline, 4000, 100, 30, UNICODE)
    assert len(rows) == 30
    targets = [hot.target for row in rows for hot in row.links if hot.target.kind is TargetKind.EVENT]
    assert len(targets) == list_rows(timeline, 30)
    assert targets[0].kind is TargetKind.EVENT
    assert log[targets[0].step or 0].message == "number 999"


@each_row("size", [(40, 12), (60, 14), (80, 24), (120, 40), (200, 60)])
@each_row("glyphs", [UNICODE, ASCII])
def test_pages_keep_to_their_size(size: tuple[int, int], glyphs: Glyphs) -> None:
    hostile = event(70, "R1", "reward", Level.CRIT, WORSE, "\x1b[31m漢字" * 40)
    families = [event(i, f"Z{i}", f"family{i}", Level.WARN, FIRING) for i in range(40)]
    run = run_with([*LOG, hostile, *families])
    timeline = build_timeline(Snapshot(run), EventFilter())
    rows = paint_timeline(Snapshot(run, 33), timeline, 0, *size, glyphs)
    assert len(rows) == size[1]
    check_rows(rows, size[0], glyphs)
    assert lane_rows(timeline, size[1]) + list_rows(timeline, size[1]) <= size[1]


BEGUN_ANEW = [
    event(50, "O1", "gradient", Level.WARN, FIRING, "gradient norm 9"),
    event(180, "O1", "gradient", Level.WARN, OVER),
    event(190, "R1", "reward", Level.CRIT, FIRING, "reward gone"),
    event(60, "L6", "liveness", Level.INFO, FACT, "restarted at step 60"),
    event(60, "R1", "reward", Level.CRIT, OVER),
    event(80, "E1", "entropy", Level.WARN, FIRING, "entropy fell"),
]


def test_what_a_restart_went_back_behind_is_told_apart() -> None:
    assert overwritten_events(BEGUN_ANEW) == {1, 2}
    assert overwritten_events(LOG) == frozenset()
    shown = [row.text for row in paint_events(BEGUN_ANEW[:4:-1] + BEGUN_ANEW[2::-1], 100, UNICODE, BEGUN_ANEW)]
    assert ["before the restart: " in text for text in shown] == [False, True, True, False]
    run = run_with(BEGUN_ANEW)
    timeline = build_timeline(Snapshot(run), EVERYTHING)
    assert (timeline.first, timeline.last, timeline.newest) == (0, 190, 100)
    assert timeline.is_for(Snapshot(run), EVERYTHING)
    assert [timeline.step_of(number, one) for number, one in enumerate(BEGUN_ANEW)] == [50, None, None, 60, 60, 80]
    lanes = {lane.family: lane for lane in timeline.lanes}
    assert lanes["reward"].firings == [Firing("R1", Level.CRIT, 190, 190, is_old=True)]
    assert lanes["entropy"].firings == [Firing("E1", Level.WARN, 80, None)]
    lines = text_of(run).splitlines()
    assert sum("before the restart: " in line for line in lines) == 2
    assert "190" in lines[1]


def test_charts_have_no_marks_of_what_stood_before_a_restart() -> None:
    steps = {
        (marker.rule, marker.step) for marker in read_markers(Snapshot(run_with(BEGUN_ANEW)), 0, 200) if marker.rule
    }
    assert steps == {("O1", 50), ("R1", 60), ("E1", 80)}


def test_a_critical_alert_is_a_heavy_line_and_many_events_of_a_cell_are_their_number() -> None:
    log = [event(10, "O1", "gradient", Level.CRIT, FIRING), event(20, "O1", "gradient", Level.CRIT, OVER)]
    log += [event(1000 + step, "F3", "facts", Level.INFO, FACT) for step in range(8)]
    log += [event(2000 + step, "F3", "facts", Level.INFO, FACT) for step in range(30)]
    text = text_of(run_with(sorted(log, key=lambda one: one.step), steps=10_001))
    gradient, facts = text.splitlines()[2:4]
    assert gradient.split() == ["gradient", "2", "◆"]
    assert facts.split() == ["facts", "38", "8", "+"]
    short = text_of(run_with(log[:2]))
    assert "◆━━━━" in short and "█" not in short


def test_a_filter_says_how_it_is_cleared() -> None:
    keys = KeyNames({"back": ("Esc",)})
    for wanted, said in ((EVERYTHING, False), (EventFilter(level=Level.CRIT), True)):
        snapshot = Snapshot(run_with(LOG))
        title = paint_timeline(snapshot, build_timeline(snapshot, wanted), 0, 120, 40, UNICODE, keys)[0]
        assert ("Esc clears the filter" in title.text) is said


def test_a_recovery_that_the_next_row_may_undo_is_not_over_and_not_in_doubt() -> None:
    one = event(160, "O1", "gradient", Level.WARN, OVER, "gradient spike")._replace(is_provisional=True)
    words = [row.text for row in paint_events([one], 100, UNICODE, [one])]
    assert "recovering" in words[-1] and "not yet confirmed" not in words[-1]
    raised = one._replace(state=FIRING)
    words = [row.text for row in paint_events([raised], 100, UNICODE, [raised])]
    assert "raised" in words[-1] and "not yet confirmed: gradient spike" in words[-1]

"""The alerts that a run ever had: which was the worst, and which attempt it belongs to."""

from __future__ import annotations

from rltop.model import Event, EventState, Level
from rltop.run.past import history_of, standing_at


def event(step, rule, state, level=Level.CRIT, *, since=None, family="entropy", stream=""):
    return Event(step, step, rule, family, level, state, "what happened", stream=stream, since_step=since)


def restart(step):
    return Event(step, step, "L6", "schedule", Level.INFO, EventState.FACT, f"restarted at step {step}")


RAISED = [
    event(125, "E1", EventState.FIRING, Level.WARN, since=122),
    event(130, "E1", EventState.ESCALATED, since=122),
    event(146, "E1", EventState.RECOVERED, since=122),
]


def test_what_has_recovered_is_still_the_worst():
    history = history_of([*RAISED, event(200, "O1", EventState.FIRING, Level.WARN, since=199)])
    worst = history.worst
    assert (worst.rule, worst.level, worst.since_step, worst.step, worst.recovered_step) == (
        "E1", Level.CRIT, 122, 130, 146,
    )  # fmt: skip
    assert history.level is Level.CRIT


def test_info_is_no_alert_and_an_empty_log_has_none():
    assert history_of([event(5, "E4", EventState.FIRING, Level.INFO, since=4)]).alerts == ()
    assert history_of([]).worst is None and history_of([]).level is Level.OK


def test_of_crit_alerts_a_nan_comes_before_a_collapse_before_the_rest():
    found = [
        event(10, "E1", EventState.FIRING, since=9),
        event(20, "X1", EventState.FIRING, since=9, family="collapse"),
        event(30, "L1", EventState.FIRING, since=30, family="nonfinite"),
    ]
    assert [history_of(found[:count]).worst.rule for count in (1, 2, 3)] == ["E1", "X1", "L1"]


def test_an_attempt_that_a_restart_left_behind_is_an_earlier_one():
    left = history_of([*RAISED, restart(121)])
    assert left.worst is not None and left.worst.is_earlier and left.level is Level.OK
    # From a checkpoint after the onset the same weights go on.
    kept = history_of([*RAISED, restart(140)])
    assert kept.worst is not None and not kept.worst.is_earlier and kept.level is Level.CRIT
    # What the present attempt has had comes first, however mild.
    both = history_of([*RAISED, restart(100), event(150, "O1", EventState.FIRING, Level.WARN, since=149)])
    assert both.worst is not None and (both.worst.rule, both.level) == ("O1", Level.WARN)


def test_a_restart_of_one_stream_leaves_the_others_where_they_are():
    other = event(50, "A1", EventState.FIRING, since=50, stream="explorer")
    history = history_of([other, restart(10)])
    assert history.worst is not None and not history.worst.is_earlier


def test_muted_rules_count_for_nothing_and_are_counted():
    history = history_of([*RAISED, event(200, "O1", EventState.FIRING, Level.WARN, since=199)], {"E1"})
    assert (history.level, history.muted, len(history.alerts)) == (Level.WARN, 1, 2)


def test_an_alert_that_is_back_as_bad_as_it_was_begins_where_its_verdict_says() -> None:
    raised = [event(22, "T1", EventState.FIRING, Level.WARN, since=18)]
    back = event(113, "T1", EventState.RESUMED, Level.WARN, since=109)
    for ended in (EventState.SETTLED, EventState.RECOVERED):
        (alert,) = history_of([*raised, event(76, "T1", ended, Level.WARN, since=18), back]).alerts
        assert (alert.since_step, alert.step, alert.recovered_step, alert.settled_step) == (109, 113, None, None)
    milder = history_of([*RAISED, event(160, "E1", EventState.RESUMED, Level.WARN, since=158)]).alerts
    assert [(one.level, one.since_step, one.recovered_step) for one in milder] == [
        (Level.CRIT, 122, 146), (Level.WARN, 158, None),
    ]  # fmt: skip


def test_a_note_that_takes_over_an_alert_does_not_begin_its_incident():
    log = [
        event(115, "O11", EventState.FIRING, Level.INFO, since=109)._replace(part="O12"),
        event(121, "L8", EventState.FIRING, Level.WARN, since=121)._replace(incident=1),
        event(126, "O11", EventState.ESCALATED, since=122)._replace(incident=1),
        event(187, "O11", EventState.EASED, Level.INFO, since=109)._replace(part="O12"),
    ]
    for step in (130, 200):
        begun = {one.rule: one.incident for one in standing_at(log, step, (), None)}
        assert {one and (one.rule, one.step) for one in begun.values()} == {("L8", 121)}

"""What is announced of a run, once each, whatever order its streams are told in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rltop.model import Event, EventState, Level, Verdict, VerdictState
from rltop.report.notices import Announcer, notice_document, notice_words

VERDICT = Verdict(
    "T1", "truncation", "truncation", "learning", Level.WARN, VerdictState.FIRING, "truncated_frac", "key", 3, 3, "cut"
)


def event(step: int, state: EventState, level: Level = Level.WARN, rule: str = "T1", stream: str = "") -> Event:
    return Event(step, step, rule, "truncation", level, state, f"{state.value} at {step}", stream)


class Run(SimpleNamespace):
    """What an announcer reads of a run."""

    def __init__(self, *events: Event, verdicts: tuple[Verdict, ...] = (), **more: Any) -> None:
        stream = SimpleNamespace(last_step=9, rows=9)
        main = SimpleNamespace(judging=SimpleNamespace(muted=frozenset()), stream=stream)
        said = {"events": list(events), "verdicts": list(verdicts), "main": main}
        super().__init__(**said, has_caught_up=True, **more)


def told(announcer: Announcer) -> list[tuple[str, str, str, int]]:
    return [(one.kind.value, one.stream, one.rule, one.step) for one in announcer.news()]


def test_nothing_is_said_before_the_history_is_read() -> None:
    run = Run(event(3, EventState.FIRING), verdicts=(VERDICT,))
    run.has_caught_up = False
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert announcer.news() == [] and not announcer.has_begun
    run.has_caught_up = True
    (past,) = announcer.news()
    assert past.is_past and past.since_step == 3 and announcer.past_events == 1
    assert announcer.worst is Level.NO_DATA
    assert announcer.news() == []


def test_a_verdict_seen_in_the_open_row_is_not_said_again_when_it_closes() -> None:
    run = Run()
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert told(announcer) == []
    run.verdicts = [VERDICT]
    assert told(announcer) == [("raised", "", "T1", 9)]
    run.events.append(event(9, EventState.FIRING))
    assert told(announcer) == []
    run.verdicts = [VERDICT._replace(level=Level.CRIT)]
    assert told(announcer) == [("escalated", "", "T1", 9)]
    run.verdicts = []
    assert told(announcer) == [("recovered", "", "T1", 9)]
    run.events.append(event(10, EventState.RECOVERED))
    assert told(announcer) == []


def test_what_began_and_ended_between_two_looks_is_said() -> None:
    run = Run()
    announcer = Announcer(run)  # type: ignore[arg-type]
    announcer.news()
    run.events += [
        event(4, EventState.FIRING), event(5, EventState.ESCALATED, Level.CRIT), event(8, EventState.RECOVERED),
        event(9, EventState.FACT, Level.INFO, "L6"),
    ]  # fmt: skip
    notices = announcer.news()
    assert [(one.kind.value, one.step) for one in notices] == [
        ("raised", 4), ("escalated", 5), ("recovered", 8), ("fact", 9)
    ]  # fmt: skip
    assert len({one.episode for one in notices[:3]}) == 1
    assert announcer.worst is Level.CRIT


def test_streams_are_told_apart_even_where_their_events_are_put_between_others() -> None:
    own, other = event(6, EventState.FIRING), event(30, EventState.FIRING, stream="explorer")
    run = Run(verdicts=())
    announcer = Announcer(run)  # type: ignore[arg-type]
    announcer.news()
    run.events, run.verdicts = [own], [VERDICT]
    assert told(announcer) == [("raised", "", "T1", 6)]
    run.events = [other, own]
    run.verdicts = [VERDICT, VERDICT._replace(stream="explorer")]
    assert told(announcer) == [("raised", "explorer", "T1", 30)]
    run.verdicts = [VERDICT._replace(stream="explorer")]
    assert told(announcer) == [("recovered", "", "T1", 9)]


def test_a_notice_is_one_line_and_harmless() -> None:
    run = Run(verdicts=(VERDICT._replace(headline="a\x1b[2J\nb"),))
    (notice,) = Announcer(run).news()  # type: ignore[arg-type]
    words = notice_words(notice)
    assert words.isprintable() and "before watching started" in words and "since step 3" in words
    assert notice_document(notice)["headline"] == "a\x1b[2J\nb"


def test_what_an_earlier_clock_puts_before_an_alarm_does_not_repeat_it() -> None:
    run = Run(event(5, EventState.FIRING))
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert told(announcer) == []
    run.events = [event(6, EventState.FACT, Level.INFO, "L6"), event(7, EventState.RECOVERED), *run.events]
    assert told(announcer) == [("fact", "", "L6", 6)]


def test_what_began_in_a_row_that_may_change_is_told_at_this_row() -> None:
    run = Run()
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert told(announcer) == []
    run.verdicts, begun = [VERDICT], event(6, EventState.FIRING)
    run.events = [begun._replace(is_provisional=True)]
    assert told(announcer) == [("raised", "", "T1", 6)]
    run.events = [begun]
    assert told(announcer) == []


def test_what_leaves_the_level_at_which_it_had_settled_has_not_recovered() -> None:
    run = Run()
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert told(announcer) == []
    run.events += [event(4, EventState.FIRING), event(6, EventState.SETTLED), event(9, EventState.FIRING)]
    run.verdicts = [VERDICT]
    notices = announcer.news()
    assert [(one.kind.value, one.step) for one in notices] == [("raised", 4), ("settled", 6), ("raised", 9)]
    assert notices[0].episode != notices[2].episode


def test_the_onset_is_said_once() -> None:
    (notice,) = Announcer(Run(verdicts=(VERDICT._replace(headline="9 → 2 since step 3"),))).news()  # type: ignore[arg-type]
    assert notice_words(notice).count("since step 3") == 1


def test_a_title_is_not_said_twice() -> None:
    plateau = VERDICT._replace(title="plateau", headline="plateau: best 0.9")
    (notice,) = Announcer(Run(verdicts=(plateau,))).news()  # type: ignore[arg-type]
    assert notice_words(notice).count("plateau") == 1


def test_what_was_over_before_it_was_told_began_where_its_event_says() -> None:
    run = Run()
    announcer = Announcer(run)  # type: ignore[arg-type]
    assert told(announcer) == []
    run.events += [
        event(5, EventState.FIRING)._replace(since_step=3),
        event(9, EventState.RECOVERED)._replace(since_step=3),
    ]
    fires, recovered = announcer.news()
    assert fires.since_step == recovered.since_step == 3
    assert recovered.headline == "recovered; began at step 3"

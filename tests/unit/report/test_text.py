"""The overview and the verdicts as text."""

from __future__ import annotations

import re
from dataclasses import replace

from fake_run import FakeRun, run_of, verl_lines, verl_rows
from tables import each_row

from rltop.model import Event, EventState, Evidence, Level, VerdictState
from rltop.report.text import check_text, evidence_words, once_text
from rltop.rows.glyphs import cell_width
from rltop.run.snapshot import Snapshot

_CODE = re.compile(r"\x1b\[[0-9;]*m")


def test_plain_text_has_no_codes_and_no_blanks_at_the_ends(run: FakeRun) -> None:
    text = once_text(Snapshot(run), 100)
    assert "\x1b" not in text
    assert text.endswith("\n")
    assert all(line == line.rstrip() and cell_width(line) <= 100 for line in text.splitlines())


def test_without_a_height_everything_is_said(run: FakeRun) -> None:
    text = once_text(Snapshot(run), 120)
    for part in ("LEARNING", "SYSTEM", "validation", "policy loss", "STEP 1,204", "other", "STRAGGLERS", "EVENTS"):
        assert part in text


def test_a_height_is_kept(run: FakeRun) -> None:
    assert len(once_text(Snapshot(run), 80, 22).splitlines()) == 22


def test_coloured_text_says_the_same(run: FakeRun) -> None:
    coloured = once_text(Snapshot(run), 100, use_color=True)
    assert "\x1b[" in coloured
    stripped = [line.rstrip() for line in _CODE.sub("", coloured).splitlines()]
    assert stripped == once_text(Snapshot(run), 100).splitlines()


def test_every_coloured_line_leaves_the_terminal_as_it_was(run: FakeRun) -> None:
    for line in once_text(Snapshot(run), 100, use_color=True).splitlines():
        codes = _CODE.findall(line)
        assert not codes or codes[-1] == "\x1b[0m"


def test_ascii_is_ascii(run: FakeRun) -> None:
    text = once_text(Snapshot(run), 100, is_ascii=True)
    assert text.isascii()
    assert "X response length" in text
    assert "! KL to reference" in text


def test_the_check_tells_what_fires_and_what_happened(run: FakeRun) -> None:
    text = check_text(Snapshot(run))
    assert "1,204 records, up to step 1,204" in text
    assert "◆ CRIT" in text
    assert "answers are 3.7× as long as at the start, 20 % of them cut off" in text
    assert "events: 6" in text
    assert not text.endswith("\n")


def test_the_check_marks_what_stays_at_another_level_as_the_screen_does(run: FakeRun) -> None:
    settled = run.verdicts[0]._replace(state=VerdictState.SETTLED)
    text = check_text(Snapshot(replace(run, verdicts=(settled,))))
    assert f"new level since {settled.since_step:,}" in text


def test_the_check_of_a_calm_run_says_so() -> None:
    calm = run_of(verl_lines(verl_rows(60)))
    calm.verdicts, calm.events = [], []
    assert "no alerts at the end" in check_text(Snapshot(calm))


def test_the_check_of_nothing_says_so() -> None:
    text = check_text(Snapshot(run_of(b"not json\n")))
    assert "no metrics found" in text
    assert "1 unreadable line" in text


@each_row("width", [60, 80, 100])
def test_the_check_leaves_no_word_of_an_event_out(run: FakeRun, width: int) -> None:
    text = check_text(Snapshot(run), width=width)
    assert all(cell_width(line) <= width for line in text.splitlines())
    flat = " ".join(text.split())
    for event in run.events:
        assert event.message in flat
    assert "\x1b" not in text


def test_the_check_says_what_the_settings_mute(run: FakeRun) -> None:
    assert "muted" not in check_text(Snapshot(run))
    assert "muted in the config: L1, O1" in check_text(Snapshot(replace(run, silenced=frozenset({"O1", "L1"}))))


def test_the_check_tells_the_facts_that_explain_and_no_routine(run: FakeRun) -> None:
    told = [
        Event(170, 121, "L6", "liveness", Level.INFO, EventState.FACT, "restarted at step 121 (was at 170)"),
        Event(180, 130, "F2", "facts", Level.INFO, EventState.FACT, "checkpoint 130"),
    ]
    restarted = replace(run, events=told)
    assert "restarted at step 121 (was at 170)" in check_text(Snapshot(restarted))
    assert "checkpoint 130" not in check_text(Snapshot(restarted))
    assert "restarted" not in check_text(Snapshot(restarted), since=122)
    assert "facts" not in check_text(Snapshot(replace(run, events=told[1:])))


@each_row(("name", "said"), [("grad_norm", "9.55"), ("grad_norm, last 3", "last 3 9.55")])
def test_the_key_that_stands_before_the_evidence_is_not_in_it_once_more(name: str, said: str) -> None:
    found = [Evidence(name, 9.55), Evidence("baseline", 0.5)]
    assert evidence_words(found, "grad_norm") == f"{said}, baseline 0.500"
    assert evidence_words(found) == f"{name.replace('grad_norm', 'gradient norm')} 9.55, baseline 0.500"
